//! A request's body to what the engine is asked. Pure: bytes in, an [`Order`] and an [`Ask`] or an error out.
//!
//! What only the engine can know (the ranges of sampling, what fits a model's context) is left to it;
//! here is what OpenAI's shape means, and the refusal of what no chapter's contract has.

use contracts::{
    defaults::LOGPROBS_MAX,
    generate::SamplingParams,
    openai::{ChatMessage, GenerationRequest},
};
use serde_json::Value;

use super::error::ApiError;
use crate::{
    text::Input,
    worker::{Ask, Ceiling},
};

/// OpenAI's own default ceiling of `/v1/completions`. (A chat without one may use the rest of the
/// model's context.)
const COMPLETIONS_MAX_TOKENS: u32 = 16;

/// Which of the two endpoints that generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Completions,
}

/// What the server itself has to do for a request.
#[derive(Debug)]
pub struct Order {
    /// The model's name as asked for.
    pub model: Option<String>,
    /// Server-sent events.
    pub stream: bool,
    /// One more event with `usage`.
    pub include_usage: bool,
    /// Give token ids.
    pub return_token_ids: bool,
}

/// Reads a body, and checks it as far as the server can.
///
/// # Errors
/// 400 that names the field at fault.
pub fn read(kind: Kind, body: &[u8]) -> Result<(Order, Ask), ApiError> {
    let request = parse(body)?;
    refuse_unsupported(&request)?;
    let input = match kind {
        Kind::Chat => Input::Chat(messages(request.messages.as_deref())?),
        Kind::Completions => prompt(request.prompt.as_ref())?,
    };
    let (ceiling, max_tokens) = ceiling(kind, &request)?;
    let params = sampling(kind, &request, max_tokens)?;
    let order = Order {
        model: request.model,
        stream: request.stream.unwrap_or(false),
        include_usage: request.stream_options.unwrap_or_default().include_usage,
        return_token_ids: request.return_token_ids.unwrap_or(false),
    };
    Ok((
        order,
        Ask {
            input,
            params,
            ceiling,
        },
    ))
}

fn parse(body: &[u8]) -> Result<GenerationRequest, ApiError> {
    // At the top serde would take a list for an object, its values in the order of our fields.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(ApiError::bad_request(
            "the body is a list, not a JSON object",
        ));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let request: GenerationRequest =
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            let why = error.into_inner();
            match (why.is_data(), path.as_str()) {
                (true, ".") => ApiError::bad_request(format!("the body: {why}")),
                (true, _) => ApiError::bad_field(path.clone(), format!("{path}: {why}")),
                (false, _) => ApiError::bad_request(format!("the body is not JSON: {why}")),
            }
        })?;
    reader.end().map_err(|why| {
        ApiError::bad_request(format!("the body has more than one JSON value: {why}"))
    })?;
    Ok(request)
}

/// What no chapter's contract has. A neutral value is fine: clients send them by habit.
fn refuse_unsupported(request: &GenerationRequest) -> Result<(), ApiError> {
    let refuse = |name: &str, why: &str| Err(ApiError::bad_field(name, format!("{name}: {why}")));
    if request.n.is_some_and(|n| n != 1) {
        return refuse("n", "only 1 answer a request is supported");
    }
    if request.best_of.is_some_and(|n| n != 1) {
        return refuse("best_of", "only 1 is supported");
    }
    if request.echo == Some(true) {
        return refuse("echo", "not supported");
    }
    if request
        .suffix
        .as_deref()
        .is_some_and(|suffix| !suffix.is_empty())
    {
        return refuse("suffix", "not supported");
    }
    if request
        .tools
        .as_deref()
        .is_some_and(|tools| !tools.is_empty())
    {
        return refuse("tools", "not supported");
    }
    let plain = |format: &Value| format.get("type").and_then(Value::as_str) == Some("text");
    if request
        .response_format
        .as_ref()
        .is_some_and(|format| !plain(format))
    {
        return refuse("response_format", "only {\"type\":\"text\"} is supported");
    }
    Ok(())
}

fn messages(messages: Option<&[ChatMessage]>) -> Result<Vec<ChatMessage>, ApiError> {
    let messages = messages.unwrap_or_default();
    if messages.is_empty() {
        return Err(ApiError::bad_field(
            "messages",
            "messages: missing or empty; a chat needs at least one",
        ));
    }
    let read = |(index, message): (usize, &ChatMessage)| {
        if !matches!(message.role.as_str(), "system" | "user" | "assistant") {
            let field = format!("messages[{index}].role");
            let message = format!(
                "{field}: `{}` is not system, user or assistant",
                message.role
            );
            return Err(ApiError::bad_field(field, message));
        }
        let content = content(index, &message.content)?;
        Ok(ChatMessage {
            role: message.role.clone(),
            content: Value::String(content),
        })
    };
    messages.iter().enumerate().map(read).collect()
}

/// A message's text: the string, or its text parts joined by line ends.
fn content(index: usize, content: &Value) -> Result<String, ApiError> {
    let field = || format!("messages[{index}].content");
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let text = |part: &Value| {
                let is_text = part.get("type").and_then(Value::as_str) == Some("text");
                part.get("text")
                    .and_then(Value::as_str)
                    .filter(|_| is_text)
                    .map(str::to_owned)
            };
            let texts: Option<Vec<String>> = parts.iter().map(text).collect();
            let bad = || {
                ApiError::bad_field(
                    field(),
                    format!("{}: only text parts are supported", field()),
                )
            };
            texts.map(|texts| texts.join("\n")).ok_or_else(bad)
        }
        _ => Err(ApiError::bad_field(
            field(),
            format!("{}: must be a string or a list of text parts", field()),
        )),
    }
}

fn prompt(prompt: Option<&Value>) -> Result<Input, ApiError> {
    let bad = |message: &str| ApiError::bad_field("prompt", format!("prompt: {message}"));
    match prompt {
        None | Some(Value::Null) => Err(bad("missing")),
        Some(Value::String(text)) => Ok(Input::Text(text.clone())),
        Some(Value::Array(items)) => match items.as_slice() {
            [] => Err(bad("empty")),
            [Value::String(text)] => Ok(Input::Text(text.clone())),
            [Value::String(_) | Value::Array(_), ..] => Err(bad(
                "only one prompt a request is supported; send several requests",
            )),
            ids => {
                let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
                let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
                ids.map(Input::Ids)
                    .ok_or_else(|| bad("must be a string or a list of token ids"))
            }
        },
        Some(_) => Err(bad("must be a string or a list of token ids")),
    }
}

fn ceiling(kind: Kind, request: &GenerationRequest) -> Result<(Ceiling, u32), ApiError> {
    let (name, asked) = match request.max_completion_tokens {
        Some(asked) => ("max_completion_tokens", Some(asked)),
        None => ("max_tokens", request.max_tokens),
    };
    match (asked, kind) {
        (None, Kind::Chat) => Ok((Ceiling::RestOfContext, 1)),
        (None, Kind::Completions) => Ok((Ceiling::Given, COMPLETIONS_MAX_TOKENS)),
        (Some(asked), _) => match u32::try_from(asked) {
            Ok(asked @ 1..) => Ok((Ceiling::Given, asked)),
            _ => Err(ApiError::bad_field(
                name,
                format!("{name}: must be between 1 and {}, not {asked}", u32::MAX),
            )),
        },
    }
}

/// A request that does not say otherwise is greedy: the contract's defaults hold, not OpenAI's
/// temperature of 1, so that a bench's answers repeat.
fn sampling(
    kind: Kind,
    request: &GenerationRequest,
    max_tokens: u32,
) -> Result<SamplingParams, ApiError> {
    let default = SamplingParams::default();
    Ok(SamplingParams {
        temperature: float("temperature", request.temperature, default.temperature)?,
        top_k: match request.top_k {
            None => default.top_k,
            Some(k) => i32::try_from(k)
                .map_err(|_| ApiError::bad_field("top_k", format!("top_k: {k} is too large")))?,
        },
        top_p: float("top_p", request.top_p, default.top_p)?,
        min_p: float("min_p", request.min_p, default.min_p)?,
        repetition_penalty: float(
            "repetition_penalty",
            request.repetition_penalty,
            default.repetition_penalty,
        )?,
        presence_penalty: float(
            "presence_penalty",
            request.presence_penalty,
            default.presence_penalty,
        )?,
        frequency_penalty: float(
            "frequency_penalty",
            request.frequency_penalty,
            default.frequency_penalty,
        )?,
        logit_bias: logit_bias(request)?,
        stop: stop(request.stop.as_ref())?,
        logprobs: logprobs(kind, request)?,
        ignore_eos: request.ignore_eos.unwrap_or(default.ignore_eos),
        max_tokens,
        // Negative seeds are as good as others: the bits are what counts.
        seed: request.seed.map_or(default.seed, i64::cast_unsigned),
    })
}

fn float(name: &str, given: Option<f64>, default: f32) -> Result<f32, ApiError> {
    let Some(given) = given else {
        return Ok(default);
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "f32 is the contract's precision"
    )]
    let value = given as f32;
    if value.is_finite() {
        Ok(value)
    } else {
        Err(ApiError::bad_field(
            name,
            format!("{name}: {given:e} is too large"),
        ))
    }
}

fn logit_bias(
    request: &GenerationRequest,
) -> Result<std::collections::BTreeMap<u32, f32>, ApiError> {
    let entry = |(key, bias): (&String, &f64)| {
        let bad = || {
            ApiError::bad_field(
                "logit_bias",
                format!("logit_bias: `{key}` is not a token id"),
            )
        };
        Ok((
            key.parse().map_err(|_| bad())?,
            float("logit_bias", Some(*bias), 0.0)?,
        ))
    };
    request.logit_bias.iter().flatten().map(entry).collect()
}

fn stop(stop: Option<&Value>) -> Result<Vec<String>, ApiError> {
    let bad = || ApiError::bad_field("stop", "stop: must be a string or a list of strings");
    match stop {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(one)) => Ok(vec![one.clone()]),
        Some(Value::Array(all)) => {
            let text = |item: &Value| item.as_str().map(str::to_owned).ok_or_else(bad);
            all.iter().map(text).collect()
        }
        Some(_) => Err(bad()),
    }
}

/// Chat has a boolean beside `top_logprobs`, completions a number.
fn logprobs(kind: Kind, request: &GenerationRequest) -> Result<Option<u32>, ApiError> {
    let bad = |name: &str, message: &str| ApiError::bad_field(name, format!("{name}: {message}"));
    let count = |name: &str, n: i64| {
        u32::try_from(n)
            .ok()
            .filter(|n| *n <= LOGPROBS_MAX)
            .ok_or_else(|| bad(name, &format!("{n} is not from 0 to {LOGPROBS_MAX}")))
    };
    let top = request.top_logprobs.filter(|n| *n != 0);
    match (kind, &request.logprobs) {
        (Kind::Chat, Some(Value::Bool(true))) => count("top_logprobs", top.unwrap_or(0)).map(Some),
        _ if top.is_some() => Err(bad(
            "top_logprobs",
            "goes with a chat, and needs logprobs to be true",
        )),
        (_, None | Some(Value::Null | Value::Bool(false))) => Ok(None),
        (Kind::Chat, Some(_)) => Err(bad(
            "logprobs",
            "must be true or false; how many is said by top_logprobs",
        )),
        (Kind::Completions, Some(n)) => {
            let n = n
                .as_i64()
                .ok_or_else(|| bad("logprobs", "must be a number of tokens"))?;
            count("logprobs", n).map(Some)
        }
    }
}
