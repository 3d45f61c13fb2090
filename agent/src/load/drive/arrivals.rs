//! The open loop: arrivals at their times, whatever became of those before. Each goes to an idle
//! client, or waits in order for one, and is then sent however late it is; what waits is the
//! difference of two numbers. An arrival is one request, or a conversation whose later turns are
//! due when the one before is done.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use contracts::run::Load;
use contracts::sample::ErrorClass;
use tokio::task::{JoinError, JoinSet};

use super::floor::{Floor, Turn};
use super::pacer::Pacer;
use super::pool::{self, Pool};
use super::shelf::turns;
use crate::load::answer::failure;
use crate::load::client::{Client, Shared};
use crate::load::schedule::Schedule;
use crate::load::tally::Phase;

/// Arrivals of a schedule that may wait at once. Beyond, the answer is known: the server does not
/// keep up, and a longer run says no more.
const WAITING_MAX: usize = 100_000;
/// Arrivals that were due and not sent when a run was ended, of which samples are stored: each is
/// as large as any other, and they all say the same.
const UNSENT_SAMPLES_MAX: usize = 10_000;
/// What is said of them.
const UNSENT: &str = "was due and not sent before the run's sending ended";
/// From the making of the clock's plan to the first arrival: time to start a thread.
const LEAD_NS: u64 = 5_000_000;

/// Makes all requests of `schedule`.
pub(super) async fn all(floor: &Rc<Floor>, shared: &Arc<Shared>, schedule: Schedule) {
    let Some(pool) = pool(floor, shared, schedule.offsets_ns.len()).await else {
        return;
    };
    floor.ready().await;
    let mut dispatch = Dispatch {
        floor: Rc::clone(floor),
        pool,
        at_work: JoinSet::new(),
        next: (Phase::Warmup, 0),
        wave: 0,
        waiting_max: WAITING_MAX,
    };
    let base_ns = floor.clock.now_ns() + LEAD_NS;
    if matches!(floor.job.load, Load::Burst { .. }) {
        dispatch.bursts(schedule, base_ns).await;
    } else {
        let measured = Some(schedule.warmup);
        dispatch.batch(schedule.offsets_ns, base_ns, measured).await;
    }
    dispatch.drain().await;
}

async fn pool(floor: &Rc<Floor>, shared: &Arc<Shared>, arrivals: usize) -> Option<Pool> {
    let Some(cap) = floor.job.slots() else {
        let wanted = u32::try_from(arrivals).unwrap_or(u32::MAX);
        return Some(Pool::growing(Arc::clone(shared), wanted));
    };
    match pool::open_ahead(shared, cap, floor.job.keepalive, &floor.stop).await {
        Ok(clients) => Some(Pool::full(Arc::clone(shared), clients)),
        Err(error) => {
            floor.unopened(error).await;
            None
        }
    }
}

struct Dispatch {
    floor: Rc<Floor>,
    pool: Pool,
    /// Each gives its client back, and when it became free.
    at_work: JoinSet<(Client, u64)>,
    /// Phase and index of the first request of the next arrival.
    next: (Phase, u32),
    /// Of the next arrivals, how many are the first of their slots.
    wave: usize,
    /// Arrivals that may wait.
    waiting_max: usize,
}

impl Dispatch {
    /// Two bursts. With a cap the second is due when the first slot is free for it, while the
    /// others still warm up; without one there are no slots to hand over.
    async fn bursts(&mut self, schedule: Schedule, base_ns: u64) {
        let Schedule {
            mut offsets_ns,
            warmup,
            ..
        } = schedule;
        // What waits is the burst itself, and no more than that.
        self.waiting_max = usize::MAX;
        let measured = offsets_ns.split_off(warmup);
        let capped = self.floor.job.slots().is_some();
        if capped {
            self.wave = self.pool.cap() as usize;
        }
        self.batch(offsets_ns, base_ns, None).await;
        if !capped {
            self.drain().await;
            self.wave = measured.len();
        } else if self.pool.is_busy()
            && let Some(ended) = self.at_work.join_next().await
        {
            self.take_back(ended);
        }
        if self.floor.sending() {
            let base_ns = self.floor.clock.now_ns();
            self.batch(measured, base_ns, Some(0)).await;
        }
    }

    /// Sends the arrivals due at `offsets_ns` after `base_ns`; those still in flight at its end
    /// stay so. `measured` is the place of the first measured one, where the window begins.
    async fn batch(&mut self, offsets_ns: Vec<u64>, base_ns: u64, measured: Option<usize>) {
        let floor = Rc::clone(&self.floor);
        let offsets_ns: Arc<[u64]> = offsets_ns.into();
        if let Some(from_ns) = measured.and_then(|i| offsets_ns.get(i)) {
            floor.open_window(base_ns.saturating_add(*from_ns));
        }
        let pacer = match Pacer::start(Arc::clone(&offsets_ns), base_ns, floor.clock) {
            Ok(pacer) => pacer,
            Err(error) => return floor.fail(floor.stage(), format!("start a thread: {error}")),
        };
        let mut over = pin!(floor.over());
        let mut sent = 0;
        while sent < offsets_ns.len() {
            let due = pacer.due();
            while let Some(offset_ns) = offsets_ns.get(sent).filter(|_| sent < due) {
                if !self.send(base_ns.saturating_add(*offset_ns)).await {
                    break;
                }
                sent += 1;
            }
            let waiting = due - sent;
            floor.waiting(waiting);
            if waiting > self.waiting_max {
                floor.fail(
                    floor.stage(),
                    format!("{waiting} requests are due and wait: the server does not keep up; lower the rate, or measure for a shorter time"),
                );
            }
            if !floor.sending() {
                let due = offsets_ns.get(sent..pacer.due()).unwrap_or_default();
                return self.unsent(due, base_ns).await;
            }
            tokio::select! {
                () = pacer.more(), if due < offsets_ns.len() => {}
                Some(ended) = self.at_work.join_next() => self.take_back(ended),
                () = &mut over => {}
            }
            while let Some(ended) = self.at_work.try_join_next() {
                self.take_back(ended);
            }
        }
    }

    /// Sends the next arrival, if a client is free for it and it may still go.
    async fn send(&mut self, due_ns: u64) -> bool {
        let Some((mut client, released_ns)) = self.pool.get(due_ns) else {
            return false;
        };
        let Some(group) = self.floor.take().await else {
            self.pool.put(client, due_ns);
            return false;
        };
        let turns = 1 + u32::try_from(group.rest.len()).unwrap_or(u32::MAX);
        self.next = (group.phase, group.index.saturating_add(turns));
        let turn = Turn {
            group,
            due_ns,
            released_ns,
            first_of_slot: self.wave > 0,
        };
        self.wave = self.wave.saturating_sub(1);
        let floor = Rc::clone(&self.floor);
        self.at_work.spawn_local(async move {
            let free_ns = floor.serve(&mut client, turn).await;
            (client, free_ns)
        });
        true
    }

    fn take_back(&mut self, ended: Result<(Client, u64), JoinError>) {
        match ended {
            Ok((client, free_ns)) => self.pool.put(client, free_ns),
            Err(error) => self.floor.fail(
                self.floor.stage(),
                format!("internal error of a request: {error}"),
            ),
        }
    }

    /// Waits for all that is in flight.
    async fn drain(&mut self) {
        while let Some(ended) = self.at_work.join_next().await {
            self.take_back(ended);
        }
    }

    /// Samples of arrivals that were due when sending ended.
    async fn unsent(&mut self, due_offsets_ns: &[u64], base_ns: u64) {
        let floor = Rc::clone(&self.floor);
        floor.unstored(due_offsets_ns.len().saturating_sub(UNSENT_SAMPLES_MAX));
        let job = &floor.job;
        for offset_ns in due_offsets_ns.iter().take(UNSENT_SAMPLES_MAX) {
            if self.next.0 == Phase::Warmup && self.next.1 >= job.warmup {
                self.next = (Phase::Measure, 0);
            }
            let (phase, index) = self.next;
            let total = match phase {
                Phase::Warmup => job.warmup,
                Phase::Measure => job.n_runs,
            };
            let error = failure(ErrorClass::Aborted, UNSENT);
            let due_ns = base_ns.saturating_add(*offset_ns);
            floor.unsent(phase, index, due_ns, error).await;
            self.next = (phase, index + turns(&job.bodies, index, total));
        }
    }
}
