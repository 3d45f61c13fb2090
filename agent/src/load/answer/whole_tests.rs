//! The definitions on answers that were not streamed.

use contracts::sample::{ErrorClass, Sample, TimingSource, TokenSource};

use super::Answer;

const DONE_NS: u64 = 200_000_000;

fn whole(body: &str) -> Sample {
    let mut answer = Answer::default();
    let end = answer.whole(DONE_NS, body.as_bytes());
    let mut sample = Sample {
        sent_ns: Some(0),
        done_ns: Some(DONE_NS),
        ..Sample::default()
    };
    answer.settle(&mut sample, end, None);
    sample
}

#[test]
fn whole_answers() {
    let body = r#"{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"length"}],"usage":{"completion_tokens":2},"metrics":{"throughput":1.0,"input_tokens":3,"output_tokens":2,"ttft_ms":20.0,"tpot_ms":5.0,"wall_ms":25.0}}"#;
    let sample = whole(body);
    assert_eq!(sample.error, None);
    assert_eq!((sample.ttft_ms, sample.tpot_ms), (Some(20.0), Some(5.0)));
    let tokens = sample.output_tokens.zip(sample.token_source);
    assert_eq!(tokens, Some((2, TokenSource::Usage)));
    assert_eq!(sample.timing_source, Some(TimingSource::Engine));
    assert_eq!(sample.wall_ms, Some(200.0));
    assert_eq!(sample.first_content_ns, None);
    let unmeasured = whole(&body.replace("20.0", "0.0").replace("5.0,", "0.0,"));
    assert_eq!(unmeasured.error, None);
    assert_eq!((unmeasured.ttft_ms, unmeasured.tpot_ms), (None, None));
    assert_eq!(unmeasured.timing_source, None);
}

#[test]
fn a_whole_answer_without_usage_is_no_sample_of_zero_tokens() {
    let sample = whole(r#"{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}"#);
    let error = sample.error.unwrap();
    assert_eq!(error.class, ErrorClass::BadJson);
    assert!(error.message.contains("`usage`"), "{}", error.message);
    assert_eq!(sample.output_tokens, None);
    for (body, class) in [
        ("{}", ErrorClass::BadJson),
        ("<html>", ErrorClass::BadJson),
        (r#"{"error":{"message":"m"}}"#, ErrorClass::StreamError),
        (
            r#"{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":0}}"#,
            ErrorClass::NoTokens,
        ),
    ] {
        assert_eq!(whole(body).error.map(|e| e.class), Some(class), "{body}");
    }
}
