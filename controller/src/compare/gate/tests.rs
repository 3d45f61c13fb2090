//! Tests of [`super`]: which verdicts end with which code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::Mode;

use super::*;
use crate::compare::tests::{compared, run};
use crate::record::RunWithSamples;

fn slower() -> Verdict {
    Verdict::Slower {
        by: 0.08,
        at_least: 0.06,
        practically_equal: false,
    }
}

fn undecided() -> Verdict {
    Verdict::NoDifferenceShown {
        low: -0.1,
        high: 0.1,
        runs_needed: None,
        only_holm: false,
    }
}

/// A comparison of one cell a mode, whose primaries have these verdicts.
fn with(verdicts: &[Verdict]) -> Comparison {
    let runs: Vec<RunWithSamples> = [("1", "ch01"), ("2", "ch02")]
        .map(|(id, engine)| run(id, engine, Mode::Offline, &[100.0; 6]))
        .into();
    let mut comparison = compared("ch01", "ch02", &runs);
    let cell = comparison.steps[0].cells[0].clone();
    comparison.steps[0].cells = verdicts
        .iter()
        .map(|verdict| {
            let mut cell = cell.clone();
            let primary = cell.rows.iter_mut().find(|row| row.primary);
            primary.unwrap().verdict = Some(verdict.clone());
            cell
        })
        .collect();
    comparison
}

fn gate(fail_on_slower: Option<f64>, require_verdict: bool) -> Gate {
    Gate {
        fail_on_slower,
        require_verdict,
    }
}

#[test]
fn slower_fails_only_where_it_is_asked_for_and_by_more_than_the_limit() {
    let comparison = with(&[slower()]);
    for (limit, exit) in [
        (None, Exit::Done),
        (Some(0.0), Exit::Slower),
        (Some(0.079), Exit::Slower),
        (Some(0.08), Exit::Done),
    ] {
        assert_eq!(gate(limit, false).exit(&comparison), exit, "{limit:?}");
    }
    assert_eq!(gate(Some(0.1), true).exit(&comparison), Exit::Done);
}

#[test]
fn undecided_fails_only_where_a_verdict_is_required() {
    let none = Verdict::None {
        why: "needs 3".to_owned(),
    };
    for verdict in [undecided(), none] {
        let comparison = with(&[Verdict::Equivalent, verdict]);
        assert_eq!(gate(Some(0.0), false).exit(&comparison), Exit::Done);
        assert_eq!(gate(Some(0.0), true).exit(&comparison), Exit::Undecided);
    }
    assert_eq!(
        gate(None, true).exit(&with(&[Verdict::Equivalent])),
        Exit::Done
    );
}

#[test]
fn over_cells_the_worst_counts() {
    let mut comparison = with(&[slower(), undecided(), Verdict::Equivalent]);
    let strict = gate(Some(0.05), true);
    assert_eq!(strict.exit(&comparison), Exit::Slower);
    let reason = crate::compare::lint::Reason {
        code: crate::compare::lint::ReasonCode::HostDiffers,
        message: "hosts differ".to_owned(),
        todo: "run both on one".to_owned(),
    };
    comparison.steps[0].cells[2].reasons.push(reason);
    assert_eq!(strict.exit(&comparison), Exit::NotComparable);
    assert_eq!(Gate::default().exit(&comparison), Exit::NotComparable);
}

#[test]
fn what_is_not_shown_counts_all_the_same() {
    let mut comparison = with(&[slower()]);
    let hidden = comparison.show_only(&["req_per_s".to_owned()]);
    assert_eq!(hidden, Ok(()));
    let cell = &comparison.steps[0].cells[0];
    assert_eq!(cell.rows.len(), 1);
    assert_eq!(cell.primaries().count(), 1);
    assert_eq!(gate(Some(0.05), false).exit(&comparison), Exit::Slower);
    let error = comparison.show_only(&["walls".to_owned()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no cell has the metric `walls`; these are there: req_per_s"
    );
}
