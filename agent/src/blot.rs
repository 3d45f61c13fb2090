//! Secrets taken out of what a server says: an API key that is refused comes back in its words, and
//! those are shown, logged and stored. Where secrets are kept and sent is left to others.

use std::collections::BTreeMap;

/// Values that are shorter are part of too many words to be blotted out.
const SECRET_BYTES_MIN: usize = 4;
/// What stands in a secret's place.
const BLOT: &str = "***";
/// Headers whose value is a scheme and the secret itself.
const WITH_SCHEME: [&str; 2] = ["authorization", "proxy-authorization"];

/// Knows the secrets of one run. It has no `Debug`, since it holds them.
pub(crate) struct Blotter {
    /// The longest first: one may be a part of another.
    secrets: Vec<String>,
}

impl Blotter {
    /// Of the values of these headers, by lower-case name.
    pub fn of(headers: &BTreeMap<String, String>) -> Self {
        let secret = |(name, value): (&String, &String)| {
            let bare = match value.split_once(' ') {
                Some((_, bare)) if WITH_SCHEME.contains(&name.as_str()) => bare.trim(),
                _ => value,
            };
            (bare.len() >= SECRET_BYTES_MIN).then(|| bare.to_owned())
        };
        let mut secrets: Vec<String> = headers.iter().filter_map(secret).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// `text` without them, also where it was cut off (`…`) within one.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            text = text.replace(secret, BLOT);
            let begun = text.strip_suffix('…').and_then(|said| {
                let begins = (SECRET_BYTES_MIN..secret.len()).rev();
                let mut begins = begins.filter_map(|length| secret.get(..length));
                said.strip_suffix(begins.find(|begin| said.ends_with(begin))?)
            });
            if let Some(before) = begun {
                text = format!("{before}{BLOT}…");
            }
        }
        text
    }

    /// The same for bytes, which need not be text.
    pub fn bytes(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        for secret in &self.secrets {
            let mut rest = bytes.as_slice();
            let mut clean = Vec::new();
            while let Some(at) = rest
                .windows(secret.len())
                .position(|window| window == secret.as_bytes())
            {
                clean.extend_from_slice(rest.get(..at).unwrap_or_default());
                clean.extend_from_slice(BLOT.as_bytes());
                rest = rest.get(at + secret.len()..).unwrap_or_default();
            }
            if !clean.is_empty() {
                clean.extend_from_slice(rest);
                bytes = clean;
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blotter() -> Blotter {
        let headers = [
            ("authorization", "Bearer sk-hunter2"),
            ("x-key", "hunter3"),
            ("x-long", "hunter3-and-more"),
            ("x-v", "1"),
        ];
        Blotter::of(
            &headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    #[test]
    fn no_secret_is_repeated() {
        let said = "sk-hunter2 (hunter3, hunter3-and-more) is no key, 1 try";
        let clean = "*** (***, ***) is no key, 1 try";
        assert_eq!(blotter().text(said), clean);
        assert_eq!(blotter().bytes(said.into()), clean.as_bytes());
        assert_eq!(blotter().bytes(b"\xff hunter3".to_vec()), b"\xff ***");
    }

    #[test]
    fn nor_is_the_part_of_one_that_was_cut_off() {
        assert_eq!(blotter().text("no such key: sk-hun…"), "no such key: ***…");
        assert_eq!(blotter().text("no such key: sk-…"), "no such key: sk-…");
        assert_eq!(
            blotter().text("sk-hunter in a sentence"),
            "sk-hunter in a sentence"
        );
    }
}
