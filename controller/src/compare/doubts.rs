//! A run's doubts go wherever its figures go: those of a side's runs, each kind once.

use contracts::run::Soundness;

use crate::compare::Measured;
use crate::record::RunRecord;
use crate::show::{validity, words};

/// What the runs of a side are in doubt of. Of runs with the same doubt the first is told, and how
/// many more there are.
pub(super) fn doubts(side: &str, runs: &[Measured<'_>]) -> Vec<String> {
    let mut kinds: Vec<(String, String, u64)> = Vec::new();
    for (kind, line) in runs.iter().flat_map(|run| of_run(run.run)) {
        match kinds.iter_mut().find(|(known, _, _)| *known == kind) {
            Some((_, _, more)) => *more += 1,
            None => kinds.push((kind, format!("the {side}'s run {line}"), 0)),
        }
    }
    let lines = kinds.into_iter();
    lines
        .map(|(_, line, more)| words::likewise(line, more))
        .collect()
}

/// (kind, words) of each of its doubts.
fn of_run(run: &RunRecord) -> Vec<(String, String)> {
    let mut doubts = Vec::new();
    let id = &run.run_id;
    if run.status.validity.verdict == Soundness::Degraded {
        let limits = run.status.validity.doubts.iter().map(|doubt| &*doubt.limit);
        let kind = limits.collect::<Vec<_>>().join(" ");
        let verdict = validity::verdict(&run.status.validity);
        doubts.push((kind, format!("{id} is {verdict}")));
    }
    let warnings = validity::other_warnings(&run.status);
    doubts.extend(warnings.map(|w| (w.code.clone(), format!("{id}: {}", w.message))));
    doubts
}

#[cfg(test)]
mod tests {
    use contracts::run::{Mode, Warning};

    use super::*;
    use crate::compare::Input;
    use crate::fixtures;

    #[test]
    fn the_same_doubt_of_many_runs_is_one_line() {
        let runs: Vec<RunRecord> = (0..4)
            .map(|i| {
                let mut run = fixtures::run(&format!("01R{i}"), "ch01", Mode::Offline);
                let code = if i == 2 { "hot" } else { "busy" };
                run.status.warnings.push(Warning {
                    code: code.to_owned(),
                    message: format!("{code} by {i} %"),
                });
                run
            })
            .collect();
        let nothing = Input::EMPTY;
        let measured = runs.iter().map(|run| Measured {
            run,
            input: &nothing,
        });
        assert_eq!(
            doubts("base", &measured.collect::<Vec<_>>()),
            [
                "the base's run 01R0: busy by 0 %; likewise 2 more runs",
                "the base's run 01R2: hot by 2 %"
            ]
        );
    }
}
