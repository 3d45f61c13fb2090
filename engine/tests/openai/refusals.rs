//! What is refused: the right status, OpenAI's error body, and the field at fault by name.

use std::io::Write;

use contracts::{defaults::BODY_BYTES_MAX, openai::ErrorBody};
use serde_json::{Value, json};

use crate::{CHAT, COMPLETIONS, Server, http};

#[track_caller]
fn error(reply: &http::Reply, status: u16) -> contracts::openai::ErrorObject {
    assert_eq!(reply.status, status, "{}", reply.body);
    let body: ErrorBody = serde_json::from_str(&reply.body).unwrap();
    assert!(
        !body.error.message.is_empty() && !body.error.message.contains('\n'),
        "one line: {}",
        reply.body
    );
    body.error
}

#[test]
fn a_bad_chat_request_names_the_field() {
    let server = Server::fake(&[]);
    let hello = json!([{"role": "user", "content": "Hello"}]);
    let cases: [(&str, Value); 37] = [
        ("messages", json!({"messages": null})),
        ("messages", json!({"messages": []})),
        ("messages", json!({"messages": "Hello"})),
        ("messages[0]", json!({"messages": [{"content": "Hello"}]})),
        (
            "messages[0].role",
            json!({"messages": [{"role": "tool", "content": "Hello"}]}),
        ),
        (
            "messages[0].content",
            json!({"messages": [{"role": "user"}]}),
        ),
        (
            "messages[0].content",
            json!({"messages": [{"role": "user", "content": 5}]}),
        ),
        (
            "messages[0].content",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
        ),
        ("max_tokens", json!({"max_tokens": 0})),
        ("max_tokens", json!({"max_tokens": -1})),
        ("max_tokens", json!({"max_tokens": "many"})),
        ("max_tokens", json!({"max_tokens": 100_000})),
        ("max_completion_tokens", json!({"max_completion_tokens": 0})),
        ("n", json!({"n": 2})),
        ("temperature", json!({"temperature": "hot"})),
        ("temperature", json!({"temperature": -1})),
        ("temperature", json!({"temperature": 1e300})),
        ("top_p", json!({"top_p": 0})),
        ("top_k", json!({"top_k": 5_000_000_000u64})),
        ("stop", json!({"stop": ""})),
        ("stop", json!({"stop": vec!["x"; 17]})),
        ("stop", json!({"stop": ["x", 5]})),
        ("stop", json!({"stop": 5})),
        ("min_p", json!({"min_p": 1.5})),
        ("repetition_penalty", json!({"repetition_penalty": 0})),
        ("presence_penalty", json!({"presence_penalty": 2.5})),
        ("frequency_penalty", json!({"frequency_penalty": -2.5})),
        ("logprobs", json!({"logprobs": 2})),
        (
            "top_logprobs",
            json!({"logprobs": true, "top_logprobs": 21}),
        ),
        (
            "top_logprobs",
            json!({"logprobs": true, "top_logprobs": -1}),
        ),
        ("top_logprobs", json!({"top_logprobs": 2})),
        ("logit_bias", json!({"logit_bias": {"5": 101}})),
        ("logit_bias", json!({"logit_bias": {"five": 1}})),
        ("stream", json!({"stream": "yes"})),
        (
            "stream_options.include_usage",
            json!({"stream_options": {"include_usage": 1}}),
        ),
        ("tools", json!({"tools": [{"type": "function"}]})),
        (
            "response_format",
            json!({"response_format": {"type": "json_object"}}),
        ),
    ];
    for (field, wrong) in cases {
        let mut body = json!({"messages": hello});
        body.as_object_mut()
            .unwrap()
            .extend(wrong.as_object().unwrap().clone());
        let error = error(&server.post(CHAT, &body), 400);
        assert_eq!(error.kind, "invalid_request_error", "{wrong}");
        assert_eq!(error.param.as_deref(), Some(field), "{wrong}");
        assert!(
            error.message.contains(field.split('.').next().unwrap()),
            "{wrong}: {}",
            error.message
        );
    }
}

#[test]
fn a_bad_completions_request_names_the_field() {
    let server = Server::fake(&[]);
    let cases: [(&str, Value); 13] = [
        ("prompt", json!({})),
        ("prompt", json!({"prompt": null})),
        ("prompt", json!({"prompt": []})),
        ("prompt", json!({"prompt": ""})),
        ("prompt", json!({"prompt": 5})),
        ("prompt", json!({"prompt": ["one", "two"]})),
        ("prompt", json!({"prompt": [[1, 2], [3]]})),
        ("prompt", json!({"prompt": [1, -2]})),
        ("echo", json!({"prompt": "Hello", "echo": true})),
        ("best_of", json!({"prompt": "Hello", "best_of": 3})),
        ("logprobs", json!({"prompt": "Hello", "logprobs": true})),
        ("logprobs", json!({"prompt": "Hello", "logprobs": 21})),
        (
            "top_logprobs",
            json!({"prompt": "Hello", "top_logprobs": 2}),
        ),
    ];
    for (field, body) in cases {
        let error = error(&server.post(COMPLETIONS, &body), 400);
        assert_eq!(error.param.as_deref(), Some(field), "{body}");
    }
}

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    let server = Server::fake(&[]);
    for body in [
        "",
        "{",
        "[]",
        "5",
        "null",
        "{} {}",
        "[\"dummy:tiny-llm\"]",
        "{\"prompt\": \"a\", \"prompt\": \"b\"}",
        "{\"prompt\": \"a\"} x",
        "\u{0}",
    ] {
        let error = error(&http::post(server.address, COMPLETIONS, body), 400);
        assert_eq!(error.kind, "invalid_request_error", "{body:?}");
    }
}

#[test]
fn too_long_says_both_lengths() {
    let server = Server::fake(&[]);
    let error = error(
        &server.post(
            COMPLETIONS,
            &json!({"prompt": [1, 2, 3], "max_tokens": 5000}),
        ),
        400,
    );
    assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
    for length in ["3", "5000", "5003", "4096"] {
        assert!(
            error.message.contains(length),
            "{length}: {}",
            error.message
        );
    }
}

#[test]
fn a_prompt_that_fills_the_context_leaves_no_rest() {
    let server = Server::fake(&[]);
    let long = "a".repeat(5000);
    let error = error(
        &server.post(
            CHAT,
            &json!({"messages": [{"role": "user", "content": long}]}),
        ),
        400,
    );
    assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
}

#[test]
fn another_model_is_not_found() {
    let server = Server::fake(&[]);
    let body = json!({"model": "gpt-4", "messages": [{"role": "user", "content": "Hello"}]});
    let error = error(&server.post(CHAT, &body), 404);
    assert_eq!(
        (error.kind.as_str(), error.code.as_deref()),
        ("not_found_error", Some("model_not_found"))
    );
    assert!(
        error.message.contains("gpt-4") && error.message.contains("dummy:tiny-llm"),
        "{}",
        error.message
    );
}

#[test]
fn a_model_without_a_template_takes_completions_only() {
    let server = Server::fake(&[("template", "false")]);
    let body = json!({"messages": [{"role": "user", "content": "Hello"}]});
    let error = error(&server.post(CHAT, &body), 400);
    assert!(
        error.message.contains("/v1/completions"),
        "{}",
        error.message
    );
    assert_eq!(
        server.post(COMPLETIONS, &json!({"prompt": "Hello"})).status,
        200
    );
}

#[test]
fn unknown_paths_and_methods_have_openais_shape() {
    let server = Server::fake(&[]);
    assert_eq!(
        error(&http::get(server.address, "/v2/models"), 404).kind,
        "not_found_error"
    );
    assert!(
        error(&http::get(server.address, CHAT), 405)
            .message
            .contains("GET")
    );
    assert!(
        error(&http::get(server.address, "/v1/models/%ff"), 400)
            .message
            .contains("UTF-8")
    );
    assert!(
        error(&http::post(server.address, "/health", ""), 405)
            .message
            .contains("POST")
    );
}

#[test]
fn a_body_over_the_limit_is_refused() {
    let server = Server::fake(&[]);
    // The length alone decides: nothing of the body need be sent.
    let mut connection = std::net::TcpStream::connect(server.address).unwrap();
    let length = BODY_BYTES_MAX + 1;
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
    let error = error(&http::read(connection), 413);
    assert_eq!(error.code.as_deref(), Some("request_too_large"));
}
