//! Events from any bytes: never a panic, and the same events however the bytes are cut.

#![no_main]

use fuzz::load::sse::SseParser;
use libfuzzer_sys::fuzz_target;

type Events = Vec<(Vec<u8>, Vec<u8>)>;

fn events<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Events {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        let pushed = parser.push(piece, |event| {
            events.push((event.kind.to_vec(), event.data.to_vec()));
        });
        // Inputs are far smaller than the limit of an event.
        pushed.expect("an event within the limit");
    }
    events
}

fuzz_target!(|input: &[u8]| {
    let (cuts, bytes) = fuzz::cuts(input);
    let whole = events(std::iter::once(bytes));
    assert_eq!(events(bytes.chunks(1)), whole);
    let mut at = 0;
    let pieces = cuts.into_iter().chain([bytes.len()]).map(|end| {
        let end = end.clamp(at, bytes.len());
        let piece = &bytes[at..end];
        at = end;
        piece
    });
    assert_eq!(events(pieces), whole);
});
