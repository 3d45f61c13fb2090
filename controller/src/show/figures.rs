//! The figures of an online run in words: a row a metric, then what was completed, what was in
//! flight, who waited where, what was good. What they mean is `docs/metrics.md`'s.

use contracts::run::{RunStatus, Slo, Validity};

use crate::compare::work;
use crate::show::{Format, grid, words};
use crate::stats::counts::{Count, Counts, Lengths};
use crate::stats::online::Online;
use crate::stats::quantile::{PERCENTILES, Percentile};
use crate::stats::summary::Summary;

/// A name and what it says.
type Line = (String, String);

/// Rows and lines for a terminal, two blanks in; with a line end.
pub fn text(figures: &Online, status: &RunStatus) -> String {
    let lines = lines(figures, status);
    let width = lines.iter().map(|(name, _)| name.chars().count()).max();
    let lines = lines
        .iter()
        .map(|(name, value)| format!("  {name:<0$}  {value}\n", width.unwrap_or(0)));
    let metrics = metrics(figures, Format::Text);
    let blank = if metrics.is_empty() { "" } else { "\n" };
    format!("{metrics}{blank}{}", lines.collect::<String>())
}

/// Both as Markdown tables.
pub fn markdown(figures: &Online, status: &RunStatus) -> String {
    let lines = lines(figures, status)
        .into_iter()
        .map(|(name, value)| vec![name, value]);
    let lines = grid(Format::Markdown, "ll", &["figures", ""], lines.collect());
    let metrics = metrics(figures, Format::Markdown);
    if metrics.is_empty() {
        return lines;
    }
    format!("{metrics}\n{lines}")
}

/// A row for each metric that was measured. Percentiles that no metric has enough requests for
/// have no column.
fn metrics(figures: &Online, format: Format) -> String {
    let rows = measured_metrics(figures);
    if rows.is_empty() {
        return String::new();
    }
    let known = |i: usize| rows.iter().any(|(_, s)| value(s, i).is_some());
    let columns: Vec<usize> = (0..PERCENTILES.len()).filter(|i| known(*i)).collect();
    let mut header = vec!["", "mean"];
    header.extend(columns.iter().filter_map(|i| Some(PERCENTILES.get(*i)?.0)));
    let rows = rows.iter().map(|(name, summary)| {
        let mut row = vec![(*name).to_owned(), ms(summary.mean)];
        row.extend(
            columns
                .iter()
                .map(|i| value(summary, *i).map_or("—".to_owned(), ms)),
        );
        row
    });
    grid(format, "lrrrrrr", &header, rows.collect())
}

/// In an open loop what counts is from when a request was due; else it is from when it was sent,
/// since it was due when its slot became free.
fn measured_metrics(figures: &Online) -> Vec<(&'static str, Summary)> {
    let latency = &figures.latency;
    let in_open_loop = |summary: Option<Summary>| summary.filter(|_| figures.open_loop);
    let several = |summary: Option<Summary>| summary.filter(|_| !figures.one_at_a_time);
    let all = [
        ("TTFT from due", in_open_loop(latency.ttft_from_due_ms)),
        ("TTFT", latency.ttft_ms),
        ("TPOT", latency.tpot_ms),
        ("ITL", latency.itl_ms),
        ("Wall from due", in_open_loop(latency.wall_from_due_ms)),
        ("Wall", latency.wall_ms),
        ("Waiting in the client", in_open_loop(latency.waiting_ms)),
        ("Connecting", several(latency.connecting_ms)),
        ("Waiting in the server", several(latency.outside_engine_ms)),
    ];
    all.into_iter()
        .filter_map(|(name, summary)| Some((name, summary?)))
        .collect()
}

fn value(summary: &Summary, i: usize) -> Option<f64> {
    summary.percentiles().get(i).and_then(Percentile::value)
}

fn lines(figures: &Online, status: &RunStatus) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| (name.to_owned(), value)));
    };
    line("not shown", percentiles_not_shown(figures));
    if !figures.one_at_a_time {
        line("load", Some(load(figures, status)));
        line("window", window(figures));
        line("steady part", steady(figures));
        line("in flight", in_flight(figures, &status.validity));
        line("rate", rate(figures));
    }
    line("goodput", goodput(figures));
    line("tokens", tokens(figures));
    line("connections", connections(&figures.counts));
    lines
}

/// `p95 needs ≥ 72 requests, p99 ≥ 368: there are 40`.
fn percentiles_not_shown(figures: &Online) -> Option<String> {
    let wall = figures.latency.wall_ms?;
    let mut missing = Vec::new();
    // A percentile that takes thousands of requests is not missed.
    for (percentile, (name, _)) in wall.percentiles().iter().zip(PERCENTILES).take(4) {
        if let Percentile::TooFew { needs, .. } = percentile {
            let what = if missing.is_empty() { " requests" } else { "" };
            let verb = if missing.is_empty() { "needs " } else { "" };
            missing.push(format!("{name} {verb}≥ {needs}{what}"));
        }
    }
    let has = match wall.n {
        1 => "there is 1".to_owned(),
        n => format!("there are {n}"),
    };
    (!missing.is_empty()).then(|| format!("{}: {has}", missing.join(", ")))
}

/// `20/s (constant), at most 8 in flight; after 8 requests of warm-up, 1 of them failed`.
fn load(figures: &Online, status: &RunStatus) -> String {
    let load = work::load(&status.spec.workload.load);
    let counts = &figures.counts;
    let failed = match counts.warmup_failed {
        0 => String::new(),
        n => format!(", {n} of them failed"),
    };
    match counts.warmup {
        0 => load,
        n => format!(
            "{load}; after {} of warm-up{failed}",
            words::count(n, "request")
        ),
    }
}

fn window(figures: &Online) -> Option<String> {
    let window = figures.window?;
    let total = window.total_tok_per_s;
    Some(format!(
        "{:.1}s: {} completed, {:.2} req/s, {:.1} tok/s{}",
        window.seconds,
        words::count(window.requests, "request"),
        window.req_per_s,
        window.output_tok_per_s,
        total.map_or(String::new(), |t| format!(
            " ({t:.1} with those of the prompts)"
        )),
    ))
}

fn steady(figures: &Online) -> Option<String> {
    let steady = figures.steady?;
    let what = if figures.open_loop {
        "requests kept coming"
    } else {
        "all slots busy"
    };
    Some(format!(
        "{:.1}s ({what}): {:.2} req/s, {:.1} tok/s; in flight {} at its start, {} at its end, {:.2} in the mean",
        steady.seconds,
        steady.req_per_s,
        steady.tok_per_s,
        steady.in_flight_first,
        steady.in_flight_last,
        steady.in_flight.mean,
    ))
}

fn in_flight(figures: &Online, validity: &Validity) -> Option<String> {
    let in_flight = figures.window?.in_flight;
    let asked = validity.in_flight_asked;
    let asked = asked.map_or(String::new(), |n| format!(", {n} asked for"));
    let waiting = validity.waiting_max.filter(|most| *most > 0);
    let waiting = waiting.map_or(String::new(), |n| {
        format!("; at most {n} waiting in the client")
    });
    Some(format!(
        "{:.2} in the mean, at most {}{asked}{waiting}",
        in_flight.mean, in_flight.max
    ))
}

/// `offered 20.00/s, sent 19.98/s, completed 9.80/s`.
fn rate(figures: &Online) -> Option<String> {
    let per_s = |name: &str, per_s: Option<f64>| Some(format!("{name} {:.2}/s", per_s?));
    let completed = figures.window.map(|window| window.req_per_s);
    let parts: Vec<String> = [
        per_s("offered", figures.offered_per_s),
        per_s("sent", figures.sent_per_s),
        per_s("completed", completed),
    ]
    .into_iter()
    .flatten()
    .collect();
    figures.open_loop.then(|| parts.join(", "))
}

fn goodput(figures: &Online) -> Option<String> {
    let (goodput, slo) = (figures.goodput?, figures.slo.as_ref()?);
    Some(format!(
        "{:.2}/s: {} of {} sent ({}) within {}",
        goodput.per_s,
        goodput.met,
        goodput.sent,
        words::percent(goodput.share),
        limits(slo, figures.open_loop)
    ))
}

/// `TTFT 200ms from due, TPOT 50ms, wall 2000ms from due`.
pub fn limits(slo: &Slo, open_loop: bool) -> String {
    let from = if open_loop { " from due" } else { "" };
    let limits: Vec<String> = [
        ("TTFT", slo.ttft_ms, from),
        ("TPOT", slo.tpot_ms, ""),
        ("wall", slo.wall_ms, from),
    ]
    .into_iter()
    .filter_map(|(name, ms, from)| Some(format!("{name} {}ms{from}", ms?)))
    .collect();
    limits.join(", ")
}

/// `input 32 (as made), output 12 … 40 (39.2 in the mean) of at most 40; counted by usage, ended
/// by length`.
fn tokens(figures: &Online) -> Option<String> {
    let input = figures.input_tokens.map(|input| {
        let made = match figures.planned_input_tokens {
            Some(made) if made == input => " (as made)".to_owned(),
            Some(made) => format!(" (made to be {})", lengths(&made)),
            None => String::new(),
        };
        format!("input {}{made}", lengths(&input))
    });
    let output = figures.output_tokens.map(|output| {
        let asked = figures.requested_tokens.map(|asked| lengths(&asked));
        let asked = asked.map_or(String::new(), |asked| format!(" of at most {asked}"));
        format!("output {}{asked}", lengths(&output))
    });
    let parts: Vec<String> = input.into_iter().chain(output).collect();
    if parts.is_empty() {
        return None;
    }
    let counts = &figures.counts;
    let counted = by("counted by", &counts.token_sources);
    let timed = by("timed by", &counts.timing_sources);
    let ended = by("ended by", &counts.finish_reasons);
    let sources = [counted, timed, ended].into_iter().flatten();
    let sources: Vec<String> = sources.collect();
    Some(format!("{}; {}", parts.join(", "), sources.join(", ")))
}

fn lengths(lengths: &Lengths) -> String {
    if lengths.min == lengths.max {
        return lengths.min.to_string();
    }
    let Lengths { min, mean, max, .. } = lengths;
    format!("{min} … {max} ({mean:.1} in the mean)")
}

/// `counted by usage`, `counted by usage (18) and events (2)`.
fn by<T: serde::Serialize>(verb: &str, counts: &[Count<T>]) -> Option<String> {
    let named = match counts {
        [] => return None,
        [one] => words::snake(&one.what),
        several => several
            .iter()
            .map(|count| format!("{} ({})", words::snake(&count.what), count.count))
            .collect::<Vec<_>>()
            .join(" and "),
    };
    Some(format!("{verb} {named}"))
}

fn connections(counts: &Counts) -> Option<String> {
    let parts: Vec<String> = [
        (
            counts.reconnected,
            "sent again since a kept connection had been closed",
        ),
        (counts.unterminated, "whose body was never ended"),
    ]
    .into_iter()
    .filter(|(n, _)| *n > 0)
    .map(|(n, what)| format!("{} {what}", words::count(n, "request")))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn ms(ms: f64) -> String {
    format!("{ms:.2}ms")
}

#[cfg(test)]
mod tests;
