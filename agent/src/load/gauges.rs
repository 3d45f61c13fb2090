//! Validity figures that samples tell: seen one by one as they go to the spool, in both modes,
//! and forgotten. What is kept is counters and four histograms, whatever the number of requests.

use contracts::defaults::DRIFT_REQUESTS_MIN;
use contracts::generate::FinishReason;
use contracts::run::{RunSpec, Validity};
use contracts::sample::{ErrorClass, Sample, TokenSource};
use hdrhistogram::Histogram;

/// The longest time that a histogram tells from longer ones.
const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// Digits that a histogram keeps: to a thousandth.
const DIGITS: u8 = 3;
/// Tokens that counts of one answer may differ by and agree: the one that ended it is counted by
/// servers and is not in the text.
const STOP_TOKENS: u32 = 1;
/// So many standard errors of a difference of medians are taken for chance.
const DRIFT_ERRORS: f64 = 3.0;

/// What has been seen of the measured requests of one run.
pub struct Gauges {
    ignore_eos: bool,
    thirds: Thirds,
    lag_ns: Histogram<u32>,
    /// Wall times of the first and of the last third.
    early_ns: Histogram<u32>,
    late_ns: Histogram<u32>,

    ended: u32,
    failed: u32,
    broken: u32,
    reconnected: u32,
    length: u32,
    short: u32,
    long: u32,
    undercounted: u32,
    input: Agreement,
    tokens: Agreement,

    sent: u32,
    first_sent_ns: Option<u64>,
    last_sent_ns: u64,
    last_done_ns: u64,
}

/// What the judge must know beside the figures: how much they rest on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Basis {
    /// Requests that were sent.
    pub sent: u32,
    /// First measured sent to last measured done.
    pub window_ms: f64,
    /// Longest wall time among the first third of the requests.
    pub early_wall_ms: Option<f64>,
    /// What drift may come to by chance alone.
    pub drift_noise_share: f64,
}

/// Which third of the run a request belongs to.
enum Thirds {
    /// By index.
    Requests(u32),
    /// By time since the first.
    Ns(u64),
}

/// Two counts of one thing, compared where both are known.
#[derive(Default)]
struct Agreement {
    known: u32,
    differ: u32,
}

impl Gauges {
    /// For a run of `spec`.
    pub fn new(spec: &RunSpec) -> Self {
        let workload = &spec.workload;
        Self {
            ignore_eos: workload.sampling.ignore_eos,
            thirds: match workload.duration_ms {
                Some(ms) => Thirds::Ns(ms.saturating_mul(1_000_000)),
                None => Thirds::Requests(workload.n_runs),
            },
            lag_ns: histogram(),
            early_ns: histogram(),
            late_ns: histogram(),
            ended: 0,
            failed: 0,
            broken: 0,
            reconnected: 0,
            length: 0,
            short: 0,
            long: 0,
            undercounted: 0,
            input: Agreement::default(),
            tokens: Agreement::default(),
            sent: 0,
            first_sent_ns: None,
            last_sent_ns: 0,
            last_done_ns: 0,
        }
    }

    /// Takes a sample in, if it is a measured one. An aborted request says nothing of the server:
    /// it counts as sent, if it was, and for nothing else.
    pub fn see(&mut self, sample: &Sample) {
        if sample.warmup {
            return;
        }
        if let Some(sent_ns) = sample.sent_ns {
            self.sent(sample, sent_ns);
        }
        self.reconnected += u32::from(sample.reconnected);
        match &sample.error {
            Some(error) if error.class == ErrorClass::Aborted => {}
            Some(error) => {
                self.ended += 1;
                self.failed += 1;
                let broke_off = error.class == ErrorClass::Truncated;
                self.broken += u32::from(broke_off || sample.first_content_ns.is_some());
            }
            None => {
                self.ended += 1;
                self.answered(sample);
            }
        }
        if let Some(done_ns) = sample.done_ns {
            self.last_done_ns = self.last_done_ns.max(done_ns);
        }
    }

    fn sent(&mut self, sample: &Sample, sent_ns: u64) {
        self.sent += 1;
        let first_ns = self.first_sent_ns.unwrap_or(sent_ns).min(sent_ns);
        self.first_sent_ns = Some(first_ns);
        self.last_sent_ns = self.last_sent_ns.max(sent_ns);
        self.lag_ns.saturating_record(lag_ns(sample, sent_ns));
    }

    fn answered(&mut self, sample: &Sample) {
        self.length += u32::from(sample.finish_reason == Some(FinishReason::Length));
        let asked = sample.requested_tokens;
        let short = sample.output_tokens.is_some_and(|made| made < asked);
        self.short += u32::from(short);
        let by_events = sample.token_source == Some(TokenSource::Events);
        let at_ceiling = sample.finish_reason == Some(FinishReason::Length);
        self.undercounted += u32::from(short && at_ceiling && by_events);
        let most = asked.saturating_add(STOP_TOKENS);
        self.long += u32::from(sample.output_tokens.is_some_and(|made| made > most));
        self.input
            .compare(sample.planned_input_tokens, sample.input_tokens, 0);
        self.tokens
            .compare(sample.usage_tokens, sample.local_tokens, STOP_TOKENS);
        let (Some(sent_ns), Some(done_ns)) = (sample.sent_ns, sample.done_ns) else {
            return;
        };
        let wall_ns = done_ns.saturating_sub(sent_ns);
        match self.third_of(sample) {
            0 => self.early_ns.saturating_record(wall_ns),
            2.. => self.late_ns.saturating_record(wall_ns),
            _ => {}
        }
    }

    /// 0, 1 or 2; requests in flight at the end of a window belong to its last third.
    fn third_of(&self, sample: &Sample) -> u64 {
        let (at, whole) = match self.thirds {
            Thirds::Requests(n) => (sample.index.into(), u64::from(n)),
            Thirds::Ns(ns) => {
                let from_ns = self.first_sent_ns.unwrap_or(sample.due_ns);
                (sample.due_ns.saturating_sub(from_ns), ns)
            }
        };
        at.saturating_mul(3) / whole.max(1)
    }

    /// Answers so far whose tokens were counted differently.
    pub fn tokens_differ(&self) -> u32 {
        self.tokens.differ
    }

    /// Answers so far that have more tokens than were asked for at most.
    pub fn too_long(&self) -> u32 {
        self.long
    }

    /// Answers so far that ended at their ceiling and have fewer events than that: the events hold
    /// several tokens, and nothing better counted them.
    pub fn undercounted(&self) -> u32 {
        self.undercounted
    }

    /// Puts the figures where they are stored. Shares of nothing are none.
    pub fn tell(&self, validity: &mut Validity) -> Basis {
        let answered = self.ended - self.failed;
        validity.failed_requests = self.failed;
        validity.error_share = share(self.failed, self.ended);
        validity.truncated_share = share(self.broken, self.ended);
        validity.length_share = share(self.length, answered);
        validity.short_share = share(self.short, answered).filter(|_| self.ignore_eos);
        validity.input_mismatch_share = self.input.share();
        validity.token_mismatch_share = self.tokens.share();
        validity.reconnected = self.reconnected;
        let lag_ms = |quantile| {
            (!self.lag_ns.is_empty()).then(|| self.lag_ns.value_at_quantile(quantile) as f64 / 1e6)
        };
        validity.dispatch_lag_p50_ms = lag_ms(0.5);
        validity.dispatch_lag_p99_ms = lag_ms(0.99);

        let first_ns = self.first_sent_ns.unwrap_or_default();
        let send_s = self.last_sent_ns.saturating_sub(first_ns) as f64 / 1e9;
        let window_s = self.last_done_ns.saturating_sub(first_ns) as f64 / 1e9;
        // The gaps between sends, not the sends: 3 requests in 2 s are 1/s.
        let gaps = self.sent.saturating_sub(1);
        validity.sent_per_s = (send_s > 0.0).then(|| f64::from(gaps) / send_s);
        validity.achieved_per_s =
            (window_s > 0.0 && self.ended > 0).then(|| f64::from(self.ended) / window_s);
        let (drift_share, drift_noise_share) = self.drift();
        validity.drift_share = drift_share;
        Basis {
            sent: self.sent,
            window_ms: window_s * 1e3,
            early_wall_ms: (!self.early_ns.is_empty()).then(|| self.early_ns.max() as f64 / 1e6),
            drift_noise_share,
        }
    }

    /// Drift, and what of it may be chance: three standard errors of the difference between two
    /// medians, by their quartiles (the median's error is 1.2533 σ/√n, and σ = IQR/1.349 for a
    /// normal distribution; McGill, Tukey and Larsen 1978 notch their boxes so).
    fn drift(&self) -> (Option<f64>, f64) {
        let median = |h: &Histogram<u32>| h.value_at_quantile(0.5) as f64;
        let error = |h: &Histogram<u32>| {
            let iqr = h.value_at_quantile(0.75) as f64 - h.value_at_quantile(0.25) as f64;
            1.2533 * iqr / 1.349 / (h.len().max(1) as f64).sqrt()
        };
        let (early, late) = (&self.early_ns, &self.late_ns);
        let enough = self.ended - self.failed >= DRIFT_REQUESTS_MIN;
        if !enough || early.is_empty() || late.is_empty() || median(early) <= 0.0 {
            return (None, 0.0);
        }
        let chance = DRIFT_ERRORS * error(early).hypot(error(late));
        let drift = median(late) / median(early) - 1.0;
        (Some(drift), chance / median(early))
    }
}

/// From the moment a request could go to its first write, less connecting.
fn lag_ns(sample: &Sample, sent_ns: u64) -> u64 {
    let ready_ns = sample.released_ns.unwrap_or(0).max(sample.due_ns);
    let connecting_ns = sample
        .connected_ns
        .map_or(0, |connected| connected.saturating_sub(sample.start_ns));
    sent_ns
        .saturating_sub(ready_ns)
        .saturating_sub(connecting_ns)
}

impl Agreement {
    fn compare(&mut self, one: Option<u32>, other: Option<u32>, tolerance: u32) {
        if let (Some(one), Some(other)) = (one, other) {
            self.known += 1;
            self.differ += u32::from(one.abs_diff(other) > tolerance);
        }
    }

    fn share(&self) -> Option<f64> {
        share(self.differ, self.known)
    }
}

fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}

#[expect(clippy::expect_used, reason = "constants that the crate takes")]
fn histogram() -> Histogram<u32> {
    Histogram::new_with_max(LONGEST_NS, DIGITS).expect("bounds and digits are possible")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
