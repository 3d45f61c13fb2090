//! The figures of one cell: both sides, their ratio and their difference, metric by metric.
//!
//! A figure of a side is the mean over its runs of each run's own value; requests of different
//! runs are never pooled.

use serde::Serialize;

use crate::compare::Measured;
use crate::compare::judge::{Design, Floor, Judgement, Rules};
use crate::compare::reduced::{Missing, OfRun, Reduced, unless_zero};
use crate::show::words;
use crate::stats::mean;
use crate::stats::quantile::{PERCENTILES, smallest_n};

/// One metric of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// For programs: `req_per_s`, `wall_ms`, `wall_ms_p50`, …
    pub metric: String,
    /// For people.
    pub label: String,
    /// Unit of the figures and of the difference.
    pub unit: Unit,
    /// Whether the sides are judged by it; all else is to look at.
    pub primary: bool,
    /// The base's figure.
    pub base: Figure,
    /// The candidate's.
    pub candidate: Figure,
    /// Candidate / base; none where they may not be compared.
    pub ratio: Option<f64>,
    /// Candidate − base, in `unit`; none where they may not be compared.
    pub difference: Option<f64>,
    /// Why there is no ratio although both have figures.
    pub note: Option<String>,
    /// What the runs say of it; none where it is not judged.
    pub judgement: Option<Judgement>,
}

impl Row {
    /// Whether it rests on a count of tokens.
    fn counts_tokens(&self) -> bool {
        matches!(self.unit, Unit::TokPerS | Unit::Tokens) || self.metric == "tpot_ms"
    }

    /// Takes back a ratio that would say something false.
    fn withhold(&mut self, why: &str) {
        if self.ratio.take().is_some() {
            self.difference = None;
            self.note = Some(why.to_owned());
        }
    }
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Completed requests per second.
    #[serde(rename = "req/s")]
    ReqPerS,
    /// Output tokens per second.
    #[serde(rename = "tok/s")]
    TokPerS,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Ms,
    /// Tokens of an answer.
    #[serde(rename = "tokens")]
    Tokens,
}

/// A side's figure, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Mean over the side's runs.
    pub value: Option<f64>,
    /// `not measured`, `n/a (needs ≥ 368, has 100)`.
    pub missing: Option<String>,
}

/// On what terms the sides of a cell are judged.
#[derive(Clone, Copy)]
pub struct Terms<'t> {
    /// Whether there may be ratios and differences.
    pub comparable: bool,
    /// Why there is no verdict although there are ratios.
    pub withheld: Option<&'t str>,
    /// How the runs stand against each other; paired sides have their runs in the blocks' order.
    pub design: Design,
    /// Alpha, margin and looks.
    pub rules: Rules,
    /// What equal runs differ by, by a metric's name.
    pub floor: &'t dyn Fn(&str) -> Option<Floor>,
}

/// Percentiles of TTFT and of the gaps that are shown: those that sides are judged by.
const JUDGED: [(&str, f64); 2] = [("p50", 0.5), ("p95", 0.95)];

/// All rows. Without [`Terms::comparable`] there are figures and neither ratios nor differences.
/// Metrics that neither side has are left out.
pub fn rows(base: &[Measured<'_>], candidate: &[Measured<'_>], terms: &Terms<'_>) -> Vec<Row> {
    let (base, candidate) = (reduce(base), reduce(candidate));
    let table = Rows {
        base: &base,
        candidate: &candidate,
        comparable: terms.comparable,
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
    if let Some(note) = tokens_note(&base, &candidate) {
        for row in rows.iter_mut().filter(|row| row.counts_tokens()) {
            row.withhold(note);
        }
    }
    let primary = table.primary();
    for row in &mut rows {
        row.primary = primary.contains(&row.metric.as_str());
    }
    rows
}

/// Both sides, reduced.
struct Rows<'r> {
    base: &'r [Reduced],
    candidate: &'r [Reduced],
    comparable: bool,
}

impl Rows<'_> {
    fn row(&self, metric: &str, label: &str, unit: Unit, of: &dyn Fn(&Reduced) -> OfRun) -> Row {
        let (base, candidate) = (figure(self.base, of), figure(self.candidate, of));
        let both = base.value.zip(candidate.value).filter(|_| self.comparable);
        Row {
            metric: metric.to_owned(),
            label: label.to_owned(),
            unit,
            primary: false,
            base,
            candidate,
            ratio: both.map(|(b, c)| c / b).filter(|ratio| ratio.is_finite()),
            difference: both.map(|(b, c)| c - b),
            note: None,
            judgement: None,
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
        let note = timing_note(self.base, self.candidate);
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

    fn all(&self, is: impl Fn(&Reduced) -> bool) -> bool {
        self.base.iter().chain(self.candidate).all(is)
    }
}

fn reduce(runs: &[Measured<'_>]) -> Vec<Reduced> {
    runs.iter().filter_map(Reduced::of).collect()
}

/// A figure that no request of the side has.
const NOT_MEASURED: &str = "not measured";

/// Mean over runs; missing as soon as one run has no value.
fn figure(runs: &[Reduced], of: &dyn Fn(&Reduced) -> OfRun) -> Figure {
    let values: Result<Vec<f64>, Missing> = runs.iter().map(of).collect();
    let missing = match values {
        Ok(values) => match mean(&values) {
            Some(value) => {
                return Figure {
                    value: Some(value),
                    missing: None,
                };
            }
            None => NOT_MEASURED.to_owned(),
        },
        Err(Missing::NotMeasured) => NOT_MEASURED.to_owned(),
        Err(Missing::TooFew { needs, has }) => words::too_few(needs, has),
    };
    Figure {
        value: None,
        missing: Some(missing),
    }
}

/// Why TTFT and TPOT of two sides are not compared: they are on different clocks.
fn timing_note(base: &[Reduced], candidate: &[Reduced]) -> Option<&'static str> {
    if base.iter().chain(candidate).any(|run| run.timing_mixed) {
        return Some("a run mixes two clocks");
    }
    let mut timings = base.iter().chain(candidate).filter_map(|run| run.timing);
    let first = timings.next()?;
    timings
        .any(|timing| timing != first)
        .then_some("not compared: the engine's clock against the client's")
}

/// Why figures of tokens are not compared: an event may carry several, so their number is another
/// thing than a count of tokens.
fn tokens_note(base: &[Reduced], candidate: &[Reduced]) -> Option<&'static str> {
    let of = |side: &[Reduced]| {
        side.iter().fold((false, false), |(events, other), run| {
            let (by_events, by_other) = run.counted_by_events;
            (events || by_events, other || by_other)
        })
    };
    let (base, candidate) = (of(base), of(candidate));
    let mixed = (base.0 || candidate.0) && (base.1 || candidate.1);
    mixed.then_some("not compared: events were counted against tokens; name a --tokenizer")
}

#[cfg(test)]
mod tests;
