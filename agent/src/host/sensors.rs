//! Clock and heat of the processor from `/proc` and `/sys`. A container or a guest often shows
//! neither: then nothing is known, which is no error.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::{CpuInfo, Current};

/// Cores whose clock is read, at most: some drivers take 10 ms for each.
const CORES_READ_MAX: usize = 64;
/// Drivers of sensors that sit in or on the processor, as `hwmon` names them.
const CPU_SENSORS: [&str; 5] = [
    "coretemp",
    "k10temp",
    "zenpower",
    "cpu_thermal",
    "soc_thermal",
];
/// How the types of thermal zones of processors begin.
const CPU_ZONES: [&str; 3] = ["x86_pkg_temp", "cpu", "soc"];
/// What no processor shows: a sensor that is not there reads as 0 K or as a full register.
const CELSIUS_MAX: f64 = 150.0;

/// Mean clock of the cores now, in MHz.
pub fn cpu_mhz() -> Option<f64> {
    let folders = children(Path::new("/sys/devices/system/cpu"), "cpu");
    let from_sys = folders.iter().filter_map(|folder| {
        let khz: f64 = number(&folder.join("cpufreq/scaling_cur_freq"))?;
        Some(khz / 1e3)
    });
    mean(from_sys.take(CORES_READ_MAX)).or_else(|| {
        let info = CpuInfo::current().ok()?;
        let core = |core| info.get_field(core, "cpu MHz")?.trim().parse().ok();
        mean((0..info.num_cores().min(CORES_READ_MAX)).filter_map(core))
    })
}

/// The hottest sensor of the processor, in degrees Celsius.
pub fn cpu_celsius() -> Option<f64> {
    celsius_below(Path::new("/sys/class"))
}

fn celsius_below(class: &Path) -> Option<f64> {
    let zones = children(&class.join("thermal"), "thermal_zone");
    let zones = zones.into_iter().filter_map(|zone| {
        let kind = word(&zone.join("type"));
        let of_cpu = CPU_ZONES.iter().any(|start| kind.starts_with(start));
        of_cpu.then(|| zone.join("temp"))
    });
    let chips = children(&class.join("hwmon"), "hwmon");
    let chips = chips
        .into_iter()
        .filter(|chip| CPU_SENSORS.contains(&word(&chip.join("name")).as_str()));
    let inputs = chips.flat_map(|chip| {
        let inputs = children(&chip, "temp").into_iter();
        inputs.filter(|file| file.to_string_lossy().ends_with("_input"))
    });
    zones
        .chain(inputs)
        .filter_map(|file| number(&file))
        .map(|millidegrees| millidegrees / 1e3)
        .filter(|celsius| *celsius > 0.0 && *celsius < CELSIUS_MAX)
        .reduce(f64::max)
}

/// Entries of a folder whose names begin so; none where it cannot be read.
fn children(folder: &Path, start: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let begins = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| name.starts_with(start))
    };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.filter(begins).collect()
}

fn word(file: &Path) -> String {
    fs::read_to_string(file).map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

fn number(file: &Path) -> Option<f64> {
    word(file).parse().ok()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn file(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_hottest_sensor_of_the_processor_counts() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(celsius_below(root), None);
        file(root, "thermal/thermal_zone0/type", "acpitz\n");
        file(root, "thermal/thermal_zone0/temp", "99000\n");
        file(root, "hwmon/hwmon0/name", "nvme\n");
        file(root, "hwmon/hwmon0/temp1_input", "98000\n");
        assert_eq!(celsius_below(root), None, "neither is the processor's");
        file(root, "thermal/thermal_zone1/type", "x86_pkg_temp\n");
        file(root, "thermal/thermal_zone1/temp", "61000\n");
        assert_eq!(celsius_below(root), Some(61.0));
        file(root, "hwmon/hwmon1/name", "k10temp\n");
        file(root, "hwmon/hwmon1/temp1_input", "64500\n");
        file(root, "hwmon/hwmon1/temp1_max", "95000\n");
        file(root, "hwmon/hwmon1/temp2_input", "not a number\n");
        file(root, "hwmon/hwmon1/temp3_input", "255000\n");
        assert_eq!(celsius_below(root), Some(64.5));
    }

    #[test]
    fn means_are_of_what_is_there() {
        assert_eq!(mean(std::iter::empty()), None);
        assert_eq!(mean([2_000.0, 3_000.0].into_iter()), Some(2_500.0));
        // Not every machine shows it; what it shows is a clock.
        assert!(cpu_mhz().is_none_or(|mhz| mhz > 1.0 && mhz < 20_000.0));
    }
}
