//! One chapter, loaded once and asked again and again by `benches/engines.py` and
//! `benches/soak.py`: prefill and decode of given token ids, without HTTP, tokenizer or agent.
//!
//! usage: chapter_speed --chapter N --model M [--dtype D] [--threads N] [--option k=v]…
//!
//! When the model is loaded, one JSON line on stdout: `load_ms`, `rss_bytes`, `rss_peak_bytes`.
//! Then one line for each line on stdin, `{"prompts": [[id, …], …], "new_tokens": n}`, which are
//! submitted together; between two of them it sleeps in a read, so that others can be measured
//! while it stays loaded. Greedy, the stop token ignored.
//!
//! * `ttft_ms`: from the submit to the last row's first token, which for one row is the prompt's
//!   forward pass and the choice of a token.
//! * `decode_tok_per_s`: the tokens of all rows after that instant over the time they took.
//! * A chapter that hands out no tokens under way (ch01) is asked twice, the first time for one
//!   token: its `ttft_ms` is the wall time of that, and decode is what the second took longer.
//!
//! The drivers of other engines (`benches/peers/`) speak the same lines.

use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    time::Instant,
};

use anyhow::{Context, Result, bail, ensure};
use contracts::{generate::SamplingParams, run::Device};
use engine::{
    chapters::{self, Engine, Setup, StepEvent},
    model::ModelRequest,
    text::Input,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// One line of stdin.
#[derive(Deserialize)]
struct Ask {
    prompts: Vec<Vec<u32>>,
    new_tokens: u32,
}

/// What one batch came to; instants in ms from its submit.
struct Made {
    first_ms: f64,
    wall_ms: f64,
    /// Tokens of all rows after `first_ms`.
    after_first: usize,
    output_ids: Vec<Vec<u32>>,
}

fn main() -> Result<()> {
    let (name, setup) = setup(std::env::args().skip(1))?;
    let chapter = chapters::find(&name)?;
    let started = Instant::now();
    let mut engine = (chapter.build)(setup)?;
    let ready = json!({
        "load_ms": ms_since(started),
        "rss_bytes": memory("VmRSS:")?,
        "rss_peak_bytes": memory("VmHWM:")?,
        "context_tokens": engine.facts().context_tokens,
    });
    say(&ready)?;
    for line in std::io::stdin().lock().lines() {
        let ask: Ask = serde_json::from_str(&line?).context("stdin: not a request")?;
        let answer = match chapter.streams {
            true => streamed(&mut *engine, &ask)?,
            false => by_difference(&mut *engine, &ask)?,
        };
        say(&answer)?;
    }
    Ok(())
}

fn streamed(engine: &mut dyn Engine, ask: &Ask) -> Result<Value> {
    let made = batch(engine, &ask.prompts, ask.new_tokens)?;
    let decode_s = (made.wall_ms - made.first_ms) / 1e3;
    Ok(answer(
        made.first_ms,
        made.after_first as f64 / decode_s,
        &made,
    ))
}

/// For a chapter whose tokens come all at once, one row after another.
fn by_difference(engine: &mut dyn Engine, ask: &Ask) -> Result<Value> {
    let first = batch(engine, &ask.prompts, 1)?;
    let made = batch(engine, &ask.prompts, ask.new_tokens)?;
    let after_first = ask.prompts.len() * (ask.new_tokens as usize - 1);
    let decode_s = (made.wall_ms - first.wall_ms) / 1e3;
    Ok(answer(first.wall_ms, after_first as f64 / decode_s, &made))
}

fn answer(ttft_ms: f64, decode_tok_per_s: f64, made: &Made) -> Value {
    json!({
        "ttft_ms": ttft_ms,
        "decode_tok_per_s": decode_tok_per_s,
        "wall_ms": made.wall_ms,
        "output_ids": made.output_ids,
    })
}

/// Submits all rows and steps until the last has ended.
fn batch(engine: &mut dyn Engine, prompts: &[Vec<u32>], new_tokens: u32) -> Result<Made> {
    ensure!(
        !prompts.is_empty() && new_tokens > 0,
        "stdin: no prompts, or no new_tokens"
    );
    let params = SamplingParams {
        max_tokens: new_tokens,
        ignore_eos: true,
        ..SamplingParams::default()
    };
    let started = Instant::now();
    for (id, prompt) in (0..).zip(prompts) {
        engine.submit(id, &Input::Ids(prompt.clone()), &params)?;
    }
    let mut waiting: Vec<bool> = vec![true; prompts.len()];
    let mut output_ids = vec![Vec::new(); prompts.len()];
    let (mut first_ms, mut after_first) = (0.0, 0);
    while !engine.is_idle() {
        let all_began = !waiting.contains(&true);
        for event in engine.step() {
            match event {
                StepEvent::Token { id, .. } => {
                    after_first += usize::from(all_began);
                    if let Some(waits) = waiting.get_mut(id as usize) {
                        *waits = false;
                    }
                }
                StepEvent::Finished { id, result } => {
                    let row = output_ids.get_mut(id as usize).context("an unknown row")?;
                    *row = result?.output_ids;
                }
            }
        }
        if !all_began && !waiting.contains(&true) {
            first_ms = ms_since(started);
        }
    }
    let wall_ms = ms_since(started);
    for row in &output_ids {
        ensure!(
            row.len() == new_tokens as usize,
            "{} tokens of {new_tokens} came",
            row.len()
        );
    }
    Ok(Made {
        first_ms,
        wall_ms,
        after_first,
        output_ids,
    })
}

fn setup(mut words: impl Iterator<Item = String>) -> Result<(String, Setup)> {
    let mut flags = BTreeMap::new();
    let mut options = BTreeMap::new();
    while let Some(flag) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{flag} needs a value"))?;
        match flag.as_str() {
            "--option" => {
                let (name, value) = value.split_once('=').context("--option: not k=v")?;
                options.insert(name.to_owned(), value.to_owned());
            }
            "--chapter" | "--model" | "--dtype" | "--threads" => {
                flags.insert(flag, value);
            }
            _ => bail!("{flag} is no flag of this program"),
        }
    }
    let mut take = |flag: &str| flags.remove(flag);
    let chapter = take("--chapter").context("--chapter is missing")?;
    let name = take("--model").context("--model is missing")?;
    let dtype = take("--dtype").map(|word| serde_json::from_value(Value::String(word)));
    let threads = take("--threads").map(|word| word.parse());
    let model = ModelRequest {
        name,
        dtype: dtype.transpose().context("--dtype")?,
        device: Device::Cpu,
        threads: threads.transpose().context("--threads")?,
    };
    Ok((chapter, Setup { model, options }))
}

/// A size of this process in bytes, as the kernel counts it.
fn memory(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.split_whitespace().next());
    Ok(kib
        .context("/proc/self/status: no such field")?
        .parse::<u64>()?
        * 1024)
}

fn ms_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

fn say(line: &Value) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    Ok(stdout.flush()?)
}
