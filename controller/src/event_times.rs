//! Reading the instants of a request's content events. Writing them is the agent's.

use std::io::Read;

use contracts::sample::EVENT_TIMES_ENCODING;

/// Decoded bytes of one blob, at most: four an event, and more events than an answer of the
/// largest size can hold.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// Unpacks a blob into µs since the request was sent, ascending.
///
/// # Errors
/// Another build's encoding; bytes that are not what it says.
pub fn decode(encoding: &str, blob: &[u8]) -> Result<Vec<u64>, String> {
    if encoding != EVENT_TIMES_ENCODING {
        return Err(format!(
            "encoded as {encoding:?}, this build reads {EVENT_TIMES_ENCODING:?}"
        ));
    }
    let mut raw = Vec::new();
    zstd::Decoder::new(blob)
        .and_then(|decoder| decoder.take(DECODED_BYTES_MAX + 1).read_to_end(&mut raw))
        .map_err(|error| error.to_string())?;
    let (deltas, rest) = raw.as_chunks::<4>();
    if raw.len() as u64 > DECODED_BYTES_MAX || !rest.is_empty() {
        return Err(format!("{} bytes are no list of instants", raw.len()));
    }
    let mut at_us = 0;
    let since_sent = deltas.iter().map(|delta| {
        at_us += u64::from(u32::from_le_bytes(*delta));
        at_us
    });
    Ok(since_sent.collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn blob(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 1).unwrap()
    }

    #[test]
    fn differences_become_instants() {
        let deltas = [50_000u32, 10_000, 0, u32::MAX];
        let bytes: Vec<u8> = deltas.iter().flat_map(|d| d.to_le_bytes()).collect();
        assert_eq!(
            decode(EVENT_TIMES_ENCODING, &blob(&bytes)).unwrap(),
            [50_000, 60_000, 60_000, 60_000 + u64::from(u32::MAX)]
        );
        assert!(decode(EVENT_TIMES_ENCODING, &blob(&[])).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_blob_is_refused() {
        assert!(decode("plain", &[]).unwrap_err().contains("plain"));
        assert!(decode(EVENT_TIMES_ENCODING, b"no zstd").is_err());
        let odd = decode(EVENT_TIMES_ENCODING, &blob(&[1, 2, 3]));
        assert!(odd.unwrap_err().contains("3 bytes"));
    }
}
