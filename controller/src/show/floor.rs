//! The load generator's own error on a host.

use contracts::calibrate::{ClientFloor, FloorLevel, Spread};
use serde::Serialize;

use crate::show::{Format, document, grid, words};

/// What was measured where.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FloorView {
    /// The agent's name.
    pub agent: String,
    /// What it found.
    #[serde(flatten)]
    pub floor: ClientFloor,
}

/// What the columns mean, in the fewest words.
const LEGEND: &str = "error: what the client measured less what the server wrote down of the same request;\n\
     median with its sign / 99 % are at most this far off, ms\n";

/// A row for each number of streams. JSON: `{"schema": 1, "client_floor": {…}}`.
pub fn render(view: &FloorView, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("client_floor", view);
    }
    let title = format!(
        "client floor of agent {} (build {})\n",
        view.agent, view.floor.agent_build
    );
    let header = [
        "streams",
        "requests",
        "lost",
        "TTFT error",
        "gap error",
        "wall error",
        "first wave",
        "in flight",
        "CPU/1000 tok",
    ];
    let rows = view.floor.levels.iter().map(row).collect();
    let table = grid(format, "rrrrrrrrr", &header, rows);
    let gap = if format == Format::Markdown { "\n" } else { "" };
    Ok(format!("{title}{gap}{table}{gap}{LEGEND}"))
}

fn row(level: &FloorLevel) -> Vec<String> {
    vec![
        level.streams.to_string(),
        level.requests.to_string(),
        level.lost.to_string(),
        error(level.ttft_error_ms),
        error(level.itl_error_ms),
        error(level.wall_error_ms),
        format!("{:.1}ms", level.first_wave_ms),
        words::percent(level.in_flight_share),
        format!("{:.1}ms", level.client_cpu_ms_per_1000_tokens),
    ]
}

fn error(spread: Spread) -> String {
    format!("{:+.2} / {:.2}", spread.p50, spread.p99)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn view() -> FloorView {
        let level = |streams, p50, p99| FloorLevel {
            streams,
            requests: streams * 3,
            lost: 0,
            ttft_error_ms: Spread { p50, p99 },
            itl_error_ms: Spread {
                p50: 0.0,
                p99: p99 / 2.0,
            },
            wall_error_ms: Spread { p50, p99 },
            first_wave_ms: f64::from(streams) / 40.0,
            in_flight_share: 0.9934,
            client_cpu_ms_per_1000_tokens: 8.21,
        };
        FloorView {
            agent: "local".to_owned(),
            floor: ClientFloor {
                agent_build: "0.1.0+abc1234".to_owned(),
                host_fingerprint: "f00d".to_owned(),
                levels: vec![level(1, 0.13, 0.6), level(1000, -0.06, 0.94)],
            },
        }
    }

    #[test]
    fn a_floor_reads_well() {
        insta::assert_snapshot!("floor_text", render(&view(), Format::Text).unwrap());
        insta::assert_snapshot!("floor_markdown", render(&view(), Format::Markdown).unwrap());
    }

    #[test]
    fn json_has_the_floor_whole() {
        let json = render(&view(), Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["client_floor"]["agent"], "local");
        let floor: ClientFloor = serde_json::from_value(document["client_floor"].clone()).unwrap();
        assert_eq!(floor, view().floor);
    }
}
