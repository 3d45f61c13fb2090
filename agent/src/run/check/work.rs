//! Bounds of the workload: prompts, load, counts.

use std::time::Duration;

use contracts::defaults;
use contracts::openai::ChatMessage;
use contracts::run::{AllowFailures, Arrival, Length, Load, PromptSource, Workload};

use super::sampling::MAX_TOKENS_MAX;
use super::{Refusal, WAIT_MS_MAX, bounded, bytes};

/// Requests of one block of a trace, blocks of one prompt: beyond any model's context.
const BLOCKS_MAX: usize = 1 << 15;
/// Shape of gamma arrivals: outside of it gaps are all alike, or all but none are 0.
const GAMMA_SHAPE: std::ops::RangeInclusive<f64> = 0.01..=1_000.0;

/// The first field that is out of bounds, if any.
pub(super) fn workload(workload: &Workload) -> Result<(), Refusal> {
    if workload.model.is_empty() {
        return Err(Refusal::new("workload.model", "is empty"));
    }
    bytes("workload.model", &workload.model)?;
    if let Some(tokenizer) = &workload.tokenizer {
        bytes("workload.tokenizer", tokenizer)?;
    }
    prompts(&workload.prompts)?;
    load(workload)?;
    bounded(
        "workload.n_runs",
        workload.n_runs.into(),
        1,
        defaults::N_RUNS_MAX.into(),
    )?;
    if let Some(duration_ms) = workload.duration_ms {
        bounded("workload.duration_ms", duration_ms, 1, WAIT_MS_MAX)?;
    }
    bounded(
        "workload.warmup",
        workload.warmup.into(),
        0,
        defaults::WARMUP_MAX.into(),
    )?;
    sending(workload)?;
    match workload.allow_failures {
        AllowFailures::Percent { percent } if !(0.0..=100.0).contains(&percent) => Err(
            Refusal::new("workload.allow_failures.percent", "must be from 0 to 100"),
        ),
        _ => Ok(()),
    }
}

fn load(workload: &Workload) -> Result<(), Refusal> {
    let cap = match &workload.load {
        Load::Closed { concurrency } => {
            return bounded(
                "workload.load.concurrency",
                (*concurrency).into(),
                1,
                defaults::CONCURRENCY_MAX.into(),
            );
        }
        Load::Open {
            rate_per_s,
            arrival,
            max_in_flight,
        } => {
            open(*rate_per_s, *arrival)?;
            max_in_flight
        }
        Load::Burst {
            max_in_flight: None,
        } if workload.duration_ms.is_some() => {
            let message = "requests that are sent all at once are counted, or capped";
            return Err(Refusal::new("workload.duration_ms", message));
        }
        Load::Burst { max_in_flight } => max_in_flight,
        Load::Trace { max_in_flight } => {
            if !matches!(workload.prompts, PromptSource::Trace { .. }) {
                let message = "times of a trace need prompts of a trace";
                return Err(Refusal::new("workload.load", message));
            }
            max_in_flight
        }
    };
    match cap {
        Some(cap) => bounded(
            "workload.load.max_in_flight",
            (*cap).into(),
            1,
            defaults::CONCURRENCY_MAX.into(),
        ),
        None => Ok(()),
    }
}

/// A schedule that ends: a rate or a trace of absurd times is a mistake, and does not fit a clock.
fn sending(workload: &Workload) -> Result<(), Refusal> {
    let most = Duration::from_millis(WAIT_MS_MAX);
    match workload.sending() {
        Some(sending) if sending > most => {
            let message = format!(
                "sending would take {:.0} s, and at most {} are possible",
                sending.as_secs_f64(),
                most.as_secs()
            );
            Err(Refusal::new("workload.load", message))
        }
        _ => Ok(()),
    }
}

fn open(rate_per_s: f64, arrival: Arrival) -> Result<(), Refusal> {
    if !(rate_per_s > 0.0 && rate_per_s <= defaults::RATE_PER_S_MAX) {
        let message = format!("must be above 0 and at most {}", defaults::RATE_PER_S_MAX);
        return Err(Refusal::new("workload.load.rate_per_s", message));
    }
    match arrival {
        Arrival::Gamma { shape } if !GAMMA_SHAPE.contains(&shape) => {
            let (low, high) = GAMMA_SHAPE.into_inner();
            let message = format!("must be from {low} to {high}");
            Err(Refusal::new("workload.load.arrival.shape", message))
        }
        _ => Ok(()),
    }
}

fn prompts(source: &PromptSource) -> Result<(), Refusal> {
    let count = |field: &str, n: usize| bounded(field, n as u64, 1, defaults::PROMPTS_MAX as u64);
    match source {
        PromptSource::Texts { texts } => {
            count("workload.prompts.texts", texts.len())?;
            sizes("workload.prompts.texts", texts.iter().map(String::len))
        }
        PromptSource::Pairs { pairs } => {
            count("workload.prompts.pairs", pairs.len())?;
            let lengths = pairs
                .iter()
                .map(|pair| pair.prompt.len() + pair.answer.len());
            sizes("workload.prompts.pairs", lengths)
        }
        PromptSource::Synthetic {
            input,
            output,
            prefix,
        } => {
            length("workload.prompts.input", *input)?;
            if let Some(output) = output {
                length("workload.prompts.output", *output)?;
            }
            let Some(prefix) = prefix else { return Ok(()) };
            if !(0.0..=1.0).contains(&prefix.share) {
                let field = "workload.prompts.prefix.share";
                return Err(Refusal::new(field, "must be from 0 to 1"));
            }
            let field = "workload.prompts.prefix.tokens";
            bounded(field, prefix.tokens.into(), 1, MAX_TOKENS_MAX.into())
        }
        PromptSource::Conversations { conversations } => {
            count("workload.prompts.conversations", conversations.len())?;
            conversations.iter().enumerate().try_for_each(conversation)
        }
        PromptSource::Trace { requests } => {
            count("workload.prompts.requests", requests.len())?;
            let times = requests.iter().map(|request| request.due_ms);
            if !times.is_sorted() {
                let message = "must be in order of time";
                return Err(Refusal::new("workload.prompts.requests", message));
            }
            for request in requests {
                for (field, tokens) in [
                    (
                        "workload.prompts.requests.input_tokens",
                        request.input_tokens,
                    ),
                    (
                        "workload.prompts.requests.output_tokens",
                        request.output_tokens,
                    ),
                ] {
                    bounded(field, tokens.into(), 1, MAX_TOKENS_MAX.into())?;
                }
                let blocks = request.block_ids.len() as u64;
                bounded(
                    "workload.prompts.requests.block_ids",
                    blocks,
                    0,
                    BLOCKS_MAX as u64,
                )?;
            }
            Ok(())
        }
    }
}

fn sizes(field: &str, mut lengths: impl Iterator<Item = usize>) -> Result<(), Refusal> {
    match lengths.position(|len| len > defaults::PROMPT_BYTES_MAX) {
        Some(index) => Err(Refusal::new(
            field,
            format!(
                "prompt {index} has more than {} bytes",
                defaults::PROMPT_BYTES_MAX
            ),
        )),
        None => Ok(()),
    }
}

fn conversation((index, turns): (usize, &Vec<ChatMessage>)) -> Result<(), Refusal> {
    let field = "workload.prompts.conversations";
    if turns.iter().any(|turn| turn.role == "user") {
        return Ok(());
    }
    let message = format!("conversation {index} has no turn of the user");
    Err(Refusal::new(field, message))
}

fn length(field: &str, length: Length) -> Result<(), Refusal> {
    let most = u64::from(MAX_TOKENS_MAX);
    match length {
        Length::Fixed { tokens } => bounded(field, tokens.into(), 1, most),
        Length::Normal {
            mean_tokens,
            sd_tokens,
        } => {
            let mean = (1.0..=f64::from(MAX_TOKENS_MAX)).contains(&mean_tokens);
            if mean && sd_tokens.is_finite() && sd_tokens >= 0.0 {
                return Ok(());
            }
            let message = format!("normal: the mean is from 1 to {most}, the deviation 0 or more");
            Err(Refusal::new(field, message))
        }
        Length::Uniform {
            low_tokens,
            high_tokens,
        } => {
            bounded(field, low_tokens.into(), 1, most)?;
            bounded(field, high_tokens.into(), low_tokens.into(), most)
        }
    }
}
