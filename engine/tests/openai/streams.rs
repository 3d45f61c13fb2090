//! Streams: which events come in which order, with what in them.

use serde_json::{Value, json};

use crate::{CHAT, COMPLETIONS, Server, events, http};

fn ask(extra: &[(&str, Value)]) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "stream": true});
    for (name, value) in extra {
        body[*name] = value.clone();
    }
    body
}

fn text(events: &[Value]) -> String {
    events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect()
}

#[test]
fn a_chat_stream_is_role_words_finish_done() {
    let server = Server::fake(&[]);
    let whole = server.post(CHAT, &ask(&[("stream", json!(false))])).json();
    let events = events(&server.post(CHAT, &ask(&[])).body);

    let (first, last) = (&events[0], &events[events.len() - 2]);
    assert_eq!(first["object"], "chat.completion.chunk");
    assert_eq!(
        first["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    assert_eq!(events[events.len() - 1], "[DONE]");
    assert_eq!(last["choices"][0]["finish_reason"], "length");
    assert_eq!(last["choices"][0]["delta"], json!({}));
    assert_eq!(last["metrics"]["output_tokens"], 5);
    assert!(last["metrics"]["ttft_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(last.get("usage"), None, "not asked for");

    let words = &events[1..events.len() - 2];
    assert!(words.len() > 1, "tokens come one by one");
    for event in words {
        assert_eq!(
            (&event["id"], &event["created"]),
            (&first["id"], &first["created"])
        );
        assert_eq!(event["choices"][0]["finish_reason"], Value::Null);
        assert_ne!(
            event["choices"][0]["delta"]["content"], "",
            "an empty event is no token"
        );
        assert_eq!(event.get("metrics"), None);
    }
    assert_eq!(
        text(&events),
        whole["choices"][0]["message"]["content"].as_str().unwrap()
    );
}

#[test]
fn usage_comes_in_an_event_of_its_own_with_what_the_engine_measured() {
    let server = Server::fake(&[]);
    let asked = [
        ("stream_options", json!({"include_usage": true})),
        ("return_token_ids", json!(true)),
    ];
    let events = events(&server.post(CHAT, &ask(&asked)).body);
    let (finish, usage) = (&events[events.len() - 3], &events[events.len() - 2]);
    assert_eq!(finish["choices"][0]["finish_reason"], "length");
    assert_eq!(finish.get("metrics"), None, "in the last event only");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["completion_tokens"], 5);
    assert_eq!(usage["metrics"]["output_tokens"], 5);
    assert_eq!(usage["token_ids"].as_array().unwrap().len(), 5);
    assert_eq!(
        usage["prompt_token_ids"].as_array().unwrap().len() as u64,
        usage["usage"]["prompt_tokens"]
    );
}

#[test]
fn a_completion_stream_has_text_in_each_event() {
    let server = Server::fake(&[]);
    let events = events(
        &server
            .post(COMPLETIONS, &json!({"prompt": "Hello", "stream": true}))
            .body,
    );
    assert_eq!(events[events.len() - 1], "[DONE]");
    for event in &events[..events.len() - 1] {
        assert_eq!(event["object"], "text_completion");
        assert!(event["choices"][0]["text"].is_string());
    }
    assert_eq!(
        events[events.len() - 2]["choices"][0]["finish_reason"],
        "length"
    );
}

#[test]
fn chapter_1_gives_its_text_in_one_event_and_chapter_2_the_same_in_many() {
    let body = ask(&[
        ("max_tokens", json!(20)),
        ("stream_options", json!({"include_usage": true})),
    ]);
    let run = |chapter| events(&Server::dummy(chapter).post(CHAT, &body).body);
    let (one, many) = (run("1"), run("2"));
    assert_eq!(one.len(), 5, "role, text, finish, usage, [DONE]");
    assert!(many.len() > 10);
    assert_eq!(text(&one), text(&many));
    assert!(!text(&one).is_empty());
    let metrics = |events: &[Value]| events[events.len() - 2]["metrics"].clone();
    assert_eq!(
        metrics(&one).get("ttft_ms"),
        None,
        "chapter 1 does not measure it"
    );
    assert_eq!(metrics(&one).get("tpot_ms"), None);
    assert!(metrics(&many)["ttft_ms"].as_f64().unwrap() > 0.0);
    assert!(metrics(&many)["tpot_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(metrics(&many)["output_tokens"], 20);
}

#[test]
fn an_answer_that_is_only_eos_has_no_words() {
    let server = Server::fake(&[("tokens", "1")]);
    let events = events(&server.post(CHAT, &ask(&[])).body);
    assert_eq!(events.len(), 3, "role, finish, [DONE]");
    assert_eq!(events[1]["choices"][0]["finish_reason"], "stop");
    assert_eq!(events[1]["metrics"]["output_tokens"], 1);
}

#[test]
fn an_error_on_the_way_is_an_event_and_there_is_no_done() {
    let server = Server::fake(&[("fail_at", "0"), ("trouble_after", "2")]);
    let reply = server.post(CHAT, &ask(&[]));
    assert_eq!(reply.status, 200);
    let events = events(&reply.body);
    assert_eq!(events.len(), 4, "role, two tokens, the error");
    assert_eq!(events[3]["error"]["type"], "server_error");
    assert!(
        events[3]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("asked to fail")
    );
    assert!(server.metrics().contains("status=\"500\"} 1"));

    let server = Server::fake(&[("fail_at", "0"), ("trouble_after", "2")]);
    let reply = server.post(CHAT, &ask(&[("stream", json!(false))]));
    assert_eq!(
        (reply.status, &reply.json()["error"]["type"]),
        (500, &json!("server_error"))
    );
    assert_eq!(
        server.post(CHAT, &ask(&[])).status,
        200,
        "the next request is not harmed"
    );
}

#[test]
fn what_is_wrong_with_a_stream_request_is_said_before_the_stream() {
    let server = Server::fake(&[]);
    let reply = server.post(CHAT, &ask(&[("max_tokens", json!(100_000))]));
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    assert_eq!(http::get(server.address, "/health").status, 200);
}
