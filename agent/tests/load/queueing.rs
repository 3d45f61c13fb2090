//! A server that works on so many requests at once, each for so long, and queues the rest; and what
//! it saw. With it, the load's shape is told from the server's side.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::load::{Clock, DriveEnd, OnlineJob, Phase, drive_online};
use contracts::sample::Sample;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::support::{chunked, read_request, stream_head, usual_events};

/// What a request met when it arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub at_ns: u64,
    pub connection: usize,
    /// Connections that were open.
    pub connections: usize,
    /// Requests in the server, this one among them.
    pub in_flight: usize,
    /// The seed that it carries: the job's and its index.
    pub seed: u64,
}

/// Ends with the test's runtime.
pub struct Queueing {
    pub url: String,
    pub clock: Clock,
    floor: Arc<Floor>,
}

struct Floor {
    clock: Clock,
    places: Semaphore,
    in_flight: AtomicUsize,
    connections: AtomicUsize,
    arrivals: Mutex<Vec<Arrival>>,
    logs: bool,
}

impl Queueing {
    /// `service(i)` is how long the i-th request is worked on.
    pub async fn start(
        places: usize,
        service: impl Fn(usize) -> Duration + Send + Sync + 'static,
    ) -> Self {
        Self::begin(places, true, service).await
    }

    /// One that remembers nothing.
    pub async fn forgetful(places: usize) -> Self {
        Self::begin(places, false, |_| Duration::ZERO).await
    }

    async fn begin(
        places: usize,
        logs: bool,
        service: impl Fn(usize) -> Duration + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let clock = Clock::start();
        let floor = Arc::new(Floor {
            clock,
            places: Semaphore::new(places),
            in_flight: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            arrivals: Mutex::default(),
            logs,
        });
        let server = Self {
            url,
            clock,
            floor: Arc::clone(&floor),
        };
        let service = Arc::new(service);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = floor.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(answer_all(
                    stream,
                    connection,
                    floor.clone(),
                    service.clone(),
                ));
            }
        });
        server
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.floor.arrivals.lock().unwrap().clone()
    }
}

async fn answer_all(
    mut stream: TcpStream,
    connection: usize,
    floor: Arc<Floor>,
    service: Arc<impl Fn(usize) -> Duration>,
) {
    stream.set_nodelay(true).unwrap();
    let answer = stream_head() + &chunked(&usual_events()) + "0\r\n\r\n";
    while let Some((_, body)) = read_request(&mut stream).await {
        let in_flight = floor.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        let mut number = 0;
        if floor.logs {
            let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let mut arrivals = floor.arrivals.lock().unwrap();
            number = arrivals.len();
            arrivals.push(Arrival {
                at_ns: floor.clock.now_ns(),
                connection,
                connections: floor.connections.load(Ordering::SeqCst),
                in_flight,
                seed: body["seed"].as_u64().unwrap(),
            });
        }
        let place = floor.places.acquire().await.unwrap();
        let work = service(number);
        if !work.is_zero() {
            tokio::time::sleep(work).await;
        }
        drop(place);
        floor.in_flight.fetch_sub(1, Ordering::SeqCst);
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A drive, and what came of it.
pub struct Driven {
    pub end: DriveEnd,
    pub samples: Vec<Sample>,
    pub phases: Vec<Phase>,
}

impl Driven {
    /// Measured samples in order of index.
    pub fn measured(&self) -> Vec<&Sample> {
        let mut measured: Vec<_> = self.samples.iter().filter(|s| !s.warmup).collect();
        measured.sort_by_key(|s| s.index);
        measured
    }
}

/// Drives `job` on the server's clock; `cancel` may end it.
pub async fn drive_on(clock: Clock, job: &OnlineJob, cancel: &CancellationToken) -> Driven {
    let (out, mut samples) = mpsc::channel(16);
    let mut phases = Vec::new();
    let driven = async {
        let end = drive_online(job, clock, &out, |p| phases.push(p), cancel).await;
        drop(out);
        end
    };
    let collect = async {
        let mut all = Vec::new();
        while let Some(sample) = samples.recv().await {
            all.push(sample);
        }
        all
    };
    let (end, samples) = tokio::join!(driven, collect);
    Driven {
        end,
        samples,
        phases,
    }
}

/// Milliseconds from due, or from sent, to done.
pub fn from_due_ms(sample: &Sample) -> f64 {
    (sample.done_ns.unwrap() - sample.due_ns) as f64 / 1e6
}

pub fn from_sent_ms(sample: &Sample) -> f64 {
    (sample.done_ns.unwrap() - sample.sent_ns.unwrap()) as f64 / 1e6
}

/// Medians of the three thirds of `values`.
pub fn thirds(values: &[f64]) -> [f64; 3] {
    let third = values.len() / 3;
    [0, 1, 2].map(|i| {
        let mut part = values[i * third..(i + 1) * third].to_vec();
        part.sort_by(f64::total_cmp);
        part[part.len() / 2]
    })
}
