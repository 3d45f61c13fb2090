//! Which metrics a cell has, each with its runs' values, its figures and their ratio.
//!
//! Which of them are primary is declared here and depends on the mode, the load and the number of
//! requests, never on the values.

use super::{Figure, Row, Run, RunValue, Unit};
use crate::compare::judge::Better;
use crate::compare::reduced::{Missing, OfRun, Reduced, unless_zero};
use crate::show::words;
use crate::stats::mean;
use crate::stats::quantile::{PERCENTILES, smallest_n};

/// Percentiles of TTFT and of the gaps that are shown: those that sides are judged by.
const JUDGED: [(&str, f64); 2] = [("p50", 0.5), ("p95", 0.95)];

/// A figure that no request of the side has.
const NOT_MEASURED: &str = "not measured";

/// Whether any comparison has a metric of this name; which ones a cell has depends on its work.
///
/// # Errors
/// The names that exist.
pub fn known_metric(name: &str) -> Result<String, String> {
    let names = names();
    if names.iter().any(|known| known == name) {
        Ok(name.to_owned())
    } else {
        Err(format!("use one of {}", names.join(", ")))
    }
}

fn names() -> Vec<String> {
    let percentiles = |metric: &'static str, all: &'static [(&'static str, f64)]| {
        let named = move |(p, _): &(&str, f64)| format!("{metric}_{p}");
        all.iter().map(named)
    };
    let one = |name: &str| std::iter::once(name.to_owned());
    one("req_per_s")
        .chain(one("tok_per_s"))
        .chain(one("wall_from_due_ms"))
        .chain(percentiles("wall_from_due_ms", &PERCENTILES))
        .chain(one("wall_ms"))
        .chain(percentiles("wall_ms", &PERCENTILES))
        .chain(one("ttft_ms"))
        .chain(percentiles("ttft_ms", &JUDGED))
        .chain(one("tpot_ms"))
        .chain(percentiles("itl_ms", &JUDGED))
        .chain(one("output_tokens"))
        .collect()
}

/// All rows without verdicts, in the order in which they are printed. Without `comparable` there are
/// figures and no ratios.
pub(super) fn rows(base: &[Run<'_>], candidate: &[Run<'_>], comparable: bool) -> Vec<Row> {
    let table = Table {
        base,
        candidate,
        comparable,
    };
    let mut rows = vec![
        table.row("req_per_s", "Req/s", Unit::ReqPerS, &|r| {
            Ok(r.stats.req_per_s)
        }),
        table.row("tok_per_s", "Tok/s", Unit::TokPerS, &|r| {
            Ok(r.stats.tok_per_s)
        }),
    ];
    if table.all(|run| run.open_loop) {
        let of = |r: &Reduced| r.wall_from_due_mean();
        rows.push(table.row("wall_from_due_ms", "Wall from due mean", Unit::Ms, &of));
        rows.extend(PERCENTILES.map(|(name, q)| {
            table.percentile("wall_from_due_ms", "Wall from due", name, &|r| {
                r.wall_from_due(q)
            })
        }));
    }
    rows.push(table.row("wall_ms", "Wall mean", Unit::Ms, &|r| Ok(r.stats.wall_ms)));
    rows.extend(
        PERCENTILES.map(|(name, q)| table.percentile("wall_ms", "Wall", name, &|r| r.wall(q))),
    );
    rows.extend(table.timing());
    rows.push(
        table.row("output_tokens", "Tokens out", Unit::Tokens, &|r| {
            Ok(r.stats.output_tokens)
        }),
    );
    if let Some(note) = table.tokens_note() {
        for row in rows.iter_mut().filter(|row| row.counts_tokens()) {
            row.withhold(note);
        }
    }
    let primary = table.primary();
    for row in &mut rows {
        let declared = primary.contains(&row.metric.as_str());
        let never = one_side_never_has(row);
        row.primary = declared && !never;
        if declared && never {
            row.note.get_or_insert_with(|| NOT_JUDGED.to_owned());
        }
    }
    rows
}

/// Of a metric that is primary elsewhere: an engine that lost it must not go unnoticed.
const NOT_JUDGED: &str =
    "a primary metric that one side did not measure: the sides are not judged by it";

/// Both sides.
struct Table<'r, 'a> {
    base: &'r [Run<'a>],
    candidate: &'r [Run<'a>],
    comparable: bool,
}

impl Table<'_, '_> {
    fn row(&self, metric: &str, label: &str, unit: Unit, of: &dyn Fn(&Reduced) -> OfRun) -> Row {
        let (base, base_runs) = side(self.base, of);
        let (candidate, candidate_runs) = side(self.candidate, of);
        let both = base.value.zip(candidate.value).filter(|_| self.comparable);
        let logs = base_runs.iter().chain(&candidate_runs).all(has_log);
        let better = match unit {
            Unit::ReqPerS | Unit::TokPerS => Some(Better::Higher),
            Unit::Ms => Some(Better::Lower),
            Unit::Tokens => None,
        };
        Row {
            metric: metric.to_owned(),
            label: label.to_owned(),
            unit,
            better,
            primary: false,
            base,
            candidate,
            base_runs,
            candidate_runs,
            ratio: both.filter(|_| logs).map(|(b, c)| c / b),
            effect: None,
            within_pair: None,
            verdict: None,
            note: both
                .filter(|_| !logs)
                .map(|_| "no ratio: a run's value is 0, negative or not finite".to_owned()),
        }
    }

    fn percentile(
        &self,
        metric: &str,
        label: &str,
        name: &str,
        of: &dyn Fn(&Reduced) -> OfRun,
    ) -> Row {
        let (metric, label) = (format!("{metric}_{name}"), format!("{label} {name}"));
        self.row(&metric, &label, Unit::Ms, of)
    }

    /// TTFT, TPOT and, online, their percentiles and the gaps; no ratio between two clocks.
    fn timing(&self) -> Vec<Row> {
        let mut rows = vec![self.row("ttft_ms", "TTFT", Unit::Ms, &|r| {
            unless_zero(r.stats.ttft_ms)
        })];
        let online = self.all(|run| run.online);
        if online {
            rows.extend(
                JUDGED.map(|(name, q)| self.percentile("ttft_ms", "TTFT", name, &|r| r.ttft(q))),
            );
        }
        rows.push(self.row("tpot_ms", "TPOT", Unit::Ms, &|r| {
            unless_zero(r.stats.tpot_ms)
        }));
        if online {
            rows.extend(
                JUDGED.map(|(name, q)| self.percentile("itl_ms", "ITL", name, &|r| r.itl(q))),
            );
        }
        let nobody = |figure: &Figure| figure.missing.as_deref() == Some(NOT_MEASURED);
        rows.retain(|row| !(nobody(&row.base) && nobody(&row.candidate)));
        let note = self.timing_note();
        for row in &mut rows {
            if let Some(note) = note {
                row.withhold(note);
            }
        }
        rows
    }

    /// What the sides are judged by: offline the median wall time, online tokens per second and
    /// the medians of TTFT and wall time, from due in an open loop; where every run has requests
    /// enough, p95 in the medians' place.
    fn primary(&self) -> Vec<&'static str> {
        let enough = |run: &Reduced| u64::from(run.stats.n_runs) >= smallest_n(0.95);
        let tails = self.all(enough);
        if !self.all(|run| run.online) {
            return vec!["wall_ms_p50"];
        }
        let (ttft, wall) = match (tails, self.all(|run| run.open_loop)) {
            (false, false) => ("ttft_ms_p50", "wall_ms_p50"),
            (false, true) => ("ttft_ms_p50", "wall_from_due_ms_p50"),
            (true, false) => ("ttft_ms_p95", "wall_ms_p95"),
            (true, true) => ("ttft_ms_p95", "wall_from_due_ms_p95"),
        };
        vec!["tok_per_s", ttft, wall]
    }

    /// Why TTFT and TPOT of two sides are not compared: they are on different clocks.
    fn timing_note(&self) -> Option<&'static str> {
        if self.runs().any(|run| run.timing_mixed) {
            return Some("a run mixes two clocks");
        }
        let mut timings = self.runs().filter_map(|run| run.timing);
        let first = timings.next()?;
        timings
            .any(|timing| timing != first)
            .then_some("not compared: the engine's clock against the client's")
    }

    /// Why figures of tokens are not compared: an event may carry several, so their number is
    /// another thing than a count of tokens.
    fn tokens_note(&self) -> Option<&'static str> {
        let of = |side: &[Run<'_>]| {
            side.iter().fold((false, false), |(events, other), run| {
                let (by_events, by_other) = run.reduced.counted_by_events;
                (events || by_events, other || by_other)
            })
        };
        let (base, candidate) = (of(self.base), of(self.candidate));
        let mixed = (base.0 || candidate.0) && (base.1 || candidate.1);
        mixed.then_some("not compared: events were counted against tokens; name a --tokenizer")
    }

    fn runs(&self) -> impl Iterator<Item = &Reduced> {
        let both = self.base.iter().chain(self.candidate);
        both.map(|run| &run.reduced)
    }

    fn all(&self, is: impl Fn(&Reduced) -> bool) -> bool {
        self.runs().all(is)
    }
}

/// A metric that one side's engine cannot have is none that the sides can be judged by.
fn one_side_never_has(row: &Row) -> bool {
    let never = |figure: &Figure| figure.missing.as_deref() == Some(NOT_MEASURED);
    never(&row.base) || never(&row.candidate)
}

/// One side of a row. Its figure is missing as soon as one run has no value.
fn side(runs: &[Run<'_>], of: &dyn Fn(&Reduced) -> OfRun) -> (Figure, Vec<RunValue>) {
    let mut values = Vec::new();
    let mut missing = None;
    for run in runs {
        match of(&run.reduced) {
            Ok(value) => values.push(RunValue {
                run_id: run.record.run_id.clone(),
                block: run.record.block,
                value,
            }),
            Err(why) => {
                missing.get_or_insert(why);
            }
        }
    }
    let missing = match missing {
        Some(Missing::TooFew { needs, has }) => Some(words::too_few(needs, has)),
        Some(Missing::NotMeasured) if values.is_empty() => Some(NOT_MEASURED.to_owned()),
        Some(Missing::NotMeasured) => Some("not measured in every run".to_owned()),
        None if values.is_empty() => Some(NOT_MEASURED.to_owned()),
        None => None,
    };
    if missing.is_some() {
        let figure = Figure {
            value: None,
            spread: None,
            missing,
        };
        return (figure, values);
    }
    (figure(&values), values)
}

fn figure(runs: &[RunValue]) -> Figure {
    let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
    let first = values.first().copied();
    let (value, spread) = if values.iter().all(|value| Some(*value) == first) {
        // Not by logs, which would leave what their rounding leaves.
        (first, (values.len() > 1).then_some(0.0))
    } else if runs.iter().all(has_log) {
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        (mean(&logs).map(f64::exp), standard_deviation(&logs))
    } else {
        (mean(&values), None)
    };
    Figure {
        value,
        spread,
        missing: None,
    }
}

fn has_log(run: &RunValue) -> bool {
    run.value > 0.0 && run.value.is_finite()
}

/// With n − 1; none of one value.
fn standard_deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}
