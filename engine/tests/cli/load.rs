//! `engine serve` under load: many clients at once, more than it holds, some that go away, and an
//! order to stop in the middle of it all.

use std::{
    io::Read,
    net::{SocketAddr, TcpListener},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::{
    child::{Engine, spawn},
    engine, http, stderr,
    support::Copy,
};

const CHAT: &str = "/v1/chat/completions";

/// As many streams as a server must hold at once.
const CLIENTS: usize = 200;

/// The number under which the socket is handed over.
const LISTEN_FD: i32 = 20;

/// Chapter 9 over a model, ready.
fn serve(model: impl AsRef<Path>, flags: &[&str]) -> (Engine, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut command = engine();
    command.args(["serve", "--chapter", "9", "--model"]);
    command.arg(model.as_ref()).args(flags);
    command.args(["--listen-fd", &LISTEN_FD.to_string()]);
    let child = spawn(command, vec![(listener.into(), LISTEN_FD)]);
    wait_until("it is ready", || {
        http::get(address, "/health").status == 200
    });
    (child, address)
}

/// A bound that only a hang reaches.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        let waited = start.elapsed();
        assert!(waited < Duration::from_secs(120), "in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn gauge(address: SocketAddr, name: &str) -> usize {
    let page = http::get(address, "/metrics").body;
    let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    page.lines().find_map(value).unwrap()
}

fn held(address: SocketAddr) -> usize {
    gauge(address, "chapterbench_requests_in_flight ")
}

fn waiting(address: SocketAddr) -> usize {
    gauge(address, "chapterbench_requests_waiting ")
}

fn ask(prompt: &str, max_tokens: u32, extra: Value) -> String {
    let mut body = json!({
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": true,
        "return_token_ids": true,
    });
    let fields = extra.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(fields);
    body.to_string()
}

/// Events of a stream's body; whether `[DONE]` was the last is apart.
fn events(reply: &http::Reply) -> (Vec<Value>, bool) {
    assert_eq!(reply.status, 200, "{}", reply.body);
    let mut words: Vec<&str> = reply
        .body
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap())
        .collect();
    let done = words.pop_if(|last| *last == "[DONE]").is_some();
    let parse = |word: &str| serde_json::from_str(word).unwrap();
    (words.into_iter().map(parse).collect(), done)
}

/// Role, words, finish, `[DONE]`; gives the ids.
#[track_caller]
fn whole(reply: &http::Reply) -> Vec<u32> {
    let (events, done) = events(reply);
    assert!(done, "{}", reply.body);
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    let (last, words) = events[1..].split_last().unwrap();
    assert!(last["choices"][0]["finish_reason"].is_string());
    assert!(
        words
            .iter()
            .all(|event| event["choices"][0]["delta"]["content"] != "")
    );
    serde_json::from_value(last["token_ids"].clone()).unwrap()
}

#[test]
fn two_hundred_streams_at_once_are_all_served_right() {
    // A template that gives the prompt as it is: the vectors' ids hold for chats, too.
    let model = Copy::of("tiny-llama");
    let template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    std::fs::write(model.file("chat_template.jinja"), template).unwrap();
    let (_, expected) = crate::support::vector("tiny-llama");
    let (child, address) = serve(model.path(), &[]);

    let drawn = |seed: usize| {
        let extra = json!({"temperature": 0.8, "top_p": 0.9, "seed": seed});
        ask(&expected.cases[1].prompt, 24, extra)
    };
    let alone: Vec<Vec<u32>> = (0..4)
        .map(|seed| whole(&http::post(address, CHAT, &drawn(seed))))
        .collect();
    // Every fourth draws, the others are greedy; each has a ceiling of its own.
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let case = &expected.cases[client % expected.cases.len()];
            let ceiling = 1 + client % 48;
            let (body, ids) = if client % 4 == 0 {
                let seed = client / 4 % alone.len();
                (drawn(seed), alone[seed].clone())
            } else {
                let ids = case.greedy_ids.iter().copied().take(ceiling).collect();
                let ceiling = u32::try_from(ceiling).unwrap();
                (ask(&case.prompt, ceiling, json!({})), ids)
            };
            let answer = thread::spawn(move || http::post(address, CHAT, &body));
            (answer, ids)
        })
        .collect();
    for (answer, ids) in clients {
        assert_eq!(whole(&answer.join().unwrap()), ids);
    }
    wait_until("all slots are free", || {
        held(address) == 0 && waiting(address) == 0
    });
    child.signal(Signal::SIGTERM);
    assert_eq!(child.output().status.code(), Some(0));
}

/// Our pool, whose first worker is the engine's own thread, and rayon's, which candle uses.
#[test]
fn all_pools_have_the_threads_that_were_asked_for() {
    let (child, address) = serve("dummy:tiny-llm", &["--threads", "3"]);
    whole(&http::post(address, CHAT, &ask("Hello", 4, json!({}))));
    let health = http::get(address, "/health").json();
    assert_eq!(health["model"]["threads"], 3);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.pid())).unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap();
    let names: Vec<String> = tasks.map(|task| name(task.unwrap())).collect();
    let ours = names.iter().filter(|name| name.starts_with("kernels-"));
    assert_eq!(ours.count(), 2, "{names:?}");
}

#[test]
fn beyond_the_limit_is_429_and_clients_that_go_away_free_their_slots() {
    let flags = ["--queue", "8", "--option", "max_seqs=3"];
    let (_child, address) = serve("dummy:tiny-llm", &flags);
    let short = ask("Hello", 4, json!({}));
    let ids = whole(&http::post(address, CHAT, &short));
    let long = ask("Hello", 900, json!({"ignore_eos": true}));
    let mut clients: Vec<_> = (0..8)
        .map(|_| http::send(address, "POST", CHAT, &long))
        .collect();
    wait_until("8 are held, 3 of them in work", || {
        held(address) == 8 && waiting(address) == 5
    });
    let refused = http::post(address, CHAT, &short);
    assert_eq!(refused.status, 429, "{}", refused.body);
    let error = &refused.json()["error"];
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("rate_limit_error"), &json!("queue_full"))
    );
    assert!(error["message"].as_str().unwrap().contains("8 requests"));

    // In mid-stream and in the queue.
    clients[0].read_exact(&mut [0; 64]).unwrap();
    drop(clients);
    wait_until("all slots are free", || held(address) == 0);
    assert_eq!(whole(&http::post(address, CHAT, &short)), ids);
}

#[test]
fn an_order_to_stop_ends_every_stream_in_order() {
    let (child, address) = serve("dummy:tiny-llm", &[]);
    let body = |stream: bool| ask("Hello", 900, json!({"stream": stream, "ignore_eos": true}));
    let send = |stream| http::send(address, "POST", CHAT, &body(stream));
    let streams: Vec<_> = (0..CLIENTS).map(|_| send(true)).collect();
    let whole_ones: Vec<_> = (0..10).map(|_| send(false)).collect();
    wait_until("all are held, 32 of them in work", || {
        held(address) == CLIENTS + 10 && waiting(address) == CLIENTS + 10 - 32
    });
    for stream in &streams {
        stream.peek(&mut [0]).unwrap(); // The stream is open.
    }
    let start = Instant::now();
    child.signal(Signal::SIGTERM);
    // Each is read to its end, which must be the body's own.
    let read = |connection| thread::spawn(move || http::read(connection));
    let streams: Vec<_> = streams.into_iter().map(read).collect();
    let whole_ones: Vec<_> = whole_ones.into_iter().map(read).collect();
    let (mut finished, mut cut_short) = (0, 0);
    for stream in streams {
        let (events, done) = events(&stream.join().unwrap());
        assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
        if done {
            finished += 1;
        } else {
            cut_short += 1;
            let error = &events.last().unwrap()["error"];
            assert_eq!(error["message"], "the server is shutting down");
            assert_eq!(error["code"], "shutting_down");
        }
    }
    assert_eq!(finished + cut_short, CLIENTS);
    assert!(cut_short >= CLIENTS - 32, "who waited is not begun");
    for answer in whole_ones {
        let reply = answer.join().unwrap();
        assert_eq!(reply.status, 503, "{}", reply.body);
        assert_eq!(reply.json()["error"]["code"], "shutting_down");
    }
    let output = child.output();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // The agent's grace.
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "took {:?}",
        start.elapsed()
    );
}
