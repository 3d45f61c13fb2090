//! Facts of the machine from `/proc`, `/sys` and `/etc`, each within what this process's container
//! allows, and the fingerprint over them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use contracts::host::{HostFacts, HostState};
use procfs::{CpuInfo, Current, LoadAverage, Meminfo};
use sha2::{Digest, Sha256};

use super::cpu::own_pids;
use super::gpu::{gpus, gpus_now};
use super::sensors;

/// Total memory differs by some MiB from boot to boot; the fingerprint looks at it this coarsely.
const FINGERPRINT_MEMORY_STEP_BYTES: u64 = 256 << 20;

/// Stable facts. NVML takes a part of a second where there are GPUs: ask once and keep them.
pub fn facts() -> HostFacts {
    let mut facts = HostFacts {
        fingerprint: String::new(),
        hostname: read_line("/proc/sys/kernel/hostname"),
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        kernel: read_line("/proc/sys/kernel/osrelease"),
        cpu_model: cpu_model(),
        cores: cores(),
        memory_bytes: memory_bytes(),
        gpus: gpus(),
    };
    let ids = ["/etc/machine-id", "/var/lib/dbus/machine-id"].map(read_line);
    let machine_id = ids.iter().find(|id| !id.is_empty());
    facts.fingerprint = fingerprint(&facts, machine_id.map_or("", String::as_str));
    facts
}

/// Facts that change.
pub fn state() -> HostState {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let available = Meminfo::current().ok().and_then(|m| m.mem_available);
    let room = memory_limits()
        .into_iter()
        .map(|(limit, used)| limit.saturating_sub(used));
    HostState {
        load_1m: LoadAverage::current().map_or(0.0, |load| f64::from(load.one)),
        memory_available_bytes: room.chain(available).min().unwrap_or_default(),
        now_unix_ms: now.map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
        ..HostState::default()
    }
}

/// When a machine is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// No engine of ours is up.
    BeforeEngine,
    /// The engine of a run is up.
    WithEngine,
}

/// [`state`] with clocks, heat and GPUs. NVML and some drivers of clocks take a part of a second: call
/// it where blocking is fine and nothing is measured.
pub fn whole_state(moment: Moment) -> HostState {
    HostState {
        cpu_mhz: sensors::cpu_mhz(),
        cpu_celsius: sensors::cpu_celsius(),
        gpus: gpus_now(&own_pids(), moment),
        ..state()
    }
}

/// SHA-256 (hex) over all facts but the host's name, which people change, and the machine's id,
/// which tells equal machines apart.
fn fingerprint(facts: &HostFacts, machine_id: &str) -> String {
    let memory = facts.memory_bytes / FINGERPRINT_MEMORY_STEP_BYTES;
    let mut lines = vec![
        machine_id.to_owned(),
        facts.platform.clone(),
        facts.kernel.clone(),
        facts.cpu_model.clone(),
        facts.cores.to_string(),
        memory.to_string(),
    ];
    for gpu in &facts.gpus {
        let facts = [&gpu.uuid, &gpu.name, &gpu.driver].map(String::as_str);
        lines.push(format!("{} {}", facts.join(" "), gpu.memory_bytes));
    }
    hex::encode(Sha256::digest(lines.join("\n")))
}

fn read_line(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// Not every architecture has a model name; then the implementer's and the part's numbers serve.
fn cpu_model() -> String {
    let Ok(info) = CpuInfo::current() else {
        return std::env::consts::ARCH.to_owned();
    };
    model_of(&info).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn model_of(info: &CpuInfo) -> Option<String> {
    if let Some(name) = info.model_name(0) {
        return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let implementer = info.get_field(0, "CPU implementer")?;
    let part = info.get_field(0, "CPU part").unwrap_or("?");
    Some(format!("implementer {implementer} part {part}"))
}

/// Cores by affinity and by the container's quota, whichever is less.
fn cores() -> u32 {
    let cores = std::thread::available_parallelism();
    cores.map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

fn memory_bytes() -> u64 {
    let total = Meminfo::current().map_or(0, |m| m.mem_total);
    let limits = memory_limits().into_iter().map(|(limit, _)| limit);
    limits.chain([total]).min().unwrap_or_default()
}

/// Limit and use of memory of each control group that this process is in, from its own up.
fn memory_limits() -> Vec<(u64, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for group in memory_groups(&groups) {
        for folder in group.folder.ancestors() {
            let (limit, used) = match group.version {
                Version::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes"),
                Version::V2 => ("memory.max", "memory.current"),
            };
            if let Ok(limit) = read_line(folder.join(limit)).parse() {
                let used = read_line(folder.join(used)).parse().unwrap_or(0);
                limits.push((limit, used));
            }
            if folder == group.root {
                break;
            }
        }
    }
    limits
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A control group that may limit memory.
#[derive(Debug, PartialEq, Eq)]
struct MemoryGroup {
    version: Version,
    /// Where its hierarchy is mounted.
    root: PathBuf,
    folder: PathBuf,
}

/// The groups that `/proc/self/cgroup` names: `0::/path` is version 2, `N:…memory…:/path` 1.
fn memory_groups(text: &str) -> Vec<MemoryGroup> {
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (version, root) = if controllers.is_empty() {
            (Version::V2, "/sys/fs/cgroup")
        } else if controllers.split(',').any(|c| c == "memory") {
            (Version::V1, "/sys/fs/cgroup/memory")
        } else {
            continue;
        };
        // Within a container's namespace the path may point out of the mount.
        let path = path.trim_start_matches('/');
        let inside = !path.split('/').any(|part| part == "..");
        let root = PathBuf::from(root);
        groups.push(MemoryGroup {
            version,
            folder: if inside {
                root.join(path)
            } else {
                root.clone()
            },
            root,
        });
    }
    groups
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::host::GpuFacts;
    use procfs::FromRead;

    use super::*;

    fn some_facts() -> HostFacts {
        HostFacts {
            hostname: "a".into(),
            platform: "linux x86_64".into(),
            kernel: "6.1".into(),
            cpu_model: "CPU".into(),
            cores: 2,
            memory_bytes: 8 << 30,
            gpus: vec![GpuFacts::default()],
            ..HostFacts::default()
        }
    }

    #[test]
    fn the_fingerprint_changes_with_the_machine_and_not_with_its_name() {
        let facts = some_facts();
        let base = fingerprint(&facts, "id");
        assert_eq!(base.len(), 64);
        let renamed = HostFacts {
            hostname: "b".into(),
            memory_bytes: facts.memory_bytes + 4096,
            ..facts.clone()
        };
        assert_eq!(fingerprint(&renamed, "id"), base);
        let smaller = HostFacts {
            cores: 1,
            ..facts.clone()
        };
        let without = HostFacts {
            gpus: Vec::new(),
            ..facts.clone()
        };
        let others = [
            fingerprint(&facts, "other"),
            fingerprint(&smaller, "id"),
            fingerprint(&without, "id"),
        ];
        assert!(others.iter().all(|other| *other != base));
    }

    #[test]
    fn control_groups_of_both_versions_are_found() {
        let text = "9:name=systemd:/\n4:cpu,memory:/docker/ab\n1:cpu:/\n0::/user.slice/x\n";
        let found = memory_groups(text);
        let folders: Vec<_> = found.iter().map(|g| g.folder.to_str().unwrap()).collect();
        assert_eq!(
            folders,
            [
                "/sys/fs/cgroup/memory/docker/ab",
                "/sys/fs/cgroup/user.slice/x"
            ]
        );
        let outside = memory_groups("0::/../x\n");
        assert_eq!(outside[0].folder, Path::new("/sys/fs/cgroup"));
        assert_eq!(memory_groups("nonsense"), []);
    }

    #[test]
    fn a_cpu_has_a_name_on_each_architecture() {
        let model = |text: &str| model_of(&CpuInfo::from_read(text.as_bytes()).unwrap());
        let x86 = "processor\t: 0\nmodel name\t: Some  CPU @ 2.0GHz\n\n";
        assert_eq!(model(x86).unwrap(), "Some CPU @ 2.0GHz");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n";
        assert_eq!(model(arm).unwrap(), "implementer 0x41 part 0xd0c");
    }
}
