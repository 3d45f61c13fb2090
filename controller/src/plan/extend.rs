//! What is asked again of a session that is extended: taken from the specs of its runs. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contracts::run::{Arm, Load, Mode};

use super::order::{Order, letter};
use super::{Before, Request, offline_load};
use crate::record::RunRecord;

/// The session's request once more, with `repeat` passes or as many as at first, going on after
/// `runs`, which are all that it has.
///
/// # Errors
/// Why these runs cannot be continued, to be put after the session's id.
pub fn request(
    runs: &[RunRecord],
    repeat: Option<u32>,
    cooldown: Duration,
) -> Result<Request, String> {
    let mut runs: Vec<&RunRecord> = runs.iter().collect();
    runs.sort_by_key(|run| run.position);
    let first = runs.first().ok_or("it has no runs")?;
    let of = |mode: Mode| {
        runs.iter()
            .find(move |run| run.status.spec.arm.mode == mode)
            .map(|run| &run.status.spec)
    };
    let (online, offline) = (of(Mode::Online), of(Mode::Offline));
    let spec = online.unwrap_or(&first.status.spec);
    let mut workload = spec.workload.clone();
    if let Some(offline) = offline {
        // Where time ends online runs, offline ones still count.
        workload.n_runs = offline.workload.n_runs;
    }
    let order = match first.session.run_order.as_str() {
        "abba" => Order::Abba,
        "blocked" => Order::Blocked,
        other => return Err(format!("its order, {other:?}, is not known to this build")),
    };
    let request = Request {
        arms: arms(&runs)?,
        workload,
        loads: loads(&runs),
        slo: spec.slo.clone(),
        limits: spec.limits.clone(),
        repeat: repeat.unwrap_or(first.session.repeat_count).max(1),
        order,
        order_seed: first.session.order_seed,
        max_extend: first.session.max_extend,
        cooldown,
        before: before(&runs),
    };
    if runs.iter().all(|run| is_of(&request, run)) {
        return Ok(request);
    }
    Err(
        "its runs were not all asked alike, as in a sweep or by an older build: run it anew"
            .to_owned(),
    )
}

/// The arms in the order of their letters. One that never ran has left a gap, and is not known.
fn arms(runs: &[&RunRecord]) -> Result<Vec<Arm>, String> {
    let by_letter: BTreeMap<(usize, &str), &Arm> = runs
        .iter()
        .rev()
        .map(|run| {
            let letter = run.arm_letter.as_str();
            ((letter.len(), letter), &run.status.spec.arm)
        })
        .collect();
    for (place, (_, there)) in by_letter.keys().enumerate() {
        let wanted = letter(place);
        if *there != wanted {
            return Err(format!(
                "its arm {wanted} never ran, so that nobody knows it any more: run it anew"
            ));
        }
    }
    Ok(by_letter.into_values().cloned().collect())
}

/// The loads as they came: those of online runs, if there are such, since only they have all kinds.
fn loads(runs: &[&RunRecord]) -> Vec<Load> {
    let is_online = |run: &&&RunRecord| run.status.spec.arm.mode == Mode::Online;
    let any_online = runs.iter().any(|run| is_online(&run));
    let mut loads: Vec<Load> = Vec::new();
    for run in runs.iter().filter(|run| !any_online || is_online(run)) {
        let load = &run.status.spec.workload.load;
        if !loads.contains(load) {
            loads.push(load.clone());
        }
    }
    loads
}

fn before(runs: &[&RunRecord]) -> Before {
    let mut passes: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for run in runs {
        let blocks = passes.entry(&run.workload_key).or_default();
        blocks.insert(run.block);
    }
    let passes = passes.values().map(BTreeSet::len).max().unwrap_or(0);
    let next = |of: fn(&RunRecord) -> u32| {
        let last = runs.iter().map(|run| of(run)).max();
        last.map_or(0, |last| last.saturating_add(1))
    };
    Before {
        passes: u32::try_from(passes).unwrap_or(u32::MAX),
        blocks: next(|run| run.block),
        runs: next(|run| run.position),
    }
}

/// Whether the request would have made this run.
fn is_of(request: &Request, run: &RunRecord) -> bool {
    let spec = &run.status.spec;
    let mut again = request.spec(&spec.arm, &spec.workload.load, request.workload.n_runs);
    again.salt.clone_from(&spec.salt);
    let load = &spec.workload.load;
    let has_load = match spec.arm.mode {
        Mode::Online => request.loads.contains(load),
        Mode::Offline => request
            .loads
            .iter()
            .any(|asked| offline_load(asked) == *load),
    };
    again == *spec && has_load && request.arms.contains(&spec.arm)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::{Plan, plan};
    use super::*;
    use crate::fixtures;
    use crate::plan::tests::request as asked;

    /// The runs that a plan comes to, as they are stored.
    fn stored(plan: &Plan) -> Vec<RunRecord> {
        let run = |planned: &super::super::PlannedRun| {
            let mut run = fixtures::run("01", "ch01", planned.arm.mode);
            run.arm_letter.clone_from(&planned.letter);
            run.block = planned.block;
            run.position = planned.position;
            run.workload_key.clone_from(&planned.workload_key);
            run.status.spec = plan.spec(planned);
            run.status.spec.salt = format!("01S/{}", planned.block);
            run.session.run_order = plan.request.order.word().to_owned();
            run.session.order_seed = plan.request.order_seed;
            run.session.repeat_count = plan.request.repeat;
            run.session.max_extend = plan.request.max_extend;
            run
        };
        plan.runs.iter().map(run).collect()
    }

    const BOTH: [Mode; 2] = [Mode::Offline, Mode::Online];

    #[test]
    fn a_stored_session_gives_its_request_back() {
        let mut first = asked(&["ch01", "ch02"], &BOTH, 3, Order::Abba);
        first.loads = vec![
            Load::Closed { concurrency: 1 },
            Load::Closed { concurrency: 8 },
        ];
        first.workload.duration_ms = Some(5_000);
        first.order_seed = 9;
        first.max_extend = 2;
        let whole = plan(first.clone());
        let again = request(&stored(&whole), None, Duration::from_secs(2)).unwrap();
        assert_eq!(again.arms, first.arms);
        assert_eq!(again.loads, first.loads);
        assert_eq!((again.repeat, again.order_seed), (3, 9));
        assert_eq!(again.cooldown, Duration::from_secs(2));
        let before = Before {
            passes: 3,
            blocks: 12,
            runs: u32::try_from(whole.runs.len()).unwrap(),
        };
        assert_eq!(again.before, before);
        let more = plan(Request { repeat: 1, ..again });
        let letters = |plan: &Plan| {
            let letters = plan.runs.iter().take(4).map(|run| run.letter.as_str());
            letters.collect::<String>()
        };
        // Offline arms have cells of their own here, since time ends the online ones: a and c, then b
        // and d. The fourth pass turns the first one round.
        let turned: String = letters(&whole).chars().take(2).collect();
        let first_two: String = letters(&more).chars().take(2).collect();
        assert_eq!(first_two, turned.chars().rev().collect::<String>());
    }

    #[test]
    fn what_cannot_be_continued_is_said() {
        let runs = stored(&plan(asked(&["ch01", "ch02"], &BOTH, 1, Order::Abba)));
        let why = |runs: &[RunRecord]| request(runs, None, Duration::ZERO).unwrap_err();
        assert!(why(&[]).contains("no runs"));
        assert!(why(&runs[1..]).contains("arm a never ran"));
        let mut sweep = runs.clone();
        sweep[3].status.spec.workload.n_runs += 1;
        assert!(why(&sweep).contains("sweep"));
        let mut odd = runs.clone();
        odd[0].session.run_order = "random".to_owned();
        assert!(why(&odd).contains("random"));
        let mut changed = runs;
        changed.push(changed[0].clone());
        changed[4].status.spec.arm.threads = Some(3);
        assert!(why(&changed).contains("not all asked alike"));
    }
}
