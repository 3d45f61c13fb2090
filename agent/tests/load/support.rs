//! Servers that send exact bytes, for the load generator's tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::load::{
    Bodies, Clock, DriveEnd, OnlineJob, Phase, Route, Target, Timeouts, drive_online,
};
use agent::prompts::Prompts;
use contracts::generate::SamplingParams;
use contracts::run::{AllowFailures, Load};
use contracts::sample::Sample;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What a server does with one request.
#[derive(Clone)]
pub enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    Close,
    /// Say nothing more and keep the connection.
    Hang,
}

/// The steps of one answer; without `Close` the connection is kept.
#[derive(Clone, Default)]
pub struct Script(Vec<Step>);

impl Script {
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self(vec![Step::Send(bytes)])
    }

    pub fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }
}

/// A request as the server read it.
#[derive(Clone)]
pub struct Received {
    /// Connections count from 0.
    pub connection: usize,
    pub head: String,
    pub body: serde_json::Value,
}

/// A running server; it ends with the test's runtime.
pub struct TestServer {
    pub url: String,
    log: Arc<Log>,
}

struct Log {
    clock: Clock,
    requests: Mutex<Vec<Received>>,
    writes: Mutex<Vec<u64>>,
    answered: AtomicUsize,
}

impl TestServer {
    pub fn requests(&self) -> Vec<Received> {
        self.log.requests.lock().unwrap().clone()
    }

    /// When each write was called, on the server's clock.
    pub fn writes(&self) -> Vec<u64> {
        self.log.writes.lock().unwrap().clone()
    }
}

/// Serves `script(i)` to the i-th request, over all connections.
pub async fn serve(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> TestServer {
    serve_on(Clock::start(), script).await
}

/// The same with writes logged on a clock that the client shares.
pub async fn serve_on(
    clock: Clock,
    script: impl Fn(usize) -> Script + Send + Sync + 'static,
) -> TestServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let log = Arc::new(Log {
        clock,
        requests: Mutex::default(),
        writes: Mutex::default(),
        answered: AtomicUsize::new(0),
    });
    let server = TestServer {
        url,
        log: log.clone(),
    };
    let script = Arc::new(script);
    tokio::spawn(async move {
        let mut connection = 0;
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_all(stream, connection, log.clone(), script.clone()));
            connection += 1;
        }
    });
    server
}

async fn answer_all(
    mut stream: TcpStream,
    connection: usize,
    log: Arc<Log>,
    script: Arc<impl Fn(usize) -> Script>,
) {
    stream.set_nodelay(true).unwrap();
    while let Some((head, body)) = read_request(&mut stream).await {
        let body = serde_json::from_slice(&body).unwrap();
        log.requests.lock().unwrap().push(Received {
            connection,
            head,
            body,
        });
        let mut steps: VecDeque<Step> =
            script(log.answered.fetch_add(1, Ordering::SeqCst)).0.into();
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Send(bytes) => {
                    log.writes.lock().unwrap().push(log.clock.now_ns());
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Close => return,
                Step::Hang => std::future::pending().await,
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end + 2].to_vec()).unwrap();
            let length = head
                .to_ascii_lowercase()
                .lines()
                .find_map(|l| l.strip_prefix("content-length: ")?.parse::<usize>().ok())
                .unwrap();
            let mut body = bytes.split_off(end + 4);
            let had = body.len();
            body.resize(length, 0);
            stream.read_exact(&mut body[had..]).await.ok()?;
            return Some((head, body));
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

pub fn stream_head() -> String {
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        .into()
}

pub fn chunked(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// Three tokens, a finish reason, usage, `[DONE]`.
pub fn usual_events() -> String {
    let mut events = String::new();
    for token in ["a", "b", "c"] {
        events += &format!("data: {{\"choices\":[{{\"index\":0,\"text\":\"{token}\"}}]}}\n\n");
    }
    events += "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
    events += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":3}}\n\n";
    events + "data: [DONE]\n\n"
}

pub fn usual_stream() -> Script {
    let wire = stream_head() + &chunked(&usual_events()) + "0\r\n\r\n";
    Script::bytes(wire.into_bytes())
}

pub fn json(status: u16, body: &str) -> Script {
    Script::bytes(
        format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes(),
    )
}

/// One segment after the other, `gap` apart.
pub fn script_of(segments: &[&str], gap: Duration) -> Script {
    let mut script = Script::default();
    for (i, segment) in segments.iter().enumerate() {
        if i > 0 {
            script = script.then(Step::Wait(gap));
        }
        script = script.then(Step::Send(segment.as_bytes().to_vec()));
    }
    script
}

/// A body of `bytes` bytes without a line end.
pub fn long_body(kind: &str, bytes: usize) -> Script {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {bytes}\r\n\r\n");
    Script::bytes(head.into_bytes()).then(Step::Send(vec![b' '; bytes]))
}

/// A job of completions with two prompts and seed 7.
pub fn job(url: &str, warmup: u32, n_runs: u32) -> OnlineJob {
    OnlineJob {
        target: Target::parse(url).unwrap(),
        headers: Default::default(),
        bodies: Bodies {
            extra: Default::default(),
            route: Route::Completions,
            model: "default".into(),
            prompts: Arc::new(Prompts::texts(vec!["p".to_owned(), "q".to_owned()], 40)),
            sampling: SamplingParams {
                seed: 7,
                ..SamplingParams::default()
            },
            stream: true,
            return_token_ids: false,
        },
        load: Load::Closed { concurrency: 1 },
        trace_due_ms: Default::default(),
        warmup,
        n_runs,
        duration: None,
        keepalive: true,
        allow_failures: AllowFailures::Count { n: 0 },
        timeouts: Timeouts {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(20),
            stall: Duration::from_secs(20),
            total: Duration::from_secs(60),
        },
        counter: None,
    }
}

/// A port that is taken, so that no other test gets it, and on which nobody listens.
pub struct RefusingPort {
    pub url: String,
    _socket: socket2::Socket,
}

impl RefusingPort {
    pub fn open() -> Self {
        let socket = bound_socket();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Self {
            url: format!("http://{address}"),
            _socket: socket,
        }
    }
}

fn bound_socket() -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket
}

/// A listener that never accepts and whose queue is full.
pub struct FullListener {
    pub url: String,
    _listener: socket2::Socket,
    _queued: Vec<socket2::Socket>,
}

impl FullListener {
    pub fn open() -> Self {
        use socket2::{Domain, Socket, Type};
        let listener = bound_socket();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        for _ in 0..8 {
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let full = client
                .connect_timeout(&address, Duration::from_millis(200))
                .is_err();
            queued.push(client);
            if full {
                break;
            }
        }
        Self {
            url: format!("http://{}", address.as_socket().unwrap()),
            _listener: listener,
            _queued: queued,
        }
    }
}

/// Runs a job to its end.
pub async fn drive(job: &OnlineJob) -> (DriveEnd, Vec<Sample>, Vec<Phase>) {
    let (out, mut samples) = mpsc::channel(1);
    let mut phases = Vec::new();
    let cancel = CancellationToken::new();
    let collect = async move {
        let mut all = Vec::new();
        while let Some(sample) = samples.recv().await {
            all.push(sample);
        }
        all
    };
    let driven = async {
        let end = drive_online(job, Clock::start(), &out, |p| phases.push(p), &cancel).await;
        drop(out);
        end
    };
    let (end, samples) = tokio::join!(driven, collect);
    (end, samples, phases)
}

/// The one sample of a run of one request.
pub async fn one(script: Script) -> Sample {
    let server = serve(move |_| script.clone()).await;
    let mut job = job(&server.url, 0, 1);
    job.timeouts.first_byte = Duration::from_millis(400);
    job.timeouts.stall = Duration::from_millis(400);
    job.timeouts.total = Duration::from_millis(1500);
    let (_, mut samples, _) = drive(&job).await;
    assert_eq!(samples.len(), 1);
    samples.remove(0)
}
