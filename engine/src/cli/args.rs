//! Flags that several commands share, and how their words become contract types.

use std::{collections::BTreeMap, fmt::Display};

use clap::{Args, ValueEnum};
use contracts::{
    defaults,
    run::{Device, Dtype},
};

use super::Failure;
use crate::{
    chapters::{self, Chapter, Setup},
    model::ModelRequest,
};

/// Which engine, over which model, on what.
#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    /// Chapter, as 1, 01 or ch01 (`engine chapters` lists them)
    #[arg(long, default_value = "1")]
    chapter: String,
    /// Directory in Hugging Face layout, .gguf file, hub id, or dummy:NAME
    // The one flag with a variable: what else an agent's environment could change would make two
    // runs of one spec differ.
    #[arg(long, env = "CHAPTERBENCH_MODEL", default_value = defaults::MODEL)]
    model: String,
    /// Type of the weights in memory [default: f32 on a CPU, as stored on a GPU and, by chapters 1 and 2, for GGUF]
    #[arg(long)]
    dtype: Option<DtypeWord>,
    /// Where to compute: cpu, cuda, cuda:N, metal
    #[arg(long, default_value = "cpu", value_parser = parse_device)]
    device: Device,
    /// Threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(defaults::THREADS_MAX)))]
    threads: Option<u32>,
    /// An option of the chapter's own
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = parse_option)]
    options: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DtypeWord {
    F32,
    F16,
    Bf16,
}

/// How a result is printed: for people, as one document with `"schema": 1`, for a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
    Markdown,
}

impl EngineArgs {
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Looks the chapter up and gathers what it is built from.
    pub(super) fn resolve(self) -> Result<(&'static Chapter, Setup), Failure> {
        let chapter = chapters::find(&self.chapter)?;
        let dtype = self.dtype.map(|word| match word {
            DtypeWord::F32 => Dtype::F32,
            DtypeWord::F16 => Dtype::F16,
            DtypeWord::Bf16 => Dtype::Bf16,
        });
        let model = ModelRequest {
            name: self.model,
            dtype,
            device: self.device,
            threads: self.threads,
        };
        Ok((
            chapter,
            Setup {
                model,
                options: each_once("--option", self.options)?,
            },
        ))
    }
}

/// The values that a repeated flag gives by name. Of two for one name neither is taken without a word.
pub(super) fn each_once<N: Ord + Display, V>(
    flag: &str,
    given: Vec<(N, V)>,
) -> Result<BTreeMap<N, V>, Failure> {
    let mut values = BTreeMap::new();
    for (name, value) in given {
        if values.contains_key(&name) {
            return Err(Failure::Usage(format!(
                "{flag} {name} is given more than once"
            )));
        }
        values.insert(name, value);
    }
    Ok(values)
}

/// `cpu`, `cuda`, `cuda:N`, `metal`, `metal:N`.
///
/// # Errors
/// One line with the words that exist.
pub fn parse_device(word: &str) -> Result<Device, String> {
    let (kind, index) = word.split_once(':').unwrap_or((word, "0"));
    let index = index
        .parse()
        .map_err(|_| format!("`{word}`: what follows the colon must be a number"))?;
    match kind {
        "cpu" if kind == word => Ok(Device::Cpu),
        "cuda" => Ok(Device::Cuda { index }),
        "metal" => Ok(Device::Metal { index }),
        _ => Err(format!(
            "`{word}` is none of cpu, cuda, cuda:N, metal, metal:N"
        )),
    }
}

fn parse_option(word: &str) -> Result<(String, String), String> {
    let (name, value) = word
        .split_once('=')
        .ok_or_else(|| format!("`{word}` is not of the form NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn devices_have_these_words_and_no_others() {
        assert_eq!(parse_device("cpu").unwrap(), Device::Cpu);
        assert_eq!(parse_device("cuda").unwrap(), Device::Cuda { index: 0 });
        assert_eq!(parse_device("cuda:3").unwrap(), Device::Cuda { index: 3 });
        assert_eq!(parse_device("metal").unwrap(), Device::Metal { index: 0 });
        for bad in ["", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", "CUDA"] {
            assert!(parse_device(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn an_options_value_may_hold_an_equals_sign() {
        assert_eq!(
            parse_option("a=b=c").unwrap(),
            ("a".to_owned(), "b=c".to_owned())
        );
        assert!(parse_option("a").is_err());
    }
}
