//! What a stream looks like on the wire, judged: its head, its lines, its events, its end. Pure.

use contracts::doctor::{Finding, Grade};

use super::exchange::{Answer, End};
use super::finding;
use super::stream::{Role, Stream};
use super::whole::excerpt;
use crate::load::framing::Framing;

/// All of it. `stream` is what [`super::stream::read`] makes of the answer's body.
pub fn judge(answer: &Answer, stream: &Stream) -> Vec<Finding> {
    vec![
        whole_stream(answer, stream),
        content_type(answer),
        framing(answer),
        line_ends(stream),
        comments(stream),
        role_chunk(stream),
        reasoning(stream),
        finish(stream),
        done(stream),
    ]
}

/// Whether a stream was asked for and a document came.
pub fn is_document(answer: &Answer) -> bool {
    answer.body.trim_ascii_start().starts_with(b"{")
}

fn whole_stream(answer: &Answer, stream: &Stream) -> Finding {
    let broken = |seen: String| finding("stream", Grade::Broken, seen);
    let after = match stream.content_events {
        1 => "after 1 event with words".to_owned(),
        n => format!("after {n} events with words"),
    };
    if let Some(error) = &stream.error {
        return broken(format!(
            "an error object inside the stream {after}: {error}"
        ));
    }
    if let Some(event) = &stream.bad_event {
        return broken(format!("an event that is no JSON object: {event}"));
    }
    let over = stream.finish.is_some() || stream.done;
    match answer.end {
        End::Silent => return broken(format!("falls silent {after}")),
        End::TooLong => return broken("does not end".to_owned()),
        End::BadChunks => return broken(format!("chunks that cannot be read, {after}")),
        End::Early | End::Whole | End::Unterminated if !over => {
            return broken(format!(
                "ends {after} with neither finish_reason nor [DONE]"
            ));
        }
        End::Early | End::Whole | End::Unterminated => {}
    }
    match stream.content_events {
        0 => finding(
            "stream",
            Grade::Unknown,
            "an empty answer, by its own account",
        ),
        1 => finding(
            "stream",
            Grade::Limits,
            "the whole answer in one event: no TTFT and no TPOT",
        ),
        n => finding(
            "stream",
            Grade::Fine,
            format!("{n} events with words of {}", stream.events),
        ),
    }
}

fn content_type(answer: &Answer) -> Finding {
    let said = answer.head.header("content-type");
    let kind = said.split(';').next().unwrap_or_default().trim();
    let (grade, seen) = match kind.to_ascii_lowercase().as_str() {
        "text/event-stream" => (Grade::Fine, kind.to_owned()),
        "" => (Grade::Odd, "none".to_owned()),
        "text/plain" | "application/octet-stream" => (Grade::Odd, kind.to_owned()),
        _ => (
            Grade::Broken,
            format!("{}, which is none of this API", excerpt(said)),
        ),
    };
    finding("content_type", grade, seen)
}

fn framing(answer: &Answer) -> Finding {
    let odd = |seen: &str| finding("framing", Grade::Odd, seen);
    match (answer.head.framing(), answer.end) {
        (Framing::Length(_), _) => finding(
            "framing",
            Grade::Limits,
            "a content-length: the answer was whole before its first byte was sent",
        ),
        (Framing::Close, _) => odd("the end of the connection ends an answer"),
        (Framing::Chunked(_), End::Whole) => finding("framing", Grade::Fine, "chunked"),
        (Framing::Chunked(_), End::Unterminated) => {
            odd("chunked, and never ended: after [DONE] nothing more comes")
        }
        (Framing::Chunked(_), _) => odd("chunked, and broken off before the last chunk"),
    }
}

fn line_ends(stream: &Stream) -> Finding {
    let lines = stream.lines;
    let kinds = [("LF", lines.lf), ("CRLF", lines.crlf), ("CR", lines.cr)];
    let kinds: Vec<&str> = kinds
        .into_iter()
        .filter_map(|(name, count)| (count > 0).then_some(name))
        .collect();
    let mut seen = vec![match kinds.as_slice() {
        [] => "none".to_owned(),
        kinds => kinds.join(" and "),
    }];
    let mut grade = match kinds.as_slice() {
        ["LF"] => Grade::Fine,
        [] => Grade::Unknown,
        _ => Grade::Odd,
    };
    for (is_so, words) in [
        (lines.data_tight > 0, "no blank after `data:`"),
        (lines.mark, "a byte order mark at the start"),
        (stream.cut_off, "the last event is cut off"),
    ] {
        if is_so {
            seen.push(words.to_owned());
            grade = Grade::Odd;
        }
    }
    finding("line_ends", grade, seen.join(", "))
}

fn comments(stream: &Stream) -> Finding {
    let lines = stream.lines;
    let kinds = [
        ("comment lines", lines.comments),
        ("`event:` lines", lines.event),
        ("`id:` or `retry:` lines", lines.id),
    ];
    let seen: Vec<String> = kinds
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if seen.is_empty() {
        return finding("comments", Grade::Fine, "none");
    }
    finding("comments", Grade::Odd, seen.join(", "))
}

fn role_chunk(stream: &Stream) -> Finding {
    let (grade, seen) = match stream.role {
        None => (Grade::Fine, "none: the first event has words"),
        Some(Role::Empty) => (
            Grade::Fine,
            "an event with empty content first; it is no token",
        ),
        Some(Role::Bare) => (
            Grade::Fine,
            "an event without content first; it is no token",
        ),
        Some(Role::Null) => (
            Grade::Odd,
            "an event with content null first; it is no token",
        ),
    };
    finding("role_chunk", grade, seen)
}

fn reasoning(stream: &Stream) -> Finding {
    match stream.reasoning {
        None => finding("reasoning", Grade::Fine, "none"),
        Some(field) => finding(
            "reasoning",
            Grade::Odd,
            format!("in `{field}`; it counts as content, so TTFT is that of its first token"),
        ),
    }
}

fn finish(stream: &Stream) -> Finding {
    let (grade, seen) = match stream.finish.as_deref() {
        Some(word @ ("stop" | "length")) => (Grade::Fine, word.to_owned()),
        Some(word) => (Grade::Odd, word.to_owned()),
        None if stream.done => (Grade::Odd, "none, but [DONE]".to_owned()),
        None => (Grade::Broken, "none".to_owned()),
    };
    finding("finish", grade, seen)
}

fn done(stream: &Stream) -> Finding {
    let (grade, seen) = match (stream.done, stream.finish.is_some()) {
        (true, _) => (Grade::Fine, "[DONE] ends the stream"),
        (false, true) => (Grade::Odd, "no [DONE]; the finish_reason ends the stream"),
        (false, false) => (Grade::Broken, "no [DONE]"),
    };
    finding("done", grade, seen)
}

#[cfg(test)]
mod tests {
    use super::super::head::Head;
    use super::super::stream;
    use super::*;

    fn grades(head: &[(&str, &str)], body: &str, end: End) -> Vec<(String, Grade)> {
        let headers = head.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let answer = Answer {
            head: Head {
                old: false,
                status: 200,
                headers: headers.collect(),
            },
            body: body.as_bytes().to_vec(),
            end,
        };
        let findings = judge(&answer, &stream::read(&answer.body));
        findings.into_iter().map(|f| (f.topic, f.grade)).collect()
    }

    fn grade(of: &[(String, Grade)], topic: &str) -> Option<Grade> {
        of.iter()
            .find(|(name, _)| name == topic)
            .map(|(_, grade)| *grade)
    }

    const SSE: [(&str, &str); 2] = [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("transfer-encoding", "chunked"),
    ];
    const TWO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\
        data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n\
        data: [DONE]\n\n";

    #[test]
    fn a_usual_stream_is_fine_in_all() {
        let all = grades(&SSE, TWO, End::Whole);
        assert!(
            all.iter().all(|(_, grade)| *grade == Grade::Fine),
            "{all:?}"
        );
    }

    #[test]
    fn what_cannot_be_measured_is_broken() {
        let cut = TWO.split("\"finish").next().unwrap_or_default();
        let error = "data: {\"error\":{\"message\":\"no\"}}\n\n";
        for (body, end) in [
            (cut, End::Early),
            (cut, End::Silent),
            (error, End::Whole),
            ("<html>", End::Whole),
            ("data: nonsense\n\n", End::Whole),
        ] {
            let all = grades(&SSE, body, end);
            assert_eq!(grade(&all, "stream"), Some(Grade::Broken), "{body}");
        }
        let html = [("content-type", "text/html")];
        let all = grades(&html, TWO, End::Whole);
        assert_eq!(grade(&all, "content_type"), Some(Grade::Broken));
        assert_eq!(grade(&all, "framing"), Some(Grade::Odd));
    }

    #[test]
    fn what_is_handled_is_odd() {
        let odd = TWO.replace('\n', "\r\n").replace("data: [DONE]", ": x");
        let all = grades(&SSE, &odd, End::Early);
        for topic in ["line_ends", "comments", "done", "framing"] {
            assert_eq!(grade(&all, topic), Some(Grade::Odd), "{topic}");
        }
        for topic in ["stream", "finish"] {
            assert_eq!(grade(&all, topic), Some(Grade::Fine), "{topic}");
        }
    }
}
