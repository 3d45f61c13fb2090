//! Flags that say how tokens are chosen and when an answer ends, as sampling parameters.
//!
//! Bias and log probabilities have no flag: they hold for one model's token ids, or change what an
//! answer carries and not what is measured.

use clap::Args as ClapArgs;
use contracts::defaults::{PENALTY_MAX, STOP_BYTES_MAX, STOPS_MAX};
use contracts::generate::SamplingParams;

use crate::exit::usage;

/// How tokens are chosen. Names are vLLM's where it has the flag.
#[derive(Debug, ClapArgs)]
pub struct SamplingArgs {
    /// 0 is greedy [default: 0]
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,
    /// Keep the K most likely tokens; -1 keeps all [default: -1]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    top_k: Option<i32>,
    /// Keep the most likely tokens up to this probability [default: 1]
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,
    /// Keep tokens of at least this share of the best one's probability [default: 0]
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,
    /// Divides the logits of tokens that the prompt or the answer has [default: 1]
    #[arg(long, value_name = "X")]
    repetition_penalty: Option<f32>,
    /// Taken once from the logits of tokens that the answer has [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: Option<f32>,
    /// Taken from the logits of tokens for each time that the answer has them [default: 0]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: Option<f32>,
    /// End an answer before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Go on after the end-of-sequence token
    #[arg(long)]
    ignore_eos: bool,
}

/// The parameters, checked.
///
/// # Errors
/// Usage errors that name the flag.
pub fn sampling(args: SamplingArgs, max_tokens: u32, seed: u64) -> anyhow::Result<SamplingParams> {
    let plain = SamplingParams::default();
    let sampling = SamplingParams {
        temperature: args.temperature.unwrap_or(plain.temperature),
        top_k: args.top_k.unwrap_or(plain.top_k),
        top_p: args.top_p.unwrap_or(plain.top_p),
        min_p: args.min_p.unwrap_or(plain.min_p),
        repetition_penalty: args.repetition_penalty.unwrap_or(plain.repetition_penalty),
        presence_penalty: args.presence_penalty.unwrap_or(plain.presence_penalty),
        frequency_penalty: args.frequency_penalty.unwrap_or(plain.frequency_penalty),
        stop: args.stop,
        ignore_eos: args.ignore_eos,
        max_tokens,
        seed,
        ..plain
    };
    check(&sampling)?;
    Ok(sampling)
}

fn check(sampling: &SamplingParams) -> anyhow::Result<()> {
    let SamplingParams {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
        stop,
        ..
    } = sampling;
    let require = |holds: bool, given: String, give: &str| match holds {
        true => Ok(()),
        false => Err(usage(format!("{given}: give {give}"))),
    };
    require(
        temperature.is_finite() && *temperature >= 0.0,
        format!("--temperature {temperature}"),
        "0 or more",
    )?;
    require(
        *top_k == -1 || *top_k >= 1,
        format!("--top-k {top_k}"),
        "1 or more, or -1 for all",
    )?;
    require(
        *top_p > 0.0 && *top_p <= 1.0,
        format!("--top-p {top_p}"),
        "more than 0, at most 1",
    )?;
    require(
        (0.0..=1.0).contains(min_p),
        format!("--min-p {min_p}"),
        "0 to 1",
    )?;
    require(
        repetition_penalty.is_finite() && *repetition_penalty > 0.0,
        format!("--repetition-penalty {repetition_penalty}"),
        "more than 0",
    )?;
    for (flag, penalty) in [
        ("--presence-penalty", presence_penalty),
        ("--frequency-penalty", frequency_penalty),
    ] {
        require(
            penalty.abs() <= PENALTY_MAX,
            format!("{flag} {penalty}"),
            "-2 to 2",
        )?;
    }
    require(
        !stop.iter().any(String::is_empty),
        "--stop ''".to_owned(),
        "a text",
    )?;
    require(
        stop.len() <= STOPS_MAX,
        format!("--stop, {} times", stop.len()),
        &format!("at most {STOPS_MAX}"),
    )?;
    let longest = stop.iter().map(String::len).max().unwrap_or(0);
    require(
        longest <= STOP_BYTES_MAX,
        format!("--stop of {longest} bytes"),
        &format!("at most {STOP_BYTES_MAX}"),
    )
}
