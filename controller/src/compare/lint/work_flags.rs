//! A workload as flags of `run`: what is not the default.

use contracts::defaults;
use contracts::generate::SamplingParams;
use contracts::run::{CacheState, Endpoint, Load, PromptSource, SharedPrefix, Workload};

use super::rerun::quoted;
use crate::compare::work;
use crate::show::words;

/// Characters of a prompt that are repeated; a longer one stands as a file.
const PROMPT_SHOWN_MAX: usize = 200;

/// The flags, each with a blank before it.
pub(super) fn work_flags(workload: &Workload) -> String {
    let mut flags = vec![format!("--model {}", quoted(&workload.model))];
    if let Some(tokenizer) = &workload.tokenizer {
        flags.push(format!("--tokenizer {}", quoted(tokenizer)));
    }
    if workload.endpoint != Endpoint::Auto {
        flags.push(format!("--endpoint {}", words::snake(&workload.endpoint)));
    }
    flags.extend(prompts(&workload.prompts));
    flags.extend(sampling(workload));
    flags.extend(load(&workload.load));
    match workload.duration_ms {
        Some(ms) => flags.push(format!("--duration {ms}ms")),
        None if workload.n_runs != defaults::N_RUNS => {
            flags.push(format!("--n-runs {}", workload.n_runs));
        }
        None => {}
    }
    if workload.warmup != defaults::WARMUP {
        flags.push(format!("--warmup {}", workload.warmup));
    }
    if workload.cache != usual_cache(&workload.prompts) {
        let cache = words::snake(&workload.cache).replace('_', "-");
        flags.push(format!("--cache {cache}"));
    }
    flags.iter().map(|flag| format!(" {flag}")).collect()
}

fn prompts(source: &PromptSource) -> Vec<String> {
    let one = |flag: &str| vec![flag.to_owned()];
    match source {
        PromptSource::Texts { texts } => match texts.as_slice() {
            [text] if text == defaults::PROMPT => Vec::new(),
            [text] if text.chars().count() <= PROMPT_SHOWN_MAX && !text.contains('\n') => {
                vec![format!("--prompt {}", quoted(text))]
            }
            _ => one("--prompts FILE"),
        },
        PromptSource::Pairs { .. } => one("--dataset sharegpt:FILE"),
        PromptSource::Conversations { .. } => one("--conversations FILE"),
        PromptSource::Trace { .. } => one("--trace FILE"),
        PromptSource::Synthetic {
            input,
            output,
            prefix,
        } => {
            let mut flags = vec![format!("--input-len {}", work::length(input))];
            flags.extend(
                output
                    .as_ref()
                    .map(|o| format!("--output-len {}", work::length(o))),
            );
            flags.extend(prefix.as_ref().map(shared));
            flags
        }
    }
}

fn shared(prefix: &SharedPrefix) -> String {
    format!(
        "--prefix-len {} --prefix-share {}",
        prefix.tokens, prefix.share
    )
}

fn sampling(workload: &Workload) -> Vec<String> {
    let (asked, plain) = (&workload.sampling, SamplingParams::default());
    let mut flags = Vec::new();
    // Where each prompt has a ceiling of its own, this one is nobody's.
    let one_ceiling = !matches!(
        workload.prompts,
        PromptSource::Pairs { .. }
            | PromptSource::Trace { .. }
            | PromptSource::Synthetic {
                output: Some(_),
                ..
            }
    );
    if one_ceiling && asked.max_tokens != defaults::MAX_TOKENS {
        flags.push(format!("--max-tokens {}", asked.max_tokens));
    }
    if asked.temperature != plain.temperature {
        flags.push(format!("--temperature {}", asked.temperature));
    }
    if asked.top_k != plain.top_k {
        flags.push(format!("--top-k {}", asked.top_k));
    }
    for (flag, value, neutral) in [
        ("--top-p", asked.top_p, plain.top_p),
        ("--min-p", asked.min_p, plain.min_p),
        (
            "--repetition-penalty",
            asked.repetition_penalty,
            plain.repetition_penalty,
        ),
        (
            "--presence-penalty",
            asked.presence_penalty,
            plain.presence_penalty,
        ),
        (
            "--frequency-penalty",
            asked.frequency_penalty,
            plain.frequency_penalty,
        ),
    ] {
        if value != neutral {
            flags.push(format!("{flag} {value}"));
        }
    }
    let stop = asked.stop.iter();
    flags.extend(stop.map(|stop| format!("--stop {}", quoted(stop))));
    if asked.ignore_eos {
        flags.push("--ignore-eos".to_owned());
    }
    if asked.seed != plain.seed {
        flags.push(format!("--seed {}", asked.seed));
    }
    flags
}

fn load(load: &Load) -> Vec<String> {
    let cap = |cap: &Option<u32>| cap.map(|cap| format!("--concurrency {cap}"));
    match load {
        Load::Closed { concurrency: 1 } => Vec::new(),
        Load::Closed { concurrency } => vec![format!("--concurrency {concurrency}")],
        Load::Open {
            rate_per_s,
            arrival,
            max_in_flight,
        } => {
            let arrival = work::arrival(arrival);
            let mut flags = vec![format!("--rate {rate_per_s} --arrival {arrival}")];
            flags.extend(cap(max_in_flight));
            flags
        }
        Load::Burst { max_in_flight } => {
            let mut flags = vec!["--rate inf".to_owned()];
            flags.extend(cap(max_in_flight));
            flags
        }
        Load::Trace { max_in_flight } => cap(max_in_flight).into_iter().collect(),
    }
}

/// What `run` takes where no flag says it.
fn usual_cache(source: &PromptSource) -> CacheState {
    match source {
        PromptSource::Texts { .. } => CacheState::AsIs,
        _ => CacheState::Cold,
    }
}
