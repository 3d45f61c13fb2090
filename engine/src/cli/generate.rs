//! `engine generate`: one prompt, one answer.

use std::io::{self, Write};

use contracts::{
    SCHEMA, defaults,
    generate::{FinishReason, GenerateResult, SamplingParams},
    openai::ChatMessage,
};
use serde_json::{Value, json};

use super::{
    Failure,
    args::{EngineArgs, Format, each_once},
};
use crate::{
    chapters::{Engine, StepEvent},
    error::EngineError,
    sampling,
    text::Input,
};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to answer
    #[arg(default_value = defaults::PROMPT)]
    prompt: String,
    #[command(flatten)]
    engine: EngineArgs,
    /// Ceiling of the answer, in tokens
    #[arg(long, default_value_t = defaults::MAX_TOKENS, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// 0 takes the most likely token
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Draw among the K most likely tokens; -1 among all
    #[arg(long, default_value_t = -1, allow_negative_numbers = true)]
    top_k: i32,
    /// Draw among the fewest tokens whose probability reaches P
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Draw among tokens of at least this share of the best one's probability
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    min_p: f32,
    /// Divides the logits of tokens that the prompt or the answer has; 1 is off
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    repetition_penalty: f32,
    /// Taken once from the logits of tokens that the answer has
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    presence_penalty: f32,
    /// Taken from the logits of tokens for each time that the answer has them
    #[arg(
        long,
        value_name = "X",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    frequency_penalty: f32,
    /// Added to a token's logit; may be given several times
    #[arg(long, value_name = "ID=BIAS", value_parser = parse_bias)]
    logit_bias: Vec<(u32, f32)>,
    /// End the answer before this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Give each token's log probability, and those of the N best (in --format json)
    #[arg(long, value_name = "N")]
    logprobs: Option<u32>,
    /// Go on after the end-of-sequence token
    #[arg(long)]
    ignore_eos: bool,
    /// Seed of the draws
    #[arg(long, default_value_t = defaults::SEED)]
    seed: u64,
    /// Leave the chat template out
    #[arg(long)]
    raw: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let params = SamplingParams {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        min_p: args.min_p,
        repetition_penalty: args.repetition_penalty,
        presence_penalty: args.presence_penalty,
        frequency_penalty: args.frequency_penalty,
        logit_bias: each_once("--logit-bias", args.logit_bias)?,
        stop: args.stop,
        logprobs: args.logprobs,
        ignore_eos: args.ignore_eos,
        max_tokens: args.max_tokens,
        seed: args.seed,
    };
    // Before the model is loaded, which may take a while.
    sampling::check(&params)?;
    let (chapter, setup) = args.engine.resolve()?;
    let mut engine = (chapter.build)(setup)?;
    let input = if engine.facts().chat_template && !args.raw {
        Input::Chat(vec![ChatMessage {
            role: "user".to_owned(),
            content: Value::String(args.prompt),
        }])
    } else {
        Input::Text(args.prompt)
    };
    let mut stdout = io::stdout().lock();
    match args.format {
        Format::Text => {
            let mut sent_bytes = 0;
            let result = drive(&mut *engine, &input, &params, |piece| {
                sent_bytes += piece.len();
                stdout.write_all(piece.as_bytes())?;
                stdout.flush()
            })?;
            // All of it where the chapter does not stream.
            stdout.write_all(result.text.as_bytes().get(sent_bytes..).unwrap_or_default())?;
            stdout.write_all(b"\n")?;
            stdout.flush()?;
            tracing::info!("{}", summary(&result));
        }
        Format::Json => {
            let result = drive(&mut *engine, &input, &params, |_| Ok(()))?;
            let mut document = json!({
                "schema": SCHEMA,
                "chapter": chapter.id,
                "model": engine.facts(),
                "input_ids": result.input_ids,
                "output_ids": result.output_ids,
                "text": result.text,
                "finish_reason": result.finish_reason,
                "metrics": result.metrics,
            });
            if let Some(logprobs) = &result.logprobs {
                document["logprobs"] = json!(logprobs);
            }
            writeln!(stdout, "{document:#}")?;
        }
        Format::Markdown => {
            let result = drive(&mut *engine, &input, &params, |_| Ok(()))?;
            stdout.write_all(markdown(chapter.id, &engine.facts().name, &result).as_bytes())?;
        }
    }
    Ok(stdout.flush()?)
}

fn parse_bias(word: &str) -> Result<(u32, f32), String> {
    let read = |(id, bias): (&str, &str)| Some((id.parse().ok()?, bias.parse().ok()?));
    word.split_once('=')
        .and_then(read)
        .ok_or_else(|| format!("`{word}` is not a token id, `=` and a number, like 5=-100"))
}

/// Runs one request step by step, so that text can be shown as it comes.
fn drive(
    engine: &mut dyn Engine,
    input: &Input,
    params: &SamplingParams,
    mut show: impl FnMut(&str) -> io::Result<()>,
) -> Result<GenerateResult, Failure> {
    engine.submit(0, input, params)?;
    while !engine.is_idle() {
        for event in engine.step() {
            match event {
                StepEvent::Token { text, .. } => show(&text)?,
                StepEvent::Finished { result, .. } => return Ok(result?),
            }
        }
    }
    Err(EngineError::Internal("the engine forgot the request".to_owned()).into())
}

fn reason(result: &GenerateResult) -> &'static str {
    match result.finish_reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}

fn summary(result: &GenerateResult) -> String {
    let metrics = &result.metrics;
    let mut line = format!(
        "{} tokens in {:.0} ms, {:.1} tok/s, finish reason {}",
        metrics.output_tokens,
        metrics.wall_ms,
        metrics.throughput,
        reason(result)
    );
    if metrics.ttft_ms > 0.0 {
        line += &format!(", TTFT {:.1} ms", metrics.ttft_ms);
    }
    if metrics.tpot_ms > 0.0 {
        line += &format!(", TPOT {:.2} ms", metrics.tpot_ms);
    }
    line
}

fn markdown(chapter: &str, model: &str, result: &GenerateResult) -> String {
    let metrics = &result.metrics;
    let mut page = format!("## {chapter} over {model}\n\n");
    for line in result.text.lines() {
        page += &format!("> {line}\n");
    }
    page += &format!(
        "\n| input tokens | output tokens | finish reason | wall ms | tok/s |\n|---|---|---|---|---|\n| {} | {} | {} | {:.1} | {:.1} |\n",
        metrics.input_tokens,
        metrics.output_tokens,
        reason(result),
        metrics.wall_ms,
        metrics.throughput
    );
    page
}
