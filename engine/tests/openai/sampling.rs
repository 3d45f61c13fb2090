//! Stop strings and log probabilities in OpenAI's shapes, whole and streamed.

use serde_json::{Value, json};

use crate::{CHAT, COMPLETIONS, Server, events};

/// The fake engine says "The sky is blue because …".
fn ask(extra: Value) -> Value {
    let mut body = json!({
        "messages": [{"role": "user", "content": "Hello"}], "prompt": "Hello", "max_tokens": 40,
    });
    body.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    body
}

/// The events of a stream but the role and `[DONE]`: their text, their log probabilities.
fn streamed(server: &Server, path: &str, mut body: Value) -> Vec<(String, Value, Value)> {
    body["stream"] = json!(true);
    let events = events(&server.post(path, &body).body);
    let part = |event: &Value| {
        let choice = &event["choices"][0];
        let text = choice["delta"]["content"]
            .as_str()
            .or(choice["text"].as_str());
        (
            text.unwrap_or_default().to_owned(),
            choice["logprobs"].clone(),
            choice["finish_reason"].clone(),
        )
    };
    events[..events.len() - 1].iter().map(part).collect()
}

#[test]
fn an_answer_ends_before_a_stop_string_and_no_event_shows_a_part_of_it() {
    let server = Server::fake(&[]);
    for (stop, text) in [
        (json!("blue"), "The sky is "),
        (json!(["never", "e sky", "sky is blu"]), "Th"),
        (json!(["T"]), ""),
    ] {
        let body = ask(json!({ "stop": stop }));
        let whole = server.post(CHAT, &body).json();
        assert_eq!(whole["choices"][0]["message"]["content"], text);
        assert_eq!(whole["choices"][0]["finish_reason"], "stop");
        assert!(whole["usage"]["completion_tokens"].as_u64().unwrap() < 40);
        let events = streamed(&server, CHAT, body);
        let joined: String = events.iter().map(|(text, ..)| text.as_str()).collect();
        assert_eq!(
            (joined.as_str(), &events.last().unwrap().2),
            (text, &json!("stop"))
        );
    }
    // What only looked like one is all there.
    let body = ask(json!({"stop": ["blue bec!", "sky?"], "max_tokens": 13}));
    let whole = server.post(COMPLETIONS, &body).json();
    let text = whole["choices"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("The sky is b"), "{text}");
    assert_eq!(whole["choices"][0]["finish_reason"], "length");
    let events = streamed(&server, COMPLETIONS, body);
    let joined: String = events.iter().map(|(text, ..)| text.as_str()).collect();
    assert_eq!(joined, text);
}

#[test]
fn a_chats_logprobs_are_one_for_each_token_the_stop_token_included() {
    let server = Server::fake(&[("tokens", "4")]);
    let body = ask(json!({"logprobs": true, "top_logprobs": 2}));
    let whole = server.post(CHAT, &body).json();
    let content = &whole["choices"][0]["logprobs"]["content"];
    assert_eq!(content.as_array().unwrap().len(), 4);
    let first = json!({"token": "T", "logprob": 0.0, "bytes": [84]});
    let mut with_top = first.clone();
    with_top["top_logprobs"] = json!([first]);
    assert_eq!(content[0], with_top);
    assert_eq!(content[3]["bytes"], Value::Null, "a special token");
    assert_eq!(content[3]["token"], "<|endoftext|>");

    let events = streamed(&server, CHAT, body.clone());
    let of = |event: &(String, Value, Value)| event.1["content"].as_array().cloned();
    let joined: Vec<Value> = events.iter().filter_map(of).flatten().collect();
    assert_eq!(Value::from(joined), *content);
    let (text, last, reason) = events.last().unwrap();
    assert_eq!((text.as_str(), reason), ("", &json!("stop")));
    assert_eq!(
        last["content"][0], content[3],
        "it has no text to come with"
    );

    let plain = server.post(CHAT, &ask(json!({}))).json();
    assert_eq!(plain["choices"][0]["logprobs"], Value::Null);
    let none = server.post(CHAT, &ask(json!({"logprobs": true}))).json();
    assert_eq!(
        none["choices"][0]["logprobs"]["content"][1]["top_logprobs"],
        json!([])
    );
}

#[test]
fn text_that_is_held_back_comes_with_the_logprobs_of_all_its_tokens() {
    let server = Server::fake(&[]);
    let body = ask(json!({"logprobs": true, "stop": ["The sky was"], "max_tokens": 20}));
    let events = streamed(&server, CHAT, body);
    let counts: Vec<(String, usize)> = events
        .iter()
        .map(|(text, logprobs, _)| {
            let tokens = logprobs["content"].as_array().map_or(0, Vec::len);
            (text.clone(), tokens)
        })
        .filter(|(text, tokens)| !text.is_empty() || *tokens > 0)
        .collect();
    assert!(
        counts[0].0.starts_with("The sky i") && counts[0].1 > 4,
        "{counts:?}"
    );
    assert_eq!(counts.iter().map(|(_, tokens)| tokens).sum::<usize>(), 20);
}

#[test]
fn a_completions_logprobs_are_lists_side_by_side() {
    for chapter in ["1", "2", "9"] {
        let server = Server::dummy(chapter);
        let body = ask(json!({"logprobs": 2, "max_tokens": 6}));
        let whole = server.post(COMPLETIONS, &body).json();
        let logprobs = &whole["choices"][0]["logprobs"];
        let text = whole["choices"][0]["text"].as_str().unwrap();
        let tokens: Vec<&str> = logprobs["tokens"]
            .as_array()
            .unwrap()
            .iter()
            .map(|token| token.as_str().unwrap())
            .collect();
        assert_eq!((tokens.len(), tokens.concat().as_str()), (6, text));
        let mut offset = 0;
        for (index, token) in tokens.iter().enumerate() {
            assert_eq!(logprobs["text_offset"][index], offset);
            offset += token.chars().count();
            let top = logprobs["top_logprobs"][index].as_object().unwrap();
            assert_eq!(top.len(), 2);
            assert_eq!(top[*token], logprobs["token_logprobs"][index]);
        }
        for field in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
            let events = streamed(&server, COMPLETIONS, body.clone());
            let of = |event: &(String, Value, Value)| event.1[field].as_array().cloned();
            let joined: Vec<Value> = events.iter().filter_map(of).flatten().collect();
            assert_eq!(Value::from(joined), logprobs[field], "{chapter} {field}");
        }
    }
}
