//! Tests of [`super`]: how answers agree.

use contracts::run::Mode;
use contracts::sample::Sample;

use super::*;
use crate::fixtures;
use crate::record::RunRecord;

/// A request whose answer is these ids, all of them firm up to `firm_steps`.
fn answer(index: u32, ids: &[u32], firm_steps: Option<u32>) -> Sample {
    let mut sample = fixtures::sample(index, 10.0, 4);
    sample.output_ids = Some(ids.to_vec());
    sample.text = Some(ids.iter().map(u32::to_string).collect());
    sample.firm_steps = firm_steps;
    sample
}

fn judged(base: &[Sample], candidate: &[Sample]) -> Outputs {
    let run = |samples: &[Sample]| {
        fixtures::finish(fixtures::run("1", "ch01", Mode::Offline), samples.to_vec())
    };
    let (base, candidate) = (run(base), run(candidate));
    let [base, candidate] = [&base, &candidate].map(fixtures::in_comparison);
    judge(&[base], &[candidate])
}

#[test]
fn near_ties_are_told_from_firm_differences() {
    let base = [
        answer(0, &[1, 2, 3], Some(3)),
        answer(1, &[1, 2, 3], Some(2)),
        answer(2, &[1, 2, 3], Some(3)),
        answer(3, &[1, 2, 3], None),
    ];
    let candidate = [
        answer(0, &[1, 2, 3], None),
        answer(1, &[1, 2, 9], Some(3)),
        answer(2, &[1, 9, 3], Some(0)),
        answer(3, &[9, 2, 3], Some(3)),
    ];
    let outputs = judged(&base, &candidate);
    assert_eq!(
        outputs.line,
        "outputs identical 1/4, 1 part at a near tie, 1 part at a firm step, \
         1 differ, how firmly is not known"
    );
    let first = outputs.first_difference.as_ref();
    assert_eq!(
        first.map(|d| (d.request, d.place())),
        Some((2, "token 1".to_owned())),
        "a firm difference is shown before an earlier near tie"
    );
    assert_eq!(first.map(|d| d.base.as_str()), Some("1 2 3"));
    assert_eq!(first.and_then(|d| d.candidate_text.as_deref()), Some("193"));
}

#[test]
fn the_line_is_the_one_users_know() {
    let base: Vec<Sample> = (0..20).map(|i| answer(i, &[1, 2], Some(1))).collect();
    let mut candidate = base.clone();
    for sample in candidate.iter_mut().take(2) {
        sample.output_ids = Some(vec![1, 7]);
    }
    let outputs = judged(&base, &candidate);
    assert_eq!(
        outputs.line,
        "outputs identical 18/20, 2 part at a near tie"
    );
    assert_eq!(outputs.parted, 0);
    assert_eq!(judged(&base, &base).line, "outputs identical 20/20");
}

#[test]
fn an_answer_that_begins_the_other_parts_at_its_end() {
    let outputs = judged(
        &[answer(0, &[1, 2, 3], Some(3))],
        &[answer(0, &[1, 2], Some(2))],
    );
    assert_eq!(outputs.parted, 1);
    let outputs = judged(
        &[answer(0, &[1, 2], Some(2))],
        &[answer(0, &[1, 2, 3], Some(3))],
    );
    assert_eq!(outputs.parted, 1, "all of the base was firm, its end too");
    let outputs = judged(
        &[answer(0, &[1, 2], Some(1))],
        &[answer(0, &[1, 2, 3], Some(3))],
    );
    assert_eq!(outputs.near_tie, 1);
}

#[test]
fn texts_are_compared_where_ids_are_not_told() {
    let mut base = fixtures::sample(0, 10.0, 4);
    base.output_ids = None;
    let mut same = base.clone();
    same.output_ids = Some(vec![1]);
    assert_eq!(
        judged(&[base.clone()], &[same.clone()]).line,
        "outputs identical 1/1"
    );
    same.text = Some("Light bends".to_owned());
    let outputs = judged(&[base.clone()], &[same]);
    assert_eq!(
        (outputs.parted, outputs.unjudged),
        (0, 1),
        "a text cannot say at which step"
    );
    let first = outputs.first_difference;
    assert_eq!(first.map(|d| d.place()).as_deref(), Some("character 6"));
    let mut silent = base.clone();
    silent.text = None;
    let outputs = judged(&[base], &[silent]);
    assert_eq!(
        outputs.line,
        "outputs not judged: no request that both sides answered"
    );
}

#[test]
fn drawn_answers_are_not_judged() {
    let mut run: RunRecord = fixtures::run("1", "ch01", Mode::Offline);
    run.status.spec.workload.sampling.temperature = 0.7;
    let run = fixtures::finish(run, vec![answer(0, &[1], Some(1))]);
    let side = [fixtures::in_comparison(&run)];
    let outputs = judge(&side, &side);
    assert_eq!(outputs.compared, 0);
    assert_eq!(outputs.line, "outputs not judged: sampling is not greedy");
}

#[test]
fn only_what_is_near_the_difference_is_shown() {
    let long: Vec<u32> = (0..100).collect();
    assert_eq!(
        around(&long, 50, " "),
        format!(
            "…{}…",
            (38..74)
                .map(|i| i.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        )
    );
    assert_eq!(around(&long[..3], 0, ""), "012");
}

#[test]
fn only_answers_that_differ_have_to_be_read() {
    let count = READ_MAX as u32 + 5;
    let of = |id: &str, last: u32| {
        let samples = (0..count).map(|i| answer(i, &[1, i % 2 * last], Some(2)));
        fixtures::finish(fixtures::run(id, "ch01", Mode::Offline), samples.collect())
    };
    let (base, candidate) = (of("1", 1), of("2", 2));
    let [base, candidate] = [&base, &candidate].map(fixtures::in_comparison);
    let wanted = differing(&[base], &[candidate]);
    let odd: BTreeSet<u32> = (0..count).filter(|i| i % 2 == 1).collect();
    assert_eq!(wanted, BTreeMap::from([("1", odd.clone()), ("2", odd)]));

    // What was not read differs all the same; how firmly is not known.
    let unread = Input {
        spoken: BTreeMap::new(),
        ..candidate.input.clone()
    };
    let unread = Measured {
        input: &unread,
        ..candidate
    };
    let outputs = judge(&[base], &[unread]);
    assert_eq!((outputs.unjudged, outputs.parted), (count / 2, 0));
    assert_eq!(judge(&[base], &[candidate]).parted, count / 2);
}

#[test]
fn no_more_answers_of_a_run_are_read_than_the_limit() {
    let of = |id: &str, token: u32| {
        let samples = (0..READ_MAX as u32 + 5).map(|i| answer(i, &[token], Some(1)));
        fixtures::finish(fixtures::run(id, "ch01", Mode::Offline), samples.collect())
    };
    let (base, candidate) = (of("1", 1), of("2", 2));
    let [base, candidate] = [&base, &candidate].map(fixtures::in_comparison);
    let wanted = differing(&[base], &[candidate]);
    assert!(wanted.values().all(|indices| indices.len() == READ_MAX));
}
