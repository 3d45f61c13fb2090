//! A user of the tests' own, and what the program printed for him.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A home of its own: nothing of the user's configuration or data is read or written.
pub struct Home(tempfile::TempDir);

impl Home {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("CHAPTERBENCH_LOCK_DIR", self.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Exit code, and one line on stderr that holds each of the words.
#[track_caller]
pub fn refused(output: &Output, code: i32, words: &[&str]) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("error: "), "{line}");
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
    assert_eq!(stdout(output), "");
}
