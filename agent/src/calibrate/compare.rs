//! What the client measured less what the server wrote down. Pure.
//!
//! Requests are matched by the serial number that an answer's text begins with. Truth of a TTFT is
//! first content's write less the kernel's receipt of the request; of a gap, that between the
//! writes of the same two contents; of a wall time, last write less receipt. What a client spends
//! before its bytes reach the kernel is error, and so is what it spends after its socket could have
//! been read.

use std::collections::HashMap;

use contracts::calibrate::{FloorLevel, Spread};
use contracts::sample::Sample;

use crate::load::event_times;
use crate::metronome::Served;

/// Compares one level. `cpu_ms` is the client's CPU time for all of it.
pub(super) fn level(streams: u32, samples: &[Sample], log: &[Served], cpu_ms: f64) -> FloorLevel {
    let served: HashMap<u64, &Served> = log.iter().map(|served| (served.id, served)).collect();
    let mut errors = Errors::default();
    let mut lost = 0;
    for sample in samples {
        let partner = serial(sample).and_then(|id| served.get(&id));
        match partner.and_then(|served| errors_of(sample, served)) {
            Some(found) => errors.add(found),
            None => lost += 1,
        }
    }
    let tokens: u64 = samples
        .iter()
        .filter_map(|sample| sample.output_tokens)
        .map(u64::from)
        .sum();
    FloorLevel {
        streams,
        requests: u32::try_from(errors.ttft_ms.len()).unwrap_or(u32::MAX),
        lost,
        ttft_error_ms: spread(errors.ttft_ms),
        itl_error_ms: spread(errors.gaps_ms),
        wall_error_ms: spread(errors.wall_ms),
        first_wave_ms: first_wave_ms(streams, samples),
        in_flight_share: in_flight_share(streams, samples),
        client_cpu_ms_per_1000_tokens: if tokens == 0 {
            0.0
        } else {
            cpu_ms * 1000.0 / tokens as f64
        },
    }
}

/// Errors in ms.
#[derive(Default)]
struct Errors {
    ttft_ms: Vec<f64>,
    gaps_ms: Vec<f64>,
    wall_ms: Vec<f64>,
}

impl Errors {
    fn add(&mut self, mut other: Self) {
        self.ttft_ms.append(&mut other.ttft_ms);
        self.gaps_ms.append(&mut other.gaps_ms);
        self.wall_ms.append(&mut other.wall_ms);
    }
}

/// The number that the answer begins with.
fn serial(sample: &Sample) -> Option<u64> {
    let text = sample.text.as_deref()?;
    text.split_whitespace().next()?.parse().ok()
}

/// None where the two cannot be of the same answer, or the client lacks an instant.
fn errors_of(sample: &Sample, served: &Served) -> Option<Errors> {
    if sample.error.is_some() {
        return None;
    }
    let times_us = event_times::decode(sample.event_times.as_ref()?).ok()?;
    if times_us.len() != served.gaps_ns.len() + 1 {
        return None;
    }
    let gaps = times_us.iter().zip(times_us.iter().skip(1));
    let gaps_ms = gaps.zip(&served.gaps_ns).map(|((from, to), truth_ns)| {
        to.saturating_sub(*from) as f64 / 1e3 - f64::from(*truth_ns) / 1e6
    });
    Some(Errors {
        ttft_ms: vec![sample.ttft_ms? - served.ttft_ms()],
        gaps_ms: gaps_ms.collect(),
        wall_ms: vec![sample.wall_ms? - served.wall_ms()],
    })
}

/// Median of the errors, sign kept, and 99th percentile of their size.
fn spread(mut errors_ms: Vec<f64>) -> Spread {
    errors_ms.sort_by(f64::total_cmp);
    let p50 = quantile(&errors_ms, 0.5);
    for error in &mut errors_ms {
        *error = error.abs();
    }
    errors_ms.sort_by(f64::total_cmp);
    Spread {
        p50,
        p99: quantile(&errors_ms, 0.99),
    }
}

/// Linear between the neighbours (Hyndman and Fan's type 7); 0 of nothing.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * sorted.len().saturating_sub(1) as f64;
    let value = |at: f64| sorted.get(at as usize).copied().unwrap_or_default();
    let (low, high) = (value(at.floor()), value(at.ceil()));
    low + (high - low) * at.fract()
}

/// From the first request to the moment when each slot has sent one.
fn first_wave_ms(streams: u32, samples: &[Sample]) -> f64 {
    let first_ns = samples.iter().map(|sample| sample.start_ns).min();
    let sent = sent_in_order(samples);
    let last_ns = sent.get(streams as usize - 1).or(sent.last());
    match (first_ns, last_ns) {
        (Some(first_ns), Some(last_ns)) => last_ns.saturating_sub(first_ns) as f64 / 1e6,
        _ => 0.0,
    }
}

/// Mean in flight over `streams`, from when each slot had sent one to the last request's sending:
/// after that slots fall idle for want of requests.
fn in_flight_share(streams: u32, samples: &[Sample]) -> f64 {
    let sent = sent_in_order(samples);
    let from_ns = sent.get(streams as usize - 1).copied().unwrap_or_default();
    let to_ns = sent.last().copied().unwrap_or_default();
    if to_ns <= from_ns {
        return 0.0;
    }
    let within_ns = |sample: &Sample| {
        let sent_ns = sample.sent_ns?.max(from_ns);
        Some(sample.done_ns?.min(to_ns).saturating_sub(sent_ns))
    };
    let in_flight_ns: u64 = samples.iter().filter_map(within_ns).sum();
    in_flight_ns as f64 / (to_ns - from_ns) as f64 / f64::from(streams)
}

fn sent_in_order(samples: &[Sample]) -> Vec<u64> {
    let mut sent: Vec<u64> = samples.iter().filter_map(|sample| sample.sent_ns).collect();
    sent.sort_unstable();
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// An answer of three tokens that the server wrote at 50, 60 and 70 ms, and ended at 70.
    fn served(id: u64) -> Served {
        Served {
            id,
            received_ns: 0,
            first_ns: 50 * MS,
            gaps_ns: vec![10_000_000, 10_000_000],
            end_ns: 70 * MS,
            ..Served::default()
        }
    }

    /// The same as a client saw it, whose clock started at another time and which was late by
    /// `late_ms` with the first token and by 1 ms with the end.
    fn sample(id: u64, sent_ms: u64, late_ms: u64) -> Sample {
        let sent_ns = sent_ms * MS;
        let times: Vec<u64> = [50 + late_ms, 60, 70].map(|ms| sent_ns + ms * MS).to_vec();
        Sample {
            start_ns: sent_ns,
            sent_ns: Some(sent_ns),
            done_ns: Some(sent_ns + 71 * MS),
            ttft_ms: Some(50.0 + late_ms as f64),
            wall_ms: Some(71.0),
            event_times: event_times::encode(sent_ns, &times),
            text: Some(format!("{id} tick tick")),
            output_tokens: Some(3),
            ..Sample::default()
        }
    }

    #[test]
    fn errors_are_what_the_client_adds() {
        let samples = [sample(1, 100, 2), sample(2, 100, 4)];
        let floor = level(2, &samples, &[served(2), served(1)], 12.0);
        assert_eq!((floor.requests, floor.lost), (2, 0));
        assert_eq!(floor.ttft_error_ms.p50, 3.0);
        assert!((floor.ttft_error_ms.p99 - 3.98).abs() < 1e-9);
        // Gaps: −2, 0, −4, 0; what the first token is late, its gap is short.
        assert_eq!(floor.itl_error_ms.p50, -1.0);
        assert!((floor.itl_error_ms.p99 - 3.94).abs() < 1e-9);
        assert_eq!(floor.wall_error_ms, Spread { p50: 1.0, p99: 1.0 });
        assert_eq!(floor.client_cpu_ms_per_1000_tokens, 2000.0);
    }

    #[test]
    fn what_finds_no_partner_is_lost() {
        let mut failed = sample(1, 0, 0);
        failed.error = Some(contracts::sample::SampleError {
            class: contracts::sample::ErrorClass::Reset,
            message: String::new(),
        });
        let mut torn = served(2);
        torn.gaps_ns.pop();
        let samples = [failed, sample(2, 0, 0), sample(3, 0, 0), sample(4, 0, 0)];
        let floor = level(4, &samples, &[served(1), torn, served(4)], 0.0);
        assert_eq!((floor.requests, floor.lost), (1, 3));
    }

    #[test]
    fn in_flight_counts_the_part_where_requests_were_left() {
        // Two slots; the second sends 10 ms after the first, and pauses 29 ms before its next.
        let samples = [
            sample(1, 0, 0),
            sample(2, 10, 0),
            sample(3, 71, 0),
            sample(4, 110, 0),
        ];
        let floor = level(2, &samples, &[], 0.0);
        assert_eq!(floor.first_wave_ms, 10.0);
        // From 10 to 110 ms: 61 + 39 ms of one slot, 71 of the other, of 200.
        assert!((floor.in_flight_share - 0.855).abs() < 1e-9, "{floor:?}");
    }

    #[test]
    fn nothing_measured_is_nothing() {
        let floor = level(3, &[], &[], 5.0);
        assert_eq!((floor.requests, floor.in_flight_share), (0, 0.0));
        assert_eq!(floor.client_cpu_ms_per_1000_tokens, 0.0);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), 2.0);
        assert_eq!(quantile(&[1.0, 2.0], 0.99), 1.99);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
