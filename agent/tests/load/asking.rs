//! One client and what it makes of a scripted server's answers, without a drive.

use std::sync::Arc;
use std::time::Duration;

use agent::load::{Client, ClientConfig, Clock, Route, Shared, Target, Timeouts};
use bytes::Bytes;
use contracts::sample::{ErrorClass, Sample};
use tokio_util::sync::CancellationToken;

use crate::support::{self, Script, TestServer};

/// A body that asks for a stream with usage.
pub const BODY: &str =
    r#"{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}"#;

pub fn config(url: &str) -> ClientConfig {
    ClientConfig {
        target: Target::parse(url).unwrap(),
        route: Route::Chat,
        stream: true,
        headers: Default::default(),
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(20),
            stall: Duration::from_secs(20),
            total: Duration::from_secs(60),
        },
        keepalive: true,
        counted: false,
    }
}

/// A client of its own run, and the run's clock.
pub struct Asker {
    pub shared: Arc<Shared>,
    pub client: Client,
    clock: Clock,
}

impl Asker {
    pub fn new(config: ClientConfig, clock: Clock) -> Self {
        let shared = Shared::new(config, clock).unwrap();
        Self {
            client: Client::new(shared.clone()),
            shared,
            clock,
        }
    }

    /// Makes one request.
    pub async fn ask(&mut self) -> Sample {
        let now_ns = self.clock.now_ns();
        let mut sample = Sample {
            due_ns: now_ns,
            start_ns: now_ns,
            ..Sample::default()
        };
        let cancel = CancellationToken::new();
        let body = Bytes::from_static(BODY.as_bytes());
        let ended = self.client.request(&body, &mut sample, &cancel).await;
        let verdict = ended.answer.failure(&ended.end);
        ended.answer.settle(&mut sample, ended.end, None);
        assert_eq!(verdict, sample.error, "the cheap verdict is the full one");
        sample
    }
}

/// A server of `script(i)` for its i-th request, and a client of it on the same clock.
pub async fn asker(
    script: impl Fn(usize) -> Script + Send + Sync + 'static,
) -> (TestServer, Asker) {
    let clock = Clock::start();
    let server = support::serve_on(clock, script).await;
    let asker = Asker::new(config(&server.url), clock);
    (server, asker)
}

/// The sample of one request to a server that plays `script`.
pub async fn answer_to(script: Script) -> Sample {
    let (_server, mut asker) = asker(move |_| script.clone()).await;
    asker.ask().await
}

/// What a failed request says; it must name the server.
pub fn failure_of(sample: &Sample, host: &str) -> (ErrorClass, String) {
    let error = sample.error.clone().unwrap();
    let message = error.message.strip_prefix(&format!("{host}: "));
    let message = message.map(str::to_owned);
    assert!(message.is_some(), "{host}: {}", error.message);
    assert!(!error.message.contains('\n'), "{}", error.message);
    (error.class, message.unwrap_or_default())
}

/// `http://127.0.0.1:1` without its scheme.
pub fn host_of(url: &str) -> &str {
    url.split_once("://").unwrap().1
}
