//! Tests of [`super`]: which flags and which sessions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use clap::{Args as _, Command};
use contracts::run::Mode;

use super::*;
use crate::fixtures;

/// What may stand beside `--extend`.
const ALLOWED: [&str; 8] = [
    "repeat",
    "cooldown",
    "header",
    "api_key_file",
    "extend",
    "dry_run",
    "format",
    "help",
];

#[test]
fn every_flag_of_run_is_allowed_beside_it_or_not() {
    let command = Args::augment_args(Command::new("run"));
    for flag in command.get_arguments() {
        let id = flag.get_id().as_str();
        assert_ne!(ALLOWED.contains(&id), CONFLICTS.contains(&id), "{id}");
    }
    for id in CONFLICTS {
        let known = command.get_arguments().any(|flag| flag.get_id() == id);
        assert!(known, "{id}");
    }
}

fn session(max_extend: u32, extended_count: u32) -> Stored {
    let mut run = fixtures::run("01", "ch01", Mode::Online);
    run.session.max_extend = max_extend;
    run.session.extended_count = extended_count;
    Stored {
        session_id: "01SESSION".to_owned(),
        runs: vec![run],
    }
}

#[test]
fn a_session_may_be_extended_twice_when_it_has_ended() {
    let mut fresh = session(2, 0);
    assert_eq!(extensible(&fresh), Ok(()));
    assert!(extensible(&session(2, 2)).unwrap_err().contains("2 times"));
    fresh.runs[0].status.state = contracts::run::RunState::Measuring;
    assert!(
        extensible(&fresh)
            .unwrap_err()
            .contains("controller resume")
    );
    fresh.runs.clear();
    assert!(extensible(&fresh).unwrap_err().contains("no runs"));
}

#[test]
fn a_session_cut_short_in_its_first_block_is_not_extended() {
    let mut cut = session(2, 0);
    cut.runs[0].session.repeat_count = 3;
    assert!(extensible(&cut).unwrap_err().contains("first of its 3"));
    let mut second = cut.runs[0].clone();
    second.block = 1;
    cut.runs.push(second);
    assert_eq!(extensible(&cut), Ok(()));
    cut.runs[1].block = u32::MAX;
    assert!(extensible(&cut).unwrap_err().contains("none of a session"));
}

#[test]
fn what_was_not_announced_is_told() {
    let told = |max_extend, extended| undeclared(&session(max_extend, extended).runs[0]);
    assert_eq!((told(1, 0), told(2, 1)), (None, None));
    assert!(told(0, 0).unwrap().contains("announced no extension"));
    assert!(told(1, 1).unwrap().contains("one extension"));
}

#[test]
fn headers_are_those_of_the_first_run() {
    let mut arms = vec![session(0, 0).runs[0].status.spec.arm.clone()];
    let mut secrets = Secrets::default();
    assert_eq!(headers(&arms, &secrets), Ok(()));
    arms[0].header_names = vec!["authorization".to_owned(), "x-team".to_owned()];
    let why = headers(&arms, &secrets).unwrap_err();
    assert!(why.contains("--api-key-file"), "{why}");
    for name in ["authorization", "x-team"] {
        secrets
            .headers
            .insert(name.to_owned(), "hunter2".to_owned());
    }
    assert_eq!(headers(&arms, &secrets), Ok(()));
    arms[0].header_names.pop();
    let why = headers(&arms, &secrets).unwrap_err();
    assert!(why.contains("x-team") && !why.contains("hunter2"), "{why}");
}
