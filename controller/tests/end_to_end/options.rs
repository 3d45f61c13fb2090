//! A chapter's options with real binaries: from the command line through the agent to the engine, in
//! both modes, and back into what a comparison shows.

use serde_json::Value;

use crate::lab::Lab;

/// Four requests at a time of the chapter that takes many.
const BATCHED: [&str; 14] = [
    "run",
    "--chapter",
    "9",
    "--concurrency",
    "4",
    "--n-runs",
    "12",
    "--max-tokens",
    "8",
    "--warmup",
    "1",
    "--mode",
    "both",
    "--ignore-eos",
];

fn batched<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    BATCHED.iter().chain(flags).copied().collect()
}

/// Median share of a request's time in the engine that it waited to be let in.
fn waiting_share(entry: &Value) -> f64 {
    let samples = entry["samples"].as_array().unwrap();
    let measured = samples.iter().filter(|sample| sample["warmup"] == false);
    let share = |sample: &Value| {
        let of = |name: &str| sample[name].as_f64().unwrap();
        of("engine_queue_ms") / of("engine_wall_ms")
    };
    let mut shares: Vec<f64> = measured.map(share).collect();
    shares.sort_by(f64::total_cmp);
    shares[shares.len() / 2]
}

#[test]
fn an_option_reaches_the_engine_and_the_comparison() {
    let lab = Lab::new();
    let arms = [
        "--arm",
        "small: --option max_seqs=1",
        "--arm",
        "wide: --option max_seqs=32",
    ];
    lab.expect(0, &batched(&arms));
    let exported = lab.export();
    assert_eq!(exported.len(), 6);
    for entry in &exported {
        let arm = &entry["run"]["status"]["spec"]["arm"];
        let share = waiting_share(entry);
        match arm["options"]["max_seqs"].as_str() {
            // Of four in flight three wait.
            Some("1") => assert!(share > 0.5, "{share} of {arm}"),
            _ => assert!(share < 0.5, "{share} of {arm}"),
        }
    }
    let session = exported[0]["run"]["session_id"].as_str().unwrap();
    let [small, wide] = ["c", "e"].map(|letter| format!("session:{session}#{letter}"));
    let compared = lab.run(&["compare", &small, &wide]);
    let text = String::from_utf8(compared.stdout).unwrap();
    assert!(
        text.contains("max_seqs=1") && text.contains("max_seqs=32"),
        "{text}"
    );
}

#[test]
fn an_option_that_the_chapter_has_not_is_told_in_both_modes() {
    let lab = Lab::new();
    for (option, words) in [
        ("max_seq=2", "max_seqs, max_step_tokens, kv_tokens"),
        ("max_seqs=0", "max_seqs"),
    ] {
        for mode in ["offline", "online"] {
            let asked = ["run", "--chapter", "9", "--mode", mode, "--option", option];
            let output = lab.run(&asked);
            let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains("option") && told.contains(words), "{told}");
        }
    }
}
