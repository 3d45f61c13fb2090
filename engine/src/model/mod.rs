//! Models: from a name to a forward pass, a tokenizer and the facts about both.
//!
//! One file per step: [`source`] says what a name means, [`hub`] fetches, [`config`] reads the
//! shape or refuses, [`weights`], [`gguf`] and [`dummy`] hold the numbers, [`open`] puts these
//! together for whoever runs them, [`identity`] names them. Of those who run them one is here,
//! [`forward`] over candle's own models, with [`candle_limits`]; the other is [`crate::decoder`].
//! What a chapter does with a model is left to [`crate::chapters`].

pub mod candle_limits;
pub mod config;
pub mod device;
pub mod dummy;
mod fields;
pub mod forward;
pub mod gguf;
mod gguf_metadata;
pub mod hub;
pub mod identity;
pub mod open;
pub mod rope;
pub mod rope_table;
pub mod rows;
pub mod source;
pub mod tensors;
pub mod weights;

use std::path::{Path, PathBuf};

use contracts::run::{Device, Dtype, ModelFacts};

use self::{
    config::Config, forward::Forward, gguf::Gguf, identity::FileHashes, open::Runner,
    source::Source,
};
use crate::{
    error::EngineError,
    text::{Text, TextFiles},
};

/// A config is text of a few kilobytes; more is no config.
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// Which model, and how to hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    /// A directory, a `.gguf` file, a hub id, or `dummy:NAME`.
    pub name: String,
    /// Type of the weights in memory; none is f32 on the CPU and as stored elsewhere, and as stored
    /// for a `.gguf` file, which our decoder refuses.
    pub dtype: Option<Dtype>,
    /// Where to compute.
    pub device: Device,
    /// Threads to compute with, fixed by the first request of a process that names a number.
    pub threads: Option<u32>,
}

/// A model ready to run in candle's own code.
pub struct Loaded {
    /// Its tokenizer and chat template.
    pub text: Text,
    /// What it is.
    pub facts: ModelFacts,
    /// Its forward pass.
    pub forward: Forward,
}

/// Loads a model for candle's own code.
///
/// # Errors
/// A model that is missing, damaged, or that cannot be run right; a device that cannot be used.
pub fn load(request: &ModelRequest) -> Result<Loaded, EngineError> {
    if request.dtype.is_none()
        && let Source::Gguf(path) = Source::of(&request.name)?
    {
        return load_as_stored(request, &path);
    }
    let opened = open::open(request, Runner::Candle)?;
    let forward = Forward::new(&opened.config, opened.weights, opened.dtype, &opened.device)?;
    Ok(Loaded {
        text: opened.text,
        facts: opened.facts,
        forward,
    })
}

/// A `.gguf` file whose weights stay as they are.
fn load_as_stored(request: &ModelRequest, path: &Path) -> Result<Loaded, EngineError> {
    let threads = device::set_threads(request.threads)?;
    let device = device::open(request.device)?;
    let model = &request.name;
    let gguf = Gguf::open(path, model)?;
    let text = Text::from_gguf(model, gguf.metadata())?;
    check_vocabulary(gguf.config(), &text, model)?;
    let sha256 = gguf_sha256(path, model)?;
    let config = Config {
        context: gguf.context_as_stored(),
        ..gguf.config().clone()
    };
    let weights = format!("{} as stored", gguf.stored_type());
    let forward = gguf.as_stored(&device)?;
    Ok(Loaded {
        facts: facts(request, &config, &text, sha256, weights, threads),
        text,
        forward,
    })
}

/// Config and tokenizer of a directory, agreeing with each other.
pub(crate) fn open_directory(
    dir: &Path,
    model: &str,
) -> Result<(Config, String, Text), EngineError> {
    let path = dir.join("config.json");
    let failed = |error: String| EngineError::model(model, format!("config.json: {error}"));
    let metadata = path.metadata().map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("not a file".to_owned()));
    }
    if metadata.len() > CONFIG_BYTES_MAX {
        return Err(failed(format!(
            "{} bytes are more than a config can have",
            metadata.len()
        )));
    }
    let bytes = std::fs::read(&path).map_err(|error| failed(error.to_string()))?;
    let config = Config::parse(&bytes, model)?;
    let text = Text::from_files(model, &TextFiles::in_dir(dir))?;
    check_vocabulary(&config, &text, model)?;
    Ok((config, identity::of_bytes(&bytes), text))
}

/// A larger embedding than tokenizer is padding, and normal; a smaller one could not take its ids.
pub(crate) fn check_vocabulary(
    config: &Config,
    text: &Text,
    model: &str,
) -> Result<(), EngineError> {
    if text.vocab_size() <= config.vocab {
        return Ok(());
    }
    Err(EngineError::Unsupported {
        what: format!("model {model}: vocab_size = {}", config.vocab),
        why: format!(
            "its tokenizer has {} tokens, more than the model",
            text.vocab_size()
        ),
    })
}

/// What a `.gguf` file is, whoever loads it.
pub(crate) fn gguf_sha256(path: &Path, model: &str) -> Result<String, EngineError> {
    let mut hashes = FileHashes::open();
    let sha256 = hashes.of_file(path, model)?;
    hashes.save();
    Ok(identity::of_parts([("gguf", sha256)]))
}

/// What the model in a directory is, whoever loads it.
pub(crate) fn directory_sha256(
    config_sha256: String,
    text: &Text,
    weights: &[PathBuf],
    model: &str,
) -> Result<String, EngineError> {
    let mut hashes = FileHashes::open();
    let mut parts = vec![
        ("config", config_sha256),
        ("tokenizer", text.sha256().to_owned()),
    ];
    for file in weights {
        parts.push(("weights", hashes.of_file(file, model)?));
    }
    hashes.save();
    Ok(identity::of_parts(parts))
}

fn facts(
    request: &ModelRequest,
    config: &Config,
    text: &Text,
    sha256: String,
    weights: String,
    threads: u32,
) -> ModelFacts {
    ModelFacts {
        name: request.name.clone(),
        family: config.family.name().to_owned(),
        sha256,
        tokenizer_sha256: text.sha256().to_owned(),
        parameters: tensors::parameters(config),
        weights,
        context_tokens: u32::try_from(config.context).unwrap_or(u32::MAX),
        threads,
        chat_template: text.has_template(),
    }
}
