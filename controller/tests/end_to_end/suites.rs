//! Suites: what a file describes is run, compared and judged; the example of the documentation is read.

use crate::lab::Lab;

/// Two arms of the fake chapter, the second one slower by so many ms a token.
fn suite(lab: &Lab, slower_ms: f64, gate: &str) -> String {
    let tpot_ms = 1.0 + slower_ms;
    let file = lab.path("suite.toml");
    let text = format!(
        r#"
repeat = 5
label = "nightly"

[[arm]]
name = "main"
chapter = "fake"
option = {{ tpot_ms = 1 }}

[[arm]]
name = "branch"
chapter = "fake"
option = {{ tpot_ms = {tpot_ms} }}

[[workload]]
name = "short"
mode = "offline"
n_runs = 6
warmup = 1
max_tokens = 20

[[gate]]
base = "main"
candidate = "branch"
{gate}
"#
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Runs the suite and gives its document. On a machine that others keep busy all runs may be left
/// out, by the rule and with its reason: then there is nothing that a gate could say.
fn judged(lab: &Lab, file: &str, code: i32) -> Option<serde_json::Value> {
    let output = lab.run(&["run", "--suite", file, "--format", "json", "--tag", "try=1"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let ended = output.status.code();
    assert_eq!(document["exit_code"], ended.unwrap());
    let reasons = document["gates"][0]["comparison"]["steps"][0]["cells"][0]["reasons"].clone();
    if ended == Some(11) && reasons.to_string().contains("contaminated") {
        return None;
    }
    assert_eq!(ended, Some(code), "{reasons}");
    Some(document)
}

#[test]
fn a_gate_finds_the_slower_arm_and_ends_with_10() {
    let lab = Lab::new();
    let file = suite(&lab, 0.2, "fail_on = \"slower:5%\"");
    let document = judged(&lab, &file, 10);
    let exported = lab.export();
    assert_eq!(exported.len(), 10);
    for entry in &exported {
        assert_eq!(entry["run"]["label"], "nightly");
        assert_eq!(entry["run"]["tags"]["try"], "1");
    }
    let Some(document) = document else { return };
    assert_eq!(document["gates"][0]["result"], "SLOWER");
    assert_eq!(document["sessions"][0]["workload"], "short");
    let runs = document["sessions"][0]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 10);
}

#[test]
fn a_gate_that_holds_ends_with_0() {
    let lab = Lab::new();
    let file = suite(&lab, 0.2, "fail_on = \"slower:90%\"");
    if let Some(document) = judged(&lab, &file, 0) {
        assert_eq!(document["gates"][0]["result"], "passed");
    }
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
