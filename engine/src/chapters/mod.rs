//! The one list of chapters, and what every chapter offers.

use contracts::generate::{GenerateResult, SamplingParams};

use crate::{error::EngineError, text::Input};

/// Names a request within one engine.
pub type RequestId = u64;

/// What every chapter offers: blocking calls for offline use, and for the server
/// `submit`/`step`/`cancel` on the one thread that owns the model.
pub trait Engine: Send {
    /// One request from text to text; tokenising and detokenising are part of its wall time.
    fn generate(&mut self, input: &Input, params: &SamplingParams) -> Result<GenerateResult, EngineError>;

    /// Many requests; one after another until a chapter does better.
    fn generate_batch(&mut self, requests: &[(Input, SamplingParams)]) -> Vec<Result<GenerateResult, EngineError>> {
        requests.iter().map(|(input, params)| self.generate(input, params)).collect()
    }

    /// Takes a request into the queue. Everything that can be refused is refused here, before any work.
    fn submit(&mut self, id: RequestId, input: &Input, params: &SamplingParams) -> Result<(), EngineError>;

    /// Does the next piece of work: at most one forward pass (ch01: one whole answer).
    fn step(&mut self) -> Vec<StepEvent>;

    /// Forgets a request; unknown ids are ignored.
    fn cancel(&mut self, id: RequestId);

    /// Whether `step` has nothing to do.
    fn is_idle(&self) -> bool;
}

/// What a step brought.
#[derive(Debug)]
pub enum StepEvent {
    /// One more token. `text` is what became complete with it, often empty inside a character.
    Token {
        /// Whose.
        id: RequestId,
        /// Text that is complete now.
        text: String,
    },
    /// The request has ended; nothing more comes for it.
    Finished {
        /// Whose.
        id: RequestId,
        /// What it came to.
        result: Result<GenerateResult, EngineError>,
    },
}
