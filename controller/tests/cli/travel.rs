//! Runs that leave the database and come back: exports, imports, files as sides of a comparison.

use std::process::Command;

use contracts::sample::Sample;
use controller::record::RunWithSamples;
use proptest::prelude::*;
use serde_json::Value;

use crate::fixtures;
use crate::home::{Home, refused, stderr, stdout};
use crate::stored::{done, filled, python, script, store};

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
fn an_export_never_takes_the_place_of_the_database() {
    let home = filled();
    done(&home, &["db", "backup", "b.db"]);
    std::os::unix::fs::symlink("b.db", home.path().join("link.db")).unwrap();
    let before = std::fs::read(home.path().join("b.db")).unwrap();
    for name in ["b.db", "link.db"] {
        let export = ["runs", "export", "--db", "b.db", "--output", name];
        let output = home
            .command(&export)
            .current_dir(home.path())
            .output()
            .unwrap();
        refused(&output, 2, &[name, "is the database itself"]);
    }
    assert!(std::fs::read(home.path().join("b.db")).unwrap() == before);
}

#[test]
fn files_are_sides_of_a_comparison_as_the_database_is() {
    let home = filled();
    let path = home.path().join("a.json");
    done(&home, &["runs", "export", "run:01A", "--output", "a.json"]);
    done(&home, &["db", "backup", "b.db"]);
    let compare = |base: &str, candidate: &str, db: &str| {
        let args = ["compare", base, candidate, "--format", "json", "--db", db];
        let output = home
            .command(&args)
            .current_dir(home.path())
            .output()
            .unwrap();
        let text = stdout(&output);
        (output.status.code(), text, stderr(&output))
    };
    let db = ".local/share/chapterbench/bench.db";
    let (code, of_database, _) = compare("run:01A", "run:01A", db);
    assert!(of_database.contains("\"cells\""), "{of_database}");
    for sides in [
        ("run:01A", "file:a.json"),
        ("file:a.json:online", "file:b.db#b%0.1.0"),
        ("file:a.json", "file:a.json"),
    ] {
        // Files alone need no database.
        let db = if sides.0.starts_with("file") {
            "none.db"
        } else {
            db
        };
        let (of_files, text, error) = compare(sides.0, sides.1, db);
        assert_eq!(of_files, code, "{error}");
        assert!(text.contains("\"cells\""), "{text}");
    }
    assert!(!home.path().join("none.db").exists());
    for (word, expected) in [
        (
            "file:a.json:offline",
            "no run matches `file:a.json:offline`",
        ),
        ("file:a.json#x", "no run matches `file:a.json#x`"),
    ] {
        let (code, _, error) = compare("file:a.json", word, db);
        assert!(code == Some(1) && error.contains(expected), "{error}");
    }
    // A file that cannot be read is a wrong command line.
    let (code, _, error) = compare("file:a.json", "file:none.json", db);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("none.json cannot be read"), "{error}");
    std::fs::write(&path, "{\"schema\": 1, \"runs\": [7]}").unwrap();
    let (code, _, error) = compare("run:01A", "file:a.json", db);
    assert!(
        code != Some(0) && error.contains("a.json is not an export"),
        "{error}"
    );
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
    let unnamed = text.replacen("\"host_fingerprint\":", "\"nobody\":", 1);
    write("host.json", &unnamed);
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
            &["host.json"],
            1,
            &["host.json is not an export", "host.host_fingerprint"],
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
    let database = ".local/share/chapterbench/bench.db";
    let over = ["runs", "export", "--output", database];
    let over = home.command(&over).current_dir(home.path()).output();
    refused(&over.unwrap(), 2, &["is the database itself"]);
    assert_eq!(done(&home, &["runs", "export"]), before);
    assert!(!home.path().join("new.db").exists());
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
