//! What is known of a run, as named words: two runs differ where these words do.

use contracts::run::{AllowFailures, Device, RunSpec, Workload};
use contracts::sample::TokenSource;
use serde::Serialize;

use crate::compare::{Measured, work};
use crate::show::{validity, words};

/// The tokenizer that counted a run's tokens, where ours did.
pub const COUNTED_BY: &str = "counted by tokenizer";

/// Which part of a run a fact belongs to, and so what a difference in it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What work was asked: may not differ.
    Workload,
    /// Where it ran: may not differ.
    Host,
    /// What was loaded: may not differ.
    Model,
    /// How it was measured: the definition may not differ.
    Measuring,
    /// What is being judged: may differ.
    Arm,
}

/// One fact in words; none where it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Which part it belongs to.
    pub part: Part,
    /// Its name, as flags and fields are called.
    pub field: &'static str,
    /// Its value in words.
    pub value: Option<String>,
}

/// All facts of a run, always the same fields in the same order.
pub fn facts(run: &Measured<'_>) -> Vec<Fact> {
    let mut facts = workload_facts(&run.run.status.spec.workload);
    facts.extend(place_facts(run));
    facts.extend(arm_facts(run));
    facts
}

/// What was asked, always the same fields in the same order.
pub fn workload_facts(workload: &Workload) -> Vec<Fact> {
    let sampling = &workload.sampling;
    let of = |field, value: String| fact(Part::Workload, field, Some(value));
    vec![
        of("model", workload.model.clone()),
        of("prompts", work::prompts(&workload.prompts)),
        of("endpoint", words::snake(&workload.endpoint)),
        of("max_tokens", sampling.max_tokens.to_string()),
        of("sampling", work::sampling(sampling)),
        of("load", work::load(&workload.load)),
        of("n_runs", workload.n_runs.to_string()),
        of("duration", duration(workload.duration_ms)),
        of("warmup", workload.warmup.to_string()),
        of("cache", words::snake(&workload.cache)),
        of(
            "tokenizer",
            workload
                .tokenizer
                .clone()
                .unwrap_or_else(|| "the model's own".to_owned()),
        ),
        of("allow_failures", allow_failures(&workload.allow_failures)),
    ]
}

fn place_facts(run: &Measured<'_>) -> Vec<Fact> {
    let record = run.run;
    let provenance = record.status.provenance.as_ref();
    let model = provenance.and_then(|p| p.model.as_ref());
    let host = format!(
        "{} ({})",
        record.hostname,
        words::short_hash(&record.host_fingerprint)
    );
    let timing = one_of(run.input.timing_sources.iter());
    let tokens = one_of(run.input.token_sources.iter());
    let counting = record.server_report.as_ref();
    let counting = counting.map(|stored| words::snake(&stored.report.counting));
    let prompt_ids = run.input.input_ids_sha256.as_deref();
    vec![
        fact(Part::Host, "host", Some(host)),
        fact(
            Part::Model,
            "model sha256",
            model.map(|m| words::short_hash(&m.sha256)),
        ),
        fact(
            Part::Model,
            "tokenizer sha256",
            model.map(|m| words::short_hash(&m.tokenizer_sha256)),
        ),
        fact(
            Part::Measuring,
            "definition",
            provenance.map(|p| p.definition.clone()),
        ),
        fact(
            Part::Measuring,
            "timing source",
            // A run that measured no TTFT has no source, and that is known.
            Some(timing.unwrap_or_else(|| "none".to_owned())),
        ),
        fact(Part::Measuring, "token source", tokens.clone()),
        fact(
            Part::Measuring,
            "counting",
            // What its server allows; without a report, what was done.
            counting.or(tokens),
        ),
        fact(Part::Measuring, COUNTED_BY, counted_by(run)),
        fact(
            Part::Measuring,
            "prompt token ids sha256",
            prompt_ids.map(words::short_hash),
        ),
        fact(
            Part::Measuring,
            "validity",
            Some(validity::word(record.status.validity.verdict).to_owned()),
        ),
        fact(
            Part::Measuring,
            "agent build",
            provenance.map(|p| p.agent_build.clone()),
        ),
        fact(
            Part::Measuring,
            "controller build",
            Some(record.controller_build.clone()),
        ),
    ]
}

/// Known only of a run whose tokens our tokenizer counted.
fn counted_by(run: &Measured<'_>) -> Option<String> {
    let by_ours = run.input.token_sources.contains(&TokenSource::Tokenizer);
    let provenance = run.run.status.provenance.as_ref()?;
    let of_model = provenance
        .model
        .as_ref()
        .map(|model| &model.tokenizer_sha256);
    let hash = provenance.tokenizer_sha256.as_ref().or(of_model);
    hash.filter(|_| by_ours).map(|hash| words::short_hash(hash))
}

fn arm_facts(run: &Measured<'_>) -> Vec<Fact> {
    let record = run.run;
    let arm = &record.status.spec.arm;
    let provenance = record.status.provenance.as_ref();
    let model = provenance.and_then(|p| p.model.as_ref());
    let options: Vec<String> = arm
        .options
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    let extra: Vec<String> = arm.extra.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let of = |field, value| fact(Part::Arm, field, value);
    vec![
        of("mode", Some(words::snake(&arm.mode))),
        of(
            "dtype",
            Some(arm.dtype.map_or("default".to_owned(), |d| words::snake(&d))),
        ),
        of("weights", model.map(|m| m.weights.clone())),
        of("device", Some(device(&arm.device))),
        of(
            "threads",
            Some(threads(&record.status.spec, model.map(|m| m.threads))),
        ),
        of("stream", Some(arm.stream.to_string())),
        of("options", Some(listed(&options))),
        of("headers", Some(listed(&arm.header_names))),
        of("extra", Some(listed(&extra))),
        of("keep-alive", Some((!arm.no_keepalive).to_string())),
        of(
            "model's name in requests",
            provenance.and_then(|p| p.served_name.clone()),
        ),
        of("command", provenance.map(|p| p.command.join(" "))),
        of(
            "engine build",
            provenance.and_then(|p| p.engine_build.clone()),
        ),
        of(
            "engine binary",
            provenance
                .and_then(|p| p.engine_binary_sha256.as_deref())
                .map(words::short_hash),
        ),
        of(
            "engine profile",
            provenance.and_then(|p| p.engine_profile.clone()),
        ),
    ]
}

/// Words beside each other, or `none`: a blank would look like something that was forgotten.
fn listed(words: &[String]) -> String {
    if words.is_empty() {
        return "none".to_owned();
    }
    words.join(" ")
}

fn fact(part: Part, field: &'static str, value: Option<String>) -> Fact {
    Fact { part, field, value }
}

fn duration(ms: Option<u64>) -> String {
    ms.map_or("by count".to_owned(), |ms| format!("{}s", ms as f64 / 1e3))
}

/// `cpu`, `cuda:0`, `metal:0`.
pub fn device(device: &Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        Device::Cuda { index } => format!("cuda:{index}"),
        Device::Metal { index } => format!("metal:{index}"),
    }
}

/// Threads in use, if the engine said so, else what was asked for.
fn threads(spec: &RunSpec, in_use: Option<u32>) -> String {
    match in_use.filter(|n| *n > 0).or(spec.arm.threads) {
        Some(n) => n.to_string(),
        None => "all".to_owned(),
    }
}

fn allow_failures(allowed: &AllowFailures) -> String {
    match allowed {
        AllowFailures::Count { n } => n.to_string(),
        AllowFailures::Percent { percent } => format!("{percent}%"),
    }
}

/// The one value that all have, or all values that occur.
fn one_of<'a, T: Serialize + 'a>(values: impl Iterator<Item = &'a T>) -> Option<String> {
    let mut seen: Vec<String> = Vec::new();
    for value in values {
        let word = words::snake(value);
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen.sort();
    (!seen.is_empty()).then(|| seen.join(" and "))
}
