//! Models: from a name to a forward pass, a tokenizer and the facts about both.
//!
//! One file per step: [`source`] says what a name means, [`hub`] fetches, [`config`] reads the
//! shape or refuses, [`candle_limits`] what only candle's models can't run, [`weights`], [`gguf`] and [`dummy`] hold the numbers, [`forward`] runs them,
//! [`identity`] names them. What a chapter does with a model is left to [`crate::chapters`].

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
pub mod rope;
pub mod rope_table;
pub mod source;
pub mod tensors;
pub mod weights;

use std::path::{Path, PathBuf};

use candle_core::DType;
use contracts::run::{Device, Dtype, ModelFacts};

use self::{
    config::Config, dummy::DummyWeights, forward::Forward, gguf::Gguf, identity::FileHashes,
    source::Source, weights::Weights,
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
    /// for a `.gguf` file.
    pub dtype: Option<Dtype>,
    /// Where to compute.
    pub device: Device,
    /// Threads to compute with, fixed by the first request of a process that names a number.
    pub threads: Option<u32>,
}

/// A model ready to run.
pub struct Loaded {
    /// Its tokenizer and chat template.
    pub text: Text,
    /// What it is.
    pub facts: ModelFacts,
    /// Its forward pass.
    pub forward: Forward,
}

/// Loads a model.
pub fn load(request: &ModelRequest) -> Result<Loaded, EngineError> {
    let threads = device::set_threads(request.threads)?;
    let device = device::open(request.device)?;
    let loaded = match Source::of(&request.name)? {
        Source::Dummy(name) => load_dummy(request, &name, &device)?,
        Source::Directory(dir) => load_directory(request, &dir, &device)?,
        Source::Hub(id) => load_directory(
            request,
            &hub::all_files(&hub::HubEnv::from_process()?, &id)?,
            &device,
        )?,
        Source::Gguf(path) => load_gguf(request, &path, &device)?,
    };
    let facts = ModelFacts {
        threads,
        ..loaded.facts
    };
    Ok(Loaded { facts, ..loaded })
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

fn load_directory(
    request: &ModelRequest,
    dir: &Path,
    device: &candle_core::Device,
) -> Result<Loaded, EngineError> {
    let model = &request.name;
    let (config, config_sha256, text) = open_directory(dir, model)?;
    candle_limits::check(&config, model)?;
    let files = weights::files(dir, model)?;
    let weights = Weights::open(&files, &config, model)?;
    let sha256 = directory_sha256(config_sha256, &text, &files, model)?;
    let dtype = candle_limits::dtype(request.dtype, device, config.family, weights.stored_dtype())?;
    let facts = facts(
        request,
        &config,
        &text,
        sha256,
        device::name(dtype).to_owned(),
    );
    let forward = Forward::new(&config, Box::new(weights), dtype, device)?;
    Ok(Loaded {
        text,
        facts,
        forward,
    })
}

fn load_gguf(
    request: &ModelRequest,
    path: &Path,
    device: &candle_core::Device,
) -> Result<Loaded, EngineError> {
    let model = &request.name;
    let gguf = Gguf::open(path, model)?;
    let text = Text::from_gguf(model, gguf.metadata())?;
    check_vocabulary(gguf.config(), &text, model)?;
    let sha256 = gguf_sha256(path, model)?;
    let stored = gguf.stored_type();
    let mut config = gguf.config().clone();
    let (forward, weights) = match request.dtype {
        None => {
            config.context = gguf.context_as_stored();
            (gguf.as_stored(device)?, format!("{stored} as stored"))
        }
        Some(_) => {
            let dtype = candle_limits::dtype(request.dtype, device, config.family, DType::F32)?;
            let forward = Forward::new(&config, Box::new(gguf.dequantised()?), dtype, device)?;
            (forward, format!("{} from {stored}", device::name(dtype)))
        }
    };
    let facts = facts(request, &config, &text, sha256, weights);
    Ok(Loaded {
        text,
        facts,
        forward,
    })
}

fn load_dummy(
    request: &ModelRequest,
    name: &str,
    device: &candle_core::Device,
) -> Result<Loaded, EngineError> {
    let config = dummy::config(name)?;
    let text = Text::made(config.vocab)?;
    let dtype = candle_limits::dtype(request.dtype, device, config.family, DType::F32)?;
    // The weights follow from the name, the rules that make them, and the tokenizer's visible ids.
    let sha256 = identity::of_parts([
        (
            "dummy",
            identity::of_bytes(format!("{name} {}", dummy::GENERATION).as_bytes()),
        ),
        ("tokenizer", text.sha256().to_owned()),
    ]);
    let facts = facts(
        request,
        &config,
        &text,
        sha256,
        device::name(dtype).to_owned(),
    );
    let forward = Forward::new(
        &config,
        Box::new(DummyWeights::new(&config, &text)),
        dtype,
        device,
    )?;
    Ok(Loaded {
        text,
        facts,
        forward,
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
) -> ModelFacts {
    ModelFacts {
        name: request.name.clone(),
        family: config.family.name().to_owned(),
        sha256,
        tokenizer_sha256: text.sha256().to_owned(),
        parameters: tensors::parameters(config),
        weights,
        context_tokens: u32::try_from(config.context).unwrap_or(u32::MAX),
        threads: 0,
        chat_template: text.has_template(),
    }
}
