//! The metronome by the real binary: what it answers, and that its log says what it did.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent::metronome::{Served, read_log};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

struct Metronome {
    child: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Metronome {
    fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut child = Command::new(env!("CARGO_BIN_EXE_agent"))
            .args(["engine", "metronome", "--log", log.to_str().unwrap()])
            .args(flags)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = child.stderr.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).unwrap().trim().to_owned();
        Self {
            child,
            address,
            folder,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    }

    /// Asks it to end, and reads what it has written down.
    fn log(mut self) -> Vec<Served> {
        kill(
            Pid::from_raw(self.child.id().cast_signed()),
            Signal::SIGTERM,
        )
        .unwrap();
        assert!(self.child.wait().unwrap().success());
        read_log(&std::fs::read(self.folder.path().join("log")).unwrap()).unwrap()
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(stream: &mut TcpStream, body: &str) {
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
}

/// Reads until `end` has come.
fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while !text.ends_with(end) {
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "closed after {text:?}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    text
}

const STREAM: &str = r#"{"messages":[{"role":"user","content":"a b"}],"stream":true,"stream_options":{"include_usage":true}}"#;
const END: &str = "data: [DONE]\n\n\r\n0\r\n\r\n";

#[test]
fn a_stream_keeps_its_schedule_and_is_written_down() {
    let server = Metronome::start(&["--ttft", "30", "--itl", "5", "--tokens", "4"]);
    let mut stream = server.connect();
    let asked = Instant::now();
    ask(&mut stream, STREAM);
    let text = read_to(&mut stream, END);
    // No sooner than the schedule says; later is the machine's matter.
    assert!(asked.elapsed() >= Duration::from_millis(45));
    assert_eq!(text.matches("\"content\":").count(), 4);
    assert_eq!(text.matches("\"finish_reason\":\"length\"").count(), 1);
    assert!(text.contains(r#""delta":{"content":"1"}"#));
    assert!(text.contains(r#""completion_tokens":4"#));
    // The connection is kept.
    ask(&mut stream, STREAM);
    assert!(read_to(&mut stream, END).contains(r#""delta":{"content":"2"}"#));
    let log = server.log();
    assert_eq!(
        log.iter().map(|served| served.id).collect::<Vec<_>>(),
        [1, 2]
    );
    for served in &log {
        assert!(served.received_ns <= served.read_ns && served.read_ns < served.first_ns);
        assert!(
            served.ttft_ms() >= 30.0 && served.wall_ms() >= 45.0,
            "{served:?}"
        );
        assert_eq!(served.gaps_ns.len(), 3);
        let gaps: u64 = served.gaps_ns.iter().map(|gap| u64::from(*gap)).sum();
        assert!(served.first_ns + gaps <= served.end_ns);
    }
}

#[test]
fn requests_beyond_its_places_wait_inside() {
    let server = Metronome::start(&[
        "--ttft",
        "20",
        "--itl",
        "0",
        "--tokens",
        "1",
        "--parallel",
        "1",
    ]);
    let mut streams: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for stream in &mut streams {
        ask(stream, STREAM);
    }
    for stream in &mut streams {
        read_to(stream, END);
    }
    let log = server.log();
    for (before, after) in log.iter().zip(log.iter().skip(1)) {
        assert!(after.begun_ns >= before.end_ns, "{before:?} {after:?}");
        assert!(after.received_ns < before.end_ns);
    }
}

#[test]
fn a_client_that_goes_away_gives_its_place_back() {
    // The first answer takes longer than the test waits for any byte.
    let server = Metronome::start(&["--itl", "50000", "--tokens", "2", "--parallel", "1"]);
    let mut gone = server.connect();
    ask(&mut gone, STREAM);
    read_to(&mut gone, "\n\n\r\n");
    let mut waits = server.connect();
    ask(&mut waits, STREAM);
    drop(gone);
    assert!(read_to(&mut waits, "\n\n\r\n").contains(r#""delta":{"content":"2"}"#));
    assert_eq!(server.log(), [], "neither has ended");
}

#[test]
fn what_is_not_streamed_comes_whole_and_the_log_can_be_fetched() {
    let server = Metronome::start(&["--ttft", "5", "--itl", "1", "--tokens", "3"]);
    let mut stream = server.connect();
    ask(
        &mut stream,
        r#"{"messages":[{"role":"user","content":"a b"}],"max_tokens":2}"#,
    );
    assert!(read_to(&mut stream, "}").contains(r#""content":"1 tick""#));
    stream.write_all(b"GET /log HTTP/1.1\r\n\r\n").unwrap();
    let text = read_to(&mut stream, "}\n");
    let fetched = read_log(text.split_once("\r\n\r\n").unwrap().1.as_bytes()).unwrap();
    assert_eq!((fetched.len(), fetched[0].id), (1, 1));
    assert!(
        fetched[0].ttft_ms() >= 6.0,
        "whole: when its last token is made"
    );
    assert_eq!(server.log(), [], "what was fetched is forgotten");
}
