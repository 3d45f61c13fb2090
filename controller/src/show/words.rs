//! Small pieces of text that every view shares: counts, times, sizes, names of variants.

use std::time::{Duration, SystemTime};

use serde::Serialize;

/// The name of a unit variant as the JSON has it: `first_byte_timeout`.
pub fn snake<T: Serialize>(variant: &T) -> String {
    match serde_json::to_value(variant) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// `1 prompt`, `2 prompts`.
pub fn count(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{s}")
}

/// Why a percentile is not shown.
pub fn too_few(needs: u64, has: u64) -> String {
    format!("n/a (needs ≥ {needs}, has {has})")
}

/// The first `limit` characters, on one line, with dots where more follows.
pub fn excerpt(text: &str, limit: usize) -> String {
    let mut short: String = text
        .chars()
        .take(limit)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(limit).is_some() {
        short.push('…');
    }
    short
}

/// The last ms of the year 9999: a later one cannot be written so.
const LAST_UNIX_MS: u64 = 253_402_300_799_999;

/// `2026-02-01 12:00:00Z`. A time from a file may be any number: what is before 1970 or after 9999 is
/// shown as the nearest that can be.
pub fn time(unix_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(unix_ms).unwrap_or(0).min(LAST_UNIX_MS));
    let text = humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string();
    text.replace('T', " ")
}

/// `120 MiB`, `15.6 GiB`.
pub fn bytes(bytes: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    const GIB: f64 = 1024.0 * MIB;
    let value = bytes as f64;
    if value >= GIB {
        format!("{:.1} GiB", value / GIB)
    } else {
        format!("{:.0} MiB", value / MIB)
    }
}

/// `6.2 %` of a share from 0 to 1.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// `p = 0.021`, `p < 0.001`: it is never 0.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_read_well() {
        assert_eq!(snake(&contracts::run::Mode::Offline), "offline");
        assert_eq!(count(1, "prompt"), "1 prompt");
        assert_eq!(count(0, "prompt"), "0 prompts");
        assert_eq!(too_few(368, 100), "n/a (needs ≥ 368, has 100)");
        assert_eq!(excerpt("a\nbé", 3), "a b…");
        assert_eq!(excerpt("abc", 3), "abc");
        assert_eq!(time(crate::fixtures::NOON_UNIX_MS), "2026-02-01 12:00:00Z");
        assert_eq!(time(-1), "1970-01-01 00:00:00Z");
        assert_eq!(time(i64::MAX), "9999-12-31 23:59:59Z");
        assert_eq!(bytes(120 << 20), "120 MiB");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(percent(0.062), "6.2 %");
        assert_eq!(p_value(0.0021), "p = 0.002");
        assert_eq!(p_value(1e-9), "p < 0.001");
    }
}
