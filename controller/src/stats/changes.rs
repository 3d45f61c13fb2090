//! Where the level of a series changed: E-divisive with a permutation test.
//!
//! Matteson and James, "A nonparametric approach for multiple change point analysis of multivariate
//! data", Journal of the American Statistical Association 109 (2014), with distances to the power 1:
//! the split whose two sides are farthest apart is looked for, tested, and both sides are looked at
//! again. The test supposes that without a change every order of the values is alike.

use std::ops::Range;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::error::{StatsError, at_least, finite};

/// Values a series needs: four on either side, shuffled, look as far apart one time in 35.
pub const MIN_VALUES: usize = 8;

/// Values that are looked at, for the work grows with their square at each shuffle.
pub const MAX_VALUES: usize = 200;

/// Values between two changes at least: fewer are outliers and no level.
pub const MIN_SEGMENT: usize = 3;

/// Chance that a series without a change is said to have one.
pub const ALPHA: f64 = 0.05;

/// Shuffles of a test: the smallest p is 1 in 500.
const SHUFFLES: u32 = 499;

/// Of the shuffles: the same series has the same changes each time.
const SEED: u64 = 0;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value after it.
    pub at: usize,
    /// (hits + 1) / (shuffles + 1) of the test when it was found.
    pub p: f64,
}

/// The changes in `values`, which are in the order of time, first ones first.
pub fn changes(values: &[f64]) -> Result<Vec<Change>, StatsError> {
    at_least(MIN_VALUES, values)?;
    finite(values)?;
    if values.len() > MAX_VALUES {
        return Err(StatsError::TooMany);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let whole = 0..values.len();
    let mut segments = vec![whole];
    let mut found = Vec::new();
    while let Some(split) = farthest(values, &segments) {
        let Some(p) = significant(values, &segments, split.distance, &mut rng) else {
            break;
        };
        found.push(Change { at: split.at, p });
        segments = segments
            .into_iter()
            .flat_map(|segment| halves(segment, split.at))
            .collect();
    }
    found.sort_by_key(|change| change.at);
    Ok(found)
}

/// The segment before and from `at` on, where it is inside; else the segment.
fn halves(segment: Range<usize>, at: usize) -> Vec<Range<usize>> {
    if segment.contains(&at) {
        vec![segment.start..at, at..segment.end]
    } else {
        vec![segment]
    }
}

/// A place to split at, and how far apart its sides are.
#[derive(Clone, Copy)]
struct Split {
    at: usize,
    distance: f64,
}

/// The best split of any segment.
fn farthest(values: &[f64], segments: &[Range<usize>]) -> Option<Split> {
    let splits = segments.iter().filter_map(|segment| {
        let split = best_split(values.get(segment.clone())?)?;
        let at = split.at + segment.start;
        Some(Split { at, ..split })
    });
    splits.max_by(|a, b| a.distance.total_cmp(&b.distance))
}

/// p of a split this far apart, values shuffled within their segments; none above [`ALPHA`].
fn significant(
    values: &[f64],
    segments: &[Range<usize>],
    distance: f64,
    rng: &mut ChaCha8Rng,
) -> Option<f64> {
    let p = |hits: u32| f64::from(hits + 1) / f64::from(SHUFFLES + 1);
    let mut shuffled = values.to_vec();
    let mut hits = 0;
    for _ in 0..SHUFFLES {
        for segment in segments {
            shuffled.get_mut(segment.clone())?.shuffle(rng);
        }
        let by_chance = farthest(&shuffled, segments).map_or(0.0, |split| split.distance);
        hits += u32::from(by_chance >= distance * (1.0 - 1e-12));
        if p(hits) > ALPHA {
            return None;
        }
    }
    Some(p(hits))
}

/// The split τ of one segment, with the end κ of what follows it, that maximises Q of the paper's
/// equation 7; none of a segment that is too short or has no spread.
fn best_split(values: &[f64]) -> Option<Split> {
    let n = values.len();
    if n < 2 * MIN_SEGMENT || values.iter().all(|value| Some(value) == values.first()) {
        return None;
    }
    let sums = DistanceSums::of(values);
    let mut best: Option<Split> = None;
    for at in MIN_SEGMENT..=n - MIN_SEGMENT {
        for end in at + MIN_SEGMENT..=n {
            let distance = sums.apart(at, end);
            if best.is_none_or(|best| distance > best.distance) {
                best = Some(Split { at, distance });
            }
        }
    }
    best.filter(|best| best.distance > 0.0)
}

/// Sums of |xᵢ − xⱼ| over all i < a, j < b, for every a and b.
struct DistanceSums {
    width: usize,
    sums: Vec<f64>,
}

impl DistanceSums {
    fn of(values: &[f64]) -> Self {
        let width = values.len() + 1;
        let mut sums = vec![0.0; width];
        let mut above = vec![0.0; width];
        for a in values {
            let mut row = Vec::with_capacity(width);
            row.push(0.0);
            let mut along = 0.0;
            for (b, over) in values.iter().zip(above.iter().skip(1)) {
                along += (a - b).abs();
                row.push(along + over);
            }
            sums.extend_from_slice(&row);
            above = row;
        }
        Self { width, sums }
    }

    fn upto(&self, a: usize, b: usize) -> f64 {
        self.sums.get(a * self.width + b).copied().unwrap_or(0.0)
    }

    /// Q: n·m/(n + m) times the distance between the first `at` values and those from `at` to `end`,
    /// less the distances within each.
    fn apart(&self, at: usize, end: usize) -> f64 {
        let (n, m) = (at as f64, (end - at) as f64);
        let first = self.upto(at, at) / 2.0;
        let second = (self.upto(end, end) - 2.0 * self.upto(at, end) + self.upto(at, at)) / 2.0;
        let between = self.upto(at, end) - self.upto(at, at);
        let pairs = |n: f64| n * (n - 1.0) / 2.0;
        let energy = 2.0 / (n * m) * between - first / pairs(n) - second / pairs(m);
        n * m / (n + m) * energy
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    /// Values around each level in turn, with noise of 1.
    fn series(seed: u64, levels: &[(usize, f64)]) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut noise = || -> f64 { StandardNormal.sample(&mut rng) };
        let values = levels.iter().flat_map(|(n, level)| vec![*level; *n]);
        values.map(|level| level + noise()).collect()
    }

    fn places(values: &[f64]) -> Vec<usize> {
        changes(values).unwrap().iter().map(|c| c.at).collect()
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let mut beside = 0;
        for seed in 0..40 {
            let found = changes(&series(seed, &[(12, 100.0), (12, 107.0)])).unwrap();
            assert!(
                found.contains(&Change { at: 12, p: 0.002 }),
                "{seed}: {found:?}"
            );
            beside += usize::from(found.len() > 1);
        }
        // What follows is tested at 5 % too.
        assert!(beside <= 7, "{beside} of 40 have a second one");
        // As few as there may be, far apart.
        let values = [10.0, 10.1, 9.9, 10.2, 12.0, 12.1, 11.9, 12.2];
        assert_eq!(places(&values), [4]);
    }

    #[test]
    fn two_steps_are_found_also_where_the_level_comes_back() {
        assert_eq!(
            places(&series(2, &[(10, 0.0), (10, 8.0), (10, 16.0)])),
            [10, 20]
        );
        assert_eq!(
            places(&series(3, &[(12, 0.0), (8, 9.0), (12, 0.0)])),
            [12, 20]
        );
    }

    #[test]
    fn what_does_not_change_has_no_step() {
        assert_eq!(places(&[5.0; 30]), [0_usize; 0]);
        // Two values are no level.
        let mut values = series(4, &[(20, 0.0)]);
        values.extend([30.0, 31.0]);
        assert!(places(&values).iter().all(|at| *at <= 19), "{values:?}");
    }

    #[test]
    fn noise_alone_is_seldom_a_step() {
        let seeds = 200;
        let alarms = (0..seeds).filter(|seed| !places(&series(*seed, &[(16, 0.0)])).is_empty());
        let alarms = alarms.count();
        // 5 % are 10; with more than 20 chance would have to be that of one in a thousand.
        assert!((1..=20).contains(&alarms), "{alarms} of {seeds}");
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        let values = series(5, &[(9, 1.0)]);
        let sums = DistanceSums::of(&values);
        let mean = |a: &[f64], b: &[f64]| {
            let all = a.iter().flat_map(|x| b.iter().map(move |y| (x - y).abs()));
            all.sum::<f64>()
        };
        let (first, second) = (&values[..4], &values[4..8]);
        let energy = 2.0 / 16.0 * mean(first, second)
            - mean(first, first) / 2.0 / 6.0
            - mean(second, second) / 2.0 / 6.0;
        assert!((sums.apart(4, 8) - 2.0 * energy).abs() < 1e-12);
    }

    #[test]
    fn wrong_numbers_are_named() {
        let few = changes(&[1.0; 7]);
        assert_eq!(few, Err(StatsError::TooFew { needs: 8, has: 7 }));
        assert_eq!(changes(&[f64::NAN; 9]), Err(StatsError::NotFinite));
        assert_eq!(changes(&[1.0; 201]), Err(StatsError::TooMany));
    }
}
