//! A sample from any bytes that a server may answer: never a panic, always an outcome, and the same
//! one however the bytes are cut.

#![no_main]

use fuzz::load::client::replay::read_answer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (cuts, bytes) = fuzz::cuts(input);
    let (whole, cut) = (read_answer(bytes, &[]), read_answer(bytes, &cuts));
    assert_eq!(whole.error.is_some(), whole.output_tokens.is_none());
    // Gzip is decoded in steps, so that a broken one gives up what is decoded by then.
    let is_gzip = bytes.windows(4).any(|w| w.eq_ignore_ascii_case(b"gzip"));
    if !is_gzip {
        assert_eq!(whole.text, cut.text);
        assert_eq!(whole.error, cut.error);
        assert_eq!(whole.output_tokens, cut.output_tokens);
        assert_eq!(whole.unterminated, cut.unterminated);
    }
});
