//! Tests of [`super`]: what is packed comes back, and figures are those of the samples.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::sample::{EVENT_TIMES_ENCODING, ErrorClass, EventTimes, SampleError};
use proptest::prelude::*;

use super::packed::{pack, unpack};
use super::*;
use crate::fixtures;
use crate::stats::bench::{bench_stats, measured};
use crate::stats::goodput::wall_from_due_ms;

fn blob(deltas: &[u32]) -> Vec<u8> {
    let bytes: Vec<u8> = deltas.iter().flat_map(|d| d.to_le_bytes()).collect();
    zstd::bulk::compress(&bytes, 1).unwrap()
}

fn ms() -> impl Strategy<Value = Option<f64>> {
    prop::option::of(prop_oneof![Just(0.0), 0.0..1e7])
}

fn ns() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![0..u64::from(u32::MAX), 0..u64::MAX >> 1])
}

prop_compose! {
    fn sample_strategy()(
        (warmup, failed) in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        (due_ns, sent_ns, done_ns) in (0..u64::MAX >> 1, ns(), ns()),
        (wall_ms, ttft_ms, tpot_ms) in (ms(), ms(), ms()),
        output_tokens in prop::option::of(any::<u32>()),
        timing_source in prop::option::of(prop_oneof![Just(TimingSource::Client), Just(TimingSource::Engine)]),
        token_source in prop::option::of(prop_oneof![
            Just(TokenSource::Engine), Just(TokenSource::Usage), Just(TokenSource::Metrics),
            Just(TokenSource::Tokenizer), Just(TokenSource::Events)]),
        output_ids in prop::option::of(prop::collection::vec(any::<u32>(), 0..4)),
        text in prop::option::of((0u8..9).prop_map(|n| format!("w{n}"))),
        input_ids_sha256 in prop::option::of((0u8..9).prop_map(|n| format!("{n:064}"))),
        deltas in prop::option::of(prop::collection::vec(0u32..3_000_000, 0..9)),
    ) -> Sample {
        Sample {
            warmup, due_ns, sent_ns, done_ns, wall_ms, ttft_ms, tpot_ms, timing_source,
            output_tokens, token_source, output_ids, text, input_ids_sha256,
            event_times: deltas.map(|deltas| EventTimes {
                encoding: EVENT_TIMES_ENCODING.to_owned(),
                base64: STANDARD.encode(blob(&deltas)),
            }),
            error: failed.then(|| SampleError {
                class: ErrorClass::Reset,
                message: String::new(),
            }),
            ..Sample::default()
        }
    }
}

fn samples_strategy() -> impl Strategy<Value = Vec<Sample>> {
    prop::collection::vec(sample_strategy(), 0..40).prop_map(|mut samples| {
        for (index, sample) in (0..).zip(&mut samples) {
            sample.index = index;
        }
        samples
    })
}

proptest! {
    // A case has many samples.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_packed_comes_back_bit_for_bit(samples in samples_strategy()) {
        let columns = Columns::of(&samples, &GapCounts::EMPTY);
        let back = unpack(&pack(&columns).unwrap()).unwrap();
        prop_assert_eq!(&back, &columns);
        for (a, b) in back.requests.iter().zip(&columns.requests) {
            prop_assert_eq!(a.wall_ms.to_bits(), b.wall_ms.to_bits());
            prop_assert_eq!(a.ttft_ms.map(f64::to_bits), b.ttft_ms.map(f64::to_bits));
        }
    }

    #[test]
    fn figures_are_those_of_the_samples(samples in samples_strategy(), online: bool, order: bool) {
        let mode = if online { contracts::run::Mode::Online } else { contracts::run::Mode::Offline };
        let run = fixtures::run("1", "ch01", mode);
        let shape = Shape::of(&run.status);
        let mut streamed = samples.clone();
        if order {
            streamed.reverse();
        }
        let columns = Columns::of(&streamed, &GapCounts::EMPTY);
        // As text, since 0 tokens in 0 ms are NaN a second; it is exact.
        let [of_columns, of_samples] = [columns.bench_stats(shape), bench_stats(&samples, shape)]
            .map(|stats| format!("{stats:?}"));
        prop_assert_eq!(of_columns, of_samples);
        let walls: Vec<_> = measured(&samples).map(wall_from_due_ms).collect();
        let of_columns: Vec<_> = columns.requests.iter().map(Request::wall_from_due_ms).collect();
        prop_assert_eq!(of_columns, walls);
        let failed = samples.iter().filter(|s| !s.warmup && s.error.is_some()).count();
        prop_assert_eq!(columns.failed, failed as u64);
        let prompt = measured(&samples).find_map(|s| s.input_ids_sha256.clone());
        prop_assert_eq!(columns.input_ids_sha256, prompt);
    }

    #[test]
    fn a_damaged_blob_is_refused_or_read_and_never_ends_the_program(
        samples in samples_strategy(), at: prop::sample::Index, to: u8, cut: prop::sample::Index,
    ) {
        let mut raw = pack(&Columns::of(&samples, &GapCounts::EMPTY)).unwrap();
        let at = at.index(raw.len());
        raw[at] = to;
        let _ = unpack(&raw);
        raw.truncate(cut.index(raw.len()));
        prop_assert!(unpack(&raw).is_err());
    }
}

#[test]
fn hashes_are_equal_for_equal_answers_only() {
    let sample = fixtures::sample(0, 1.0, 4);
    let mut other = fixtures::sample(1, 2.0, 4);
    let hashes = |sample: &Sample| {
        let request = Request::of(sample).unwrap();
        (request.ids_hash.unwrap(), request.text_hash.unwrap())
    };
    assert_eq!(hashes(&sample), hashes(&other));
    other.output_ids = Some(vec![5, 6, 7, 9]);
    other.text = Some("Light scattert".to_owned());
    assert_ne!(hashes(&sample).0, hashes(&other).0);
    assert_ne!(hashes(&sample).1, hashes(&other).1);
}

#[test]
fn gaps_that_were_counted_are_not_counted_again() {
    let mut sample = fixtures::sample(0, 1.0, 4);
    sample.event_times = Some(EventTimes {
        encoding: EVENT_TIMES_ENCODING.to_owned(),
        base64: STANDARD.encode(blob(&[5, 10, 20])),
    });
    let once = Columns::of(std::slice::from_ref(&sample), &GapCounts::EMPTY).gaps;
    assert_eq!((once.count(), once.sum_us()), (2, 30));
    assert_eq!(Columns::of(&[sample.clone()], &once).gaps, once);
    sample.event_times = Some(EventTimes {
        encoding: "other".to_owned(),
        base64: String::new(),
    });
    let columns = Columns::of(&[sample], &GapCounts::EMPTY);
    assert_eq!((columns.unread, columns.gaps.count()), (1, 0));
}
