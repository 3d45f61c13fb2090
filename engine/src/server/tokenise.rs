//! Long prompts become token ids here, beside the engine's thread.
//!
//! A prompt of megabytes takes seconds to tokenise, most often only to be refused as too long. On the
//! engine's thread every answer under way would stand still for that. Prompts of usual length stay
//! with the engine, whose metrics count their tokenising.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::spawn_blocking};

use super::error::ApiError;
use crate::{
    error::EngineError,
    text::{Input, Text},
    worker::{Ask, Refused},
};

/// Text from which on a prompt is long, in bytes: some milliseconds of tokenising.
const LONG_BYTES: usize = 64 << 10;

/// At a time, of all clients: the cores are for the engine.
const TURNS: usize = 1;

/// Who waits for a turn, and whose it is.
pub(super) struct LongPrompts {
    places: Semaphore,
    turns: Arc<Semaphore>,
    max: usize,
}

impl LongPrompts {
    /// At most `max` long prompts are held here: as many as the engine itself may hold.
    pub(super) fn new(max: usize) -> Self {
        Self {
            places: Semaphore::new(max),
            turns: Arc::new(Semaphore::new(TURNS)),
            max,
        }
    }

    /// The same request with a long prompt's ids in place of its text.
    ///
    /// # Errors
    /// Too many wait; the tokenizer or the template refuses the prompt.
    pub(super) async fn tokenise(&self, mut ask: Ask, text: &Text) -> Result<Ask, ApiError> {
        if text_bytes(&ask.input) < LONG_BYTES {
            return Ok(ask);
        }
        let failed = |why: String| EngineError::Internal(format!("tokenising: {why}"));
        let place = self.places.try_acquire();
        let _place = place.map_err(|_| Refused::QueueFull(self.max))?;
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let turn = turn.map_err(|error| failed(error.to_string()))?;
        let text = text.clone();
        let input = std::mem::replace(&mut ask.input, Input::Ids(Vec::new()));
        let encode = move || {
            // Kept to the end of the work, even if the client goes away before.
            let _turn = turn;
            text.encode(&input)
        };
        let ids = spawn_blocking(encode).await;
        ask.input = Input::Ids(ids.map_err(|error| failed(error.to_string()))??);
        Ok(ask)
    }
}

/// As far as it can be long.
fn text_bytes(input: &Input) -> usize {
    match input {
        Input::Text(text) => text.len(),
        Input::Chat(messages) => {
            let text = |content: &serde_json::Value| content.as_str().map_or(0, str::len);
            messages.iter().map(|message| text(&message.content)).sum()
        }
        // Nothing is to be done for ids.
        Input::Ids(_) => 0,
    }
}
