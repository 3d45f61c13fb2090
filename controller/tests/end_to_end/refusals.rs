//! What `compare` refuses, with real runs: it says what to run, that command is run as it stands, and
//! then the sides can be compared.

use serde_json::Value;

use crate::lab::Lab;

/// Six quick requests of the fake engine, offline.
const QUICK: [&str; 9] = [
    "run",
    "--chapter",
    "fake",
    "--mode",
    "offline",
    "--n-runs",
    "6",
    "--warmup",
    "1",
];

fn quick(lab: &Lab, code: i32, flags: &[&str]) {
    lab.expect(code, &[&QUICK[..], flags].concat());
}

/// The one cell of a comparison that ends with `code`.
fn cell(lab: &Lab, code: i32, sides: &[&str]) -> Value {
    let args = [&["compare"], sides, &["--format", "json"]].concat();
    let comparison: Value = serde_json::from_str(&lab.expect(code, &args)).unwrap();
    let cells = comparison["steps"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "{comparison}");
    cells[0].clone()
}

fn message(cell: &Value) -> &str {
    assert_eq!(cell["reasons"].as_array().unwrap().len(), 1, "{cell}");
    cell["reasons"][0]["message"].as_str().unwrap()
}

/// Runs the last command that a refusal names.
fn do_as_told(lab: &Lab, cell: &Value) {
    let todo = cell["reasons"][0]["todo"].as_str().unwrap();
    let command = todo.split('`').skip(1).step_by(2).last().unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "controller", "{todo}");
    lab.expect(0, &words[1..]);
}

#[test]
fn other_work_is_refused_until_both_do_the_same() {
    let lab = Lab::new();
    quick(&lab, 0, &["--label", "short", "--max-tokens", "3"]);
    quick(&lab, 0, &["--label", "long", "--max-tokens", "4"]);
    let refused = cell(&lab, 11, &["label:short", "label:long"]);
    assert_eq!(message(&refused), "workloads differ: max_tokens 3 ≠ 4");
    let rows = refused["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["ratio"].is_null()), "{refused}");
    assert!(rows[0]["base"]["value"].is_f64() && rows[0]["candidate"]["value"].is_f64());

    do_as_told(&lab, &refused);
    let compared = cell(&lab, 0, &["fake", "fake"]);
    assert_eq!(compared["reasons"], serde_json::json!([]), "{compared}");
    assert_eq!(compared["design"], "paired");
    assert_eq!(compared["order"], "ABBAABBAAB");
    assert_eq!(compared["withheld"], serde_json::json!([]));
    let by_letter = cell(&lab, 0, &["fake#a", "fake#b"]);
    assert_eq!(by_letter["base"]["run_ids"], compared["base"]["run_ids"]);
}

#[test]
fn one_run_against_itself_is_refused_until_there_are_two_arms() {
    let lab = Lab::new();
    quick(&lab, 0, &["--max-tokens", "3"]);
    let refused = cell(&lab, 11, &["fake", "fake"]);
    assert_eq!(
        message(&refused),
        "fake against itself, and its newest session has one run of it"
    );
    do_as_told(&lab, &refused);
    assert_eq!(cell(&lab, 0, &["fake", "fake"])["design"], "paired");
}

#[test]
fn runs_that_failed_are_refused_and_one_arm_is_split_by_block() {
    let lab = Lab::new();
    let broken = [
        "--option",
        "fail_at=3",
        "--label",
        "broken",
        "--max-tokens",
        "3",
    ];
    quick(&lab, 1, &broken);
    quick(
        &lab,
        0,
        &["--label", "sound", "--max-tokens", "3", "--repeat", "4"],
    );
    let refused = cell(&lab, 11, &["label:sound", "label:broken"]);
    let told = message(&refused);
    assert!(
        told.starts_with("the candidate's run ") && told.contains(" failed (measure): "),
        "{told}"
    );
    let todo = refused["reasons"][0]["todo"].as_str().unwrap();
    assert!(todo.starts_with("`controller runs show "), "{todo}");

    let halves = cell(&lab, 0, &["label:sound", "label:sound"]);
    assert_eq!(halves["design"], "unpaired");
    assert_eq!(halves["base"]["run_ids"].as_array().unwrap().len(), 2);
    assert_eq!(
        halves["notes"][0],
        "label:sound against itself: its blocks 0, 2 against 1, 3"
    );
}

#[test]
fn an_export_is_a_side_like_the_database_it_came_from() {
    let lab = Lab::new();
    quick(
        &lab,
        0,
        &["--label", "old", "--max-tokens", "3", "--repeat", "3"],
    );
    let file = lab.path("old.json");
    let file = file.to_str().unwrap();
    lab.expect(0, &["runs", "export", "--output", file]);
    let side = format!("file:{file}");
    let refused = cell(&lab, 11, &["label:old", &side]);
    assert_eq!(message(&refused), "both sides are the same runs");

    quick(
        &lab,
        0,
        &["--label", "new", "--max-tokens", "3", "--repeat", "3"],
    );
    let compared = cell(&lab, 0, &[&side, "label:new"]);
    assert_eq!(compared["base"]["file"], file);
    assert_eq!(compared["design"], "unpaired");
    assert_eq!(compared["outputs"]["line"], "outputs identical 18/18");
}
