//! The main job with real binaries: bench two chapters in both modes, compare them, and find every
//! printed figure again by arithmetic of this file's own on what `runs export` gives.

use crate::lab::Lab;
use serde_json::Value;

const RUNS: usize = 8;

fn measured(entry: &Value) -> Vec<&Value> {
    entry["samples"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|s| s["warmup"] == false && s["error"].is_null())
        .collect()
}

fn numbers(samples: &[&Value], field: &str) -> Vec<f64> {
    samples
        .iter()
        .filter_map(|sample| sample[field].as_f64())
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// The table of a run, written down here once more from its samples alone.
fn table(entry: &Value, title: &str) -> String {
    let samples = measured(entry);
    let wall = mean(&numbers(&samples, "wall_ms"));
    let tokens = mean(&numbers(&samples, "output_tokens"));
    let rule = format!("  {}\n", "─".repeat(54));
    let mut text = format!("{rule}  {title}\n{rule}");
    text += &format!("  Req/s        : {:.2}\n", 1000.0 / wall);
    text += &format!("  Tok/s        : {:.1}\n", tokens / (wall / 1000.0));
    text += &format!("  Wall time    : {wall:.0}ms / request\n");
    let (ttft, tpot) = (numbers(&samples, "ttft_ms"), numbers(&samples, "tpot_ms"));
    if !ttft.is_empty() {
        text += &format!("  TTFT         : {:.1}ms\n", mean(&ttft));
    }
    if !tpot.is_empty() {
        text += &format!("  TPOT         : {:.2}ms\n", mean(&tpot));
    }
    text += &format!(
        "  Tokens out   : {tokens:.0} (avg over {} runs)\n",
        samples.len()
    );
    text + &rule
}

fn find<'a>(exported: &'a [Value], engine: &str, mode: &str) -> &'a Value {
    exported
        .iter()
        .find(|entry| {
            entry["run"]["engine"] == engine
                && entry["run"]["status"]["spec"]["arm"]["mode"] == mode
        })
        .unwrap()
}

#[test]
fn every_printed_figure_is_found_again_in_the_export() {
    let lab = Lab::new();
    let n = RUNS.to_string();
    let printed = lab.expect(
        0,
        &[
            "run",
            "--chapter",
            "1,2",
            "--mode",
            "both",
            "--n-runs",
            &n,
            "--warmup",
            "1",
        ],
    );
    let exported = lab.export();
    assert_eq!(exported.len(), 4);
    for (engine, mode, title) in [
        ("ch01", "offline", "Ch01 baseline — offline (no HTTP)"),
        ("ch01", "online", "Ch01 baseline — online (HTTP)"),
        ("ch02", "offline", "Ch02 token loop — offline (no HTTP)"),
        ("ch02", "online", "Ch02 token loop — online (HTTP)"),
    ] {
        let entry = find(&exported, engine, mode);
        assert_eq!(measured(entry).len(), RUNS);
        assert_eq!(
            entry["samples"].as_array().unwrap().len(),
            RUNS + 1,
            "the warm-up is kept, apart"
        );
        let expected = table(entry, title);
        assert!(
            printed.contains(&expected),
            "expected\n{expected}\nin\n{printed}"
        );
        assert_eq!(expected.contains("TTFT"), engine == "ch02");
        assert_eq!(expected.contains("TPOT"), engine == "ch02");
        for sample in measured(entry) {
            assert_eq!(sample["output_tokens"], 40, "dummy models never stop early");
        }
    }

    // Offline and online send the same token ids for the same spec, and greedy chapters agree.
    for index in 0..RUNS {
        let all: Vec<_> = exported
            .iter()
            .map(|entry| measured(entry)[index])
            .collect();
        for sample in &all {
            assert_eq!(sample["input_ids_sha256"], all[0]["input_ids_sha256"]);
            assert!(sample["input_ids_sha256"].is_string());
            assert_eq!(sample["output_ids"], all[0]["output_ids"]);
        }
    }

    lab.forget_the_neighbours();
    check_comparison(
        &lab,
        &exported,
        &["ch01:offline", "ch02:offline"],
        ("ch01", "offline"),
        ("ch02", "offline"),
    );
    check_comparison(
        &lab,
        &exported,
        &["ch01:online", "ch02:online"],
        ("ch01", "online"),
        ("ch02", "online"),
    );
    check_comparison(
        &lab,
        &exported,
        &["ch01:offline", "ch01:online"],
        ("ch01", "offline"),
        ("ch01", "online"),
    );
    let both = lab.expect(0, &["compare", "ch01", "ch02"]);
    assert!(
        both.contains("offline") && both.contains("online"),
        "{both}"
    );
    assert_eq!(
        both.matches("(1 run a side: needs 3, or a noise floor")
            .count(),
        // Offline one primary row and the line under the table, online two rows and a count.
        4,
        "{both}"
    );
    assert_eq!(
        both.matches(&format!("outputs identical {RUNS}/{RUNS}"))
            .count(),
        2,
        "{both}"
    );
}

fn check_comparison(
    lab: &Lab,
    exported: &[Value],
    words: &[&str],
    base: (&str, &str),
    candidate: (&str, &str),
) {
    let comparison = lab.json(&["compare", words[0], words[1]]);
    assert_eq!(comparison["schema"], 1);
    let text = lab.expect(0, &["compare", words[0], words[1]]);
    let cells = comparison["steps"][0]["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "{comparison}");
    let rows = cells[0]["rows"].as_array().unwrap();
    let sides = [
        find(exported, base.0, base.1),
        find(exported, candidate.0, candidate.1),
    ];
    let figures = |entry: &Value| {
        let samples = measured(entry);
        let walls = numbers(&samples, "wall_ms");
        let tokens = mean(&numbers(&samples, "output_tokens"));
        let wall = mean(&walls);
        let optional = |field: &str| {
            let values = numbers(&samples, field);
            (!values.is_empty()).then(|| mean(&values))
        };
        [
            ("req_per_s", Some(1000.0 / wall)),
            ("tok_per_s", Some(tokens / (wall / 1000.0))),
            ("wall_ms", Some(wall)),
            ("wall_ms_p50", Some(median(&walls))),
            ("ttft_ms", optional("ttft_ms")),
            ("tpot_ms", optional("tpot_ms")),
            ("output_tokens", Some(tokens)),
        ]
    };
    let close = |left: f64, right: f64| (left - right).abs() <= 1e-9 * right.abs().max(1e-9);
    for (left, right) in figures(sides[0]).into_iter().zip(figures(sides[1])) {
        let (metric, base) = left;
        let candidate = right.1;
        let row = rows.iter().find(|row| row["metric"] == metric);
        let (Some(base), Some(candidate)) = (base, candidate) else {
            continue;
        };
        let row = row.unwrap_or_else(|| unreachable!("{metric} in {rows:#?}"));
        let found = [&row["base"]["value"], &row["candidate"]["value"]];
        for (found, value) in found.into_iter().zip([base, candidate]) {
            assert!(
                close(found.as_f64().unwrap(), value),
                "{metric}: {row} has not {value}"
            );
        }
        if row["ratio"].is_null() {
            assert!(
                row["note"].is_string(),
                "{metric}: no ratio and no reason: {row}"
            );
            continue;
        }
        assert!(
            close(row["ratio"].as_f64().unwrap(), candidate / base),
            "{metric}: {row}"
        );
        let ratio = format!("{:.3}", candidate / base);
        assert!(
            text.contains(&ratio),
            "{metric}: ratio {ratio} is not printed in\n{text}"
        );
    }
}

#[test]
fn the_count_of_tokens_is_what_the_engine_made() {
    let lab = Lab::new();
    for mode in ["offline", "online"] {
        lab.expect(
            0,
            &[
                "run",
                "--chapter",
                "fake",
                "--option",
                "tokens=7",
                "--mode",
                mode,
                "--n-runs",
                "6",
                "--max-tokens",
                "40",
            ],
        );
    }
    for entry in lab.export() {
        let samples = measured(&entry);
        let wall = mean(&numbers(&samples, "wall_ms"));
        for sample in &samples {
            assert_eq!(sample["output_tokens"], 7, "{sample}");
            assert_eq!(sample["finish_reason"], "stop");
            assert_eq!(sample["requested_tokens"], 40);
        }
        let stats = &entry["run"]["stats"];
        assert_eq!(stats["output_tokens"], 7.0);
        let tok_per_s = stats["tok_per_s"].as_f64().unwrap();
        assert!((tok_per_s - 7.0 / (wall / 1000.0)).abs() < 1e-9 * tok_per_s);
        assert_eq!(stats["wall_times"].as_array().unwrap().len(), 6);
    }
}

#[test]
fn a_failed_request_fails_the_run_and_is_never_a_sample_without_tokens() {
    let lab = Lab::new();
    for mode in ["offline", "online"] {
        let label = format!("fails-{mode}");
        lab.expect(
            1,
            &[
                "run",
                "--chapter",
                "fake",
                "--option",
                "fail_at=5",
                "--mode",
                mode,
                "--n-runs",
                "8",
                "--warmup",
                "2",
                "--label",
                &label,
            ],
        );
    }
    let exported = lab.export();
    assert_eq!(exported.len(), 2);
    for entry in exported {
        assert_eq!(
            entry["run"]["status"]["state"], "failed",
            "{}",
            entry["run"]
        );
        assert_eq!(entry["run"]["status"]["failure"]["stage"], "measure");
        let good = measured(&entry);
        assert!(!good.is_empty(), "what was measured before is kept");
        assert!(
            good.iter()
                .all(|sample| sample["output_tokens"].as_u64().unwrap() > 0)
        );
        let failed: Vec<_> = entry["samples"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|sample| !sample["error"].is_null())
            .collect();
        assert_eq!(failed.len(), 1);
        assert!(failed[0]["output_tokens"].is_null());
    }
}
