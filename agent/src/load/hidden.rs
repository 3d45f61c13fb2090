//! Secrets in what servers say: a refusal may repeat the key that it refuses, and its words are
//! stored and shown. What a request's headers are is the client's business.

use std::collections::BTreeMap;

use contracts::sample::SampleError;

/// Shorter values are no secrets, and stand in many words.
const BYTES_MIN: usize = 6;
/// What is put in a secret's place.
const MASK: &str = "(hidden)";

/// The values that no message may hold.
pub struct Hidden {
    /// Longest first: of two that overlap nothing is left.
    values: Vec<String>,
}

impl Hidden {
    /// Those of a request's headers; of `Bearer KEY` the key alone too.
    pub fn of(headers: &BTreeMap<String, String>) -> Self {
        let parts = |value: &String| {
            [
                Some(value.clone()),
                value.split(' ').next_back().map(str::to_owned),
            ]
        };
        let mut values: Vec<String> = headers.values().flat_map(parts).flatten().collect();
        values.retain(|value| value.len() >= BYTES_MIN);
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    /// The error without them.
    pub fn mask(&self, mut error: SampleError) -> SampleError {
        for value in &self.values {
            if error.message.contains(value) {
                error.message = error.message.replace(value, MASK);
            }
            mask_cut(&mut error.message, value);
        }
        error
    }
}

/// A long message is cut off, and may end within a secret.
fn mask_cut(message: &mut String, value: &str) {
    let kept = message.trim_end_matches(['…', '.']);
    let cut = (BYTES_MIN..value.len())
        .rev()
        .filter_map(|bytes| value.get(..bytes))
        .find(|start| kept.ends_with(start));
    if let Some(start) = cut {
        let bytes = kept.len() - start.len();
        message.truncate(bytes);
        message.push_str(MASK);
    }
}

#[cfg(test)]
mod tests {
    use contracts::sample::ErrorClass;

    use super::*;

    #[test]
    fn what_a_server_repeats_of_a_secret_is_hidden() {
        let headers = [("authorization", "Bearer sk-12345678"), ("x-team", "blue")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let hidden = Hidden::of(&headers.into());
        for (said, shown) in [
            ("401: no Bearer sk-12345678 here", "401: no (hidden) here"),
            ("key sk-12345678, blue", "key (hidden), blue"),
            ("a long story of sk-1234…", "a long story of (hidden)"),
            ("sk-", "sk-"),
        ] {
            let error = SampleError {
                class: ErrorClass::Unauthorized,
                message: said.to_owned(),
            };
            assert_eq!(hidden.mask(error).message, shown);
        }
    }
}
