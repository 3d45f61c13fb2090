//! The head of an answer from its bytes: status, the headers that matter, and where the body ends.
//! What the body means is `body`'s matter.

use super::framing::Framing;

/// Bytes of a head, at most: cookies and tracing headers are far below it.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Headers of an answer, at most.
const HEADERS_MAX: usize = 128;

/// What the head of an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    /// Lower case, without parameters; empty if there is none.
    pub content_type: String,
    /// Lower case; empty if there is none.
    pub encoding: String,
    /// Where a redirect leads.
    pub location: String,
    /// Where the body ends.
    pub framing: Framing,
    /// Whether the connection may serve the next request.
    pub keep_alive: bool,
}

impl Head {
    /// Reads the head at the front of `bytes`, if it is complete, and its length. The error is one
    /// line.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => Ok(Some((Self::read(&response)?, length))),
            Ok(httparse::Status::Partial) if bytes.len() > HEAD_BYTES_MAX => Err(format!(
                "the head of the answer has more than {HEAD_BYTES_MAX} bytes"
            )),
            Ok(httparse::Status::Partial) => Ok(None),
            Err(error) => Err(not_http(bytes, error)),
        }
    }

    fn read(response: &httparse::Response<'_, '_>) -> Result<Self, String> {
        let mut head = Self {
            status: response.code.unwrap_or_default(),
            keep_alive: response.version == Some(1),
            ..Self::default()
        };
        let mut length = None;
        let mut chunked = false;
        for header in response.headers.iter() {
            let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let n = value.parse::<u64>().map_err(|_| bad_length(value))?;
                if length.is_some_and(|before| before != n) {
                    return Err("two content-lengths that differ".to_owned());
                }
                length = Some(n);
            } else if is("transfer-encoding") {
                if !value.eq_ignore_ascii_case("chunked") {
                    return Err(format!("transfer-encoding {value:?} cannot be read"));
                }
                chunked = true;
            } else if is("connection") {
                for word in value.split(',').map(str::trim) {
                    if word.eq_ignore_ascii_case("close") {
                        head.keep_alive = false;
                    } else if word.eq_ignore_ascii_case("keep-alive") && response.version == Some(0)
                    {
                        head.keep_alive = true;
                    }
                }
            } else if is("content-type") {
                let kind = value.split(';').next().unwrap_or_default().trim();
                head.content_type = kind.to_ascii_lowercase();
            } else if is("content-encoding") {
                head.encoding = value.to_ascii_lowercase();
            } else if is("location") {
                head.location = value.to_owned();
            }
        }
        head.framing = match (chunked, length) {
            _ if matches!(head.status, 100..200 | 204 | 304) => Framing::length(0),
            (true, _) => Framing::chunked(),
            (false, Some(length)) => Framing::length(length),
            (false, None) => Framing::Close,
        };
        head.keep_alive &= head.framing != Framing::Close;
        Ok(head)
    }
}

fn bad_length(value: &str) -> String {
    format!("content-length {value:?} is no number")
}

fn not_http(bytes: &[u8], error: httparse::Error) -> String {
    match (error, bytes.first()) {
        (httparse::Error::TooManyHeaders, _) => {
            format!("the answer has more than {HEADERS_MAX} headers")
        }
        // A TLS alert or handshake record.
        (_, Some(0x15 | 0x16)) => {
            "the answer is TLS and not HTTP; does the URL need https?".to_owned()
        }
        _ => format!("the answer is not HTTP/1.1 ({error})"),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, String> {
        let bytes = text.replace('\n', "\r\n") + "\r\nrest";
        let parsed = Head::parse(bytes.as_bytes())?;
        let (head, length) = parsed.unwrap();
        assert_eq!(bytes.get(length..), Some("rest"));
        Ok(head)
    }

    #[test]
    fn where_the_body_ends() {
        let framing = |text: &str| head(text).map(|h| (h.framing, h.keep_alive));
        let chunked = "HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\nContent-Length: 7\n";
        assert_eq!(framing(chunked), Ok((Framing::chunked(), true)));
        let length = "HTTP/1.1 200 OK\ncontent-length: 7\nconnection: x, Close\n";
        assert_eq!(framing(length), Ok((Framing::length(7), false)));
        assert_eq!(framing("HTTP/1.1 200 OK\n"), Ok((Framing::Close, false)));
        let old = "HTTP/1.0 200 OK\ncontent-length: 7\n";
        assert_eq!(framing(old), Ok((Framing::length(7), false)));
        let kept = "HTTP/1.0 200 OK\nconnection: keep-alive\ncontent-length: 7\n";
        assert_eq!(framing(kept), Ok((Framing::length(7), true)));
        let none = "HTTP/1.1 204 No Content\n";
        assert_eq!(framing(none), Ok((Framing::length(0), true)));
        for bad in [
            "HTTP/1.1 200 OK\ncontent-length: 7\ncontent-length: 8\n",
            "HTTP/1.1 200 OK\ncontent-length: -1\n",
            "HTTP/1.1 200 OK\ntransfer-encoding: gzip, chunked\n",
        ] {
            assert!(framing(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn headers_that_matter() {
        let text = "HTTP/1.1 307 X\nContent-Type: Text/HTML; charset=x\nLocation: /a\n\
                    Content-Encoding: GZIP\n";
        let head = head(text).unwrap();
        assert_eq!((head.status, head.location.as_str()), (307, "/a"));
        assert_eq!(head.content_type, "text/html");
        assert_eq!(head.encoding, "gzip");
    }

    #[test]
    fn a_head_is_waited_for_within_a_limit() {
        assert_eq!(Head::parse(b"HTTP/1.1 200 OK\r\na: b\r\n"), Ok(None));
        let long = format!("HTTP/1.1 200 OK\r\na: {}", "x".repeat(HEAD_BYTES_MAX));
        assert!(Head::parse(long.as_bytes()).unwrap_err().contains("bytes"));
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "a: b\r\n".repeat(HEADERS_MAX + 1)
        );
        assert!(
            Head::parse(many.as_bytes())
                .unwrap_err()
                .contains("headers")
        );
        let tls = Head::parse(b"\x15\x03\x03\x00\x02\x02\x46").unwrap_err();
        assert!(tls.contains("https"), "{tls}");
        assert!(
            Head::parse(b"SSH-2.0-x\r\n\r\n")
                .unwrap_err()
                .contains("HTTP")
        );
    }
}
