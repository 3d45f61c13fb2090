//! The parser against the odd and the ill-meaning, and that cuts change nothing.

use proptest::prelude::*;

use super::*;

fn events_of(pieces: &[&[u8]]) -> Vec<(String, String)> {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser
            .push(piece, |event| {
                events.push((
                    String::from_utf8_lossy(event.kind).into_owned(),
                    String::from_utf8_lossy(event.data).into_owned(),
                ));
            })
            .unwrap();
    }
    events
}

fn data_of(stream: &str) -> Vec<String> {
    let events = events_of(&[stream.as_bytes()]);
    events.into_iter().map(|(_, data)| data).collect()
}

#[test]
fn each_line_end_ends_a_line() {
    for stream in [
        "data: a\n\ndata: b\n\n",
        "data: a\r\n\r\ndata: b\r\n\r\n",
        "data: a\r\rdata: b\r\r",
        "data: a\r\n\ndata: b\n\r",
        "data: a\n\r\ndata: b\r\n\n",
        "data: a\r\r\ndata: b\r\r",
    ] {
        assert_eq!(data_of(stream), ["a", "b"], "{stream:?}");
    }
}

#[test]
fn one_blank_after_the_colon_is_dropped_and_no_more() {
    assert_eq!(
        data_of("data:a\n\ndata: b\n\ndata:  c\n\n"),
        ["a", "b", " c"]
    );
}

#[test]
fn a_line_end_is_found_wherever_it_is() {
    for at in 0..100 {
        let mut bytes = vec![b'x'; 100];
        assert_eq!(line_end(&bytes), None);
        bytes[at] = b'\r';
        assert_eq!(line_end(&bytes), Some(at));
    }
    let long = "y".repeat(1000);
    assert_eq!(data_of(&format!("data: {long}\n\n")), [long]);
}

#[test]
fn several_data_lines_are_joined() {
    assert_eq!(
        data_of("data: a\ndata:\ndata: b\n\ndata\n\n"),
        ["a\n\nb", ""]
    );
}

#[test]
fn comments_and_unknown_fields_are_no_events() {
    assert_eq!(
        data_of(": ping\n\nid: 7\nretry: 10\n\n:\nfoo: x\ndata: a\n: ping\n\n"),
        ["a"]
    );
}

#[test]
fn the_kind_belongs_to_one_event() {
    assert_eq!(
        events_of(&[b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"]),
        [
            ("error".into(), "a".into()),
            (String::new(), "b".into()),
            (String::new(), "c".into())
        ]
    );
}

#[test]
fn a_byte_order_mark_is_dropped_at_the_start_only() {
    assert_eq!(
        data_of("\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n"),
        ["a", "c"]
    );
}

#[test]
fn an_unterminated_event_is_dropped() {
    assert_eq!(data_of("data: a\n\ndata: b\n"), ["a"]);
}

#[test]
fn an_endless_line_is_refused() {
    let mut parser = SseParser::default();
    let piece = vec![b'x'; 1 << 20];
    let mut result = Ok(());
    for _ in 0..17 {
        result = result.and_then(|()| parser.push(&piece, |_| ()));
    }
    assert_eq!(result, Err(EventTooLarge));
}

proptest! {
    /// However the bytes are cut, the same events come out.
    #[test]
    fn cuts_change_nothing(
        parts in proptest::collection::vec(
            prop::sample::select(vec![
                "data", "event", "id", ":", " ", "\n", "\r", "\r\n", "\n\n", "data: é\n\n",
                "\u{feff}", "x", "日本", ": c\n",
            ]),
            0..40,
        ),
        cuts in proptest::collection::vec(0usize..200, 0..20),
    ) {
        let stream = parts.concat().into_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|c| *c.min(&stream.len())).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        let pieces: Vec<&[u8]> = at.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        let whole = events_of(&[&stream]);
        prop_assert_eq!(&events_of(&pieces), &whole);
        prop_assert_eq!(&events_of(&bytes), &whole);
    }
}
