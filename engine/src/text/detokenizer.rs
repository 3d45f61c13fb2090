//! Decoding of ids that come one by one.

use super::Text;

/// Gives out text as soon as it is complete and never a part of a character.
///
/// All that [`push`](Self::push) and [`finish`](Self::finish) return, joined, is
/// [`Text::decode`] of the same ids. A push costs the length of its token, however long the text.
#[derive(Debug)]
pub struct Detokenizer {
    text: Text,
    /// Bytes of a character whose end has not come yet: three at most between pushes.
    pending: Vec<u8>,
    leading_spaces_left: usize,
}

impl Detokenizer {
    pub(super) fn new(text: Text) -> Self {
        let leading_spaces_left = text.parts.pieces.leading_spaces_dropped();
        Self {
            text,
            pending: Vec::new(),
            leading_spaces_left,
        }
    }

    /// Takes the next id and returns the text that is complete with it, often empty. Bytes that no
    /// later byte can make valid come out as U+FFFD.
    pub fn push(&mut self, id: u32) -> String {
        let mut bytes = self.text.parts.pieces.bytes(id);
        while self.leading_spaces_left > 0 && !bytes.is_empty() {
            match bytes.strip_prefix(b" ") {
                Some(rest) => {
                    bytes = rest;
                    self.leading_spaces_left -= 1;
                }
                None => self.leading_spaces_left = 0,
            }
        }
        self.pending.extend_from_slice(bytes);
        self.take_complete()
    }

    /// Ends the text: what is left of an unfinished character, as one U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }

    fn take_complete(&mut self) -> String {
        let mut complete = String::new();
        let mut used = 0;
        for chunk in self.pending.utf8_chunks() {
            let invalid = chunk.invalid();
            complete.push_str(chunk.valid());
            used += chunk.valid().len();
            if invalid.is_empty()
                || is_unfinished(invalid) && used + invalid.len() == self.pending.len()
            {
                break;
            }
            complete.push(char::REPLACEMENT_CHARACTER);
            used += invalid.len();
        }
        self.pending.drain(..used);
        complete
    }
}

/// Whether more bytes could make this a character.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
