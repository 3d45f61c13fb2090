//! Goodput: requests that meet every limit of the user's objective, per second and as a share of
//! those sent.

use contracts::run::Slo;
use contracts::sample::Sample;
use serde::Serialize;

use super::window::{Shape, was_sent, window};

/// How many requests were good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Goodput {
    /// Measured requests that meet every limit.
    pub met: u64,
    /// Measured requests that were sent; a failed one is one that does not meet them.
    pub sent: u64,
    /// `met / sent`, 0 of nothing.
    pub share: f64,
    /// Those that meet every limit and ended in the window, over its length; 0 without a window.
    pub per_s: f64,
}

/// Goodput of a run's requests. In an open loop the limits on TTFT and wall time are on those from
/// due: a request that waited for a slot was not answered in time.
pub fn goodput(samples: &[Sample], slo: &Slo, shape: &Shape) -> Goodput {
    let sent = samples.iter().filter(|s| was_sent(s)).count() as u64;
    let good: Vec<&Sample> = samples
        .iter()
        .filter(|s| meets(s, slo, shape.open_loop))
        .collect();
    let per_s = window(samples, shape).map_or(0.0, |window| {
        let inside = good.iter().filter_map(|s| s.done_ns);
        inside.filter(|done| window.holds(*done)).count() as f64 / window.seconds()
    });
    let met = good.len() as u64;
    Goodput {
        met,
        sent,
        share: if sent == 0 {
            0.0
        } else {
            met as f64 / sent as f64
        },
        per_s,
    }
}

/// Whether a measured request succeeded within every limit. One that lacks a metric which a limit
/// names does not: an answer that cannot be judged is not a good one.
pub fn meets(sample: &Sample, slo: &Slo, open_loop: bool) -> bool {
    let (ttft_ms, wall_ms) = if open_loop {
        let late_ms = sample.sent_ns.map(|sent| ms(sample.due_ns, sent));
        let ttft_ms = sample.ttft_ms.zip(late_ms).map(|(ttft, late)| late + ttft);
        (ttft_ms, wall_from_due_ms(sample))
    } else {
        (sample.ttft_ms, sample.wall_ms)
    };
    let within = |limit: Option<f64>, value: Option<f64>| match limit {
        Some(limit) => value.is_some_and(|value| value <= limit),
        None => true,
    };
    !sample.warmup
        && sample.error.is_none()
        && sample.wall_ms.is_some()
        && within(slo.ttft_ms, ttft_ms)
        && within(slo.tpot_ms, sample.tpot_ms)
        && within(slo.wall_ms, wall_ms)
}

/// From when a request should have started to its end: what a user waits, whoever is late.
pub fn wall_from_due_ms(sample: &Sample) -> Option<f64> {
    Some(ms(sample.due_ns, sample.done_ns?))
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_wait_for_a_slot_counts_against_an_open_loop_only() {
        let mut sample = fixtures::sent(0, 300, 500);
        sample.due_ns = 0;
        sample.ttft_ms = Some(50.0);
        let slo = |ttft_ms, wall_ms| Slo {
            ttft_ms,
            wall_ms,
            ..Slo::default()
        };
        let ttft = slo(Some(200.0), None);
        assert!(meets(&sample, &ttft, false));
        assert!(!meets(&sample, &ttft, true), "350 ms after it was due");
        assert!(meets(&sample, &slo(Some(350.0), None), true));
        assert!(!meets(&sample, &slo(None, Some(499.0)), true));
        assert!(meets(&sample, &slo(None, Some(500.0)), true));

        sample.ttft_ms = None;
        assert!(!meets(&sample, &ttft, false), "it cannot be judged");
    }
}
