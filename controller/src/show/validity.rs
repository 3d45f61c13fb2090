//! Whether a run can be believed: its verdict in words, and every figure that it rests on.

use contracts::run::{RunState, RunStatus, Soundness, Validity, Warning};

use crate::record::RunRecord;
use crate::show::{host, words};

/// `sound`, `degraded`, `client-bound`.
pub fn word(verdict: Soundness) -> &'static str {
    match verdict {
        Soundness::Sound => "sound",
        Soundness::Degraded => "degraded",
        Soundness::ClientBound => "client-bound",
    }
}

/// The verdict with what led to it, the worst first: `degraded: offered 20/s, achieved 10/s`.
pub fn verdict(validity: &Validity) -> String {
    let mut doubts: Vec<_> = validity.doubts.iter().collect();
    doubts.sort_by_key(|doubt| std::cmp::Reverse(doubt.verdict));
    let doubts: Vec<&str> = doubts.iter().map(|doubt| doubt.message.as_str()).collect();
    let word = word(validity.verdict);
    if doubts.is_empty() {
        return word.to_owned();
    }
    format!("{word}: {}", doubts.join("; "))
}

/// Whether the verdict says anything: a run without figures, or one that did not end as asked and
/// has no doubts, was not judged.
pub fn is_judged(run: &RunRecord) -> bool {
    let verdict = run.status.validity.verdict;
    says_something(run.stats.is_some(), run.status.state, verdict)
}

/// [`is_judged`] of a run of which only this is known.
pub fn says_something(has_figures: bool, state: RunState, verdict: Soundness) -> bool {
    has_figures && (state == RunState::Done || verdict != Soundness::Sound)
}

/// The warnings that the verdict does not tell already: each of its doubts is a warning too.
pub fn other_warnings(status: &RunStatus) -> impl Iterator<Item = &Warning> {
    let doubts = &status.validity.doubts;
    let told = move |warning: &&Warning| doubts.iter().all(|d| d.message != warning.message);
    status.warnings.iter().filter(told)
}

/// Every figure that was taken, as name and value.
pub fn rows(run: &RunRecord) -> Vec<(String, String)> {
    let validity = &run.status.validity;
    let measured = |share: Option<f64>| share.map_or("not measured".to_owned(), words::percent);
    let cpu = validity.agent_cpu_ms;
    let cpu = cpu.map_or("not measured".to_owned(), |ms| format!("{ms:.0}ms"));
    let mut rows = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        rows.extend(value.map(|value| (name.to_owned(), value)));
    };
    row("verdict", is_judged(run).then(|| verdict(validity)));
    row(
        "CPU used by others before",
        Some(measured(validity.foreign_cpu_before)),
    );
    row(
        "CPU used by others during",
        Some(measured(validity.foreign_cpu_during)),
    );
    row("CPU time of the agent", Some(cpu));
    row(
        "failed requests",
        Some(validity.failed_requests.to_string()),
    );

    let share = |share: Option<f64>| share.map(words::percent);
    let ms = |ms: Option<f64>| ms.map(|ms| format!("{ms:.2}ms"));
    let per_s = |rate: Option<f64>| rate.map(|rate| format!("{rate:.2}/s"));
    let count = |n: Option<u32>| n.map(|n| n.to_string());
    for (name, value) in [
        ("share of failed requests", share(validity.error_share)),
        ("dispatch lag, p50", ms(validity.dispatch_lag_p50_ms)),
        ("dispatch lag, p99", ms(validity.dispatch_lag_p99_ms)),
        ("load thread busy", share(validity.client_busy_share)),
        ("first wave sent in", ms(validity.first_wave_ms)),
        ("offered", per_s(validity.offered_per_s)),
        ("sent", per_s(validity.sent_per_s)),
        ("achieved", per_s(validity.achieved_per_s)),
        ("in flight, asked", count(validity.in_flight_asked)),
        (
            "in flight, mean",
            validity.in_flight_mean.map(|n| format!("{n:.2}")),
        ),
        ("in flight, at most", count(validity.in_flight_max)),
        (
            "waiting in the client, at most",
            count(validity.waiting_max),
        ),
        ("answers broken off", share(validity.truncated_share)),
        (
            "answers ended at their ceiling",
            share(validity.length_share),
        ),
        ("answers shorter than asked", share(validity.short_share)),
        (
            "prompts of another length than made",
            share(validity.input_mismatch_share),
        ),
        (
            "answers counted differently",
            share(validity.token_mismatch_share),
        ),
        (
            "sent again on a new connection",
            count(Some(validity.reconnected).filter(|n| *n > 0)),
        ),
        ("drift of the wall time", share(validity.drift_share)),
    ] {
        row(name, value);
    }
    rows.extend(host::rows(validity));
    for warning in other_warnings(&run.status) {
        let text = format!("{} ({})", warning.message, warning.code);
        rows.push(("warning".to_owned(), text));
    }
    rows
}

#[cfg(test)]
mod tests {
    use contracts::run::{Doubt, Mode};

    use super::*;
    use crate::fixtures;

    fn doubt(verdict: Soundness, message: &str) -> Doubt {
        Doubt {
            limit: "achieved_share_min".to_owned(),
            verdict,
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_verdict_says_why_the_worst_first() {
        let mut validity = Validity::default();
        assert_eq!(verdict(&validity), "sound");
        validity.verdict = Soundness::Degraded;
        let saturated = "offered 20/s, achieved 10/s";
        validity.doubts = vec![doubt(Soundness::Degraded, saturated)];
        assert_eq!(verdict(&validity), "degraded: offered 20/s, achieved 10/s");
        validity.verdict = Soundness::ClientBound;
        validity.doubts.push(doubt(
            Soundness::ClientBound,
            "the load thread was busy 97 %",
        ));
        assert_eq!(
            verdict(&validity),
            "client-bound: the load thread was busy 97 %; offered 20/s, achieved 10/s"
        );
    }

    #[test]
    fn what_was_not_judged_is_not_called_sound() {
        let run = fixtures::run("01", "ch01", Mode::Online);
        assert!(!is_judged(&run), "no figures");
        let mut run = fixtures::with_walls(run, &[10.0]).run;
        assert!(is_judged(&run));
        run.status.state = RunState::Cancelled;
        assert!(!is_judged(&run));
        run.status.validity.verdict = Soundness::Degraded;
        assert!(is_judged(&run));
    }

    #[test]
    fn figures_that_were_not_taken_have_no_row() {
        let mut run = fixtures::run("01", "ch01", Mode::Online);
        let before = rows(&run).len();
        run.status.validity.dispatch_lag_p99_ms = Some(0.25);
        run.status.validity.drift_share = Some(0.031);
        let rows = rows(&run);
        assert_eq!(rows.len(), before + 2);
        let has = |name: &str, value: &str| rows.contains(&(name.to_owned(), value.to_owned()));
        assert!(has("dispatch lag, p99", "0.25ms"));
        assert!(has("drift of the wall time", "3.1 %"));
    }
}
