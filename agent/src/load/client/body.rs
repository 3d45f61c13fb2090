//! What the head of an answer says about its body: how to read it, and whether it is a failure.
//! Reading it is left to `reception`.

use contracts::openai::ErrorBody;
use contracts::sample::{ErrorClass, SampleError};
use http::StatusCode;

use super::head::Head;
use crate::load::answer::failure;
use crate::load::wire::one_line;

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
    pub fn of(head: &Head, stream: bool) -> Result<Self, SampleError> {
        if (300..400).contains(&head.status) {
            let message = format!(
                "{} to {:?}: a measured server must answer itself",
                status_words(head.status),
                head.location
            );
            return Err(failure(ErrorClass::Redirect, message));
        }
        if !(200..300).contains(&head.status) {
            return Ok(Self::Error);
        }
        match head.content_type.as_str() {
            "text/event-stream" => Ok(Self::Events),
            "application/json" => Ok(Self::Whole),
            "" | "text/plain" | "application/octet-stream" if stream => Ok(Self::Events),
            "" | "text/plain" | "application/octet-stream" => Ok(Self::Whole),
            other => Err(failure(
                ErrorClass::ContentType,
                format!(
                    "{} with content-type {other:?}, which is no answer of this API; is the URL right?",
                    status_words(head.status)
                ),
            )),
        }
    }
}

/// The failure that a status other than 2xx is, with the server's words.
pub fn status_error(status: u16, body: &[u8]) -> SampleError {
    let words = match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => one_line(&body.error.message),
        Err(_) => one_line(&String::from_utf8_lossy(body)),
    };
    let class = match status {
        401 | 403 => ErrorClass::Unauthorized,
        _ => ErrorClass::HttpStatus,
    };
    let status = status_words(status);
    let message = match (class, words.is_empty()) {
        (ErrorClass::Unauthorized, true) => format!("{status}; is the API key right?"),
        (_, true) => status,
        _ => format!("{status}: {words}"),
    };
    failure(class, message)
}

/// `404 Not Found`, or the bare number of a status without a name.
fn status_words(status: u16) -> String {
    let known = StatusCode::from_u16(status).ok();
    match known.and_then(|s| s.canonical_reason()) {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, content_type: &str, stream: bool) -> Result<BodyKind, ErrorClass> {
        let head = Head {
            status,
            content_type: content_type.to_owned(),
            ..Head::default()
        };
        BodyKind::of(&head, stream).map_err(|e| e.class)
    }

    #[test]
    fn the_head_says_how_to_read() {
        assert_eq!(kind(200, "text/event-stream", true), Ok(BodyKind::Events));
        assert_eq!(kind(200, "application/json", true), Ok(BodyKind::Whole));
        assert_eq!(kind(200, "", true), Ok(BodyKind::Events));
        assert_eq!(kind(200, "", false), Ok(BodyKind::Whole));
        assert_eq!(kind(429, "text/event-stream", true), Ok(BodyKind::Error));
        assert_eq!(kind(200, "text/html", true), Err(ErrorClass::ContentType));
        assert_eq!(kind(307, "text/html", true), Err(ErrorClass::Redirect));
    }

    #[test]
    fn a_status_keeps_the_servers_words() {
        let body = br#"{"error":{"message":"no such\nmodel","type":"x","param":null,"code":null}}"#;
        let error = status_error(404, body);
        assert_eq!(error.message, "404 Not Found: no such model");
        let page = "<html>\n".repeat(1000);
        let error = status_error(502, page.as_bytes());
        assert!(error.message.starts_with("502 Bad Gateway: <html> <html>"));
        assert!(error.message.chars().count() < 400);
        let error = status_error(401, b"");
        assert_eq!(error.class, ErrorClass::Unauthorized);
        assert_eq!(error.message, "401 Unauthorized; is the API key right?");
        assert_eq!(status_error(799, b"").message, "799");
    }
}
