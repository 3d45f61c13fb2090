//! A sweep: load is raised until it buys nothing more, then looked at closer around the knee. Pure:
//! what was measured goes in, the next load comes out. Running is `run::sweep`'s.

use contracts::defaults;
use contracts::run::{Arrival, Load};
use serde::Serialize;

/// Load is doubled: a knee anywhere up to 4096 is passed within 13 runs.
const FACTOR: f64 = 2.0;
/// Goodput below this share of the best is a fall, where it is seen twice in a row: one run may
/// be disturbed.
const FALL_SHARE: f64 = 0.95;
/// A rise of less than this over two doublings is none; and of loads whose goodput differs by no
/// more, the lowest is the knee, since the others only add waiting.
const RISE_SHARE: f64 = 0.02;
/// Slots of a sweep, at most: beyond what one host serves.
const CONCURRENCY_MAX: u32 = 4_096;
/// Requests a second of a sweep, at most; twelve doublings of the first where that is less.
const RATE_PER_S_MAX: f64 = 4_096.0;
/// Measured requests of a point for each slot, at least: with fewer, most of a run is its ends.
const REQUESTS_PER_SLOT: u32 = 8;
/// Seconds that a point of a rate takes, at least.
const SECONDS_PER_RATE: f64 = 10.0;

/// What is raised, from where, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Range {
    /// Slots of a closed loop.
    Concurrency {
        /// The first load, 1 or more.
        from: u32,
    },
    /// Requests a second of an open loop.
    Rate {
        /// The first load, above 0.
        from_per_s: f64,
        /// How they arrive.
        arrival: Arrival,
        /// In flight at once, at most.
        max_in_flight: Option<u32>,
    },
}

impl Range {
    /// The first level.
    pub fn first(&self) -> f64 {
        match self {
            Self::Concurrency { from } => f64::from(*from),
            Self::Rate { from_per_s, .. } => *from_per_s,
        }
    }

    /// The highest level.
    pub fn most(&self) -> f64 {
        match self {
            Self::Concurrency { from } => f64::from(CONCURRENCY_MAX.max(*from)),
            Self::Rate { from_per_s, .. } => RATE_PER_S_MAX.max(*from_per_s),
        }
    }

    /// The load of a level: slots, or requests a second.
    pub fn load(&self, level: f64) -> Load {
        match self {
            Self::Concurrency { .. } => Load::Closed {
                concurrency: level as u32,
            },
            Self::Rate {
                arrival,
                max_in_flight,
                ..
            } => Load::Open {
                rate_per_s: level,
                arrival: *arrival,
                max_in_flight: *max_in_flight,
            },
        }
    }

    /// Measured requests of a point, where they are counted: `least`, and enough for its load.
    pub fn requests(&self, level: f64, least: u32) -> u32 {
        let enough = match self {
            Self::Concurrency { .. } => level * f64::from(REQUESTS_PER_SLOT),
            Self::Rate { .. } => (level * SECONDS_PER_RATE).ceil(),
        };
        // `as` saturates.
        least.max(enough as u32).min(defaults::N_RUNS_MAX)
    }

    /// A level between two, none where there is none that differs from both by enough.
    fn between(&self, low: f64, high: f64) -> Option<f64> {
        let middle = f64::midpoint(low, high);
        let middle = match self {
            Self::Concurrency { .. } => middle.floor(),
            // Three digits are read more easily than all of a halved rate.
            Self::Rate { .. } => (middle * 1e3).round() / 1e3,
        };
        (low < middle && middle < high).then_some(middle)
    }
}

/// What was measured at one level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Slots, or requests a second.
    pub level: f64,
    /// Good requests a second: those within the objective, or all that ended where there is none.
    /// None if the run failed.
    pub good_per_s: Option<f64>,
    /// The client, not the server, may be what was measured.
    pub client_bound: bool,
}

/// Why a sweep raised its load no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// Goodput fell twice in a row.
    Fell,
    /// Two doublings brought next to nothing.
    Flat,
    /// Not one good request at two loads: more load makes none good.
    NoneGood,
    /// The highest load of a sweep.
    Most,
    /// The client could not follow.
    ClientBound,
    /// A run failed.
    Failed,
}

impl Stop {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fell => "goodput fell below 95 % of its best, twice in a row",
            Self::Flat => "two doublings raised goodput by less than 2 %",
            Self::NoneGood => "not one request was good at two loads",
            Self::Most => "the highest load of a sweep",
            Self::ClientBound => "the client could not follow",
            Self::Failed => "a run failed",
        }
    }
}

/// How far a sweep has got.
#[derive(Debug, Clone)]
pub struct Search {
    range: Range,
    points: Vec<Point>,
    /// Why raising ended, and the levels that are still looked at around the knee.
    raised: Option<(Stop, Vec<f64>)>,
}

impl Search {
    /// Nothing is measured yet.
    pub fn new(range: Range) -> Self {
        Self {
            range,
            points: Vec::new(),
            raised: None,
        }
    }

    /// The level to measure next; none if the sweep is over.
    pub fn next(&self) -> Option<f64> {
        match (&self.raised, self.points.last()) {
            (Some((_, left)), _) => left.first().copied(),
            (None, None) => Some(self.range.first()),
            (None, Some(last)) => Some((last.level * FACTOR).min(self.range.most())),
        }
    }

    /// Takes what was measured at [`Search::next`].
    pub fn take(&mut self, point: Point) {
        self.points.push(point);
        match &mut self.raised {
            Some((_, left)) => {
                left.drain(..left.len().min(1));
            }
            None => {
                if let Some(stop) = self.stopped() {
                    self.raised = Some((stop, self.around_the_knee()));
                }
            }
        }
    }

    /// What was measured, by rising level.
    pub fn curve(&self) -> Vec<Point> {
        let mut curve = self.points.clone();
        curve.sort_by(|a, b| a.level.total_cmp(&b.level));
        curve
    }

    /// Why raising ended; none if it has not.
    pub fn stop(&self) -> Option<Stop> {
        self.raised.as_ref().map(|(stop, _)| *stop)
    }

    /// The lowest level whose goodput is the best, give or take `RISE_SHARE`; none if nothing
    /// good was measured. What a client-bound run measured is not the server's.
    pub fn knee(&self) -> Option<f64> {
        let best = self.best();
        let near = |good: f64| good > 0.0 && good >= best * (1.0 - RISE_SHARE);
        self.curve()
            .iter()
            .find(|point| sound(point).is_some_and(near))
            .map(|point| point.level)
    }

    fn best(&self) -> f64 {
        best(&self.points)
    }

    /// Whether the points so far, all of the raising, are enough.
    fn stopped(&self) -> Option<Stop> {
        let last = self.points.last()?;
        if last.good_per_s.is_none() {
            return Some(Stop::Failed);
        }
        if last.client_bound {
            return Some(Stop::ClientBound);
        }
        let best_of_all = self.best();
        let fell = |point: &Point| {
            point
                .good_per_s
                .is_some_and(|g| g < best_of_all * FALL_SHARE)
        };
        if let Some((before, [one, two])) = self.points.split_last_chunk::<2>() {
            if best_of_all <= 0.0 {
                return Some(Stop::NoneGood);
            }
            if !before.is_empty() && fell(one) && fell(two) {
                return Some(Stop::Fell);
            }
            let earlier = best(before);
            if earlier > 0.0 && best(&[*one, *two]) < earlier * (1.0 + RISE_SHARE) {
                return Some(Stop::Flat);
            }
        }
        (last.level >= self.range.most()).then_some(Stop::Most)
    }

    /// A level on each side of the knee, half-way to its neighbours.
    fn around_the_knee(&self) -> Vec<f64> {
        let Some(knee) = self.knee() else {
            return Vec::new();
        };
        let levels: Vec<f64> = self.curve().iter().map(|point| point.level).collect();
        levels
            .windows(2)
            .filter_map(|pair| match pair {
                [low, high] if *low == knee || *high == knee => self.range.between(*low, *high),
                _ => None,
            })
            .collect()
    }
}

/// Goodput that is the server's own.
fn sound(point: &Point) -> Option<f64> {
    point.good_per_s.filter(|_| !point.client_bound)
}

fn best(points: &[Point]) -> f64 {
    points.iter().filter_map(sound).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
