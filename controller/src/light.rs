//! A run's samples as figures need them: without texts, token ids and event times, so that a run
//! of 100,000 requests is tens of megabytes. Of the event times the gaps are counted on the way.

use contracts::sample::Sample;

use crate::event_times::Decoder;
use crate::stats::gaps::GapCounts;

/// The blob of a request's event times, with the name of its encoding.
pub type Blob = (String, Vec<u8>);

/// What figures are computed from.
#[derive(Default)]
pub struct Light {
    /// The requests, in the order in which they came.
    pub samples: Vec<Sample>,
    /// Gaps between the content events of measured, successful answers.
    pub gaps: GapCounts,
    /// Requests whose event times this build cannot read: their gaps are not among the counted.
    pub unread: u64,
    decoder: Decoder,
}

impl Light {
    /// Takes one request; what its event times say is counted, and all that is large is dropped.
    pub fn take(&mut self, sample: Sample, event_times: Option<&Blob>) {
        self.count(&sample, event_times);
        self.samples.push(Sample {
            event_times: None,
            output_sha256: None,
            text: None,
            output_ids: None,
            input_ids_sha256: None,
            ..sample
        });
    }

    /// Counts the gaps of one request without keeping it. Warm-up and failed ones have none.
    pub fn count(&mut self, sample: &Sample, event_times: Option<&Blob>) {
        if !sample.warmup
            && sample.error.is_none()
            && let Some((encoding, blob)) = event_times
        {
            match self.decoder.decode(encoding, blob) {
                Ok(instants) => self.gaps.push(instants),
                Err(_) => self.unread += 1,
            }
        }
    }

    /// Says in the log what could not be read: all else of the run is as good as ever.
    pub fn warn(&self, run_id: &str) {
        if self.unread > 0 {
            tracing::warn!(
                "run {run_id}: event times of {} requests cannot be read by this build",
                self.unread
            );
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::sample::EVENT_TIMES_ENCODING;

    use super::*;
    use crate::fixtures::{failed_sample, sample};

    #[test]
    fn what_is_large_is_dropped_and_gaps_of_good_answers_are_counted() {
        let deltas = [50_000u32, 10_000, 12_000];
        let bytes: Vec<u8> = deltas.iter().flat_map(|d| d.to_le_bytes()).collect();
        let blob = (
            EVENT_TIMES_ENCODING.to_owned(),
            zstd::bulk::compress(&bytes, 1).unwrap(),
        );
        let mut light = Light::default();
        let mut warmup = sample(0, 100.0, 3);
        warmup.warmup = true;
        let failed = failed_sample(1, contracts::sample::ErrorClass::Truncated);
        for sample in [warmup, sample(0, 100.0, 3), failed] {
            light.take(sample, Some(&blob));
        }
        assert_eq!((light.gaps.count(), light.samples.len()), (2, 3));
        assert_eq!(light.samples[1].wall_ms, Some(100.0));
        assert_eq!(light.samples[1].text, None);
        assert_eq!(light.samples[1].output_ids, None);

        let odd = ("other".to_owned(), Vec::new());
        light.take(sample(2, 1.0, 1), Some(&odd));
        assert_eq!((light.unread, light.samples.len()), (1, 4));
    }
}
