//! Rotary embeddings against the numbers of transformers: `vectors/rope.json`, made by `vectors/make.py`.

use std::{fs, path::Path};

use engine::model::{
    config::Config,
    rope_table::{RopeTable, attention_factor, inverse_frequencies},
};
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

/// Largest error of a frequency, as a share of it: 16 steps of an f32.
const TOLERANCE: f64 = 1e-6;

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    config: Value,
    inverse_frequencies: Vec<f64>,
    attention_factor: f64,
    #[serde(default)]
    positions: Vec<usize>,
    #[serde(default)]
    cos: Vec<Vec<f32>>,
    #[serde(default)]
    sin: Vec<Vec<f32>>,
}

impl Case {
    fn config(&self) -> Config {
        Config::parse(self.config.to_string().as_bytes(), &self.name).unwrap()
    }
}

fn cases() -> Vec<Case> {
    #[derive(serde::Deserialize)]
    struct File {
        cases: Vec<Case>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/rope.json");
    let file: File = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert!(file.cases.len() > 40, "{} cases", file.cases.len());
    file.cases
}

#[test]
fn frequencies_and_attention_factors_are_those_of_transformers() {
    for case in cases() {
        let config = case.config();
        let ours = inverse_frequencies(&config);
        assert_eq!(ours.len(), case.inverse_frequencies.len(), "{}", case.name);
        for (pair, (ours, theirs)) in ours.iter().zip(&case.inverse_frequencies).enumerate() {
            let error = (f64::from(*ours) / theirs - 1.0).abs();
            assert!(
                error <= TOLERANCE,
                "{} pair {pair}: {ours}, not {theirs}",
                case.name
            );
        }
        let ours = attention_factor(&config.rope_scaling);
        assert!(
            (ours - case.attention_factor).abs() < 1e-12,
            "{}: {ours}, not {}",
            case.name,
            case.attention_factor
        );
    }
}

#[test]
fn cosines_and_sines_are_those_of_transformers_wherever_the_table_stops() {
    let mut seen = 0;
    for case in cases().iter().filter(|case| !case.positions.is_empty()) {
        let mut table = RopeTable::new(&case.config());
        let half = table.half();
        for (index, position) in case.positions.iter().enumerate() {
            // Asked for in steps, as a sequence grows.
            table.reach(position + 1);
            let row = position * half..(position + 1) * half;
            for (ours, theirs) in [
                (&table.cos()[row.clone()], &case.cos[index]),
                (&table.sin()[row], &case.sin[index]),
            ] {
                // An error of a frequency grows with the position.
                let tolerance = 2e-6 + *position as f32 * 2e-7;
                for (pair, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                    assert!(
                        (ours - theirs).abs() <= tolerance,
                        "{} position {position} pair {pair}: {ours}, not {theirs}",
                        case.name
                    );
                }
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 4 * 4 * 2);
}

#[test]
fn a_table_grows_as_far_as_it_is_asked_and_never_past_the_context() {
    let case = &cases()[0];
    let config = Config {
        context: 1500,
        ..case.config()
    };
    let (mut grown, mut whole) = (RopeTable::new(&config), RopeTable::new(&config));
    assert_eq!((grown.positions(), grown.half()), (0, 64));
    whole.reach(1500);
    let mut before = 0;
    for positions in [1, 2, 1000, 1025, 3, 1500] {
        grown.reach(positions);
        assert!(grown.positions() >= positions.max(before) && grown.positions() <= 1500);
        before = grown.positions();
    }
    assert_eq!(grown.cos().len(), 1500 * 64);
    assert_eq!((grown.cos(), grown.sin()), (whole.cos(), whole.sin()));
}

/// Numbers as a config may hold them, from the usual to the absurd.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0.5..64.0).prop_map(|number: f64| json!(number)),
        select(vec![
            json!(0),
            json!(1),
            json!(-1.0),
            json!(1e-300),
            json!(1e-30),
            json!(1e30),
            json!(1e300),
            json!(64),
            json!(4_096),
            Value::Null,
        ]),
    ]
}

proptest! {
    #[test]
    fn what_is_accepted_comes_to_finite_numbers(
        kind in select(vec!["default", "linear", "llama3", "yarn"]),
        fields in prop::collection::btree_map(
            select(vec![
                "factor", "low_freq_factor", "high_freq_factor", "attention_factor", "beta_fast",
                "beta_slow", "mscale", "mscale_all_dim", "original_max_position_embeddings",
            ]),
            number(),
            0..6,
        ),
        theta in number(),
        head_dim in select(vec![2, 16, 80, 128]),
    ) {
        let mut config = cases()[0].config.clone();
        let mut rope = json!({"rope_type": kind, "rope_theta": theta});
        for (name, value) in fields {
            rope[name] = value;
        }
        config["rope_parameters"] = rope;
        config["head_dim"] = json!(head_dim);
        // Most are refused; none may panic, and none may pass and come to nothing.
        if let Ok(config) = Config::parse(config.to_string().as_bytes(), "any") {
            let mut table = RopeTable::new(&config);
            table.reach(config.context);
            prop_assert!(table.cos().iter().chain(table.sin()).all(|number| number.is_finite()));
        }
    }
}
