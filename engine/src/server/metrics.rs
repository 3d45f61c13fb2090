//! `/metrics`: counts and times of the endpoints that generate, in Prometheus' text format.

use std::{fmt::Write, sync::Arc};

use axum::http::StatusCode;
use contracts::generate::GenerateResult;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use super::request::Kind;
use crate::worker::Worker;

/// Content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    endpoint: &'static str,
    status: Status,
}

/// How a request ended: an HTTP status, or the client went away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Status {
    Http(u16),
    ClientGone,
}

impl EncodeLabelValue for Status {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        match self {
            Self::Http(status) => write!(encoder, "{status}"),
            Self::ClientGone => encoder.write_str("client_gone"),
        }
    }
}

/// All figures of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    prompt_tokens: Counter,
    completion_tokens: Counter,
    in_flight: Gauge,
    waiting: Gauge,
    wall: Histogram,
    ttft: Histogram,
}

/// Follows one request and books how it ended, once; dropped before that, the client went away.
#[derive(Debug)]
pub struct Watch {
    metrics: Arc<Metrics>,
    endpoint: &'static str,
    booked: bool,
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        // From 1 ms (a dummy's token) doubling to 4.5 minutes (a long answer on a CPU).
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 19));
        let mut registry = Registry::with_prefix("chapterbench");
        let metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            prompt_tokens: Counter::default(),
            completion_tokens: Counter::default(),
            in_flight: Gauge::default(),
            waiting: Gauge::default(),
            wall: seconds(),
            ttft: seconds(),
        };
        registry.register(
            "requests",
            "Requests ended, by endpoint and status",
            metrics.requests.clone(),
        );
        registry.register(
            "prompt_tokens",
            "Prompt tokens of answered requests",
            metrics.prompt_tokens.clone(),
        );
        registry.register(
            "completion_tokens",
            "Tokens made",
            metrics.completion_tokens.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests waiting or in work",
            metrics.in_flight.clone(),
        );
        registry.register(
            "requests_waiting",
            "Requests without a token yet",
            metrics.waiting.clone(),
        );
        let (wall, ttft) = (
            "Wall time of a request in the engine",
            "Time to first token in the engine",
        );
        registry.register_with_unit("request_wall", wall, Unit::Seconds, metrics.wall.clone());
        registry.register_with_unit("request_ttft", ttft, Unit::Seconds, metrics.ttft.clone());
        Self {
            registry,
            ..metrics
        }
    }

    /// The text that Prometheus reads.
    ///
    /// # Errors
    /// Never in practice: writing to a string succeeds.
    pub fn render(&self, worker: &Worker) -> Result<String, std::fmt::Error> {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.in_flight.set(count(worker.held()));
        self.waiting.set(count(worker.waiting()));
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

impl Watch {
    /// Follows a request to an endpoint.
    pub fn new(metrics: &Arc<Metrics>, kind: Kind) -> Self {
        let endpoint = match kind {
            Kind::Chat => "chat_completions",
            Kind::Completions => "completions",
        };
        Self {
            metrics: Arc::clone(metrics),
            endpoint,
            booked: false,
        }
    }

    /// The engine has given its answer.
    pub fn finished(&mut self, result: &GenerateResult) {
        let (metrics, measured) = (&self.metrics, &result.metrics);
        metrics.prompt_tokens.inc_by(measured.input_tokens.into());
        metrics
            .completion_tokens
            .inc_by(measured.output_tokens.into());
        metrics.wall.observe(measured.wall_ms / 1e3);
        if measured.ttft_ms > 0.0 {
            metrics.ttft.observe(measured.ttft_ms / 1e3);
        }
        self.book(Status::Http(StatusCode::OK.as_u16()));
    }

    /// It ended with an error; inside a stream this is the status it would have had.
    pub fn failed(&mut self, status: StatusCode) {
        self.book(Status::Http(status.as_u16()));
    }

    fn book(&mut self, status: Status) {
        if !self.booked {
            self.booked = true;
            self.metrics
                .requests
                .get_or_create(&Labels {
                    endpoint: self.endpoint,
                    status,
                })
                .inc();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.book(Status::ClientGone);
    }
}
