//! The one thread that owns an engine, and the handle by which others ask it.
//!
//! A request goes in through a bounded channel and brings the sender that its tokens go to, so a
//! token makes one hop: engine thread to the task that writes it. Who drops the receiving end
//! cancels the request. An order to stop reaches the receiving ends directly, since the engine may be
//! in the middle of a long step. What a request means (HTTP, JSON) is left to the server.

mod ends;

use std::{
    any::Any,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    thread,
};

use contracts::{
    generate::{GenerateResult, SamplingParams, TokenLogprobs},
    run::ModelFacts,
};
use tokio::sync::{mpsc, watch};

pub use self::ends::Answer;
use self::ends::{Counts, Reply, Stop};
use crate::{
    chapters::{Engine, RequestId, StepEvent},
    error::EngineError,
    text::{Input, Text},
};

/// Requests that an engine holds at most, the one in work included; more are refused at once.
/// A bench beyond this measures the queue, and each waiting request holds its prompt in memory.
pub const QUEUE_MAX: usize = 256;

/// What is asked of an engine.
#[derive(Debug)]
pub struct Ask {
    /// What to continue.
    pub input: Input,
    /// How; `max_tokens` counts only if `ceiling` is [`Ceiling::Given`].
    pub params: SamplingParams,
    /// Where the ceiling comes from.
    pub ceiling: Ceiling,
}

/// Where a request's ceiling comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ceiling {
    /// `params.max_tokens`.
    Given,
    /// All that the prompt leaves of the model's context.
    RestOfContext,
}

/// What comes back for one request: `Accepted` or `Ended` first, `Ended` last.
#[derive(Debug)]
pub enum Event {
    /// Checked and queued: from here on only a fault of the engine's can make it fail.
    Accepted,
    /// One more token: its text, its log probabilities, or both. Without either there is no event.
    Token {
        /// Text that is complete with it.
        text: String,
        /// How likely it was, if asked for.
        logprobs: Option<TokenLogprobs>,
    },
    /// Nothing more comes.
    Ended(Result<Box<GenerateResult>, EngineError>),
}

/// Where an engine's thread stands.
#[derive(Debug, Clone)]
pub enum Phase {
    /// The model is not there yet.
    Loading,
    /// It takes requests.
    Ready(Arc<Ready>),
    /// It could not load, or it died: one line that says why. Nothing leads out of here.
    Failed(Arc<str>),
}

/// What an engine has loaded.
#[derive(Debug)]
pub struct Ready {
    /// What it says of its model.
    pub facts: ModelFacts,
    /// Its tokenizer, for those who write about tokens.
    pub text: Text,
}

/// Why a request was not even handed over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not ready yet.
    #[error("the model is still loading; try again when /health answers 200")]
    Loading,
    /// It takes no more work.
    #[error("the server is shutting down")]
    Stopping,
    /// It holds as many requests as it may.
    #[error("the engine holds {0} requests, which is its limit; try again later")]
    QueueFull(usize),
    /// The engine's thread has ended.
    #[error("the engine has failed: {0}")]
    Failed(String),
}

/// Handle to an engine's thread; clones share it.
#[derive(Debug, Clone)]
pub struct Worker {
    jobs: mpsc::Sender<Job>,
    phase: watch::Receiver<Phase>,
    stop: Arc<watch::Sender<Stop>>,
    counts: Arc<Counts>,
    queue_max: usize,
}

#[derive(Debug)]
struct Job {
    ask: Ask,
    reply: Reply,
}

impl Worker {
    /// Starts the thread, which builds the engine (so that the model is made where it is used) and
    /// then serves requests until the last handle is gone. At most `queue_max` requests are held.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start<B>(build: B, queue_max: usize) -> std::io::Result<Self>
    where
        B: FnOnce() -> Result<Box<dyn Engine>, EngineError> + Send + 'static,
    {
        let (jobs, inbox) = mpsc::channel(queue_max.max(1));
        let (publish, phase) = watch::channel(Phase::Loading);
        thread::Builder::new()
            .name("engine".to_owned())
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    let engine = build()?;
                    publish.send_replace(Phase::Ready(Arc::new(Ready {
                        facts: engine.facts().clone(),
                        text: engine.text().clone(),
                    })));
                    serve(engine, inbox);
                    Ok(())
                }));
                let failure = match outcome {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => EngineError::to_string(&error),
                    Err(panic) => format!("the engine's thread panicked: {}", panic_text(&*panic)),
                };
                publish.send_replace(Phase::Failed(failure.into()));
            })?;
        Ok(Self {
            jobs,
            phase,
            stop: Arc::new(watch::Sender::new(Stop::No)),
            counts: Arc::default(),
            queue_max,
        })
    }

    /// Hands a request over without waiting.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn submit(&self, ask: Ask) -> Result<Answer, Refused> {
        match &*self.phase.borrow() {
            Phase::Loading => return Err(Refused::Loading),
            Phase::Failed(why) => return Err(Refused::Failed(why.to_string())),
            Phase::Ready(_) => {}
        }
        if *self.stop.borrow() > Stop::No {
            return Err(Refused::Stopping);
        }
        let full = || Refused::QueueFull(self.queue_max);
        let room = |held: usize| (held < self.queue_max).then_some(held + 1);
        self.counts
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .map_err(|_| full())?;
        let (sender, events) = mpsc::unbounded_channel();
        let reply = Reply::new(sender, &self.counts);
        let answer = Answer {
            events,
            stop: self.stop.subscribe(),
            begun: Arc::clone(&reply.begun),
        };
        self.jobs
            .try_send(Job { ask, reply })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => full(),
                mpsc::error::TrySendError::Closed(_) => {
                    Refused::Failed("its thread has ended".to_owned())
                }
            })?;
        Ok(answer)
    }

    /// Takes no more work, and ends what has not begun: a request without a token yet. (A chapter
    /// that hands out no tokens has none that has begun.)
    pub fn drain(&self) {
        self.stop.send_replace(Stop::Drain);
    }

    /// Ends all that is left.
    pub fn stop(&self) {
        self.stop.send_replace(Stop::Now);
    }

    /// Where the thread stands, and a way to wait for what comes next.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    /// Requests that it holds at most.
    pub fn queue_max(&self) -> usize {
        self.queue_max
    }

    /// Requests held: waiting or in work.
    pub fn held(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed)
    }

    /// Requests held that have no token yet.
    pub fn waiting(&self) -> usize {
        self.counts.waiting.load(Ordering::Relaxed)
    }
}

/// The thread's loop: take what came, do one step, hand out what it brought.
fn serve(mut engine: Box<dyn Engine>, mut inbox: mpsc::Receiver<Job>) {
    let mut live: HashMap<RequestId, Reply> = HashMap::new();
    let mut next_id: RequestId = 0;
    loop {
        if engine.is_idle() {
            // Nothing to do: sleep until a request comes, or until nobody can send one.
            let Some(job) = inbox.blocking_recv() else {
                return;
            };
            take(&mut *engine, &mut live, &mut next_id, job);
        }
        while let Ok(job) = inbox.try_recv() {
            take(&mut *engine, &mut live, &mut next_id, job);
        }
        live.retain(|id, reply| {
            let wanted = !reply.events.is_closed();
            if !wanted {
                engine.cancel(*id);
            }
            wanted
        });
        for event in engine.step() {
            deliver(&mut live, event);
        }
    }
}

fn take(
    engine: &mut dyn Engine,
    live: &mut HashMap<RequestId, Reply>,
    next_id: &mut RequestId,
    job: Job,
) {
    let Job { ask, reply } = job;
    let id = *next_id;
    *next_id += 1;
    // A send fails only if the client went away; the loop notices that by itself.
    match admit(engine, id, ask) {
        Ok(()) => {
            let _ = reply.events.send(Event::Accepted);
            live.insert(id, reply);
        }
        Err(error) => reply.end(Err(error)),
    }
}

fn admit(engine: &mut dyn Engine, id: RequestId, mut ask: Ask) -> Result<(), EngineError> {
    if ask.ceiling == Ceiling::RestOfContext {
        let ids = engine.text().encode(&ask.input)?;
        let context = engine.facts().context_tokens;
        let used = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        // At least 1: a prompt that fills the context is refused by the engine, with both lengths.
        ask.params.max_tokens = context.saturating_sub(used).max(1);
        ask.input = Input::Ids(ids);
    }
    engine.submit(id, &ask.input, &ask.params)
}

fn deliver(live: &mut HashMap<RequestId, Reply>, event: StepEvent) {
    match event {
        StepEvent::Token { id, text, logprobs } => {
            if let Some(reply) = live.get(&id) {
                reply.begin();
                if !text.is_empty() || logprobs.is_some() {
                    let _ = reply.events.send(Event::Token { text, logprobs });
                }
            }
        }
        StepEvent::Finished { id, result } => {
            if let Some(reply) = live.remove(&id) {
                reply.end(result);
            }
        }
    }
}

/// What a panic said, as far as it was text.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
