//! How long a run sends, as far as that is known before it begins. What the server makes of it is
//! not looked at.

use std::time::Duration;

use super::{Load, PromptSource, TraceRequest, Workload};

impl Workload {
    /// From the first warm-up request to the last measured one by the schedule, or for as long as
    /// measured requests are sent. `None`: a closed loop goes as fast as its server; a schedule that
    /// ends after more than [`Duration::MAX`] is that long.
    pub fn sending(&self) -> Option<Duration> {
        let asked = self.duration_ms.map(|ms| ms as f64);
        let ms = match &self.load {
            Load::Closed { .. } | Load::Burst { .. } => asked?,
            Load::Open {
                rate_per_s,
                max_in_flight,
                ..
            } => {
                let ms_of = |requests: u32| f64::from(requests) / rate_per_s * 1e3;
                let warmup = self.warmup.max(max_in_flight.unwrap_or(0));
                ms_of(warmup) + asked.unwrap_or_else(|| ms_of(self.n_runs))
            }
            Load::Trace { max_in_flight } => {
                let PromptSource::Trace { requests } = &self.prompts else {
                    return None;
                };
                let warmup = self.warmup.max(max_in_flight.unwrap_or(0));
                let measured_ms = due_ms(requests, self.n_runs.saturating_sub(1));
                due_ms(requests, warmup) + asked.map_or(measured_ms, |ms| ms.min(measured_ms))
            }
        };
        Some(Duration::try_from_secs_f64(ms / 1e3).unwrap_or(Duration::MAX))
    }
}

/// When request `index` of a trace is due, in ms: from its beginning again where it is used up,
/// after a gap as long as its mean one.
fn due_ms(requests: &[TraceRequest], index: u32) -> f64 {
    let Some((first, last)) = requests.first().zip(requests.last()) else {
        return 0.0;
    };
    let length_ms = last.due_ms.saturating_sub(first.due_ms) as f64;
    let cycle_ms = length_ms + length_ms / requests.len().saturating_sub(1).max(1) as f64;
    let index = index as usize;
    let within = requests.get(index % requests.len()).unwrap_or(first);
    let within_ms = within.due_ms.saturating_sub(first.due_ms) as f64;
    (index / requests.len()) as f64 * cycle_ms + within_ms
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::run::Arrival;

    fn workload(load: serde_json::Value, prompts: serde_json::Value) -> Workload {
        let workload = serde_json::json!({
            "model": "m", "prompts": prompts, "endpoint": "auto",
            "sampling": crate::generate::SamplingParams::default(), "load": load, "n_runs": 20,
            "warmup": 5, "cache": "cold", "allow_failures": {"kind": "count", "n": 0},
        });
        serde_json::from_value(workload).unwrap()
    }

    #[test]
    fn an_open_loop_sends_by_its_rate_and_a_closed_one_by_its_duration() {
        let texts = serde_json::json!({"kind": "texts", "texts": ["a"]});
        let closed = serde_json::json!({"kind": "closed", "concurrency": 2});
        let mut asked = workload(closed, texts);
        assert_eq!(asked.sending(), None);
        asked.duration_ms = Some(1_500);
        assert_eq!(asked.sending(), Some(Duration::from_millis(1_500)));
        let open = |rate_per_s| Load::Open {
            rate_per_s,
            arrival: Arrival::Poisson,
            max_in_flight: Some(10),
        };
        asked.load = open(4.0);
        assert_eq!(asked.sending(), Some(Duration::from_secs(4)));
        asked.duration_ms = None;
        assert_eq!(asked.sending(), Some(Duration::from_millis(7_500)));
        asked.load = open(1e-300);
        assert_eq!(asked.sending(), Some(Duration::MAX));
    }

    #[test]
    fn a_trace_that_is_used_up_begins_again() {
        let requests = [0_u64, 1_000, 4_000].map(
            |due_ms| serde_json::json!({"due_ms": due_ms, "input_tokens": 1, "output_tokens": 1}),
        );
        let trace = serde_json::json!({"kind": "trace", "requests": requests});
        let mut asked = workload(serde_json::json!({"kind": "trace"}), trace);
        // A round takes 6 s: the warm-up ends 4 s into its second, request 19 is 1 s into its seventh.
        assert_eq!(asked.sending(), Some(Duration::from_secs(10 + 37)));
        asked.duration_ms = Some(8_000);
        assert_eq!(asked.sending(), Some(Duration::from_secs(10 + 8)));
    }
}
