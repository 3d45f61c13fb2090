//! What all slots of one drive share, and how one of them makes a request: the body from the shelf,
//! the request by its client, the count, and the answer to the settle thread. All of it is on the
//! load thread, so that nothing here is locked.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use contracts::run::{Load, Stage};
use contracts::sample::{ErrorClass, Sample, SampleError};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::books::{Books, Closed};
use super::settle::Over;
use super::shelf::{Group, Taker};
use crate::load::client::{Client, Ended};
use crate::load::clock::Clock;
use crate::load::online::OnlineJob;
use crate::load::tally::{DriveOutcome, Phase, Tally, spool_gone};
use crate::load::workload::{Body, BodyError};

/// After a refused connection a slot of a closed loop rests so long: a server that is gone would
/// else be asked, and a failed request stored, ten thousand times a second.
const GONE_PAUSE: Duration = Duration::from_millis(100);

/// Shared by the slots.
pub(super) struct Floor {
    pub job: Arc<OnlineJob>,
    pub clock: Clock,
    bodies: Taker,
    settle: mpsc::Sender<Over>,
    phases: mpsc::Sender<Phase>,
    /// Fires when the run is ended from outside, or has failed: requests in flight are aborted.
    pub stop: CancellationToken,
    /// When sending ends; `u64::MAX` if it does not by itself.
    window_end_ns: Cell<u64>,
    /// Never borrowed across a wait.
    books: RefCell<Books>,
}

/// One request, or the first one of a conversation, and why it goes now.
pub(super) struct Turn {
    pub group: Group,
    /// When it was due.
    pub due_ns: u64,
    /// When a slot was free for it, if it had to wait.
    pub released_ns: Option<u64>,
    /// Whether it is the first of its slot, for a load that has slots.
    pub first_of_slot: bool,
}

impl Floor {
    pub fn new(
        job: Arc<OnlineJob>,
        clock: Clock,
        bodies: Taker,
        settle: mpsc::Sender<Over>,
        phases: mpsc::Sender<Phase>,
        stop: CancellationToken,
    ) -> Self {
        let tally = Tally::new(job.warmup, job.n_runs, job.allow_failures);
        let tally = match job.duration {
            Some(_) => tally.open_ended(),
            None => tally,
        };
        Self {
            job,
            clock,
            bodies,
            settle,
            phases,
            stop,
            window_end_ns: Cell::new(u64::MAX),
            books: RefCell::new(Books::new(tally)),
        }
    }

    /// Returns when the first bodies lie ready, or the run is ended.
    pub async fn ready(&self) {
        tokio::select! {
            () = self.bodies.filled() => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// The next group, in order; none once all were taken or nothing more is to be sent.
    pub async fn take(&self) -> Option<Group> {
        let taken = match self.bodies.try_take() {
            Some(taken) => taken,
            None => tokio::select! {
                taken = self.bodies.take() => taken,
                () = self.stop.cancelled() => None,
            },
        };
        taken.filter(|_| self.sending())
    }

    /// Whether requests may still go out.
    pub fn sending(&self) -> bool {
        let end_ns = self.window_end_ns.get();
        !self.stop.is_cancelled() && (end_ns == u64::MAX || self.clock.now_ns() < end_ns)
    }

    /// Returns when nothing more is to be sent, before all was.
    pub async fn over(&self) {
        let end_ns = self.window_end_ns.get();
        let window = async {
            if end_ns == u64::MAX {
                return pending().await;
            }
            let left_ns = end_ns.saturating_sub(self.clock.now_ns());
            sleep(Duration::from_nanos(left_ns)).await;
        };
        tokio::select! {
            () = window => {}
            () = self.stop.cancelled() => {}
        }
    }

    /// The window of a drive with a duration begins; the first call counts.
    pub fn open_window(&self, at_ns: u64) {
        if let Some(duration) = self.job.duration
            && self.window_end_ns.get() == u64::MAX
        {
            let length_ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            self.window_end_ns.set(at_ns.saturating_add(length_ns));
        }
    }

    /// Makes the requests of a group one after the other. Gives back when the last of them ended.
    pub async fn serve(&self, client: &mut Client, turn: Turn) -> u64 {
        let Turn {
            group,
            mut due_ns,
            mut released_ns,
            mut first_of_slot,
        } = turn;
        let Group {
            phase,
            mut index,
            first,
            rest,
        } = group;
        let mut rest = rest.into_iter();
        let mut said = Vec::new();
        let mut body = first;
        loop {
            let made = match body {
                Ok(made) => made,
                Err(error) => {
                    self.fail(phase.stage(), error.to_string());
                    return self.clock.now_ns();
                }
            };
            let mut sample = Sample {
                index,
                warmup: phase == Phase::Warmup,
                due_ns,
                released_ns: released_ns.take(),
                requested_tokens: made.requested_tokens,
                planned_input_tokens: made.planned_input_tokens,
                ..Sample::default()
            };
            let ended = self
                .request(client, &made, &mut sample, phase, &mut first_of_slot)
                .await;
            due_ns = self.clock.now_ns();
            // Nothing is kept of an answer that no later turn needs.
            let next = rest.next();
            if next.is_some() {
                said.push(ended.answer.text().to_owned());
            }
            let gone = self.hand_on(sample, ended, due_ns, phase).await;
            if gone && matches!(self.job.load, Load::Closed { .. }) {
                tokio::select! {
                    () = sleep(GONE_PAUSE) => {}
                    () = self.stop.cancelled() => {}
                }
                due_ns = self.clock.now_ns();
            }
            match next {
                Some(next) if self.sending() => {
                    index += 1;
                    body = match next {
                        Some(made) => Ok(made),
                        None => self.make(phase, index, &said).await,
                    };
                }
                _ => return due_ns,
            }
        }
    }

    async fn request(
        &self,
        client: &mut Client,
        body: &Body,
        sample: &mut Sample,
        phase: Phase,
        first_of_slot: &mut bool,
    ) -> Ended {
        let start_ns = self.clock.now_ns();
        sample.start_ns = start_ns;
        self.begin(phase, start_ns, *first_of_slot);
        let ended = client.request(&body.bytes, sample, &self.stop).await;
        if std::mem::take(first_of_slot)
            && let Some(sent_ns) = sample.sent_ns
        {
            self.books.borrow_mut().flight.first_of_slot(sent_ns);
        }
        ended
    }

    /// A request goes to its client.
    fn begin(&self, phase: Phase, start_ns: u64, first_of_slot: bool) {
        let mut books = self.books.borrow_mut();
        if books.begin(phase, start_ns, first_of_slot) {
            // It has room for both phases.
            let _ = self.phases.try_send(phase);
            if phase == Phase::Measure {
                self.open_window(start_ns);
            }
        }
    }

    /// Counts a request that ended, and sends it on. Whether there is no server any more.
    async fn hand_on(&self, sample: Sample, ended: Ended, end_ns: u64, phase: Phase) -> bool {
        let error = ended.answer.failure(&ended.end);
        let gone = error.as_ref().is_some_and(|error| {
            matches!(
                error.class,
                ErrorClass::Refused | ErrorClass::Dns | ErrorClass::Connect
            )
        });
        let failed = {
            let mut books = self.books.borrow_mut();
            books.flight.end(end_ns);
            books.tally.add(phase, sample.index, error.as_ref())
        };
        if let Some(outcome) = failed {
            self.end(outcome);
        }
        let ended = Some(ended);
        self.send_on(Over { sample, ended }, phase.stage()).await;
        gone
    }

    /// A request of `phase` that was never handed to a client, and why: a sample all the same.
    pub async fn unsent(&self, phase: Phase, index: u32, due_ns: u64, error: SampleError) {
        let failed = {
            let mut books = self.books.borrow_mut();
            books.tally.add(phase, index, Some(&error))
        };
        if let Some(outcome) = failed {
            self.end(outcome);
        }
        let sample = Sample {
            index,
            warmup: phase == Phase::Warmup,
            due_ns,
            start_ns: self.clock.now_ns(),
            requested_tokens: self.job.bodies.sampling.max_tokens,
            error: Some(error),
            ..Sample::default()
        };
        let ended = None;
        self.send_on(Over { sample, ended }, phase.stage()).await;
    }

    /// So many more were due and not sent, of which no samples are stored.
    pub fn unstored(&self, arrivals: usize) {
        let arrivals = u32::try_from(arrivals).unwrap_or(u32::MAX);
        let mut books = self.books.borrow_mut();
        books.unstored = books.unstored.saturating_add(arrivals);
    }

    /// The connections of the first requests could not be opened: the first of them has failed so,
    /// and with it the run.
    pub async fn unopened(&self, error: SampleError) {
        if error.class == ErrorClass::Aborted {
            return;
        }
        let phase = self.first_phase();
        let stage = phase.stage();
        let message = error.message.clone();
        self.unsent(phase, 0, self.clock.now_ns(), error).await;
        self.fail(stage, message);
    }

    fn first_phase(&self) -> Phase {
        match self.job.warmup {
            0 => Phase::Measure,
            _ => Phase::Warmup,
        }
    }

    async fn send_on(&self, over: Over, stage: Stage) {
        if self.settle.send(over).await.is_err() {
            self.end(spool_gone(stage));
        }
    }

    /// Makes a body that needs the answers before it, away from this thread.
    async fn make(&self, phase: Phase, index: u32, said: &[String]) -> Result<Body, BodyError> {
        let job = Arc::clone(&self.job);
        let said = said.to_vec();
        let warmup = phase == Phase::Warmup;
        let made = tokio::task::spawn_blocking(move || job.bodies.body(warmup, index, &said));
        match made.await {
            Ok(made) => made,
            Err(error) => Err(BodyError::Lost(error.to_string())),
        }
    }

    /// The run has failed: nothing more is sent, what is in flight is aborted. The first reason
    /// counts.
    pub fn fail(&self, stage: Stage, message: String) {
        self.end(DriveOutcome::Failed { stage, message });
    }

    fn end(&self, outcome: DriveOutcome) {
        self.books.borrow_mut().outcome.get_or_insert(outcome);
        self.stop.cancel();
    }

    /// A slot has nothing more to do, and the steady part is over.
    pub fn slot_idle(&self) {
        let now_ns = self.clock.now_ns();
        self.books.borrow_mut().flight.steady_until(now_ns);
    }

    /// So many are due and wait.
    pub fn waiting(&self, arrivals: usize) {
        let arrivals = u32::try_from(arrivals).unwrap_or(u32::MAX);
        self.books.borrow_mut().flight.waiting(arrivals);
    }

    /// The stage of a failure that belongs to no request.
    pub fn stage(&self) -> Stage {
        let begun = self.books.borrow().begun();
        begun.unwrap_or_else(|| self.first_phase()).stage()
    }

    /// The counts, once all slots are done.
    pub fn close(self) -> Closed {
        self.books.into_inner().close(self.clock.now_ns())
    }
}
