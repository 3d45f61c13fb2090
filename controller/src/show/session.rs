//! What `run` prints at its end: each run's table, and how to read the session again.

use contracts::run::EngineRef;
use serde::Serialize;

use crate::record::{RunRecord, RunWithSamples};
use crate::show::curve::{self, Curve};
use crate::show::run::{RunView, head, markdown_head, view};
use crate::show::{Format, pretty};

/// What the JSON of a session holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct SessionView<'a> {
    schema: u32,
    session_id: &'a str,
    runs: &'a [RunView<'a>],
    /// What its sweeps came to.
    #[serde(skip_serializing_if = "<[Curve]>::is_empty")]
    sweeps: &'a [Curve],
    /// The command that compares two of its arms; none if it has but one.
    compare: Option<String>,
}

/// The runs of one session in the order given, then what its sweeps came to.
pub fn render(
    session_id: &str,
    runs: &[RunView<'_>],
    sweeps: &[Curve],
    format: Format,
) -> serde_json::Result<String> {
    let records: Vec<&RunRecord> = runs.iter().map(|view| view.run).collect();
    let compare = compare_command(&records);
    if format == Format::Json {
        return pretty(&SessionView {
            schema: contracts::SCHEMA,
            session_id,
            runs,
            sweeps,
            compare,
        });
    }
    let mut text = String::new();
    for view in runs {
        let (head, item) = match format {
            Format::Markdown => (markdown_head(view), "\n"),
            Format::Text | Format::Json => (head(view), "  "),
        };
        text.push_str(&format!("{head}{item}{}\n", place(view.run)));
    }
    text.push_str(&curve::render(sweeps, format));
    text.push_str(&end_text(session_id, compare.as_deref()));
    Ok(text)
}

/// One run as it is shown when it ends: its table, what stands under it, where it ran.
pub fn run_text(run: &RunWithSamples) -> String {
    format!("{}  {}", head(&view(&run.run, run)), place(&run.run))
}

fn place(run: &RunRecord) -> String {
    format!("run {} on {}\n", run.run_id, run.agent_name)
}

/// The last lines of a session: its id and the command that reads it.
pub fn end_text(session_id: &str, compare: Option<&str>) -> String {
    let compare = compare.map(|compare| format!("compare: {compare}\n"));
    format!("session {session_id}\n{}", compare.unwrap_or_default())
}

/// `controller compare ch01 ch02`: the first arm against the next that can stand against it.
/// Chapters go by their ids, one engine's modes by the modes, all else by arms of the session.
pub fn compare_command(runs: &[&RunRecord]) -> Option<String> {
    let first = runs.first()?;
    let (first_arm, letter) = (&first.status.spec.arm, &first.arm_letter);
    let others = runs.iter().filter(|run| run.arm_letter != *letter);
    let same_mode = others
        .clone()
        .find(|run| run.status.spec.arm.mode == first_arm.mode);
    let other = same_mode.or_else(|| others.clone().next())?;
    let other_arm = &other.status.spec.arm;
    let word = |run: &RunRecord| match &run.status.spec.arm.engine {
        EngineRef::Chapter { id } => id.clone(),
        EngineRef::Named { name, .. } => format!("engine:{name}"),
        EngineRef::Url { url, .. } => format!("url:{url}"),
    };
    let mode = |run: &RunRecord| super::words::snake(&run.status.spec.arm.mode);
    let (a, b) = if first_arm.engine != other_arm.engine && first_arm.mode == other_arm.mode {
        (word(first), word(other))
    } else if first_arm.mode != other_arm.mode {
        (
            format!("{}:{}", word(first), mode(first)),
            format!("{}:{}", word(other), mode(other)),
        )
    } else {
        let session = &first.session_id;
        (
            format!("session:{session}#{}", first.arm_letter),
            format!("session:{session}#{}", other.arm_letter),
        )
    };
    Some(format!("controller compare {a} {b}"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Mode;
    use contracts::sample::TimingSource;

    use super::*;
    use crate::fixtures;

    fn session() -> Vec<RunWithSamples> {
        let ch01 = fixtures::run("01AAA", "ch01", Mode::Offline);
        let mut ch02 = fixtures::run("01BBB", "ch02", Mode::Offline);
        ch02.arm_letter = "b".to_owned();
        vec![
            fixtures::with_walls(ch01, &[1224.0; 20]),
            fixtures::with_timing(ch02, &[1230.0; 20], TimingSource::Engine),
        ]
    }

    #[test]
    fn the_end_of_a_session() {
        let runs = session();
        let views: Vec<RunView<'_>> = runs.iter().map(|run| view(&run.run, run)).collect();
        let text = render("01SESSION", &views, &[], Format::Text).unwrap();
        insta::assert_snapshot!("session_text", text);
        let markdown = render("01SESSION", &views, &[], Format::Markdown).unwrap();
        insta::assert_snapshot!("session_markdown", markdown);
        let json = render("01SESSION", &views, &[], Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["schema"], 1);
        assert_eq!(document["runs"][1]["run"]["run_id"], "01BBB");
        assert_eq!(document["compare"], "controller compare ch01 ch02");
    }

    #[test]
    fn the_command_fits_the_arms() {
        let arm = |engine: &str, mode, letter: &str| {
            let mut run = fixtures::run("01", engine, mode);
            run.arm_letter = letter.to_owned();
            run
        };
        let a = arm("ch01", Mode::Offline, "a");
        let online = arm("ch01", Mode::Online, "b");
        let again = arm("ch01", Mode::Offline, "c");
        let command = |runs: &[&RunRecord]| compare_command(runs);
        assert_eq!(command(&[]), None);
        assert_eq!(command(&[&a]), None);
        assert_eq!(
            command(&[&a, &online]).unwrap(),
            "controller compare ch01:offline ch01:online"
        );
        assert_eq!(
            command(&[&a, &online, &again]).unwrap(),
            "controller compare session:01SESSION#a session:01SESSION#c"
        );
    }
}
