//! The smallest greedy loop over candle-transformers' Llama: what ch01 and ch02 are held against.
//!
//! `bare_loop MODEL_DIRECTORY IDS N`: prompt ids as a JSON list, N tokens, EOS ignored. Prints one
//! JSON line with `wall_ms` of prefill and decode, and the ids. Nothing of our engine is used.

use std::{io::Write, path::PathBuf, time::Instant};

use anyhow::{Context, Result};
use candle_core::{D, DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: bare_loop MODEL_DIRECTORY IDS N";
    let directory = PathBuf::from(args.next().context(usage)?);
    let ids: Vec<u32> = serde_json::from_str(&args.next().context(usage)?)?;
    let count: usize = args.next().context(usage)?.parse()?;

    let device = Device::Cpu;
    let config: LlamaConfig =
        serde_json::from_slice(&std::fs::read(directory.join("config.json"))?)?;
    let config = config.into_config(false);
    // SAFETY: the file is not written while this program runs.
    let weights = unsafe {
        VarBuilder::from_mmaped_safetensors(
            &[directory.join("model.safetensors")],
            DType::F32,
            &device,
        )?
    };
    let model = Llama::load(weights, &config)?;

    // Two passes: the first touches every weight page and is not reported.
    generate(&model, &config, &ids, count)?;
    let started = Instant::now();
    let made = generate(&model, &config, &ids, count)?;
    let wall_ms = started.elapsed().as_secs_f64() * 1000.0;
    let line = serde_json::json!({ "wall_ms": wall_ms, "output_ids": made });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

fn generate(
    model: &Llama,
    config: &candle_transformers::models::llama::Config,
    ids: &[u32],
    count: usize,
) -> Result<Vec<u32>> {
    let device = Device::Cpu;
    let mut cache = Cache::new(true, DType::F32, config, &device)?;
    let mut made = Vec::with_capacity(count);
    let mut input = ids.to_vec();
    let mut position = 0;
    while made.len() < count {
        let tensor = Tensor::new(input.as_slice(), &device)?.unsqueeze(0)?;
        let logits = model.forward(&tensor, position, &mut cache)?;
        position += input.len();
        let token = logits.argmax(D::Minus1)?.squeeze(0)?.to_scalar::<u32>()?;
        made.push(token);
        input = vec![token];
    }
    Ok(made)
}
