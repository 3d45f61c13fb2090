//! Whether the requests of a spec fit the model: template, lengths, context. Reads nothing.

use contracts::openai::ChatMessage;
use contracts::run::{Endpoint, PromptSource, RunSpec, Workload};
use engine::error::EngineError;
use engine::text::{Input, Text};

use super::check::Refusal;
use crate::load::Route;

/// Which endpoint the requests go to; a chat needs a template.
pub fn route(workload: &Workload, model: &str, chat_template: bool) -> Result<Route, Refusal> {
    if workload.endpoint == Endpoint::Chat && !chat_template {
        return Err(Refusal::new(
            "workload.endpoint",
            format!("{model} has no chat template; use completions"),
        ));
    }
    Ok(Route::resolve(workload.endpoint, chat_template))
}

/// Whether the requests of `spec` can be made and fit into `context_tokens`, prompt and answer
/// together. Without `text` nothing is known of lengths; without a context any length is fine.
pub fn check(
    spec: &RunSpec,
    route: Route,
    text: Option<&Text>,
    context_tokens: Option<usize>,
) -> Result<(), Refusal> {
    let (Some(text), Some(context_tokens)) = (text, context_tokens) else {
        return Ok(());
    };
    let PromptSource::Texts { texts } = &spec.workload.prompts else {
        return Ok(());
    };
    let max_tokens = spec.workload.sampling.max_tokens;
    for (index, prompt) in texts.iter().enumerate() {
        fits(text, context_tokens, index, prompt, route, max_tokens)?;
    }
    Ok(())
}

fn fits(
    tokenizer: &Text,
    context_tokens: usize,
    index: usize,
    text: &str,
    route: Route,
    max_tokens: u32,
) -> Result<(), Refusal> {
    let input = match route {
        Route::Chat => Input::Chat(vec![ChatMessage {
            role: "user".to_owned(),
            content: text.into(),
        }]),
        Route::Completions => Input::Text(text.to_owned()),
    };
    let ids = tokenizer.encode(&input);
    let ids = ids.map_err(|error| {
        Refusal::new("workload.prompts.texts", format!("prompt {index}: {error}"))
    })?;
    if ids.is_empty() {
        return Err(Refusal::new(
            "workload.prompts.texts",
            format!("prompt {index} has no tokens"),
        ));
    }
    let max_tokens = max_tokens as usize;
    if ids.len() + max_tokens > context_tokens {
        let error = EngineError::ContextTooLong {
            input_tokens: ids.len(),
            max_tokens,
            context_tokens,
        };
        return Err(Refusal::new(
            "workload.sampling.max_tokens",
            format!("prompt {index}: {error}"),
        ));
    }
    Ok(())
}
