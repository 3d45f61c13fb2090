//! Flags of the workload and of the arms, with their settings, as a plan's request. No agent, no
//! database; the only I/O is reading `--prompts`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::defaults;
use contracts::generate::SamplingParams;
use contracts::run::{
    AllowFailures, CacheState, Device, Dtype, Endpoint, EngineRef, Limits, Load, PromptSource,
    Workload,
};

use crate::config::Config;
use crate::exit::usage;
use crate::plan::{Order, REPEAT_MAX, RUNS_MAX, Request};
use crate::prompts;
use crate::values::{self, Modes};

/// What is judged.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Arms")]
pub struct ArmArgs {
    /// Chapters, each an arm: 1, ch02, …
    #[arg(long, value_delimiter = ',', value_name = "N[,N…]", value_parser = values::chapter,
          required_unless_present = "engine")]
    chapter: Vec<String>,
    /// Engines that the agent's config names; with --chapter, other builds of ours that run it
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME…]")]
    engine: Vec<String>,
    /// offline (no HTTP), online or both [default: online]
    #[arg(long, value_parser = values::modes)]
    mode: Option<Modes>,
    /// Type of the weights: f32, f16, bf16 [default: f32 on a CPU, as stored otherwise]
    #[arg(long, value_parser = values::dtype)]
    dtype: Option<Dtype>,
    /// cpu, cuda:N or metal:N [default: cpu]
    #[arg(long, value_parser = values::device)]
    device: Option<Device>,
    /// Threads of the engine [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Online: don't ask for a stream
    #[arg(long)]
    no_stream: bool,
    /// An option that only this chapter knows
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair, hide = true)]
    option: Vec<(String, String)>,
    /// Passes over the arms [default: 1]
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// abba (A B, B A, …) or blocked (A A, B B) [default: abba]
    #[arg(long, value_parser = values::order)]
    order: Option<Order>,
}

/// What work is asked.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadArgs {
    /// A directory, a .gguf file, a hub id or dummy:NAME [default: dummy:tiny-llm]
    #[arg(long)]
    model: Option<String>,
    /// The prompt of every request
    #[arg(long, conflicts_with = "prompts")]
    prompt: Option<String>,
    /// Prompts, taken in turn: a line each, or .jsonl with a "prompt" each
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// auto, chat or completions [default: auto, chat if the model has a template]
    #[arg(long, value_parser = values::endpoint)]
    endpoint: Option<Endpoint>,
    /// Ceiling of tokens of an answer [default: 40]
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    /// 0 is greedy [default: 0]
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// Keep the K most likely tokens; -1 keeps all [default: -1]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<i32>,
    /// Keep the most likely tokens up to this probability [default: 1]
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Go on after the end-of-sequence token
    #[arg(long)]
    ignore_eos: bool,
    /// Seed of the draws [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Measured requests of a run [default: 20]
    #[arg(long, visible_alias = "num-prompts", value_name = "N")]
    n_runs: Option<u32>,
    /// Requests before measuring [default: 3]
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// Requests in flight; this version runs one at a time
    #[arg(
        long,
        visible_alias = "max-concurrency",
        value_name = "N",
        default_value_t = 1
    )]
    concurrency: u32,
    /// Failed requests that a run may have: N or P% [default: 0]
    #[arg(long, value_name = "N|P%", value_parser = values::allow_failures)]
    allow_failures: Option<AllowFailures>,
}

/// How long each wait may take.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// A whole request [default: 600s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// Silence within an answer [default: 120s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    stall_timeout: Option<Duration>,
    /// Start of an engine until it is ready [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    ready_timeout: Option<Duration>,
    /// Wait for an agent or a device that is busy [default: 0s, refuse]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    wait: Option<Duration>,
}

/// Joins flags and settings, and refuses what cannot be.
///
/// # Errors
/// Usage errors that name the flag.
pub fn request(
    config: &Config,
    arms: ArmArgs,
    work: WorkloadArgs,
    limits: LimitArgs,
) -> anyhow::Result<Request> {
    if work.concurrency != 1 {
        return Err(usage(format!(
            "--concurrency {}: this version sends one request at a time; leave it out or give 1",
            work.concurrency
        )));
    }
    let repeat = between(
        "--repeat",
        config.required("repeat", arms.repeat, values::number)?,
        1,
        REPEAT_MAX,
    )?;
    let modes = config.required("mode", arms.mode, values::modes)?.list();
    let engines = engines(arms.chapter, arms.engine);
    let runs = engines
        .len()
        .saturating_mul(modes.len())
        .saturating_mul(repeat as usize);
    if runs > RUNS_MAX {
        return Err(usage(format!(
            "{runs} runs are more than {RUNS_MAX}; lower --repeat"
        )));
    }
    let threads = config.optional("threads", arms.threads, values::number)?;
    Ok(Request {
        engines,
        modes,
        dtype: config.optional("dtype", arms.dtype, values::dtype)?,
        device: config.required("device", arms.device, values::device)?,
        threads: threads
            .map(|n| between("--threads", n, 1, u32::MAX))
            .transpose()?,
        stream: !arms.no_stream,
        options: arms.option.into_iter().collect(),
        limits: self::limits(config, limits)?,
        workload: workload(config, work)?,
        repeat,
        order: config.required("order", arms.order, values::order)?,
    })
}

/// Each chapter; or each named engine, with each chapter if there are any.
fn engines(chapters: Vec<String>, names: Vec<String>) -> Vec<EngineRef> {
    if names.is_empty() {
        return chapters
            .into_iter()
            .map(|id| EngineRef::Chapter { id })
            .collect();
    }
    let chapters: Vec<Option<String>> = if chapters.is_empty() {
        vec![None]
    } else {
        chapters.into_iter().map(Some).collect()
    };
    names
        .into_iter()
        .flat_map(|name| {
            chapters
                .iter()
                .map(move |chapter| EngineRef::Named {
                    name: name.clone(),
                    chapter: chapter.clone(),
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn workload(config: &Config, args: WorkloadArgs) -> anyhow::Result<Workload> {
    let n_runs = config.required("n_runs", args.n_runs, values::number)?;
    let warmup = config.required("warmup", args.warmup, values::number)?;
    let prompts = match &args.prompts {
        Some(file) => prompts::texts(file).map_err(|error| usage(format!("--prompts {error}")))?,
        None => prompt(config.required("prompt", args.prompt, values::text)?)?,
    };
    let model = config.required("model", args.model, values::text)?;
    let seed = config.required("seed", args.seed, values::seed)?;
    let max_tokens = config.required("max_tokens", args.max_tokens, values::number)?;
    let sampling = SamplingParams {
        temperature: args.temperature.unwrap_or(0.0),
        top_k: args.top_k.unwrap_or(-1),
        top_p: args.top_p.unwrap_or(1.0),
        ignore_eos: args.ignore_eos,
        max_tokens: between("--max-tokens", max_tokens, 1, u32::MAX)?,
        seed,
        ..SamplingParams::default()
    };
    check_sampling(&sampling)?;
    Ok(Workload {
        model,
        prompts,
        endpoint: config.required("endpoint", args.endpoint, values::endpoint)?,
        sampling,
        load: Load::Closed {
            concurrency: args.concurrency,
        },
        n_runs: between("--n-runs", n_runs, 1, defaults::N_RUNS_MAX)?,
        warmup: between("--warmup", warmup, 0, defaults::WARMUP_MAX)?,
        duration_ms: None,
        cache: CacheState::AsIs,
        tokenizer: None,
        allow_failures: config.required(
            "allow_failures",
            args.allow_failures,
            values::allow_failures,
        )?,
    })
}

fn prompt(text: String) -> anyhow::Result<PromptSource> {
    if text.is_empty() || text.len() > defaults::PROMPT_BYTES_MAX {
        return Err(usage(format!(
            "--prompt: {} bytes; a prompt has 1 to {}",
            text.len(),
            defaults::PROMPT_BYTES_MAX
        )));
    }
    Ok(PromptSource::Texts { texts: vec![text] })
}

fn check_sampling(sampling: &SamplingParams) -> anyhow::Result<()> {
    let SamplingParams {
        temperature,
        top_k,
        top_p,
        ..
    } = sampling;
    if !temperature.is_finite() || *temperature < 0.0 {
        return Err(usage(format!(
            "--temperature {temperature}: give 0 or more"
        )));
    }
    if *top_k < -1 || *top_k == 0 {
        return Err(usage(format!(
            "--top-k {top_k}: give 1 or more, or -1 for all"
        )));
    }
    if !(*top_p > 0.0 && *top_p <= 1.0) {
        return Err(usage(format!(
            "--top-p {top_p}: give more than 0, at most 1"
        )));
    }
    Ok(())
}

fn limits(config: &Config, args: LimitArgs) -> anyhow::Result<Limits> {
    let get = |key: &str, flag: Option<Duration>, least_ms: u64| {
        let duration = config.required(key, flag, values::duration)?;
        let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let most_ms = u64::try_from(defaults::RUN_DEADLINE.as_millis()).unwrap_or(u64::MAX);
        if (least_ms..=most_ms).contains(&ms) {
            return Ok(ms);
        }
        let flag = key.replace('_', "-");
        let hours = defaults::RUN_DEADLINE.as_secs() / 3600;
        Err(usage(format!(
            "--{flag} {ms}ms: give {least_ms}ms to {hours}h"
        )))
    };
    Ok(Limits {
        ready_timeout_ms: get("ready_timeout", args.ready_timeout, 1)?,
        stop_grace_ms: u64::try_from(defaults::STOP_GRACE.as_millis()).unwrap_or(u64::MAX),
        request_timeout_ms: get("timeout", args.timeout, 1)?,
        stall_timeout_ms: get("stall_timeout", args.stall_timeout, 1)?,
        device_wait_ms: get("wait", args.wait, 0)?,
    })
}

fn between(flag: &str, value: u32, least: u32, most: u32) -> anyhow::Result<u32> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(usage(format!("{flag} {value}: give {least} to {most}")))
}
