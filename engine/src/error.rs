//! What can go wrong in an engine, as far as a caller tells the cases apart.

/// An error of loading a model or of one request.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The caller asked for something that cannot be: the server answers 400, the command
    /// line 2 (`serve` 1 for what it finds out while loading).
    #[error("{field}: {message}")]
    BadInput {
        /// The field or flag at fault.
        field: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// Prompt and ceiling together do not fit into the model's context.
    #[error(
        "prompt of {input_tokens} tokens plus max_tokens {max_tokens} is {} tokens, more than the model's context of {context_tokens}",
        input_tokens + max_tokens
    )]
    ContextTooLong {
        /// Tokens of the prompt.
        input_tokens: usize,
        /// The ceiling asked for.
        max_tokens: usize,
        /// What the model can hold.
        context_tokens: usize,
    },
    /// A model, or a part of one, that we cannot run right: refused by name, never run wrong.
    #[error("cannot run {what}: {why}")]
    Unsupported {
        /// The field, tensor or tokenizer.
        what: String,
        /// Why, and what would work.
        why: String,
    },
    /// A model that is missing or damaged.
    #[error("model {model}: {message}")]
    Model {
        /// As asked for.
        model: String,
        /// What is wrong, with the file's name.
        message: String,
    },
    /// The server ends, and with it the answers that it still owes.
    #[error("the server is shutting down")]
    Stopping,
    /// A fault of ours or of the library's.
    #[error("internal: {0}")]
    Internal(String),
}

impl EngineError {
    /// A [`EngineError::BadInput`].
    pub fn bad_input(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::BadInput {
            field: field.into(),
            message: message.into(),
        }
    }

    /// A [`EngineError::Model`].
    pub fn model(model: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Model {
            model: model.into(),
            message: message.into(),
        }
    }
}

impl From<candle_core::Error> for EngineError {
    fn from(error: candle_core::Error) -> Self {
        Self::Internal(error.to_string())
    }
}
