//! The list of runs: one line each.

use crate::compare::work;
use crate::record::{RunLine, RunRecord};
use crate::show::{Format, document, grid, validity, words};

const HEADER: [&str; 13] = [
    "run", "made", "agent", "engine", "mode", "model", "load", "state", "Req/s", "Tok/s", "wall",
    "validity", "label",
];

/// Runs in the order given. JSON: `{"schema": 1, "runs": […]}` with each [`RunRecord`] whole.
pub fn render(runs: &[RunRecord], format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("runs", runs);
    }
    let lines: Vec<RunLine> = runs.iter().map(RunLine::of).collect();
    Ok(table(&lines, format))
}

/// The same in text or Markdown, of lines alone.
pub fn table(runs: &[RunLine], format: Format) -> String {
    if runs.is_empty() {
        return "no runs\n".to_owned();
    }
    let rows = runs.iter().map(row).collect();
    grid(format, "llllllllrrrll", &HEADER, rows)
}

fn row(run: &RunLine) -> Vec<String> {
    let judged = validity::says_something(run.wall_ms.is_some(), run.state, run.verdict);
    let figure = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
    vec![
        run.run_id.clone(),
        words::time(run.created_unix_ms),
        run.agent_name.clone(),
        run.engine.clone(),
        words::snake(&run.mode),
        run.model.clone(),
        work::load(&run.load),
        words::snake(&run.state),
        figure(run.req_per_s.map(|rate| format!("{rate:.2}"))),
        figure(run.tok_per_s.map(|rate| format!("{rate:.1}"))),
        figure(run.wall_ms.map(|ms| format!("{ms:.2}ms"))),
        figure(judged.then(|| validity::word(run.verdict).to_owned())),
        run.label.clone().unwrap_or_default(),
    ]
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::{Mode, RunState};

    use super::*;
    use crate::fixtures;

    fn runs() -> Vec<RunRecord> {
        let mut done =
            fixtures::with_walls(fixtures::run("01AAA", "ch01", Mode::Offline), &[1224.4; 20]).run;
        done.label = Some("night|ly".to_owned());
        let mut failed = fixtures::run("01BBB", "ch02", Mode::Online);
        failed.status.state = RunState::Failed;
        vec![done, failed]
    }

    #[test]
    fn text_and_markdown() {
        insta::assert_snapshot!("runs_text", render(&runs(), Format::Text).unwrap());
        insta::assert_snapshot!("runs_markdown", render(&runs(), Format::Markdown).unwrap());
    }

    #[test]
    fn json_has_the_runs_whole() {
        let json = render(&runs(), Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["schema"], 1);
        let read: Vec<RunRecord> = serde_json::from_value(document["runs"].clone()).unwrap();
        assert_eq!(read, runs());
    }

    #[test]
    fn no_runs_are_said_to_be_none() {
        assert_eq!(render(&[], Format::Text).unwrap(), "no runs\n");
        let json = render(&[], Format::Json).unwrap();
        assert!(json.contains("\"runs\": []"), "{json}");
    }
}
