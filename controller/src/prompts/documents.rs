//! JSON documents of a file one by one, whether it is one array or a document a line, so that a
//! data set of hundreds of megabytes is never in memory as a whole. What they mean is the caller's.

use std::io::{BufRead, Read};

use serde::de::{DeserializeSeed, Deserializer as _, SeqAccess, Visitor};
use serde_json::Value;

use super::{FILE_BYTES_MAX, Fault, Place};

/// Calls `each` with each document: the elements of an array, where the text begins with `[`, else
/// each line that is not blank. Ends at the first error of `each`.
pub(super) fn documents(
    mut reader: impl BufRead,
    mut each: impl FnMut(Place, Value) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (first, blank_lines) = first_byte(&mut reader)?;
    if first == Some(b'[') {
        array(reader, &mut each)
    } else {
        numbered(reader, blank_lines + 1, |place, line| {
            let value = serde_json::from_str(line)
                .map_err(|error| place.fault(format!("expected a JSON object: {error}")))?;
            each(place, value)
        })
    }
}

/// Calls `each` with each line that is not blank.
pub(super) fn lines(
    reader: impl BufRead,
    each: impl FnMut(Place, &str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    numbered(reader, 1, each)
}

fn numbered(
    mut reader: impl BufRead,
    first: usize,
    mut each: impl FnMut(Place, &str) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut line = Vec::new();
    for number in first.. {
        let place = Place::Line(number);
        line.clear();
        let read = (&mut reader)
            .take(FILE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .map_err(|error| place.fault(error.to_string()))?;
        if read == 0 {
            break;
        }
        if read as u64 == FILE_BYTES_MAX {
            return Err(place.fault(format!("longer than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(&line).map_err(|_| place.fault("not UTF-8"))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if !text.trim().is_empty() {
            each(place, text)?;
        }
    }
    Ok(())
}

/// The first byte that is no blank, and the line ends before it. What is before it is taken, a byte
/// order mark too.
fn first_byte(reader: &mut impl BufRead) -> Result<(Option<u8>, usize), Fault> {
    let mut line_ends = 0;
    loop {
        let buffer = reader.fill_buf();
        let buffer = buffer.map_err(|error| Fault::Whole(error.to_string()))?;
        let Some(&first) = buffer.first() else {
            return Ok((None, line_ends));
        };
        if buffer.starts_with(b"\xEF\xBB\xBF") {
            reader.consume(3);
        } else if first.is_ascii_whitespace() {
            line_ends += usize::from(first == b'\n');
            reader.consume(1);
        } else {
            return Ok((Some(first), line_ends));
        }
    }
}

fn array(
    reader: impl Read,
    each: &mut impl FnMut(Place, Value) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut parser = serde_json::Deserializer::from_reader(reader);
    let mut fault = None;
    let walk = Walk {
        each,
        fault: &mut fault,
    };
    let walked = parser.deserialize_seq(walk).and_then(|()| parser.end());
    match (fault, walked) {
        (Some(fault), _) => Err(fault),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) => Err(Fault::Whole(format!("not a JSON array: {error}"))),
    }
}

/// Hands on each element as it is read. The caller's error leaves through `fault`, since serde's
/// own errors are text.
struct Walk<'a, F> {
    each: &'a mut F,
    fault: &'a mut Option<Fault>,
}

impl<'de, F: FnMut(Place, Value) -> Result<(), Fault>> Visitor<'de> for Walk<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        for number in 1.. {
            let Some(value) = seq.next_element_seed(Document)? else {
                break;
            };
            if let Err(fault) = (self.each)(Place::Entry(number), value) {
                *self.fault = Some(fault);
                return Err(serde::de::Error::custom("ended by the caller"));
            }
        }
        Ok(())
    }
}

/// One element.
struct Document;

impl<'de> DeserializeSeed<'de> for Document {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        serde::Deserialize::deserialize(parser)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        documents(bytes, |place, value| {
            if value == Value::Null {
                return Err(place.fault("null"));
            }
            all.push(format!("{place}: {value}"));
            Ok(())
        })
        .map_err(|fault| fault.to_string())?;
        Ok(all)
    }

    #[test]
    fn an_array_and_lines_are_told_apart_and_keep_their_places() {
        let expected = ["entry 1: 1", "entry 2: {\"a\":2}"];
        assert_eq!(read(b"\n [1,\n {\"a\": 2}]\n").unwrap(), expected);
        assert_eq!(read(b"\xEF\xBB\xBF[]").unwrap(), [""; 0]);
        let expected = ["line 1: 1", "line 3: {\"a\":2}"];
        assert_eq!(read(b"1\r\n  \n{\"a\": 2}").unwrap(), expected);
        let expected = ["line 2: 1"];
        assert_eq!(read(b"\n1").unwrap(), expected);
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(read(b"1\nnull\n2").unwrap_err(), "line 2: null");
        assert_eq!(read(b"[1, null, 2").unwrap_err(), "entry 2: null");
        assert!(
            read(b"{\n")
                .unwrap_err()
                .starts_with("line 1: expected a JSON object")
        );
        assert!(
            read(b"[1, 2")
                .unwrap_err()
                .starts_with("not a JSON array: ")
        );
        assert!(
            read(b"[1] 2")
                .unwrap_err()
                .starts_with("not a JSON array: ")
        );
        assert_eq!(read(b"1\n\xFF").unwrap_err(), "line 2: not UTF-8");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = read(&bytes);
        }
    }
}
