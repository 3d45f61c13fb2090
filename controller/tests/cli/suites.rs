//! What is refused of a suite, and beside one.

use crate::home::{Home, refused, stderr, stdout};

const GOOD: &str = r#"
repeat = 2
[[arm]]
name = "one"
chapter = 1
[[arm]]
name = "two"
chapter = 2
threads = 1
[[workload]]
name = "short"
mode = "offline"
n_runs = 6
[[gate]]
base = "one"
candidate = "two"
fail_on = "slower:3%"
"#;

/// `controller run --suite FILE` of [`GOOD`] with `changed` in the place of `part`.
fn run(home: &Home, part: &str, changed: &str, more: &[&str]) -> std::process::Output {
    assert!(GOOD.contains(part), "{part}");
    let file = home.path().join("suite.toml");
    std::fs::write(&file, GOOD.replacen(part, changed, 1)).unwrap();
    let mut args = vec!["run", "--dry-run", "--suite", file.to_str().unwrap()];
    args.extend(more);
    home.run(&args)
}

#[test]
fn a_dry_run_of_a_suite_says_what_would_be_run() {
    let home = Home::new();
    let output = run(&home, "[[gate]]", "[[gate]]", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!("suite_dry_run", stdout(&output));
}

#[test]
fn what_a_flag_refuses_a_suite_refuses_with_its_line() {
    let home = Home::new();
    let table: &[(&str, &str, &[&str])] = &[
        (
            "n_runs = 6",
            "n_rums = 6",
            &["line 13", "n_rums", "no such key"],
        ),
        (
            "n_runs = 6",
            "n_runs = \"6\"",
            &["line 13", "n_runs", "whole number"],
        ),
        (
            "n_runs = 6",
            "n_runs = 0",
            &["line 13", "\"short\"", "--n-runs 0: give 1"],
        ),
        (
            "\"offline\"",
            "\"sideways\"",
            &["line 12", "--mode", "offline, online or both"],
        ),
        (
            "n_runs = 6",
            "rate = 2",
            &["line 13", "--rate", "--mode offline"],
        ),
        ("threads = 1", "threads = 0", &["line 9", "--threads 0"]),
        (
            "threads = 1",
            "device = \"gpu\"",
            &["line 9", "--arm two", "cuda:N"],
        ),
        (
            "chapter = 2",
            "dtype = \"f32\"",
            &["--arm two", "which engine"],
        ),
        ("repeat = 2", "repeat = 0", &["line 2", "--repeat 0"]),
        (
            "repeat = 2",
            "order = \"random\"",
            &["line 2", "abba or blocked"],
        ),
        (
            "slower:3%",
            "faster:3%",
            &["line 17", "[[gate]]", "--fail-on"],
        ),
        (
            "candidate = \"two\"",
            "candidate = \"three\"",
            &["line 14", "three", "one, two"],
        ),
        (
            "n_runs = 6",
            "prompts = \"none.txt\"",
            &["line 13", "none.txt"],
        ),
        ("chapter = 2", "chapter = 77", &["ch77"]),
    ];
    for (part, changed, words) in table {
        let output = run(&home, part, changed, &[]);
        refused(&output, 2, words);
        if !changed.contains("77") {
            assert!(
                stderr(&output).contains("suite.toml"),
                "{}",
                stderr(&output)
            );
        }
    }
    refused(
        &home.run(&["run", "--suite", "/no/such.toml"]),
        2,
        &["--suite /no/such.toml"],
    );
}

#[test]
fn flags_that_the_file_says_are_refused_beside_it() {
    let home = Home::new();
    for flags in [
        &["--chapter", "2"][..],
        &["--n-runs", "3"],
        &["--repeat", "3"],
        &["--arm", "a: --chapter 2"],
        &["--mode", "offline"],
    ] {
        let output = run(&home, "repeat = 2", "repeat = 2", flags);
        refused(&output, 2, &["--suite", flags[0], "cannot be used"]);
    }
    let over = ["--agent", "far", "--label", "mine", "--tag", "a=b"];
    let output = run(
        &home,
        "repeat = 2",
        "agent = \"near\"\nlabel = \"theirs\"",
        &over,
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("Agents    far"),
        "{}",
        stdout(&output)
    );
    let output = run(&home, "repeat = 2", "", &["--header", "a: b"]);
    refused(&output, 2, &["--header", "no workload"]);
}

#[test]
fn what_calibrate_cannot_do_is_told() {
    let home = Home::new();
    let table: &[(&[&str], &[&str])] = &[
        (&[], &["--client", "--runs 5", "--show"]),
        (&["--runs", "4", "--chapter", "2"], &["--runs 4", "5 to"]),
        (&["--runs", "5"], &["--chapter"]),
        (&["--runs", "5", "--chapter", "1,2"], &["2 arms"]),
        (
            &["--runs", "5", "--chapter", "2", "--mode", "both"],
            &["2 arms"],
        ),
        (
            &["--runs", "5", "--chapter", "2", "--concurrency", "1,2"],
            &["2 loads"],
        ),
        (
            &["--runs", "5", "--chapter", "2", "--repeat", "3"],
            &["--runs", "--repeat"],
        ),
        (&["--client", "--runs", "5"], &["--client", "--runs"]),
        (&["--client", "--chapter", "2"], &["--client", "--chapter"]),
        (&["--show", "--n-runs", "2"], &["--show", "--n-runs"]),
    ];
    for (args, words) in table {
        let args: Vec<&str> = ["calibrate"].iter().chain(*args).copied().collect();
        refused(&home.run(&args), 2, words);
    }
    let output = home.run(&["calibrate", "--show"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("no noise floors"));
}
