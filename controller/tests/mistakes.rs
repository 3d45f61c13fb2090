//! What a hurried user types, and a full disk: one line that says what to do, and the exit code.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output, Stdio};

/// `controller ARGS` for a user with a home of his own.
fn controller(home: &tempfile::TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_controller"));
    command
        .args(args)
        .env_clear()
        .env("HOME", home.path())
        .env("CHAPTERBENCH_LOCK_DIR", home.path())
        .stdin(Stdio::null());
    command
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
}

#[test]
fn a_wrong_word_is_answered_with_the_right_one() {
    let home = tempfile::tempdir().unwrap();
    let no_certificate = home.path().join("notes.txt");
    std::fs::write(&no_certificate, "not a certificate\n").unwrap();
    let no_certificate = no_certificate.to_str().unwrap();
    let table: &[(&[&str], &[&str])] = &[
        (
            &["run", "--chapter", "1", "--n-runs", "-1"],
            &["--n-runs", "-1"],
        ),
        (
            &["run", "--chapter", "1", "--wait", "-1"],
            &["--wait", "-1"],
        ),
        (
            &["run", "--chapter", "1", "--agent", ""],
            &["--agent", "controller agents list"],
        ),
        (
            &["run", "--chapter", "1", "--agent", "local,box"],
            &["--agent", "local"],
        ),
        (&["calibrate"], &["--client"]),
        (
            &["agents", "remove", "box"],
            &["box", "controller agents list"],
        ),
        (
            &["agents", "add", "box", "127.0.0.1:7070"],
            &["127.0.0.1:7070", "http://HOST:PORT"],
        ),
        (
            &["agents", "add", "box", "box:7070"],
            &["box:7070", "http://HOST:PORT"],
        ),
        (
            &["agents", "add", "box", "http://box:7070/?x=1"],
            &["http://HOST:PORT"],
        ),
        (
            &[
                "agents",
                "add",
                "box",
                "https://box:1",
                "--ca-file",
                no_certificate,
            ],
            &["notes.txt", "no certificate"],
        ),
    ];
    for (args, words) in table {
        refused(&controller(&home, args).output().unwrap(), 2, words);
    }
}

#[test]
fn a_password_in_a_url_is_neither_stored_nor_shown() {
    let home = tempfile::tempdir().unwrap();
    let args = ["agents", "add", "box", "http://me:sesame@box:7070"];
    let output = controller(&home, &args).output().unwrap();
    refused(&output, 2, &["--token-file"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("sesame"));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    let home = tempfile::tempdir().unwrap();
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = controller(&home, &["config"]);
    let output = command.stdout(full).stderr(Stdio::piped()).output();
    refused(&output.unwrap(), 1, &["standard output", "No space"]);
}

#[test]
fn an_argument_that_is_not_utf8_is_shown() {
    use std::os::unix::ffi::OsStringExt;
    let home = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsString::from_vec(b"--chapter=\xff".to_vec());
    let output = controller(&home, &["run"]).arg(odd).output().unwrap();
    refused(&output, 2, &["argument 2", "--chapter=", "UTF-8"]);
}
