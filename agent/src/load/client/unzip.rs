//! Gzip, which a server may send although identity is asked for: decoded as it comes, so that an
//! event is seen when its bytes are there, and bounded, so that a bomb ends its request only.

use std::io::{self, Write};

use flate2::write::GzDecoder;

/// Compressed bytes decoded at once. Gzip grows by a factor of about a thousand at most, so this
/// bounds what one step holds.
const STEP_BYTES: usize = 1 << 10;

/// Decodes one body.
pub struct Unzip {
    decoder: GzDecoder<Vec<u8>>,
}

impl Unzip {
    /// At the start of a body.
    pub fn new() -> Self {
        Self {
            decoder: GzDecoder::new(Vec::new()),
        }
    }

    /// Decodes `bytes` and hands all that can be known by now to `on_data`, which may end it by an
    /// error. The outer error is one of gzip itself.
    pub fn push<E>(
        &mut self,
        bytes: &[u8],
        mut on_data: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> io::Result<Result<(), E>> {
        for step in bytes.chunks(STEP_BYTES) {
            self.decoder.write_all(step)?;
            self.decoder.flush()?;
            let decoded = self.decoder.get_mut();
            let result = on_data(decoded);
            decoded.clear();
            if result.is_err() {
                return Ok(result);
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn what_was_flushed_comes_out_at_once() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let mut unzip = Unzip::new();
        for event in ["data: a\n\n", "data: bb\n\n", "data: ccc\n\n"] {
            encoder.write_all(event.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let sent = std::mem::take(encoder.get_mut());
            let mut seen = Vec::new();
            // Byte by byte, as the worst network would.
            for byte in sent.chunks(1) {
                let pushed = unzip.push(byte, |data| {
                    seen.extend_from_slice(data);
                    Ok::<_, ()>(())
                });
                assert_eq!(pushed.unwrap(), Ok(()));
            }
            assert_eq!(String::from_utf8(seen).unwrap(), event);
        }
    }

    #[test]
    fn a_bomb_is_seen_in_small_steps() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b'x'; 32 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let (mut total, mut largest) = (0, 0);
        let pushed = Unzip::new().push(&bomb, |data| {
            largest = largest.max(data.len());
            total += data.len();
            if total > 8 << 20 { Err(()) } else { Ok(()) }
        });
        assert_eq!(pushed.unwrap(), Err(()));
        assert!(largest < 2 << 20, "{largest} bytes at once");
    }

    #[test]
    fn what_is_not_gzip_is_an_error() {
        let pushed = Unzip::new().push(b"data: a\n\n data: b", |_| Ok::<_, ()>(()));
        assert!(pushed.is_err());
    }
}
