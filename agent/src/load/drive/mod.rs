//! The online drive: warm-up and measured requests over HTTP, in the order and at the times that
//! the load asks.
//!
//! ```text
//! bodies thread ──shelf──► load thread ──queue──► settle thread ──queue──► the spool
//!                             ▲
//! pacer thread ──due──────────┘  (open loop)
//! ```
//! All requests are made on one thread with a runtime of its own, so that nothing else of the agent
//! can delay them; it parses and counts, and leaves all that takes longer to the other threads.
//! [`slots`] is the closed loop, [`arrivals`] the open one, [`floor`] what both do with a request.
//! How bytes move is the client's matter, what an answer means is `answer`'s.

mod arrivals;
mod books;
mod flight;
mod floor;
mod pacer;
mod plan;
mod pool;
mod settle;
mod shelf;
mod slots;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use contracts::run::{Stage, Validity};
use contracts::sample::Sample;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use self::books::Closed;
use self::floor::Floor;
use self::plan::Plan;
use self::shelf::Shelf;
use super::client::{ClientConfig, Shared};
use super::clock::Clock;
use super::online::OnlineJob;
use super::tally::{DriveEnd, DriveOutcome, Phase, PhaseCount, spool_gone};

/// Threads beside the load thread that look up names, and make bodies which need answers.
const HELPERS_MAX: usize = 4;
/// Phases of a drive.
const PHASES: usize = 2;

/// What only the online drive knows of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DriveGauges {
    /// Open loop: requests a second that the schedule asked for.
    pub offered_per_s: Option<f64>,
    /// Closed loop: slots.
    pub in_flight_asked: Option<u32>,
    /// Requests in flight, mean over the steady part: closed loop, from all slots at work to the
    /// first one idle; else over the window.
    pub in_flight_mean: Option<f64>,
    /// The most at once.
    pub in_flight_max: u32,
    /// Arrivals that were due and waited for a slot, the most at once.
    pub waiting_max: u32,
    /// Closed loop and burst: from the first write of a slot's first request to the last one.
    pub first_wave_ms: Option<f64>,
    /// CPU time of the load thread over the time since measuring began.
    pub client_busy_share: Option<f64>,
    /// Arrivals that were due and not sent when the run was ended, beyond those that are stored as
    /// samples.
    pub unstored: u32,
}

impl DriveGauges {
    /// Puts the figures where they are stored.
    pub fn tell(&self, validity: &mut Validity) {
        validity.offered_per_s = self.offered_per_s;
        validity.in_flight_asked = self.in_flight_asked;
        validity.in_flight_mean = self.in_flight_mean;
        validity.in_flight_max = Some(self.in_flight_max);
        validity.waiting_max = Some(self.waiting_max);
        validity.first_wave_ms = self.first_wave_ms;
        validity.client_busy_share = self.client_busy_share;
    }
}

/// Makes all requests of `job` and sends each sample to `out` as its request ends, failed ones too.
///
/// `on_phase` is called when a phase has begun. When `cancel` fires (the caller's order, or its
/// child has died), or the run has failed, requests in flight become samples of class `aborted`, as
/// do those that were due in an open loop and not yet sent; then the drive returns. The receiver of
/// `out` must go on receiving until then: a full queue holds back new requests, never those under
/// way. Dropping the future ends the drive likewise, unseen.
pub async fn drive_online(
    job: &OnlineJob,
    clock: Clock,
    out: &mpsc::Sender<Sample>,
    mut on_phase: impl FnMut(Phase),
    cancel: &CancellationToken,
) -> DriveEnd {
    let stop = cancel.child_token();
    let _ends_with_us = stop.clone().drop_guard();
    let (phases, mut begun) = mpsc::channel(PHASES);
    let started = start(job.clone(), clock, out.clone(), phases, stop);
    let (ended, all_taken) = match started {
        Ok(started) => started,
        Err(message) => return unbegun(Phase::Warmup.stage(), message),
    };
    let mut stage = Phase::Warmup.stage();
    while let Some(phase) = begun.recv().await {
        stage = phase.stage();
        on_phase(phase);
    }
    let mut end = ended.await.unwrap_or_else(|_| {
        let message = "internal error of the load generator; see the agent's log".to_owned();
        unbegun(stage, message)
    });
    if !all_taken.await.unwrap_or(false) {
        end.outcome = spool_gone(stage);
    }
    if end.outcome == DriveOutcome::Done && cancel.is_cancelled() {
        end.outcome = DriveOutcome::Cancelled;
    }
    end
}

type Ends = (oneshot::Receiver<DriveEnd>, oneshot::Receiver<bool>);

/// Starts all threads. What cannot be started or sent at all is told in one line.
fn start(
    job: OnlineJob,
    clock: Clock,
    out: mpsc::Sender<Sample>,
    phases: mpsc::Sender<Phase>,
    stop: CancellationToken,
) -> Result<Ends, String> {
    let shared = Shared::new(config(&job), clock).map_err(|error| error.to_string())?;
    let plan = Plan::of(&job).map_err(|error| error.to_string())?;
    let no_thread = |error: io::Error| format!("the load generator's threads: {error}");
    let slots = job.slots().unwrap_or(0) as usize;
    let counts = (job.warmup, job.n_runs);
    let asked = Arc::clone(&shared);
    let bodies = Shelf::start(job.bodies.clone(), slots, counts, move || {
        asked.usage_refused()
    });
    let bodies = bodies.map_err(no_thread)?;
    let (settle, all_taken) = settle::start(out, job.counter.clone()).map_err(no_thread)?;
    let (tell, ended) = oneshot::channel();
    let work = move || {
        // No signals, no processes: their drivers would be asked at each turn.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(HELPERS_MAX)
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = tell.send(unbegun(Stage::Warmup, no_thread(error)));
                return;
            }
        };
        let floor = Floor::new(Arc::new(job), clock, bodies, settle, phases, stop);
        let end = LocalSet::new().block_on(&runtime, drive(floor, shared, plan));
        // Nobody listens if the drive was dropped.
        let _ = tell.send(end);
        // A name that is still being looked up must not hold this thread.
        runtime.shutdown_background();
    };
    thread::Builder::new()
        .name("load".to_owned())
        .spawn(work)
        .map_err(no_thread)?;
    Ok((ended, all_taken))
}

async fn drive(floor: Floor, shared: Arc<Shared>, plan: Plan) -> DriveEnd {
    let floor = Rc::new(floor);
    let mut gauges = DriveGauges::default();
    match plan {
        Plan::Closed { concurrency } => {
            gauges.in_flight_asked = Some(concurrency);
            slots::all(&floor, &shared, concurrency).await;
        }
        Plan::Open {
            schedule,
            offered_per_s,
        } => {
            gauges.offered_per_s = offered_per_s;
            arrivals::all(&floor, &shared, schedule).await;
        }
    }
    let Some(floor) = Rc::into_inner(floor) else {
        return unbegun(Stage::Measure, "a slot did not end".to_owned());
    };
    let cancelled = floor.stop.is_cancelled();
    let Closed {
        tally,
        flight,
        outcome,
        unstored,
        busy_share,
    } = floor.close();
    let outcome = outcome.unwrap_or(match cancelled {
        true => DriveOutcome::Cancelled,
        false => DriveOutcome::Done,
    });
    let mut end = tally.end(outcome);
    end.gauges = Some(DriveGauges {
        in_flight_mean: flight.mean(),
        in_flight_max: flight.max(),
        waiting_max: flight.waiting_max(),
        first_wave_ms: flight.first_wave_ms(),
        client_busy_share: busy_share,
        unstored,
        ..gauges
    });
    end
}

/// The end of a drive that did not come to its requests.
fn unbegun(stage: Stage, message: String) -> DriveEnd {
    DriveEnd {
        outcome: DriveOutcome::Failed { stage, message },
        warmup: PhaseCount::default(),
        measured: PhaseCount::default(),
        gauges: None,
    }
}

fn config(job: &OnlineJob) -> ClientConfig {
    ClientConfig {
        target: job.target.clone(),
        route: job.bodies.route,
        stream: job.bodies.stream,
        headers: job.headers.clone(),
        timeouts: job.timeouts,
        keepalive: job.keepalive,
        counted: job.counter.is_some(),
    }
}
