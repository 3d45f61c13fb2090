//! Every row of the table of words, and every reason for none.

use super::*;

const RULES: Rules = Rules {
    alpha: 0.05,
    margin: 0.05,
    looks: 1,
};

fn question<'a>(base: &'a [f64], candidate: &'a [f64], better: Better) -> Question<'a> {
    Question {
        base,
        candidate,
        design: Design::Unpaired,
        better,
        floor: None,
    }
}

fn alone(question: &Question<'_>, rules: &Rules) -> Judgement {
    let mut judged = judge(std::slice::from_ref(question), rules);
    assert_eq!(judged.len(), 1);
    judged.remove(0)
}

fn why(question: &Question<'_>) -> String {
    match alone(question, &RULES).verdict {
        Verdict::None { why } => why,
        other => format!("has a verdict: {other:?}"),
    }
}

/// Five runs whose geometric mean is `center`, with logs `spread` apart.
fn runs(center: f64, spread: f64) -> Vec<f64> {
    let steps = [-1.0, 0.5, 0.0, 1.0, -0.5];
    steps.map(|step| center * f64::exp(step * spread)).to_vec()
}

#[test]
fn by_how_much_is_in_the_metrics_own_direction() {
    let (base, more, less) = (runs(1.0, 0.005), runs(1.097, 0.005), runs(0.912, 0.005));
    for (candidate, better, faster, by) in [
        (&more, Better::Higher, true, 0.097),
        (&less, Better::Lower, true, 0.088),
        (&more, Better::Lower, false, 0.097),
        (&less, Better::Higher, false, 0.088),
    ] {
        let judged = alone(&question(&base, candidate, better), &RULES);
        let effect = judged.effect.as_ref();
        let Some((low, high)) = effect.map(|effect| effect.interval) else {
            panic!("no effect: {judged:?}");
        };
        let near_end = if low > 1.0 { low - 1.0 } else { 1.0 - high };
        let (word, got, least) = match judged.verdict {
            Verdict::Faster { by, at_least, .. } => (true, by, at_least),
            Verdict::Slower { by, at_least, .. } => (false, by, at_least),
            other => panic!("{other:?}"),
        };
        assert_eq!(word, faster);
        assert!((got - by).abs() < 1e-12, "{got}");
        assert!((least - near_end).abs() < 1e-15 && least > 0.0 && least < by);
    }
}

#[test]
fn a_small_difference_that_is_sure_is_practically_equal() {
    let (base, candidate) = (runs(100.0, 0.002), runs(101.0, 0.002));
    let judged = alone(&question(&base, &candidate, Better::Lower), &RULES);
    let expected = matches!(
        judged.verdict,
        Verdict::Slower {
            practically_equal: true,
            ..
        }
    );
    assert!(expected, "{judged:?}");
}

#[test]
fn equal_is_said_only_where_it_is_shown() {
    let (quiet, noisy) = (runs(100.0, 0.005), runs(100.0, 0.1));
    let judged = alone(
        &question(&quiet, &runs(100.1, 0.006), Better::Lower),
        &RULES,
    );
    assert_eq!(judged.verdict, Verdict::Equivalent);
    let judged = alone(&question(&noisy, &runs(101.0, 0.1), Better::Lower), &RULES);
    let Verdict::NoDifferenceShown {
        low,
        high,
        runs_needed,
        only_holm,
    } = judged.verdict
    else {
        panic!("{judged:?}");
    };
    assert!(low < 0.0 && high > 0.0 && !only_holm);
    // 2·(2.8016·0.079/0.0488)² + 2
    assert_eq!(runs_needed, Some(44));
}

#[test]
fn runs_needed_are_more_than_there_are() {
    // Little noise, and a difference near the margin: neither word holds.
    let (base, candidate) = (runs(100.0, 0.0264), runs(102.74, 0.0264));
    let judged = alone(&question(&base, &candidate, Better::Lower), &RULES);
    let effect = judged.effect.as_ref().and_then(|effect| effect.runs_needed);
    assert_eq!(effect, Some(5));
    let expected = matches!(
        judged.verdict,
        Verdict::NoDifferenceShown {
            runs_needed: Some(6),
            ..
        }
    );
    assert!(expected, "{judged:?}");
}

#[test]
fn only_holm_stands_against_it() {
    let base = [100.0, 104.0, 108.0, 102.0, 106.0];
    let candidate = [106.0, 110.0, 114.0, 108.0, 111.0];
    let other = runs(100.0, 0.2);
    let first = question(&base, &candidate, Better::Lower);
    let rest = question(&other, &other, Better::Lower);
    let single = alone(&first, &RULES);
    assert!(
        matches!(single.verdict, Verdict::Slower { .. }),
        "{single:?}"
    );
    let family = judge(&[first, rest.clone(), rest], &RULES);
    let judged = family.first();
    let expected = judged.is_some_and(|judged| {
        matches!(
            judged.verdict,
            Verdict::NoDifferenceShown {
                only_holm: true,
                ..
            }
        )
    });
    assert!(expected, "{judged:?}");
}

#[test]
fn more_looks_ask_for_more() {
    let base = [100.0, 102.0, 104.0, 101.0, 103.0];
    let candidate = [103.0, 105.0, 107.0, 104.0, 105.5];
    let of = |looks| {
        let rules = Rules { looks, ..RULES };
        alone(&question(&base, &candidate, Better::Lower), &rules)
    };
    assert!(matches!(of(1).verdict, Verdict::Slower { .. }));
    assert!(matches!(of(3).verdict, Verdict::NoDifferenceShown { .. }));
    let width = |judged: &Judgement| judged.effect.as_ref().map(|e| e.interval.1 - e.interval.0);
    assert!(width(&of(3)) > width(&of(1)));
}

#[test]
fn drift_falls_out_by_blocks() {
    // Each block is 10 % slower than the one before; the candidate is 2 % faster in each.
    let base: Vec<f64> = (0..5).map(|i| 100.0 * 1.1_f64.powi(i)).collect();
    let candidate: Vec<f64> = base
        .iter()
        .zip([0.979, 0.981, 0.98, 0.982, 0.978])
        .map(|(b, share)| b * share)
        .collect();
    let mut asked = question(&base, &candidate, Better::Lower);
    let unpaired = alone(&asked, &RULES);
    assert!(matches!(
        unpaired.verdict,
        Verdict::NoDifferenceShown { .. }
    ));
    asked.design = Design::Paired;
    let paired = alone(&asked, &RULES);
    assert!(
        matches!(paired.verdict, Verdict::Faster { .. }),
        "{paired:?}"
    );
    let effect = paired
        .effect
        .map(|effect| (effect.method, effect.permutation_p));
    assert_eq!(effect, Some(("paired t on logs", Some(2.0 / 32.0))));
}

#[test]
fn one_run_a_side_needs_a_noise_floor() {
    let mut asked = question(&[100.0], &[110.0], Better::Lower);
    assert_eq!(
        why(&asked),
        "1 run a side: needs 3, or a noise floor of this host"
    );
    let ratio = alone(&asked, &RULES).ratio;
    assert!(ratio.is_some_and(|ratio| (ratio - 1.1).abs() < 1e-12));
    let floor = |log_sd, run_count| Floor {
        log_sd,
        run_count,
        measured_unix_ms: 0,
    };
    // |log 1.1| = 0.0953 against t(0.975, 4)·s·√2 = 3.926 s.
    for (log_sd, word) in [(0.0242, true), (0.0244, false)] {
        asked.floor = Some(floor(log_sd, 5));
        let judged = alone(&asked, &RULES);
        let slower = matches!(judged.verdict, Verdict::Slower { .. });
        assert_eq!(slower, word, "{judged:?}");
        assert_eq!(
            judged.effect.map(|e| (e.method, e.df)),
            Some(("noise floor", 4.0))
        );
    }
    asked.floor = Some(floor(0.01, 4));
    assert_eq!(why(&asked), "the noise floor rests on 4 runs, needs 5");
    for log_sd in [0.0, f64::NAN, -1.0] {
        asked.floor = Some(floor(log_sd, 5));
        assert_eq!(why(&asked), "the noise floor has no spread");
    }
}

#[test]
fn every_reason_for_no_verdict_has_words() {
    let fine = [1.0, 2.0, 4.0];
    let same = [5.0; 3];
    let ask = |base: &[f64], candidate: &[f64], design| {
        let asked = Question {
            design,
            ..question(base, candidate, Better::Lower)
        };
        why(&asked)
    };
    for design in [Design::Paired, Design::Unpaired] {
        let of = |candidate: &[f64]| ask(&fine, candidate, design);
        assert_eq!(ask(&[], &[], design), "no run has it");
        assert_eq!(
            ask(&[1.0, 2.0], &[3.0, 4.0], design),
            "2 runs a side: needs 3"
        );
        let no_log = "a value is zero or negative, so there is no ratio";
        assert_eq!(of(&[1.0, 0.0, 2.0]), no_log);
        assert_eq!(of(&[1.0, -1.0, 2.0]), no_log);
        assert_eq!(of(&[1.0, f64::NAN, 2.0]), "a value is not a finite number");
        assert_eq!(
            of(&[1.0, f64::INFINITY, 2.0]),
            "a value is not a finite number"
        );
        assert_eq!(of(&same), "every run of the candidate has the same value");
        assert_eq!(
            ask(&same, &fine, design),
            "every run of the base has the same value"
        );
    }
    let unequal = ask(&fine, &[1.0, 2.0, 3.0, 4.0], Design::Paired);
    assert_eq!(unequal, "3 runs cannot be paired with 4");
    let constant = ask(&fine, &[2.0, 4.0, 8.0], Design::Paired);
    assert_eq!(constant, "every block has the same ratio");
    let wild = ask(
        &[1e-300, 1.0, 1e300],
        &[1.0, 1e-300, 1e300],
        Design::Unpaired,
    );
    assert_eq!(wild, "a value is not a finite number");
}
