//! The OpenAI server over a real socket, in this process: shapes, streams, refusals, life and death.
//!
//! The program `engine serve` around it is tested in `tests/cli`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod answers;
#[path = "../support/http.rs"]
mod http;
mod life;
mod python_client;
mod refusals;
mod sampling;
mod streams;

use std::{
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use contracts::{defaults, run::Device};
use engine::{
    chapters::{self, Setup},
    model::ModelRequest,
    server::{
        Identity,
        serve::{ServeError, serve},
    },
    worker::{QUEUE_MAX, Worker},
};
use serde_json::Value;
use tokio::sync::oneshot;

const CHAT: &str = "/v1/chat/completions";
const COMPLETIONS: &str = "/v1/completions";

/// A server on a free port of loopback, stopped when dropped.
struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Server {
    /// A fake engine with these options, ready.
    fn fake(options: &[(&str, &str)]) -> Self {
        let server = Self::start("fake", options, QUEUE_MAX);
        server.wait_ready();
        server
    }

    /// A chapter over the embedded model, ready.
    fn dummy(chapter: &str) -> Self {
        let server = Self::start(chapter, &[], QUEUE_MAX);
        server.wait_ready();
        server
    }

    /// Not waited for.
    fn start(chapter: &str, options: &[(&str, &str)], queue_max: usize) -> Self {
        let chapter = chapters::find(chapter).unwrap();
        let model = ModelRequest {
            name: defaults::MODEL.to_owned(),
            dtype: None,
            device: Device::Cpu,
            threads: None,
        };
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let worker =
            Worker::start(move || (chapter.build)(Setup { model, options }), queue_max).unwrap();
        let identity = Identity {
            chapter: chapter.id.to_owned(),
            served_name: defaults::MODEL.to_owned(),
            instance: Some("instance-1".to_owned()),
            build: engine::cli::build_facts(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(serve(listener, worker, identity, async {
                let _ = stopped.await;
            }))
        });
        Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn wait_ready(&self) {
        wait_until("the server is ready", || {
            http::get(self.address, "/health").status == 200
        });
    }

    fn post(&self, path: &str, body: &Value) -> http::Reply {
        http::post(self.address, path, &body.to_string())
    }

    fn metrics(&self) -> String {
        http::get(self.address, "/metrics").body
    }

    /// What it ended with by itself.
    fn ended(mut self) -> Result<(), ServeError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A bound that only a hang reaches.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain until {what}"
        );
        thread::sleep(Duration::from_millis(5));
    }
}

/// The events of a stream's body, `[DONE]` as a string.
fn events(body: &str) -> Vec<Value> {
    let parse = |event: &str| match event.strip_prefix("data: ").unwrap() {
        "[DONE]" => Value::from("[DONE]"),
        json => serde_json::from_str(json).unwrap(),
    };
    body.split_terminator("\n\n").map(parse).collect()
}
