//! `controller runs` and `controller db` on a database that is filled: lists, what is deleted and what
//! is asked first, whether the file is whole, copies of it.

use std::process::Command;

use crate::home::{refused, stderr, stdout};
use crate::stored::{done, filled, ids, json, python, script};

#[test]
fn flags_choose_runs_with_and_without_list() {
    let home = filled();
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["01A", "01B", "01RUNNING"]),
        (&["--limit", "1"], &["01RUNNING"]),
        (&["--engine", "other"], &["01B"]),
        (&["--chapter", "2", "--state", "done,failed"], &["01A"]),
        (&["ch02", "--limit", "5", "--state", "done"], &["01A"]),
        (
            &["--tag", "who=me", "--session", "01s", "--label", "nightly"],
            &["01A", "01B", "01RUNNING"],
        ),
        (&["--since", "2023-11-15"], &[]),
        (&["--since", "2023-11-14"], &["01A", "01B", "01RUNNING"]),
        (
            &["--host", "bench-1", "--mode", "online", "--agent", "box"],
            &["01A", "01B", "01RUNNING"],
        ),
        (&["--model", "no such"], &[]),
    ];
    for (flags, expected) in cases {
        for start in [&["runs"][..], &["runs", "list"]] {
            let document = json(&home, &[start, *flags].concat());
            assert_eq!(ids(&document), *expected, "{flags:?}");
        }
    }
    let none = home.run(&["runs", "--label", "none"]);
    assert_eq!(
        (none.status.code(), stdout(&none).as_str()),
        (Some(0), "no runs\n")
    );
    assert!(
        stderr(&none).starts_with("no run matches; "),
        "{}",
        stderr(&none)
    );
    assert_eq!(stderr(&none).lines().count(), 1);
    for (flags, words) in [
        (["--state", "gone"], ["--state", "cancelled"]),
        (["--since", "soon"], ["--since", "2026-11-01"]),
        (["--chapter", "one"], ["--chapter", "ch01"]),
        (["--mode", "both"], ["--mode", "offline or online"]),
        (["--tag", "alone"], ["--tag", "KEY=VALUE"]),
    ] {
        refused(&home.run(&["runs", flags[0], flags[1]]), 2, &words);
    }
    refused(
        &home.run(&["runs", "file:a.json"]),
        2,
        &["file:a.json", "runs import a.json"],
    );
}

#[test]
fn what_would_be_deleted_is_listed_and_needs_a_yes() {
    let home = filled();
    let asked = home.run(&["runs", "delete", "01B"]);
    assert_eq!(asked.status.code(), Some(2));
    assert!(stdout(&asked).contains("01B"), "{}", stdout(&asked));
    assert!(stderr(&asked).contains("1 run would be deleted") && stderr(&asked).contains("--yes"));
    for (args, words) in [
        (&["delete"][..], "which runs?"),
        (&["prune"], "which runs?"),
        (&["delete", "01"], "run:01"),
        (&["delete", "file:a.json"], "runs import a.json"),
        (&["prune", "--older-than", "old"], "--older-than"),
    ] {
        refused(&home.run(&[&["runs"], args].concat()), 2, &[words]);
    }
    refused(
        &home.run(&["runs", "delete", "01NONE", "--yes"]),
        1,
        &["run:01NONE"],
    );
    done(&home, &["runs", "prune", "--failed", "--dry-run"]);
    done(
        &home,
        &[
            "runs",
            "prune",
            "--older-than",
            "1d",
            "--keep-labelled",
            "--yes",
        ],
    );
    assert_eq!(ids(&json(&home, &["runs"])).len(), 3);

    let gone = json(&home, &["runs", "prune", "--failed", "--yes", "--vacuum"]);
    assert_eq!(gone["deleted"]["run_ids"], serde_json::json!(["01B"]));
    assert_eq!(gone["deleted"]["samples"], 3);
    let running = home.run(&["runs", "delete", "ch02", "run:01R", "--yes"]);
    assert!(
        stdout(&running).contains("deleted 1 run (3 requests)"),
        "{}",
        stdout(&running)
    );
    assert!(
        stderr(&running).contains("1 run under way stays"),
        "{}",
        stderr(&running)
    );
    assert_eq!(ids(&json(&home, &["runs"])), ["01RUNNING"]);
}

#[test]
fn a_backup_is_read_again_and_replaces_nothing() {
    let home = filled();
    let said = json(&home, &["db", "backup", "copy.db"]);
    assert_eq!(
        (&said["backup"]["runs"], &said["backup"]["samples"]),
        (&3.into(), &6.into())
    );
    let copied = home.path().join("copy.db");
    let bytes = std::fs::read(&copied).unwrap();
    assert_eq!(said["backup"]["bytes"], bytes.len());
    let again = home.run(&["db", "backup", copied.to_str().unwrap()]);
    refused(&again, 1, &["copy.db is there already"]);
    refused(
        &home.run(&["db", "backup", "/no/such/copy.db"]),
        1,
        &["/no/such/copy.db"],
    );
    assert_eq!(std::fs::read(&copied).unwrap(), bytes);
    let ours = done(&home, &["runs", "export"]);
    assert_eq!(done(&home, &["runs", "export", "--db", "copy.db"]), ours);

    // A page in the middle that is not what it was.
    let middle = bytes.len() / 2;
    let mut damaged = bytes;
    damaged[middle..middle + 4096].fill(0x5a);
    std::fs::write(home.path().join("bad.db"), damaged).unwrap();
    let check = home.command(&["db", "check", "--db", "bad.db"]);
    let check = { check }.current_dir(home.path()).output().unwrap();
    assert_eq!(check.status.code(), Some(1), "{}", stdout(&check));
    let backup = ["db", "backup", "never.db", "--db", "bad.db"];
    let backup = home.command(&backup).current_dir(home.path()).output();
    assert_eq!(backup.unwrap().status.code(), Some(1));
    assert!(!home.path().join("never.db").exists());
}

#[test]
fn on_a_terminal_it_asks() {
    let Some(python) = python() else {
        return;
    };
    let home = filled();
    let ask = |answer: &str| {
        let mut command = Command::new(&python);
        command.arg(script("on_a_terminal.py")).arg(answer);
        command.args([env!("CARGO_BIN_EXE_controller"), "runs", "delete", "01B"]);
        command.env_clear().env("HOME", home.path());
        command.env("CHAPTERBENCH_LOCK_DIR", home.path());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    for answer in ["n", "", "nein"] {
        let shown = ask(answer);
        assert!(shown.contains("Delete 1 run for good? [y/N]"), "{shown}");
        assert!(shown.contains("nothing was deleted"), "{shown}");
    }
    assert!(ask("y").contains("deleted 1 run (3 requests)"));
    assert_eq!(ids(&json(&home, &["runs"])), ["01A", "01RUNNING"]);
}
