//! One word of a command line, of a variable or of a name in `engines.toml`: text with placeholders
//! that a run fills in. Never read by a shell: a filled word is one argument, whatever is in it.

/// What a word may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// The port that the server must listen on.
    Port,
    /// The address that it must listen on.
    Host,
    /// The model: an absolute path, or its name.
    Model,
    /// Threads to compute with: `--threads`, else all cores.
    Threads,
    /// Index of the GPU that `--device` names.
    Gpu,
}

/// Each placeholder as it is written.
const PLACEHOLDERS: [(&str, Placeholder); 5] = [
    ("port", Placeholder::Port),
    ("host", Placeholder::Host),
    ("model", Placeholder::Model),
    ("threads", Placeholder::Threads),
    ("gpu", Placeholder::Gpu),
];

/// What a run puts in the placeholders' place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values<'a> {
    /// For `{port}`.
    pub port: u16,
    /// For `{host}`.
    pub host: &'a str,
    /// For `{model}`.
    pub model: &'a str,
    /// For `{threads}`.
    pub threads: u32,
    /// For `{gpu}`.
    pub gpu: u32,
}

/// A word with its placeholders found. `{{` and `}}` are braces that mean themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Hole(Placeholder),
}

impl Word {
    /// Finds the placeholders of `text`, or says in one line what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains('\0') {
            return Err("has a NUL".to_owned());
        }
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{") {
                plain.push('{');
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                plain.push('}');
                rest = after;
            } else {
                let (hole, after) = placeholder(from).ok_or_else(|| unknown(from))?;
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Hole(hole));
                rest = after;
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self { pieces })
    }

    /// Whether it asks for this.
    pub fn has(&self, wanted: Placeholder) -> bool {
        self.pieces.contains(&Piece::Hole(wanted))
    }

    /// Its text, where it has no placeholder.
    pub fn plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The word as a child gets it.
    pub fn fill(&self, values: &Values<'_>) -> String {
        let filled = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Hole(Placeholder::Port) => values.port.to_string(),
            Piece::Hole(Placeholder::Host) => values.host.to_owned(),
            Piece::Hole(Placeholder::Model) => values.model.to_owned(),
            Piece::Hole(Placeholder::Threads) => values.threads.to_string(),
            Piece::Hole(Placeholder::Gpu) => values.gpu.to_string(),
        });
        filled.collect()
    }
}

/// The placeholder at the start of `text`, and what comes after it.
fn placeholder(text: &str) -> Option<(Placeholder, &str)> {
    let (name, after) = text.strip_prefix('{')?.split_once('}')?;
    let known = PLACEHOLDERS.iter().find(|(known, _)| *known == name)?;
    Some((known.1, after))
}

fn unknown(text: &str) -> String {
    let shown = match text.split_once('}') {
        Some((name, _)) if text.starts_with('{') => format!("{name}}}"),
        _ => text.chars().take(1).collect(),
    };
    let known: Vec<String> = PLACEHOLDERS
        .iter()
        .map(|(name, _)| format!("{{{name}}}"))
        .collect();
    format!(
        "{shown} is no placeholder; there are {}, and {{{{ and }}}} stand for braces",
        known.join(" ")
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALUES: Values<'static> = Values {
        port: 8001,
        host: "127.0.0.1",
        model: "/models/{port} a.gguf",
        threads: 4,
        gpu: 1,
    };

    fn filled(text: &str) -> String {
        Word::parse(text).unwrap().fill(&VALUES)
    }

    #[test]
    fn placeholders_are_filled_once_and_braces_stay() {
        assert_eq!(filled("--port={port}"), "--port=8001");
        assert_eq!(filled("{host}:{port}"), "127.0.0.1:8001");
        assert_eq!(filled("{threads}{gpu}"), "41");
        // What is filled in is not read again, and stays one word.
        assert_eq!(filled("{model}"), "/models/{port} a.gguf");
        assert_eq!(filled(r#"{{"a":{{"b":1}}}}"#), r#"{"a":{"b":1}}"#);
        assert_eq!(filled(""), "");
        assert_eq!(Word::parse("a").unwrap().plain(), Some("a"));
        assert_eq!(Word::parse("{port}").unwrap().plain(), None);
    }

    #[test]
    fn what_is_no_placeholder_is_named() {
        for (text, shown) in [
            ("{Port}", "{Port} is no placeholder"),
            (r#"{"a":1}"#, r#"{"a":1} is no placeholder"#),
            ("a{", "{ is no placeholder"),
            ("a}", "} is no placeholder"),
            ("{}", "{} is no placeholder"),
        ] {
            let error = Word::parse(text).unwrap_err();
            assert!(error.starts_with(shown), "{text}: {error}");
            assert!(error.contains("{port} {host} {model}"), "{error}");
        }
        assert!(Word::parse("a\0").is_err());
    }

    proptest! {
        #[test]
        fn escaped_text_means_itself(text in "[^\0]{0,40}") {
            let escaped = text.replace('{', "{{").replace('}', "}}");
            prop_assert_eq!(filled(&escaped), text);
        }
    }
}
