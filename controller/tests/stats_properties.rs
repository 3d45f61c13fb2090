//! What must hold of every comparison, whatever the numbers: swapping the sides inverts it, a change
//! of unit changes nothing, and numbers that say nothing are never significant.

use controller::compare::judge::{
    Better, Design, Floor, Judgement, Question, Rules, Verdict, judge,
};
use controller::stats::difference::Difference;
use controller::stats::hodges_lehmann::hodges_lehmann;
use controller::stats::holm::holm;
use controller::stats::log_ratio::LogRatio;
use controller::stats::mann_whitney::mann_whitney_p;
use controller::stats::permutation::{sign_flips, splits};
use proptest::collection::vec;
use proptest::prelude::*;

const RULES: Rules = Rules {
    alpha: 0.05,
    margin: 0.05,
    looks: 1,
};

fn ask(base: &[f64], candidate: &[f64], design: Design, better: Better) -> Judgement {
    let question = Question {
        base,
        candidate,
        design,
        better,
        floor: None,
    };
    let mut judged = judge(&[question], &RULES);
    assert_eq!(judged.len(), 1);
    judged.remove(0)
}

/// A word that claims to know something.
fn claims(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Faster { .. } | Verdict::Slower { .. } | Verdict::Equivalent
    )
}

/// Values of runs as they come: some percent around a level.
fn runs(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<f64>> {
    (vec(0.8..1.25_f64, count), 1e-3..1e6_f64)
        .prop_map(|(runs, level)| runs.iter().map(|run| run * level).collect())
}

/// Two sides of the same number of runs.
fn pairs() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    (3_usize..9).prop_flat_map(|n| (runs(n), runs(n)))
}

fn designs() -> impl Strategy<Value = Design> {
    prop_oneof![Just(Design::Paired), Just(Design::Unpaired)]
}

/// A number that no run can have.
fn impossible() -> impl Strategy<Value = f64> {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -3.5];
    proptest::sample::select(values.to_vec())
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

fn inverse((low, high): (f64, f64)) -> (f64, f64) {
    (1.0 / high, 1.0 / low)
}

fn near_pair(a: (f64, f64), b: (f64, f64)) -> bool {
    near(a.0, b.0) && near(a.1, b.1)
}

/// FASTER for SLOWER; all else stays.
fn word(verdict: &Verdict, swapped: bool) -> &'static str {
    match (verdict, swapped) {
        (Verdict::Faster { .. }, false) | (Verdict::Slower { .. }, true) => "faster",
        (Verdict::Slower { .. }, false) | (Verdict::Faster { .. }, true) => "slower",
        (Verdict::Equivalent, _) => "equivalent",
        (Verdict::NoDifferenceShown { .. }, _) => "no difference shown",
        (Verdict::None { .. }, _) => "none",
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn swapping_sides_inverts((a, b) in pairs(), design in designs()) {
        let there = ask(&a, &b, design, Better::Lower);
        let back = ask(&b, &a, design, Better::Lower);
        prop_assert_eq!(word(&there.verdict, false), word(&back.verdict, true));
        let ratios = there.ratio.zip(back.ratio);
        prop_assert!(ratios.is_some_and(|(x, y)| near(x, 1.0 / y)), "{:?}", ratios);
        if let (Some(there), Some(back)) = (there.effect, back.effect) {
            prop_assert!(near_pair(there.interval, inverse(back.interval)));
            let (x, y) = (there.equivalence_interval, back.equivalence_interval);
            prop_assert!(near_pair(x, inverse(y)));
            prop_assert!(near(there.p, back.p));
            prop_assert!(near(there.equivalence_p, back.equivalence_p));
            prop_assert_eq!(there.permutation_p, back.permutation_p);
            prop_assert_eq!(there.runs_needed, back.runs_needed);
        }
    }

    #[test]
    fn throughput_is_time_turned_around((a, b) in pairs(), design in designs()) {
        let time = ask(&a, &b, design, Better::Lower);
        let turned = |side: &[f64]| side.iter().map(|value| 1.0 / value).collect::<Vec<_>>();
        let rate = ask(&turned(&a), &turned(&b), design, Better::Higher);
        prop_assert_eq!(word(&time.verdict, false), word(&rate.verdict, false));
    }

    #[test]
    fn a_change_of_unit_changes_nothing(
        (a, b) in pairs(),
        design in designs(),
        unit in 1e-6..1e6_f64,
    ) {
        let scaled = |side: &[f64]| side.iter().map(|value| value * unit).collect::<Vec<_>>();
        let plain = ask(&a, &b, design, Better::Lower);
        let other = ask(&scaled(&a), &scaled(&b), design, Better::Lower);
        prop_assert_eq!(word(&plain.verdict, false), word(&other.verdict, false));
        if let (Some(plain), Some(other)) = (plain.effect, other.effect) {
            prop_assert!(near_pair(plain.interval, other.interval));
            prop_assert!(near(plain.p, other.p));
            prop_assert_eq!(plain.permutation_p, other.permutation_p);
        }
    }

    #[test]
    fn within_a_pair_of_runs_swapping_inverts_too(a in runs(1..30), b in runs(1..30)) {
        let there = hodges_lehmann(&a, &b, 0.95);
        let back = hodges_lehmann(&b, &a, 0.95);
        let (Ok(there), Ok(back)) = (there, back) else {
            return Err(TestCaseError::fail(format!("{there:?} {back:?}")));
        };
        prop_assert!(near(there.ratio, 1.0 / back.ratio));
        prop_assert!(near_pair(there.interval, inverse(back.interval)));
        prop_assert!(there.interval.0 <= there.ratio && there.ratio <= there.interval.1);
        prop_assert_eq!(mann_whitney_p(&a, &b), mann_whitney_p(&b, &a));
    }

    #[test]
    fn an_impossible_number_is_a_word(
        (a, b) in pairs(),
        design in designs(),
        bad in impossible(),
        place in 0_usize..3,
        in_base in any::<bool>(),
    ) {
        let (mut a, mut b) = (a, b);
        let side = if in_base { &mut a } else { &mut b };
        side[place] = bad;
        let judged = ask(&a, &b, design, Better::Lower);
        prop_assert!(matches!(judged.verdict, Verdict::None { .. }), "{:?}", judged);
        prop_assert!(judged.ratio.is_none() && judged.effect.is_none());
        prop_assert!(LogRatio::welch(&a, &b).is_err());
        prop_assert!(LogRatio::paired(&a, &b).is_err());
        prop_assert!(splits(&a, &b).is_err() && sign_flips(&a, &b).is_err());
        prop_assert!(hodges_lehmann(&a, &b, 0.95).is_err());
        prop_assert!(bad.is_finite() || Difference::welch(&a, &b).is_err());
        prop_assert!(bad.is_finite() || mann_whitney_p(&a, &b).is_err());
    }

    #[test]
    fn sides_without_spread_claim_nothing(
        n in 1_usize..9,
        m in 1_usize..9,
        level in 1e-3..1e6_f64,
        shift in 0.5..2.0_f64,
        noisy in runs(8),
        design in designs(),
    ) {
        let (a, b) = (vec![level; n], vec![level * shift; m]);
        for (base, candidate) in [(&a, &b), (&a, &noisy), (&noisy, &a), (&a, &a)] {
            let judged = ask(base, candidate, design, Better::Higher);
            prop_assert!(!claims(&judged.verdict), "{:?}", judged);
            prop_assert!(judged.effect.is_none());
        }
        // Nor does a ratio that is the same in each block.
        let constant: Vec<f64> = noisy.iter().map(|run| run * shift).collect();
        let judged = ask(&noisy, &constant, Design::Paired, Better::Lower);
        prop_assert!(matches!(judged.verdict, Verdict::None { .. }), "{:?}", judged);
    }

    #[test]
    fn too_few_runs_claim_nothing(a in runs(0..3), b in runs(0..9), design in designs()) {
        for (base, candidate) in [(&a, &b), (&b, &a)] {
            let judged = ask(base, candidate, design, Better::Lower);
            prop_assert!(matches!(judged.verdict, Verdict::None { .. }), "{:?}", judged);
        }
    }

    #[test]
    fn unequal_sides_are_no_pairs(a in runs(3..9), b in runs(3..9)) {
        prop_assume!(a.len() != b.len());
        let judged = ask(&a, &b, Design::Paired, Better::Lower);
        prop_assert!(matches!(judged.verdict, Verdict::None { .. }), "{:?}", judged);
        prop_assert!(sign_flips(&a, &b).is_err() && LogRatio::paired(&a, &b).is_err());
        let judged = ask(&a, &b, Design::Unpaired, Better::Lower);
        prop_assert!(judged.effect.is_some(), "{:?}", judged);
    }

    #[test]
    fn ties_are_not_evidence(values in vec(1_u8..3, 4..9), design in designs()) {
        // The same runs on both sides, in another order.
        let a: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let b: Vec<f64> = a.iter().rev().copied().collect();
        let judged = ask(&a, &b, design, Better::Lower);
        let significant = matches!(judged.verdict, Verdict::Faster { .. } | Verdict::Slower { .. });
        prop_assert!(!significant, "{:?}", judged);
        prop_assert_eq!(splits(&a, &b), Ok(1.0));
        prop_assert!(mann_whitney_p(&a, &b).is_ok_and(|p| p > 0.99));
    }

    #[test]
    fn nonsense_for_a_floor_claims_nothing(
        base in 1e-3..1e6_f64,
        candidate in 1e-3..1e6_f64,
        log_sd in prop_oneof![impossible(), 1e-3..0.1_f64],
        run_count in 0_u32..5,
    ) {
        let floor = Some(Floor { log_sd, run_count, measured_unix_ms: 0 });
        let question = Question {
            base: &[base],
            candidate: &[candidate],
            design: Design::Unpaired,
            better: Better::Lower,
            floor,
        };
        let judged = judge(&[question], &RULES);
        prop_assert!(judged.iter().all(|judged| !claims(&judged.verdict)), "{:?}", judged);
    }

    #[test]
    fn nonsense_for_rules_is_no_panic(
        (a, b) in pairs(),
        alpha in prop_oneof![impossible(), 0.0..2.0_f64],
        margin in prop_oneof![impossible(), 0.0..2.0_f64],
        looks in 0_u32..4,
    ) {
        let rules = Rules { alpha, margin, looks };
        let question = Question {
            base: &a,
            candidate: &b,
            design: Design::Paired,
            better: Better::Lower,
            floor: None,
        };
        let judged = judge(&[question], &rules);
        let possible = alpha > 0.0 && alpha < 0.5 && margin > 0.0 && margin.is_finite();
        let claims = judged.iter().any(|judged| claims(&judged.verdict));
        prop_assert!(possible || !claims, "{:?}", judged);
    }

    #[test]
    fn holm_only_adds(p in vec(0.0..=1.0_f64, 0..8)) {
        let Ok(adjusted) = holm(&p) else {
            return Err(TestCaseError::fail("no p"));
        };
        prop_assert!(p.iter().zip(&adjusted).all(|(p, adjusted)| p <= adjusted));
        prop_assert!(adjusted.iter().all(|adjusted| *adjusted <= 1.0));
    }
}
