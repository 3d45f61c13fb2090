//! When the requests of an open loop are due: offsets made beforehand from the seed, so that no
//! answer can move a request. Pure; who waits for the instants is the drive's matter.
//!
//! An arrival is one request, or one conversation. The first arrivals are the warm-up's and the
//! measured ones follow without a gap. Each part is drawn from a stream of its own, so that the
//! measured arrivals are the same whatever the warm-up is.
//!
//! Drawn gaps are stretched so that the `n` arrivals of a part, each with the gap behind it, span
//! `n / rate` exactly: two runs of one rate offer the same load, and only its texture is random.
//! That takes a little variance from the sum of the gaps and leaves their shape. With a duration
//! nothing is stretched: as many come as fall into it.

use std::time::Duration;

use contracts::defaults::N_RUNS_MAX;
use contracts::run::Arrival;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1, Gamma};

/// Streams of the generator.
const WARMUP_STREAM: u64 = 0;
const MEASURE_STREAM: u64 = 1;

/// What arrives when. Eight bytes an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Since the first arrival, in order.
    pub offsets_ns: Vec<u64>,
    /// How many of them are warm-up.
    pub warmup: usize,
    /// From the first measured arrival to the end of the last one's gap, or of the duration.
    pub span_ns: u64,
}

/// How many arrivals a schedule has.
#[derive(Debug, Clone, Copy)]
pub struct Counts {
    /// Of warm-up.
    pub warmup: usize,
    /// Measured; with a duration, at most.
    pub measured: usize,
    /// The time that measured arrivals fall into.
    pub duration: Option<Duration>,
}

/// A schedule that cannot be kept; the message names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct ScheduleError {
    /// Path of the field.
    pub field: &'static str,
    /// What is wrong and what to do.
    pub why: String,
}

impl Schedule {
    /// Arrivals at a rate. `rate_per_s` is above 0 and a gamma's shape is too.
    ///
    /// # Errors
    /// More arrivals within the duration than a run may have.
    pub fn open(
        rate_per_s: f64,
        arrival: Arrival,
        seed: u64,
        counts: Counts,
    ) -> Result<Self, ScheduleError> {
        let mut gaps = Gaps::new(arrival, seed, WARMUP_STREAM)?;
        let span_of = |n: usize| n as f64 / rate_per_s * 1e9;
        let mut offsets_ns = stretched(&mut gaps, counts.warmup, span_of(counts.warmup));
        let from_ns = span_of(counts.warmup) as u64;

        let mut gaps = Gaps::new(arrival, seed, MEASURE_STREAM)?;
        let (measured, span_ns) = match counts.duration {
            None => {
                let span_ns = span_of(counts.measured);
                let measured = stretched(&mut gaps, counts.measured, span_ns);
                (measured, span_ns as u64)
            }
            Some(duration) => {
                let expected = rate_per_s * duration.as_secs_f64();
                let most = counts.measured;
                if expected > f64::from(N_RUNS_MAX) && most >= N_RUNS_MAX as usize {
                    return Err(ScheduleError {
                        field: "workload.duration_ms",
                        why: format!(
                            "{rate_per_s}/s for {duration:?} are {expected:.0} requests; a run has at most {N_RUNS_MAX}"
                        ),
                    });
                }
                let duration_ns = duration.as_nanos() as f64;
                let measured = within(&mut gaps, 1e9 / rate_per_s, duration_ns, most);
                // Cut off at the most requests, the schedule is over sooner.
                let span_ns = match measured.len() < most {
                    true => duration_ns,
                    false => duration_ns.min(span_of(most)),
                };
                (measured, span_ns as u64)
            }
        };
        offsets_ns.extend(measured.into_iter().map(|ns| ns.saturating_add(from_ns)));
        Ok(Self {
            offsets_ns,
            warmup: counts.warmup,
            span_ns,
        })
    }

    /// Arrivals at the times of a trace, in ms since its start and in order. It is taken from its
    /// beginning for each part, and again from there when it is used up, after a gap as long as its
    /// mean one.
    pub fn trace(due_ms: &[u64], counts: Counts) -> Self {
        let first_ms = due_ms.first().copied().unwrap_or_default();
        let last_ms = due_ms.last().copied().unwrap_or_default();
        let length_ns = (last_ms - first_ms.min(last_ms)).saturating_mul(1_000_000);
        let gaps = due_ms.len().saturating_sub(1).max(1) as u64;
        let cycle_ns = length_ns.saturating_add(length_ns / gaps);
        let at = |i: usize| {
            let round = i.checked_div(due_ms.len()).unwrap_or_default() as u64;
            let within = i.checked_rem(due_ms.len()).and_then(|i| due_ms.get(i));
            let within_ns = (within.unwrap_or(&first_ms) - first_ms).saturating_mul(1_000_000);
            round.saturating_mul(cycle_ns).saturating_add(within_ns)
        };
        let from_ns = at(counts.warmup);
        let until_ns = counts.duration.map(ns_of);
        let measured = (0..counts.measured)
            .map(at)
            .take_while(|ns| until_ns.is_none_or(|until| *ns < until))
            .map(|ns| ns.saturating_add(from_ns));
        let mut offsets_ns: Vec<u64> = (0..counts.warmup).map(at).collect();
        offsets_ns.extend(measured);
        let measured = offsets_ns.len() - counts.warmup;
        Self {
            offsets_ns,
            warmup: counts.warmup,
            span_ns: until_ns.unwrap_or_else(|| at(measured)).min(at(measured)),
        }
    }

    /// All at once, in each part.
    pub fn burst(counts: Counts) -> Self {
        Self {
            offsets_ns: vec![0; counts.warmup + counts.measured],
            warmup: counts.warmup,
            span_ns: 0,
        }
    }
}

/// Gaps with a mean of 1.
struct Gaps {
    rng: ChaCha8Rng,
    shape: Shape,
}

enum Shape {
    Constant,
    Poisson,
    Gamma(Gamma<f64>),
}

impl Gaps {
    fn new(arrival: Arrival, seed: u64, stream: u64) -> Result<Self, ScheduleError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        let shape = match arrival {
            Arrival::Constant => Shape::Constant,
            Arrival::Poisson => Shape::Poisson,
            // Mean = shape × scale.
            Arrival::Gamma { shape } => Shape::Gamma(Gamma::new(shape, shape.recip()).map_err(
                |error| ScheduleError {
                    field: "workload.load.arrival.shape",
                    why: error.to_string(),
                },
            )?),
        };
        Ok(Self { rng, shape })
    }

    fn next(&mut self) -> f64 {
        match &self.shape {
            Shape::Constant => 1.0,
            Shape::Poisson => Exp1.sample(&mut self.rng),
            Shape::Gamma(gamma) => gamma.sample(&mut self.rng),
        }
    }
}

/// `n` arrivals from 0 on that span `span_ns` with the gap behind the last one.
fn stretched(gaps: &mut Gaps, n: usize, span_ns: f64) -> Vec<u64> {
    let mut at = 0.0;
    let mut offsets = Vec::with_capacity(n);
    for _ in 0..n {
        offsets.push(at);
        at += gaps.next();
    }
    // Gaps of a tiny shape may all be 0: then all arrive at once.
    let scale = if at > 0.0 { span_ns / at } else { 0.0 };
    let offsets = offsets.into_iter();
    offsets.map(|offset| (offset * scale) as u64).collect()
}

/// Arrivals from 0 on that fall into `duration_ns`.
fn within(gaps: &mut Gaps, gap_ns: f64, duration_ns: f64, most: usize) -> Vec<u64> {
    let mut at = 0.0;
    let mut offsets = Vec::new();
    while at * gap_ns < duration_ns && offsets.len() < most {
        offsets.push((at * gap_ns) as u64);
        at += gaps.next();
    }
    offsets
}

fn ns_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "schedule_tests.rs"]
mod tests;
