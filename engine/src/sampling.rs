//! From logits to one token: greedy, or drawn after temperature, top-k and top-p.
//!
//! Values are stable: the same seed and the same logits give the same tokens from the same build.
//! What to do with the token is left to the chapters.

use std::collections::BTreeMap;

use contracts::{
    defaults::NEAR_TIE_LOGITS,
    generate::{FIRM_STEPS, SamplingParams},
};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use crate::error::EngineError;

/// Refuses, by name, values out of range and what these chapters don't do yet.
pub fn check(params: &SamplingParams) -> Result<(), EngineError> {
    let SamplingParams {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        presence_penalty,
        frequency_penalty,
        logit_bias,
        stop,
        logprobs,
        ignore_eos: _,
        max_tokens,
        seed: _,
    } = params;
    let refuse = |field: &str, message: String| Err(EngineError::bad_input(field, message));
    if !temperature.is_finite() || *temperature < 0.0 {
        return refuse(
            "temperature",
            format!("{temperature} is not 0 or a positive number"),
        );
    }
    if *top_k == 0 || *top_k < -1 {
        return refuse(
            "top_k",
            format!("{top_k} is neither -1 (all) nor at least 1"),
        );
    }
    if !(*top_p > 0.0 && *top_p <= 1.0) {
        return refuse("top_p", format!("{top_p} is not above 0 and at most 1"));
    }
    if *max_tokens == 0 {
        return refuse("max_tokens", "0 is less than 1".to_owned());
    }
    let asked = [
        ("min_p", *min_p != 0.0),
        ("repetition_penalty", *repetition_penalty != 1.0),
        ("presence_penalty", *presence_penalty != 0.0),
        ("frequency_penalty", *frequency_penalty != 0.0),
        ("logit_bias", !logit_bias.is_empty()),
        ("stop", !stop.is_empty()),
        ("logprobs", logprobs.is_some()),
    ];
    match asked.iter().find(|(_, asked)| *asked) {
        Some((field, _)) => refuse(
            field,
            "this chapter does not do it yet; leave it out".to_owned(),
        ),
        None => Ok(()),
    }
}

/// Chooses the tokens of one answer.
pub struct Sampler {
    choice: Choice,
}

enum Choice {
    /// `firm_steps` counts the leading steps whose two best logits were not a near tie.
    Greedy {
        firm_steps: u32,
        near_tie_seen: bool,
    },
    Drawn {
        temperature: f32,
        top_k: Option<usize>,
        top_p: f64,
        random: Box<ChaCha8Rng>,
    },
}

impl Sampler {
    /// A sampler at the start of an answer; the parameters must have passed [`check`].
    pub fn new(params: &SamplingParams) -> Self {
        let choice = if params.is_greedy() {
            Choice::Greedy {
                firm_steps: 0,
                near_tie_seen: false,
            }
        } else {
            Choice::Drawn {
                temperature: params.temperature,
                top_k: usize::try_from(params.top_k).ok(),
                top_p: f64::from(params.top_p),
                random: Box::new(ChaCha8Rng::seed_from_u64(params.seed)),
            }
        };
        Self { choice }
    }

    /// The next token. Logits that are not numbers, or infinite, are an error: a token chosen from
    /// them would hide a broken model. Minus infinity is a token that cannot be.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, EngineError> {
        let best = best_two(logits)?;
        match &mut self.choice {
            Choice::Greedy {
                firm_steps,
                near_tie_seen,
            } => {
                *near_tie_seen |= best.gap < NEAR_TIE_LOGITS;
                if !*near_tie_seen {
                    *firm_steps += 1;
                }
                Ok(best.id)
            }
            Choice::Drawn {
                temperature,
                top_k,
                top_p,
                random,
            } => {
                let kept = candidates(logits, best.logit, *temperature, *top_k, *top_p);
                Ok(draw(&kept, unit(random.next_u64())).unwrap_or(best.id))
            }
        }
    }

    /// What a chapter adds to its metrics: [`FIRM_STEPS`], if greedy.
    pub fn extras(&self) -> BTreeMap<String, f64> {
        match self.choice {
            Choice::Greedy { firm_steps, .. } => {
                [(FIRM_STEPS.to_owned(), f64::from(firm_steps))].into()
            }
            Choice::Drawn { .. } => BTreeMap::new(),
        }
    }
}

struct Best {
    id: u32,
    logit: f32,
    /// To the second best; infinite if there is none.
    gap: f32,
}

/// The largest logit, the lowest id of equal ones.
fn best_two(logits: &[f32]) -> Result<Best, EngineError> {
    let mut best: Option<(u32, f32)> = None;
    let mut second = f32::NEG_INFINITY;
    for (id, &logit) in (0..).zip(logits) {
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(EngineError::Internal(format!(
                "the model gave logit {logit} for token {id}"
            )));
        }
        match best {
            Some((_, largest)) if logit <= largest => second = second.max(logit),
            Some((_, largest)) => {
                second = largest;
                best = Some((id, logit));
            }
            None => best = Some((id, logit)),
        }
    }
    match best {
        Some((id, logit)) if logit.is_finite() => Ok(Best {
            id,
            logit,
            gap: logit - second,
        }),
        _ => Err(EngineError::Internal(
            "the model gave no token a finite logit".to_owned(),
        )),
    }
}

/// Ids that may be drawn, each with its weight exp((logit − best) / temperature).
fn candidates(
    logits: &[f32],
    best: f32,
    temperature: f32,
    top_k: Option<usize>,
    top_p: f64,
) -> Vec<(u32, f64)> {
    let weight = |logit: f32| (f64::from(logit - best) / f64::from(temperature)).exp();
    let mut kept: Vec<(u32, f64)> = (0..)
        .zip(logits)
        .map(|(id, logit)| (id, weight(*logit)))
        .collect();
    let k = top_k.unwrap_or(kept.len());
    if k >= kept.len() && top_p >= 1.0 {
        return kept;
    }
    kept.sort_by(|(id, weight), (other_id, other)| other.total_cmp(weight).then(id.cmp(other_id)));
    kept.truncate(k);
    if top_p < 1.0 {
        // The smallest set whose share reaches top_p: the token that reaches it is kept.
        let goal = top_p * kept.iter().map(|(_, weight)| weight).sum::<f64>();
        let mut reached = 0.0;
        let needed = kept.iter().take_while(|(_, weight)| {
            let is_needed = reached < goal;
            reached += weight;
            is_needed
        });
        let count = needed.count();
        kept.truncate(count);
    }
    kept
}

/// The candidate in which `point` of the whole weight falls; none if there is no weight.
fn draw(candidates: &[(u32, f64)], point: f64) -> Option<u32> {
    let mut left = point * candidates.iter().map(|(_, weight)| weight).sum::<f64>();
    for (id, weight) in candidates {
        left -= weight;
        if left < 0.0 {
            return Some(*id);
        }
    }
    None
}

/// Uniform over [0, 1): the upper 53 bits.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn sampler(edit: impl FnOnce(&mut SamplingParams)) -> Sampler {
        let mut params = SamplingParams::default();
        edit(&mut params);
        check(&params).unwrap();
        Sampler::new(&params)
    }

    fn draws(sampler: &mut Sampler, logits: &[f32], count: usize) -> Vec<u32> {
        (0..count)
            .map(|_| sampler.sample(logits).unwrap())
            .collect()
    }

    #[test]
    fn greedy_takes_the_lowest_id_of_equal_logits() {
        assert_eq!(sampler(|_| {}).sample(&[1.0, 3.0, 3.0, 2.0]).unwrap(), 1);
        assert_eq!(
            sampler(|_| {}).sample(&[f32::NEG_INFINITY, -5.0]).unwrap(),
            1
        );
    }

    #[test]
    fn firm_steps_end_at_the_first_near_tie() {
        let mut sampler = sampler(|_| {});
        let firm = [0.0, 1.0];
        let near_tie = [1.0, 1.01];
        for logits in [firm, firm, near_tie, firm] {
            sampler.sample(&logits).unwrap();
        }
        assert_eq!(
            sampler.extras(),
            BTreeMap::from([("firm_steps".to_owned(), 2.0)])
        );
        // One candidate alone is as firm as can be.
        let mut alone = Sampler::new(&SamplingParams::default());
        alone.sample(&[1.0, f32::NEG_INFINITY]).unwrap();
        assert_eq!(
            alone.extras(),
            BTreeMap::from([("firm_steps".to_owned(), 1.0)])
        );
    }

    #[test]
    fn broken_logits_are_an_error_and_no_token() {
        for logits in [
            &[1.0, f32::NAN][..],
            &[f32::INFINITY, 1.0],
            &[f32::NEG_INFINITY; 2],
            &[],
        ] {
            assert!(sampler(|_| {}).sample(logits).is_err(), "{logits:?}");
            assert!(
                sampler(|params| params.temperature = 1.0)
                    .sample(logits)
                    .is_err(),
                "{logits:?}"
            );
        }
    }

    #[test]
    fn frequencies_follow_the_softmax() {
        let logits = [0.0, 2.0_f32.ln(), f32::NEG_INFINITY, 5.0_f32.ln()];
        let mut sampler = sampler(|params| params.temperature = 1.0);
        let drawn = draws(&mut sampler, &logits, 8000);
        let share = |id| drawn.iter().filter(|drawn| **drawn == id).count() as f64 / 8000.0;
        assert!(
            (share(0) - 0.125).abs() < 0.02
                && (share(1) - 0.25).abs() < 0.02
                && (share(3) - 0.625).abs() < 0.02
        );
        assert_eq!(share(2), 0.0);
        assert!(sampler.extras().is_empty());
    }

    #[test]
    fn temperature_divides_the_logits() {
        let mut sampler = sampler(|params| params.temperature = 0.5);
        // ln 3 / 0.5 = ln 9: nine to one.
        let drawn = draws(&mut sampler, &[0.0, 3.0_f32.ln()], 8000);
        let share = drawn.iter().filter(|drawn| **drawn == 1).count() as f64 / 8000.0;
        assert!((share - 0.9).abs() < 0.02, "{share}");
    }

    #[test]
    fn top_k_and_top_p_keep_the_best() {
        let logits = [0.1_f32.ln(), 0.4_f32.ln(), 0.3_f32.ln(), 0.2_f32.ln()];
        let kept = |edit: fn(&mut SamplingParams)| {
            let mut sampler = sampler(|params| {
                params.temperature = 1.0;
                edit(params);
            });
            let mut ids = draws(&mut sampler, &logits, 500);
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(kept(|params| params.top_k = 2), [1, 2]);
        assert_eq!(kept(|params| params.top_p = 0.6), [1, 2]);
        assert_eq!(kept(|params| params.top_p = 0.01), [1]);
        // top-p counts within what top-k left: 0.4 of 0.7 reaches 0.5.
        assert_eq!(kept(|params| (params.top_k, params.top_p) = (2, 0.5)), [1]);
        assert_eq!(kept(|params| params.top_k = 99), [0, 1, 2, 3]);
        assert_eq!(kept(|params| params.top_k = 1), [1]);
    }

    #[test]
    fn the_seed_decides_the_draws() {
        let logits: Vec<f32> = (0..50).map(|id| (id as f32 * 0.7).sin()).collect();
        let of_seed = |seed| {
            let mut sampler = sampler(|params| (params.temperature, params.seed) = (1.0, seed));
            draws(&mut sampler, &logits, 12)
        };
        assert_eq!(of_seed(1), of_seed(1));
        assert_ne!(of_seed(1), of_seed(2));
        // From one build to the next, too.
        assert_eq!(of_seed(7), [6, 8, 37, 37, 29, 19, 2, 43, 19, 49, 10, 19]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        type Edit = fn(&mut SamplingParams);
        let cases: [(&str, Edit); 16] = [
            ("temperature", |params| params.temperature = -0.1),
            ("temperature", |params| params.temperature = f32::NAN),
            ("temperature", |params| params.temperature = f32::INFINITY),
            ("top_k", |params| params.top_k = 0),
            ("top_k", |params| params.top_k = -2),
            ("top_p", |params| params.top_p = 0.0),
            ("top_p", |params| params.top_p = 1.1),
            ("top_p", |params| params.top_p = f32::NAN),
            ("max_tokens", |params| params.max_tokens = 0),
            ("min_p", |params| params.min_p = 0.1),
            ("repetition_penalty", |params| {
                params.repetition_penalty = 1.1
            }),
            ("presence_penalty", |params| params.presence_penalty = 0.5),
            ("frequency_penalty", |params| {
                params.frequency_penalty = f32::NAN
            }),
            ("logit_bias", |params| _ = params.logit_bias.insert(1, 1.0)),
            ("stop", |params| params.stop.push("x".to_owned())),
            ("logprobs", |params| params.logprobs = Some(1)),
        ];
        for (field, edit) in cases {
            let mut params = SamplingParams::default();
            edit(&mut params);
            match check(&params) {
                Err(EngineError::BadInput { field: named, .. }) => assert_eq!(named, field),
                other => unreachable!("{field}: {other:?}"),
            }
        }
    }
}
