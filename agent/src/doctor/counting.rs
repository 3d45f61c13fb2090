//! How a server's tokens can be counted, from what its answers carried. Pure.

use contracts::doctor::{Finding, Grade};
use contracts::sample::TokenSource;

use super::exchange::Reply;
use super::finding;
use super::stream::Stream;
use super::whole::{self, Whole};

/// Events and tokens may differ by this share and still be one for one: an end-of-sequence token
/// has no event, and characters of several tokens come in one.
const ONE_FOR_ONE_SHARE: f64 = 0.1;

/// What the counting follows from.
#[derive(Debug, Default)]
pub struct Evidence<'a> {
    /// The stream that asked for usage, if there was one.
    pub asked: Option<&'a Stream>,
    /// The same without asking.
    pub unasked: Option<&'a Stream>,
    /// The stream that asked for usage was refused, in these words.
    pub refused: Option<String>,
    /// A whole answer.
    pub whole: Option<&'a Whole>,
    /// Tokens that the streams could have at most.
    pub ceiling: u32,
}

/// How tokens will be counted, and what was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Counting {
    /// The source.
    pub source: TokenSource,
    /// Why, in one line.
    pub reason: String,
    /// Each content event says how many tokens there are so far.
    pub usage_per_event: bool,
    /// Mean, where it can be told.
    pub tokens_per_event: Option<f64>,
    /// `usage`, `stream_options`, `tokens_per_event`.
    pub findings: Vec<Finding>,
}

/// The words of a stream that was refused for its `stream_options`: refused with, taken without.
pub fn refused(with_options: &Reply, without: &Reply) -> Option<String> {
    let with_options = with_options.as_ref().ok()?;
    let without = without.as_ref().ok()?;
    let is_fine = |status: u16| (200..300).contains(&status);
    (!is_fine(with_options.head.status) && is_fine(without.head.status))
        .then(|| whole::refusal(with_options))
}

/// Judges the evidence.
pub fn judge(evidence: &Evidence<'_>) -> Counting {
    let stream = evidence.asked.or(evidence.unasked);
    let tokens_per_event = stream.and_then(|stream| tokens_per_event(stream, evidence.ceiling));
    let usage_per_event = stream.is_some_and(Stream::usage_per_event);
    let (source, reason) = source(evidence, stream, tokens_per_event);
    Counting {
        source,
        reason,
        usage_per_event,
        tokens_per_event,
        findings: vec![
            usage(evidence, stream),
            stream_options(evidence),
            events(stream, tokens_per_event, usage_per_event),
        ],
    }
}

fn source(
    evidence: &Evidence<'_>,
    stream: Option<&Stream>,
    tokens_per_event: Option<f64>,
) -> (TokenSource, String) {
    let Some(stream) = stream else {
        return match evidence.whole {
            Some(whole) if whole.counts.completion_tokens.is_some() => (
                TokenSource::Usage,
                "whole answers carry usage; there is no stream to count".to_owned(),
            ),
            _ => (
                TokenSource::Tokenizer,
                "no stream was had; give --tokenizer to count the text".to_owned(),
            ),
        };
    };
    if stream.usage.completion_tokens.is_some() {
        return (
            TokenSource::Usage,
            "the stream carries usage.completion_tokens".to_owned(),
        );
    }
    if stream.metrics_tokens.is_some() {
        return (
            TokenSource::Metrics,
            "no usage in the stream, but metrics.output_tokens".to_owned(),
        );
    }
    let whole = match evidence.whole {
        Some(whole) if whole.counts.completion_tokens.is_some() => {
            " (whole answers have it: --no-stream)"
        }
        _ => "",
    };
    match tokens_per_event {
        Some(ratio) if !one_for_one(ratio) => (
            TokenSource::Tokenizer,
            format!(
                "no usage in the stream{whole}, and {ratio:.1} tokens an event: give --tokenizer, or \
                 tokens are counted too low"
            ),
        ),
        Some(_) => (
            TokenSource::Events,
            format!("no usage in the stream{whole}; an event is a token"),
        ),
        None => (
            TokenSource::Events,
            format!(
                "no usage in the stream{whole}, and events of unknown size: give --tokenizer to be \
                 sure"
            ),
        ),
    }
}

fn usage(evidence: &Evidence<'_>, stream: Option<&Stream>) -> Finding {
    let whole_has = evidence
        .whole
        .is_some_and(|whole| whole.counts.completion_tokens.is_some());
    let Some(stream) = stream else {
        return match whole_has {
            true => finding("usage", Grade::Limits, "in whole answers"),
            false => finding("usage", Grade::Limits, "none"),
        };
    };
    let usage = &stream.usage;
    let (grade, seen) = if usage.after_done {
        (Grade::Odd, "after [DONE]; it counts")
    } else if stream.usage_per_event() {
        (Grade::Fine, "in each event")
    } else if usage.alone {
        (Grade::Fine, "in an event of its own at the end")
    } else if usage.with_finish {
        (Grade::Fine, "in the event with the finish_reason")
    } else if usage.completion_tokens.is_some() {
        (Grade::Odd, "in some events with words")
    } else if usage.null {
        (Grade::Limits, "null in the stream")
    } else if whole_has {
        (Grade::Limits, "in whole answers only, not in the stream")
    } else {
        (Grade::Limits, "none")
    };
    finding("usage", grade, seen)
}

fn stream_options(evidence: &Evidence<'_>) -> Finding {
    let has = |stream: Option<&Stream>| {
        stream.is_some_and(|stream| stream.usage.completion_tokens.is_some())
    };
    let (grade, seen) = match (&evidence.refused, evidence.asked) {
        (Some(words), _) => (
            Grade::Odd,
            format!("refused, and left out when asked again: {words}"),
        ),
        (None, None) => (Grade::Unknown, "no stream was had".to_owned()),
        (None, Some(_)) if has(evidence.asked) && has(evidence.unasked) => {
            (Grade::Fine, "accepted; usage comes unasked too".to_owned())
        }
        (None, Some(_)) if has(evidence.asked) => {
            (Grade::Fine, "accepted: usage when asked for".to_owned())
        }
        (None, Some(_)) => (Grade::Odd, "ignored: no usage though asked for".to_owned()),
    };
    finding("stream_options", grade, seen)
}

/// Tokens that one content event stands for, mean. Without a count, an answer that ended at its
/// ceiling has as many tokens: enough for a hint, and never a count of a measurement.
fn tokens_per_event(stream: &Stream, ceiling: u32) -> Option<f64> {
    let full = stream.finish.as_deref() == Some("length");
    let counted = stream.usage.completion_tokens.or(stream.metrics_tokens);
    let tokens = counted.or(full.then_some(ceiling))?;
    if stream.content_events == 0 || tokens == 0 {
        return None;
    }
    let events = f64::from(stream.content_events);
    // The end-of-sequence token is counted and has no event.
    let silent = stream.finish.as_deref() == Some("stop") && tokens == stream.content_events + 1;
    let tokens = f64::from(tokens) - f64::from(u8::from(silent));
    Some((tokens / events * 100.0).round() / 100.0)
}

fn one_for_one(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= ONE_FOR_ONE_SHARE
}

fn events(stream: Option<&Stream>, ratio: Option<f64>, per_event: bool) -> Finding {
    let (grade, seen) = match (stream, ratio) {
        (None, _) => (Grade::Unknown, "no stream was had".to_owned()),
        (Some(_), None) => (Grade::Unknown, "no count to compare with".to_owned()),
        (Some(_), Some(ratio)) if one_for_one(ratio) => (Grade::Fine, "one".to_owned()),
        (Some(_), Some(ratio)) if per_event => (
            Grade::Odd,
            format!("{ratio:.1}; usage in each event says how many"),
        ),
        (Some(_), Some(ratio)) if ratio < 1.0 => {
            (Grade::Odd, format!("{ratio:.1}: more events than tokens"))
        }
        (Some(_), Some(ratio)) => (
            Grade::Limits,
            format!(
                "{ratio:.1}: gaps are between events, and TPOT needs --tokenizer for the first event"
            ),
        ),
    };
    finding("tokens_per_event", grade, seen)
}

#[cfg(test)]
mod tests {
    use super::super::stream::{Stream, Usage};
    use super::super::whole::Counts;
    use super::*;

    fn stream(content_events: u32, tokens: Option<u32>) -> Stream {
        Stream {
            content_events,
            finish: Some("length".to_owned()),
            usage: Usage {
                completion_tokens: tokens,
                alone: tokens.is_some(),
                ..Usage::default()
            },
            ..Stream::default()
        }
    }

    fn whole(tokens: Option<u32>) -> Whole {
        Whole {
            counts: Counts {
                completion_tokens: tokens,
                ..Counts::default()
            },
            ..Whole::default()
        }
    }

    fn judged(asked: Option<&Stream>, whole: &Whole) -> Counting {
        judge(&Evidence {
            asked,
            whole: Some(whole),
            ceiling: 16,
            ..Evidence::default()
        })
    }

    fn grade(counting: &Counting, topic: &str) -> Option<Grade> {
        let mut findings = counting.findings.iter();
        findings.find(|f| f.topic == topic).map(|f| f.grade)
    }

    #[test]
    fn usage_comes_first() {
        let counting = judged(Some(&stream(16, Some(16))), &whole(None));
        assert_eq!(counting.source, TokenSource::Usage);
        assert_eq!(counting.tokens_per_event, Some(1.0));
        assert_eq!(grade(&counting, "stream_options"), Some(Grade::Fine));
        let four = judged(Some(&stream(4, Some(16))), &whole(None));
        assert_eq!(grade(&four, "tokens_per_event"), Some(Grade::Limits));
        let stop = Stream {
            finish: Some("stop".to_owned()),
            ..stream(2, Some(3))
        };
        assert_eq!(
            judged(Some(&stop), &whole(None)).tokens_per_event,
            Some(1.0)
        );
    }

    #[test]
    fn metrics_come_second_and_events_last() {
        let with_metrics = Stream {
            metrics_tokens: Some(16),
            ..stream(16, None)
        };
        let counting = judged(Some(&with_metrics), &whole(None));
        assert_eq!(counting.source, TokenSource::Metrics);
        let bare = judged(Some(&stream(16, None)), &whole(Some(3)));
        assert_eq!(bare.source, TokenSource::Events);
        assert!(
            bare.reason.contains("an event is a token"),
            "{}",
            bare.reason
        );
        assert!(bare.reason.contains("--no-stream"), "{}", bare.reason);
        let coarse = judged(Some(&stream(4, None)), &whole(None));
        assert_eq!(coarse.source, TokenSource::Tokenizer);
        assert!(
            coarse.reason.contains("4.0 tokens an event"),
            "{}",
            coarse.reason
        );
        let ended = Stream {
            finish: Some("stop".to_owned()),
            ..stream(4, None)
        };
        let unknown = judged(Some(&ended), &whole(None));
        assert_eq!(unknown.source, TokenSource::Events);
        assert!(unknown.reason.contains("--tokenizer"), "{}", unknown.reason);
        assert_eq!(grade(&bare, "usage"), Some(Grade::Limits));
        assert_eq!(grade(&bare, "stream_options"), Some(Grade::Odd));
    }

    #[test]
    fn without_a_stream_the_whole_answer_counts() {
        assert_eq!(judged(None, &whole(Some(3))).source, TokenSource::Usage);
        assert_eq!(judged(None, &whole(None)).source, TokenSource::Tokenizer);
    }
}
