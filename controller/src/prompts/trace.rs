//! A log of real traffic in Mooncake's shape: a line a request with its time, its lengths and the
//! hashes of its prompt's blocks.

use std::io::BufRead;
use std::path::Path;

use contracts::run::{PromptSource, TRACE_BLOCK_TOKENS, TraceRequest};
use serde_json::Value;

use super::documents::documents;
use super::{FILE_BYTES_MAX, Fault, FileError, check_count, read};

/// Reads `{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [ids]}` a
/// line; `hash_ids` may be left out. Lines are put in order of time; times count from the first.
///
/// # Errors
/// The place, and what is expected there.
pub fn trace(file: &Path) -> Result<PromptSource, FileError> {
    read(file, FILE_BYTES_MAX, parse)
}

fn parse(reader: impl BufRead) -> Result<PromptSource, Fault> {
    let mut requests = Vec::new();
    documents(reader, |place, document| {
        requests.push(request(&document).map_err(|message| place.fault(message))?);
        Ok(())
    })?;
    check_count(requests.len(), "request")?;
    requests.sort_by_key(|request| request.due_ms);
    let first_ms = requests.first().map_or(0, |first| first.due_ms);
    for request in &mut requests {
        request.due_ms -= first_ms;
    }
    Ok(PromptSource::Trace { requests })
}

fn request(document: &Value) -> Result<TraceRequest, String> {
    let tokens = |key: &str| {
        let value = document.get(key).and_then(Value::as_u64);
        value
            .and_then(|tokens| u32::try_from(tokens).ok())
            .filter(|&tokens| tokens > 0)
            .ok_or_else(|| format!("expected a number of tokens, 1 or more, under {key:?}"))
    };
    let input_tokens = tokens("input_length")?;
    let output_tokens = tokens("output_length")?;
    let block_ids = match document.get("hash_ids") {
        None | Some(Value::Null) => Vec::new(),
        Some(ids) => block_ids(ids)?,
    };
    let blocks = input_tokens.div_ceil(TRACE_BLOCK_TOKENS) as usize;
    if block_ids.len() > blocks {
        return Err(format!(
            "{} hash_ids, but {input_tokens} tokens are {blocks} blocks of {TRACE_BLOCK_TOKENS}; \
             traces with other blocks are not known",
            block_ids.len()
        ));
    }
    Ok(TraceRequest {
        due_ms: due_ms(document)?,
        input_tokens,
        output_tokens,
        block_ids,
    })
}

/// Whole ms; a fraction is rounded.
fn due_ms(document: &Value) -> Result<u64, String> {
    let time = document.get("timestamp");
    let whole = time.and_then(Value::as_u64);
    let rounded = time
        .and_then(Value::as_f64)
        .filter(|ms| (0.0..=u32::MAX as f64 * 1e3).contains(ms))
        .map(|ms| ms.round() as u64);
    whole
        .or(rounded)
        .ok_or_else(|| "expected a time in ms, 0 or more, under \"timestamp\"".to_owned())
}

fn block_ids(ids: &Value) -> Result<Vec<u64>, String> {
    let ids = ids.as_array().map(|ids| ids.iter().map(Value::as_u64));
    ids.and_then(Iterator::collect)
        .ok_or_else(|| "expected a list of whole numbers, 0 or more, under \"hash_ids\"".to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use proptest::prelude::*;

    use super::super::told;
    use super::*;

    #[test]
    fn lines_are_put_in_order_of_time() {
        let text = r#"
            {"timestamp": 3000, "input_length": 513, "output_length": 2, "hash_ids": [0, 7]}
            {"timestamp": 1000.4, "input_length": 5, "output_length": 1}
        "#;
        let PromptSource::Trace { requests } = parse(text.as_bytes()).unwrap() else {
            unreachable!("a trace was read")
        };
        let short = TraceRequest {
            due_ms: 0,
            input_tokens: 5,
            output_tokens: 1,
            block_ids: vec![],
        };
        let long = TraceRequest {
            due_ms: 2000,
            input_tokens: 513,
            output_tokens: 2,
            block_ids: vec![0, 7],
        };
        assert_eq!(requests, [short, long]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let good = r#"{"timestamp": 0, "input_length": 5, "output_length": 1}"#;
        let cases = [
            (
                r#"{"input_length": 5, "output_length": 1}"#,
                "expected a time in ms, 0 or more, under \"timestamp\"",
            ),
            (
                r#"{"timestamp": -1, "input_length": 5, "output_length": 1}"#,
                "expected a time in ms, 0 or more, under \"timestamp\"",
            ),
            (
                r#"{"timestamp": 0, "input_length": 0, "output_length": 1}"#,
                "expected a number of tokens, 1 or more, under \"input_length\"",
            ),
            (
                r#"{"timestamp": 0, "input_length": 5, "output_length": "1"}"#,
                "expected a number of tokens, 1 or more, under \"output_length\"",
            ),
            (
                r#"{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [-1]}"#,
                "expected a list of whole numbers, 0 or more, under \"hash_ids\"",
            ),
            (
                r#"{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [1, 2, 3]}"#,
                "3 hash_ids, but 600 tokens are 2 blocks of 512; traces with other blocks are not known",
            ),
        ];
        for (line, expected) in cases {
            let text = format!("{good}\n{line}");
            assert_eq!(told(parse(text.as_bytes())), format!("line 2: {expected}"));
        }
        assert_eq!(told(parse(&b""[..])), "no request in it");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), time: f64, n: u64) {
            let _ = parse(bytes.as_slice());
            let line = serde_json::json!({"timestamp": time, "input_length": n, "output_length": n, "hash_ids": [n]});
            let _ = parse(line.to_string().as_bytes());
        }
    }
}
