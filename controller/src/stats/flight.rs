//! What was in flight: how many requests the server had at a time, and the steady part of a run.
//!
//! Warm-up requests hand their slots over to the measured ones and are load like any other, so they
//! count as in flight. Pure functions of the samples' first writes and ends.

use contracts::run::Limits;
use contracts::sample::Sample;
use serde::Serialize;

use super::bench::measured;
use super::window::{Shape, SteadyBy, Window, ended_ns};

/// Requests in flight over a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct InFlight {
    /// Mean over time.
    pub mean: f64,
    /// The most at once.
    pub max: u32,
}

/// The part of a run in which the load was the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steady {
    /// Begins so long after the window does.
    pub after_s: f64,
    /// Its length.
    pub seconds: f64,
    /// In flight when it begins.
    pub in_flight_first: u32,
    /// In flight when it ends.
    pub in_flight_last: u32,
    /// In flight over it.
    pub in_flight: InFlight,
    /// Requests completed in it, per second.
    pub req_per_s: f64,
    /// Output tokens of those.
    pub tok_per_s: f64,
}

/// When each request that was sent was on the wire, warm-up included, by first write.
#[derive(Debug, Clone)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// Of all samples of a run that had these limits.
    pub fn of(samples: &[Sample], limits: &Limits) -> Self {
        let spans = samples
            .iter()
            .filter_map(|s| Some((s.sent_ns?, ended_ns(s, limits)?)));
        // One that failed as it was sent was never in flight.
        let mut spans: Vec<(u64, u64)> = spans.filter(|(from, to)| from < to).collect();
        spans.sort_unstable();
        Self(spans)
    }

    /// In flight over a window.
    pub fn over(&self, window: Window) -> InFlight {
        let inside = |(from, to): &(u64, u64)| {
            let overlap = (*to)
                .min(window.to_ns)
                .saturating_sub((*from).max(window.from_ns));
            overlap as f64 / 1e9
        };
        let seconds: f64 = self.0.iter().map(inside).sum();
        let within = |at: u64| (window.from_ns..window.to_ns).contains(&at);
        let steps = self.steps().into_iter().filter(|(at, _)| within(*at));
        let at_once = steps.map(|(_, n)| n).chain([self.at(window.from_ns)]);
        InFlight {
            mean: seconds / window.seconds(),
            max: at_once.max().unwrap_or(0),
        }
    }

    /// In flight at an instant: begun at it or before, and ending after it.
    fn at(&self, at_ns: u64) -> u32 {
        let in_flight = self
            .0
            .iter()
            .filter(|(from, to)| *from <= at_ns && at_ns < *to);
        saturated(in_flight.count())
    }

    /// Each instant at which a request begins or ends, and how many are in flight from then on. An
    /// end comes before a beginning of the same instant: that is a slot handed on.
    fn steps(&self) -> Vec<(u64, u32)> {
        let begins = self.0.iter().map(|(from, _)| (*from, true));
        let ends = self.0.iter().map(|(_, to)| (*to, false));
        let mut changes: Vec<(u64, bool)> = begins.chain(ends).collect();
        changes.sort_unstable();
        let mut in_flight = 0u32;
        let step = |(at, begins): (u64, bool)| {
            in_flight = if begins {
                in_flight.saturating_add(1)
            } else {
                in_flight.saturating_sub(1)
            };
            (at, in_flight)
        };
        changes.into_iter().map(step).collect()
    }

    /// From the moment when all slots were busy to the first that stayed idle.
    fn all_slots_busy(&self, slots: u32, window: Window) -> Option<Window> {
        let full = self.steps().into_iter().find(|(_, n)| *n >= slots)?.0;
        let (last_sent, _) = *self.0.last()?;
        let ends = self.0.iter().map(|(_, to)| *to);
        let idle = ends.filter(|to| *to > last_sent).min()?;
        let (from_ns, to_ns) = (full.max(window.from_ns), idle.min(window.to_ns));
        (to_ns > from_ns).then_some(Window { from_ns, to_ns })
    }
}

/// The steady part of a run; none where there was none. With slots it is from all of them busy to
/// the first idle one; in an open loop, from the first measured request's first write to the last
/// one's, while requests kept coming.
pub fn steady(samples: &[Sample], spans: &Spans, window: Window, shape: &Shape) -> Option<Steady> {
    let part = match shape.steady_by {
        SteadyBy::Slots(slots) => spans.all_slots_busy(slots, window)?,
        SteadyBy::Arrivals => while_coming(samples, window)?,
        SteadyBy::Nothing => return None,
    };
    let done = measured(samples).filter(|s| s.done_ns.is_some_and(|done| part.holds(done)));
    let (mut requests, mut tokens) = (0u64, 0u64);
    for sample in done {
        requests += 1;
        tokens += u64::from(sample.output_tokens.unwrap_or(0));
    }
    Some(Steady {
        after_s: (part.from_ns - window.from_ns) as f64 / 1e9,
        seconds: part.seconds(),
        in_flight_first: spans.at(part.from_ns),
        in_flight_last: spans.at(part.to_ns - 1),
        in_flight: spans.over(part),
        req_per_s: requests as f64 / part.seconds(),
        tok_per_s: tokens as f64 / part.seconds(),
    })
}

fn while_coming(samples: &[Sample], window: Window) -> Option<Window> {
    let sent = samples
        .iter()
        .filter(|s| !s.warmup)
        .filter_map(|s| s.sent_ns);
    let to_ns = sent.max()?.min(window.to_ns);
    (to_ns > window.from_ns).then_some(Window {
        from_ns: window.from_ns,
        to_ns,
    })
}

fn saturated(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::{Arrival, Load, Mode};
    use contracts::sample::ErrorClass;

    use super::*;
    use crate::fixtures;
    use crate::stats::window::window;

    fn shape(load: Load) -> Shape {
        let mut status = fixtures::run("01", "ch01", Mode::Online).status;
        status.spec.workload.load = load;
        Shape::of(&status)
    }

    fn limits() -> Limits {
        fixtures::run("01", "ch01", Mode::Online).status.spec.limits
    }

    /// Two slots: a warm-up request hands over, one slot is idle from 3 s on.
    fn two_slots() -> Vec<Sample> {
        let mut warmup = fixtures::sent(0, 0, 1500);
        warmup.warmup = true;
        vec![
            warmup,
            fixtures::sent(0, 500, 2000),
            fixtures::sent(1, 1500, 3000),
            fixtures::sent(2, 2000, 4000),
        ]
    }

    #[test]
    fn the_steady_part_is_while_all_slots_are_busy() {
        let shape = shape(Load::Closed { concurrency: 2 });
        let samples = two_slots();
        let whole = window(&samples, &shape).unwrap();
        assert_eq!((whole.from_ns, whole.to_ns), (500_000_000, 4_000_000_000));
        let spans = Spans::of(&samples, &limits());
        let in_flight = spans.over(whole);
        assert_eq!(in_flight.max, 2);
        assert!((in_flight.mean - 6.0 / 3.5).abs() < 1e-9, "{in_flight:?}");

        let steady = steady(&samples, &spans, whole, &shape).unwrap();
        assert_eq!((steady.after_s, steady.seconds), (0.0, 2.5));
        assert_eq!((steady.in_flight_first, steady.in_flight_last), (2, 2));
        assert_eq!(steady.in_flight, InFlight { mean: 2.0, max: 2 });
        assert_eq!((steady.req_per_s, steady.tok_per_s), (0.8, 8.0));
    }

    #[test]
    fn slots_that_were_never_all_busy_have_no_steady_part() {
        let shape = shape(Load::Closed { concurrency: 3 });
        let samples = two_slots();
        let whole = window(&samples, &shape).unwrap();
        assert_eq!(
            steady(&samples, &Spans::of(&samples, &limits()), whole, &shape),
            None
        );
    }

    #[test]
    fn in_an_open_loop_it_lasts_while_requests_come_and_shows_them_pile_up() {
        let shape = shape(Load::Open {
            rate_per_s: 1.0,
            arrival: Arrival::Constant,
            max_in_flight: None,
        });
        let samples: Vec<Sample> = (0u32..4)
            .map(|i| fixtures::sent(i, u64::from(i) * 1000, 3500 + u64::from(i)))
            .collect();
        let whole = window(&samples, &shape).unwrap();
        let steady = steady(&samples, &Spans::of(&samples, &limits()), whole, &shape).unwrap();
        assert_eq!(steady.seconds, 3.0);
        assert_eq!((steady.in_flight_first, steady.in_flight_last), (1, 3));
        assert_eq!(steady.req_per_s, 0.0);
    }

    #[test]
    fn a_failed_request_is_in_flight_until_its_last_sign() {
        let mut failed = fixtures::failed_sample(0, ErrorClass::Truncated);
        failed.sent_ns = Some(0);
        failed.last_content_ns = Some(1_000_000_000);
        let samples = [failed, fixtures::sent(1, 0, 2000)];
        let whole = Window {
            from_ns: 0,
            to_ns: 2_000_000_000,
        };
        assert_eq!(Spans::of(&samples, &limits()).over(whole).mean, 1.5);
    }

    #[test]
    fn a_request_that_was_waited_for_in_vain_was_in_flight_meanwhile() {
        let limits = Limits {
            stall_timeout_ms: 500,
            request_timeout_ms: 1_500,
            ..limits()
        };
        let failed = |class| {
            let mut failed = fixtures::failed_sample(0, class);
            failed.sent_ns = Some(0);
            failed
        };
        let whole = Window {
            from_ns: 0,
            to_ns: 2_000_000_000,
        };
        let mean = |class| Spans::of(&[failed(class)], &limits).over(whole).mean;
        assert_eq!(mean(ErrorClass::FirstByteTimeout), 0.25);
        assert_eq!(mean(ErrorClass::TotalTimeout), 0.75);
        assert_eq!(mean(ErrorClass::Aborted), 1.0);
        assert_eq!(mean(ErrorClass::Refused), 0.0);
        let never_sent = fixtures::failed_sample(0, ErrorClass::Aborted);
        assert_eq!(Spans::of(&[never_sent], &limits).over(whole).max, 0);
    }
}
