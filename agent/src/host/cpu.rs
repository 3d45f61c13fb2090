//! Who used the machine's CPU over an interval: this process and its descendants, or others.
//!
//! Foreign share = (busy + steal − own) / total, of all cores. Busy comes from `/proc/stat` as what
//! is neither idle nor waiting for a disk; steal is time that a hypervisor gave to other guests,
//! which disturbs a measurement as any other work does. Own is the user and system time of every
//! process in the tree below this one, dead ones through the parent that reaped them: engines stay
//! in the tree, since their keeper adopts what leaves its group. The kernel counts in ticks of
//! 10 ms, so over an interval of a second on two cores the share is good to about a percent.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use procfs::process::{Stat, all_processes};
use procfs::{CurrentSI, KernelStats, ProcResult};

use super::tree;

/// Intervals shorter than this many ticks over all cores say nothing: one tick would be percents.
const TICKS_MIN: u64 = 20;

/// The CPU's counters at the start of an interval.
#[derive(Debug, Clone)]
pub struct CpuMeter {
    start: Reading,
}

/// Use of the CPU over an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUse {
    /// Share of the machine used by others, 0 to 1; none if the interval was too short to say.
    pub foreign_share: Option<f64>,
    /// CPU time of this process alone.
    pub own_ms: f64,
    /// Length of the interval.
    pub interval_ms: f64,
}

/// Pids of this process and its descendants.
pub fn own_pids() -> BTreeSet<i32> {
    let root = i32::try_from(std::process::id()).unwrap_or_default();
    let processes = all_processes().into_iter().flatten();
    let stats = processes.filter_map(|process| process.ok()?.stat().ok());
    tree::members(root, stats.map(|stat| (stat.pid, stat.ppid)))
}

/// Counters in ticks, as the kernel gives them.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    /// Of all cores, idle included.
    total_ticks: u64,
    /// Idle, or waiting for a disk.
    idle_ticks: u64,
    /// This process and its descendants.
    tree_ticks: u64,
    /// This process alone.
    own_ms: f64,
}

impl CpuMeter {
    /// Starts an interval. Reads `/proc/PID/stat` of all processes: some ms on a full machine, so
    /// it belongs before and after what is measured.
    pub fn start() -> ProcResult<Self> {
        Ok(Self {
            start: Reading::now()?,
        })
    }

    /// The use since the start. May be called again for a longer interval.
    pub fn read(&self) -> ProcResult<CpuUse> {
        Ok(use_between(&self.start, &Reading::now()?))
    }
}

impl Reading {
    fn now() -> ProcResult<Self> {
        let processes = all_processes()?.filter_map(|p| p.ok()?.stat().ok());
        let tree_ticks = tree_ticks(std::process::id(), processes);
        let (total_ticks, idle_ticks) = machine_ticks(&KernelStats::current()?);
        Ok(Self {
            at: Instant::now(),
            total_ticks,
            idle_ticks,
            tree_ticks,
            own_ms: cpu_time(UsageWho::RUSAGE_SELF).map_or(0.0, |used| used.as_secs_f64() * 1e3),
        })
    }
}

/// CPU time of this process, all threads, or of the calling thread; none if the kernel refuses.
pub fn cpu_time(of: UsageWho) -> Option<Duration> {
    let usage = getrusage(of).ok()?;
    let us = |time: TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    let us = us(usage.user_time()) + us(usage.system_time());
    Some(Duration::from_micros(us.unsigned_abs()))
}

/// Ticks of all cores: all, and idle ones. Guest time is within user time already.
fn machine_ticks(stats: &KernelStats) -> (u64, u64) {
    let t = &stats.total;
    let idle = t.idle + t.iowait.unwrap_or(0);
    let irq = t.irq.unwrap_or(0) + t.softirq.unwrap_or(0);
    let busy = t.user + t.nice + t.system + irq + t.steal.unwrap_or(0);
    (busy + idle, idle)
}

/// Ticks of `root` and its descendants, with those of the dead that they reaped.
fn tree_ticks(root: u32, processes: impl Iterator<Item = Stat>) -> u64 {
    let stats: Vec<Stat> = processes.collect();
    let root = i32::try_from(root).unwrap_or_default();
    let members = tree::members(root, stats.iter().map(|stat| (stat.pid, stat.ppid)));
    let ours = stats.iter().filter(|stat| members.contains(&stat.pid));
    ours.map(|stat| {
        let reaped = stat.cutime.max(0) + stat.cstime.max(0);
        stat.utime + stat.stime + reaped.unsigned_abs()
    })
    .sum()
}

fn use_between(start: &Reading, end: &Reading) -> CpuUse {
    let since = |f: fn(&Reading) -> u64| f(end).saturating_sub(f(start));
    let total = since(|r| r.total_ticks);
    let busy = total.saturating_sub(since(|r| r.idle_ticks));
    let foreign = busy.saturating_sub(since(|r| r.tree_ticks));
    CpuUse {
        foreign_share: (total >= TICKS_MIN)
            .then(|| (foreign as f64 / total as f64).clamp(0.0, 1.0)),
        own_ms: (end.own_ms - start.own_ms).max(0.0),
        interval_ms: end.at.duration_since(start.at).as_secs_f64() * 1e3,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {

    use procfs::{FromBufReadSI, FromRead};

    use super::*;

    fn reading(at: Instant, total: u64, idle: u64, tree: u64) -> Reading {
        Reading {
            at,
            total_ticks: total,
            idle_ticks: idle,
            tree_ticks: tree,
            own_ms: tree as f64,
        }
    }

    fn foreign(total: u64, idle: u64, tree: u64) -> Option<f64> {
        let at = Instant::now();
        let start = reading(at, 1000, 500, 70);
        let end = reading(
            at + Duration::from_secs(1),
            1000 + total,
            500 + idle,
            70 + tree,
        );
        use_between(&start, &end).foreign_share
    }

    #[test]
    fn foreign_is_what_is_busy_and_not_ours() {
        assert_eq!(foreign(200, 100, 80), Some(0.1));
        assert_eq!(foreign(200, 0, 0), Some(1.0));
        // Ticks are rounded: ours may come out as more than all.
        assert_eq!(foreign(200, 150, 60), Some(0.0));
        assert_eq!(foreign(10, 0, 0), None);
        // Counters of a core that was unplugged go back.
        assert_eq!(
            use_between(
                &reading(Instant::now(), 9, 9, 9),
                &reading(Instant::now(), 0, 0, 0)
            )
            .foreign_share,
            None
        );
    }

    #[test]
    fn steal_counts_as_busy_and_guests_once() {
        let text = "cpu  100 5 50 800 40 1 2 7 60 3\ncpu0 100 5 50 800 40 1 2 7 60 3\n\
                    intr 0\nctxt 1\nbtime 1\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n";
        let stats =
            KernelStats::from_buf_read(text.as_bytes(), procfs::current_system_info()).unwrap();
        assert_eq!(machine_ticks(&stats), (1005, 840));
    }

    fn stat(pid: i32, ppid: i32, ticks: u64) -> Stat {
        let line = format!(
            "{pid} (a) b) S {ppid} 1 1 0 -1 4194304 1 0 0 0 {ticks} 1 2 3 20 0 1 0 99 1 1 \
             18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 1 1 1 1 1 1 1 0"
        );
        Stat::from_read(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_tree_is_all_descendants_and_the_dead_they_reaped() {
        let all = [
            stat(1, 0, 5000),
            stat(10, 1, 100),
            stat(11, 10, 200),
            stat(12, 11, 300),
            stat(20, 1, 7000),
        ];
        // Each has one tick of system time and five of reaped children beside its own.
        assert_eq!(tree_ticks(10, all.into_iter()), 600 + 3 * 6);
        assert_eq!(tree_ticks(99, std::iter::empty()), 0);
    }
}
