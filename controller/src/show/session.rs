//! What `run` prints at its end: each run's table, and how to read the session again.

use contracts::run::{Arm, EngineRef, RunState};
use serde::Serialize;

use crate::record::{RunRecord, RunWithSamples};
use crate::show::curve::{self, Curve};
use crate::show::run::{RunView, head, markdown_head, view};
use crate::show::{Format, pretty, words};

/// What the JSON of a session holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct SessionView<'a> {
    schema: u32,
    session_id: &'a str,
    runs: &'a [RunView<'a>],
    /// How many did not end as asked; none of them is run again.
    unsuccessful: usize,
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
            unsuccessful: records
                .iter()
                .filter(|run| run.status.state != RunState::Done)
                .count(),
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
    text.push_str(&end_text(session_id, &records, compare.as_deref()));
    Ok(text)
}

/// One run as it is shown when it ends: its table, what stands under it, where it ran.
pub fn run_text(run: &RunWithSamples) -> String {
    format!("{}  {}", head(&view(&run.run, run)), place(&run.run))
}

fn place(run: &RunRecord) -> String {
    format!("run {} on {}\n", run.run_id, run.agent_name)
}

/// How many runs did not end as asked, by `failed` and `cancelled`; none where all did.
fn unsuccessful(runs: &[&RunRecord]) -> Option<String> {
    let count = |state| {
        let ended = |run: &&&RunRecord| run.status.state == state;
        runs.iter().filter(ended).count()
    };
    let (failed, cancelled) = (count(RunState::Failed), count(RunState::Cancelled));
    let what = match (failed, cancelled) {
        (0, 0) => return None,
        (failed, 0) => format!("{failed} failed"),
        (0, cancelled) => format!("{cancelled} cancelled"),
        (failed, cancelled) => format!("{failed} failed and {cancelled} cancelled"),
    };
    Some(format!(
        "{what} of {}, not run again",
        words::count(runs.len() as u64, "run")
    ))
}

/// The last lines of a session: runs that did not succeed, its id and the command that reads it.
pub fn end_text(session_id: &str, runs: &[&RunRecord], compare: Option<&str>) -> String {
    let failed = unsuccessful(runs).map(|failed| format!("{failed}\n"));
    let compare = compare.map(|compare| format!("compare: {compare}\n"));
    format!(
        "{}session {session_id}\n{}",
        failed.unwrap_or_default(),
        compare.unwrap_or_default()
    )
}

/// One arm of a session, as compare is told of it.
struct Side<'a> {
    letter: &'a str,
    arm: &'a Arm,
    /// `ch01`, `engine:vllm`, `url:…`.
    word: String,
}

/// The arms in the order of their letters.
fn sides<'a>(runs: &[&'a RunRecord]) -> Vec<Side<'a>> {
    let mut sides: Vec<Side<'a>> = Vec::new();
    for run in runs {
        if sides.iter().any(|side| side.letter == run.arm_letter) {
            continue;
        }
        let arm = &run.status.spec.arm;
        let word = match &arm.engine {
            EngineRef::Chapter { id } => id.clone(),
            EngineRef::Named { name, .. } => format!("engine:{name}"),
            EngineRef::Url { url, .. } => format!("url:{url}"),
        };
        sides.push(Side {
            letter: &run.arm_letter,
            arm,
            word,
        });
    }
    sides.sort_by_key(|side| (side.letter.len(), side.letter));
    sides
}

/// `controller compare ch01 ch02`: all arms that can stand against the first. Engines go by their
/// names, one engine's modes by the modes, all else by letters of the session. Three chapters or
/// more are steps of a book: each is set against the one before.
pub fn compare_command(runs: &[&RunRecord]) -> Option<String> {
    let session_id = &runs.first()?.session_id;
    let sides = sides(runs);
    let first = sides.first()?;
    // A word that two arms of one mode share names neither of them.
    let unique = sides.iter().enumerate().all(|(place, side)| {
        let like = |other: &Side<'_>| other.word == side.word && other.arm.mode == side.arm.mode;
        !sides.iter().skip(place + 1).any(like)
    });
    let mut engines: Vec<&str> = Vec::new();
    for side in &sides {
        if !engines.contains(&side.word.as_str()) {
            engines.push(&side.word);
        }
    }
    // Only those that ran in the first one's mode have a cell with it.
    let alike = sides.iter().filter(|side| side.arm.mode == first.arm.mode);
    let named: Vec<String> = if !unique {
        let letter = |side: &Side<'_>| format!("session:{session_id}#{}", side.letter);
        alike.map(letter).collect()
    } else if engines.len() > 1 && alike.clone().count() > 1 {
        alike.map(|side| side.word.clone()).collect()
    } else {
        let mode = |side: &Side<'_>| words::snake(&side.arm.mode);
        let both = |side: &Side<'_>| format!("{}:{}", side.word, mode(side));
        sides.iter().map(both).collect()
    };
    if named.len() < 2 {
        return None;
    }
    let chapters = |side: &Side<'_>| matches!(side.arm.engine, EngineRef::Chapter { .. });
    let steps = unique && engines.len() > 2 && named.len() > 2 && sides.iter().all(chapters);
    let vs = if steps { " --vs previous" } else { "" };
    Some(format!("controller compare {}{vs}", named.join(" ")))
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
        let later = arm("ch02", Mode::Offline, "b");
        assert_eq!(
            command(&[&later, &a, &later]).unwrap(),
            "controller compare ch01 ch02",
            "by letters, not by who ran first"
        );
        let ninth = arm("ch09", Mode::Offline, "c");
        assert_eq!(
            command(&[&a, &later, &ninth]).unwrap(),
            "controller compare ch01 ch02 ch09 --vs previous"
        );
        let mut theirs = arm("llama", Mode::Offline, "d");
        theirs.status.spec.arm.engine = EngineRef::Named {
            name: "llama".to_owned(),
            chapter: None,
        };
        assert_eq!(
            command(&[&a, &later, &theirs]).unwrap(),
            "controller compare ch01 ch02 engine:llama"
        );
        let elsewhere = arm("ch02", Mode::Online, "b");
        assert_eq!(
            command(&[&a, &elsewhere]).unwrap(),
            "controller compare ch01:offline ch02:online"
        );
    }

    #[test]
    fn runs_that_failed_are_counted() {
        let run = |state| {
            let mut run = fixtures::run("01", "ch01", Mode::Offline);
            run.status.state = state;
            run
        };
        let (done, failed) = (run(RunState::Done), run(RunState::Failed));
        let cancelled = run(RunState::Cancelled);
        let end = |runs: &[&RunRecord]| end_text("01S", runs, None);
        assert_eq!(end(&[&done, &done]), "session 01S\n");
        assert_eq!(
            end(&[&done, &failed, &failed]),
            "2 failed of 3 runs, not run again\nsession 01S\n"
        );
        assert_eq!(
            end(&[&failed, &cancelled]),
            "1 failed and 1 cancelled of 2 runs, not run again\nsession 01S\n"
        );
    }
}
