//! The offline worker: `generate` called in-process, one request after another, each reported on a
//! line of its own between requests, never within one. Where a job asks for several at a time,
//! `in_flight` keeps them with the engine and reports between steps.
//!
//! Request `i` of a phase takes prompt `i mod n`, its own ceiling where the job has one, and the
//! seed `seed + i`: what the online client sends to a server for the same spec, so both make the
//! same tokens. Who makes prompts that are not given word for word is the agent.

mod in_flight;

use std::{
    any::Any,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    time::Instant,
};

use contracts::{
    generate::{GenerateResult, SamplingParams},
    host::BuildFacts,
    openai::ChatMessage,
    run::{Endpoint, PromptSource},
    worker::{OfflineJob, WorkerLine},
};
use serde_json::Value;

use crate::{
    chapters::{self, Engine, Setup},
    error::EngineError,
    model::ModelRequest,
    text::Input,
    worker::panic_text,
};

/// Why a worker ended before its job was done.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The job cannot be run: chapter, model, prompts.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A request failed, and the job says not to go on after that. It has been reported.
    #[error("request {index} failed: {message}")]
    Request {
        /// Its index within its phase.
        index: u32,
        /// Why.
        message: String,
    },
    /// Who reads the report has gone: nothing measured from here on would be seen.
    #[error("cannot write the report: {0}")]
    Report(#[from] io::Error),
}

/// How one `generate` ended.
enum Outcome {
    Made(GenerateResult),
    Refused(String),
    /// The engine's state can't be trusted after this, whatever the job says about going on.
    Panicked(String),
}

/// Loads, warms up, measures; one line each to `report`.
///
/// # Errors
/// See [`OfflineError`].
pub fn run(
    job: OfflineJob,
    build: BuildFacts,
    report: &mut impl Write,
) -> Result<(), OfflineError> {
    let chapter = chapters::find(&job.chapter)?;
    let model = ModelRequest {
        name: job.model.clone(),
        dtype: job.dtype,
        device: job.device,
        threads: job.threads,
    };
    let mut engine = (chapter.build)(Setup {
        model,
        options: job.options.clone(),
    })?;
    let phases = phases(&job, engine.facts().chat_template)?;
    write_line(
        report,
        &WorkerLine::Loaded {
            build,
            model: engine.facts().clone(),
        },
    )?;
    let mut report = Report {
        out: report,
        origin: Instant::now(),
        continue_on_error: job.continue_on_error,
    };
    for phase in &phases {
        match job.concurrency {
            0 | 1 => one_by_one(&mut *engine, phase, &mut report)?,
            several => in_flight::run_phase(&mut *engine, phase, several as usize, &mut report)?,
        }
    }
    Ok(write_line(report.out, &WorkerLine::Done)?)
}

fn one_by_one(
    engine: &mut dyn Engine,
    phase: &Phase<'_>,
    report: &mut Report<'_, impl Write>,
) -> Result<(), OfflineError> {
    for request in phase.requests() {
        let start_ns = report.now_ns();
        let outcome = attempt(engine, request.input, &request.params);
        report.request(phase, request.index, start_ns, outcome)?;
    }
    Ok(())
}

/// Where lines go, and the clock of their instants.
struct Report<'a, W> {
    out: &'a mut W,
    origin: Instant,
    continue_on_error: bool,
}

impl<W: Write> Report<'_, W> {
    /// Since the worker's origin.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// One request that ends now.
    fn request(
        &mut self,
        phase: &Phase<'_>,
        index: u32,
        start_ns: u64,
        outcome: Outcome,
    ) -> Result<(), OfflineError> {
        let done_ns = self.now_ns();
        self.ended(phase, index, (start_ns, done_ns), outcome)
    }

    /// One request's line. An error if the worker must not go on after it.
    fn ended(
        &mut self,
        phase: &Phase<'_>,
        index: u32,
        (start_ns, done_ns): (u64, u64),
        outcome: Outcome,
    ) -> Result<(), OfflineError> {
        let (result, goes_on) = match outcome {
            Outcome::Made(result) => (Ok(result), true),
            Outcome::Refused(message) => (Err(message), self.continue_on_error),
            Outcome::Panicked(message) => (Err(message), false),
        };
        let failed = result.as_ref().err().cloned();
        let line = WorkerLine::Request {
            index,
            warmup: phase.warmup,
            start_ns,
            done_ns,
            result,
        };
        write_line(self.out, &line)?;
        match failed.filter(|_| !goes_on) {
            Some(message) => Err(OfflineError::Request { index, message }),
            None => Ok(()),
        }
    }
}

/// Request `index`'s seed. A seed sent over HTTP is an i64 and online clients drop the top bit; so
/// do we, to draw the same.
fn seed_of(seed: u64, index: u32) -> u64 {
    seed.wrapping_add(index.into()) & (u64::MAX >> 1)
}

fn attempt(engine: &mut dyn Engine, input: &Input, params: &SamplingParams) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| engine.generate(input, params))) {
        Ok(Ok(result)) => Outcome::Made(result),
        Ok(Err(error)) => Outcome::Refused(error.to_string()),
        Err(panic) => Outcome::Panicked(panicked(&*panic)),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    format!("the engine panicked: {}", panic_text(panic))
}

/// The requests before measuring, or the measured ones.
struct Phase<'a> {
    warmup: bool,
    count: u32,
    inputs: Rc<[Input]>,
    sampling: &'a SamplingParams,
    /// Empty: the sampling's for all.
    ceilings: &'a [u32],
}

/// One request of a phase.
struct Request<'a> {
    index: u32,
    input: &'a Input,
    params: SamplingParams,
}

impl Phase<'_> {
    /// Its requests in order.
    fn requests(&self) -> impl Iterator<Item = Request<'_>> {
        let numbered = (0..self.count).zip(self.inputs.iter().cycle());
        numbered.map(|(index, input)| {
            let ceiling = self.ceilings.get(index as usize);
            let params = SamplingParams {
                seed: seed_of(self.sampling.seed, index),
                max_tokens: ceiling.copied().unwrap_or(self.sampling.max_tokens),
                ..self.sampling.clone()
            };
            Request {
                index,
                input,
                params,
            }
        })
    }
}

fn phases(job: &OfflineJob, has_template: bool) -> Result<[Phase<'_>; 2], EngineError> {
    let measured: Rc<[Input]> = inputs(&job.prompts, job.endpoint, has_template)?.into();
    let warmup = match &job.warmup_prompts {
        Some(prompts) => inputs(prompts, job.endpoint, has_template)?.into(),
        None => Rc::clone(&measured),
    };
    for (field, ceilings, requests) in [
        ("ceilings", &job.ceilings, job.n_runs),
        ("warmup_ceilings", &job.warmup_ceilings, job.warmup),
    ] {
        if !ceilings.is_empty() && ceilings.len() != requests as usize {
            let message = format!("{} of them for {requests} requests", ceilings.len());
            return Err(EngineError::bad_input(field, message));
        }
    }
    Ok([
        Phase {
            warmup: true,
            count: job.warmup,
            inputs: warmup,
            sampling: &job.sampling,
            ceilings: &job.warmup_ceilings,
        },
        Phase {
            warmup: false,
            count: job.n_runs,
            inputs: measured,
            sampling: &job.sampling,
            ceilings: &job.ceilings,
        },
    ])
}

/// The prompts as the server would see them: a text as one user message or plain, a conversation as
/// it is.
fn inputs(
    prompts: &PromptSource,
    endpoint: Endpoint,
    has_template: bool,
) -> Result<Vec<Input>, EngineError> {
    let chat = match endpoint {
        Endpoint::Auto => has_template,
        Endpoint::Completions => false,
        Endpoint::Chat if has_template => true,
        Endpoint::Chat => {
            return Err(EngineError::bad_input(
                "endpoint",
                "this model has no chat template; use completions",
            ));
        }
    };
    let text = |text: &String| match chat {
        true => Input::Chat(vec![ChatMessage {
            role: "user".to_owned(),
            content: Value::String(text.clone()),
        }]),
        false => Input::Text(text.clone()),
    };
    let inputs: Vec<Input> = match prompts {
        PromptSource::Texts { texts } => texts.iter().map(text).collect(),
        PromptSource::Conversations { conversations } if chat => {
            conversations.iter().cloned().map(Input::Chat).collect()
        }
        PromptSource::Conversations { .. } => {
            return Err(EngineError::bad_input(
                "endpoint",
                "conversations need a chat template, and the endpoint auto or chat",
            ));
        }
        _ => {
            return Err(EngineError::bad_input(
                "prompts",
                "only texts and conversations: others are made by who hands out the job",
            ));
        }
    };
    if inputs.is_empty() {
        return Err(EngineError::bad_input(
            "prompts",
            "there must be at least one",
        ));
    }
    Ok(inputs)
}

/// Each line leaves at once: what was measured survives whatever happens next.
fn write_line(report: &mut impl Write, line: &WorkerLine) -> io::Result<()> {
    serde_json::to_writer(&mut *report, line)?;
    report.write_all(b"\n")?;
    report.flush()
}
