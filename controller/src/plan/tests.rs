//! Arms, loads and their order.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use contracts::generate::SamplingParams;
use contracts::run::{AllowFailures, Arrival, CacheState, Device, Endpoint, PromptSource};
use proptest::prelude::*;

use super::*;

pub fn workload() -> Workload {
    Workload {
        model: "dummy:tiny-llm".to_owned(),
        prompts: PromptSource::Texts {
            texts: vec!["hello".to_owned()],
        },
        endpoint: Endpoint::Auto,
        sampling: SamplingParams::default(),
        load: ONE_AT_A_TIME,
        n_runs: 20,
        duration_ms: None,
        warmup: 3,
        cache: CacheState::AsIs,
        tokenizer: None,
        allow_failures: AllowFailures::Count { n: 0 },
    }
}

fn closed(concurrency: u32) -> Load {
    Load::Closed { concurrency }
}

/// Chapters, each in each mode.
pub fn request(engines: &[&str], modes: &[Mode], repeat: u32, order: Order) -> Request {
    let arm = |id: &str, mode: Mode| Arm {
        name: None,
        engine: EngineRef::Chapter { id: id.to_owned() },
        mode,
        dtype: None,
        device: Device::Cpu,
        threads: None,
        stream: true,
        options: BTreeMap::new(),
        header_names: Vec::new(),
        extra: BTreeMap::new(),
        no_keepalive: false,
    };
    Request {
        arms: engines
            .iter()
            .flat_map(|id| modes.iter().map(|mode| arm(id, *mode)))
            .collect(),
        workload: workload(),
        loads: vec![closed(1)],
        slo: Some(Slo {
            ttft_ms: Some(200.0),
            ..Slo::default()
        }),
        limits: Limits {
            ready_timeout_ms: 1,
            stop_grace_ms: 1,
            request_timeout_ms: 1,
            stall_timeout_ms: 1,
            device_wait_ms: 0,
        },
        repeat,
        order,
        order_seed: 0,
        max_extend: 0,
        cooldown: Duration::ZERO,
        before: Before::default(),
    }
}

fn letters(plan: &Plan) -> String {
    plan.runs.iter().map(|run| run.letter.as_str()).collect()
}

/// `a1 a8`: letter and slots.
fn cells_in_words(plan: &Plan) -> String {
    let word = |run: &PlannedRun| {
        let spec = plan.spec(run);
        format!("{}{}", run.letter, slots(&spec.workload.load).unwrap_or(0))
    };
    plan.runs.iter().map(word).collect::<Vec<_>>().join(" ")
}

const BOTH: [Mode; 2] = [Mode::Offline, Mode::Online];

#[test]
fn blocks_turn_round_so_that_drift_cancels() {
    let online = [Mode::Online];
    let three = plan(request(&["ch01", "ch02"], &online, 3, Order::Abba));
    assert_eq!(letters(&three), "abbaab");
    let blocked = plan(request(&["ch01", "ch02"], &online, 3, Order::Blocked));
    assert_eq!(letters(&blocked), "aaabbb");
    let both = plan(request(&["ch01", "ch02"], &BOTH, 2, Order::Abba));
    assert_eq!(letters(&both), "abcddcba");
}

#[test]
fn each_load_has_its_passes_and_no_block_is_counted_twice() {
    let mut asked = request(&["ch01", "ch02"], &[Mode::Online], 2, Order::Abba);
    asked.loads = vec![closed(1), closed(8)];
    let plan = plan(asked);
    assert_eq!(cells_in_words(&plan), "a1 b1 b1 a1 a8 b8 b8 a8");
    let blocks: Vec<u32> = plan.runs.iter().map(|run| run.block).collect();
    assert_eq!(blocks, [0, 0, 1, 1, 2, 2, 3, 3]);
    let positions: Vec<u32> = plan.runs.iter().map(|run| run.position).collect();
    assert_eq!(positions, (0..8).collect::<Vec<_>>());
    assert_eq!(plan.runs[0].workload_key, plan.runs[1].workload_key);
    assert_ne!(plan.runs[0].workload_key, plan.runs[4].workload_key);
}

#[test]
fn offline_arms_share_slots_and_run_once_where_requests_arrive() {
    let mut asked = request(&["ch01"], &BOTH, 1, Order::Abba);
    asked.loads = vec![closed(4), closed(8)];
    let slots = plan(asked.clone());
    assert_eq!(cells_in_words(&slots), "a4 b4 a8 b8");
    let keys: Vec<&String> = slots.runs.iter().map(|run| &run.workload_key).collect();
    assert_eq!(keys[0], keys[1], "both modes are asked the same");
    assert_ne!(keys[1], keys[2]);
    let arriving = |rate_per_s| Load::Open {
        rate_per_s,
        arrival: Arrival::Poisson,
        max_in_flight: Some(9),
    };
    asked.loads = vec![arriving(1.0), arriving(2.0)];
    assert_eq!(cells_in_words(&plan(asked.clone())), "a1 b9 b9");
    asked.arms.truncate(1);
    assert_eq!(cells_in_words(&plan(asked.clone())), "a1");
    asked.loads = vec![closed(4), closed(8)];
    assert_eq!(cells_in_words(&plan(asked)), "a4 a8");
}

#[test]
fn offline_arms_count_requests_where_online_ones_count_time() {
    let mut asked = request(&["ch01"], &BOTH, 1, Order::Abba);
    asked.workload.duration_ms = Some(30_000);
    let plan = plan(asked);
    let specs: Vec<RunSpec> = plan.runs.iter().map(|run| plan.spec(run)).collect();
    let (offline, online) = (&specs[0], &specs[1]);
    assert_eq!(offline.workload.n_runs, 20);
    assert_eq!(offline.workload.duration_ms, None);
    assert_eq!(online.workload.n_runs, defaults::N_RUNS_MAX);
    assert_eq!(online.workload.duration_ms, Some(30_000));
    assert_eq!(online.slo.as_ref().unwrap().ttft_ms, Some(200.0));
}

#[test]
fn the_same_chapter_twice_is_two_arms() {
    let twice = plan(request(&["ch02", "ch02"], &[Mode::Online], 1, Order::Abba));
    assert_eq!(letters(&twice), "ab");
    assert_eq!(
        twice.arms.first().unwrap().arm,
        twice.arms.last().unwrap().arm
    );
}

#[test]
fn a_seed_shuffles_the_first_block_and_the_next_one_turns_it_round() {
    let chapters = ["ch01", "ch02", "ch04", "ch09"];
    let seeded = |order_seed| {
        let asked = request(&chapters, &[Mode::Online], 2, Order::Abba);
        letters(&plan(Request {
            order_seed,
            ..asked
        }))
    };
    assert_eq!(seeded(0), "abcddcba");
    for seed in 1..20 {
        let order = seeded(seed);
        assert_eq!(order, seeded(seed), "the same seed, the same order");
        let back: String = order.chars().rev().collect();
        assert_eq!(order, back, "seed {seed}");
        let mut block: Vec<char> = order.chars().take(4).collect();
        block.sort_unstable();
        assert_eq!(block, ['a', 'b', 'c', 'd'], "seed {seed}");
    }
    let orders: std::collections::BTreeSet<String> = (1..20).map(seeded).collect();
    assert!(orders.len() > 5, "{orders:?}");
}

#[test]
fn a_session_goes_on_as_it_would_have_gone_on() {
    let chapters = ["ch01", "ch02", "ch04"];
    let of = |repeat, before| {
        let mut asked = request(&chapters, &[Mode::Online], repeat, Order::Abba);
        asked.loads = vec![closed(1), closed(8)];
        asked.order_seed = 7;
        asked.before = before;
        plan(asked)
    };
    let first = of(3, Before::default());
    let before = Before {
        passes: 3,
        blocks: 6,
        runs: 18,
    };
    let more = of(2, before);
    let whole = of(5, Before::default());
    let under_one = |plan: &Plan| letters(plan).chars().take(plan.runs.len() / 2).collect();
    let (first, next, whole): (String, String, String) =
        (under_one(&first), under_one(&more), under_one(&whole));
    assert_eq!(format!("{first}{next}"), whole);
    let blocks: Vec<u32> = more.runs.iter().map(|run| run.block).collect();
    assert_eq!(blocks, [6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9]);
    assert_eq!(more.runs[0].position, 18);
    assert_eq!(more.runs[11].position, 29);
}

#[test]
fn letters_go_on_after_z() {
    assert_eq!(
        [0, 25, 26, 51, 52, 701, 702].map(letter).join(" "),
        "a z aa az ba zz aaa"
    );
}

#[test]
fn warm_up_fills_every_slot() {
    let under = |load: Load| warmup(3, &load);
    assert_eq!(under(closed(1)), 3);
    assert_eq!(under(closed(8)), 8);
    let burst = |max_in_flight| Load::Burst { max_in_flight };
    assert_eq!((under(burst(Some(5))), under(burst(None))), (5, 3));
}

proptest! {
    #[test]
    fn every_arm_runs_once_a_block(arms in 1_usize..6, repeat in 1_u32..8, blocked: bool) {
        let order = if blocked { Order::Blocked } else { Order::Abba };
        let mut runs = sequence(arms, 0..repeat, order);
        prop_assert_eq!(runs.len(), arms * repeat as usize);
        runs.sort_unstable();
        runs.dedup();
        prop_assert_eq!(runs.len(), arms * repeat as usize);
    }
}
