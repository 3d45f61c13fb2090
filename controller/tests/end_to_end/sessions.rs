//! Sessions with real binaries: arms and their letters, blocks, engines of others beside chapters,
//! pauses, and a session that is extended.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Lab, PATIENCE, kill};

/// Four quick requests of the fake engine.
const QUICK: [&str; 8] = [
    "--max-tokens",
    "2",
    "--n-runs",
    "4",
    "--warmup",
    "1",
    "--mode",
    "online",
];

fn quick<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&["run"][..], &QUICK, flags].concat()
}

/// `a0 b0 b1 a1`: letter and block of each run in order of position.
fn blocks(exported: &[Value]) -> String {
    let mut runs: Vec<&Value> = exported.iter().map(|entry| &entry["run"]).collect();
    runs.sort_by_key(|run| run["position"].as_u64());
    let positions: Vec<u64> = runs
        .iter()
        .map(|run| run["position"].as_u64().unwrap())
        .collect();
    assert_eq!(positions, (0..runs.len() as u64).collect::<Vec<_>>());
    let word = |run: &&Value| format!("{}{}", run["arm_letter"].as_str().unwrap(), run["block"]);
    runs.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn distinct(exported: &[Value], pointer: &str) -> BTreeSet<String> {
    let of = |entry: &Value| entry.pointer(pointer).unwrap_or(&Value::Null).to_string();
    exported.iter().map(of).collect()
}

/// Extends the newest session.
fn extend(lab: &Lab, session: &str, flags: &[&str]) -> (i32, String) {
    let output = lab.run(&[&["run", "--extend", session], flags].concat());
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), text.concat())
}

#[test]
fn the_same_chapter_twice_runs_in_blocks_that_turn_round() {
    let lab = Lab::new();
    let flags = [
        "--chapter",
        "2,2",
        "--repeat",
        "2",
        "--n-runs",
        "2",
        "--max-tokens",
        "2",
        "--warmup",
        "1",
        "--mode",
        "offline",
    ];
    let printed = lab.expect(0, &[&["run"], &flags[..]].concat());
    let exported = lab.export();
    assert_eq!(blocks(&exported), "a0 b0 b1 a1");
    let session = exported[0]["run"]["session_id"].as_str().unwrap();
    let compare = format!("compare: controller compare session:{session}#a session:{session}#b");
    assert!(printed.contains(&compare), "{printed}");
    for entry in &exported {
        assert_eq!(entry["run"]["session"]["repeat_count"], 2);
        assert_eq!(entry["run"]["look"], 0);
        for when in ["host_before", "host_after"] {
            let host = &entry["run"]["status"]["validity"][when];
            assert!(
                host["memory_available_bytes"].as_u64().unwrap() > 0,
                "{when}: {host}"
            );
        }
    }
}

#[test]
fn option_sets_are_arms_with_names() {
    let lab = Lab::new();
    let printed = lab.expect(
        0,
        &quick(&[
            "--arm",
            "quick: --chapter fake --option ttft_ms=1",
            "--arm",
            "slow: --chapter fake --option ttft_ms=30",
            "--order-seed",
            "3",
            "--repeat",
            "2",
        ]),
    );
    assert!(printed.contains("slow: Fake"), "{printed}");
    let exported = lab.export();
    assert_eq!(exported.len(), 4);
    let order = blocks(&exported);
    let turned: String = order
        .split(' ')
        .rev()
        .map(|word| word.get(..1).unwrap())
        .collect();
    let forth: String = order
        .split(' ')
        .map(|word| word.get(..1).unwrap())
        .collect();
    assert_eq!(turned, forth, "{order}");
    for entry in &exported {
        let run = &entry["run"];
        assert_eq!(run["session"]["order_seed"], 3);
        let arm = &run["status"]["spec"]["arm"];
        let wall_ms = run["stats"]["wall_ms"].as_f64().unwrap();
        match run["arm_letter"].as_str().unwrap() {
            "a" => assert_eq!(
                (&arm["name"], &arm["options"]["ttft_ms"]),
                (&"quick".into(), &"1".into())
            ),
            _ => {
                assert_eq!(arm["name"], "slow");
                assert!(wall_ms >= 30.0, "{wall_ms}");
            }
        }
    }
    assert_eq!(distinct(&exported, "/run/workload_key").len(), 1);
}

#[test]
fn a_chapter_and_an_engine_of_others_share_a_session() {
    let lab = Lab::new();
    let config = lab.path("config/chapterbench");
    std::fs::create_dir_all(&config).unwrap();
    // Our own server, as any other.
    let entry = format!(
        "[engine.theirs]\nkind = 'server'\ncommand = ['{}', 'engine', 'serve', '--chapter', '2', \
         '--model', '{{model}}', '--host', '{{host}}', '--port', '{{port}}']\n",
        env!("CARGO_BIN_EXE_controller")
    );
    std::fs::write(config.join("engines.toml"), entry).unwrap();
    let refused = lab.run(&quick(&["--chapter", "2", "--engine", "theirs"]));
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(
        told.contains("--chapter ch02 --arm 'theirs: --engine theirs'"),
        "{told}"
    );

    let printed = lab.expect(
        0,
        &quick(&[
            "--chapter",
            "2",
            "--arm",
            "theirs: --engine theirs",
            "--repeat",
            "2",
        ]),
    );
    assert!(
        printed.contains("compare: controller compare ch02 engine:theirs\n"),
        "{printed}"
    );
    let exported = lab.export();
    assert_eq!(blocks(&exported), "a0 b0 b1 a1");
    assert_eq!(distinct(&exported, "/run/session_id").len(), 1);
    assert_eq!(distinct(&exported, "/run/workload_key").len(), 1);
    assert_eq!(distinct(&exported, "/run/engine").len(), 2);
}

#[test]
fn a_declared_session_is_extended_twice_and_no_more() {
    let lab = Lab::new();
    lab.expect(
        0,
        &quick(&[
            "--chapter",
            "fake,fake",
            "--repeat",
            "3",
            "--max-extend",
            "2",
            "--label",
            "nightly",
        ]),
    );
    let session = lab.export()[0]["run"]["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let plan = lab.expect(0, &["run", "--extend", &session, "--dry-run"]);
    assert!(plan.contains("Order     b a | a b | b a (abba)"), "{plan}");
    assert_eq!(lab.export().len(), 6, "a dry run runs nothing");

    let (code, told) = extend(&lab, &session.to_lowercase(), &["--repeat", "1"]);
    assert_eq!(code, 0, "{told}");
    assert!(!told.contains("no verdict"), "{told}");
    let (code, told) = extend(&lab, &format!("session:{session}"), &["--repeat", "2"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains(&format!("session {session}")), "{told}");
    let exported = lab.export();
    assert_eq!(blocks(&exported), "a0 b0 b1 a1 a2 b2 b3 a3 a4 b4 b5 a5");
    let looks: Vec<u64> = exported
        .iter()
        .map(|entry| entry["run"]["look"].as_u64().unwrap())
        .collect();
    assert_eq!(looks.iter().filter(|look| **look == 0).count(), 6);
    assert_eq!(looks.iter().filter(|look| **look == 1).count(), 2);
    assert_eq!(looks.iter().filter(|look| **look == 2).count(), 4);
    assert_eq!(distinct(&exported, "/run/session_id").len(), 1);
    assert_eq!(
        distinct(&exported, "/run/session/extended_count"),
        ["2".to_owned()].into()
    );
    assert_eq!(distinct(&exported, "/run/workload_key").len(), 1);
    assert_eq!(
        distinct(&exported, "/run/label"),
        ["\"nightly\"".to_owned()].into()
    );
    let salts = distinct(&exported, "/run/status/spec/salt");
    assert_eq!(
        salts.len(),
        6,
        "each block has prompts of its own: {salts:?}"
    );

    let (code, told) = extend(&lab, &session, &[]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("extended 2 times"), "{told}");
    assert_eq!(lab.export().len(), 12);
}

#[test]
fn what_cannot_be_extended_is_refused_and_what_was_not_announced_is_told() {
    let lab = Lab::new();
    let other = lab.path("other-build");
    std::fs::copy(env!("CARGO_BIN_EXE_controller"), &other).unwrap();
    let config = lab.path("config/chapterbench");
    std::fs::create_dir_all(&config).unwrap();
    let entry = format!(
        "[engine.before]\nkind = 'chapterbench'\npath = '{}'\n",
        other.display()
    );
    std::fs::write(config.join("engines.toml"), entry).unwrap();
    let one = quick(&[
        "--engine",
        "before",
        "--chapter",
        "fake",
        "--header",
        "X-Team: blue",
    ]);
    lab.expect(0, &one);
    let session = lab.export()[0]["run"]["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = |flags: &[&str], words: &[&str]| {
        let (code, told) = extend(&lab, &session, flags);
        assert_eq!(code, 2, "{told}");
        for word in words {
            assert!(told.contains(word), "`{word}` is not in {told}");
        }
    };
    refused(&[], &["x-team", "--header"]);
    refused(
        &["--header", "x-team: blue", "--header", "y: z"],
        &["the header y", "leave it out"],
    );
    let blue = ["--header", "x-team: blue"];
    let (code, told) = extend(&lab, &session, &blue);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("announced no extension"), "{told}");
    assert_eq!(blocks(&lab.export()), "a0 a1");

    // One byte more is another build.
    let mut bytes = std::fs::read(&other).unwrap();
    bytes.push(0);
    std::fs::remove_file(&other).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_controller"), &other).unwrap();
    std::fs::write(&other, bytes).unwrap();
    refused(&blue, &["arm a (before)", "put that build back"]);
    assert_eq!(lab.export().len(), 2, "what is refused runs nothing");

    let (code, told) = extend(&lab, "01NOPE", &[]);
    assert_eq!(code, 2);
    assert!(told.contains("no such session"), "{told}");
}

#[test]
fn ctrl_c_ends_a_pause_between_two_runs() {
    let lab = Lab::new();
    let mut controller = lab
        .controller(&quick(&[
            "--chapter",
            "fake",
            "--repeat",
            "2",
            "--cooldown",
            "1h",
        ]))
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(lab.path("told")).unwrap())
        .spawn()
        .unwrap();
    let told = || std::fs::read_to_string(lab.path("told")).unwrap();
    lab.wait("a pause", PATIENCE, || told().contains("cooling down"));
    // Nothing runs meanwhile, and nothing begins.
    std::thread::sleep(Duration::from_millis(300));
    assert!(controller.try_wait().unwrap().is_none());
    kill(controller.id(), "INT");
    let status = lab.ended(&mut controller);
    assert_eq!(status.code(), Some(130));
    let exported = lab.export();
    assert_eq!(exported.len(), 1);
    assert_eq!(exported[0]["run"]["status"]["state"], "done");
}
