//! Tests of [`super`].
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::fixtures;
use crate::record::RunWithSamples;

/// A run whose requests take so long, the last of them `last_ms`.
fn run(mode: Mode, ms: f64, last_ms: f64) -> RunWithSamples {
    let walls = [ms, ms, ms, ms, ms, last_ms];
    fixtures::with_walls(fixtures::run("01", "ch01", mode), &walls)
}

fn side(runs: &[RunWithSamples]) -> Vec<Measured<'_>> {
    runs.iter().map(fixtures::in_comparison).collect()
}

fn of(base: &[RunWithSamples], candidate: &[RunWithSamples], design: Design) -> Overhead {
    let rules = Rules {
        alpha: 0.05,
        margin: 0.05,
        looks: 1,
    };
    overhead(&side(base), &side(candidate), design, &rules)
}

#[test]
fn overhead_is_online_less_offline_whichever_is_the_base() {
    let offline = [run(Mode::Offline, 100.0, 100.0)];
    let online = [run(Mode::Online, 100.5, 106.5)];
    let there = of(&offline, &online, Design::Unpaired);
    assert_eq!((there.median.ms, there.mean.ms), (Some(0.5), Some(1.5)));
    assert_eq!(there.median.interval_ms, None);
    assert_eq!(
        there.median.missing.as_deref(),
        Some("an interval needs 3 runs a side")
    );
    assert_eq!(of(&online, &offline, Design::Unpaired), there);
}

#[test]
fn the_interval_is_student_s_t_of_the_runs_in_ms() {
    let offline = [100.0, 101.0, 102.0].map(|ms| run(Mode::Offline, ms, ms));
    let online = [100.4, 101.5, 102.6].map(|ms| run(Mode::Online, ms, ms));
    // Differences 0.4, 0.5, 0.6: mean 0.5, standard error 0.1 / √3, t(0.975, 2) = 4.302653.
    let paired = of(&offline, &online, Design::Paired).median;
    let (low, high) = paired.interval_ms.unwrap();
    let half = 4.302_652_729_696_142 * 0.1 / 3.0_f64.sqrt();
    assert!((low - (0.5 - half)).abs() < 1e-6 && (high - (0.5 + half)).abs() < 1e-6);
    assert_eq!(paired.missing, None);
    let welch = of(&offline, &online, Design::Unpaired).median;
    let (wide_low, wide_high) = welch.interval_ms.unwrap();
    assert!(wide_low < low && high < wide_high, "drift is not taken out");
}

#[test]
fn runs_without_spread_have_no_interval() {
    let offline = [
        run(Mode::Offline, 100.0, 100.0),
        run(Mode::Offline, 100.0, 100.0),
        run(Mode::Offline, 100.0, 100.0),
    ];
    let online = offline.clone().map(|mut run| {
        run.run.status.spec.arm.mode = Mode::Online;
        run
    });
    let median = of(&offline, &online, Design::Paired).median;
    assert_eq!((median.ms, median.interval_ms), (Some(0.0), None));
    assert_eq!(
        median.missing.as_deref(),
        Some("the runs do not differ among themselves")
    );
}

#[test]
fn too_few_requests_have_no_median() {
    let few = |mode| {
        [fixtures::with_walls(
            fixtures::run("01", "ch01", mode),
            &[100.0; 3],
        )]
    };
    let overhead = of(&few(Mode::Offline), &few(Mode::Online), Design::Unpaired);
    assert_eq!((overhead.median.ms, overhead.mean.ms), (None, Some(0.0)));
    assert_eq!(
        overhead.median.missing.as_deref(),
        Some("a run has too few requests")
    );
}
