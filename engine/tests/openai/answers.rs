//! Whole answers: OpenAI's shapes, counts that are true, our extra fields.

use serde_json::{Value, json};

use crate::{CHAT, COMPLETIONS, Server, http};

fn chat(extra: Value) -> Value {
    with(
        json!({"model": "default", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}),
        extra,
    )
}

fn with(mut body: Value, extra: Value) -> Value {
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    body
}

#[test]
fn a_chat_answer_has_openais_shape() {
    let server = Server::fake(&[]);
    let reply = server.post(CHAT, &chat(json!({})));
    assert_eq!(reply.status, 200);
    let answer = reply.json();
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(answer["object"], "chat.completion");
    assert!(answer["created"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(answer["model"], "dummy:tiny-llm");
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["index"], &choice["finish_reason"]),
        (&json!(0), &json!("length"))
    );
    assert_eq!(choice["message"]["role"], "assistant");
    assert!(!choice["message"]["content"].as_str().unwrap().is_empty());
    let usage = &answer["usage"];
    let prompt = usage["prompt_tokens"].as_u64().unwrap();
    assert!(prompt > 0);
    assert_eq!(
        (&usage["completion_tokens"], &usage["total_tokens"]),
        (&json!(5), &json!(prompt + 5))
    );
    let metrics = &answer["metrics"];
    assert_eq!(
        (&metrics["input_tokens"], &metrics["output_tokens"]),
        (&json!(prompt), &json!(5))
    );
    assert!(metrics["wall_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(answer.get("token_ids"), None, "not asked for");
}

#[test]
fn a_completion_has_openais_shape_and_takes_token_ids() {
    let server = Server::fake(&[]);
    let answer = server
        .post(
            COMPLETIONS,
            &json!({"prompt": [5, 6, 7], "return_token_ids": true}),
        )
        .json();
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    assert_eq!(answer["object"], "text_completion");
    assert!(!answer["choices"][0]["text"].as_str().unwrap().is_empty());
    assert_eq!(answer["prompt_token_ids"], json!([5, 6, 7]));
    assert_eq!(
        answer["token_ids"].as_array().unwrap().len(),
        16,
        "OpenAI's default ceiling of completions"
    );
    assert_eq!(answer["usage"]["completion_tokens"], 16);
}

#[test]
fn a_chat_without_a_ceiling_may_use_the_rest_of_the_context() {
    let server = Server::fake(&[]);
    let answer = server
        .post(
            CHAT,
            &json!({"messages": [{"role": "user", "content": "Hello"}]}),
        )
        .json();
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(
        answer["usage"]["total_tokens"], 4096,
        "the fake engine's context"
    );
}

#[test]
fn tokens_are_those_made_and_an_answer_that_is_only_eos_is_valid() {
    let server = Server::fake(&[("tokens", "3")]);
    let answer = server.post(CHAT, &chat(json!({"max_tokens": 40}))).json();
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 3);

    let server = Server::fake(&[("tokens", "1")]);
    let answer = server.post(CHAT, &chat(json!({}))).json();
    assert_eq!(answer["choices"][0]["message"]["content"], "");
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    assert_eq!(answer["usage"]["completion_tokens"], 1);

    let answer = server.post(CHAT, &chat(json!({"ignore_eos": true}))).json();
    assert_eq!(answer["usage"]["completion_tokens"], 5);
}

#[test]
fn neutral_values_of_what_is_not_supported_are_fine() {
    let server = Server::fake(&[]);
    let neutral = json!({
        "n": 1, "stop": null, "logprobs": false, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {},
        "tools": [], "response_format": {"type": "text"}, "user": "someone", "stream": false, "top_p": 1,
    });
    assert_eq!(server.post(CHAT, &chat(neutral)).status, 200);
}

#[test]
fn content_may_come_in_text_parts_and_the_ceiling_under_its_newer_name() {
    let server = Server::fake(&[]);
    let parts = json!([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]);
    let body =
        json!({"messages": [{"role": "user", "content": parts}], "max_completion_tokens": 2});
    let split = server.post(CHAT, &body).json();
    let whole = server
        .post(
            CHAT,
            &json!({"messages": [{"role": "user", "content": "Hel\nlo"}], "max_tokens": 2}),
        )
        .json();
    assert_eq!(split["usage"], whole["usage"]);
    assert_eq!(split["usage"]["completion_tokens"], 2);
}

#[test]
fn seeds_decide_draws_and_the_default_is_greedy() {
    let server = Server::dummy("2");
    let text = |extra| {
        let body = with(json!({"prompt": "The sky", "max_tokens": 12}), extra);
        server.post(COMPLETIONS, &body).json()["choices"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let greedy = text(json!({}));
    assert_eq!(greedy, text(json!({"temperature": 0.0, "seed": 7})));
    let drawn = text(json!({"temperature": 1.5, "seed": 7}));
    assert_eq!(drawn, text(json!({"temperature": 1.5, "seed": 7})));
    assert_ne!(drawn, text(json!({"temperature": 1.5, "seed": 8})));
    assert_ne!(drawn, greedy);
    assert_eq!(
        greedy,
        text(json!({"temperature": 1.5, "top_k": 1, "seed": 8}))
    );
}

#[test]
fn the_model_is_listed_under_its_served_name() {
    let server = Server::fake(&[]);
    let list = http::get(server.address, "/v1/models").json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "dummy:tiny-llm");
    assert_eq!(
        http::get(server.address, "/v1/models/dummy:tiny-llm").json(),
        list["data"][0]
    );
    assert_eq!(http::get(server.address, "/v1/models/other").status, 404);
}

#[test]
fn metrics_count_requests_and_tokens() {
    let server = Server::fake(&[]);
    server.post(CHAT, &chat(json!({})));
    server.post(CHAT, &chat(json!({"stream": true})));
    server.post(COMPLETIONS, &json!({}));
    let page = server.metrics();
    for line in [
        "chapterbench_requests_total{endpoint=\"chat_completions\",status=\"200\"} 2",
        "chapterbench_requests_total{endpoint=\"completions\",status=\"400\"} 1",
        "chapterbench_completion_tokens_total 10",
        "chapterbench_requests_in_flight 0",
        "chapterbench_request_wall_seconds_count 2",
        "chapterbench_request_ttft_seconds_count 2",
    ] {
        assert!(
            page.lines().any(|have| have == line),
            "{line} is not in\n{page}"
        );
    }
}
