//! A look at a model without loading its weights: enough to refuse early what could not run.
//!
//! Config, tokenizer and the presence of the weights are checked; their content is left to
//! [`crate::model::load`]. Of a hub id only the small files are fetched. [`text`] and [`identify`] are
//! for models that engines of others load, of which less need be known.

use std::path::Path;

use candle_core::{DType, Device};
use contracts::run::{Dtype, ModelFacts};

use crate::{
    error::EngineError,
    model::{
        self, candle_limits,
        config::Config,
        dummy,
        gguf::Gguf,
        hub,
        open::{self, Runner},
        source::Source,
        tensors, weights,
    },
    text::{Text, TextFiles},
};

/// What can be known of a model before it is loaded.
pub struct Inspection {
    /// The model as it would be loaded: its absolute path, or its name.
    pub model: String,
    /// Longest sequence, prompt and answer together, in tokens.
    pub context_tokens: usize,
    /// Whether it has a chat template.
    pub chat_template: bool,
    /// `llama`, `qwen2`, `qwen3`.
    pub family: String,
    /// Its tokenizer.
    pub text: Text,
}

/// Looks at a model that any chapter may run, held in the default type.
pub fn inspect(name: &str) -> Result<Inspection, EngineError> {
    inspect_as(name, None, None)
}

/// Looks at a model that would be held in `dtype`, which decides how much context a `.gguf` file has,
/// and run by `runner`, which decides what is refused; without one, what nobody can run is.
pub fn inspect_as(
    name: &str,
    dtype: Option<Dtype>,
    runner: Option<Runner>,
) -> Result<Inspection, EngineError> {
    let source = Source::of(name)?;
    let (config, text) = match &source {
        Source::Dummy(dummy) => {
            let config = dummy::config(dummy)?;
            let text = Text::made(config.vocab)?;
            (config, text)
        }
        Source::Directory(dir) => {
            let (config, _, text) = model::open_directory(dir, name)?;
            weights::files(dir, name)?;
            (config, text)
        }
        Source::Hub(id) => {
            let dir = hub::small_files(&hub::HubEnv::from_process()?, id)?;
            let (config, _, text) = model::open_directory(&dir, name)?;
            (config, text)
        }
        Source::Gguf(_) if dtype.is_none() && runner == Some(Runner::Decoder) => {
            return Err(open::as_stored(name));
        }
        Source::Gguf(path) => {
            let gguf = Gguf::open(path, name)?;
            let text = Text::from_gguf(name, gguf.metadata())?;
            model::check_vocabulary(gguf.config(), &text, name)?;
            let context = if dtype.is_none() {
                gguf.context_as_stored()
            } else {
                gguf.config().context
            };
            (
                Config {
                    context,
                    ..gguf.config().clone()
                },
                text,
            )
        }
    };
    if let Some(runner) = runner {
        open::check(&config, runner, name)?;
        if runner == Runner::Candle {
            // Only what is asked for can be refused, and that on any device alike.
            candle_limits::dtype(dtype, &Device::Cpu, config.family, DType::F32)?;
        }
    }
    Ok(Inspection {
        model: source.canonical(),
        context_tokens: config.context,
        chat_template: text.has_template(),
        family: config.family.name().to_owned(),
        text,
    })
}

/// The tokenizer of a model, or of a folder that has one and no weights, or of a `tokenizer.json`.
pub fn text(name: &str) -> Result<Text, EngineError> {
    let path = Path::new(name);
    if path.is_file() && path.extension().is_some_and(|ext| ext == "json") {
        // What lies beside it names its special tokens and its template.
        let beside = path.parent().map(TextFiles::in_dir).unwrap_or_default();
        let files = TextFiles {
            tokenizer: Some(path.to_owned()),
            ..beside
        };
        return Text::from_files(name, &files);
    }
    match Source::of(name)? {
        Source::Directory(dir) => Text::from_files(name, &TextFiles::in_dir(&dir)),
        Source::Hub(id) => {
            let dir = hub::small_files(&hub::HubEnv::from_process()?, &id)?;
            Text::from_files(name, &TextFiles::in_dir(&dir))
        }
        Source::Dummy(_) | Source::Gguf(_) => Ok(inspect(name)?.text),
    }
}

/// What the model at a local path is, with the SHA-256 that [`crate::model::load`] gives it. Hashes
/// files that it does not know yet, which takes a while. Threads are 0: nothing runs.
///
/// # Errors
/// A name that is no path, and a model that this engine could not load.
pub fn identify(path: &str) -> Result<ModelFacts, EngineError> {
    let (config, text, sha256, weights) = match Source::of(path)? {
        Source::Directory(dir) => {
            let (config, config_sha256, text) = model::open_directory(&dir, path)?;
            let files = weights::files(&dir, path)?;
            let stored = weights::Weights::open(&files, &config, path)?.stored_dtype();
            let sha256 = model::directory_sha256(config_sha256, &text, &files, path)?;
            (config, text, sha256, model::device::name(stored).to_owned())
        }
        Source::Gguf(file) => {
            let gguf = Gguf::open(&file, path)?;
            let text = Text::from_gguf(path, gguf.metadata())?;
            let sha256 = model::gguf_sha256(&file, path)?;
            (gguf.config().clone(), text, sha256, gguf.stored_type())
        }
        Source::Dummy(_) | Source::Hub(_) => {
            return Err(EngineError::model(path, "is not a path"));
        }
    };
    Ok(ModelFacts {
        name: path.to_owned(),
        family: config.family.name().to_owned(),
        sha256,
        tokenizer_sha256: text.sha256().to_owned(),
        parameters: tensors::parameters(&config),
        weights: format!("{weights} in its files"),
        context_tokens: u32::try_from(config.context).unwrap_or(u32::MAX),
        threads: 0,
        chat_template: text.has_template(),
    })
}
