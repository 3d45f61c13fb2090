//! A look at a model without loading its weights: enough to refuse early what could not run.
//!
//! Config, tokenizer and the presence of the weights are checked; their content is left to
//! [`crate::model::load`]. Of a hub id only the small files are fetched.

use contracts::run::Dtype;

use crate::{
    error::EngineError,
    model::{self, config::Config, dummy, gguf::Gguf, hub, source::Source, weights},
    text::Text,
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

/// Looks at a model that would be held in the default type.
pub fn inspect(name: &str) -> Result<Inspection, EngineError> {
    inspect_as(name, None)
}

/// Looks at a model that would be held in `dtype`, which decides how much context a `.gguf` file has.
pub fn inspect_as(name: &str, dtype: Option<Dtype>) -> Result<Inspection, EngineError> {
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
    Ok(Inspection {
        model: source.canonical(),
        context_tokens: config.context,
        chat_template: text.has_template(),
        family: config.family.name().to_owned(),
        text,
    })
}
