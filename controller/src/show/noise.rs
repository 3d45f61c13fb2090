//! The noise floor of a host: what `calibrate --runs` found, and the list of what is stored.

use contracts::run::Mode;
use serde::Serialize;

use crate::compare::cell::Unit;
use crate::compare::noise::{Noise, Uncounted, least_difference};
use crate::show::{Format, document, grid, words};
use crate::store::StoredFloor;

/// Equal runs on one host, and how much they differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseView {
    /// The agent's name.
    pub agent: String,
    /// For people.
    pub hostname: String,
    /// Fingerprint of the host.
    pub host_fingerprint: String,
    /// `ch02`, or the name of an engine.
    pub engine: String,
    /// Build of the engine, if it is known.
    pub build: Option<String>,
    /// How it was driven.
    pub mode: Mode,
    /// Key of the work.
    pub workload_key: String,
    /// The work in words.
    pub workload: String,
    /// Session that the runs are in.
    pub session_id: String,
    /// Runs that were counted.
    pub run_count: u32,
    /// When, for people.
    pub measured_unix_ms: i64,
    /// What a comparison is to find, for the number of runs that it needs.
    pub margin: f64,
    /// A row for each metric.
    pub metrics: Vec<Noise>,
    /// Runs that were not counted.
    pub uncounted: Vec<Uncounted>,
}

/// JSON: `{"schema": 1, "noise_floor": {…}}`.
pub fn render(view: &NoiseView, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("noise_floor", view);
    }
    let title = format!(
        "noise floor of {} {} on {} (agent {}), {} equal runs, {}\n{}\n",
        view.engine,
        words::snake(&view.mode),
        view.hostname,
        view.agent,
        view.run_count,
        words::time(view.measured_unix_ms),
        view.workload,
    );
    let margin = format!("runs a side for ±{}", percent(view.margin));
    let header = ["", "mean", "SD", "single runs: more than", &margin];
    let shown = view.metrics.iter().filter(|row| row.mean.is_some());
    let table = grid(format, "lrrrr", &header, shown.map(row).collect());
    let gap = if format == Format::Markdown { "\n" } else { "" };
    let left_out = view.uncounted.iter();
    let left_out: String = left_out
        .map(|run| format!("not counted: run {} {}\n", run.run_id, run.why))
        .collect();
    Ok(format!(
        "{title}{gap}{table}{gap}{LEGEND}{left_out}session {}\n",
        view.session_id
    ))
}

/// What the columns mean, in the fewest words.
const LEGEND: &str = "* what sides are judged by; SD: of the natural logarithms of the runs' values;\n\
     single runs: what one run must differ from one other by for a verdict\n";

fn row(noise: &Noise) -> Vec<String> {
    let star = if noise.primary { " *" } else { "" };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
    vec![
        format!("{}{star}", noise.label),
        or_dash(noise.mean.map(|mean| figure(mean, noise.unit))),
        or_dash(noise.log_sd.map(fine_percent)),
        or_dash(noise.exceeds.map(fine_percent)),
        or_dash(noise.runs_needed.map(|runs| runs.to_string())),
    ]
}

fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::ReqPerS => format!("{value:.2}"),
        Unit::TokPerS | Unit::Tokens => format!("{value:.1}"),
        Unit::Ms => format!("{value:.2}ms"),
    }
}

/// Spreads of a hundredth of a percent exist.
fn fine_percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

fn percent(share: f64) -> String {
    format!("{}%", share * 100.0)
}

/// All stored floors in the order given. JSON: `{"schema": 1, "noise_floors": […]}`.
pub fn render_list(floors: &[StoredFloor], format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("noise_floors", floors);
    }
    if floors.is_empty() {
        return Ok(
            "no noise floors; `controller calibrate --runs 5 --chapter N` measures one\n"
                .to_owned(),
        );
    }
    let header = [
        "host",
        "engine",
        "mode",
        "work",
        "metric",
        "SD",
        "single runs",
        "runs",
        "measured",
        "session",
    ];
    Ok(grid(
        format,
        "lllllrrrll",
        &header,
        floors.iter().map(listed).collect(),
    ))
}

fn listed(stored: &StoredFloor) -> Vec<String> {
    let (key, floor) = (&stored.key, &stored.floor);
    let single = least_difference(floor.log_sd, floor.run_count);
    vec![
        stored.hostname.clone(),
        key.engine.clone(),
        words::snake(&key.mode),
        words::excerpt(&key.workload_key, KEY_CHARS),
        stored.metric.clone(),
        fine_percent(floor.log_sd),
        single.map_or("—".to_owned(), fine_percent),
        floor.run_count.to_string(),
        words::time(floor.measured_unix_ms),
        stored.session_id.clone().unwrap_or_default(),
    ]
}

/// As much of a workload's key as a dry run prints.
const KEY_CHARS: usize = 12;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::compare::judge::Floor;
    use crate::fixtures::NOON_UNIX_MS;
    use crate::stats::runs_needed::runs_needed;
    use crate::store::FloorKey;

    fn noise(metric: &str, label: &str, log_sd: Option<f64>) -> Noise {
        Noise {
            metric: metric.to_owned(),
            label: label.to_owned(),
            unit: Unit::Ms,
            primary: metric == "wall_ms_p50",
            mean: Some(120.345),
            log_sd,
            exceeds: log_sd.and_then(|log_sd| least_difference(log_sd, 5)),
            runs_needed: log_sd.and_then(|log_sd| runs_needed(log_sd, 0.05, 0.05).ok()),
            missing: None,
        }
    }

    fn view() -> NoiseView {
        NoiseView {
            agent: "local".to_owned(),
            hostname: "bench-1".to_owned(),
            host_fingerprint: "f1".to_owned(),
            engine: "ch02".to_owned(),
            build: Some("0.1.0+abc1234".to_owned()),
            mode: Mode::Offline,
            workload_key: "4c23b3810fcbaa".to_owned(),
            workload: "dummy:tiny-llm, 1 prompt, 20 requests".to_owned(),
            session_id: "01SESSION".to_owned(),
            run_count: 5,
            measured_unix_ms: NOON_UNIX_MS,
            margin: 0.05,
            metrics: vec![
                noise("wall_ms_p50", "Wall p50", Some(0.0083)),
                noise("wall_ms", "Wall mean", None),
                Noise {
                    mean: None,
                    ..noise("wall_ms_p99", "Wall p99", None)
                },
            ],
            uncounted: vec![Uncounted {
                run_id: "01BAD".to_owned(),
                why: "failed (load): no memory".to_owned(),
            }],
        }
    }

    #[test]
    fn a_noise_floor_reads_well() {
        insta::assert_snapshot!("noise_text", render(&view(), Format::Text).unwrap());
        insta::assert_snapshot!("noise_markdown", render(&view(), Format::Markdown).unwrap());
    }

    #[test]
    fn json_has_all_that_the_text_has() {
        let json = render(&view(), Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        let floor = &document["noise_floor"];
        assert_eq!(
            (&document["schema"], &floor["run_count"]),
            (&1.into(), &5.into())
        );
        assert_eq!(floor["metrics"][0]["log_sd"], 0.0083);
        assert_eq!(floor["uncounted"][0]["run_id"], "01BAD");
    }

    #[test]
    fn stored_floors_are_listed() {
        let stored = StoredFloor {
            key: FloorKey {
                host_fingerprint: "f1".to_owned(),
                engine: "ch02".to_owned(),
                mode: Mode::Offline,
                workload_key: "4c23b3810fcbaa".to_owned(),
            },
            hostname: "bench-1".to_owned(),
            metric: "wall_ms_p50".to_owned(),
            floor: Floor {
                log_sd: 0.0083,
                run_count: 5,
                measured_unix_ms: NOON_UNIX_MS,
            },
            session_id: Some("01SESSION".to_owned()),
        };
        insta::assert_snapshot!("list", render_list(&[stored], Format::Text).unwrap());
        assert!(
            render_list(&[], Format::Text)
                .unwrap()
                .contains("calibrate --runs 5")
        );
        assert!(
            render_list(&[], Format::Json)
                .unwrap()
                .contains("\"noise_floors\": []")
        );
    }
}
