//! Where the body of an HTTP/1.1 answer ends: its head, its length, its chunks. Pure: bytes in.
//!
//! Own code and not a library's, because how a server frames its answers is what is looked at.

use httparse::Status;

/// Bytes of an answer's head, at most.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header lines of an answer, at most.
const HEADERS_MAX: usize = 128;

/// Head of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// HTTP/1.0.
    pub old: bool,
    /// Status.
    pub status: u16,
    /// Names in lower case, in the server's order.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// Reads a head from the start of `bytes`: the head and its length, none while it is cut off.
    ///
    /// # Errors
    /// That it is no HTTP.
    pub fn read(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(bytes).map_err(|error| error.to_string())? {
            Status::Partial if bytes.len() > HEAD_BYTES_MAX => {
                return Err(format!("a head of more than {HEAD_BYTES_MAX} bytes"));
            }
            Status::Partial => return Ok(None),
            Status::Complete(length) => length,
        };
        let text = |value: &[u8]| String::from_utf8_lossy(value).trim().to_owned();
        let head = Self {
            old: response.version == Some(0),
            status: response.code.unwrap_or_default(),
            headers: response
                .headers
                .iter()
                .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
                .collect(),
        };
        Ok(Some((head, length)))
    }

    /// Value of a header; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Whether the server says that it closes the connection after this answer.
    pub fn closes(&self) -> bool {
        let said = self.header("connection").to_ascii_lowercase();
        said.contains("close") || (self.old && !said.contains("keep-alive"))
    }

    /// How the body after this head ends (RFC 9112, section 6.3).
    pub fn framing(&self) -> Framing {
        let coding = self.header("transfer-encoding").to_ascii_lowercase();
        if coding.contains("chunked") {
            return Framing::Chunked;
        }
        match self.header("content-length").parse() {
            Ok(length) => Framing::Length(length),
            Err(_) if matches!(self.status, 204 | 304) => Framing::Length(0),
            Err(_) => Framing::Close,
        }
    }
}

/// What ends a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// The chunk of size 0.
    Chunked,
    /// So many bytes.
    Length(u64),
    /// The end of the connection.
    Close,
}

/// Takes the body out of its framing as bytes come.
#[derive(Debug)]
pub struct BodyReader {
    framing: Framing,
    /// Read and not yet understood: part of a chunk's size line or trailer.
    rest: Vec<u8>,
    /// Bytes that the present chunk, or the whole body, still has.
    left: u64,
    /// The line end after a chunk's data is due.
    line_end_due: bool,
    /// The chunk of size 0 has come.
    in_trailer: bool,
    ended: bool,
}

impl BodyReader {
    /// A reader for one body.
    pub fn new(framing: Framing) -> Self {
        let left = match framing {
            Framing::Length(length) => length,
            Framing::Chunked | Framing::Close => 0,
        };
        Self {
            framing,
            rest: Vec::new(),
            left,
            line_end_due: false,
            in_trailer: false,
            ended: framing == Framing::Length(0),
        }
    }

    /// Whether the body has come to its end by its own framing.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Adds what `bytes` hold of the body to `body`.
    ///
    /// # Errors
    /// A chunk that is none.
    pub fn push(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), &'static str> {
        match self.framing {
            Framing::Close => body.extend_from_slice(bytes),
            Framing::Length(_) => {
                let (taken, _) = bytes.split_at(self.take(bytes.len()));
                body.extend_from_slice(taken);
                self.ended = self.left == 0;
            }
            Framing::Chunked => {
                self.rest.extend_from_slice(bytes);
                while !self.ended && self.step(body)? {}
            }
        }
        Ok(())
    }

    /// One step through the chunks; false where more bytes are needed.
    fn step(&mut self, body: &mut Vec<u8>) -> Result<bool, &'static str> {
        if self.left > 0 {
            let taken = self.take(self.rest.len());
            body.extend(self.rest.drain(..taken));
            return Ok(taken > 0);
        }
        if self.line_end_due {
            if self.rest.len() < 2 {
                return Ok(false);
            }
            if !self.rest.starts_with(b"\r\n") {
                return Err("a chunk is longer than it says");
            }
            self.rest.drain(..2);
            self.line_end_due = false;
            return Ok(true);
        }
        if self.in_trailer {
            let Some(end) = self.rest.windows(2).position(|pair| pair == b"\r\n") else {
                return Ok(false);
            };
            self.rest.drain(..end + 2);
            self.ended = end == 0;
            return Ok(true);
        }
        match httparse::parse_chunk_size(&self.rest) {
            Err(_) => Err("a chunk's size cannot be read"),
            Ok(Status::Partial) => Ok(false),
            Ok(Status::Complete((length, size))) => {
                self.rest.drain(..length);
                self.left = size;
                self.line_end_due = size > 0;
                self.in_trailer = size == 0;
                Ok(true)
            }
        }
    }

    fn take(&mut self, there: usize) -> usize {
        let taken = usize::try_from(self.left).map_or(there, |left| left.min(there));
        self.left -= taken as u64;
        taken
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body_of(framing: Framing, pieces: &[&[u8]]) -> (String, bool) {
        let mut reader = BodyReader::new(framing);
        let mut body = Vec::new();
        for piece in pieces {
            reader.push(piece, &mut body).unwrap();
        }
        (String::from_utf8(body).unwrap(), reader.ended())
    }

    #[test]
    fn each_framing_ends_where_it_says() {
        assert_eq!(
            body_of(Framing::Length(3), &[b"ab", b"cd"]),
            ("abc".to_owned(), true)
        );
        assert_eq!(body_of(Framing::Close, &[b"ab"]), ("ab".to_owned(), false));
        assert_eq!(
            body_of(Framing::Chunked, &[b"3;x=y\r\nabc\r\n0\r\nt: 1\r\n\r\n"]),
            ("abc".to_owned(), true)
        );
        assert_eq!(
            body_of(Framing::Chunked, &[b"3\r\nabc\r\n0\r\n"]),
            ("abc".to_owned(), false)
        );
    }

    #[test]
    fn chunks_that_are_none_are_refused() {
        for wrong in [b"zz\r\nabc\r\n".as_slice(), b"2\r\nabc\r\n"] {
            let mut reader = BodyReader::new(Framing::Chunked);
            assert!(reader.push(wrong, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn the_head_says_how_its_body_ends() {
        let read = |text: &str| Head::read(text.as_bytes()).unwrap().unwrap().0;
        let chunked = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(chunked.framing(), Framing::Chunked);
        assert!(!chunked.closes());
        let old = read("HTTP/1.0 200 OK\r\nServer:  x \r\n\r\n");
        assert_eq!((old.framing(), old.closes()), (Framing::Close, true));
        assert_eq!(old.header("server"), "x");
        let empty = read("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(empty.framing(), Framing::Length(0));
        assert!(Head::read(b"HTTP/1.1 200 OK\r\n").unwrap().is_none());
        assert!(Head::read(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(sizes in prop::collection::vec(1usize..20, 0..6), cut in 1usize..7) {
            let mut wire = Vec::new();
            let mut whole = String::new();
            for size in sizes {
                let data = "x".repeat(size);
                wire.extend(format!("{size:x}\r\n{data}\r\n").into_bytes());
                whole.push_str(&data);
            }
            wire.extend(b"0\r\n\r\n");
            let pieces: Vec<&[u8]> = wire.chunks(cut).collect();
            prop_assert_eq!(body_of(Framing::Chunked, &pieces), (whole, true));
        }
    }
}
