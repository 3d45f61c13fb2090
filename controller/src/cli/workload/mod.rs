//! Flags of `run` that say what is measured, with their settings, as a plan's request: arms, work,
//! prompts, sampling, load, limits, passes, a file each. No agent, no database; the only I/O is reading files that
//! flags name. What else a session needs (agents, label, secrets) is `run`'s.

mod arms;
mod limits;
mod load;
mod prompts;
mod sampling;
mod session;

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::defaults::{MODEL_UNNAMED, N_RUNS_MAX, RUN_DEADLINE};
use contracts::generate::SamplingParams;
use contracts::run::{Endpoint, Load, PromptSource, Workload};

use self::arms::{ArmArgs, Arms, HttpArgs};
use self::limits::LimitArgs;
use self::load::{LoadArgs, Offered};
use self::prompts::PromptArgs;
use self::sampling::SamplingArgs;
use self::session::SessionArgs;
use crate::config::Config;
use crate::exit::usage;
use crate::plan::sweep::Range;
use crate::plan::{Before, RUNS_MAX, Request, slots};
use crate::values;

/// The ids of all flags here, for what goes with none of them.
pub fn flag_ids() -> Vec<clap::Id> {
    let command = AskedArgs::augment_args(clap::Command::new(""));
    let ids = command.get_arguments().map(|arg| arg.get_id().clone());
    ids.collect()
}

/// What one `--arm` takes.
pub use self::arms::arm_command;

/// All that says what is measured.
#[derive(Debug, ClapArgs)]
pub struct AskedArgs {
    #[command(flatten)]
    arms: ArmArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    prompts: PromptArgs,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    session: SessionArgs,
}

/// What a request asks.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Workload")]
struct WorkArgs {
    /// A directory, a .gguf file, a hub id or dummy:NAME; with --url, what the server serves, for
    /// comparing [default: dummy:tiny-llm]
    #[arg(long)]
    model: Option<String>,
    /// Model directory, .gguf file or tokenizer.json that counts tokens for servers of others
    /// [default: the model's, where it can be read]
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<String>,
    /// auto, chat or completions [default: auto, chat if the model has a template]
    #[arg(long, value_parser = values::endpoint)]
    endpoint: Option<Endpoint>,
    /// Ceiling of tokens of an answer [default: 40]
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Seed of the draws: tokens, made prompts, arrivals [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// What is measured, read.
pub struct Asked {
    /// For the plan.
    pub request: Request,
    /// The loads are not listed but found.
    pub sweep: Option<Range>,
    /// What is worth knowing of the files that were read.
    pub note: Option<String>,
}

/// Joins flags and settings, and refuses what cannot be.
///
/// # Errors
/// Usage errors that name the flag.
pub fn asked(config: &Config, args: AskedArgs) -> anyhow::Result<Asked> {
    let passes = session::passes(config, &args.session)?;
    let arms = arms::arms(config, args.arms, &args.http)?;
    let trace = args.prompts.is_trace();
    let offered = load::offered(config, args.load, &arms, passes.repeat, trace)?;
    let (workload, note) = workload(config, args.work, &args.prompts, &arms, &offered)?;
    let runs = arms
        .arms
        .len()
        .saturating_mul(offered.loads.len())
        .saturating_mul(passes.repeat as usize);
    if runs > RUNS_MAX {
        return Err(usage(format!(
            "{runs} runs are more than {RUNS_MAX}; lower --repeat"
        )));
    }
    Ok(Asked {
        request: Request {
            arms: arms.arms,
            workload,
            loads: offered.loads,
            slo: offered.slo,
            limits: limits::limits(config, args.limits)?,
            repeat: passes.repeat,
            order: passes.order,
            order_seed: passes.order_seed,
            max_extend: passes.max_extend,
            cooldown: passes.cooldown,
            before: Before::default(),
        },
        sweep: offered.sweep,
        note,
    })
}

/// What may be said of a session that is extended: passes, where they are named, and the pause
/// between runs.
///
/// # Errors
/// Usage errors that name the flag.
pub fn again(config: &Config, args: &AskedArgs) -> anyhow::Result<(Option<u32>, Duration)> {
    session::again(config, &args.session)
}

fn workload(
    config: &Config,
    args: WorkArgs,
    prompt_args: &PromptArgs,
    arms: &Arms,
    offered: &Offered,
) -> anyhow::Result<(Workload, Option<String>)> {
    let usual = config.required("n_runs", None, values::number)?;
    let counted = between("--n-runs", offered.n_runs.unwrap_or(usual), 1, N_RUNS_MAX)?;
    let most = match (offered.duration_ms, offered.sweep) {
        (None, None) => counted,
        _ => N_RUNS_MAX,
    };
    let warmup = offered.loads.iter().filter_map(slots).max();
    let requests = most.max(offered.warmup).max(warmup.unwrap_or(0));
    let seed = config.required("seed", args.seed, values::seed)?;
    let ceiling = prompt_args.ceiling()?;
    let one_ceiling = ceiling.or(args.max_tokens).is_some();
    let prompts = prompts::read(config, prompt_args, seed, requests, one_ceiling)?;
    let n_runs = match (&prompts.source, offered.n_runs) {
        (PromptSource::Trace { requests }, None) => {
            u32::try_from(requests.len()).unwrap_or(u32::MAX)
        }
        _ => counted,
    };
    let ceiling = ceiling.or(args.max_tokens);
    let sampling = sampling(config, args.sampling, ceiling, seed)?;
    let workload = Workload {
        model: model(config, args.model, arms)?,
        prompts: prompts.source,
        endpoint: config.required("endpoint", args.endpoint, values::endpoint)?,
        sampling,
        load: offered
            .loads
            .first()
            .cloned()
            .unwrap_or(Load::Closed { concurrency: 1 }),
        n_runs,
        duration_ms: offered.duration_ms,
        warmup: offered.warmup,
        cache: prompts.cache,
        tokenizer: config.optional("tokenizer", args.tokenizer, values::text)?,
        allow_failures: offered.allow_failures,
    };
    if arms.online() {
        sendable(&workload)?;
    }
    Ok((workload, prompts.note))
}

/// A schedule is no longer than a `--duration` may be. Its load is the slowest of those asked for.
fn sendable(workload: &Workload) -> anyhow::Result<()> {
    let Some(sending) = workload.sending().filter(|time| *time > RUN_DEADLINE) else {
        return Ok(());
    };
    let what = match &workload.load {
        Load::Open { rate_per_s, .. } => format!("--rate {rate_per_s}"),
        _ => "--trace".to_owned(),
    };
    Err(usage(format!(
        "{what}: sending {} of warm-up and the measured requests would take {:.0}h; a run sends for at most {}h: lower --n-runs and --warmup, or give --duration",
        workload.warmup,
        sending.as_secs_f64() / 3600.0,
        RUN_DEADLINE.as_secs() / 3600,
    )))
}

/// What runs, or what a server is said to run: our default model is not what others serve.
fn model(config: &Config, flag: Option<String>, arms: &Arms) -> anyhow::Result<String> {
    if !arms.is_url() {
        return config.required("model", flag, values::text);
    }
    let named = config.chosen("model", flag, values::text)?;
    Ok(named
        .or_else(|| arms.served_name())
        .unwrap_or_else(|| MODEL_UNNAMED.to_owned()))
}

fn sampling(
    config: &Config,
    args: SamplingArgs,
    max_tokens: Option<u32>,
    seed: u64,
) -> anyhow::Result<SamplingParams> {
    let max_tokens = match max_tokens {
        Some(tokens) => tokens,
        None => config.required("max_tokens", None, values::number)?,
    };
    sampling::sampling(
        args,
        between("--max-tokens", max_tokens, 1, u32::MAX)?,
        seed,
    )
}

fn between(flag: &str, value: u32, least: u32, most: u32) -> anyhow::Result<u32> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(usage(format!("{flag} {value}: give {least} to {most}")))
}
