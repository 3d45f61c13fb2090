//! What all clients of a run share: where the server is, what every request's head says, TLS, and
//! what was learned of the server. Made once, before anything is timed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contracts::sample::{ErrorClass, SampleError};
use http::{HeaderName, HeaderValue};
use tokio::sync::OnceCell;

use super::target::Target;
use super::tls::Tls;
use super::usage::UsageOption;
use crate::blot::Blotter;
use crate::load::answer::failure;
use crate::load::clock::Clock;
use crate::load::workload::Route;

/// How long each wait of one request may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Name resolution, opening the connection, and TLS.
    pub connect: Duration,
    /// From the first write to the first byte of an answer.
    pub first_byte: Duration,
    /// Silence between two reads of an answer.
    pub stall: Duration,
    /// The whole request, from its first write.
    pub total: Duration,
}

/// How one run's requests are sent. It has no `Debug`, since it holds secrets.
#[derive(Clone)]
pub struct ClientConfig {
    /// Where.
    pub target: Target,
    /// To which endpoint.
    pub route: Route,
    /// Whether a stream is asked for.
    pub stream: bool,
    /// Headers beside our own, and over those of the same name; values are secrets.
    pub headers: BTreeMap<String, String>,
    /// Bounds of waits.
    pub timeouts: Timeouts,
    /// Whether a connection is kept for the next request. If not, its opening is part of a
    /// request's wall time.
    pub keepalive: bool,
    /// Whether a tokenizer counts tokens where the server does not.
    pub counted: bool,
}

/// A configuration that no request can be made from; the message names what.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// A header. Its value is not printed, for it may be a secret.
    #[error("header {name:?}: {why}")]
    Header {
        /// As given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// TLS.
    #[error("{host}: {why}")]
    Tls {
        /// Host and port.
        host: String,
        /// One line.
        why: String,
    },
}

/// Shared by all clients of a run.
pub struct Shared {
    pub(super) clock: Clock,
    pub(super) tls: Option<Tls>,
    pub(super) stream: bool,
    pub(super) timeouts: Timeouts,
    pub(super) keepalive: bool,
    pub(super) counted: bool,
    pub(super) usage: UsageOption,
    target: Target,
    addresses: OnceCell<Vec<SocketAddr>>,
    /// All of a request's head but the body's length.
    head: Vec<u8>,
    blotter: Blotter,
}

/// Headers by which the client delimits messages: not for users to set.
const FRAMING_HEADERS: [&str; 6] = [
    "connection",
    "content-length",
    "expect",
    "te",
    "transfer-encoding",
    "upgrade",
];

impl Shared {
    /// Checks `config` and prepares what it says. Nothing is opened yet.
    pub fn new(config: ClientConfig, clock: Clock) -> Result<Arc<Self>, ClientError> {
        let head = request_head(&config)?;
        let blotter = Blotter::of(&config.headers);
        let target = config.target;
        let tls = target.tls.then(|| Tls::new(&target.host)).transpose();
        let tls = tls.map_err(|why| ClientError::Tls {
            host: target.host_port(),
            why,
        })?;
        Ok(Arc::new(Self {
            clock,
            tls,
            stream: config.stream,
            timeouts: config.timeouts,
            keepalive: config.keepalive,
            counted: config.counted,
            usage: UsageOption::default(),
            target,
            addresses: OnceCell::new(),
            head,
            blotter,
        }))
    }

    /// Whether the server has refused `stream_options`: bodies made from now on may leave it out.
    /// One that carries it all the same is sent without it.
    pub fn usage_refused(&self) -> bool {
        self.usage.is_refused()
    }

    /// The server's addresses, looked up by the first who asks.
    pub(super) async fn addresses(&self) -> Result<&[SocketAddr], SampleError> {
        let Target { host, port, .. } = &self.target;
        let found = self.addresses.get_or_try_init(|| async {
            let found = tokio::net::lookup_host((host.as_str(), *port)).await;
            found.map(Iterator::collect)
        });
        let found: Result<&Vec<_>, std::io::Error> = found.await;
        found.map(Vec::as_slice).map_err(|error| {
            failure(
                ErrorClass::Dns,
                format!("the name does not resolve: {error}"),
            )
        })
    }

    /// A request as it goes out, head and body in one.
    pub(super) fn request_bytes(&self, body: &[u8]) -> Vec<u8> {
        let length = body.len().to_string();
        let bytes = self.head.len() + length.len() + 4 + body.len();
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(length.as_bytes());
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
        out
    }

    /// An error that says which server it is about, and repeats no secret in the server's words.
    pub(super) fn named(&self, error: SampleError) -> SampleError {
        let said = self.blotter.text(&error.message);
        let message = format!("{}: {said}", self.target.host_port());
        failure(error.class, message)
    }
}

/// A user's headers by lower-case name, if they can be sent.
///
/// # Errors
/// The first that cannot, without its value.
pub(crate) fn sendable(
    headers: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, &str>, ClientError> {
    let sendable = |(name, value): (&String, &'_ String)| {
        let refuse = |why| ClientError::Header {
            name: name.clone(),
            why,
        };
        let key = HeaderName::from_bytes(name.as_bytes());
        let key = key.map_err(|_| refuse("is no name of a header"))?;
        if FRAMING_HEADERS.contains(&key.as_str()) {
            return Err(refuse("is set by the client itself"));
        }
        if HeaderValue::from_str(value).is_err() {
            return Err(refuse("its value has characters that no header can carry"));
        }
        Ok(key.as_str().to_owned())
    };
    headers
        .iter()
        .map(|header| Ok((sendable(header)?, header.1.as_str())))
        .collect()
}

/// The head of every request, up to the value of its content-length.
fn request_head(config: &ClientConfig) -> Result<Vec<u8>, ClientError> {
    let accept = if config.stream {
        "text/event-stream"
    } else {
        "application/json"
    };
    let agent = concat!("chapterbench/", env!("CARGO_PKG_VERSION"));
    let ours = [
        ("host", config.target.authority.as_str()),
        ("content-type", "application/json"),
        ("accept", accept),
        ("accept-encoding", "identity"),
        ("user-agent", agent),
    ];
    let mut headers: BTreeMap<String, &str> =
        ours.map(|(name, value)| (name.to_owned(), value)).into();
    headers.extend(sendable(&config.headers)?);
    let Target { prefix, .. } = &config.target;
    let mut head = format!("POST {prefix}{} HTTP/1.1\r\n", config.route.path());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !config.keepalive {
        head.push_str("connection: close\r\n");
    }
    head.push_str("content-length: ");
    Ok(head.into_bytes())
}
