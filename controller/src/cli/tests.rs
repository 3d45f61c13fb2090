//! For tests of what we tell users to run: is it a command, and does it ask for the same work?
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use clap::{Args as _, FromArgMatches as _};

use super::*;
use crate::plan::plan;

/// The commands that stand in a line between backticks, as words.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let parts = line.split('`').skip(1).step_by(2);
    parts.map(words).collect()
}

/// Whether each command that a line names can be given so.
pub(crate) fn assert_can_be_run(line: &str) {
    let commands = commands(line);
    assert!(!commands.is_empty(), "nothing to run: {line}");
    for words in commands {
        let parsed = Cli::try_parse_from(&words);
        assert!(parsed.is_ok(), "{words:?}: {}", parsed.unwrap_err());
    }
}

/// Key of the work that the first command of a line asks for.
pub(crate) fn workload_key_of(line: &str) -> String {
    let words = commands(line).swap_remove(0);
    let command = workload::AskedArgs::augment_args(clap::Command::new("run"));
    let matches = command
        .try_get_matches_from(words.get(1..).unwrap())
        .unwrap();
    let args = workload::AskedArgs::from_arg_matches(&matches).unwrap();
    let config = Config::layered(&|_| None, Path::new("no/such/file")).unwrap();
    let asked = workload::asked(&config, args).unwrap();
    let plan = plan(asked.request);
    plan.runs.first().unwrap().workload_key.clone()
}

/// As a shell splits: blanks part words, single quotes keep them together.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' if !quoted => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() && !quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}
