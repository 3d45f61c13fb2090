//! A server's life: loading, a full queue, clients that go away, an engine that dies.

use std::{
    io::{Read, Write},
    thread,
    time::{Duration, Instant},
};

use contracts::worker::Health;
use engine::server::serve::{SHUTDOWN_GRACE, ServeError};
use serde_json::{Value, json};

use crate::{CHAT, COMPLETIONS, Server, events, http, wait_until};

fn ask(stream: bool) -> Value {
    json!({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "stream": stream})
}

fn health(server: &Server) -> (u16, Health) {
    let reply = http::get(server.address, "/health");
    (reply.status, serde_json::from_str(&reply.body).unwrap())
}

#[test]
fn it_answers_while_it_loads() {
    let server = Server::start("fake", &[("load_ms", "300")], 4);
    let (status, loading) = health(&server);
    assert_eq!((status, loading.status.as_str()), (503, "loading"));
    assert_eq!(loading.instance.as_deref(), Some("instance-1"));
    assert_eq!(loading.model, None);
    for reply in [
        server.post(CHAT, &ask(false)),
        server.post(COMPLETIONS, &json!({"prompt": "Hello"})),
        http::get(server.address, "/v1/models"),
    ] {
        assert_eq!(reply.status, 503, "{}", reply.body);
        assert_eq!(reply.json()["error"]["code"], "model_loading");
    }
    server.wait_ready();
    let (status, ready) = health(&server);
    assert_eq!(
        (status, ready.status.as_str(), ready.chapter.as_str()),
        (200, "ok", "fake")
    );
    assert_eq!(ready.build, engine::cli::build_facts());
    assert_eq!(ready.model.unwrap().context_tokens, 4096);
    assert_eq!(server.post(CHAT, &ask(false)).status, 200);
}

#[test]
fn a_model_that_cannot_load_ends_the_server() {
    let server = Server::start("fake", &[("no_such_option", "1")], 4);
    let Err(ServeError::Engine(why)) = server.ended() else {
        panic!("it served")
    };
    assert!(why.contains("no_such_option"), "{why}");
}

#[test]
fn a_full_queue_refuses_and_an_empty_one_does_not() {
    let server = Server::start("fake", &[("stall_at", "0")], 2);
    server.wait_ready();
    let stalled = http::send(server.address, "POST", CHAT, &ask(false).to_string());
    wait_until("one is held", || {
        server.metrics().contains("requests_in_flight 1")
    });
    let second = http::send(server.address, "POST", CHAT, &ask(false).to_string());
    wait_until("two are held", || {
        server.metrics().contains("requests_in_flight 2")
    });

    let reply = server.post(CHAT, &ask(true));
    assert_eq!(reply.status, 429);
    assert_eq!(reply.json()["error"]["code"], "queue_full");

    drop(stalled);
    assert_eq!(http::read(second).status, 200, "its turn has come");
    assert_eq!(server.post(CHAT, &ask(false)).status, 200);
}

#[test]
fn a_client_that_goes_away_frees_its_slot() {
    for stream in [false, true] {
        let server = Server::start("fake", &[("stall_at", "0"), ("trouble_after", "1")], 1);
        server.wait_ready();
        let mut client = http::send(server.address, "POST", CHAT, &ask(stream).to_string());
        if stream {
            let mut some = [0; 16];
            client.read_exact(&mut some).unwrap();
        }
        wait_until("it is held", || {
            server.metrics().contains("requests_in_flight 1")
        });
        assert_eq!(server.post(CHAT, &ask(stream)).status, 429);
        drop(client);
        wait_until("its slot is free", || {
            server.metrics().contains("requests_in_flight 0")
        });
        assert_eq!(server.post(CHAT, &ask(stream)).status, 200);
        assert!(server.metrics().contains("status=\"client_gone\"} 1"));
    }
}

#[test]
fn an_engine_that_panics_fails_all_requests_and_ends_the_server() {
    let server = Server::fake(&[("panic_at", "1"), ("ttft_ms", "100")]);
    let address = server.address;
    let waiting = http::send(address, "POST", CHAT, &ask(false).to_string());
    wait_until("the first is held", || {
        server.metrics().contains("requests_in_flight 1")
    });
    let panics = http::send(address, "POST", CHAT, &ask(false).to_string());
    let behind = http::send(address, "POST", CHAT, &ask(false).to_string());
    assert_eq!(http::read(waiting).status, 200);
    for doomed in [panics, behind] {
        let reply = http::read(doomed);
        assert_eq!(reply.status, 500, "{}", reply.body);
        assert_eq!(reply.json()["error"]["type"], "server_error");
    }
    let Err(ServeError::Engine(why)) = server.ended() else {
        panic!("it served on")
    };
    assert!(why.contains("asked to panic"), "{why}");
}

#[test]
fn an_order_to_stop_does_not_wait_for_a_stream_that_never_ends() {
    let mut server = Server::fake(&[("stall_at", "0"), ("trouble_after", "1")]);
    let client = http::send(server.address, "POST", CHAT, &ask(true).to_string());
    wait_until("it has begun", || {
        let metrics = server.metrics();
        metrics.contains("requests_in_flight 1") && metrics.contains("requests_waiting 0")
    });
    let start = Instant::now();
    drop(server.stop.take());
    assert!(server.ended().is_ok());
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "took {:?}",
        start.elapsed()
    );
    // It has its error event, and its body ended in order.
    let events = events(&http::read(client).body);
    assert_eq!(events.last().unwrap()["error"]["code"], "shutting_down");
}

#[test]
fn requests_in_company_get_their_own_answers() {
    let server = Server::dummy("2");
    let text = |address, prompt: &str| {
        let body = json!({"prompt": prompt, "max_tokens": 8}).to_string();
        http::post(address, COMPLETIONS, &body).json()["choices"][0]["text"].clone()
    };
    let prompts = ["one", "two three", "four five six", "seven"];
    let alone = prompts.map(|prompt| text(server.address, prompt));
    let together = prompts.map(|prompt| {
        let address = server.address;
        thread::spawn(move || text(address, prompt))
    });
    assert_eq!(together.map(|thread| thread.join().unwrap()), alone);
}

#[test]
fn an_order_to_stop_lets_what_has_begun_go_on_and_refuses_what_waits() {
    let mut server = Server::fake(&[("tpot_ms", "400")]);
    let begun = http::send(server.address, "POST", CHAT, &ask(true).to_string());
    wait_until("it has begun", || {
        let metrics = server.metrics();
        metrics.contains("requests_in_flight 1") && metrics.contains("requests_waiting 0")
    });
    let stream = http::send(server.address, "POST", CHAT, &ask(true).to_string());
    let whole = http::send(server.address, "POST", CHAT, &ask(false).to_string());
    wait_until("two wait", || {
        server.metrics().contains("requests_waiting 2")
    });
    stream.peek(&mut [0]).unwrap(); // Its role is out.
    drop(server.stop.take());
    let begun = http::read(begun);
    assert!(begun.body.ends_with("data: [DONE]\n\n"), "{}", begun.body);
    // The error is an event, and the body ends in order.
    let stream = http::read(stream);
    let events = events(&stream.body);
    assert_eq!((stream.status, events.len()), (200, 2), "{}", stream.body);
    let whole = http::read(whole);
    assert_eq!(whole.status, 503, "{}", whole.body);
    for error in [&events[1]["error"], &whole.json()["error"]] {
        assert_eq!(error["message"], "the server is shutting down");
        assert_eq!(error["code"], "shutting_down");
    }
    assert!(server.ended().is_ok());
}

#[test]
fn a_long_prompt_that_is_refused_holds_up_nobody() {
    const LONG: usize = 3 << 20;
    let server = Server::dummy("ch09");
    let body = json!({"prompt": "a".repeat(LONG), "max_tokens": 1}).to_string();
    let address = server.address;
    let long = thread::spawn(move || {
        let reply = http::post(address, COMPLETIONS, &body);
        (Instant::now(), reply)
    });
    // Its body is read by then; tokenising it takes much longer.
    thread::sleep(Duration::from_millis(300));
    let short = json!({"prompt": "a", "max_tokens": 1});
    assert_eq!(server.post(COMPLETIONS, &short).status, 200);
    let answered = Instant::now();
    let (refused, reply) = long.join().unwrap();
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["code"], "context_length_exceeded");
    assert!(answered < refused, "the short one waited for the long one");
}

#[test]
fn who_sends_half_a_request_does_not_hold_up_the_end() {
    let server = Server::fake(&[]);
    let mut half = std::net::TcpStream::connect(server.address).unwrap();
    half.write_all(b"POST /v1/completions HTTP/1.1\r\ncontent-length: 50\r\n\r\n{")
        .unwrap();
    thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    drop(server);
    // One grace is for answers, another for clients; nothing is owed here.
    assert!(start.elapsed() < SHUTDOWN_GRACE);
}
