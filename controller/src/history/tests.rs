//! Which runs make a series, and what its steps say.

use contracts::run::{RunState, Soundness};

use super::*;
use crate::columns::Builder;
use crate::fixtures::{NOON_UNIX_MS, run, with_walls};
use crate::stats::changes::MAX_VALUES;

const DAY_MS: i64 = 24 * 3_600_000;

/// One run a day of each median wall; from run 8 on another build.
pub(crate) fn nights(walls_ms: &[f64]) -> (Vec<RunRecord>, BTreeMap<String, Reduced>) {
    let mut runs = Vec::new();
    let mut reduced = BTreeMap::new();
    for (night, wall_ms) in walls_ms.iter().enumerate() {
        let id = format!("01NIGHT{night:02}");
        let mut record = run(&id, "ch09", Mode::Offline);
        record.session_id = format!("01SESSION{night:02}");
        record.created_unix_ms = NOON_UNIX_MS + DAY_MS * night as i64;
        if let Some(provenance) = record.status.provenance.as_mut().filter(|_| night >= 8) {
            provenance.engine_build = Some("0.1.0+def5678".to_owned());
        }
        let run = with_walls(record, &[*wall_ms; 20]);
        let mut columns = Builder::default();
        for sample in &run.samples {
            columns.take(sample, None);
        }
        let of_run = Reduced::of_columns(&run.run, &columns.finish()).unwrap();
        reduced.insert(id, of_run);
        runs.push(run.run);
    }
    (runs, reduced)
}

/// 3 % of noise around 1200 ms, then around 1100.
pub(crate) const FASTER: [f64; 15] = [
    1210.0, 1195.0, 1203.0, 1188.0, 1214.0, 1199.0, 1206.0, 1192.0, 1101.0, 1093.0, 1108.0, 1097.0,
    1104.0, 1090.0, 1099.0,
];

fn only_series(runs: &[RunRecord], reduced: &BTreeMap<String, Reduced>) -> Series {
    let (groups, _) = groups(runs);
    assert_eq!(groups.len(), 1);
    groups[0].series(None, reduced).unwrap()
}

#[test]
fn a_step_has_its_levels_builds_and_time() {
    let (mut runs, reduced) = nights(&FASTER);
    // In whatever order the store gives them, and whatever somebody called the arm one night.
    runs.reverse();
    runs[2].status.spec.arm.name = Some("tuned".to_owned());
    let series = only_series(&runs, &reduced);
    assert_eq!((series.metric, series.runs.len()), ("wall_ms_p50", 15));
    let [step] = series.steps.as_slice() else {
        panic!("{:?}", series.steps);
    };
    assert_eq!((step.first, step.run_id.as_str()), (8, "01NIGHT08"));
    assert!((step.before - 1201.0).abs() < 0.1 && (step.after - 1099.0).abs() < 0.1);
    assert!((step.change + 0.085).abs() < 0.001 && step.faster);
    assert_eq!(step.created_unix_ms - step.previous_unix_ms, DAY_MS);
    assert_eq!(step.build_before.as_deref(), Some("0.1.0+abc1234"));
    assert_eq!(step.build_after.as_deref(), Some("0.1.0+def5678"));
    assert_eq!(series.runs[0].level, step.before);
    assert_eq!(series.runs[14].level, step.after);
}

#[test]
fn more_tokens_a_second_are_faster() {
    let (runs, reduced) = nights(&FASTER);
    let (groups, _) = groups(&runs);
    let metric = Metric::named("tok_per_s");
    let series = groups[0].series(metric, &reduced).unwrap();
    let steps: Vec<(bool, bool)> = series
        .steps
        .iter()
        .map(|s| (s.faster, s.change > 0.0))
        .collect();
    assert_eq!(steps, [(true, true)]);
}

#[test]
fn hosts_arms_and_work_are_series_of_their_own() {
    let (mut runs, _) = nights(&FASTER[..6]);
    runs[1].host_fingerprint = "f2".to_owned();
    runs[2].workload_key = "w2".to_owned();
    runs[3].status.spec.arm.threads = Some(1);
    runs[4].engine = "ch10".to_owned();
    runs[5].status.spec.arm.mode = Mode::Online;
    runs.push(runs[0].clone());
    // What a user calls an arm makes it no other one.
    runs[6].status.spec.arm.name = Some("before".to_owned());
    let (groups, notes) = groups(&runs);
    let ids: Vec<&str> = groups.iter().map(|g| g.runs[0].run_id.as_str()).collect();
    let expected: Vec<&str> = runs[..6].iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!((ids, notes.len()), (expected, 0));
}

#[test]
fn runs_that_say_nothing_of_the_engine_are_left_out_and_told() {
    let (mut runs, mut reduced) = nights(&FASTER);
    runs[0].status.state = RunState::Failed;
    runs[1].status.state = RunState::Cancelled;
    runs[2].status.state = RunState::Measuring;
    runs[3].status.validity.verdict = Soundness::ClientBound;
    runs[4].status.validity.foreign_cpu_during = Some(0.9);
    runs[5].status.validity.failed_requests = 1;
    reduced.remove("01NIGHT06");
    let (groups, notes) = groups(&runs);
    let expected = [
        "1 run is left out: client-bound",
        "1 run is left out: contaminated",
        "2 runs are left out: failed or cancelled",
        "1 run is left out: not ended",
        "1 run is left out: with failed requests",
    ];
    assert_eq!(notes, expected);
    let series = groups[0].series(None, &reduced).unwrap();
    assert_eq!(series.runs.len(), 8);
    assert_eq!(series.notes, ["1 run is left out: no value of this metric"]);
}

#[test]
fn runs_of_one_session_are_told() {
    let (mut runs, reduced) = nights(&FASTER);
    runs[3].session_id = runs[4].session_id.clone();
    let notes = only_series(&runs, &reduced).notes;
    assert!(
        notes[0].starts_with("runs of one session resemble each other"),
        "{notes:?}"
    );
}

#[test]
fn too_few_runs_say_so() {
    let (runs, reduced) = nights(&FASTER[4..11]);
    let series = only_series(&runs, &reduced);
    assert_eq!((series.runs.len(), series.steps.len()), (7, 0));
    assert_eq!(
        series.notes,
        ["steps are looked for from 8 runs on; it has 7"]
    );
}

#[test]
fn only_the_newest_of_many_are_looked_at() {
    let (runs, _) = nights(&[1200.0; MAX_VALUES + 3]);
    let (groups, _) = groups(&runs);
    assert_eq!(groups[0].runs.len(), MAX_VALUES);
    assert_eq!(
        groups[0].notes,
        ["3 runs are left out: older than the newest 200"]
    );
    assert_eq!(groups[0].runs[0].run_id, "01NIGHT03");
}

#[test]
fn every_metric_has_a_name_of_its_own_and_the_primary_ones_are_there() {
    let names = Metric::names();
    let mut words: Vec<&str> = names.split(", ").collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), 18);
    assert!(Metric::primary(Mode::Offline).is_some() && Metric::primary(Mode::Online).is_some());
    assert!(Metric::named("wall").is_none());
}
