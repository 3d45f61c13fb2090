//! What the head of an answer says about its body: how to read it, where it ends, and whether it
//! is a failure. Reading it is left to the client.

use contracts::openai::ErrorBody;
use contracts::sample::{ErrorClass, SampleError};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, HeaderName};

use super::answer::failure;
use super::wire::one_line;

/// How a body is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// Server-sent events.
    Events,
    /// One JSON document.
    Whole,
    /// The words of a status that is not 2xx.
    Error,
}

impl BodyKind {
    /// Decides by status and headers; `stream` is what was asked for. A server that was asked for
    /// a stream and answers with JSON has answered whole.
    pub fn of(head: &Parts, stream: bool) -> Result<Self, SampleError> {
        if head.status.is_redirection() {
            let message = format!(
                "{} to {:?}: a measured server must answer itself",
                head.status,
                header(&head.headers, LOCATION)
            );
            return Err(failure(ErrorClass::Redirect, message));
        }
        if !head.status.is_success() {
            return Ok(Self::Error);
        }
        let encoding = header(&head.headers, CONTENT_ENCODING);
        if !matches!(encoding, "" | "identity") {
            let message = format!("content-encoding {encoding:?}, though identity was asked for");
            return Err(failure(ErrorClass::BadJson, message));
        }
        let kind = header(&head.headers, CONTENT_TYPE);
        let kind = kind.split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "text/event-stream" => Ok(Self::Events),
            "application/json" => Ok(Self::Whole),
            "" | "text/plain" | "application/octet-stream" if stream => Ok(Self::Events),
            "" | "text/plain" | "application/octet-stream" => Ok(Self::Whole),
            other => Err(failure(
                ErrorClass::BadJson,
                format!("content-type {other:?} is no answer of this API"),
            )),
        }
    }
}

/// Whether only the closing of the connection ends the body.
pub fn is_close_delimited(headers: &HeaderMap) -> bool {
    !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING)
}

/// The failure that a status other than 2xx is, with the server's words.
pub fn status_error(head: &Parts, body: &[u8]) -> SampleError {
    let words = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => one_line(&body.error.message),
        Err(_) => one_line(&String::from_utf8_lossy(body)),
    };
    failure(ErrorClass::HttpStatus, format!("{}: {words}", head.status))
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name);
    value.and_then(|v| v.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use http::Response;

    use super::*;

    fn head(status: u16, headers: &[(&str, &str)]) -> Parts {
        let mut builder = Response::builder().status(status);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    fn kind(status: u16, headers: &[(&str, &str)], stream: bool) -> Result<BodyKind, ErrorClass> {
        BodyKind::of(&head(status, headers), stream).map_err(|e| e.class)
    }

    #[test]
    fn the_head_says_how_to_read() {
        let sse = [("content-type", "Text/Event-Stream; charset=utf-8")];
        assert_eq!(kind(200, &sse, true), Ok(BodyKind::Events));
        let json = [("content-type", "application/json")];
        assert_eq!(kind(200, &json, true), Ok(BodyKind::Whole));
        assert_eq!(kind(200, &[], true), Ok(BodyKind::Events));
        assert_eq!(kind(200, &[], false), Ok(BodyKind::Whole));
        assert_eq!(kind(429, &sse, true), Ok(BodyKind::Error));
        let html = [("content-type", "text/html")];
        assert_eq!(kind(200, &html, true), Err(ErrorClass::BadJson));
        let gzip = [("content-encoding", "gzip")];
        assert_eq!(kind(200, &gzip, true), Err(ErrorClass::BadJson));
        let away = [("location", "/elsewhere")];
        assert_eq!(kind(307, &away, true), Err(ErrorClass::Redirect));
    }

    #[test]
    fn a_status_keeps_the_servers_words() {
        let body = br#"{"error":{"message":"no such\nmodel","type":"x","param":null,"code":null}}"#;
        assert_eq!(
            status_error(&head(404, &[]), body).message,
            "404 Not Found: no such model"
        );
        let page = "<html>\n".repeat(1000);
        let error = status_error(&head(502, &[]), page.as_bytes());
        assert!(error.message.starts_with("502 Bad Gateway: <html> <html>"));
        assert!(error.message.chars().count() < 400);
    }
}
