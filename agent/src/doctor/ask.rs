//! The bodies of the doctor's requests. Only what OpenAI's API has, unless a probe is about more.

use serde_json::{Value, json};

use crate::load::Route;

/// Asked where a long answer is wanted: models count on.
pub const LONG: &str = "Count from one to one hundred in words, separated by commas.";
/// Asked where an answer should end by itself.
pub const SHORT: &str = "Reply with the single word OK.";

/// A name that no server serves.
pub const NO_MODEL: &str = "no-such-model-chapterbench";

/// A greedy request to one endpoint.
pub fn body(route: Route, model: &str, prompt: &str, max_tokens: u32) -> Value {
    let mut body = json!({"model": model, "max_tokens": max_tokens, "temperature": 0});
    match route {
        Route::Chat => with(
            &mut body,
            "messages",
            json!([{"role": "user", "content": prompt}]),
        ),
        Route::Completions => with(&mut body, "prompt", json!(prompt)),
    }
    body
}

/// Sets a field.
pub fn with(body: &mut Value, name: &str, value: Value) {
    if let Some(fields) = body.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// A streamed one; `options` asks for usage in the stream.
pub fn stream(mut body: Value, options: bool) -> Value {
    with(&mut body, "stream", json!(true));
    if options {
        with(&mut body, "stream_options", json!({"include_usage": true}));
    }
    body
}
