//! From one value a run to words: FASTER, SLOWER, EQUIVALENT, NO DIFFERENCE SHOWN, or why there is none.
//!
//! The run is the unit: requests inside one are not independent, and would find differences between
//! equal engines. All is on the log scale; the rules are those of `docs/compare.md`. Which method a
//! metric's runs allow is `evidence`'s, the words are `words`'. Pure.

mod evidence;
mod words;

use serde::Serialize;

use crate::stats::holm::holm;
use evidence::Evidence;

pub use evidence::MIN_FLOOR_RUNS;

/// What a verdict needs, fixed before anyone looks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rules {
    /// Chance of a false alarm in a family of primary metrics, over all looks together.
    pub alpha: f64,
    /// Ratios from 1/(1+margin) to 1+margin are practically equal.
    pub margin: f64,
    /// How often the data may be looked at: each look has alpha / looks.
    pub looks: u32,
}

impl Rules {
    /// Half or more of all equal sides would be found different; a margin of nothing is never met.
    fn check(&self) -> Result<(), String> {
        if !(self.alpha > 0.0 && self.alpha < 0.5) {
            return Err(format!("alpha {} is not between 0 and 0.5", self.alpha));
        }
        if !(self.margin > 0.0 && self.margin.is_finite()) {
            return Err(format!("margin {} is not above 0", self.margin));
        }
        Ok(())
    }
}

/// Which direction of a metric is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Times.
    Lower,
    /// Throughput.
    Higher,
}

/// How the runs of two sides stand against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// The i-th run of one side and the i-th of the other share a block of an interleaved session.
    Paired,
    /// They do not.
    Unpaired,
}

/// How much equal runs differ on this host, by A/A runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Floor {
    /// Standard deviation of the natural log of the per-run values.
    pub log_sd: f64,
    /// Runs it was computed from.
    pub run_count: u32,
    /// When, for people.
    pub measured_unix_ms: i64,
}

/// One metric of two sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Question<'a> {
    /// One value a run, in the metric's unit.
    pub base: &'a [f64],
    /// One value a run.
    pub candidate: &'a [f64],
    /// How the two stand against each other.
    pub design: Design,
    /// Which direction is good.
    pub better: Better,
    /// For one run a side: what equal runs differ by.
    pub floor: Option<Floor>,
}

/// What the runs say of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// Candidate / base, of geometric means of the runs; none where a value has no log.
    pub ratio: Option<f64>,
    /// What surrounds it; none with fewer than three runs a side, or one without a noise floor.
    pub effect: Option<Effect>,
    /// The words.
    pub verdict: Verdict,
}

/// How sure the ratio is. The intervals are of candidate / base as measured, whichever direction is
/// good.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// At 1 − alpha (per look).
    pub interval: (f64, f64),
    /// At 1 − 2 alpha: inside the margin it shows equivalence.
    pub equivalence_interval: (f64, f64),
    /// Two-sided p of "no difference".
    pub p: f64,
    /// The same after Holm over its family; none outside of one.
    pub p_holm: Option<f64>,
    /// p of "differs by the margin or more": the larger of two one-sided tests.
    pub equivalence_p: f64,
    /// Exact permutation p, from four runs a side; printed, never decides.
    pub permutation_p: Option<f64>,
    /// Degrees of freedom.
    pub df: f64,
    /// `paired t on logs`, `Welch t on logs`, `noise floor`.
    pub method: &'static str,
    /// Runs a side that would show the margin at this noise with 80 % power.
    pub runs_needed: Option<u32>,
}

/// The words of design section 5.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "word", rename_all = "snake_case")]
pub enum Verdict {
    /// Better, with an interval that excludes 1 and Holm's p below alpha.
    Faster {
        /// |ratio − 1| of the metric itself, as a share.
        by: f64,
        /// The same at the near end of the interval.
        at_least: f64,
        /// Whether the interval of equivalence lies inside the margin.
        practically_equal: bool,
    },
    /// Worse, likewise.
    Slower {
        /// |ratio − 1|.
        by: f64,
        /// At the near end of the interval.
        at_least: f64,
        /// As above.
        practically_equal: bool,
    },
    /// The interval of equivalence lies inside the margin.
    Equivalent,
    /// None of these.
    NoDifferenceShown {
        /// Low end of the interval, as a change of the metric as measured: −0.012.
        low: f64,
        /// High end.
        high: f64,
        /// Runs a side that the margin needs at this noise, more than there are.
        runs_needed: Option<u32>,
        /// The interval excludes 1 and only Holm stands against it.
        only_holm: bool,
    },
    /// There is no verdict.
    None {
        /// `needs 3 runs a side`, `every run has the same value`, …
        why: String,
    },
}

/// Judges a family of metrics together: Holm over all of them that have a p. A metric whose runs are
/// too few, without spread or without a log has no verdict and a sentence why.
pub fn judge(family: &[Question<'_>], rules: &Rules) -> Vec<Judgement> {
    let alpha = rules.alpha / f64::from(rules.looks.max(1));
    let evidence: Vec<Result<Evidence, String>> = family
        .iter()
        .map(|question| {
            rules.check()?;
            Evidence::of(question, alpha, rules.margin)
        })
        .collect();
    let p: Vec<f64> = evidence.iter().flatten().map(|e| e.effect.p).collect();
    let mut adjusted = holm(&p).unwrap_or_default().into_iter();
    let judged = family.iter().zip(evidence);
    judged
        .map(|(question, evidence)| {
            let ratio = evidence::ratio_of(question);
            let (effect, verdict) = match evidence.map(|found| (found, adjusted.next())) {
                Ok((mut found, Some(p_holm))) => {
                    found.effect.p_holm = Some(p_holm);
                    let verdict = words::verdict(&found, question.better, alpha, rules.margin);
                    (Some(found.effect), verdict)
                }
                Ok((found, None)) => (Some(found.effect), none("its p is not a probability")),
                Err(why) => (None, none(&why)),
            };
            Judgement {
                ratio,
                effect,
                verdict,
            }
        })
        .collect()
}

fn none(why: &str) -> Verdict {
    Verdict::None {
        why: why.to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test fails by panicking")]
mod tests;
