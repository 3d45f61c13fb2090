//! The table of one run, as in the book, byte for byte; and the footnotes that stand under it.

use contracts::run::{EngineRef, Mode, RunState};
use contracts::stats::BenchStats;

use crate::record::{RunRecord, RunWithSamples};
use crate::show::words;
use crate::stats::bench::mean_of;

/// Dashes of a rule.
const RULE_DASHES: usize = 54;
/// Blanks that each line begins with.
const INDENT: &str = "  ";

/// The table of a run, with a line end after its last line. TTFT and TPOT are there when they were
/// measured. A run without figures says why it has none.
pub fn run_table(run: &RunRecord) -> String {
    let rule = format!("{INDENT}{}\n", "─".repeat(RULE_DASHES));
    let mut table = format!("{rule}{INDENT}{}\n{rule}", title(run));
    let lines = match &run.stats {
        Some(stats) => figures(stats),
        None => vec![("No figures", why_none(run))],
    };
    for (name, value) in lines {
        table.push_str(&format!("{INDENT}{name:<13}: {value}\n"));
    }
    table + &rule
}

fn figures(stats: &BenchStats) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("Req/s", format!("{:.2}", stats.req_per_s)),
        ("Tok/s", format!("{:.1}", stats.tok_per_s)),
        ("Wall time", format!("{:.0}ms / request", stats.wall_ms)),
    ];
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

/// `Ch01 baseline — offline (no HTTP)`; an engine that is not ours goes by its name.
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
    format!("{engine} — {mode}")
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
/// spend beside the wall time, doubts. Empty where there is nothing to say.
pub fn footnotes(run: &RunWithSamples) -> Vec<String> {
    let mut notes = Vec::new();
    if run.run.status.state != RunState::Done && run.run.stats.is_some() {
        notes.push(format!(
            "{}: the figures are of what was measured until then",
            ended(&run.run)
        ));
    }
    notes.extend(failures(run));
    if run.run.status.spec.arm.mode == Mode::Online {
        notes.extend(beside_the_wall(run));
    }
    if let Some(share) = run.run.status.validity.foreign_cpu_during {
        notes.push(format!(
            "CPU used by others while measuring: {}",
            words::percent(share)
        ));
    }
    let warnings = run.run.status.warnings.iter();
    notes.extend(warnings.map(|w| format!("warning: {}", w.message)));
    notes.iter().map(|note| format!("{INDENT}{note}")).collect()
}

/// The rate of failed requests, with their classes.
fn failures(run: &RunWithSamples) -> Option<String> {
    let measured = run.samples.iter().filter(|sample| !sample.warmup);
    let total = measured.clone().count();
    let classes: Vec<String> = measured
        .filter_map(|sample| sample.error.as_ref())
        .map(|error| words::snake(&error.class))
        .collect();
    if classes.is_empty() {
        return None;
    }
    let rate = words::percent(classes.len() as f64 / total as f64);
    let mut by_class = std::collections::BTreeMap::<&str, u32>::new();
    for class in &classes {
        *by_class.entry(class).or_default() += 1;
    }
    let by_class: Vec<String> = by_class.iter().map(|(c, n)| format!("{n} {c}")).collect();
    Some(format!(
        "failed requests: {} of {total} ({rate}): {}",
        classes.len(),
        by_class.join(", ")
    ))
}

/// Connecting and waiting inside the client are no part of the wall time and are shown beside it.
fn beside_the_wall(run: &RunWithSamples) -> Option<String> {
    let ms = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e6;
    let connect = mean_of(&run.samples, |s| Some(ms(s.start_ns, s.connected_ns?)));
    // What is neither connecting nor on the wire: from the schedule to the client, and from an
    // open connection to the first write.
    let waiting = mean_of(&run.samples, |s| {
        let open = s.connected_ns.unwrap_or(s.start_ns);
        Some(ms(s.due_ns, s.start_ns) + ms(open, s.sent_ns?))
    })?;
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
