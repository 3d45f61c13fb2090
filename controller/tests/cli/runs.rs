//! `controller runs` and `controller db` on databases that the tests fill: lists, exports, imports,
//! what is deleted and what is asked first.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use contracts::run::RunState;
use contracts::sample::Sample;
use controller::record::{RunRecord, RunWithSamples};
use controller::store::Store;
use proptest::prelude::*;
use serde_json::Value;

use crate::fixtures;
use crate::home::{Home, refused, stderr, stdout};

/// A home whose database has the runs `01A` (`ch02`, done), `01B` (another engine, failed) and
/// `01RUNNING`.
fn filled() -> Home {
    let home = Home::new();
    let other = |run: &mut RunRecord| run.engine = "other".to_owned();
    store(&home, "01A", &fixtures::samples(), |_| {});
    store(&home, "01B", &fixtures::samples(), other);
    in_store(&home, async |store| {
        let run = fixtures::queued("01RUNNING", "01SESSION");
        store.create_run(&run, &fixtures::host()).await.unwrap();
    });
    home
}

fn in_store(home: &Home, work: impl AsyncFnOnce(&Store)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let path = home.path().join(".local/share/chapterbench/bench.db");
    runtime.block_on(async {
        let store = Store::open(&path).await.unwrap();
        work(&store).await;
        store.close().await;
    });
}

/// Stores a run: `01A` done, others failed.
fn store(home: &Home, run_id: &str, samples: &[Sample], change: impl Fn(&mut RunRecord)) {
    in_store(home, async |store| {
        let mut run = fixtures::queued(run_id, "01SESSION");
        change(&mut run);
        store.create_run(&run, &fixtures::host()).await.unwrap();
        let mut run = fixtures::ended(run);
        if run_id == "01A" {
            run.status.state = RunState::Done;
            run.status.failure = None;
        }
        run.status.samples.as_mut().unwrap().count = samples.len() as u64;
        let (samples, events) = (fixtures::ok(samples.to_vec()), fixtures::events());
        store.finish_run(&run, samples, &events).await.unwrap();
    });
}

fn done(home: &Home, args: &[&str]) -> String {
    let output = home
        .command(args)
        .current_dir(home.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

fn json(home: &Home, args: &[&str]) -> Value {
    let args = [args, &["--format", "json"]].concat();
    serde_json::from_str(&done(home, &args)).unwrap()
}

fn ids(document: &Value) -> Vec<&str> {
    let runs = document["runs"].as_array().unwrap().iter();
    runs.map(|run| run["run_id"].as_str().unwrap()).collect()
}

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
fn what_is_exported_and_imported_is_exported_alike() {
    let home = filled();
    done(&home, &["runs", "export", "--output", "a.json"]);
    let text = std::fs::read_to_string(home.path().join("a.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["hosts"][0]["host"]["hostname"], "bench-1");
    // What a reader of before knows is there as before.
    let runs: Vec<RunWithSamples> = serde_json::from_value(document["runs"].clone()).unwrap();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[0].samples, fixtures::samples());

    let said = done(&home, &["runs", "import", "a.json", "--db", "b.db"]);
    insta::assert_snapshot!(said, @"a.json: imported 2 runs (6 requests) of 1 new session, 1 still under way there");
    let said = done(&home, &["runs", "import", "a.json", "b.db"]);
    insta::assert_snapshot!(said, @r"
    a.json: imported 0 runs (0 requests) of 0 new sessions, 2 here already, 1 still under way there
    b.db: imported 0 runs (0 requests) of 0 new sessions, 2 here already
    ");
    let ended = ["runs", "export", "--state", "done,failed"];
    let ours = done(&home, &ended);
    assert_eq!(done(&home, &["runs", "export", "--db", "b.db"]), ours);
    let document: Value = serde_json::from_str(&ours).unwrap();
    assert_eq!(document["runs"][0]["events"].as_array().unwrap().len(), 2);
    let check = done(&home, &["db", "check", "--db", "b.db"]);
    assert_eq!(check, "b.db: 2 runs, 6 requests: whole\n");
}

#[test]
fn an_import_that_cannot_be_is_one_line_and_changes_nothing() {
    let home = filled();
    done(&home, &["runs", "export", "--output", "a.json"]);
    let text = std::fs::read_to_string(home.path().join("a.json")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    write("cut.json", &text[..text.len() - 40]);
    write("other.json", &text.replace("\"cafe\"", "\"beef\""));
    write("fewer.json", &text.replace("\"count\":3", "\"count\":4"));
    let last = text.rfind("\"due_ns\"").unwrap();
    write(
        "field.json",
        &format!("{}\"dun_ns\"{}", &text[..last], &text[last + 8..]),
    );
    let before = done(&home, &["runs", "export"]);
    let import = |args: &[&str]| {
        let args = [&["runs", "import"], args].concat();
        home.command(&args)
            .current_dir(home.path())
            .output()
            .unwrap()
    };
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&[], 2, &["<FILE>"]),
        (&["none.json"], 1, &["none.json", "No such file"]),
        (&["."], 1, &["cannot be read"]),
        (&["cut.json"], 1, &["cut.json", "EOF while parsing", "line"]),
        (
            &["field.json"],
            1,
            &["field.json", "missing field `due_ns`", "line"],
        ),
        (
            &["fewer.json", "--db", "new.db"],
            1,
            &["run 01A", "it has 3 requests here and had 4"],
        ),
        (
            &["other.json"],
            1,
            &["other.json", "run 01A", "other requests"],
        ),
        (
            &[".local/share/chapterbench/bench.db"],
            2,
            &["is the database itself"],
        ),
    ];
    for (args, code, words) in cases {
        refused(&import(args), *code, words);
    }
    assert_eq!(done(&home, &["runs", "export"]), before);
    assert!(!home.path().join("new.db").exists());
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

/// A Python with pyarrow, if the tests were given one.
fn python() -> Option<OsString> {
    let python = std::env::var_os("CHAPTERBENCH_PYTHON");
    if python.is_none() {
        eprintln!("skipped: CHAPTERBENCH_PYTHON does not name a python with the pyarrow package");
    }
    python
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli")
        .join(name)
}

#[test]
fn another_reader_finds_in_parquet_what_is_in_csv() {
    let Some(python) = python() else {
        return;
    };
    let home = filled();
    for what in ["samples", "runs"] {
        let export = ["runs", "export", "--what", what, "--format"];
        done(
            &home,
            &[&export[..], &["parquet", "--output", "t.parquet"]].concat(),
        );
        let csv = done(&home, &[&export[..], &["csv"]].concat());
        let read = Command::new(&python)
            .arg(script("read_parquet.py"))
            .arg(home.path().join("t.parquet"))
            .output()
            .unwrap();
        assert!(read.status.success(), "{}", stderr(&read));
        let read: Value = serde_json::from_slice(&read.stdout).unwrap();
        assert_eq!(read["compression"], serde_json::json!(["ZSTD"]));
        let types = read["types"].as_object().unwrap();
        let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        assert!(types.keys().eq(header.iter()), "{types:?}");
        assert_eq!(types["run_id"], serde_json::json!(["string", false]));
        assert_eq!(types["wall_ms"], serde_json::json!(["double", true]));
        let rows = read["rows"].as_array().unwrap();
        assert_eq!(rows.len(), if what == "samples" { 6 } else { 3 });
        let text = rows.iter().map(csv_row).collect::<String>();
        assert_eq!(text, csv.split_once('\n').unwrap().1);
    }
}

/// A row as our CSV has it.
fn csv_row(row: &Value) -> String {
    let cells = row.as_object().unwrap().values().map(|cell| match cell {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap().to_string(),
        other => other.to_string(),
    });
    cells.collect::<Vec<_>>().join(",") + "\n"
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

prop_compose! {
    fn a_sample()(
        numbers in proptest::array::uniform3(0u64..1 << 62),
        times in proptest::array::uniform3(proptest::option::of(proptest::num::f64::NORMAL)),
        tokens in proptest::option::of(any::<u32>()),
        text in proptest::option::of("\\PC{0,12}"),
        ids in proptest::option::of(proptest::collection::vec(any::<u32>(), 0..5)),
        failed in any::<bool>(),
    ) -> Sample {
        let error = fixtures::samples()[2].error.clone();
        Sample {
            due_ns: numbers[0],
            start_ns: numbers[1],
            done_ns: failed.then_some(numbers[2]),
            wall_ms: times[0],
            ttft_ms: times[1],
            engine_queue_ms: times[2],
            output_tokens: tokens,
            text,
            output_ids: ids,
            error: error.filter(|_| failed),
            ..Sample::default()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_samples_travel_unchanged(
        samples in proptest::collection::vec(a_sample(), 0..8),
        label in proptest::option::of("\\PC{0,8}"),
    ) {
        let home = Home::new();
        let numbered = (0..).zip(samples).map(|(index, sample)| Sample { index, ..sample });
        let numbered: Vec<Sample> = numbered.collect();
        store(&home, "01A", &numbered, |run| run.label = label.clone());
        let ours = done(&home, &["runs", "export", "--output", "a.json"]) ;
        prop_assert_eq!(ours, "");
        done(&home, &["runs", "import", "a.json", "--db", "b.db"]);
        let ours = std::fs::read_to_string(home.path().join("a.json")).unwrap();
        prop_assert_eq!(done(&home, &["runs", "export", "--db", "b.db"]), ours);
    }
}
