//! Suites: what a file describes is run, compared and judged; the example of the documentation is read.

use crate::lab::Lab;

/// Two arms of the fake chapter, the second one slower by a fifth: 20 and 24 ms a request.
fn suite(lab: &Lab, gate: &str) -> String {
    let file = lab.path("suite.toml");
    let text = format!(
        r#"
repeat = 5
label = "nightly"

[[arm]]
name = "main"
chapter = "fake"
option = {{ tpot_ms = 5 }}

[[arm]]
name = "branch"
chapter = "fake"
option = {{ tpot_ms = 6 }}

[[workload]]
name = "short"
mode = "offline"
n_runs = 6
warmup = 1
max_tokens = 5

[[gate]]
base = "main"
candidate = "branch"
{gate}
"#
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// From now on every run that is stored had the machine for itself. The tests beside this one keep it
/// busy, and what runs on a busy machine is no evidence: a gate would refuse it.
fn forget_neighbours(lab: &Lab) {
    let words = ["run", "--chapter", "fake", "--n-runs", "1", "--warmup", "0"];
    lab.expect(0, &words);
    lab.execute(
        "create trigger quiet after update of validity_json on run begin
            update run set validity_json = json_set(new.validity_json, '$.foreign_cpu_during', 0.01)
            where run_id = new.run_id; end",
    );
}

/// Runs the suite, which must end with `code`, and gives its document.
fn judged(lab: &Lab, file: &str, code: i32) -> serde_json::Value {
    forget_neighbours(lab);
    let words = ["run", "--suite", file, "--format", "json", "--tag", "try=1"];
    let document: serde_json::Value = serde_json::from_str(&lab.expect(code, &words)).unwrap();
    assert_eq!(document["exit_code"], code);
    document
}

#[test]
fn a_gate_finds_the_slower_arm_and_ends_with_10() {
    let lab = Lab::new();
    let file = suite(&lab, "fail_on = \"slower:5%\"");
    let document = judged(&lab, &file, 10);
    assert_eq!(document["gates"][0]["result"], "SLOWER");
    assert_eq!(document["sessions"][0]["workload"], "short");
    let runs = document["sessions"][0]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 10);
    let session = &document["sessions"][0]["session_id"];
    let stored = lab.export();
    let stored: Vec<_> = stored
        .iter()
        .filter(|entry| entry["run"]["session_id"] == *session)
        .collect();
    assert_eq!(stored.len(), 10);
    for entry in stored {
        assert_eq!(entry["run"]["label"], "nightly");
        assert_eq!(entry["run"]["tags"]["try"], "1");
    }
}

#[test]
fn a_gate_that_holds_ends_with_0() {
    let lab = Lab::new();
    let file = suite(&lab, "fail_on = \"slower:30%\"\nrequire_verdict = true");
    let document = judged(&lab, &file, 0);
    assert_eq!(document["gates"][0]["result"], "passed");
}

#[test]
fn equal_runs_give_a_noise_floor_that_compare_uses() {
    let lab = Lab::new();
    forget_neighbours(&lab);
    let work = [
        "--chapter",
        "fake",
        "--option",
        "tpot_ms=5",
        "--mode",
        "offline",
    ];
    let few = ["--n-runs", "6", "--warmup", "1", "--max-tokens", "5"];
    let calibrate = [&["calibrate", "--runs", "5"], &work[..], &few].concat();
    let floor = &lab.json(&calibrate)["noise_floor"];
    assert_eq!(
        (&floor["run_count"], &floor["engine"]),
        (&5.into(), &"fake".into())
    );
    let rows = floor["metrics"].as_array().unwrap();
    let wall = rows
        .iter()
        .find(|row| row["metric"] == "wall_ms_p50")
        .unwrap();
    assert!(wall["log_sd"].as_f64().unwrap() > 0.0, "{wall}");
    let exported = lab.export();
    let labelled = exported
        .iter()
        .filter(|entry| entry["run"]["label"] == "noise-floor");
    assert_eq!(labelled.count(), 5);
    let stored = lab.json(&["calibrate", "--show"]);
    let stored = stored["noise_floors"].as_array().unwrap().clone();
    assert!(stored.iter().any(|row| row["log_sd"] == wall["log_sd"]));

    // One run a side has a verdict now, and says by which noise.
    let twice = [&["run", "--chapter", "fake"], &work[..], &few].concat();
    let session = lab.json(&twice)["session_id"].as_str().unwrap().to_owned();
    let sides = ["a", "b"].map(|arm| format!("session:{session}#{arm}"));
    let compared = lab.json(&["compare", &sides[0], &sides[1]]);
    let cell = &compared["steps"][0]["cells"][0];
    let rows = cell["rows"].as_array().unwrap();
    let wall = rows
        .iter()
        .find(|row| row["metric"] == "wall_ms_p50")
        .unwrap();
    assert_eq!(wall["effect"]["method"], "noise floor");
    assert_eq!(cell["noise_floors"][0]["run_count"], 5);
}

#[test]
fn the_example_of_the_documentation_is_a_suite() {
    let lab = Lab::new();
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/suites.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    let file = lab.path("suite.toml");
    std::fs::write(&file, example).unwrap();
    let dry = lab.json(&["run", "--suite", file.to_str().unwrap(), "--dry-run"]);
    let sessions = dry["sessions"].as_array().unwrap();
    let names: Vec<&str> = sessions
        .iter()
        .map(|s| s["workload"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["short", "long prompts"]);
    // Two arms in two modes, five times; two arms under two loads, five times.
    let runs = |session: usize| sessions[session]["plan"]["runs"].as_array().unwrap().len();
    assert_eq!((runs(0), runs(1)), (20, 20));
    assert_eq!(dry["gates"].as_array().unwrap().len(), 2);
    assert_eq!(dry["gates"][0]["flags"][0], "--fail-on=slower:3%");
}
