//! Loads with real binaries: lists, a sweep, and headers whose values are nowhere afterwards.

use std::path::Path;

use crate::lab::Lab;

/// A quick engine: 2 ms to the first token.
const QUICK: [&str; 9] = [
    "run",
    "--chapter",
    "fake",
    "--option",
    "ttft_ms=2",
    "--max-tokens",
    "2",
    "--n-runs",
    "8",
];

fn quick<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    QUICK.iter().chain(flags).copied().collect()
}

#[test]
fn a_list_of_loads_is_a_run_each_and_the_next_plan_knows_how_long_they_take() {
    let lab = Lab::new();
    let session = lab.json(&quick(&["--concurrency", "4,1"]));
    let runs = session["runs"].as_array().unwrap();
    let slots: Vec<_> = runs
        .iter()
        .map(|run| run["run"]["status"]["spec"]["workload"]["load"]["concurrency"].as_u64())
        .collect();
    assert_eq!(slots, [Some(1), Some(4)]);
    let exported = lab.export();
    assert_eq!(exported.len(), 2);
    assert_ne!(
        exported[0]["run"]["workload_key"],
        exported[1]["run"]["workload_key"]
    );
    let warmup = |entry: &serde_json::Value| {
        let samples = entry["samples"].as_array().unwrap();
        samples.iter().filter(|s| s["warmup"] == true).count()
    };
    assert_eq!((warmup(&exported[0]), warmup(&exported[1])), (3, 4));

    let again = lab.expect(0, &quick(&["--concurrency", "4,1", "--dry-run"]));
    assert!(again.contains("as earlier runs took"), "{again}");
}

#[test]
fn slots_are_the_same_work_offline_and_online() {
    let lab = Lab::new();
    let asked = quick(&["--mode", "both", "--concurrency", "4"]);
    let text = lab.expect(0, &asked);
    let of_window = text.matches("(completed in the window)").count();
    assert_eq!(of_window, 4, "requests and tokens of both runs:\n{text}");
    assert!(text.contains("load: 4 at a time"), "{text}");
    let exported = lab.export();
    assert_eq!(exported.len(), 2);
    assert_eq!(
        exported[0]["run"]["workload_key"],
        exported[1]["run"]["workload_key"]
    );
    for entry in &exported {
        let samples = entry["samples"].as_array().unwrap();
        let measured: Vec<_> = samples.iter().filter(|s| s["warmup"] == false).collect();
        assert_eq!((samples.len(), measured.len()), (12, 8));
        let at = |index: usize, stamp: &str| {
            let is_it = |s: &&&serde_json::Value| s["index"] == index;
            measured.iter().find(is_it).unwrap()[stamp]
                .as_u64()
                .unwrap()
        };
        assert!(at(3, "sent_ns") < at(0, "done_ns"), "four are under way");
        assert!(at(4, "sent_ns") >= at(0, "done_ns"), "and no fifth");
    }
}

#[test]
fn a_sweep_stores_a_run_for_each_point_and_shows_the_curve() {
    let lab = Lab::new();
    let session = lab.json(&quick(&["--sweep", "--goodput", "wall=60000"]));
    let curve = &session["sweeps"][0];
    let points = curve["points"].as_array().unwrap();
    assert!(!points.is_empty(), "{curve}");
    assert!(curve["stop"].is_string(), "{curve}");
    let levels: Vec<u64> = points
        .iter()
        .map(|point| point["load"]["concurrency"].as_u64().unwrap())
        .collect();
    assert!(levels.is_sorted() && levels[0] == 1, "{levels:?}");
    let stored = lab.export();
    for point in points {
        let run = stored
            .iter()
            .find(|entry| entry["run"]["run_id"] == point["run_id"])
            .unwrap();
        let load = &run["run"]["status"]["spec"]["workload"]["load"];
        assert_eq!(load, &point["load"]);
        assert!(point["goodput"]["per_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn values_of_headers_are_nowhere_when_a_run_is_over() {
    const SECRETS: [&str; 2] = ["sk-hidden-4711", "hunter2-hidden"];
    let lab = Lab::new();
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, SECRETS[0]).unwrap();
    let header = format!("X-Team: {}", SECRETS[1]);
    let flags = ["--header", &header, "--api-key-file", key.to_str().unwrap()];
    let mut command = lab.controller(&quick(&flags));
    let output = command.env("RUST_LOG", "debug").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for secret in SECRETS {
        for text in [&output.stdout, &output.stderr] {
            assert!(!holds(text, secret), "{secret} was printed");
        }
        assert_eq!(files_with(&lab.path(""), secret), Vec::<String>::new());
    }
    let exported = lab.export();
    let names = &exported[0]["run"]["status"]["spec"]["arm"]["header_names"];
    assert_eq!(*names, serde_json::json!(["authorization", "x-team"]));
}

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|window| window == word.as_bytes())
}

/// Files below a folder that hold a word: database, log of it, spool, whatever was written.
fn files_with(folder: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, word));
        } else if holds(&std::fs::read(&path).unwrap_or_default(), word) {
            found.push(path.display().to_string());
        }
    }
    found
}
