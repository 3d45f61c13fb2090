//! The workload key: a hash of what work is asked. Pure.

use contracts::run::Workload;
use serde_json::Value;
use sha2::{Digest, Sha256};

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
mod tests {
    use contracts::generate::SamplingParams;
    use contracts::run::{AllowFailures, Endpoint};

    use super::*;
    use crate::plan::tests::workload;

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
}
