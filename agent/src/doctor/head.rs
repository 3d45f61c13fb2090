//! The head of an answer with all that is in it, since the head itself is looked at. Pure: bytes in.

use httparse::Status;

use crate::load::framing::Framing;

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
            return Framing::chunked();
        }
        match self.header("content-length").parse() {
            Ok(length) => Framing::length(length),
            Err(_) if matches!(self.status, 204 | 304) => Framing::length(0),
            Err(_) => Framing::Close,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_how_its_body_ends() {
        let read = |text: &str| Head::read(text.as_bytes()).unwrap().unwrap().0;
        let chunked = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(chunked.framing(), Framing::chunked());
        assert!(!chunked.closes());
        let old = read("HTTP/1.0 200 OK\r\nServer:  x \r\n\r\n");
        assert_eq!((old.framing(), old.closes()), (Framing::Close, true));
        assert_eq!(old.header("server"), "x");
        let empty = read("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(empty.framing(), Framing::length(0));
        assert!(Head::read(b"HTTP/1.1 200 OK\r\n").unwrap().is_none());
        assert!(Head::read(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
    }
}
