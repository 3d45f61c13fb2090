//! What is asked, multiplied out: arms, their order, and the spec of each run. Pure.
//!
//! Nothing here knows agents or the database; ids are given out when a run is about to be sent.

use std::collections::BTreeMap;

use contracts::run::{Arm, Device, Dtype, EngineRef, Limits, Mode, RunSpec, Workload};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// In which order the arms of a session run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// A B, B A, A B, …: a drift of the machine hits all arms alike.
    Abba,
    /// A A A, B B B.
    Blocked,
}

impl Order {
    /// As it is written and stored.
    pub fn word(self) -> &'static str {
        match self {
            Self::Abba => "abba",
            Self::Blocked => "blocked",
        }
    }
}

/// Passes over the arms of one session, at most.
pub const REPEAT_MAX: u32 = 1_000;
/// Runs of one session, at most: beyond it, something was mistyped.
pub const RUNS_MAX: usize = 10_000;

/// What a user asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Each is an arm of its own, twice the same too.
    pub engines: Vec<EngineRef>,
    /// Each engine in each of these.
    pub modes: Vec<Mode>,
    /// Type of the weights.
    pub dtype: Option<Dtype>,
    /// Where to compute.
    pub device: Device,
    /// Threads.
    pub threads: Option<u32>,
    /// Whether online runs stream where the engine can.
    pub stream: bool,
    /// Options of the chapter.
    pub options: BTreeMap<String, String>,
    /// The work.
    pub workload: Workload,
    /// The waits.
    pub limits: Limits,
    /// Passes over the arms, 1 or more.
    pub repeat: u32,
    /// Their order.
    pub order: Order,
}

/// What is judged, with its letter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedArm {
    /// `a`, `b`, … `z`, `aa`, …
    pub letter: String,
    /// The arm.
    pub arm: Arm,
}

/// One run to be made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedRun {
    /// Letter of its arm.
    pub letter: String,
    /// Which pass, from 0.
    pub block: u32,
    /// Place in the order, from 0.
    pub position: u32,
    /// SHA-256 (hex) of its work.
    pub workload_key: String,
    /// What the agent is asked to do.
    pub spec: RunSpec,
}

/// A session's runs in order. The same on each agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The arms.
    pub arms: Vec<PlannedArm>,
    /// The runs in order.
    pub runs: Vec<PlannedRun>,
    /// The order.
    pub order: Order,
    /// Passes.
    pub repeat: u32,
}

/// Name of an engine as results show it: `ch01`, or its name in the agent's config.
pub fn engine_name(engine: &EngineRef) -> &str {
    match engine {
        EngineRef::Chapter { id } => id,
        EngineRef::Named { name, .. } => name,
        EngineRef::Url { url, .. } => url,
    }
}

/// Multiplies a request out.
pub fn plan(request: &Request) -> Plan {
    let mut arms = Vec::new();
    for engine in &request.engines {
        for mode in &request.modes {
            let arm = Arm {
                engine: engine.clone(),
                mode: *mode,
                dtype: request.dtype,
                device: request.device,
                threads: request.threads,
                stream: request.stream || *mode == Mode::Offline,
                options: request.options.clone(),
                header_names: Vec::new(),
                extra: BTreeMap::new(),
                no_keepalive: false,
            };
            arms.push(PlannedArm {
                letter: letter(arms.len()),
                arm,
            });
        }
    }
    let runs = sequence(arms.len(), request.repeat, request.order)
        .into_iter()
        .zip(0..)
        .filter_map(|((arm, block), position)| {
            let arm = arms.get(arm)?;
            let spec = RunSpec {
                arm: arm.arm.clone(),
                workload: request.workload.clone(),
                limits: request.limits.clone(),
                salt: String::new(),
                slo: None,
            };
            Some(PlannedRun {
                workload_key: workload_key(&spec.workload),
                letter: arm.letter.clone(),
                block,
                position,
                spec,
            })
        })
        .collect();
    Plan {
        arms,
        runs,
        order: request.order,
        repeat: request.repeat,
    }
}

/// (arm, block) in the order of running.
fn sequence(arms: usize, repeat: u32, order: Order) -> Vec<(usize, u32)> {
    match order {
        Order::Abba => (0..repeat)
            .flat_map(|block| {
                (0..arms).map(move |place| {
                    let arm = if block % 2 == 0 {
                        place
                    } else {
                        arms - 1 - place
                    };
                    (arm, block)
                })
            })
            .collect(),
        Order::Blocked => (0..arms)
            .flat_map(|arm| (0..repeat).map(move |block| (arm, block)))
            .collect(),
    }
}

/// 0 → `a`, 25 → `z`, 26 → `aa`: bijective base 26.
fn letter(index: usize) -> String {
    let mut rest = index + 1;
    let mut letters = Vec::new();
    while rest > 0 {
        rest -= 1;
        let digit = u8::try_from(rest % 26).unwrap_or(0);
        letters.push(char::from(b'a' + digit));
        rest /= 26;
    }
    letters.iter().rev().collect()
}

/// SHA-256 (hex) over the canonical JSON (keys sorted, no blanks) of what work is asked: model,
/// prompts before templating, endpoint, sampling with its ceiling, load, requests, warm-up, cache
/// state.
///
/// `allow_failures` is no part of it: it says when a run counts, not what it does. The model is
/// its name; what was loaded under that name is compared by the hash that the engine reports.
pub fn workload_key(workload: &Workload) -> String {
    let mut document = serde_json::to_value(workload).unwrap_or_default();
    if let Some(fields) = document.as_object_mut() {
        fields.shift_remove("allow_failures");
    }
    let mut text = String::new();
    write_canonical(&document, &mut text);
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (place, key) in keys.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(fields.get(key).unwrap_or(&Value::Null), out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::generate::SamplingParams;
    use contracts::run::{AllowFailures, CacheState, Endpoint, Load, PromptSource};
    use proptest::prelude::*;

    use super::*;

    fn workload() -> Workload {
        Workload {
            model: "dummy:tiny-llm".to_owned(),
            prompts: PromptSource::Texts {
                texts: vec!["hello".to_owned()],
            },
            endpoint: Endpoint::Auto,
            sampling: SamplingParams::default(),
            load: Load::Closed { concurrency: 1 },
            n_runs: 20,
            duration_ms: None,
            warmup: 3,
            cache: CacheState::AsIs,
            tokenizer: None,
            allow_failures: AllowFailures::Count { n: 0 },
        }
    }

    fn request(engines: &[&str], modes: &[Mode], repeat: u32, order: Order) -> Request {
        Request {
            engines: engines
                .iter()
                .map(|id| EngineRef::Chapter {
                    id: (*id).to_owned(),
                })
                .collect(),
            modes: modes.to_vec(),
            dtype: None,
            device: Device::Cpu,
            threads: None,
            stream: true,
            options: BTreeMap::new(),
            workload: workload(),
            limits: Limits {
                ready_timeout_ms: 1,
                stop_grace_ms: 1,
                request_timeout_ms: 1,
                stall_timeout_ms: 1,
                device_wait_ms: 0,
            },
            repeat,
            order,
        }
    }

    fn letters(plan: &Plan) -> String {
        plan.runs.iter().map(|run| run.letter.as_str()).collect()
    }

    #[test]
    fn blocks_turn_round_so_that_drift_cancels() {
        let three = plan(&request(&["ch01", "ch02"], &[Mode::Online], 3, Order::Abba));
        assert_eq!(letters(&three), "abbaab");
        let blocked = plan(&request(
            &["ch01", "ch02"],
            &[Mode::Online],
            3,
            Order::Blocked,
        ));
        assert_eq!(letters(&blocked), "aaabbb");
        let both = [Mode::Offline, Mode::Online];
        let both = plan(&request(&["ch01", "ch02"], &both, 2, Order::Abba));
        assert_eq!(letters(&both), "abcddcba");
    }

    #[test]
    fn the_same_chapter_twice_is_two_arms() {
        let twice = plan(&request(&["ch02", "ch02"], &[Mode::Online], 1, Order::Abba));
        assert_eq!(letters(&twice), "ab");
        assert_eq!(
            twice.arms.first().unwrap().arm,
            twice.arms.last().unwrap().arm
        );
    }

    #[test]
    fn letters_go_on_after_z() {
        assert_eq!(
            [0, 25, 26, 51, 52, 701, 702].map(letter).join(" "),
            "a z aa az ba zz aaa"
        );
    }

    #[test]
    fn the_key_is_of_the_work_and_of_nothing_else() {
        let key = workload_key(&workload());
        assert_eq!(key.len(), 64);
        let tolerant = Workload {
            allow_failures: AllowFailures::Count { n: 5 },
            ..workload()
        };
        assert_eq!(workload_key(&tolerant), key);
        let others = [
            Workload {
                model: "other".to_owned(),
                ..workload()
            },
            Workload {
                endpoint: Endpoint::Chat,
                ..workload()
            },
            Workload {
                n_runs: 21,
                ..workload()
            },
            Workload {
                warmup: 2,
                ..workload()
            },
            Workload {
                sampling: SamplingParams {
                    max_tokens: 41,
                    ..SamplingParams::default()
                },
                ..workload()
            },
        ];
        for other in &others {
            assert_ne!(workload_key(other), key, "{other:?}");
        }
    }

    #[test]
    fn canonical_json_does_not_depend_on_the_order_of_fields() {
        let mut one = String::new();
        let mut two = String::new();
        let value = serde_json::json!({"b": [1, {"d": "\"", "c": null}], "a": 0.5});
        write_canonical(&value, &mut one);
        write_canonical(
            &serde_json::json!({"a": 0.5, "b": [1, {"c": null, "d": "\""}]}),
            &mut two,
        );
        assert_eq!(one, two);
        assert_eq!(one, r#"{"a":0.5,"b":[1,{"c":null,"d":"\""}]}"#);
    }

    proptest! {
        #[test]
        fn every_arm_runs_once_a_block(arms in 1_usize..6, repeat in 1_u32..8, blocked: bool) {
            let order = if blocked { Order::Blocked } else { Order::Abba };
            let mut runs = sequence(arms, repeat, order);
            prop_assert_eq!(runs.len(), arms * repeat as usize);
            runs.sort_unstable();
            runs.dedup();
            prop_assert_eq!(runs.len(), arms * repeat as usize);
        }
    }
}
