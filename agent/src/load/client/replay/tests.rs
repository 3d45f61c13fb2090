//! That cuts change nothing from the head to the last event, and what ends an answer.

use contracts::sample::{ErrorClass, TokenSource};
use proptest::prelude::*;

use super::*;

const EVENTS: &str = concat!(
    ": ping\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"é\"}}]}\n\n",
    "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"日\\n\"}}]}\r\r",
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\n",
    "data: \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
    "data: [DONE]\n\n",
);

fn chunked(events: &str, chunk: usize) -> Vec<u8> {
    let mut wire = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n\
        content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        .to_vec();
    for piece in events.as_bytes().chunks(chunk) {
        wire.extend_from_slice(format!("{:x};ext\r\n", piece.len()).as_bytes());
        wire.extend_from_slice(piece);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"0\r\nx-trailer: 1\r\n\r\n");
    wire
}

/// What does not depend on when bytes came.
fn essence(sample: &Sample) -> Sample {
    Sample {
        headers_ns: None,
        first_event_ns: None,
        first_content_ns: None,
        last_content_ns: None,
        finish_ns: None,
        done_ns: None,
        event_times: None,
        wall_ms: None,
        ttft_ms: None,
        tpot_ms: None,
        ..sample.clone()
    }
}

#[test]
fn split_at_every_byte() {
    let wire = chunked(EVENTS, 11);
    let cuts: Vec<usize> = (0..wire.len()).collect();
    let sample = read_answer(&wire, &cuts);
    assert_eq!(sample.error, None);
    assert_eq!(sample.text.as_deref(), Some("é日\n"));
    assert_eq!(
        sample.output_tokens.zip(sample.token_source),
        Some((2, TokenSource::Usage))
    );
    assert_eq!(sample.bytes, EVENTS.len() as u64);
    assert_eq!((sample.done_seen, sample.unterminated), (true, false));
    assert_eq!(
        sample.done_ns,
        Some(wire.len() as u64 * 1_000_000),
        "the last byte ends it"
    );
    assert_eq!(essence(&sample), essence(&read_answer(&wire, &[])));
}

#[test]
fn a_long_line_is_read_and_a_longer_one_refused() {
    let event = |bytes: usize| {
        let text = "x".repeat(bytes);
        let event = format!(
            "data: {{\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"finish_reason\":\"stop\"}}]}}\n\n"
        );
        let wire = chunked(&event, 1 << 16);
        let cuts: Vec<usize> = (0..wire.len()).step_by(4000).collect();
        read_answer(&wire, &cuts)
    };
    let sample = event((16 << 20) - 100);
    assert_eq!(sample.error, None);
    assert_eq!(sample.text.map(|t| t.len()), Some((16 << 20) - 100));
    assert_eq!(
        event(16 << 20).error.map(|e| e.class),
        Some(ErrorClass::TooLarge)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However an answer is chunked and cut into reads, the same comes out.
    #[test]
    fn cuts_change_nothing(
        chunk in 1usize..200,
        cuts in proptest::collection::vec(0usize..2000, 0..30),
    ) {
        let wire = chunked(EVENTS, chunk);
        let whole = read_answer(&chunked(EVENTS, EVENTS.len()), &[]);
        prop_assert_eq!(whole.error.as_ref(), None);
        prop_assert_eq!(essence(&read_answer(&wire, &cuts)), essence(&whole));
    }

    /// Whatever the bytes are and wherever they end, an answer comes to something, and cut or not
    /// to the same.
    #[test]
    fn a_torn_or_bent_answer_is_read_alike(
        chunk in 1usize..50,
        end in 0usize..1200,
        bend in proptest::option::of((0usize..1200, any::<u8>())),
        cuts in proptest::collection::vec(0usize..1200, 0..10),
    ) {
        let mut wire = chunked(EVENTS, chunk);
        wire.truncate(end);
        if let Some((at, byte)) = bend
            && let Some(bent) = wire.get_mut(at)
        {
            *bent = byte;
        }
        let (mut whole, mut cut) = (read_answer(&wire, &[]), read_answer(&wire, &cuts));
        prop_assert_eq!(whole.error.is_some(), whole.output_tokens.is_none());
        // An answer that is refused midway has counted what its last read brought, or less.
        if whole.error.is_some() {
            (whole.bytes, cut.bytes) = (0, 0);
        }
        prop_assert_eq!(essence(&cut), essence(&whole));
    }
}
