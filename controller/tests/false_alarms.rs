//! How often equal engines are called FASTER or SLOWER, and how often a true difference is found.
//!
//! Sessions are simulated with noise as machines have it: runs that differ from each other, requests
//! that resemble their neighbours, drift over the session, queues near saturation. Each is judged as
//! `compare` would judge it: the primary metrics of the mode as one family, alpha 5 %. Counts are
//! printed: `cargo test --test false_alarms -- --nocapture`.
#![expect(clippy::print_stdout, reason = "the counts are what this test is for")]

#[path = "false_alarms/noise.rs"]
mod noise;
#[path = "false_alarms/scenarios.rs"]
mod scenarios;

use controller::compare::judge::{Question, Rules, Verdict, judge};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use scenarios::{EQUAL, Metric, Scenario, TRUE_DIFFERENCE};

/// Sessions of each scenario under each seed.
const SESSIONS: u64 = 2_000;

const SEEDS: [u64; 3] = [1, 2, 3];

const RULES: Rules = Rules {
    alpha: 0.05,
    margin: 0.05,
    looks: 1,
};

/// Sessions of 2,000 that may be false alarms.
const MOST_FALSE_ALARMS: u64 = SESSIONS * 6 / 100;

/// How far the share of differences found may be from what is known.
const POWER_TOLERANCE: f64 = 0.03;

/// What a family came to.
#[derive(Default)]
struct Counts {
    faster: u64,
    slower: u64,
    equivalent: u64,
    undecided: u64,
    no_verdict: u64,
}

impl Counts {
    /// A session counts once: as the worst word that any of its primaries has.
    fn add(&mut self, verdicts: &[Verdict]) {
        let any = |is: fn(&Verdict) -> bool| verdicts.iter().any(is);
        let count = if any(|v| matches!(v, Verdict::None { .. })) {
            &mut self.no_verdict
        } else if any(|v| matches!(v, Verdict::Slower { .. })) {
            &mut self.slower
        } else if any(|v| matches!(v, Verdict::Faster { .. })) {
            &mut self.faster
        } else if any(|v| matches!(v, Verdict::NoDifferenceShown { .. })) {
            &mut self.undecided
        } else {
            &mut self.equivalent
        };
        *count += 1;
    }

    fn found(&self) -> u64 {
        self.faster + self.slower
    }
}

fn verdicts(family: &[Metric], scenario: &Scenario) -> Vec<Verdict> {
    let questions: Vec<Question<'_>> = family
        .iter()
        .map(|metric| Question {
            base: &metric.base,
            candidate: &metric.candidate,
            design: scenario.design,
            better: metric.better,
            floor: metric.floor,
        })
        .collect();
    let judged = judge(&questions, &RULES);
    judged.into_iter().map(|metric| metric.verdict).collect()
}

fn simulate(scenario: &Scenario, seed: u64) -> Counts {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut counts = Counts::default();
    for _ in 0..SESSIONS {
        let family = (scenario.session)(&mut rng, scenario.runs);
        counts.add(&verdicts(&family, scenario));
    }
    println!(
        "{:<47} R = {} seed {seed}: {:>4} faster, {:>4} slower, {:>4} equivalent, {:>4} no difference shown, \
         {} no verdict of {SESSIONS}",
        scenario.name,
        scenario.runs,
        counts.faster,
        counts.slower,
        counts.equivalent,
        counts.undecided,
        counts.no_verdict
    );
    counts
}

#[test]
fn equal_arms_are_seldom_called_different() {
    let mut too_many = Vec::new();
    for scenario in &EQUAL {
        for seed in SEEDS {
            let counts = simulate(scenario, seed);
            assert_eq!(counts.no_verdict, 0, "{}", scenario.name);
            if counts.found() > MOST_FALSE_ALARMS {
                too_many.push(format!(
                    "{}, seed {seed}: {}",
                    scenario.name,
                    counts.found()
                ));
            }
        }
    }
    assert!(too_many.is_empty(), "{too_many:#?}");
}

#[test]
fn a_true_difference_is_found_as_often_as_it_should_be() {
    for (scenario, power) in &TRUE_DIFFERENCE {
        for seed in SEEDS {
            let counts = simulate(scenario, seed);
            let got = counts.slower as f64 / SESSIONS as f64;
            let near = (got - power).abs() <= POWER_TOLERANCE;
            assert!(near, "{}, seed {seed}: {got}, not {power}", scenario.name);
        }
    }
}
