//! A workload in words: its prompts, its load, in lines and in parts.

use contracts::generate::SamplingParams;
use contracts::run::{Arrival, CacheState, Length, Load, PromptSource, Workload};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::show::words;

/// Characters of the first prompt that are shown.
const PROMPT_SHOWN: usize = 30;

/// The workload in one line, for the head of a table.
pub fn workload_words(workload: &Workload) -> String {
    let mut parts = vec![
        workload.model.clone(),
        prompts_short(&workload.prompts),
        format!(
            "{} after {} of warm-up",
            requests(workload),
            workload.warmup
        ),
        load(&workload.load),
        ceiling(workload).unwrap_or_default(),
        sampling(&workload.sampling),
    ];
    match workload.cache {
        CacheState::AsIs => {}
        state => parts.push(format!("{} cache", words::snake(&state))),
    }
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// The one ceiling of all answers, `at most 40 tokens`; none where each prompt has its own.
pub fn ceiling(workload: &Workload) -> Option<String> {
    match &workload.prompts {
        PromptSource::Pairs { .. }
        | PromptSource::Trace { .. }
        | PromptSource::Synthetic {
            output: Some(_), ..
        } => None,
        PromptSource::Texts { .. }
        | PromptSource::Synthetic { output: None, .. }
        | PromptSource::Conversations { .. } => {
            Some(format!("at most {} tokens", workload.sampling.max_tokens))
        }
    }
}

/// `20 requests`, `requests for 30s`.
pub fn requests(workload: &Workload) -> String {
    match workload.duration_ms {
        Some(ms) => format!("requests for {}s", ms as f64 / 1e3),
        None => words::count(u64::from(workload.n_runs), "request"),
    }
}

/// `8 at a time`, `20/s (poisson)`.
pub fn load(load: &Load) -> String {
    let cap = |cap: &Option<u32>| match cap {
        Some(cap) => format!(", at most {cap} in flight"),
        None => String::new(),
    };
    match load {
        Load::Closed { concurrency } => format!("{concurrency} at a time"),
        Load::Open {
            rate_per_s,
            arrival,
            max_in_flight,
        } => {
            let arrival = self::arrival(arrival);
            format!("{rate_per_s}/s ({arrival}){}", cap(max_in_flight))
        }
        Load::Burst { max_in_flight } => format!("all at once{}", cap(max_in_flight)),
        Load::Trace { max_in_flight } => format!("at the trace's times{}", cap(max_in_flight)),
    }
}

/// `1 prompt`, `made prompts of 32 tokens`.
pub fn prompts_short(source: &PromptSource) -> String {
    match source {
        PromptSource::Texts { texts } => words::count(texts.len() as u64, "prompt"),
        PromptSource::Pairs { pairs } => {
            format!(
                "{} of a data set",
                words::count(pairs.len() as u64, "prompt")
            )
        }
        PromptSource::Synthetic {
            input,
            output,
            prefix,
        } => {
            let mut text = format!("made prompts of {} tokens", length(input));
            if let Some(prefix) = prefix {
                let share = words::percent(prefix.share);
                text.push_str(&format!(", {share} share {} of them", prefix.tokens));
            }
            if let Some(output) = output {
                text.push_str(&format!(", answers of {}", length(output)));
            }
            text
        }
        PromptSource::Conversations { conversations } => {
            words::count(conversations.len() as u64, "conversation")
        }
        PromptSource::Trace { requests } => {
            format!(
                "a trace of {}",
                words::count(requests.len() as u64, "request")
            )
        }
    }
}

/// Number and hash of the prompts, and how the first begins.
pub fn prompts(source: &PromptSource) -> String {
    match source {
        PromptSource::Texts { texts } => {
            let mut hash = Sha256::new();
            for text in texts {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
            let hash = hex::encode(hash.finalize());
            let first = words::excerpt(texts.first().map_or("", String::as_str), PROMPT_SHOWN);
            format!("{} {} \"{first}\"", texts.len(), words::short_hash(&hash))
        }
        PromptSource::Synthetic { .. } => prompts_short(source),
        PromptSource::Pairs { pairs } => hashed(source, pairs),
        PromptSource::Conversations { conversations } => hashed(source, conversations),
        PromptSource::Trace { requests } => hashed(source, requests),
    }
}

fn hashed(source: &PromptSource, document: &impl Serialize) -> String {
    let json = serde_json::to_vec(document).unwrap_or_default();
    let hash = hex::encode(Sha256::digest(&json));
    format!("{} {}", prompts_short(source), words::short_hash(&hash))
}

/// As `--arrival` takes it.
pub(super) fn arrival(arrival: &Arrival) -> String {
    match arrival {
        Arrival::Constant => "constant".to_owned(),
        Arrival::Poisson => "poisson".to_owned(),
        Arrival::Gamma { shape } => format!("gamma:{shape}"),
    }
}

/// As `--input-len` and `--output-len` take it.
pub(super) fn length(length: &Length) -> String {
    match length {
        Length::Fixed { tokens } => tokens.to_string(),
        Length::Normal {
            mean_tokens,
            sd_tokens,
        } => format!("normal:{mean_tokens},{sd_tokens}"),
        Length::Uniform {
            low_tokens,
            high_tokens,
        } => format!("uniform:{low_tokens},{high_tokens}"),
    }
}

/// `greedy`, or every parameter that is not at its neutral value.
pub(super) fn sampling(sampling: &SamplingParams) -> String {
    let plain = SamplingParams::default();
    let mut parts = Vec::new();
    if sampling.is_greedy() {
        parts.push("greedy".to_owned());
    } else {
        parts.push(format!("temperature {}", sampling.temperature));
        if sampling.top_k != plain.top_k {
            parts.push(format!("top_k {}", sampling.top_k));
        }
        if sampling.top_p != plain.top_p {
            parts.push(format!("top_p {}", sampling.top_p));
        }
        if sampling.min_p != plain.min_p {
            parts.push(format!("min_p {}", sampling.min_p));
        }
        parts.push(format!("seed {}", sampling.seed));
    }
    for (name, value, neutral) in [
        (
            "repetition_penalty",
            sampling.repetition_penalty,
            plain.repetition_penalty,
        ),
        (
            "presence_penalty",
            sampling.presence_penalty,
            plain.presence_penalty,
        ),
        (
            "frequency_penalty",
            sampling.frequency_penalty,
            plain.frequency_penalty,
        ),
    ] {
        if value != neutral {
            parts.push(format!("{name} {value}"));
        }
    }
    if !sampling.logit_bias.is_empty() {
        parts.push(format!("logit_bias {:?}", sampling.logit_bias));
    }
    if !sampling.stop.is_empty() {
        parts.push(format!("stop {:?}", sampling.stop));
    }
    if let Some(n) = sampling.logprobs {
        parts.push(format!("logprobs {n}"));
    }
    if sampling.ignore_eos {
        parts.push("ignore_eos".to_owned());
    }
    parts.join(" ")
}
