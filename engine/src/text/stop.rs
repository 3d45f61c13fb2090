//! Stop strings in text that comes in pieces.
//!
//! Each stop string is followed byte by byte with the automaton of Knuth, Morris and Pratt 1977
//! ("Fast pattern matching in strings"): the state is how much of the string the text ends with. So
//! how the text was cut into pieces changes nothing, each byte costs a bounded step on average, and
//! only text that may begin a stop string is held back.

/// Finds the first stop string in a text, and holds back what may be its beginning.
#[derive(Debug)]
pub struct StopMatcher {
    patterns: Vec<Pattern>,
    /// The end of the text so far, which begins one of the stop strings.
    held: String,
}

/// What a piece led to.
#[derive(Debug, PartialEq, Eq)]
pub struct Released {
    /// Text that is certain to stand before any stop string.
    pub text: String,
    /// Whether a stop string is complete. What follows it is dropped.
    pub stopped: bool,
}

impl StopMatcher {
    /// For these strings, none of them empty; no string at all lets everything through.
    pub fn new(stop: &[String]) -> Self {
        Self {
            patterns: stop.iter().map(|stop| Pattern::new(stop)).collect(),
            held: String::new(),
        }
    }

    /// Takes the next piece. The string that is complete first ends the text; of those that end at
    /// the same byte the longest, which begins first. After that nothing more should be pushed.
    pub fn push(&mut self, piece: &str) -> Released {
        if self.patterns.is_empty() {
            return Released {
                text: piece.to_owned(),
                stopped: false,
            };
        }
        let mut text = std::mem::take(&mut self.held);
        for (end, byte) in (1..).zip(piece.bytes()) {
            let complete = self
                .patterns
                .iter_mut()
                .filter_map(|pattern| pattern.step(byte).then_some(pattern.bytes.len()));
            if let Some(stop_bytes) = complete.max() {
                text.push_str(piece.get(..end).unwrap_or_default());
                split_end(&mut text, stop_bytes);
                return Released {
                    text,
                    stopped: true,
                };
            }
        }
        text.push_str(piece);
        let may_begin = self.patterns.iter().map(|pattern| pattern.matched).max();
        self.held = split_end(&mut text, may_begin.unwrap_or(0));
        Released {
            text,
            stopped: false,
        }
    }

    /// The text has ended without a stop string: what was held back.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Cuts the last bytes off. They are a stop string or the beginning of one, so they begin where a
/// character does: no other byte of a character can be the first of a string.
fn split_end(text: &mut String, bytes: usize) -> String {
    let start = text.len().saturating_sub(bytes);
    text.split_off(text.floor_char_boundary(start))
}

/// One stop string, and how much of it the text ends with.
#[derive(Debug)]
struct Pattern {
    bytes: Vec<u8>,
    /// For each place: the length of the longest proper beginning of the string that ends there.
    borders: Vec<usize>,
    matched: usize,
}

impl Pattern {
    fn new(stop: &str) -> Self {
        let bytes = stop.as_bytes().to_vec();
        let mut borders = Vec::with_capacity(bytes.len());
        let mut border = 0;
        for (place, byte) in bytes.iter().enumerate() {
            if place > 0 {
                border = follow(&bytes, &borders, border, *byte);
            }
            borders.push(border);
        }
        Self {
            bytes,
            borders,
            matched: 0,
        }
    }

    /// Whether the string is complete with this byte.
    fn step(&mut self, byte: u8) -> bool {
        self.matched = follow(&self.bytes, &self.borders, self.matched, byte);
        self.matched == self.bytes.len()
    }
}

/// How much of the string the text ends with after one more byte: the longest beginning that goes
/// on with it.
fn follow(bytes: &[u8], borders: &[usize], mut matched: usize, byte: u8) -> usize {
    loop {
        if bytes.get(matched) == Some(&byte) {
            return matched + 1;
        }
        let Some(last) = matched.checked_sub(1) else {
            return 0;
        };
        matched = borders.get(last).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Releases of all pieces and of the end, and whether a stop string came.
    fn run(stop: &[String], pieces: &[String]) -> (Vec<String>, bool) {
        let mut matcher = StopMatcher::new(stop);
        let mut released = Vec::new();
        for piece in pieces {
            let Released { text, stopped } = matcher.push(piece);
            released.push(text);
            if stopped {
                return (released, true);
            }
        }
        released.push(matcher.finish());
        (released, false)
    }

    /// The same of the whole text, by trying every end.
    fn naive<'a>(stop: &[String], text: &'a str) -> (&'a str, bool) {
        for end in 0..=text.len() {
            let ended = |stop: &&String| text.as_bytes()[..end].ends_with(stop.as_bytes());
            if let Some(longest) = stop.iter().filter(ended).map(String::len).max() {
                return (&text[..end - longest], true);
            }
        }
        (text, false)
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn only_what_may_begin_a_stop_string_is_held_back() {
        let mut matcher = StopMatcher::new(&owned(&["<end>", "\n\n"]));
        for (piece, released) in [
            ("a<", "a"),
            ("e", ""),
            ("x", "<ex"),
            ("y\n", "y"),
            ("z", "\nz"),
        ] {
            assert_eq!(matcher.push(piece).text, released, "{piece:?}");
        }
        assert_eq!(matcher.push("<en").text, "");
        assert_eq!(matcher.finish(), "<en");
    }

    #[test]
    fn the_first_that_is_complete_ends_the_text_and_of_two_the_longer() {
        let cases: [(&[&str], &[&str], &str); 7] = [
            (&["lo wo"], &["hel", "lo", " world"], "hel"),
            (&["abcd", "bc"], &["xabcd"], "xa"),
            (&["c", "abc"], &["xabc"], "x"),
            (&["aab"], &["aaaab"], "aa"),
            (&["é"], &["caf", "é!"], "caf"),
            (&["\u{FFFD}"], &["a\u{FFFD}"], "a"),
            (&["ab", "ab"], &["ab"], ""),
        ];
        for (stop, pieces, text) in cases {
            let (released, stopped) = run(&owned(stop), &owned(pieces));
            assert_eq!((released.concat().as_str(), stopped), (text, true));
        }
    }

    /// Few characters, of one to four bytes, so that strings overlap.
    fn text(max: usize) -> impl Strategy<Value = String> {
        let character = prop::sample::select(vec!['a', 'b', 'é', 'è', '日', '旦', '🦀']);
        prop::collection::vec(character, 1..=max).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn it_finds_what_a_search_of_the_whole_text_finds(
            stop in prop::collection::vec(text(4), 0..4),
            pieces in prop::collection::vec(text(5), 0..8),
        ) {
            let whole = pieces.concat();
            let (released, stopped) = run(&stop, &pieces);
            let joined = released.concat();
            prop_assert_eq!((joined.as_str(), stopped), naive(&stop, &whole));
            // Never is less held back than a stop string may need, nor more: what is out is the
            // text but for the longest end that begins a stop string.
            let mut out = String::new();
            let mut seen = String::new();
            for (piece, text) in pieces.iter().zip(&released) {
                seen.push_str(piece);
                out.push_str(text);
                if stopped && seen.len() >= naive(&stop, &whole).0.len() {
                    break;
                }
                let held = (0..=seen.len()).rev().filter(|bytes| {
                    let end = &seen.as_bytes()[seen.len() - bytes..];
                    stop.iter().any(|stop| stop.as_bytes().starts_with(end))
                });
                prop_assert_eq!(seen.len() - out.len(), held.max().unwrap_or(0));
            }
        }
    }
}
