//! The printed page, and that its three forms say the same.

use super::*;
use crate::history::groups;
use crate::history::tests::{FASTER, nights};

fn history(walls_ms: &[f64]) -> History {
    let (runs, reduced) = nights(walls_ms);
    let (groups, notes) = groups(&runs);
    let series = groups
        .iter()
        .filter_map(|group| group.series(None, &reduced));
    History {
        series: series.collect(),
        notes,
    }
}

#[test]
fn a_step_in_text_and_markdown() {
    let history = history(&FASTER);
    let text = render(&history, Format::Text).unwrap();
    assert!(
        text.lines().all(|line| line.chars().count() <= WIDTH),
        "{text}"
    );
    insta::assert_snapshot!("history_text", text);
    insta::assert_snapshot!(
        "history_markdown",
        render(&history, Format::Markdown).unwrap()
    );
}

#[test]
fn few_runs_and_none() {
    let few = render(&history(&FASTER[..3]), Format::Text).unwrap();
    insta::assert_snapshot!("history_few", few);
    let mut none = history(&[]);
    none.notes
        .push("2 runs are left out: client-bound".to_owned());
    let none = render(&none, Format::Text).unwrap();
    assert_eq!(
        none,
        "no run to show\n  2 runs are left out: client-bound\n"
    );
}

#[test]
fn a_step_without_another_build_says_so() {
    let mut history = history(&FASTER);
    for step in history
        .series
        .iter_mut()
        .flat_map(|series| &mut series.steps)
    {
        step.build_after = step.build_before.clone();
    }
    let text = render(&history, Format::Text).unwrap();
    assert!(
        text.contains("     same build abc1234, from run 01NIGHT08"),
        "{text}"
    );
}

#[test]
fn long_words_do_not_widen_the_page() {
    let mut history = history(&FASTER);
    for series in &mut history.series {
        series.workload = "prompt ".repeat(40);
        series.engine = "engine".repeat(30);
        series.notes.push("note ".repeat(40));
        for point in &mut series.runs {
            point.build = Some("a-long-word".repeat(9));
            point.value *= 1e5;
        }
    }
    let text = render(&history, Format::Text).unwrap();
    assert!(
        text.lines().all(|line| line.chars().count() <= WIDTH),
        "{text}"
    );
}

#[test]
fn json_has_all_that_the_page_has() {
    let history = history(&FASTER);
    let json = render(&history, Format::Json).unwrap();
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["schema"], 1);
    let series = &document["series"][0];
    assert_eq!(series["runs"].as_array().unwrap().len(), 15);
    assert_eq!(series["metric"], "wall_ms_p50");
    assert_eq!(series["better"], "lower");
    let step = &series["steps"][0];
    assert_eq!(step["run_id"], "01NIGHT08");
    assert_eq!(step["after"], series["runs"][14]["level"]);
    assert_eq!(step["build_after"], "0.1.0+def5678");
}
