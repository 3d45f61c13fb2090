//! A text cut into words as a shell does it, without what a shell puts in their place: no variables,
//! no patterns, no commands. Pure.

/// Blanks part words; `'…'` is taken as it is; within `"…"` a backslash keeps a `"` or a backslash,
/// outside of quotes any character. What stands together is one word.
///
/// # Errors
/// A quote that is not closed; a backslash with nothing behind it.
pub fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => quoted(&mut rest, '\'', word.get_or_insert_default())?,
            '"' => quoted(&mut rest, '"', word.get_or_insert_default())?,
            '\\' => {
                let kept = rest
                    .next()
                    .ok_or("it ends with a backslash, which keeps the next character as it is")?;
                word.get_or_insert_default().push(kept);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Takes what stands up to the closing quote.
fn quoted(rest: &mut std::str::Chars<'_>, quote: char, word: &mut String) -> Result<(), String> {
    while let Some(c) = rest.next() {
        match c {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => match rest.next() {
                Some(kept @ ('"' | '\\')) => word.push(kept),
                Some(other) => word.extend(['\\', other]),
                None => break,
            },
            c => word.push(c),
        }
    }
    Err(format!("a {quote} is not closed"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_are_cut_as_a_shell_does_it() {
        for (text, expected) in [
            ("", &[][..]),
            ("  --threads  1\t", &["--threads", "1"]),
            ("--extra 'a b=1'", &["--extra", "a b=1"]),
            ("--extra=\"a \\\"b\\\" \\n\"", &["--extra=a \"b\" \\n"]),
            ("a\\ b '' c'd'\"e\"", &["a b", "", "cde"]),
            ("$HOME `x` *", &["$HOME", "`x`", "*"]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        for (text, why) in [
            ("a 'b", "a ' is not closed"),
            ("\"b", "a \" is not closed"),
            ("\"b\\", "a \" is not closed"),
            ("b\\", "backslash"),
        ] {
            let told = words(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back(texts in prop::collection::vec("[^']*", 0..5)) {
            let line: Vec<String> = texts.iter().map(|text| format!("'{text}'")).collect();
            prop_assert_eq!(words(&line.join(" ")).unwrap(), texts);
        }

        #[test]
        fn no_text_breaks_it(text in ".*") {
            let _ = words(&text);
        }
    }
}
