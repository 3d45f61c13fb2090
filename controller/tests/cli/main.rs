//! The real program: what it prints, and its exit code, for each way a command line can be wrong.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod arms;
#[path = "../store/fixtures.rs"]
#[expect(dead_code, reason = "the store's tests use all of it")]
mod fixtures;
mod home;
mod loads;
mod runs;
mod stored;
mod suites;
mod travel;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use home::{Home, refused, stderr, stdout};

#[test]
fn help_lists_the_commands() {
    let home = Home::new();
    let output = home.run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!("help", stdout(&output));
    let output = home.run(&["run", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!("help_run", stdout(&output));
    assert_eq!(
        home.run(&[]).status.code(),
        Some(2),
        "no command is a usage error"
    );
}

#[test]
fn wrong_command_lines_are_one_line_and_exit_2() {
    let home = Home::new();
    std::fs::write(
        home.path().join("bad.jsonl"),
        "{\"prompt\": \"a\"}\n{\"text\": 1}\n",
    )
    .unwrap();
    let bad = home.path().join("bad.jsonl");
    let bad = bad.to_str().unwrap();
    let long = "x".repeat(1025);
    let long = long.as_str();
    let table: &[(&[&str], &[&str])] = &[
        (&["run"], &["--chapter"]),
        (&["rum"], &["rum"]),
        (&["run", "--chapter", "1", "--bogus"], &["--bogus"]),
        (
            &["run", "--chapter", "1", "--mode", "sideways"],
            &["--mode", "offline, online or both"],
        ),
        (
            &["run", "--chapter", "1", "--n-runs", "0"],
            &["--n-runs 0", "1 to"],
        ),
        (
            &["run", "--chapter", "1", "--n-runs", "many"],
            &["--n-runs", "many"],
        ),
        (
            &["run", "--chapter", "1", "--max-tokens", "0"],
            &["--max-tokens 0"],
        ),
        (
            &["run", "--chapter", "1", "--concurrency", "0"],
            &["--concurrency 0", "1 to"],
        ),
        (&["run", "--chapter", "1", "--repeat", "0"], &["--repeat 0"]),
        (
            &["run", "--chapter", "1", "--threads", "0"],
            &["--threads 0"],
        ),
        (
            &["run", "--chapter", "1", "--temperature", "nan"],
            &["--temperature"],
        ),
        (&["run", "--chapter", "1", "--top-k", "0"], &["--top-k 0"]),
        (
            &["run", "--chapter", "1", "--top-p", "1.5"],
            &["--top-p 1.5"],
        ),
        (
            &["run", "--chapter", "1", "--min-p", "1.5"],
            &["--min-p 1.5"],
        ),
        (
            &["run", "--chapter", "1", "--repetition-penalty", "0"],
            &["--repetition-penalty 0"],
        ),
        (
            &["run", "--chapter", "1", "--presence-penalty", "-2.5"],
            &["--presence-penalty -2.5"],
        ),
        (
            &["run", "--chapter", "1", "--frequency-penalty", "nan"],
            &["--frequency-penalty NaN"],
        ),
        (&["run", "--chapter", "1", "--stop", ""], &["--stop"]),
        (
            &["run", "--chapter", "1", "--stop", long],
            &["--stop of 1025 bytes", "at most 1024"],
        ),
        (
            &["run", "--chapter", "1", "--ready-timeout", "0"],
            &["--ready-timeout"],
        ),
        (
            &["run", "--chapter", "1", "--allow-failures", "200%"],
            &["--allow-failures"],
        ),
        (
            &["run", "--chapter", "1", "--tag", "alone"],
            &["--tag", "KEY=VALUE"],
        ),
        (&["run", "--chapter", "1", "--prompt", ""], &["--prompt"]),
        (
            &["run", "--chapter", "1", "--prompts", "/no/such"],
            &["--prompts /no/such"],
        ),
        (
            &["run", "--chapter", "1", "--prompts", bad],
            &["line 2", "prompt"],
        ),
        (
            &["run", "--chapter", "1", "--agent", "nobody"],
            &["nobody", "controller agents add"],
        ),
        (&["compare", "ch01"], &["SIDE", "only 1"]),
        (
            &["compare", "ch01", "ch02", "--margin", "5"],
            &["--margin", "less than 100%"],
        ),
        (
            &["compare", "ch01", "ch02", "--alpha", "0.9"],
            &["--alpha", "0.2"],
        ),
        (
            &["compare", "ch01", "ch02", "--fail-on", "faster"],
            &["--fail-on", "slower:X%"],
        ),
        (
            &["compare", "ch01", "ch02", "--vs", "next"],
            &["--vs", "first", "previous"],
        ),
        (&["compare", "ch01", "bogus"], &["bogus"]),
        (&["agents", "add", "local", "http://x:1"], &["local"]),
        (&["agents", "add", "a b", "http://x:1"], &["a b"]),
        (&["agents", "add", "box", "ftp://x"], &["ftp://x"]),
        (
            &[
                "agents",
                "add",
                "box",
                "http://x:1",
                "--token-file",
                "/no/such",
            ],
            &["/no/such"],
        ),
        (&["agents", "check", "nobody"], &["nobody"]),
        (&["agents", "remove", "nobody"], &["nobody"]),
        (&["cancel", "01NOPE"], &["01NOPE"]),
    ];
    for (args, words) in table {
        refused(&home.run(args), 2, words);
    }
}

#[test]
fn arguments_that_are_not_utf8_are_refused() {
    let home = Home::new();
    let odd = OsString::from_vec(b"--chapter=\xff".to_vec());
    let output = home.command(&["run"]).arg(&odd).output().unwrap();
    refused(&output, 2, &["UTF-8"]);
}

#[test]
fn a_dry_run_says_what_would_be_run_and_runs_nothing() {
    let home = Home::new();
    let args = [
        "run",
        "--chapter",
        "1,2",
        "--mode",
        "both",
        "--repeat",
        "2",
        "--dry-run",
    ];
    let output = home.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    insta::assert_snapshot!(stdout(&output), @r"
    Arms
      #a ch01 offline cpu
      #b ch01 online cpu
      #c ch02 offline cpu
      #d ch02 online cpu
    Order     a b c d | d c b a (abba)
    Agents    local
    Workload  dummy:tiny-llm, 1 prompt, at most 40 tokens each (4c23b3810fcb)
    Requests  160 measured, 24 warm-up, on each agent
    Time      unknown: none of this was run before
    ");
    let output = home.run(&[&args[..], &["--format", "json"]].concat());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    assert_eq!(document["plan"]["runs"].as_array().unwrap().len(), 8);
    assert!(
        std::fs::read_dir(home.path()).unwrap().next().is_none(),
        "nothing was written"
    );
}

#[cfg(feature = "local")]
#[test]
fn an_unknown_chapter_lists_those_that_exist() {
    let home = Home::new();
    for dry in [&["--dry-run"][..], &[]] {
        let output = home.run(&[&["run", "--chapter", "7"], dry].concat());
        refused(&output, 2, &["ch07", "ch01, ch02"]);
        assert!(!stderr(&output).contains("fake"));
    }
}

#[test]
fn flag_over_environment_over_file_over_default() {
    let home = Home::new();
    let folder = home.path().join(".config/chapterbench");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "warmup = 1\nn_runs = 5\n").unwrap();
    let source = |key: &str, args: &[&str]| {
        let args = [&["config", "--format", "json"], args].concat();
        let output = home
            .command(&args)
            .env("CHAPTERBENCH_N_RUNS", "7")
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let settings = document["config"].as_array().unwrap();
        let setting = settings
            .iter()
            .find(|setting| setting["name"] == key)
            .unwrap();
        let word = |field: &str| setting[field].as_str().unwrap().to_owned();
        (word("value"), word("source"))
    };
    assert_eq!(source("n_runs", &[]).0, "7");
    assert!(source("n_runs", &[]).1.contains("CHAPTERBENCH_N_RUNS"));
    assert_eq!(source("warmup", &[]).0, "1");
    assert!(source("warmup", &[]).1.ends_with("config.toml"));
    assert_eq!(
        source("max_tokens", &[]),
        ("40".to_owned(), "default".to_owned())
    );
    let at_home = home.path().join(".local/share/chapterbench/bench.db");
    assert_eq!(source("db", &[]).0, at_home.to_str().unwrap());
    assert_eq!(
        source("db", &["--db", "/x.db"]),
        ("/x.db".to_owned(), "flag --db".to_owned())
    );

    // What is set is used: 7 measured and 1 warm-up request.
    let output = home
        .command(&["run", "--chapter", "1", "--dry-run"])
        .env("CHAPTERBENCH_N_RUNS", "7")
        .output()
        .unwrap();
    assert!(
        stdout(&output).contains("7 measured, 1 warm-up"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_wrong_setting_names_its_place() {
    let home = Home::new();
    let output = home
        .command(&["run", "--chapter", "1", "--dry-run"])
        .env("CHAPTERBENCH_N_RUNS", "many")
        .output()
        .unwrap();
    refused(&output, 2, &["CHAPTERBENCH_N_RUNS", "many"]);
    let folder = home.path().join("conf");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), "n_rums = 5\n").unwrap();
    let output = home
        .command(&["config"])
        .env("CHAPTERBENCH_CONFIG_DIR", &folder)
        .output()
        .unwrap();
    refused(&output, 2, &["n_rums", "config.toml", "n_runs"]);
}

#[test]
fn databases_that_cannot_be_used_are_one_line_and_exit_1() {
    let home = Home::new();
    let text = home.path().join("text.db");
    std::fs::write(&text, "no database at all ".repeat(100)).unwrap();
    let locked = home.path().join("locked.db");
    let file = locked.to_str().unwrap();
    assert!(
        home.run(&["agents", "add", "box", "http://127.0.0.1:1", "--db", file])
            .status
            .success()
    );
    let mut permissions = std::fs::metadata(&locked).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&locked, permissions).unwrap();
    let run = |db: &OsStr| {
        let args = ["run", "--chapter", "fake", "--db", db.to_str().unwrap()];
        home.run(&args)
    };
    refused(
        &run(text.as_os_str()),
        1,
        &["text.db", "not a chapterbench database"],
    );
    refused(&run(locked.as_os_str()), 1, &["locked.db", "read-only"]);
    refused(
        &run(home.path().as_os_str()),
        1,
        &["not a chapterbench database"],
    );
    refused(
        &home.run(&["runs", "list", "--db", text.to_str().unwrap()]),
        1,
        &["text.db"],
    );
    let missing = home.path().join("missing.db");
    let output = home.run(&["runs", "list", "--db", missing.to_str().unwrap()]);
    refused(&output, 1, &["no runs yet", "missing.db"]);
    assert!(!missing.exists());
}

#[test]
fn an_agent_that_does_not_answer_is_named_and_exits_3() {
    let home = Home::new();
    // A port that was free a moment ago, and a socket that speaks no HTTP.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    assert!(home.run(&["agents", "add", "gone", &url]).status.success());
    let output = home.run(&["run", "--chapter", "1", "--agent", "gone"]);
    refused(&output, 3, &["gone", &url, "refused"]);
    let output = home.run(&["agents", "check"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("refused"), "{}", stdout(&output));

    let odd = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", odd.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = odd.accept().unwrap();
        let mut head = [0; 1024];
        std::io::Read::read(&mut stream, &mut head).unwrap();
        let html = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
        std::io::Write::write_all(&mut stream, html.as_bytes()).unwrap();
        String::from_utf8_lossy(&head).to_lowercase()
    });
    assert!(home.run(&["agents", "add", "odd", &url]).status.success());
    let output = home
        .command(&["run", "--chapter", "1", "--agent", "odd"])
        .env("CHAPTERBENCH_TOKEN", "sesame")
        .output()
        .unwrap();
    refused(&output, 3, &["odd", &url, "chapterbench agent"]);
    let head = answer.join().unwrap();
    assert!(head.contains("chapterbench-protocol: 1"), "{head}");
    assert!(head.contains("authorization: bearer sesame"), "{head}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::new();
    let mut child = home
        .command(&["config"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stderr(&output), "");
    assert_eq!(output.status.code(), Some(0));
}
