//! Noise as machines have it: between runs, between neighbouring requests, in queues.

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    Exp1.sample(rng)
}

/// A factor near 1 that varies by `cv`.
pub fn factor(rng: &mut ChaCha8Rng, cv: f64) -> f64 {
    (cv * normal(rng)).exp()
}

/// Factors near 1 that vary by `cv`, each like the one before by `rho`.
pub fn ar1(rng: &mut ChaCha8Rng, count: usize, cv: f64, rho: f64) -> Vec<f64> {
    let fresh = (1.0 - rho * rho).sqrt();
    let mut state = normal(rng);
    (0..count)
        .map(|_| {
            state = rho * state + fresh * normal(rng);
            (cv * state).exp()
        })
        .collect()
}

/// One request of an open loop.
pub struct Served {
    /// From due to the first token, in ms.
    pub ttft_ms: f64,
    /// From due to the end, in ms.
    pub wall_ms: f64,
}

/// Mean service time of the queue.
const SERVICE_MS: f64 = 1000.0;

/// Requests at random times into `servers` servers of the given load, first come first served, with
/// times of service that are exponential. The first `warmup` are served and not returned. Also the
/// time from the first that counts to the end of the last, in ms.
pub fn queue(
    rng: &mut ChaCha8Rng,
    (warmup, count): (usize, usize),
    servers: usize,
    load: f64,
) -> (Vec<Served>, f64) {
    let gap_ms = SERVICE_MS / (servers as f64 * load);
    let mut free_at = vec![0.0_f64; servers];
    let (mut due, mut first_due, mut end) = (0.0, 0.0, 0.0_f64);
    let mut served = Vec::with_capacity(count);
    for index in 0..warmup + count {
        due += gap_ms * exponential(rng);
        let service = SERVICE_MS * exponential(rng);
        let Some(server) = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)) else {
            break;
        };
        let begin = server.max(due);
        *server = begin + service;
        if index < warmup {
            continue;
        }
        if index == warmup {
            first_due = due;
        }
        end = end.max(*server);
        served.push(Served {
            // A tenth of the work is the prompt.
            ttft_ms: begin + service / 10.0 - due,
            wall_ms: *server - due,
        });
    }
    (served, end - first_due)
}
