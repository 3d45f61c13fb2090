//! The job of an offline worker: all its prompts, made here, since the agent makes the prompts of
//! online runs too and both must be the same. Starting the worker is `launch`'s matter.

use contracts::openai::ChatMessage;
use contracts::run::{AllowFailures, PromptSource, RunSpec};
use contracts::worker::OfflineJob;
use engine::text::Text;
use serde_json::Value;

use crate::load::{Asked, OfflineWatch, Route};
use crate::prompts::{Content, PromptError, Prompts, as_given};

/// Text of all prompts of one job, in bytes, at most: it is held in memory by agent and worker.
const JOB_BYTES_MAX: usize = 1 << 30;

/// The worker's job, and what its reader is to know of it.
///
/// # Errors
/// [`PromptError`]: prompts that cannot be made, or more than a job may hold.
pub(super) fn offline_job(
    spec: &RunSpec,
    chapter: &str,
    model: &str,
    text: Option<Text>,
) -> Result<(OfflineJob, OfflineWatch), PromptError> {
    let workload = &spec.workload;
    let mut watch = OfflineWatch::from_spec(spec);
    let mut job = OfflineJob {
        chapter: chapter.to_owned(),
        model: model.to_owned(),
        dtype: spec.arm.dtype,
        device: spec.arm.device,
        threads: spec.arm.threads,
        options: spec.arm.options.clone(),
        prompts: workload.prompts.clone(),
        warmup_prompts: None,
        ceilings: Vec::new(),
        warmup_ceilings: Vec::new(),
        endpoint: workload.endpoint,
        sampling: workload.sampling.clone(),
        warmup: watch.warmup,
        n_runs: workload.n_runs,
        concurrency: watch.concurrency,
        continue_on_error: workload.allow_failures != AllowFailures::Count { n: 0 },
    };
    if as_given(spec) {
        return Ok((job, watch));
    }
    // Where no tokenizer is at hand the worker itself refuses a chat without a template.
    let template = text.as_ref().is_none_or(|text| text.has_template());
    let route = Route::resolve(workload.endpoint, template);
    let prompts = Prompts::open(spec, route, text)?;
    let mut bytes = 0;
    let measured = Made::of(&prompts, false, workload.n_runs, &mut bytes)?;
    job.prompts = measured.source;
    job.ceilings = ceilings(&measured.asked, workload.sampling.max_tokens);
    watch.asked = measured.asked;
    if watch.warmup > 0 {
        let warmup = Made::of(&prompts, true, watch.warmup, &mut bytes)?;
        job.warmup_prompts = Some(warmup.source);
        job.warmup_ceilings = ceilings(&warmup.asked, workload.sampling.max_tokens);
        watch.warmup_asked = warmup.asked;
    }
    Ok((job, watch))
}

/// The prompts of a phase.
struct Made {
    source: PromptSource,
    asked: Vec<Asked>,
}

impl Made {
    fn of(
        prompts: &Prompts,
        warmup: bool,
        requests: u32,
        bytes: &mut usize,
    ) -> Result<Self, PromptError> {
        let mut texts = Vec::new();
        let mut conversations = Vec::new();
        let mut asked = Vec::new();
        for index in 0..requests {
            let prompt = prompts.prompt(warmup, index, &[])?;
            asked.push(Asked {
                max_tokens: prompt.max_tokens,
                planned_input_tokens: prompt.planned_input_tokens,
            });
            *bytes += prompt.content.bytes();
            if *bytes > JOB_BYTES_MAX {
                return Err(PromptError {
                    field: "workload.n_runs",
                    message: format!(
                        "the first {index} prompts have {JOB_BYTES_MAX} bytes, and an offline run \
                         holds them all; ask for fewer requests"
                    ),
                });
            }
            match prompt.content {
                Content::Text(text) => texts.push(text),
                Content::Chat(messages) => conversations.push(messages),
            }
        }
        let source = match conversations.is_empty() {
            true => PromptSource::Texts { texts },
            false => PromptSource::Conversations { conversations },
        };
        Ok(Self { source, asked })
    }
}

/// One a request, or none where all have the usual one.
fn ceilings(asked: &[Asked], usual: u32) -> Vec<u32> {
    let ceilings: Vec<u32> = asked.iter().map(|asked| asked.max_tokens).collect();
    match ceilings.iter().all(|&ceiling| ceiling == usual) {
        true => Vec::new(),
        false => ceilings,
    }
}

impl Content {
    /// Its size in memory, about.
    fn bytes(&self) -> usize {
        let size = |message: &ChatMessage| match &message.content {
            Value::String(text) => text.len(),
            other => other.to_string().len(),
        };
        match self {
            Self::Text(text) => text.len(),
            Self::Chat(messages) => messages.iter().map(size).sum(),
        }
    }
}
