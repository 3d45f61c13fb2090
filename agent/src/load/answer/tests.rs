//! The definitions against odd streams: each row is a stream as a real server sends it, with the
//! figures that must come out. Nothing here needs a socket: `at` stands for the read's stamp.

use contracts::sample::{ErrorClass, Sample, TimingSource, TokenSource};

use super::super::sse::SseParser;
use super::*;

const MS: u64 = 1_000_000;

/// Plays segments (ms since sent, bytes) and gives the sample.
fn play(segments: &[(u64, &[u8])], counter: Option<&TokenCounter>) -> Sample {
    let mut parser = SseParser::default();
    let mut answer = Answer::default();
    answer.begin_stream();
    let mut end = Ok(());
    for (at_ms, bytes) in segments {
        let pushed = parser.push(bytes, |event| {
            if end.is_ok() {
                end = answer.event(at_ms * MS, event);
            }
        });
        assert_eq!(pushed, Ok(()));
    }
    let mut sample = Sample {
        sent_ns: Some(0),
        done_ns: segments.last().map(|(at_ms, _)| at_ms * MS),
        ..Sample::default()
    };
    answer.settle(&mut sample, end, counter);
    sample
}

fn chat(content: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{content}}}}}]}}\n\n")
}

fn counted(content: &str, tokens: u32) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{content}}}}}],\
         \"usage\":{{\"completion_tokens\":{tokens}}}}}\n\n"
    )
}

fn finish(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":{reason}}}]}}\n\n")
}

fn usage(tokens: u32) -> String {
    format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":{tokens}}}}}\n\n"
    )
}

const DONE: &str = "data: [DONE]\n\n";

/// What a row expects.
#[derive(Debug, PartialEq)]
struct Want {
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    tokens: Option<(u32, TokenSource)>,
    error: Option<ErrorClass>,
}

fn got(sample: &Sample) -> Want {
    Want {
        ttft_ms: sample.ttft_ms,
        tpot_ms: sample.tpot_ms,
        tokens: sample.output_tokens.zip(sample.token_source),
        error: sample.error.as_ref().map(|e| e.class),
    }
}

fn ok(ttft_ms: impl Into<Option<f64>>, tpot_ms: impl Into<Option<f64>>, n: u32) -> Want {
    Want {
        ttft_ms: ttft_ms.into(),
        tpot_ms: tpot_ms.into(),
        tokens: Some((n, TokenSource::Usage)),
        error: None,
    }
}

fn by_events(ttft_ms: f64, tpot_ms: f64, n: u32) -> Want {
    Want {
        tokens: Some((n, TokenSource::Events)),
        ..ok(ttft_ms, tpot_ms, n)
    }
}

fn fails(class: ErrorClass) -> Want {
    Want {
        ttft_ms: None,
        tpot_ms: None,
        tokens: None,
        error: Some(class),
    }
}

fn check(name: &str, segments: &[(u64, String)], text: Option<&str>, want: &Want) {
    let segments: Vec<(u64, &[u8])> = segments.iter().map(|(t, s)| (*t, s.as_bytes())).collect();
    let sample = play(&segments, None);
    assert_eq!(got(&sample), *want, "{name}: {:?}", sample.error);
    if text.is_some() {
        assert_eq!(sample.text.as_deref(), text, "{name}");
    }
}

/// Three tokens at 100, 110, 120 ms, with the rest of a usual stream.
fn usual() -> Vec<(u64, String)> {
    vec![
        (100, chat("\"a\"")),
        (110, chat("\"b\"")),
        (120, chat("\"c\"")),
        (125, finish("\"stop\"")),
        (126, usage(3)),
        (126, DONE.into()),
    ]
}

fn usual_with(change: impl Fn(&str) -> String) -> Vec<(u64, String)> {
    usual().iter().map(|(t, s)| (*t, change(s))).collect()
}

#[test]
fn shapes_that_change_nothing() {
    let usual_figures = ok(100.0, 10.0, 3);
    let same = |name: &str, segments: &[(u64, String)]| {
        check(name, segments, Some("abc"), &usual_figures);
    };
    same("normal", &usual());
    same("CRLF", &usual_with(|s| s.replace('\n', "\r\n")));
    same("CR", &usual_with(|s| s.replace('\n', "\r")));
    same("no blank", &usual_with(|s| s.replace("data: ", "data:")));
    for role in [
        r#"{"role":"assistant","content":""}"#,
        r#"{"role":"assistant","content":null}"#,
    ] {
        let mut with_role = usual();
        let event = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{role}}}]}}\n\n");
        with_role.insert(0, (1, event));
        same("role chunk first", &with_role);
    }
    let mut comments = usual();
    for at in [3, 1, 0] {
        comments.insert(at, (comments[at].0, ": keep-alive\n\n".into()));
    }
    same("comments in segments of their own", &comments);
    let mut without_done = usual();
    without_done.pop();
    same("no [DONE] but a finish_reason", &without_done);
    let mut late_usage = usual();
    late_usage.swap(4, 5);
    same("usage after [DONE]", &late_usage);
    let null_usage = usual_with(|s| s.replace("]}\n", "],\"usage\":null}\n"));
    same("usage null until the end", &null_usage);
    let mut empty = usual();
    empty.insert(1, (105, "data:\n\n".into()));
    empty.insert(1, (105, chat("null")));
    same("empty data and null content between", &empty);
}

#[test]
fn split_at_every_byte() {
    let mut whole: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, segment) in usual_with(|s| s.replace("\"a\"", "\"é日\"")) {
        whole.extend(segment.bytes().map(|b| (at, vec![b])));
    }
    let segments: Vec<(u64, &[u8])> = whole.iter().map(|(t, s)| (*t, s.as_slice())).collect();
    let sample = play(&segments, None);
    assert_eq!(got(&sample), ok(100.0, 10.0, 3));
    assert_eq!(sample.text.as_deref(), Some("é日bc"));
}

#[test]
fn other_content_is_content() {
    let mut reasoning = usual();
    let thought = chat("null").replace("\"content\":null", "\"reasoning_content\":\"hm\"");
    reasoning.insert(0, (80, thought.clone()));
    let want = ok(80.0, 20.0, 3);
    check("reasoning_content first", &reasoning, Some("abc"), &want);
    reasoning[0].1 = thought.replace("reasoning_content", "reasoning");
    check("reasoning first", &reasoning, Some("abc"), &want);
    let call = r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}"#;
    let mut tools = usual();
    tools[0].1 = chat("null").replace(r#"{"content":null}"#, call);
    check("tool call", &tools, Some("bc"), &ok(100.0, 10.0, 3));
    tools[0].1 = tools[0].1.replace("\"f\"", "\"\"");
    check("empty tool call", &tools, Some("bc"), &ok(110.0, 5.0, 3));
    // What is not in the text cannot be counted in it.
    let counter: TokenCounter = Arc::new(|text: &str| text.len() as u32);
    let local = |events: &[(u64, String)]| {
        let segments: Vec<(u64, &[u8])> = events.iter().map(|(t, s)| (*t, s.as_bytes())).collect();
        play(&segments, Some(&counter)).local_tokens
    };
    assert_eq!(local(&tools), Some(2));
    tools[0].1 = chat("null").replace(r#"{"content":null}"#, call);
    assert_eq!(local(&tools), None);
    let plain = usual_with(|s| {
        s.replace("\"delta\":{\"content\":", "\"text\":")
            .replace("\"}}]", "\"}]")
            .replace("\"delta\":{}", "\"text\":\"\"")
    });
    check("completions", &plain, Some("abc"), &ok(100.0, 10.0, 3));
}

#[test]
fn several_tokens_an_event() {
    // Eight tokens, four an event, ten ms each: the first event holds four.
    let stream = vec![
        (100, counted("\"abcd\"", 4)),
        (140, counted("\"efgh\"", 8)),
        (140, finish("\"length\"")),
        (140, DONE.into()),
    ];
    check("usage per event", &stream, None, &ok(100.0, 10.0, 8));
    let blind = vec![
        (100, chat("\"abcd\"")),
        (140, chat("\"efgh\"")),
        (140, finish("\"length\"")),
        (140, usage(8)),
    ];
    check(
        "usage at the end only",
        &blind,
        None,
        &ok(100.0, 40.0 / 7.0, 8),
    );
    let counter: TokenCounter = Arc::new(|text: &str| text.len() as u32);
    let segments: Vec<(u64, &[u8])> = blind.iter().map(|(t, s)| (*t, s.as_bytes())).collect();
    let sample = play(&segments, Some(&counter));
    assert_eq!(got(&sample), ok(100.0, 10.0, 8));
    assert_eq!(sample.local_tokens, Some(8));
    assert_eq!(sample.first_event_tokens, Some(4));
}

#[test]
fn a_whole_answer_at_once_has_no_ttft() {
    let one_event = |n| {
        vec![
            (300, chat("\"abc\"")),
            (300, finish("\"stop\"")),
            (300, usage(n)),
        ]
    };
    check("one event", &one_event(3), Some("abc"), &ok(None, None, 3));
    check("one token", &one_event(1), Some("abc"), &ok(300.0, None, 1));
    let one_read = vec![(
        300,
        usual().iter().map(|(_, s)| s.as_str()).collect::<String>(),
    )];
    check("one segment", &one_read, Some("abc"), &ok(300.0, None, 3));
}

#[test]
fn an_answer_that_is_only_eos_is_valid() {
    let stream = vec![(50, finish("\"stop\"")), (50, usage(1)), (50, DONE.into())];
    check("EOS only", &stream, Some(""), &ok(None, None, 1));
}

#[test]
fn counts_by_source() {
    let without_usage: Vec<_> = usual()
        .into_iter()
        .filter(|(_, s)| !s.contains("usage"))
        .collect();
    check("no usage", &without_usage, None, &by_events(100.0, 10.0, 3));
    let segments: Vec<(u64, &[u8])> = without_usage
        .iter()
        .map(|(t, s)| (*t, s.as_bytes()))
        .collect();
    let counter: TokenCounter = Arc::new(|text: &str| 2 * text.len() as u32);
    let sample = play(&segments, Some(&counter));
    let tokens = sample.output_tokens.zip(sample.token_source);
    assert_eq!(tokens, Some((6, TokenSource::Tokenizer)));
    let metrics = r#"data: {"choices":[],"metrics":{"throughput":1.0,"input_tokens":2,"output_tokens":4,"wall_ms":90.5,"extras":{"firm_steps":3.0,"queue_ms":40.0}},"token_ids":[1,2],"prompt_token_ids":[258]}"#;
    let mut by_metrics = without_usage;
    by_metrics.push((126, format!("{metrics}\n\n")));
    let segments: Vec<(u64, &[u8])> = by_metrics.iter().map(|(t, s)| (*t, s.as_bytes())).collect();
    let sample = play(&segments, Some(&counter));
    let tokens = sample.output_tokens.zip(sample.token_source);
    assert_eq!(tokens, Some((4, TokenSource::Metrics)));
    assert_eq!(sample.timing_source, Some(TimingSource::Client));
    assert_eq!(sample.engine_wall_ms, Some(90.5));
    assert_eq!(sample.engine_queue_ms, Some(40.0));
    assert_eq!((sample.firm_steps, sample.input_tokens), (Some(3), Some(2)));
    assert_eq!(sample.output_ids, Some(vec![1, 2]));
    // sha256 of the bytes 02 01 00 00.
    assert_eq!(sample.input_ids_sha256, Some(sha256_of_ids(&[258])));
    assert_ne!(sample.input_ids_sha256, Some(sha256_of_ids(&[513])));
}

#[test]
fn another_servers_metrics_are_not_ours_to_judge() {
    let mut stream = usual();
    stream.push((
        126,
        "data: {\"choices\":[],\"metrics\":{\"foo\":[]}}\n\n".into(),
    ));
    check("foreign metrics", &stream, Some("abc"), &ok(100.0, 10.0, 3));
}

#[test]
fn failures_by_class() {
    let after_three = |last: &str| {
        let mut stream = usual();
        stream.truncate(3);
        stream.push((121, last.into()));
        stream
    };
    let rows = [
        (
            "error object",
            after_three("data: {\"error\":{\"message\":\"out of memory\"}}\n\n"),
            ErrorClass::StreamError,
        ),
        (
            "error word",
            after_three("data: {\"error\":\"oom\"}\n\n"),
            ErrorClass::StreamError,
        ),
        (
            "error event",
            after_three("event: error\ndata: oom\n\n"),
            ErrorClass::StreamError,
        ),
        (
            "old error object",
            after_three("data: {\"object\":\"error\",\"message\":\"m\"}\n\n"),
            ErrorClass::StreamError,
        ),
        (
            "aborted",
            after_three(&finish("\"abort\"")),
            ErrorClass::StreamError,
        ),
        ("closed early", after_three(""), ErrorClass::Truncated),
        (
            "unterminated finish",
            after_three(finish("\"stop\"").trim_end()),
            ErrorClass::Truncated,
        ),
        (
            "bad JSON",
            after_three("data: {\"choices\":\n\n"),
            ErrorClass::BadJson,
        ),
        (
            "nothing at all",
            vec![(1, String::new())],
            ErrorClass::Truncated,
        ),
        ("only [DONE]", vec![(1, DONE.into())], ErrorClass::NoTokens),
        (
            "usage 0",
            vec![(1, finish("\"stop\"")), (1, usage(0))],
            ErrorClass::NoTokens,
        ),
        (
            "nothing to count",
            vec![(1, finish("\"stop\"")), (1, DONE.into())],
            ErrorClass::NoTokens,
        ),
    ];
    for (name, stream, class) in rows {
        check(name, &stream, None, &fails(class));
    }
    let sample = play(&[(1, b"data: {\"choices\":\"\xff\"}\n\n")], None);
    assert_eq!(got(&sample), fails(ErrorClass::BadJson));
}

#[test]
fn a_failed_stream_keeps_what_was_seen() {
    let mut stream = usual();
    stream.truncate(3);
    let segments: Vec<(u64, &[u8])> = stream.iter().map(|(t, s)| (*t, s.as_bytes())).collect();
    let sample = play(&segments, None);
    assert_eq!(sample.text.as_deref(), Some("abc"));
    assert_eq!(sample.first_content_ns, Some(100 * MS));
    assert_eq!(sample.last_content_ns, Some(120 * MS));
    let times = event_times::decode(&sample.event_times.unwrap());
    assert_eq!(times.unwrap(), [100_000, 110_000, 120_000]);
}
