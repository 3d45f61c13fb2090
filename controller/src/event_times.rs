//! Reading the instants of a request's content events. Writing them is the agent's.

use std::io::Read;

use contracts::sample::EVENT_TIMES_ENCODING;
use zstd::bulk::Decompressor;

/// Decoded bytes of one blob, at most: four an event, and more events than an answer of the
/// largest size can hold.
const DECODED_BYTES_MAX: u64 = 64 << 20;

/// Unpacks blobs, one after the other: its buffers are used again, since a run has many.
#[derive(Default)]
pub struct Decoder {
    zstd: Decompressor<'static>,
    raw: Vec<u8>,
    instants: Vec<u64>,
}

impl Decoder {
    /// Unpacks a blob into µs since the request was sent, ascending.
    ///
    /// # Errors
    /// Another build's encoding; bytes that are not what it says.
    pub fn decode(&mut self, encoding: &str, blob: &[u8]) -> Result<&[u64], String> {
        if encoding != EVENT_TIMES_ENCODING {
            return Err(format!(
                "encoded as {encoding:?}, this build reads {EVENT_TIMES_ENCODING:?}"
            ));
        }
        self.unpack(blob).map_err(|error| error.to_string())?;
        let (deltas, rest) = self.raw.as_chunks::<4>();
        if self.raw.len() as u64 > DECODED_BYTES_MAX || !rest.is_empty() {
            return Err(format!("{} bytes are no list of instants", self.raw.len()));
        }
        let mut at_us = 0;
        self.instants.clear();
        self.instants.extend(deltas.iter().map(|delta| {
            at_us += u64::from(u32::from_le_bytes(*delta));
            at_us
        }));
        Ok(&self.instants)
    }

    /// At once where the blob says how long it gets, as ours do, else piece by piece.
    fn unpack(&mut self, blob: &[u8]) -> std::io::Result<()> {
        self.raw.clear();
        match zstd::stream::decompressed_size(blob) {
            Some(bytes) if bytes <= DECODED_BYTES_MAX => {
                self.raw.reserve(bytes as usize);
                self.zstd.decompress_to_buffer(blob, &mut self.raw)?;
            }
            _ => {
                let decoder = zstd::Decoder::new(blob)?;
                decoder
                    .take(DECODED_BYTES_MAX + 1)
                    .read_to_end(&mut self.raw)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn blob(bytes: &[u8]) -> Vec<u8> {
        zstd::bulk::compress(bytes, 1).unwrap()
    }

    #[test]
    fn differences_become_instants() {
        let deltas = [50_000u32, 10_000, 0, u32::MAX];
        let bytes: Vec<u8> = deltas.iter().flat_map(|d| d.to_le_bytes()).collect();
        let instants = [50_000, 60_000, 60_000, 60_000 + u64::from(u32::MAX)];
        let mut decoder = Decoder::default();
        let mut decoded =
            |blob: &[u8]| decoder.decode(EVENT_TIMES_ENCODING, blob).unwrap().to_vec();
        assert_eq!(decoded(&blob(&bytes)), instants);
        assert!(decoded(&blob(&[])).is_empty());
        // A writer that did not know the length beforehand does not tell it.
        let mut streamed = zstd::Encoder::new(Vec::new(), 1).unwrap();
        streamed.write_all(&bytes).unwrap();
        let streamed = streamed.finish().unwrap();
        assert_eq!(zstd::stream::decompressed_size(&streamed), None);
        assert_eq!(decoded(&streamed), instants);
    }

    #[test]
    fn what_is_no_blob_is_refused() {
        let mut decoder = Decoder::default();
        let mut refused = |encoding, blob: &[u8]| decoder.decode(encoding, blob).unwrap_err();
        assert!(refused("plain", &[]).contains("plain"));
        refused(EVENT_TIMES_ENCODING, b"no zstd");
        assert!(refused(EVENT_TIMES_ENCODING, &blob(&[1, 2, 3])).contains("3 bytes"));
    }
}
