//! Values to columns and back: enum words, JSON documents, exact floats. No SQL and no I/O.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A counter as SQLite's signed integer. Nothing we count comes near 2^63 (292 years of ns).
pub fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// SQLite's integer as a counter.
pub fn uncount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A document as JSON. Contract types have string keys and finite numbers, so this cannot fail;
/// if it did, `null` would be refused at reading.
pub fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// A unit variant's word on the wire (`done`, `first_byte_timeout`).
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => other.map(|value| value.to_string()).unwrap_or_default(),
    }
}

/// The variant that `word` names.
///
/// # Errors
/// The words that exist, as serde puts it.
pub fn parse_word<T: DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
        .map_err(|error| error.to_string())
}

/// A JSON document read back.
///
/// # Errors
/// What is wrong with it.
pub fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// A JSON array of floats, each in the shortest form that reads back to the same bits.
pub fn write_floats(values: &[f64]) -> String {
    let words: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("[{}]", words.join(","))
}

/// Reads [`write_floats`] exactly: serde_json's own float reader may be off in the last bit.
///
/// # Errors
/// The word that is no number.
pub fn read_floats(text: &str) -> Result<Vec<f64>, String> {
    let inner = text
        .trim()
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .ok_or_else(|| "not an array".to_owned())?;
    if inner.trim().is_empty() {
        return Ok(Vec::new());
    }
    inner
        .split(',')
        .map(|word| {
            word.trim()
                .parse()
                .map_err(|_| format!("{word} is not a number"))
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::RunState;
    use contracts::sample::ErrorClass;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_those_of_the_wire() {
        assert_eq!(word(&RunState::Done), "done");
        assert_eq!(word(&ErrorClass::FirstByteTimeout), "first_byte_timeout");
        assert_eq!(parse_word::<RunState>("done").unwrap(), RunState::Done);
        assert!(parse_word::<RunState>("gone").is_err());
    }

    #[test]
    fn arrays_that_are_none_are_refused() {
        assert!(read_floats("1,2").is_err());
        assert!(read_floats("[1,x]").is_err());
        assert_eq!(read_floats("[]").unwrap(), Vec::<f64>::new());
    }

    proptest! {
        #[test]
        fn floats_come_back_bit_for_bit(values in prop::collection::vec(
            any::<f64>().prop_filter("finite", |value| value.is_finite()), 0..20)) {
            prop_assert_eq!(read_floats(&write_floats(&values)).unwrap(), values);
        }
    }
}
