//! Where a body's bytes are in the bytes of a connection, and where it ends: by its length, by
//! chunks, or by the close. Nothing is copied, and nothing is read.

/// Bytes of a chunk's size line with its extensions, and of all trailers, at most.
const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;

/// How a body is delimited, and how much of it has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Framing {
    /// By this many more bytes.
    Length(u64),
    /// By chunks.
    Chunked(Chunked),
    /// By the end of the connection.
    #[default]
    Close,
}

/// Where in the chunked coding a body is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunked {
    /// Before a chunk's size.
    Size,
    /// Within a chunk's data: this many more bytes.
    Data(u64),
    /// Before the line end of a chunk's data.
    DataEnd,
    /// Behind the last chunk, with so many bytes of trailers.
    Trailers(usize),
    /// Behind all.
    Ended,
}

/// What [`Framing::take`] found.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Bytes to take off the front, framing included.
    pub used: usize,
    /// The body's bytes among them; they may be none.
    pub data: &'a [u8],
    /// Whether the body has ended.
    pub ended: bool,
}

impl Framing {
    /// A body of `length` bytes.
    pub fn length(length: u64) -> Self {
        Self::Length(length)
    }

    /// A chunked body.
    pub fn chunked() -> Self {
        Self::Chunked(Chunked::Size)
    }

    /// Takes the next piece off the front of `bytes`. If it took nothing and has not ended, more
    /// bytes are needed. The error is one line.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Piece<'a>, String> {
        match self {
            Self::Length(left) => {
                let data = front(bytes, *left);
                *left -= data.len() as u64;
                Ok(Piece {
                    used: data.len(),
                    data,
                    ended: *left == 0,
                })
            }
            Self::Chunked(chunked) => chunked.take(bytes),
            Self::Close => Ok(Piece {
                used: bytes.len(),
                data: bytes,
                ended: false,
            }),
        }
    }
}

impl Chunked {
    fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Piece<'a>, String> {
        let mut used = 0;
        let mut data: &[u8] = &[];
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match self {
                // One piece of data a call; the next one comes with the next.
                Self::Size | Self::Data(_) if !data.is_empty() => break,
                Self::Size => match httparse::parse_chunk_size(rest) {
                    Ok(httparse::Status::Complete((length, 0))) => {
                        used += length;
                        *self = Self::Trailers(0);
                    }
                    Ok(httparse::Status::Complete((length, size))) => {
                        used += length;
                        *self = Self::Data(size);
                    }
                    Ok(httparse::Status::Partial) => {
                        check_line(rest.len())?;
                        break;
                    }
                    Err(_) => return Err("a chunk's size cannot be read".to_owned()),
                },
                Self::Data(left) => {
                    data = front(rest, *left);
                    used += data.len();
                    *left -= data.len() as u64;
                    if *left > 0 {
                        break;
                    }
                    *self = Self::DataEnd;
                }
                Self::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        used += 2;
                        *self = Self::Size;
                    }
                    [] | [b'\r'] => break,
                    _ => return Err("a chunk is longer than its size".to_owned()),
                },
                Self::Trailers(before) => {
                    let Some(line) = rest.iter().position(|&b| b == b'\n') else {
                        check_line(*before + rest.len())?;
                        break;
                    };
                    used += line + 1;
                    let is_last = matches!((line, rest.first()), (0, _) | (1, Some(b'\r')));
                    let trailers = *before + line + 1;
                    check_line(trailers)?;
                    *self = if is_last {
                        Self::Ended
                    } else {
                        Self::Trailers(trailers)
                    };
                }
                Self::Ended => break,
            }
        }
        let ended = *self == Self::Ended;
        Ok(Piece { used, data, ended })
    }
}

fn front(bytes: &[u8], length: u64) -> &[u8] {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.get(..length.min(bytes.len())).unwrap_or_default()
}

fn check_line(bytes: usize) -> Result<(), String> {
    if bytes > CHUNK_LINE_BYTES_MAX {
        return Err(format!(
            "a chunk's size or trailers of more than {CHUNK_LINE_BYTES_MAX} bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds `wire` in pieces that end at `cuts`; gives the body, whether it ended, and what was
    /// left over.
    fn read(
        mut framing: Framing,
        wire: &[u8],
        cuts: &[usize],
    ) -> Result<(Vec<u8>, bool, usize), String> {
        let mut at: Vec<usize> = cuts.iter().map(|c| *c.min(&wire.len())).collect();
        at.push(wire.len());
        at.sort_unstable();
        let (mut start, mut body) = (0, Vec::new());
        for end in at {
            loop {
                let piece = framing.take(&wire[start..end])?;
                start += piece.used;
                body.extend_from_slice(piece.data);
                if piece.ended {
                    return Ok((body, true, wire.len() - start));
                }
                if piece.used == 0 {
                    break;
                }
            }
        }
        Ok((body, false, wire.len() - start))
    }

    #[test]
    fn bodies_end_where_they_say() {
        let text = |framing, wire: &[u8]| {
            let (body, ended, left) = read(framing, wire, &[]).unwrap();
            (String::from_utf8(body).unwrap(), ended, left)
        };
        let length = Framing::length;
        assert_eq!(text(length(3), b"abcd"), ("abc".into(), true, 1));
        assert_eq!(text(length(0), b""), (String::new(), true, 0));
        assert_eq!(text(length(9), b"abc"), ("abc".into(), false, 0));
        assert_eq!(text(Framing::Close, b"abc"), ("abc".into(), false, 0));
        let chunks = b"3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nX-T: 1\r\n\r\nHTTP";
        assert_eq!(text(Framing::chunked(), chunks), ("abcd".into(), true, 4));
        let cut = b"3\r\nabc\r\n1\r\n";
        assert_eq!(text(Framing::chunked(), cut), ("abc".into(), false, 0));
    }

    #[test]
    fn what_is_no_chunk_is_refused() {
        for wire in [
            b"zz\r\n".as_slice(),
            b"3\r\nabcd\r\n",
            b"fffffffffffffffff\r\n",
            &[b'1'; 9000],
            &[b"1;".as_slice(), &[b'x'; 9000]].concat(),
            &[b"0\r\n".as_slice(), &[b'x'; 9000]].concat(),
        ] {
            assert!(read(Framing::chunked(), wire, &[]).is_err());
        }
    }

    proptest! {
        /// However the bytes are cut, the same body comes out.
        #[test]
        fn cuts_change_nothing(
            chunks in proptest::collection::vec("[a-z\r\n]{1,20}", 0..6),
            cuts in proptest::collection::vec(0usize..150, 0..20),
        ) {
            let mut wire = String::new();
            for chunk in &chunks {
                wire += &format!("{:X}\r\n{chunk}\r\n", chunk.len());
            }
            wire += "0\r\na: b\r\n\r\n";
            let expected = Ok((chunks.concat().into_bytes(), true, 0));
            prop_assert_eq!(&read(Framing::chunked(), wire.as_bytes(), &cuts), &expected);
            let all: Vec<usize> = (0..wire.len()).collect();
            prop_assert_eq!(&read(Framing::chunked(), wire.as_bytes(), &all), &expected);
        }
    }
}
