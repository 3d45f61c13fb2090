//! The real program: what it prints, and its exit code, for each way a command line can be wrong.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A home of its own: nothing of the user's configuration or data is read or written.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, args: &[&str]) -> Command {
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

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Exit code, and one line on stderr that holds each of the words.
#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let line = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("error: "), "{line}");
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
    assert_eq!(stdout(output), "");
}

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
        (&["compare", "ch01"], &["CANDIDATE"]),
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

/// Flags of load, prompts and servers that cannot be together, or mean nothing here.
#[test]
fn flags_that_contradict_each_other_are_named() {
    let home = Home::new();
    let table: &[(&[&str], &[&str])] = &[
        (&["--rate", "0"], &["--rate", "inf"]),
        (&["--rate", "1e9"], &["--rate 1000000000", "at most"]),
        (
            &["--rate", "5", "--concurrency", "1,2"],
            &["--concurrency", "--rate", "one number"],
        ),
        (&["--arrival", "constant"], &["--arrival", "--rate"]),
        (
            &["--rate", "5", "--arrival", "even"],
            &["--arrival", "poisson"],
        ),
        (
            &["--duration", "30s", "--n-runs", "5"],
            &["--duration", "--n-runs"],
        ),
        (&["--duration", "0"], &["--duration", "1ms"]),
        (&["--goodput", "ttft"], &["--goodput", "ttft=200"]),
        (
            &["--sweep", "--concurrency", "1,2"],
            &["--sweep", "--concurrency"],
        ),
        (&["--sweep", "--rate", "inf"], &["--sweep", "inf"]),
        (
            &["--sweep", "concurrency", "--rate", "2"],
            &["--sweep concurrency", "--rate"],
        ),
        (&["--sweep", "--repeat", "2"], &["--sweep", "--repeat"]),
        (&["--sweep", "--mode", "both"], &["--sweep", "--mode both"]),
        (
            &["--sweep", "sideways"],
            &["--sweep", "concurrency or rate"],
        ),
        (
            &["--mode", "offline", "--concurrency", "2"],
            &["--concurrency", "offline"],
        ),
        (
            &["--mode", "offline", "--rate", "2"],
            &["--rate", "offline"],
        ),
        (&["--mode", "offline", "--sweep"], &["--sweep", "offline"]),
        (
            &["--mode", "offline", "--duration", "5s"],
            &["--duration", "offline"],
        ),
        (
            &["--mode", "offline", "--extra", "a=1"],
            &["--extra", "offline"],
        ),
        (
            &["--mode", "offline", "--header", "A: b"],
            &["--header", "offline"],
        ),
        (
            &["--prompt", "a", "--input-len", "5"],
            &["--prompt", "--input-len"],
        ),
        (
            &["--trace", "a", "--dataset", "sharegpt:b"],
            &["--trace", "--dataset"],
        ),
        (&["--trace", "a", "--rate", "5"], &["--trace", "--rate"]),
        (
            &["--trace", "a", "--output-len", "5"],
            &["--trace", "--output-len"],
        ),
        (&["--trace", "/no/such"], &["--trace /no/such"]),
        (
            &["--conversations", "/no/such"],
            &["--conversations /no/such"],
        ),
        (&["--dataset", "sharegpt:/no/such"], &["--dataset /no/such"]),
        (&["--dataset", "alpaca:x"], &["--dataset", "sharegpt:FILE"]),
        (&["--input-len", "0"], &["--input-len"]),
        (
            &["--output-len", "5", "--max-tokens", "5"],
            &["--output-len", "--max-tokens"],
        ),
        (
            &["--output-len", "normal:5,1"],
            &["--output-len", "--input-len"],
        ),
        (&["--prefix-len", "5"], &["--input-len"]),
        (
            &["--input-len", "5", "--prefix-len", "6"],
            &["--prefix-len 6", "5"],
        ),
        (
            &["--input-len", "5", "--prefix-share", "1"],
            &["--prefix-len"],
        ),
        (&["--cache", "hot"], &["--cache", "cold"]),
        (
            &["--extra", "stream=false"],
            &["--extra stream", "--no-stream"],
        ),
        (
            &["--extra", "a=1", "--extra", "a=2"],
            &["--extra a", "twice"],
        ),
        (&["--url", "http://x:1"], &["--url", "--chapter"]),
        (&["--served-model-name", "m"], &["--url"]),
    ];
    for (flags, words) in table {
        let args = [&["run", "--chapter", "1", "--dry-run"], *flags].concat();
        refused(&home.run(&args), 2, words);
    }
    let table: &[(&[&str], &[&str])] = &[
        (&["--url", "x:1"], &["--url", "http://HOST:PORT"]),
        (
            &["--url", "ftp://x"],
            &["--url ftp://x", "http://HOST:PORT"],
        ),
        (&["--url", "http://x/?key=hunter2"], &["--url", "?"]),
        (
            &["--url", "http://me:hunter2@x"],
            &["--url", "--api-key-file"],
        ),
        (
            &["--url", "http://x", "--mode", "offline"],
            &["--url", "--mode"],
        ),
        (
            &["--url", "http://x", "--engine", "vllm"],
            &["--url", "--engine"],
        ),
        (
            &["--url", "http://x", "--threads", "2"],
            &["--url", "--threads"],
        ),
    ];
    for (flags, words) in table {
        let output = home.run(&[&["run", "--dry-run"], *flags].concat());
        refused(&output, 2, words);
        assert!(!stderr(&output).contains("hunter2"), "{flags:?}");
    }
}

/// A line that is wanted, among those of a dry run.
#[track_caller]
fn plans(home: &Home, flags: &[&str], lines: &[&str]) {
    let output = home.run(&[&["run", "--dry-run"], flags].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for line in lines {
        assert!(
            text.lines().any(|there| there == *line),
            "`{line}` is not in:\n{text}"
        );
    }
}

#[test]
fn loads_make_runs_of_their_own() {
    let home = Home::new();
    let chapter = ["--chapter", "1,2"];
    let plans = |flags: &[&str], lines: &[&str]| plans(&home, &[&chapter, flags].concat(), lines);
    plans(
        &["--concurrency", "8,1", "--repeat", "2", "--n-runs", "40"],
        &[
            "Order     a b b a (abba), 1 at a time",
            "          a b b a (abba), 8 at a time",
            "Requests  320 measured, 44 warm-up, on each agent",
            "Time      unknown: none of this was run before",
        ],
    );
    plans(
        &["--rate", "2,inf", "--concurrency", "4", "--duration", "30s"],
        &[
            "Order     a b (abba), 2/s (poisson), at most 4 in flight",
            "          a b (abba), all at once, at most 4 in flight",
            "Requests  as many as end in 2m, 16 warm-up, on each agent",
            "Time      about 2m on each agent, as earlier runs took",
        ],
    );
    plans(
        &["--sweep", "--rate", "0.5", "--arrival", "gamma:0.5"],
        &["Sweep     each arm from 0.5/s (gamma:0.5), doubled up to 4096/s at most"],
    );
    plans(
        &["--sweep"],
        &["Sweep     each arm from 1 at a time, doubled up to 4096 at most"],
    );
}

#[test]
fn prompts_and_caches_go_into_the_work() {
    let home = Home::new();
    let data = home.path().join("chats.json");
    let pair = r#"{"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]}"#;
    std::fs::write(&data, format!("[{pair}, {pair}, {pair}]")).unwrap();
    let trace = home.path().join("trace.jsonl");
    let line = r#"{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}"#;
    std::fs::write(&trace, format!("{line}\n{line}\n")).unwrap();
    let data = format!("sharegpt:{}", data.display());
    let spec = |flags: &[&str]| {
        let args = [&["run", "--dry-run", "--format", "json"], flags].concat();
        let output = home.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["plan"]["runs"][0]["spec"].clone()
    };
    let chapter = |flags: &[&str]| spec(&[&["--chapter", "1"], flags].concat());

    let plain = chapter(&[]);
    assert_eq!(plain["workload"]["cache"], "as_is");
    let made = chapter(&["--input-len", "64", "--output-len", "uniform:8,16"]);
    assert_eq!(made["workload"]["cache"], "cold");
    assert_eq!(made["workload"]["prompts"]["kind"], "synthetic");
    assert_eq!(made["workload"]["prompts"]["input"]["tokens"], 64);
    let fixed = chapter(&["--output-len", "7", "--cache", "warm"]);
    assert_eq!(fixed["workload"]["sampling"]["max_tokens"], 7);
    assert_eq!(fixed["workload"]["cache"], "warm");
    let pairs = chapter(&["--dataset", &data, "--n-runs", "2", "--warmup", "0"]);
    assert_eq!(pairs["workload"]["cache"], "cold");
    assert_eq!(
        pairs["workload"]["prompts"]["pairs"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let asked = chapter(&["--dataset", &data, "--output-len", "9"]);
    assert_eq!(asked["workload"]["prompts"]["kind"], "texts");
    assert_eq!(asked["workload"]["cache"], "cold");
    let traced = chapter(&["--trace", trace.to_str().unwrap(), "--concurrency", "3"]);
    assert_eq!(traced["workload"]["n_runs"], 2);
    assert_eq!(traced["workload"]["load"]["kind"], "trace");
    assert_eq!(traced["workload"]["load"]["max_in_flight"], 3);

    let server = spec(&[
        "--url",
        "http://box:8000/",
        "--served-model-name",
        "m",
        "--header",
        "X-Team: blue",
        "--extra",
        "min_p=0.1",
        "--no-keepalive",
        "--goodput",
        "ttft=200",
    ]);
    assert_eq!(server["arm"]["engine"]["url"], "http://box:8000");
    assert_eq!(server["arm"]["mode"], "online");
    assert_eq!(server["arm"]["header_names"][0], "x-team");
    assert_eq!(server["arm"]["extra"]["min_p"], 0.1);
    assert_eq!(server["arm"]["no_keepalive"], true);
    assert_eq!(server["workload"]["model"], "m");
    assert_eq!(server["slo"]["ttft_ms"], 200.0);
    assert!(!server.to_string().contains("blue"));
    assert_eq!(
        spec(&["--url", "http://box"])["workload"]["model"],
        "unnamed"
    );
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
    Order     a b c d d c b a (abba)
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
