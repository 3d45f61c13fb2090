//! Conversations: their turns go out one after the other, each with what was answered, in both
//! loops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::load::{DriveOutcome, OnlineJob, Route};
use agent::prompts::Prompts;
use contracts::run::{Arrival, Load, RunSpec};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::queueing::{Queueing, drive_on};
use crate::support::{self, TestServer, job, usual_stream};

/// Three conversations, of three turns, one and two.
fn talking(url: &str, warmup: u32, n_runs: u32) -> OnlineJob {
    let user = |words: &str| json!({"role": "user", "content": words});
    let spec: RunSpec = serde_json::from_value(json!({
        "arm": {
            "engine": {"kind": "chapter", "id": "fake"}, "mode": "online", "dtype": null,
            "device": {"kind": "cpu"}, "threads": null, "stream": true,
        },
        "workload": {
            "model": "m", "endpoint": "chat", "sampling": {}, "load": {"kind": "burst"},
            "prompts": {"kind": "conversations", "conversations": [
                [user("a1"), user("a2"), user("a3")], [user("b1")], [user("c1"), user("c2")],
            ]},
            "n_runs": n_runs, "warmup": 0, "cache": "as_is",
            "allow_failures": {"kind": "count", "n": 0},
        },
        "limits": {
            "ready_timeout_ms": 1, "stop_grace_ms": 1, "request_timeout_ms": 1,
            "stall_timeout_ms": 1, "device_wait_ms": 1,
        },
    }))
    .unwrap();
    let mut job = job(url, warmup, n_runs);
    job.bodies.route = Route::Chat;
    job.bodies.prompts = Arc::new(Prompts::open(&spec, Route::Chat, None).unwrap());
    job
}

/// The turns that came, by conversation, in order: the words of all messages.
fn turns(server: &TestServer) -> BTreeMap<String, Vec<String>> {
    let mut turns: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in server.requests() {
        let messages = request.body["messages"].as_array().unwrap().clone();
        let words = |m: &Value| m["content"].as_str().unwrap().to_owned();
        let all: Vec<_> = messages.iter().map(words).collect();
        let first = all[0].clone();
        turns.entry(first).or_default().push(all.join(" "));
    }
    turns
}

fn expected() -> BTreeMap<String, Vec<String>> {
    let rows = [
        ("a1", vec!["a1", "a1 abc a2", "a1 abc a2 abc a3"]),
        ("b1", vec!["b1"]),
        ("c1", vec!["c1", "c1 abc c2"]),
    ];
    let owned = |turns: Vec<&str>| turns.into_iter().map(str::to_owned).collect();
    rows.map(|(first, turns)| (first.to_owned(), owned(turns)))
        .into()
}

async fn check(load: Load) {
    let server = support::serve(|_| usual_stream()).await;
    let mut job = talking(&server.url, 0, 6);
    job.load = load;
    let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
    let driven = drive_on(clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    assert_eq!(turns(&server), expected());
    let samples = driven.measured();
    let indices: Vec<_> = samples.iter().map(|s| s.index).collect();
    assert_eq!(indices, [0, 1, 2, 3, 4, 5]);
    // A later turn is due when the one before has ended.
    for (before, turn) in [(0, 1), (1, 2), (4, 5)] {
        assert!(samples[turn].due_ns >= samples[before].done_ns.unwrap());
        assert_eq!(samples[turn].released_ns, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_follows_one_conversation() {
    check(Load::Closed { concurrency: 2 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arrival_begins_a_conversation() {
    let load = |max_in_flight| Load::Open {
        rate_per_s: 50.0,
        arrival: Arrival::Poisson,
        max_in_flight,
    };
    check(load(None)).await;
    check(load(Some(1))).await;
}

/// Three arrivals of six requests: the rate is that of the arrivals.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_offered_is_counted_in_requests() {
    let server = support::serve(|_| usual_stream()).await;
    let mut job = talking(&server.url, 0, 6);
    job.load = Load::Open {
        rate_per_s: 30.0,
        arrival: Arrival::Constant,
        max_in_flight: None,
    };
    let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
    let driven = drive_on(clock, &job, &CancellationToken::new()).await;
    let offered = driven.end.gauges.unwrap().offered_per_s.unwrap();
    assert!((offered - 60.0).abs() < 1e-6, "{offered}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_phase_cuts_a_conversation() {
    let server = support::serve(|_| usual_stream()).await;
    let job = talking(&server.url, 2, 4);
    let clock = Queueing::start(1, |_| Duration::ZERO).await.clock;
    let driven = drive_on(clock, &job, &CancellationToken::new()).await;
    assert_eq!(driven.end.outcome, DriveOutcome::Done);
    let firsts: Vec<_> = server
        .requests()
        .iter()
        .map(|r| r.body["messages"].as_array().unwrap().len())
        .collect();
    // Two turns of warm-up; then a whole conversation, and one of one turn.
    assert_eq!(firsts, [1, 3, 1, 3, 5, 1]);
}
