//! The program `engine`: what it prints, its exit codes, and its life as a child.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod child;
mod generate;
#[path = "../support/http.rs"]
mod http;
mod lists;
mod load;
mod offline;
mod serve;
#[path = "../support/mod.rs"]
mod support;

use std::{
    ffi::OsStr,
    process::{Command, Output},
};

/// The program, with nothing of the caller's environment that could change its answers.
fn engine() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_engine"));
    command
        .env_remove("CHAPTERBENCH_MODEL")
        .env_remove("RUST_LOG")
        .env("HF_HUB_OFFLINE", "1");
    command
}

fn run<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    engine().args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// One line `error: …` and nothing else, and this exit code; returns the line.
#[track_caller]
fn fails(output: &Output, code: i32) -> String {
    let line = stderr(output);
    let errors: Vec<&str> = line
        .lines()
        .filter(|line| !line.contains(" INFO "))
        .collect();
    assert_eq!(errors.len(), 1, "one line: {line}");
    assert!(errors[0].starts_with("error: "), "{line}");
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert!(
        output.stdout.is_empty(),
        "nothing half-written: {}",
        stdout(output)
    );
    errors[0].to_owned()
}
