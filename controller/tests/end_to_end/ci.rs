//! The workflow of docs/ci/bench.yml, step by step, with two builds: two executables whose bytes differ.

use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::lab::Lab;

/// The `run: |` block of the step of this name, without its indent.
fn step(workflow: &str, name: &str) -> String {
    let start = workflow
        .find(&format!("- name: {name}\n"))
        .unwrap_or_else(|| panic!("docs/ci/bench.yml has no step `{name}`"));
    let mut lines = workflow[start..].lines();
    lines
        .find(|line| line.trim() == "run: |")
        .unwrap_or_else(|| panic!("step `{name}` runs nothing"));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let block: Vec<&str> = lines
        .take_while(|line| line.is_empty() || indent(line) >= 10)
        .collect();
    let lines = block.iter().map(|line| line.get(10..).unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

fn build(lab: &Lab, name: &str) -> String {
    let path = lab.path("builds").join(name);
    std::fs::create_dir_all(lab.path("builds")).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_controller"), &path).unwrap();
    // What is behind an executable's end changes its hash and nothing else.
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(name.as_bytes()).unwrap();
    drop(file);
    hex::encode(Sha256::digest(std::fs::read(&path).unwrap()))
}

#[test]
fn the_workflow_of_the_docs_measures_two_builds_and_writes_a_comment() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ci/bench.yml");
    let workflow = std::fs::read_to_string(file).unwrap();
    let lab = Lab::new();
    let hashes = ["main", "branch"].map(|name| build(&lab, name));
    assert!(hashes[0] != hashes[1]);
    // The steps that build say where they put what the others use.
    for name in ["builds/main", "builds/branch"] {
        assert!(step(&workflow, "build both engines").contains(name));
    }

    let variables = [("REPEAT", "3"), ("N_RUNS", "6"), ("MAX_TOKENS", "6")];
    let run = |name: &str, allowed: &[i32]| {
        let output = lab.shell(&step(&workflow, name), &variables);
        let code = output.status.code().unwrap();
        assert!(
            allowed.contains(&code),
            "{name} ended with {code}\n{}\n{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run("name the builds", &[0]);
    run("measure", &[0]);
    lab.forget_the_neighbours();
    // Which of two equal builds is ahead on a busy machine is chance: 10 is an answer too.
    run("compare", &[0, 10]);

    let comment = std::fs::read_to_string(lab.path("comment.md")).unwrap();
    for mode in ["offline", "online"] {
        let title = format!("### compare main (base) → branch, {mode}");
        assert!(comment.contains(&title), "{comment}");
    }
    assert!(comment.contains("runs 3+3, order ABBAAB"), "{comment}");
    for hash in &hashes {
        assert!(comment.contains(&hash[..12]), "{comment}");
    }
    assert!(comment.contains("| Wall p50 *"), "{comment}");
    assert!(comment.contains("**overall ("), "{comment}");
    assert!(!comment.contains("NOT COMPARABLE"), "{comment}");
}
