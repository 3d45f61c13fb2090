//! `engine serve`: addresses, sockets handed over, signals, and what it says when it cannot.

use std::{
    fs::File,
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::{
    child::{Engine, spawn},
    engine, fails, http, run, stderr,
};

/// The number under which the socket is handed over.
const LISTEN_FD: i32 = 20;

/// A fake engine on a socket of ours.
fn serve(options: &[&str]) -> (Engine, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut command = engine();
    command.args([
        "serve",
        "--chapter",
        "fake",
        "--instance",
        "i-7",
        "--served-model-name",
        "mine",
    ]);
    command.args(["--listen-fd", &LISTEN_FD.to_string()]);
    command.args(options.iter().flat_map(|option| ["--option", option]));
    (spawn(command, vec![(listener.into(), LISTEN_FD)]), address)
}

fn wait_ready(address: SocketAddr) {
    let start = Instant::now();
    while http::get(address, "/health").status != 200 {
        assert!(start.elapsed() < Duration::from_secs(60), "not ready");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_socket_handed_over_is_served_under_our_instance_id() {
    let (child, address) = serve(&[]);
    wait_ready(address);
    assert_eq!(http::get(address, "/health").json()["instance"], "i-7");
    assert_eq!(
        http::get(address, "/v1/models").json()["data"][0]["id"],
        "mine"
    );
    let body = json!({"model": "mine", "prompt": "Hello", "max_tokens": 2}).to_string();
    assert_eq!(http::post(address, "/v1/completions", &body).status, 200);
    child.signal(Signal::SIGTERM);
    let output = child.output();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(TcpStream::connect(address).is_err(), "the port refuses");
}

#[test]
fn orders_to_stop_are_obeyed_while_loading_and_in_mid_stream() {
    let (child, address) = serve(&["load_ms=60000"]);
    assert_eq!(http::get(address, "/health").status, 503);
    child.signal(Signal::SIGINT);
    assert_eq!(child.output().status.code(), Some(0));

    let (child, address) = serve(&["stall_at=0", "trouble_after=1"]);
    wait_ready(address);
    let body = json!({"prompt": "Hello", "stream": true}).to_string();
    let stream = http::send(address, "POST", "/v1/completions", &body);
    child.signal(Signal::SIGTERM);
    assert_eq!(child.output().status.code(), Some(0));
    drop(stream);
}

#[test]
fn a_model_that_cannot_load_is_one_line_and_code_1() {
    let (child, _) = serve(&["no_such_option=1"]);
    assert!(fails(&child.output(), 1).contains("no_such_option"));
}

#[test]
fn an_engine_that_panics_ends_the_program() {
    let (child, address) = serve(&["panic_at=0"]);
    wait_ready(address);
    let body = json!({"prompt": "Hello"}).to_string();
    assert_eq!(http::post(address, "/v1/completions", &body).status, 500);
    let output = child.output();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("error: the engine's thread panicked"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_port_that_is_taken_is_named() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let line = fails(
        &run([
            "serve",
            "--chapter",
            "fake",
            "--port",
            &address.port().to_string(),
        ]),
        1,
    );
    assert!(
        line.contains(&address.to_string()) && line.contains("--port"),
        "{line}"
    );
}

#[test]
fn descriptors_that_are_no_listening_socket_are_refused() {
    for number in ["1", "77"] {
        assert!(
            fails(
                &run(["serve", "--chapter", "fake", "--listen-fd", number]),
                2
            )
            .contains("--listen-fd")
        );
    }
    let mut command = engine();
    command.args(["serve", "--chapter", "fake", "--listen-fd", "20"]);
    let child = spawn(
        command,
        vec![(File::open("/dev/null").unwrap().into(), LISTEN_FD)],
    );
    assert!(fails(&child.output(), 2).contains("not a listening socket"));
}

#[test]
fn an_unknown_chapter_is_refused_before_any_work() {
    let line = fails(&run(["serve", "--chapter", "6", "--port", "0"]), 2);
    assert!(
        line.contains("ch01") && line.contains("ch02") && !line.contains("fake"),
        "{line}"
    );
}
