//! Answers for the tests of the judges.

use super::exchange::{Answer, End, Reply};
use super::head::Head;

/// A whole answer.
pub fn answer(status: u16, body: &str) -> Answer {
    Answer {
        head: Head {
            status,
            ..Head::default()
        },
        body: body.as_bytes().to_vec(),
        end: End::Whole,
    }
}

/// The same where one was asked for.
pub fn reply(status: u16, body: &str) -> Reply {
    Ok(answer(status, body))
}
