//! Whether a server takes `stream_options`: asked for in every stream, taken out for the rest of
//! the run if the server refuses it. Sending anew is the client's matter.

use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use serde_json::Value;

/// The field.
const FIELD: &str = "stream_options";

/// What is known of a server, shared by all clients of a run.
#[derive(Debug, Default)]
pub struct UsageOption(AtomicU8);

const UNKNOWN: u8 = 0;
const TAKEN: u8 = 1;
const REFUSED: u8 = 2;

/// How a request stood to the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It carried the field.
    With,
    /// It did not, and nothing follows from its answer.
    Without,
    /// It had been sent with the field before, and was refused like this.
    Again(Refusal),
}

/// How sure it is that a refused request was refused for the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The server names it.
    Named,
    /// No request with the field has been taken yet.
    Suspected,
}

impl UsageOption {
    /// Whether bodies are to leave it out.
    pub fn is_refused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == REFUSED
    }

    /// Whether an answer to a request that carried the field may mean that it is not taken.
    pub fn refusal(&self, status: Option<u16>, words: &str) -> Option<Refusal> {
        if !matches!(status, Some(400 | 422)) {
            return None;
        }
        if words.contains(FIELD) || words.contains("include_usage") {
            return Some(Refusal::Named);
        }
        (self.0.load(Ordering::Relaxed) == UNKNOWN).then_some(Refusal::Suspected)
    }

    /// Takes note of the status that a request came to.
    pub fn learn(&self, asked: Asked, status: Option<u16>) {
        let relaxed = Ordering::Relaxed;
        let refused = match (asked, status) {
            (Asked::Again(Refusal::Named), Some(_)) => true,
            (Asked::Again(Refusal::Suspected), Some(200..300)) => true,
            // Refused without it too: the field was not the reason.
            (Asked::Again(Refusal::Suspected), Some(400 | 422)) => false,
            (Asked::With, Some(200..300)) => false,
            _ => return,
        };
        if refused {
            self.0.store(REFUSED, relaxed);
        } else {
            let _ = self.0.compare_exchange(UNKNOWN, TAKEN, relaxed, relaxed);
        }
    }
}

/// `body` without the field; none if it does not carry it.
pub fn without_usage(body: &[u8]) -> Option<Bytes> {
    let mut document: Value = serde_json::from_slice(body).ok()?;
    document.as_object_mut()?.shift_remove(FIELD)?;
    serde_json::to_vec(&document).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_is_taken_out_and_nothing_else() {
        let body = br#"{"model":"m","stream_options":{"include_usage":true},"n":0.7}"#;
        let expected = Bytes::from_static(br#"{"model":"m","n":0.7}"#);
        assert_eq!(without_usage(body), Some(expected));
        assert_eq!(without_usage(br#"{"prompt":"stream_options"}"#), None);
        assert_eq!(without_usage(b"{"), None);
    }

    #[test]
    fn a_refusal_is_told_from_other_bad_requests() {
        let option = UsageOption::default();
        let suspected = Some(Refusal::Suspected);
        assert_eq!(option.refusal(Some(400), "bad request"), suspected);
        assert_eq!(option.refusal(Some(500), "stream_options"), None);
        option.learn(Asked::With, Some(200));
        assert_eq!(option.refusal(Some(400), "prompt too long"), None);
        let named = option.refusal(Some(422), "unknown field stream_options");
        assert_eq!(named, Some(Refusal::Named));
        option.learn(Asked::Again(Refusal::Named), Some(200));
        option.learn(Asked::With, Some(200));
        assert!(option.is_refused());
    }

    #[test]
    fn a_suspicion_is_borne_out_or_not() {
        for (status, refused) in [(200, true), (400, false), (500, false)] {
            let option = UsageOption::default();
            option.learn(Asked::Again(Refusal::Suspected), Some(status));
            assert_eq!(option.is_refused(), refused, "{status}");
        }
    }
}
