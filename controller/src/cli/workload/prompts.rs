//! Where prompts come from, and what they do to an engine's caches.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use contracts::defaults::{PROMPT_BYTES_MAX, PROMPTS_MAX};
use contracts::run::{CacheState, Length, PromptSource, SharedPrefix};

use crate::config::Config;
use crate::exit::usage;
use crate::prompts::{self, Dataset, FileError};
use crate::values;

/// Where prompts come from.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Prompts")]
pub struct PromptArgs {
    /// The prompt of every request
    #[arg(long, group = "source")]
    prompt: Option<String>,
    /// Prompts, taken in turn: a line each, or .jsonl with a "prompt" or "messages" each
    #[arg(long, value_name = "FILE", group = "source")]
    prompts: Option<PathBuf>,
    /// Prompts of a data set, drawn by the seed; its answers are the ceilings unless
    /// --max-tokens or --output-len gives one
    #[arg(long, value_name = "sharegpt:FILE", value_parser = values::dataset, group = "source")]
    dataset: Option<PathBuf>,
    /// Make prompts of so many tokens, template included: N, normal:MEAN,SD or uniform:LOW,HIGH
    #[arg(long, visible_alias = "random-input-len", value_name = "TOKENS",
          value_parser = prompts::length, group = "source")]
    input_len: Option<Length>,
    /// Ceiling of an answer, instead of --max-tokens; written as --input-len beside it
    #[arg(long, visible_alias = "random-output-len", value_name = "TOKENS",
          value_parser = prompts::length, conflicts_with_all = ["max_tokens", "trace"])]
    output_len: Option<Length>,
    /// Tokens at the beginning of --input-len that prompts share
    #[arg(
        long,
        visible_alias = "random-prefix-len",
        value_name = "N",
        requires = "input_len"
    )]
    prefix_len: Option<u32>,
    /// Share of the requests that begin with it: 0.5 or 50% [default: all]
    #[arg(long, value_name = "SHARE", value_parser = values::share, requires = "prefix_len")]
    prefix_share: Option<f64>,
    /// Conversations, a request for each turn of a user: .json or .jsonl with "messages" each
    #[arg(long, value_name = "FILE", group = "source")]
    conversations: Option<PathBuf>,
    /// A log of real traffic, sent at its times: .jsonl with timestamp, input_length,
    /// output_length, hash_ids
    #[arg(
        long,
        value_name = "FILE",
        group = "source",
        conflicts_with = "max_tokens"
    )]
    trace: Option<PathBuf>,
    /// cold (no prompt begins as another ever did), as-is or warm [default: as-is for --prompt and
    /// --prompts, else cold]
    #[arg(long, value_parser = values::cache)]
    cache: Option<CacheState>,
}

impl PromptArgs {
    /// Whether the prompts come with times of their own.
    pub fn is_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// The one ceiling of all answers, where `--output-len` names it.
    ///
    /// # Errors
    /// A ceiling that is drawn, for prompts that are not made.
    pub fn ceiling(&self) -> anyhow::Result<Option<u32>> {
        match self.output_len {
            None => Ok(None),
            Some(Length::Fixed { tokens }) => Ok(Some(tokens)),
            Some(_) if self.input_len.is_some() => Ok(None),
            Some(_) => Err(usage(
                "--output-len: lengths are drawn only beside --input-len; give a number of tokens",
            )),
        }
    }
}

/// Prompts, read.
pub struct Prompts {
    pub source: PromptSource,
    pub cache: CacheState,
    /// What of a file was not taken, for people.
    pub note: Option<String>,
}

/// Reads the source that is named; `seed` and `requests` (of one run, at most) say which of a data
/// set are taken; `one_ceiling` says that one is asked for, in place of a data set's answers.
///
/// # Errors
/// Usage errors that name the flag, and the file with the place in it.
pub fn read(
    config: &Config,
    args: &PromptArgs,
    seed: u64,
    requests: u32,
    one_ceiling: bool,
) -> anyhow::Result<Prompts> {
    let in_file = |flag: &str, error: FileError| usage(format!("{flag} {error}"));
    let mut note = None;
    let mut noted = |flag: &str, set: Dataset| {
        note = leftover(flag, &set);
        set.source
    };
    let source = if let Some(file) = &args.prompts {
        prompts::texts(file).map_err(|error| in_file("--prompts", error))?
    } else if let Some(file) = &args.dataset {
        let count = usize::try_from(requests).unwrap_or(usize::MAX);
        let set = prompts::sharegpt(file, seed, count.min(PROMPTS_MAX))
            .map_err(|error| in_file("--dataset", error))?;
        let source = noted("--dataset", set);
        if one_ceiling {
            questions(source)
        } else {
            source
        }
    } else if let Some(file) = &args.conversations {
        let set = prompts::conversations(file).map_err(|e| in_file("--conversations", e))?;
        noted("--conversations", set)
    } else if let Some(file) = &args.trace {
        prompts::trace(file).map_err(|error| in_file("--trace", error))?
    } else if let Some(input) = args.input_len {
        made(args, input)?
    } else {
        given(config.required("prompt", args.prompt.clone(), values::text)?)?
    };
    let usual = match source {
        _ if args.prompts.is_some() => CacheState::AsIs,
        PromptSource::Texts { .. } if args.dataset.is_none() => CacheState::AsIs,
        _ => CacheState::Cold,
    };
    let cache = config.optional("cache", args.cache, values::cache)?;
    Ok(Prompts {
        source,
        cache: cache.unwrap_or(usual),
        note,
    })
}

fn leftover(flag: &str, set: &Dataset) -> Option<String> {
    (set.skipped > 0).then(|| {
        format!(
            "{flag}: {} entries hold no prompt that can be used",
            set.skipped
        )
    })
}

/// A data set whose answers are not the ceilings.
fn questions(source: PromptSource) -> PromptSource {
    match source {
        PromptSource::Pairs { pairs } => PromptSource::Texts {
            texts: pairs.into_iter().map(|pair| pair.prompt).collect(),
        },
        other => other,
    }
}

fn given(text: String) -> anyhow::Result<PromptSource> {
    if text.is_empty() || text.len() > PROMPT_BYTES_MAX {
        return Err(usage(format!(
            "--prompt: {} bytes; a prompt has 1 to {PROMPT_BYTES_MAX}",
            text.len()
        )));
    }
    Ok(PromptSource::Texts { texts: vec![text] })
}

fn made(args: &PromptArgs, input: Length) -> anyhow::Result<PromptSource> {
    let shortest = match input {
        Length::Fixed { tokens } => tokens,
        Length::Uniform { low_tokens, .. } => low_tokens,
        // Its shortest is a matter of the draw; a prompt shorter than the prefix is all prefix.
        Length::Normal { mean_tokens, .. } => mean_tokens as u32,
    };
    let prefix = match args.prefix_len {
        None => None,
        Some(0) => return Err(usage("--prefix-len 0: give 1 or more, or leave it out")),
        Some(tokens) if tokens > shortest => {
            return Err(usage(format!(
                "--prefix-len {tokens}: the prefix is a part of --input-len, which is only {shortest}"
            )));
        }
        Some(tokens) => Some(SharedPrefix {
            tokens,
            share: args.prefix_share.unwrap_or(1.0),
        }),
    };
    Ok(PromptSource::Synthetic {
        input,
        output: args.output_len,
        prefix,
    })
}
