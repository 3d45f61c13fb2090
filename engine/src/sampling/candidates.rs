//! Which tokens may be drawn, and the draw.
//!
//! The order is vLLM's: temperature, min-p, top-k, top-p; each looks at what the one before left.
//! A full sort of a vocabulary costs milliseconds a token, so only as many of the best are put in
//! order as top-k and top-p look at.

use std::cmp::Ordering;

use contracts::generate::SamplingParams;

/// How many of the best top-p puts in order first. Most of a trained model's weight lies within.
const TOP_P_FIRST: usize = 64;

/// How many times as many it takes where those do not reach.
const TOP_P_GROWTH: usize = 8;

/// A token and its weight: exp((logit − best logit) / temperature), so 1 for the best.
type Weighted = (u32, f64);

/// The filters of one answer.
pub(super) struct Candidates {
    temperature: f64,
    min_p: f64,
    top_k: Option<usize>,
    top_p: f64,
    /// Those of the latest step, kept to spare an allocation a token.
    kept: Vec<Weighted>,
}

impl Candidates {
    pub(super) fn new(params: &SamplingParams) -> Self {
        Self {
            temperature: f64::from(params.temperature),
            min_p: f64::from(params.min_p),
            top_k: usize::try_from(params.top_k).ok(),
            top_p: f64::from(params.top_p),
            kept: Vec::new(),
        }
    }

    /// The candidate in which `point` (in 0..1) of the whole weight falls; `best` is the largest of
    /// the logits. None if rounding leaves the point behind the last one.
    pub(super) fn draw(&mut self, logits: &[f32], best: f32, point: f64) -> Option<u32> {
        self.keep(logits, best);
        let mut left = point * total(&self.kept);
        for (id, weight) in &self.kept {
            left -= weight;
            if left < 0.0 {
                return Some(*id);
            }
        }
        None
    }

    fn keep(&mut self, logits: &[f32], best: f32) {
        let weight = |logit: f32| (f64::from(logit - best) / self.temperature).exp();
        self.kept.clear();
        let all = (0..)
            .zip(logits)
            .map(|(id, logit): (u32, _)| (id, weight(*logit)));
        self.kept.extend(all);
        if self.min_p > 0.0 {
            // The best token's weight is 1: its share of the best's probability is the weight.
            self.kept.retain(|(_, weight)| *weight >= self.min_p);
        }
        if let Some(k) = self.top_k.filter(|k| *k < self.kept.len()) {
            sort_best(&mut self.kept, k);
            self.kept.truncate(k);
        }
        if self.top_p < 1.0 {
            let needed = reach(&mut self.kept, self.top_p);
            self.kept.truncate(needed);
        }
    }
}

/// Brings the best to the front, in order, and counts how many it takes for their share of the
/// weight to reach `top_p`: the token that reaches it is one of them.
fn reach(kept: &mut [Weighted], top_p: f64) -> usize {
    let goal = top_p * total(kept);
    let (mut reached, mut sorted, mut next) = (0.0, 0, TOP_P_FIRST);
    while let Some(rest) = kept.get_mut(sorted..).filter(|rest| !rest.is_empty()) {
        let count = next.min(rest.len());
        sort_best(rest, count);
        for (place, (_, weight)) in rest.iter().take(count).enumerate() {
            if reached >= goal {
                return sorted + place;
            }
            reached += weight;
        }
        sorted += count;
        next *= TOP_P_GROWTH;
    }
    sorted
}

/// The `count` best to the front, in order.
fn sort_best(kept: &mut [Weighted], count: usize) {
    if count > 0 && count < kept.len() {
        kept.select_nth_unstable_by(count - 1, better_first);
    }
    if let Some(best) = kept.get_mut(..count) {
        best.sort_unstable_by(better_first);
    }
}

/// Heavier first, equal ones by id: a total order, so that no way of sorting shows in the draws.
fn better_first((id, weight): &Weighted, (other_id, other): &Weighted) -> Ordering {
    other.total_cmp(weight).then(id.cmp(other_id))
}

fn total(kept: &[Weighted]) -> f64 {
    kept.iter().map(|(_, weight)| weight).sum()
}

/// Uniform over [0, 1): the upper 53 bits.
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
