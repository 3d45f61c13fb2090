//! Words that users write, for flags, environment and configuration alike. Pure.
//!
//! Those of loads, objectives and prompts are in `load`, those of verdicts in `verdicts`.

mod load;
mod verdicts;

use std::time::Duration;

use contracts::run::{AllowFailures, Device, Dtype, Endpoint, Mode};

use crate::plan::Order;

pub use load::{SweepBy, arrival, cache, dataset, extra, goodput, rate, share, sweep_by};
pub use verdicts::{alpha, fail_on, margin};

/// Which modes to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// One.
    One(Mode),
    /// Offline, then online.
    Both,
}

impl Modes {
    /// The modes in the order of their arms.
    pub fn list(self) -> Vec<Mode> {
        match self {
            Self::One(mode) => vec![mode],
            Self::Both => vec![Mode::Offline, Mode::Online],
        }
    }
}

/// `offline`, `online`, `both`.
///
/// # Errors
/// The words that exist.
pub fn modes(word: &str) -> Result<Modes, String> {
    match word {
        "offline" => Ok(Modes::One(Mode::Offline)),
        "online" => Ok(Modes::One(Mode::Online)),
        "both" => Ok(Modes::Both),
        _ => Err("use offline, online or both".to_owned()),
    }
}

/// `f32`, `f16`, `bf16`.
///
/// # Errors
/// The words that exist.
pub fn dtype(word: &str) -> Result<Dtype, String> {
    match word {
        "f32" => Ok(Dtype::F32),
        "f16" => Ok(Dtype::F16),
        "bf16" => Ok(Dtype::Bf16),
        _ => Err("use f32, f16 or bf16".to_owned()),
    }
}

/// `cpu`, `cuda`, `cuda:1`, `metal`, `metal:0`.
///
/// # Errors
/// The words that exist.
pub fn device(word: &str) -> Result<Device, String> {
    let (kind, index) = match word.split_once(':') {
        Some((kind, index)) => {
            let index = index
                .parse()
                .map_err(|_| format!("`{index}` is not a device number"))?;
            (kind, Some(index))
        }
        None => (word, None),
    };
    match (kind, index) {
        ("cpu", None) => Ok(Device::Cpu),
        ("cuda", index) => Ok(Device::Cuda {
            index: index.unwrap_or(0),
        }),
        ("metal", index) => Ok(Device::Metal {
            index: index.unwrap_or(0),
        }),
        _ => Err("use cpu, cuda:N or metal:N".to_owned()),
    }
}

/// `auto`, `chat`, `completions`.
///
/// # Errors
/// The words that exist.
pub fn endpoint(word: &str) -> Result<Endpoint, String> {
    match word {
        "auto" => Ok(Endpoint::Auto),
        "chat" => Ok(Endpoint::Chat),
        "completions" => Ok(Endpoint::Completions),
        _ => Err("use auto, chat or completions".to_owned()),
    }
}

/// `abba`, `blocked`.
///
/// # Errors
/// The words that exist.
pub fn order(word: &str) -> Result<Order, String> {
    match word {
        "abba" => Ok(Order::Abba),
        "blocked" => Ok(Order::Blocked),
        _ => Err("use abba or blocked".to_owned()),
    }
}

/// A whole number.
///
/// # Errors
/// That it is none.
pub fn number(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| "give a whole number".to_owned())
}

/// A seed.
///
/// # Errors
/// That it is none.
pub fn seed(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| "give a whole number".to_owned())
}

/// Any text.
///
/// # Errors
/// None; the type is that of the other readers.
pub fn text(word: &str) -> Result<String, String> {
    Ok(word.to_owned())
}

/// `90` (seconds), `90s`, `2m 30s`.
///
/// # Errors
/// How a duration is written.
pub fn duration(word: &str) -> Result<Duration, String> {
    if let Ok(seconds) = word.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds)
            .map_err(|_| "give seconds of 0 or more".to_owned());
    }
    humantime::parse_duration(word)
        .map_err(|_| "give a duration such as 90s, 5m or a number of seconds".to_owned())
}

/// `3`, `2.5%`.
///
/// # Errors
/// How it is written.
pub fn allow_failures(word: &str) -> Result<AllowFailures, String> {
    let wrong = || "give a number of requests (3) or a share of them (2.5%)".to_owned();
    match word.strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            if (0.0..=100.0).contains(&percent) {
                Ok(AllowFailures::Percent { percent })
            } else {
                Err(wrong())
            }
        }
        None => Ok(AllowFailures::Count {
            n: word.parse().map_err(|_| wrong())?,
        }),
    }
}

/// `KEY=VALUE`.
///
/// # Errors
/// How it is written.
pub fn pair(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// Longest label, in characters: it has a column in lists.
const LABEL_CHARS_MAX: usize = 200;

/// A label that a list can show and `label:NAME` can ask for.
///
/// # Errors
/// It is empty, too long, or of several lines.
pub fn label(word: &str) -> Result<String, String> {
    let fits = word.chars().count() <= LABEL_CHARS_MAX && !word.chars().any(char::is_control);
    if fits && !word.trim().is_empty() {
        Ok(word.to_owned())
    } else {
        Err(format!(
            "give 1 to {LABEL_CHARS_MAX} characters on one line"
        ))
    }
}

/// `1`, `01`, `ch1`, `ch01` → `ch01`; another word stays, for the agent's list to decide on.
///
/// # Errors
/// None; the type is that of the other readers.
pub fn chapter(word: &str) -> Result<String, String> {
    let digits = word.strip_prefix("ch").unwrap_or(word);
    Ok(match digits.parse::<u32>() {
        Ok(number) if digits.bytes().all(|byte| byte.is_ascii_digit()) => format!("ch{number:02}"),
        _ => word.to_owned(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn chapters_have_one_spelling() {
        for word in ["1", "01", "ch1", "ch01"] {
            assert_eq!(chapter(word).unwrap(), "ch01");
        }
        for word in ["fake", "ch", "+1", ""] {
            assert_eq!(chapter(word).unwrap(), word);
        }
    }

    #[test]
    fn durations_are_seconds_unless_they_say_more() {
        assert_eq!(duration("90").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("2m 30s").unwrap(), Duration::from_secs(150));
        for word in ["-1", "soon", "", "nan", "inf"] {
            assert!(duration(word).is_err(), "{word}");
        }
    }

    #[test]
    fn devices_and_failures_are_read_or_refused() {
        assert_eq!(device("cuda").unwrap(), Device::Cuda { index: 0 });
        assert_eq!(device("cuda:3").unwrap(), Device::Cuda { index: 3 });
        for word in ["cpu:1", "gpu", "cuda:x", "cuda:-1"] {
            assert!(device(word).is_err(), "{word}");
        }
        assert_eq!(allow_failures("3").unwrap(), AllowFailures::Count { n: 3 });
        assert_eq!(
            allow_failures("2.5%").unwrap(),
            AllowFailures::Percent { percent: 2.5 }
        );
        for word in ["101%", "-1", "NaN%", "%"] {
            assert!(allow_failures(word).is_err(), "{word}");
        }
    }
}
