//! Flags of load, prompts and servers: what they plan, and which of them contradict each other.

use crate::home::{Home, refused, stderr, stdout};

/// Flags of load, prompts and servers that cannot be together, or mean nothing here.
#[test]
fn flags_that_contradict_each_other_are_named() {
    let home = Home::new();
    let table: &[(&[&str], &[&str])] = &[
        (&["--rate", "0"], &["--rate", "inf"]),
        (&["--rate", "1e9"], &["--rate 1000000000", "at most"]),
        (
            &["--rate", "5", "--concurrency", "1,2"],
            &["--concurrency", "--rate", "one number"],
        ),
        (&["--arrival", "constant"], &["--arrival", "--rate"]),
        (
            &["--rate", "5", "--arrival", "even"],
            &["--arrival", "poisson"],
        ),
        (
            &["--duration", "30s", "--n-runs", "5"],
            &["--duration", "--n-runs"],
        ),
        (&["--duration", "0"], &["--duration", "1ms"]),
        (
            &["--duration", "5", "--rate", "inf"],
            &["--duration", "--rate inf", "--concurrency"],
        ),
        (
            &["--rate", "0.001", "--n-runs", "20"],
            &["--rate 0.001", "6h", "at most 4h"],
        ),
        (&["--rate", "1e-300"], &["--rate", "at most 4h"]),
        (
            &["--rate", "inf", "--arrival", "poisson"],
            &["--arrival", "--rate inf"],
        ),
        (
            &["--trace", "/dev/null", "--max-tokens", "5"],
            &["--trace", "--max-tokens"],
        ),
        (&["--allow-failures", "-5%"], &["--allow-failures", "share"]),
        (&["--goodput", "ttft"], &["--goodput", "ttft=200"]),
        (
            &["--sweep", "--concurrency", "1,2"],
            &["--sweep", "--concurrency"],
        ),
        (&["--sweep", "--rate", "inf"], &["--sweep", "inf"]),
        (
            &["--sweep", "concurrency", "--rate", "2"],
            &["--sweep concurrency", "--rate"],
        ),
        (&["--sweep", "--repeat", "2"], &["--sweep", "--repeat"]),
        (&["--sweep", "--mode", "both"], &["--sweep", "--mode both"]),
        (
            &["--sweep", "sideways"],
            &["--sweep", "concurrency or rate"],
        ),
        (
            &["--mode", "offline", "--concurrency", "2"],
            &["--concurrency", "offline"],
        ),
        (
            &["--mode", "offline", "--rate", "2"],
            &["--rate", "offline"],
        ),
        (&["--mode", "offline", "--sweep"], &["--sweep", "offline"]),
        (
            &["--mode", "offline", "--duration", "5s"],
            &["--duration", "offline"],
        ),
        (
            &["--mode", "offline", "--extra", "a=1"],
            &["--extra", "offline"],
        ),
        (
            &["--mode", "offline", "--header", "A: b"],
            &["--header", "offline"],
        ),
        (
            &["--prompt", "a", "--input-len", "5"],
            &["--prompt", "--input-len"],
        ),
        (
            &["--trace", "a", "--dataset", "sharegpt:b"],
            &["--trace", "--dataset"],
        ),
        (&["--trace", "a", "--rate", "5"], &["--trace", "--rate"]),
        (
            &["--trace", "a", "--output-len", "5"],
            &["--trace", "--output-len"],
        ),
        (&["--trace", "/no/such"], &["--trace /no/such"]),
        (
            &["--conversations", "/no/such"],
            &["--conversations /no/such"],
        ),
        (&["--dataset", "sharegpt:/no/such"], &["--dataset /no/such"]),
        (&["--dataset", "alpaca:x"], &["--dataset", "sharegpt:FILE"]),
        (&["--input-len", "0"], &["--input-len"]),
        (
            &["--output-len", "5", "--max-tokens", "5"],
            &["--output-len", "--max-tokens"],
        ),
        (
            &["--output-len", "normal:5,1"],
            &["--output-len", "--input-len"],
        ),
        (&["--prefix-len", "5"], &["--input-len"]),
        (
            &["--input-len", "5", "--prefix-len", "6"],
            &["--prefix-len 6", "5"],
        ),
        (
            &["--input-len", "5", "--prefix-share", "1"],
            &["--prefix-len"],
        ),
        (&["--cache", "hot"], &["--cache", "cold"]),
        (
            &["--extra", "stream=false"],
            &["--extra stream", "--no-stream"],
        ),
        (
            &["--extra", "a=1", "--extra", "a=2"],
            &["--extra a", "twice"],
        ),
        (
            &["--option", "a=1", "--option", "a=2"],
            &["--option a", "twice"],
        ),
        (&["--url", "http://x:1"], &["--url", "--chapter"]),
        (&["--served-model-name", "m"], &["--url"]),
    ];
    for (flags, words) in table {
        let args = [&["run", "--chapter", "1", "--dry-run"], *flags].concat();
        refused(&home.run(&args), 2, words);
    }
    let table: &[(&[&str], &[&str])] = &[
        (&["--url", "x:1"], &["--url", "http://HOST:PORT"]),
        (
            &["--url", "ftp://x"],
            &["--url ftp://x", "http://HOST:PORT"],
        ),
        (&["--url", "http://x/?key=hunter2"], &["--url", "?"]),
        (
            &["--url", "http://me:hunter2@x"],
            &["--url", "--api-key-file"],
        ),
        (
            &["--url", "http://x", "--mode", "offline"],
            &["--url", "--mode"],
        ),
        (
            &["--url", "http://x", "--engine", "vllm"],
            &["--url", "--engine"],
        ),
        (
            &["--url", "http://x", "--threads", "2"],
            &["--url", "--threads"],
        ),
    ];
    for (flags, words) in table {
        let output = home.run(&[&["run", "--dry-run"], *flags].concat());
        refused(&output, 2, words);
        assert!(!stderr(&output).contains("hunter2"), "{flags:?}");
    }
}

/// A line that is wanted, among those of a dry run.
#[track_caller]
fn plans(home: &Home, flags: &[&str], lines: &[&str]) {
    let output = home.run(&[&["run", "--dry-run"], flags].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for line in lines {
        assert!(
            text.lines().any(|there| there == *line),
            "`{line}` is not in:\n{text}"
        );
    }
}

#[test]
fn loads_make_runs_of_their_own() {
    let home = Home::new();
    let chapter = ["--chapter", "1,2"];
    let plans = |flags: &[&str], lines: &[&str]| plans(&home, &[&chapter, flags].concat(), lines);
    plans(
        &["--concurrency", "8,1", "--repeat", "2", "--n-runs", "40"],
        &[
            "Order     a b | b a (abba), 1 at a time",
            "          a b | b a (abba), 8 at a time",
            "Requests  320 measured, 44 warm-up, on each agent",
            "Time      unknown: none of this was run before",
        ],
    );
    plans(
        &["--rate", "2,inf", "--concurrency", "4", "--duration", "30s"],
        &[
            "Order     a b (abba), 2/s (poisson), at most 4 in flight",
            "          a b (abba), all at once, at most 4 in flight",
            "Requests  as many as end in 2m, 16 warm-up, on each agent",
            "Time      about 2m on each agent, as earlier runs took",
        ],
    );
    plans(
        &["--sweep", "--rate", "0.5", "--arrival", "gamma:0.5"],
        &["Sweep     each arm from 0.5/s (gamma:0.5), doubled up to 4096/s at most"],
    );
    plans(
        &["--sweep"],
        &["Sweep     each arm from 1 at a time, doubled up to 4096 at most"],
    );
}

#[test]
fn prompts_and_caches_go_into_the_work() {
    let home = Home::new();
    let data = home.path().join("chats.json");
    let pair = r#"{"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]}"#;
    std::fs::write(&data, format!("[{pair}, {pair}, {pair}]")).unwrap();
    let trace = home.path().join("trace.jsonl");
    let line = r#"{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}"#;
    std::fs::write(&trace, format!("{line}\n{line}\n")).unwrap();
    let data = format!("sharegpt:{}", data.display());
    let spec = |flags: &[&str]| {
        let args = [&["run", "--dry-run", "--format", "json"], flags].concat();
        let output = home.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["plan"]["runs"][0]["spec"].clone()
    };
    let chapter = |flags: &[&str]| spec(&[&["--chapter", "1"], flags].concat());

    let plain = chapter(&[]);
    assert_eq!(plain["workload"]["cache"], "as_is");
    let made = chapter(&["--input-len", "64", "--output-len", "uniform:8,16"]);
    assert_eq!(made["workload"]["cache"], "cold");
    assert_eq!(made["workload"]["prompts"]["kind"], "synthetic");
    assert_eq!(made["workload"]["prompts"]["input"]["tokens"], 64);
    let fixed = chapter(&["--output-len", "7", "--cache", "warm"]);
    assert_eq!(fixed["workload"]["sampling"]["max_tokens"], 7);
    assert_eq!(fixed["workload"]["cache"], "warm");
    let pairs = chapter(&["--dataset", &data, "--n-runs", "2", "--warmup", "0"]);
    assert_eq!(pairs["workload"]["cache"], "cold");
    assert_eq!(
        pairs["workload"]["prompts"]["pairs"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let asked = chapter(&["--dataset", &data, "--output-len", "9"]);
    assert_eq!(asked["workload"]["prompts"]["kind"], "texts");
    assert_eq!(asked["workload"]["cache"], "cold");
    let traced = chapter(&["--trace", trace.to_str().unwrap(), "--concurrency", "3"]);
    assert_eq!(traced["workload"]["n_runs"], 2);
    assert_eq!(traced["workload"]["load"]["kind"], "trace");
    assert_eq!(traced["workload"]["load"]["max_in_flight"], 3);

    let server = spec(&[
        "--url",
        "http://box:8000/",
        "--served-model-name",
        "m",
        "--header",
        "X-Team: hunter2",
        "--extra",
        "top_a=0.1",
        "--no-keepalive",
        "--goodput",
        "ttft=200",
    ]);
    assert_eq!(server["arm"]["engine"]["url"], "http://box:8000");
    assert_eq!(server["arm"]["mode"], "online");
    assert_eq!(server["arm"]["header_names"][0], "x-team");
    assert_eq!(server["arm"]["extra"]["top_a"], 0.1);
    assert_eq!(server["arm"]["no_keepalive"], true);
    assert_eq!(server["workload"]["model"], "m");
    assert_eq!(server["slo"]["ttft_ms"], 200.0);
    assert!(!server.to_string().contains("hunter2"));
    assert_eq!(
        spec(&["--url", "http://box"])["workload"]["model"],
        "unnamed"
    );
}
