//! Words of loads, objectives, prompts and bodies. Pure.

use std::path::PathBuf;

use contracts::run::{Arrival, CacheState, Slo};
use serde_json::Value;

/// What `--sweep` raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepBy {
    /// Slots.
    Concurrency,
    /// Requests a second.
    Rate,
}

/// `concurrency`, `rate`.
///
/// # Errors
/// The words that exist.
pub fn sweep_by(word: &str) -> Result<SweepBy, String> {
    match word {
        "concurrency" => Ok(SweepBy::Concurrency),
        "rate" => Ok(SweepBy::Rate),
        _ => Err("use concurrency or rate".to_owned()),
    }
}

/// `2.5` (requests a second), or `inf`.
///
/// # Errors
/// How it is written.
pub fn rate(word: &str) -> Result<f64, String> {
    if word == "inf" {
        return Ok(f64::INFINITY);
    }
    positive(word).ok_or_else(|| "give requests a second (2.5), or inf".to_owned())
}

/// `constant`, `poisson`, `gamma:0.5`.
///
/// # Errors
/// How it is written.
pub fn arrival(word: &str) -> Result<Arrival, String> {
    match word.split_once(':') {
        None if word == "constant" => Ok(Arrival::Constant),
        None if word == "poisson" => Ok(Arrival::Poisson),
        Some(("gamma", shape)) => match positive(shape) {
            Some(shape) => Ok(Arrival::Gamma { shape }),
            None => Err(format!("`{shape}` is no shape; give a number above 0")),
        },
        _ => Err("use constant, poisson or gamma:SHAPE".to_owned()),
    }
}

/// `ttft=200,tpot=50,wall=2000`, each in ms and at most once.
///
/// # Errors
/// How it is written, and the part that is wrong.
pub fn goodput(word: &str) -> Result<Slo, String> {
    let mut slo = Slo::default();
    for part in word.split(',') {
        let wrong =
            |why: &str| format!("`{part}`: {why}; write it as ttft=200,tpot=50,wall=2000, in ms");
        let (name, limit) = part.split_once('=').ok_or_else(|| wrong("no limit"))?;
        let place = match name.trim() {
            "ttft" => &mut slo.ttft_ms,
            "tpot" => &mut slo.tpot_ms,
            "wall" => &mut slo.wall_ms,
            _ => return Err(wrong("no such metric")),
        };
        let limit = positive(limit).ok_or_else(|| wrong("not a number above 0"))?;
        if place.replace(limit).is_some() {
            return Err(wrong("given twice"));
        }
    }
    Ok(slo)
}

/// `cold`, `as-is`, `warm`.
///
/// # Errors
/// The words that exist.
pub fn cache(word: &str) -> Result<CacheState, String> {
    match word {
        "cold" => Ok(CacheState::Cold),
        "as-is" => Ok(CacheState::AsIs),
        "warm" => Ok(CacheState::Warm),
        _ => Err("use cold, as-is or warm".to_owned()),
    }
}

/// `sharegpt:FILE`.
///
/// # Errors
/// The kinds that exist.
pub fn dataset(word: &str) -> Result<PathBuf, String> {
    match word.split_once(':') {
        Some(("sharegpt", file)) if !file.is_empty() => Ok(PathBuf::from(file)),
        _ => Err("write it as sharegpt:FILE".to_owned()),
    }
}

/// A share, `0.5` or `50%`.
///
/// # Errors
/// How it is written.
pub fn share(word: &str) -> Result<f64, String> {
    let share = match word.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|share| share / 100.0),
        None => word.parse(),
    };
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "give a share from 0 to 1, or from 0% to 100%".to_owned())
}

/// `KEY=VALUE`, the value as JSON where it is JSON, else as a text.
///
/// # Errors
/// How it is written.
pub fn extra(word: &str) -> Result<(String, Value), String> {
    let (key, value) = super::pair(word)?;
    let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
    Ok((key, value))
}

/// A finite number above 0.
fn positive(word: &str) -> Option<f64> {
    let number = word.trim().parse().ok()?;
    (number > 0.0 && f64::is_finite(number)).then_some(number)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn rates_and_arrivals_are_read_or_refused() {
        assert_eq!(rate("2.5").unwrap(), 2.5);
        assert_eq!(rate("inf").unwrap(), f64::INFINITY);
        for word in ["0", "-1", "nan", "", "fast", "infinity", "1e400"] {
            assert!(rate(word).is_err(), "{word}");
        }
        assert_eq!(arrival("gamma:0.5").unwrap(), Arrival::Gamma { shape: 0.5 });
        assert_eq!(arrival("poisson").unwrap(), Arrival::Poisson);
        for word in [
            "gamma",
            "gamma:",
            "gamma:0",
            "poisson:1",
            "even",
            "gamma:inf",
        ] {
            assert!(arrival(word).is_err(), "{word}");
        }
    }

    #[test]
    fn an_objective_names_each_metric_once() {
        assert_eq!(
            goodput("ttft=200,wall=2000.5").unwrap(),
            Slo {
                ttft_ms: Some(200.0),
                tpot_ms: None,
                wall_ms: Some(2000.5)
            }
        );
        for (word, part) in [
            ("", "no limit"),
            ("ttft", "no limit"),
            ("e2el=5", "no such metric"),
            ("ttft=fast", "not a number"),
            ("tpot=0", "not a number"),
            ("ttft=1,ttft=2", "twice"),
        ] {
            let why = goodput(word).unwrap_err();
            assert!(why.contains(part), "{word}: {why}");
        }
    }

    #[test]
    fn extra_fields_are_json_where_they_can_be() {
        let value = |word: &str| extra(word).unwrap().1;
        assert_eq!(value("a=1.5"), Value::from(1.5));
        assert_eq!(value("a=true"), Value::Bool(true));
        assert_eq!(value("a={\"b\": [1]}"), serde_json::json!({"b": [1]}));
        assert_eq!(value("a=plain words"), Value::from("plain words"));
        assert_eq!(value("a="), Value::from(""));
        assert!(extra("=1").is_err() && extra("a").is_err());
    }

    #[test]
    fn shares_data_sets_and_caches_have_one_spelling() {
        assert_eq!(
            (share("0.25").unwrap(), share("25%").unwrap()),
            (0.25, 0.25)
        );
        for word in ["1.5", "-0.1", "nan", "101%", ""] {
            assert!(share(word).is_err(), "{word}");
        }
        assert_eq!(dataset("sharegpt:a:b").unwrap(), PathBuf::from("a:b"));
        for word in ["sharegpt:", "sharegpt", "alpaca:x"] {
            assert!(dataset(word).is_err(), "{word}");
        }
        assert_eq!(cache("as-is").unwrap(), CacheState::AsIs);
        assert!(cache("asis").is_err());
        assert_eq!(sweep_by("rate").unwrap(), SweepBy::Rate);
        assert!(sweep_by("both").is_err());
    }
}
