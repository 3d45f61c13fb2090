//! The instants of a request's content events as a small blob, and back.

use std::cell::RefCell;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contracts::sample::{EVENT_TIMES_ENCODING, EventTimes};
use zstd::bulk::Compressor;

/// Deltas are small and alike; a higher level gains little and costs time between requests.
const ZSTD_LEVEL: i32 = 1;
/// Decoded bytes of one blob, at most: four bytes an event, more events than an answer of the
/// largest size can hold.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// Why a blob could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EventTimesError {
    /// Another build's encoding.
    #[error("event times are encoded as {0:?}, this build reads {EVENT_TIMES_ENCODING:?}")]
    Encoding(String),
    /// Not what the encoding says.
    #[error("event times cannot be read: {0}")]
    Corrupt(String),
}

/// Packs `instants_ns` (ascending, on the run's clock): zstd of little-endian u32 µs, the first
/// since `sent_ns`, each other since the one before. None if there are none.
///
/// Each instant is rounded before the differences are taken, so that rounding does not add up.
pub fn encode(sent_ns: u64, instants_ns: &[u64]) -> Option<EventTimes> {
    if instants_ns.is_empty() {
        return None;
    }
    let mut raw = Vec::with_capacity(instants_ns.len() * 4);
    let mut before_us = 0;
    for at_ns in instants_ns {
        let at_us = (at_ns.saturating_sub(sent_ns) + 500) / 1000;
        let delta = u32::try_from(at_us.saturating_sub(before_us)).unwrap_or(u32::MAX);
        raw.extend_from_slice(&delta.to_le_bytes());
        before_us = at_us;
    }
    let blob = compress(&raw)?;
    Some(EventTimes {
        encoding: EVENT_TIMES_ENCODING.to_owned(),
        base64: STANDARD.encode(blob),
    })
}

thread_local! {
    /// Kept: to make one costs more than to pack an answer's instants with it.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
}

/// None if zstd refuses, which it does only for want of memory.
fn compress(raw: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(Compressor::new(ZSTD_LEVEL).ok()?),
        };
        compressor.compress(raw).ok()
    })
}

/// Unpacks a blob into µs since `sent`, ascending.
pub fn decode(times: &EventTimes) -> Result<Vec<u64>, EventTimesError> {
    if times.encoding != EVENT_TIMES_ENCODING {
        return Err(EventTimesError::Encoding(times.encoding.clone()));
    }
    let corrupt = |error: &dyn std::fmt::Display| EventTimesError::Corrupt(error.to_string());
    let blob = STANDARD.decode(&times.base64).map_err(|e| corrupt(&e))?;
    let mut raw = Vec::new();
    zstd::Decoder::new(blob.as_slice())
        .and_then(|decoder| decoder.take(DECODED_BYTES_MAX + 1).read_to_end(&mut raw))
        .map_err(|e| corrupt(&e))?;
    if raw.len() as u64 > DECODED_BYTES_MAX || raw.len() % 4 != 0 {
        return Err(corrupt(&format!("{} bytes", raw.len())));
    }
    let mut at_us = 0u64;
    Ok(raw
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| {
            at_us += u64::from(u32::from_le_bytes(*bytes));
            at_us
        })
        .collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn instants_come_back_without_drift() {
        let sent_ns = 5_000_000_000;
        let instants: Vec<u64> = (1..=1000).map(|i| sent_ns + i * 1_000_400).collect();
        let times = encode(sent_ns, &instants).unwrap();
        let back = decode(&times).unwrap();
        let asked: Vec<u64> = (1..=1000u64)
            .map(|i| (i * 1_000_400 + 500) / 1000)
            .collect();
        assert_eq!(back, asked);
        assert!(times.base64.len() < 2000, "{} bytes", times.base64.len());
    }

    #[test]
    fn no_events_no_blob() {
        assert_eq!(encode(0, &[]), None);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let good = encode(0, &[1_000_000]).unwrap();
        let other = EventTimes {
            encoding: "other".into(),
            ..good.clone()
        };
        assert!(matches!(decode(&other), Err(EventTimesError::Encoding(_))));
        for base64 in ["%%", "AAAA", &good.base64[..good.base64.len() - 8]] {
            let bad = EventTimes {
                base64: base64.into(),
                ..good.clone()
            };
            assert!(
                matches!(decode(&bad), Err(EventTimesError::Corrupt(_))),
                "{base64}"
            );
        }
    }
}
