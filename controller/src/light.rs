//! A run's samples as figures need them: without texts, token ids and event times, so that a run
//! of 100,000 requests is tens of megabytes. Of the event times the gaps are counted on the way.

use contracts::sample::Sample;

use crate::event_times;
use crate::stats::gaps::GapCounts;

/// The blob of a request's event times, with the name of its encoding.
pub type Blob = (String, Vec<u8>);

/// What figures are computed from.
#[derive(Debug, Default)]
pub struct Light {
    /// The requests, in the order in which they came.
    pub samples: Vec<Sample>,
    /// Gaps between the content events of measured, successful answers.
    pub gaps: GapCounts,
}

impl Light {
    /// Takes one request; what its event times say is counted, and all that is large is dropped.
    ///
    /// # Errors
    /// Event times that cannot be read.
    pub fn take(&mut self, sample: Sample, event_times: Option<&Blob>) -> Result<(), String> {
        if !sample.warmup
            && sample.error.is_none()
            && let Some((encoding, blob)) = event_times
        {
            self.gaps.push(&event_times::decode(encoding, blob)?);
        }
        self.samples.push(Sample {
            event_times: None,
            output_sha256: None,
            text: None,
            output_ids: None,
            input_ids_sha256: None,
            ..sample
        });
        Ok(())
    }
}
