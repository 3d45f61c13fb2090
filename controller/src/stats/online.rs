//! Everything that one online run came to, from its raw records, in numbers. The definitions are
//! `v1`, written down in `docs/metrics.md`; the words are `show::figures`'.

use contracts::run::{Load, Mode, Slo};
use contracts::sample::{Sample, TimingSource};
use serde::Serialize;

use super::bench::measured;
use super::counts::{Counts, Lengths};
use super::flight::{InFlight, Spans, Steady, steady};
use super::goodput::{Goodput, goodput, wall_from_due_ms};
use super::summary::Summary;
use super::window::{Shape, Window, window};
use crate::record::RunWithSamples;

/// All figures of one online run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Online {
    /// Whether one request was sent at a time.
    pub one_at_a_time: bool,
    /// Whether requests came at times of their own.
    pub open_loop: bool,
    /// Requests, failures and sources, counted.
    pub counts: Counts,
    /// What was completed in the measuring window; none where nothing was.
    pub window: Option<Throughput>,
    /// The part of it in which the load was the one asked for.
    pub steady: Option<Steady>,
    /// Open loop: requests a second of the schedule, or the rate where it was not told.
    pub offered_per_s: Option<f64>,
    /// Open loop: measured requests a second that were sent, while they were being sent.
    pub sent_per_s: Option<f64>,
    /// Each metric over the requests that have it.
    pub latency: Latency,
    /// Tokens of the prompts, as the server counted; of the successful requests.
    pub input_tokens: Option<Lengths>,
    /// Tokens that the prompts were made to have.
    pub planned_input_tokens: Option<Lengths>,
    /// Tokens of the answers.
    pub output_tokens: Option<Lengths>,
    /// Ceilings of the answers.
    pub requested_tokens: Option<Lengths>,
    /// What a good request is, where the user said so.
    pub slo: Option<Slo>,
    /// Requests that met it.
    pub goodput: Option<Goodput>,
}

/// Work completed in the measuring window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Throughput {
    /// Length of the window.
    pub seconds: f64,
    /// Requests that were completed in it.
    pub requests: u64,
    /// Those, per second.
    pub req_per_s: f64,
    /// Their output tokens, per second.
    pub output_tok_per_s: f64,
    /// Their input and output tokens, per second; none where nobody counted the input.
    pub total_tok_per_s: Option<f64>,
    /// Requests in flight over it, warm-up included.
    pub in_flight: InFlight,
}

/// Metrics of the measured, successful requests in ms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// From sent to the first content.
    pub ttft_ms: Option<Summary>,
    /// From due to the first content.
    pub ttft_from_due_ms: Option<Summary>,
    /// Per output token after those of the first content event.
    pub tpot_ms: Option<Summary>,
    /// Gaps between content events, of all requests together.
    pub itl_ms: Option<Summary>,
    /// From sent to the end of the answer.
    pub wall_ms: Option<Summary>,
    /// From due to the end of the answer.
    pub wall_from_due_ms: Option<Summary>,
    /// From due to sent, less connecting: waiting in the client.
    pub waiting_ms: Option<Summary>,
    /// Opening a connection, of the requests that had to.
    pub connecting_ms: Option<Summary>,
    /// The engine's own wall time, where it tells it.
    pub engine_wall_ms: Option<Summary>,
    /// Wall time less the engine's own: waiting in the server, and the way there and back.
    pub outside_engine_ms: Option<Summary>,
}

impl Online {
    /// Of a run over HTTP; none of an offline one.
    pub fn of(run: &RunWithSamples) -> Option<Self> {
        let status = &run.run.status;
        let spec = &status.spec;
        if spec.arm.mode == Mode::Offline {
            return None;
        }
        let samples = run.samples.as_slice();
        let shape = Shape::of(status);
        let window = window(samples, &shape);
        let spans = Spans::of(samples, &spec.limits);
        let lengths =
            |of: &dyn Fn(&Sample) -> Option<u32>| Lengths::of(measured(samples).filter_map(of));
        Some(Self {
            one_at_a_time: shape.one_at_a_time,
            open_loop: shape.open_loop,
            counts: Counts::of(samples),
            window: window.map(|window| throughput(samples, window, &spans)),
            steady: window.and_then(|window| steady(samples, &spans, window, &shape)),
            offered_per_s: status.validity.offered_per_s.or(match spec.workload.load {
                Load::Open { rate_per_s, .. } => Some(rate_per_s),
                _ => None,
            }),
            sent_per_s: sending_rate(samples).filter(|_| shape.open_loop),
            latency: latency(run),
            input_tokens: lengths(&|s| s.input_tokens),
            planned_input_tokens: lengths(&|s| s.planned_input_tokens),
            output_tokens: lengths(&|s| s.output_tokens),
            requested_tokens: lengths(&|s| Some(s.requested_tokens)),
            slo: spec.slo.clone(),
            goodput: spec.slo.as_ref().map(|slo| goodput(samples, slo, &shape)),
        })
    }
}

fn throughput(samples: &[Sample], window: Window, spans: &Spans) -> Throughput {
    let (mut requests, mut output) = (0u64, 0u64);
    let mut input = Some(0u64);
    for sample in measured(samples) {
        if sample.done_ns.is_some_and(|done| window.holds(done)) {
            requests += 1;
            output += u64::from(sample.output_tokens.unwrap_or(0));
            input = input
                .zip(sample.input_tokens)
                .map(|(sum, n)| sum + u64::from(n));
        }
    }
    let per_s = |n: u64| n as f64 / window.seconds();
    Throughput {
        seconds: window.seconds(),
        requests,
        req_per_s: per_s(requests),
        output_tok_per_s: per_s(output),
        total_tok_per_s: input.map(|input| per_s(input + output)),
        in_flight: spans.over(window),
    }
}

/// Measured requests after the first over the time from its first write to the last one's.
pub fn sending_rate(samples: &[Sample]) -> Option<f64> {
    let sent = samples
        .iter()
        .filter(|s| !s.warmup)
        .filter_map(|s| s.sent_ns);
    let (first, last) = (sent.clone().min()?, sent.clone().max()?);
    let seconds = (last - first) as f64 / 1e9;
    (seconds > 0.0).then(|| (sent.count() - 1) as f64 / seconds)
}

fn latency(run: &RunWithSamples) -> Latency {
    let of = |column: &dyn Fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = measured(&run.samples).filter_map(column).collect();
        Summary::of(&values)
    };
    Latency {
        ttft_ms: of(&|s| s.ttft_ms),
        ttft_from_due_ms: of(&ttft_from_due_ms),
        tpot_ms: of(&|s| s.tpot_ms),
        itl_ms: Summary::of_gaps(&run.gaps),
        wall_ms: of(&|s| s.wall_ms),
        wall_from_due_ms: of(&wall_from_due_ms),
        waiting_ms: of(&waiting_ms),
        connecting_ms: of(&connecting_ms),
        engine_wall_ms: of(&|s| s.engine_wall_ms),
        outside_engine_ms: of(&outside_engine_ms),
    }
}

/// What of the wall time the engine did not work on the request: its queue, the server, the way.
fn outside_engine_ms(sample: &Sample) -> Option<f64> {
    let work_ms = sample.engine_wall_ms? - sample.engine_queue_ms.unwrap_or(0.0);
    Some((sample.wall_ms? - work_ms).max(0.0))
}

/// Of a request whose TTFT is on the client's clock.
pub fn ttft_from_due_ms(sample: &Sample) -> Option<f64> {
    let by_client = sample.ttft_ms.is_some() && sample.timing_source == Some(TimingSource::Client);
    by_client.then_some(ms(sample.due_ns, sample.first_content_ns?))
}

/// Opening its connection, if it had to.
pub fn connecting_ms(sample: &Sample) -> Option<f64> {
    Some(ms(sample.start_ns, sample.connected_ns?))
}

/// From due to its first write, less connecting: its queue in the client.
pub fn waiting_ms(sample: &Sample) -> Option<f64> {
    let open_ns = sample.connected_ns.unwrap_or(sample.start_ns);
    Some(ms(sample.due_ns, sample.start_ns) + ms(open_ns, sample.sent_ns?))
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::Arrival;
    use contracts::sample::ErrorClass;

    use super::*;
    use crate::fixtures;

    /// Due each 100 ms, a server that takes one at a time for 200 ms: the n-th waits n × 100 ms,
    /// in the client under a cap, else in the server.
    fn overloaded(cap: Option<u32>) -> RunWithSamples {
        let mut run = fixtures::run("01AAA", "ch02", Mode::Online);
        run.status.spec.workload.load = Load::Open {
            rate_per_s: 10.0,
            arrival: Arrival::Constant,
            max_in_flight: cap,
        };
        run.status.spec.slo = Some(Slo {
            wall_ms: Some(500.0),
            ..Slo::default()
        });
        let samples = (0u32..10).map(|i| {
            let (due, free) = (u64::from(i) * 100, u64::from(i) * 200);
            let sent = if cap.is_some() { free } else { due };
            let mut sample = fixtures::sent(i, sent, free + 200);
            sample.due_ns = due * 1_000_000;
            sample.start_ns = sent * 1_000_000;
            sample.engine_wall_ms = Some(200.0);
            sample.ttft_ms = Some(50.0);
            sample.first_content_ns = Some((sent + 50) * 1_000_000);
            sample.timing_source = Some(TimingSource::Client);
            sample
        });
        fixtures::finish(run, samples.collect())
    }

    #[test]
    fn a_cap_moves_the_queue_into_the_client_and_the_wall_from_due_shows_it() {
        let capped = Online::of(&overloaded(Some(1))).unwrap();
        let p50 = |summary: Option<Summary>| summary.unwrap().p50.value().unwrap();
        assert_eq!(p50(capped.latency.wall_ms), 200.0, "flat");
        assert_eq!(p50(capped.latency.wall_from_due_ms), 650.0, "it grows");
        assert_eq!(capped.latency.waiting_ms.unwrap().mean, 450.0);
        assert_eq!(capped.latency.outside_engine_ms.unwrap().mean, 0.0);
        assert_eq!(capped.latency.ttft_from_due_ms.unwrap().mean, 500.0);
        assert_eq!(capped.latency.ttft_ms.unwrap().mean, 50.0);
        assert_eq!(capped.window.unwrap().in_flight.max, 1);

        let open = Online::of(&overloaded(None)).unwrap();
        assert_eq!(p50(open.latency.wall_ms), 650.0);
        assert_eq!(p50(open.latency.wall_from_due_ms), 650.0);
        assert_eq!(open.latency.waiting_ms.unwrap().mean, 0.0);
        assert_eq!(open.latency.outside_engine_ms.unwrap().mean, 450.0);
        assert_eq!(open.window.unwrap().in_flight.max, 6);
    }

    #[test]
    fn rates_and_goodput_of_an_open_loop() {
        let mut run = overloaded(None);
        run.samples
            .push(fixtures::failed_sample(10, ErrorClass::Refused));
        let figures = Online::of(&run).unwrap();
        assert_eq!(figures.offered_per_s, Some(10.0));
        assert_eq!(figures.sent_per_s, Some(10.0));
        let window = figures.window.unwrap();
        assert_eq!(
            (window.seconds, window.requests, window.req_per_s),
            (2.0, 10, 5.0)
        );
        assert_eq!(window.output_tok_per_s, 50.0);
        assert_eq!(window.total_tok_per_s, Some(95.0));
        let goodput = figures.goodput.unwrap();
        assert_eq!(
            (goodput.met, goodput.sent),
            (4, 11),
            "the refused one was sent"
        );
        assert_eq!(goodput.per_s, 2.0);
    }

    #[test]
    fn lengths_and_gaps() {
        let mut run = overloaded(None);
        for sample in &mut run.samples {
            sample.planned_input_tokens = Some(9);
        }
        run.samples[0].output_tokens = Some(4);
        run.gaps.push(&[50_000, 60_000, 72_000]);
        let figures = Online::of(&run).unwrap();
        let output = figures.output_tokens.unwrap();
        assert_eq!((output.min, output.mean, output.max), (4, 9.4, 10));
        assert_eq!(figures.planned_input_tokens, figures.input_tokens);
        assert_eq!(figures.requested_tokens.unwrap().mean, 40.0);
        let itl = figures.latency.itl_ms.unwrap();
        assert_eq!((itl.n, itl.mean), (2, 11.0));
        assert_eq!(itl.p50.value(), None, "two gaps are too few");
    }

    #[test]
    fn an_offline_run_has_no_such_figures() {
        let run = fixtures::run("01AAA", "ch01", Mode::Offline);
        assert_eq!(Online::of(&fixtures::with_walls(run, &[10.0])), None);
        let run = fixtures::run("01AAA", "ch01", Mode::Online);
        let empty = Online::of(&fixtures::finish(run, Vec::new())).unwrap();
        assert_eq!((empty.window, empty.steady), (None, None));
    }
}
