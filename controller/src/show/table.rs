//! The table of one run, as in the book, byte for byte; and the footnotes that stand under it.

use contracts::run::{EngineRef, Mode, RunState, Soundness};
use contracts::stats::BenchStats;

use crate::compare::work;
use crate::record::{RunRecord, RunWithSamples};
use crate::show::{validity, words};
use crate::stats::bench::mean_of;
use crate::stats::counts;
use crate::stats::online::{Online, connecting_ms, waiting_ms};
use crate::stats::window::Shape;

/// Dashes of a rule.
const RULE_DASHES: usize = 54;
/// The doubt that says how much CPU others used.
const FOREIGN_CPU: &str = "foreign_cpu_warn_share";
/// Blanks that each line begins with.
const INDENT: &str = "  ";

/// The table of a run, with a line end after its last line. TTFT and TPOT are there when they were
/// measured. Several at a time, throughput says what it is of; in an open loop the wall time from
/// due is the headline. A run without figures says why it has none.
pub fn run_table(run: &RunRecord, online: Option<&Online>) -> String {
    let rule = format!("{INDENT}{}\n", "─".repeat(RULE_DASHES));
    let mut table = format!("{rule}{INDENT}{}\n{rule}", title(run));
    let lines = match &run.stats {
        Some(stats) => figures(run, stats, online),
        None => vec![("No figures", why_none(run))],
    };
    for (name, value) in lines {
        table.push_str(&format!("{INDENT}{name:<13}: {value}\n"));
    }
    table + &rule
}

fn figures(
    run: &RunRecord,
    stats: &BenchStats,
    online: Option<&Online>,
) -> Vec<(&'static str, String)> {
    let of_window = match Shape::of(&run.status).one_at_a_time {
        true => "",
        false => " (completed in the window)",
    };
    let mut lines = vec![
        ("Req/s", format!("{:.2}{of_window}", stats.req_per_s)),
        ("Tok/s", format!("{:.1}{of_window}", stats.tok_per_s)),
    ];
    let from_due = online.filter(|online| online.open_loop);
    if let Some(from_due) = from_due.and_then(|online| online.latency.wall_from_due_ms) {
        lines.push(("Wall from due", format!("{:.0}ms / request", from_due.mean)));
    }
    lines.push(("Wall time", format!("{:.0}ms / request", stats.wall_ms)));
    if stats.ttft_ms != 0.0 {
        lines.push(("TTFT", format!("{:.1}ms", stats.ttft_ms)));
    }
    if stats.tpot_ms != 0.0 {
        lines.push(("TPOT", format!("{:.2}ms", stats.tpot_ms)));
    }
    lines.push((
        "Tokens out",
        format!(
            "{:.0} (avg over {} runs)",
            stats.output_tokens, stats.n_runs
        ),
    ));
    lines
}

/// `Ch01 baseline — offline (no HTTP)`, after the arm's name if it has one; an engine that is not ours
/// goes by its name.
pub fn title(run: &RunRecord) -> String {
    let mode = match run.status.spec.arm.mode {
        Mode::Offline => "offline (no HTTP)",
        Mode::Online => "online (HTTP)",
    };
    let title = run.status.provenance.as_ref();
    let title = title.and_then(|p| p.engine_title.as_deref());
    let engine = match (&run.status.spec.arm.engine, title) {
        (EngineRef::Chapter { id }, Some(title)) => format!("{} {title}", capitalised(id)),
        (EngineRef::Chapter { id }, None) => capitalised(id),
        (EngineRef::Url { url, .. }, _) => url.clone(),
        (
            EngineRef::Named {
                name,
                chapter: None,
            },
            _,
        ) => name.clone(),
        (
            EngineRef::Named {
                name,
                chapter: Some(chapter),
            },
            _,
        ) => format!("{name} {chapter}"),
    };
    match &run.status.spec.arm.name {
        Some(name) => format!("{name}: {engine} — {mode}"),
        None => format!("{engine} — {mode}"),
    }
}

fn capitalised(id: &str) -> String {
    let mut rest = id.chars();
    let first = rest.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(rest).collect()
}

fn why_none(run: &RunRecord) -> String {
    match run.status.failure {
        Some(_) => ended(run),
        None => format!("{}, no measured request succeeded", ended(run)),
    }
}

/// How a run ended: `failed (load): exit 1 before it was ready`.
fn ended(run: &RunRecord) -> String {
    let state = words::snake(&run.status.state);
    match &run.status.failure {
        Some(failure) => format!(
            "{state} ({}): {}",
            words::snake(&failure.stage),
            failure.message
        ),
        None => state,
    }
}

/// What stands under the table, one line each, indented alike: failed requests, what online runs
/// spend beside the wall time, how many requests offline ones had in flight, doubts. Empty where there is nothing to say.
pub fn footnotes(run: &RunWithSamples) -> Vec<String> {
    let mut notes = Vec::new();
    if run.run.status.state != RunState::Done && run.run.stats.is_some() {
        notes.push(format!(
            "{}: the figures are of what was measured until then",
            ended(&run.run)
        ));
    }
    notes.extend(failures(run));
    let online = run.run.status.spec.arm.mode == Mode::Online;
    if online {
        notes.extend(beside_the_wall(run));
    } else if !Shape::of(&run.run.status).one_at_a_time {
        // An online run says it beside its other figures.
        let load = work::load(&run.run.status.spec.workload.load);
        notes.push(format!("load: {load}"));
    }
    let validity = &run.run.status.validity;
    let told = validity.doubts.iter().any(|d| d.limit == FOREIGN_CPU);
    if let Some(share) = validity.foreign_cpu_during.filter(|_| !told) {
        notes.push(format!(
            "CPU used by others while measuring: {}",
            words::percent(share)
        ));
    }
    if validity::is_judged(&run.run) && (online || validity.verdict != Soundness::Sound) {
        notes.push(format!("validity: {}", validity::verdict(validity)));
    }
    let warnings = validity::other_warnings(&run.run.status);
    notes.extend(warnings.map(|w| format!("warning: {}", w.message)));
    notes.iter().map(|note| format!("{INDENT}{note}")).collect()
}

/// The rate of failed requests, with their classes.
fn failures(run: &RunWithSamples) -> Option<String> {
    let total = run.samples.iter().filter(|sample| !sample.warmup).count();
    let failures = counts::failures(&run.samples);
    let failed: u64 = failures.iter().map(|failure| failure.count).sum();
    if failed == 0 {
        return None;
    }
    let by_class = failures.iter().map(|failure| {
        let status = failure.what.status;
        let status = status.map_or(String::new(), |status| format!(" {status}"));
        let class = words::snake(&failure.what.class);
        format!("{} {class}{status}", failure.count)
    });
    let by_class: Vec<String> = by_class.collect();
    Some(format!(
        "failed requests: {failed} of {total} ({}): {}",
        words::percent(failed as f64 / total as f64),
        by_class.join(", ")
    ))
}

/// Connecting and waiting inside the client are no part of the wall time and are shown beside it.
fn beside_the_wall(run: &RunWithSamples) -> Option<String> {
    let connect = mean_of(&run.samples, connecting_ms);
    let waiting = mean_of(&run.samples, waiting_ms)?;
    let connect = match connect {
        Some(connect_ms) => format!("{connect_ms:.2}ms for each new connection"),
        None => "none (one open connection)".to_owned(),
    };
    Some(format!(
        "beside the wall time: connecting {connect}, waiting in the client {waiting:.2}ms / request"
    ))
}

#[cfg(test)]
mod tests;
