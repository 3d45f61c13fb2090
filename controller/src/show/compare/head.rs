//! What stands above a cell's table: the sides, how they were run, the noise floor, what differs.

use super::{figures, numbers};
use crate::compare::{Cell, CellKind, NoiseFloor, Side};
use crate::show::words;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// `compare ch01 (base) → ch02, offline, on bench-1, margin ±5%`.
pub(super) fn title(cell: &Cell) -> String {
    let (base, candidate) = (&cell.base, &cell.candidate);
    let what = match cell.kind {
        CellKind::NetworkLayer => format!(
            "{}, {} (base) → {}: the network and server layer",
            base.engine,
            words::snake(&base.mode),
            words::snake(&candidate.mode)
        ),
        CellKind::Engines if base.mode == candidate.mode => {
            let names =
                [base, candidate].map(|side| figures::column(side, cell).replace(" (base)", ""));
            format!(
                "{} (base) → {}, {}",
                names[0],
                names[1],
                words::snake(&base.mode)
            )
        }
        CellKind::Engines => format!("{} (base) → {}", name(base), name(candidate)),
    };
    format!(
        "compare {what}, on {}, margin {}",
        cell.hostname,
        numbers::margin(cell.rules.margin)
    )
}

/// The lines under the title.
pub(super) fn lines(cell: &Cell, now_unix_ms: i64) -> Vec<String> {
    let key = words::short_hash(&cell.workload_key);
    let mut lines = vec![
        format!("{} (workload {key})", cell.workload),
        design(cell),
        format!("base:      {}", side(&cell.base)),
        format!("candidate: {}", side(&cell.candidate)),
    ];
    lines.extend(noise_floor(&cell.noise_floors, now_unix_ms));
    for difference in &cell.differences {
        lines.push(format!(
            "differs: {}: {} | {}",
            difference.field, difference.base, difference.candidate
        ));
    }
    lines
}

/// `runs 5+5, order ABBAABBAAB, 1 session (01J…), 2026-02-01; excluded 0`.
fn design(cell: &Cell) -> String {
    let (base, candidate) = (&cell.base, &cell.candidate);
    let mut parts = vec![format!(
        "runs {}+{}",
        base.run_ids.len(),
        candidate.run_ids.len()
    )];
    parts.extend(cell.order.iter().map(|order| format!("order {order}")));
    let newest = base.created_unix_ms.max(candidate.created_unix_ms);
    let day = words::time(newest);
    let day = day.split(' ').next().unwrap_or_default();
    parts.push(if base.session_id == candidate.session_id {
        format!("1 session ({}), {day}", base.session_id)
    } else {
        format!(
            "2 sessions ({} and {}), {day}",
            base.session_id, candidate.session_id
        )
    });
    if cell.rules.looks > 1 {
        parts.push(format!(
            "alpha {} over {} looks",
            cell.rules.alpha, cell.rules.looks
        ));
    }
    format!("{}; excluded {}", parts.join(", "), cell.excluded.len())
}

fn side(side: &Side) -> String {
    let runs = match side.run_ids.as_slice() {
        [one] => format!("run {one}"),
        several => format!(
            "{} runs, the last {}",
            several.len(),
            several.last().map_or("", |id| id)
        ),
    };
    let build = side.build.as_deref().unwrap_or("not known");
    let failed = match side.failed_requests {
        0 => String::new(),
        n => format!(", {n} failed"),
    };
    let file = side.file.as_ref();
    let file = file.map_or(String::new(), |file| format!(", from {file}"));
    format!(
        "{}, build {build}, {}, {runs}, {}{failed}{file}",
        name(side),
        words::time(side.created_unix_ms),
        words::count(u64::from(side.requests), "request"),
    )
}

fn name(side: &Side) -> String {
    format!("{} {}", side.engine, words::snake(&side.mode))
}

/// `noise floor 0.9% (12 A/A runs, 2 days old)`, by the metric where there are several.
fn noise_floor(floors: &[NoiseFloor], now_unix_ms: i64) -> Option<String> {
    let of = |floor: &NoiseFloor| {
        let age_days = (now_unix_ms - floor.floor.measured_unix_ms).max(0) / DAY_MS;
        let age = match u64::try_from(age_days).unwrap_or(0) {
            0 => "from today".to_owned(),
            days => format!("{} old", words::count(days, "day")),
        };
        format!(
            "{} ({} A/A runs, {age})",
            numbers::percent(floor.floor.log_sd),
            floor.floor.run_count
        )
    };
    match floors {
        [] => None,
        [one] => Some(format!("noise floor {}", of(one))),
        several => {
            let several = several.iter().map(|f| format!("{} {}", f.label, of(f)));
            let several: Vec<String> = several.collect();
            Some(format!("noise floor: {}", several.join(", ")))
        }
    }
}
