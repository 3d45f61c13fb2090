//! What is simulated: sessions of two arms in ABBA order, one family of primary metrics each.

use controller::compare::judge::{Better, Design, Floor};
use controller::stats::quantile::quantile;
use rand_chacha::ChaCha8Rng;

use super::noise::{ar1, factor, normal, queue};

/// One primary metric of a session.
pub struct Metric {
    pub base: Vec<f64>,
    pub candidate: Vec<f64>,
    pub better: Better,
    pub floor: Option<Floor>,
}

/// Sessions of one kind.
pub struct Scenario {
    pub name: &'static str,
    /// Runs a side.
    pub runs: usize,
    pub design: Design,
    /// One session, by the number of runs a side.
    pub session: fn(&mut ChaCha8Rng, usize) -> Vec<Metric>,
}

const fn paired(
    name: &'static str,
    runs: usize,
    session: fn(&mut ChaCha8Rng, usize) -> Vec<Metric>,
) -> Scenario {
    Scenario {
        name,
        runs,
        design: Design::Paired,
        session,
    }
}

const fn unpaired(
    name: &'static str,
    runs: usize,
    session: fn(&mut ChaCha8Rng, usize) -> Vec<Metric>,
) -> Scenario {
    Scenario {
        name,
        runs,
        design: Design::Unpaired,
        session,
    }
}

/// Two arms that do not differ.
pub const EQUAL: [Scenario; 14] = [
    paired("offline, run spread 1 %", 3, |rng, runs| {
        offline(rng, runs, 0.0, 0.0)
    }),
    paired("offline, run spread 1 %", 5, |rng, runs| {
        offline(rng, runs, 0.0, 0.0)
    }),
    unpaired("offline, run spread 1 %, two sessions", 5, |rng, runs| {
        offline(rng, runs, 0.0, 0.0)
    }),
    paired("offline, neighbours alike by 0.9", 3, |rng, runs| {
        offline(rng, runs, 0.9, 0.0)
    }),
    paired("offline, neighbours alike by 0.9", 5, |rng, runs| {
        offline(rng, runs, 0.9, 0.0)
    }),
    paired("offline, drift 3 % over the session", 3, |rng, runs| {
        offline(rng, runs, 0.3, 0.03)
    }),
    paired("offline, drift 3 % over the session", 5, |rng, runs| {
        offline(rng, runs, 0.3, 0.03)
    }),
    paired(
        "online, 8 at a time, neighbours alike by 0.6",
        3,
        |rng, runs| closed_loop(rng, runs, 0.0),
    ),
    paired(
        "online, 8 at a time, neighbours alike by 0.6",
        5,
        |rng, runs| closed_loop(rng, runs, 0.0),
    ),
    paired(
        "online, 8 at a time, drift 3 % over the session",
        5,
        |rng, runs| closed_loop(rng, runs, 0.03),
    ),
    paired(
        "online, open loop, 8 servers at load 0.8",
        5,
        |rng, runs| open_loop(rng, runs, 0.8),
    ),
    paired(
        "online, open loop, 8 servers at load 0.9",
        3,
        |rng, runs| open_loop(rng, runs, 0.9),
    ),
    paired(
        "online, open loop, 8 servers at load 0.9",
        5,
        |rng, runs| open_loop(rng, runs, 0.9),
    ),
    unpaired("offline, one run a side and a noise floor", 1, by_floor),
];

/// A candidate that takes 5 % longer, and how often that must be found.
pub const TRUE_DIFFERENCE: [(Scenario, f64); 3] = [
    (
        paired("5 % slower, runs vary by 1 %", 3, |rng, runs| {
            slower(rng, runs, 0.01)
        }),
        0.83,
    ),
    (
        paired("5 % slower, runs vary by 1 %", 5, |rng, runs| {
            slower(rng, runs, 0.01)
        }),
        1.00,
    ),
    (
        paired("5 % slower, runs vary by 2 %", 5, |rng, runs| {
            slower(rng, runs, 0.02)
        }),
        0.82,
    ),
];

/// Requests of an offline run, as by default.
const OFFLINE_REQUESTS: usize = 20;

/// Requests of an online run: enough for p95 to be what sides are judged by.
const ONLINE_REQUESTS: usize = 100;

/// Runs as they follow each other, A B B A …: `run` gets where in the session it is, from 0 to 1, and
/// gives a value for each of the metrics, named by which direction is good.
fn abba<const N: usize>(
    rng: &mut ChaCha8Rng,
    runs: usize,
    better: [Better; N],
    mut run: impl FnMut(&mut ChaCha8Rng, f64) -> [f64; N],
) -> Vec<Metric> {
    let mut metrics = better.map(|better| Metric {
        base: Vec::new(),
        candidate: Vec::new(),
        better,
        floor: None,
    });
    for position in 0..2 * runs {
        let values = run(rng, position as f64 / (2 * runs - 1) as f64);
        // The second block is turned round, the third is not.
        let is_base = (position % 2 == 0) == (position / 2 % 2 == 0);
        for (metric, value) in metrics.iter_mut().zip(values) {
            let side = if is_base {
                &mut metric.base
            } else {
                &mut metric.candidate
            };
            side.push(value);
        }
    }
    metrics.into()
}

/// The median wall of twenty requests.
fn offline(rng: &mut ChaCha8Rng, runs: usize, rho: f64, drift: f64) -> Vec<Metric> {
    abba(rng, runs, [Better::Lower], |rng, place| {
        let level = 1200.0 * factor(rng, 0.01) * (1.0 + drift * place);
        let walls = scaled(ar1(rng, OFFLINE_REQUESTS, 0.03, rho), level);
        [at(&walls, 0.5)]
    })
}

/// Tokens per second, p95 of TTFT and of the wall.
fn closed_loop(rng: &mut ChaCha8Rng, runs: usize, drift: f64) -> Vec<Metric> {
    let better = [Better::Higher, Better::Lower, Better::Lower];
    abba(rng, runs, better, |rng, place| {
        let level = factor(rng, 0.01) * (1.0 + drift * place);
        let ttfts = scaled(ar1(rng, ONLINE_REQUESTS, 0.2, 0.6), 60.0 * level);
        let decoding = scaled(ar1(rng, ONLINE_REQUESTS, 0.05, 0.6), 900.0 * level);
        let walls: Vec<f64> = ttfts.iter().zip(&decoding).map(|(t, d)| t + d).collect();
        let tok_per_s = 8.0 * 40.0 * 1000.0 * walls.len() as f64 / walls.iter().sum::<f64>();
        [tok_per_s, at(&ttfts, 0.95), at(&walls, 0.95)]
    })
}

/// Tokens per second, p95 of TTFT and of the wall from due.
fn open_loop(rng: &mut ChaCha8Rng, runs: usize, load: f64) -> Vec<Metric> {
    let better = [Better::Higher, Better::Lower, Better::Lower];
    abba(rng, runs, better, |rng, _| {
        let load = load * factor(rng, 0.01);
        let (served, window_ms) = queue(rng, (8, ONLINE_REQUESTS), 8, load);
        let ttfts: Vec<f64> = served.iter().map(|request| request.ttft_ms).collect();
        let walls: Vec<f64> = served.iter().map(|request| request.wall_ms).collect();
        let tok_per_s = 40.0 * 1000.0 * served.len() as f64 / window_ms;
        [tok_per_s, at(&ttfts, 0.95), at(&walls, 0.95)]
    })
}

/// One run a side, on a host whose floor is known from five.
fn by_floor(rng: &mut ChaCha8Rng, runs: usize) -> Vec<Metric> {
    let mut metrics = offline(rng, runs, 0.3, 0.0);
    let calibration = offline(rng, 5, 0.3, 0.0);
    for (metric, known) in metrics.iter_mut().zip(calibration) {
        let logs: Vec<f64> = known.base.iter().map(|value| value.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        metric.floor = Some(Floor {
            log_sd: (squares / (count - 1.0)).sqrt(),
            run_count: 5,
            measured_unix_ms: 0,
        });
    }
    metrics
}

/// One metric of which the runs vary by `cv`; the candidate takes 5 % longer.
fn slower(rng: &mut ChaCha8Rng, runs: usize, cv: f64) -> Vec<Metric> {
    let mut side = |level: f64| {
        (0..runs)
            .map(|_| level * (1.0 + cv * normal(rng)))
            .collect()
    };
    vec![Metric {
        base: side(100.0),
        candidate: side(105.0),
        better: Better::Lower,
        floor: None,
    }]
}

fn scaled(mut factors: Vec<f64>, level: f64) -> Vec<f64> {
    for factor in &mut factors {
        *factor *= level;
    }
    factors
}

/// NaN where there is none, which has no verdict and fails the test.
fn at(values: &[f64], q: f64) -> f64 {
    quantile(values, q).unwrap_or(f64::NAN)
}
