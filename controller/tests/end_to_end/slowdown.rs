//! A slowdown that was planted is found: an engine on a known clock, 8 % slower in one arm.

use crate::lab::Lab;

/// 180 ms and 194.4 ms a request, far above what a busy machine adds to a sleep.
const ARMS: [&str; 2] = [
    "base: --chapter fake --option ttft_ms=100 --option tpot_ms=20",
    "slower: --chapter fake --option ttft_ms=108 --option tpot_ms=21.6",
];

#[test]
fn eight_percent_are_found_slower_with_five_runs_a_side() {
    let lab = Lab::new();
    let [base, slower] = ARMS;
    let words = [
        "run",
        "--arm",
        base,
        "--arm",
        slower,
        "--mode",
        "offline",
        "--repeat",
        "5",
        "--n-runs",
        "6",
        "--warmup",
        "1",
        "--max-tokens",
        "5",
    ];
    lab.expect(0, &words);
    lab.forget_the_neighbours();
    let compare = |code: i32, flags: &[&str]| {
        let words = [&["compare", "fake#a", "fake#b"], flags].concat();
        lab.expect(code, &words)
    };
    let text = compare(10, &["--fail-on", "slower:5%"]);
    assert!(text.contains("order ABBAABBAAB"), "{text}");
    assert!(text.contains("Wall p50 *"), "{text}");
    assert!(text.contains("SLOWER by "), "{text}");
    assert!(text.contains("outputs identical 30/30"), "{text}");

    let json: serde_json::Value =
        serde_json::from_str(&compare(10, &["--fail-on", "slower", "--format", "json"])).unwrap();
    let rows = json["steps"][0]["cells"][0]["rows"].as_array().unwrap();
    let wall = rows.iter().find(|row| row["primary"] == true).unwrap();
    assert_eq!(wall["verdict"]["word"], "slower");
    let by = wall["verdict"]["by"].as_f64().unwrap();
    assert!((0.06..0.10).contains(&by), "8 % was planted: {by}");
    assert_eq!(wall["base_runs"].as_array().unwrap().len(), 5);

    // Slower is a result like any other where nobody gates on it, or on more.
    compare(0, &["--require-verdict"]);
    compare(0, &["--fail-on", "slower:20%"]);
    let faster = lab.expect(
        0,
        &["compare", "fake#b", "fake#a", "--fail-on", "slower:5%"],
    );
    assert!(faster.contains("FASTER by "), "{faster}");
    // A metric that is not shown is judged all the same.
    compare(10, &["--fail-on", "slower:5%", "--metric", "output_tokens"]);
    compare(2, &["--metric", "walls"]);
}
