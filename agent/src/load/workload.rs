//! From a spec to the bodies of its requests. Pure; sending them is left to the client.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use contracts::generate::SamplingParams;
use contracts::openai::{ChatMessage, GenerationRequest, StreamOptions};
use contracts::run::Endpoint;
use serde_json::Value;

use crate::prompts::{Content, PromptError, Prompts};

/// An endpoint that is no longer open to choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/v1/chat/completions`: the server applies its chat template.
    Chat,
    /// `/v1/completions`: the prompt as it is.
    Completions,
}

impl Route {
    /// What `endpoint` comes to for a model with or without a chat template.
    pub fn resolve(endpoint: Endpoint, chat_template: bool) -> Self {
        match endpoint {
            Endpoint::Chat => Self::Chat,
            Endpoint::Completions => Self::Completions,
            Endpoint::Auto if chat_template => Self::Chat,
            Endpoint::Auto => Self::Completions,
        }
    }

    /// Path below the base URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }
}

/// Makes the body of each request of a run, before that request's clock starts.
#[derive(Clone)]
pub struct Bodies {
    /// Where they go.
    pub route: Route,
    /// The name that the server serves.
    pub model: String,
    /// What each request says.
    pub prompts: Arc<Prompts>,
    /// Request `i` of a phase draws with `seed + i`.
    pub sampling: SamplingParams,
    /// Ask for a stream.
    pub stream: bool,
    /// Ask for token ids: of our own engines only, others may refuse the field.
    pub return_token_ids: bool,
    /// Put over the fields of the same name.
    pub extra: BTreeMap<String, Value>,
}

/// A request ready to be sent.
#[derive(Debug, Clone)]
pub struct Body {
    /// JSON.
    pub bytes: Bytes,
    /// Ceiling of the answer.
    pub requested_tokens: u32,
    /// Tokens that the prompt was made to have.
    pub planned_input_tokens: Option<u32>,
}

/// A request that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// Its prompt.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// Its JSON.
    #[error("the request cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// A bug of ours.
    #[error("internal error while a request was made: {0}")]
    Lost(String),
}

impl Bodies {
    /// Request `index` of a phase; `said` as in [`Prompts::prompt`].
    pub fn body(&self, warmup: bool, index: u32, said: &[String]) -> Result<Body, BodyError> {
        let prompt = self.prompts.prompt(warmup, index, said)?;
        let mut request = self.common(index);
        request.max_tokens = Some(i64::from(prompt.max_tokens));
        match (self.route, prompt.content) {
            (_, Content::Chat(messages)) => request.messages = Some(messages),
            (Route::Chat, Content::Text(text)) => {
                request.messages = Some(vec![ChatMessage {
                    role: "user".to_owned(),
                    content: Value::String(text),
                }]);
            }
            (Route::Completions, Content::Text(text)) => {
                request.prompt = Some(Value::String(text));
            }
        }
        let bytes = if self.extra.is_empty() {
            serde_json::to_vec(&request)?
        } else {
            let mut document = serde_json::to_value(&request)?;
            if let Some(fields) = document.as_object_mut() {
                fields.extend(self.extra.clone());
            }
            serde_json::to_vec(&document)?
        };
        Ok(Body {
            bytes: Bytes::from(bytes),
            requested_tokens: prompt.max_tokens,
            planned_input_tokens: prompt.planned_input_tokens,
        })
    }

    /// Fields beyond OpenAI's own go out only where they change something, since strict servers
    /// refuse what they do not know.
    fn common(&self, index: u32) -> GenerationRequest {
        let s = &self.sampling;
        let plain = SamplingParams::default();
        let bias = s.logit_bias.iter();
        let bias = bias.map(|(id, bias)| (id.to_string(), decimal(*bias)));
        let stop = s.stop.iter().cloned().map(Value::String).collect();
        let chat = self.route == Route::Chat;
        GenerationRequest {
            model: Some(self.model.clone()),
            temperature: Some(decimal(s.temperature)),
            top_p: Some(decimal(s.top_p)),
            top_k: (s.top_k != plain.top_k).then_some(i64::from(s.top_k)),
            min_p: set(s.min_p, plain.min_p),
            repetition_penalty: set(s.repetition_penalty, plain.repetition_penalty),
            presence_penalty: set(s.presence_penalty, plain.presence_penalty),
            frequency_penalty: set(s.frequency_penalty, plain.frequency_penalty),
            logit_bias: (!s.logit_bias.is_empty()).then(|| bias.collect()),
            stop: (!s.stop.is_empty()).then_some(Value::Array(stop)),
            logprobs: s
                .logprobs
                .map(|n| if chat { Value::Bool(true) } else { n.into() }),
            top_logprobs: s.logprobs.filter(|_| chat).map(i64::from),
            seed: Some(seed_of(s.seed, index)),
            ignore_eos: s.ignore_eos.then_some(true),
            stream: self.stream.then_some(true),
            stream_options: self.stream.then_some(StreamOptions {
                include_usage: true,
            }),
            return_token_ids: self.return_token_ids.then_some(true),
            ..GenerationRequest::default()
        }
    }
}

/// Request `index`'s seed. JSON's seed is an i64: the top bit is dropped.
fn seed_of(seed: u64, index: u32) -> i64 {
    let seed = seed.wrapping_add(u64::from(index));
    i64::try_from(seed & (u64::MAX >> 1)).unwrap_or(i64::MAX)
}

fn set(value: f32, plain: f32) -> Option<f64> {
    (value != plain).then(|| decimal(value))
}

/// An f32 as the f64 that prints alike: 0.7 must not go out as 0.699999988079071.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn bodies(route: Route) -> Bodies {
        Bodies {
            route,
            model: "default".into(),
            prompts: Arc::new(Prompts::texts(vec!["a".into(), "b".into()], 40)),
            sampling: SamplingParams::default(),
            stream: true,
            return_token_ids: false,
            extra: BTreeMap::new(),
        }
    }

    fn text(bodies: &Bodies, index: u32) -> String {
        String::from_utf8(bodies.body(false, index, &[]).unwrap().bytes.to_vec()).unwrap()
    }

    #[test]
    fn a_plain_request_holds_only_what_every_server_knows() {
        assert_eq!(
            text(&bodies(Route::Chat), 0),
            r#"{"model":"default","messages":[{"role":"user","content":"a"}],"max_tokens":40,"temperature":0.0,"top_p":1.0,"seed":0,"stream":true,"stream_options":{"include_usage":true}}"#
        );
        let mut plain = bodies(Route::Completions);
        plain.stream = false;
        assert_eq!(
            text(&plain, 3),
            r#"{"model":"default","prompt":"b","max_tokens":40,"temperature":0.0,"top_p":1.0,"seed":3}"#
        );
    }

    #[test]
    fn what_is_set_goes_out() {
        let mut bodies = bodies(Route::Chat);
        bodies.return_token_ids = true;
        bodies.sampling = SamplingParams {
            temperature: 0.7,
            top_k: 5,
            min_p: 0.1,
            repetition_penalty: 1.1,
            presence_penalty: 0.2,
            frequency_penalty: 0.3,
            logit_bias: [(7, -1.5)].into(),
            stop: vec!["x".into()],
            logprobs: Some(2),
            ignore_eos: true,
            seed: u64::MAX,
            ..SamplingParams::default()
        };
        let body: Value = serde_json::from_str(&text(&bodies, 1)).unwrap();
        let expected = serde_json::json!({
            "model": "default", "messages": [{"role": "user", "content": "b"}],
            "max_tokens": 40, "temperature": 0.7, "top_p": 1.0, "top_k": 5, "min_p": 0.1,
            "repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.3,
            "logit_bias": {"7": -1.5}, "stop": ["x"], "logprobs": true, "top_logprobs": 2,
            "seed": 0, "ignore_eos": true, "stream": true,
            "stream_options": {"include_usage": true}, "return_token_ids": true,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn auto_follows_the_model() {
        assert_eq!(Route::resolve(Endpoint::Auto, true), Route::Chat);
        assert_eq!(Route::resolve(Endpoint::Auto, false), Route::Completions);
        assert_eq!(Route::resolve(Endpoint::Chat, false), Route::Chat);
    }
}
