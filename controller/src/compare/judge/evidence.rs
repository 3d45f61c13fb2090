//! What the runs of one metric allow to be said: a ratio with its noise, or a sentence why not.

use crate::compare::judge::{Design, Effect, Floor, Question};
use crate::stats::error::StatsError;
use crate::stats::log_ratio::{LogRatio, ratio};
use crate::stats::permutation;
use crate::stats::runs_needed::{MIN_RUNS, log_sd, runs_needed};

/// Runs a side from which the permutation p is shown: with three, none is below 10 %.
const MIN_PERMUTED: usize = 4;

/// A/A runs that a noise floor rests on at least: of fewer, the spread itself is hardly known.
pub const MIN_FLOOR_RUNS: u32 = 5;

/// A ratio whose noise is known.
pub(super) struct Evidence {
    /// Candidate / base.
    pub ratio: f64,
    /// What surrounds it; Holm's p is not in it yet.
    pub effect: Effect,
    /// Runs of the smaller side.
    pub run_count: usize,
}

/// Candidate / base, whatever is known of its noise.
pub(super) fn ratio_of(question: &Question<'_>) -> Option<f64> {
    ratio(question.base, question.candidate).ok()
}

impl Evidence {
    /// The effect at this alpha, or why there is none.
    pub fn of(question: &Question<'_>, alpha: f64, margin: f64) -> Result<Self, String> {
        let (log_ratio, method) = measure(question)?;
        let words = |error: StatsError| error.to_string();
        let (base, candidate) = (question.base.len(), question.candidate.len());
        let noise = log_sd(&log_ratio, base, candidate);
        let effect = Effect {
            interval: log_ratio.interval(1.0 - alpha).map_err(words)?,
            equivalence_interval: log_ratio.interval(1.0 - 2.0 * alpha).map_err(words)?,
            p: log_ratio.p().map_err(words)?,
            p_holm: None,
            equivalence_p: log_ratio.equivalence_p(margin).map_err(words)?,
            permutation_p: permutation_p(question),
            df: log_ratio.log.df,
            method,
            runs_needed: runs_needed(noise, margin, alpha).ok(),
        };
        Ok(Self {
            ratio: ratio(question.base, question.candidate).map_err(words)?,
            effect,
            run_count: base.min(candidate),
        })
    }
}

/// The ratio by the method that the runs allow.
fn measure(question: &Question<'_>) -> Result<(LogRatio, &'static str), String> {
    let (base, candidate) = (question.base, question.candidate);
    // Numbers that are none come first: no count of runs makes up for them.
    ratio(base, candidate).map_err(|error| match error {
        StatsError::TooFew { .. } => needs(base.len(), candidate.len()),
        other => other.to_string(),
    })?;
    let paired = question.design == Design::Paired;
    if paired && base.len() != candidate.len() {
        let (base, candidate) = (base.len(), candidate.len());
        return Err(StatsError::UnequalPairs { base, candidate }.to_string());
    }
    if let ([base], [candidate]) = (base, candidate) {
        let floor = question.floor.as_ref().ok_or_else(|| needs(1, 1))?;
        return by_floor(*base, *candidate, floor);
    }
    if base.len().min(candidate.len()) < MIN_RUNS as usize {
        return Err(needs(base.len(), candidate.len()));
    }
    for (side, name) in [(base, "base"), (candidate, "candidate")] {
        if side.iter().all(|value| Some(value) == side.first()) {
            return Err(format!("every run of the {name} has the same value"));
        }
    }
    let (ratio, method) = if paired {
        (LogRatio::paired(base, candidate), "paired t on logs")
    } else {
        (LogRatio::welch(base, candidate), "Welch t on logs")
    };
    match ratio {
        Ok(ratio) => Ok((ratio, method)),
        Err(StatsError::NoSpread) => Err("every block has the same ratio".to_owned()),
        Err(other) => Err(other.to_string()),
    }
}

fn by_floor(base: f64, candidate: f64, floor: &Floor) -> Result<(LogRatio, &'static str), String> {
    let runs = floor.run_count;
    if runs < MIN_FLOOR_RUNS {
        return Err(format!(
            "the noise floor rests on {runs} runs, needs {MIN_FLOOR_RUNS}"
        ));
    }
    LogRatio::by_floor(base, candidate, floor.log_sd, runs)
        .map(|ratio| (ratio, "noise floor"))
        .map_err(|_| "the noise floor has no spread".to_owned())
}

/// Which number of runs would do.
fn needs(base: usize, candidate: usize) -> String {
    match (base, candidate) {
        (0, _) | (_, 0) => "no run has it".to_owned(),
        (1, 1) => format!("1 run a side: needs {MIN_RUNS}, or a noise floor of this host"),
        (base, candidate) if base == candidate => format!("{base} runs a side: needs {MIN_RUNS}"),
        (base, candidate) => format!("{base} and {candidate} runs: needs {MIN_RUNS} a side"),
    }
}

/// Exact or none: with more runs than can be enumerated it is left out.
fn permutation_p(question: &Question<'_>) -> Option<f64> {
    let (base, candidate) = (question.base, question.candidate);
    if base.len().min(candidate.len()) < MIN_PERMUTED {
        return None;
    }
    match question.design {
        Design::Paired => permutation::sign_flips(base, candidate).ok(),
        Design::Unpaired => permutation::splits(base, candidate).ok(),
    }
}
