//! The conformance suite: streams as real servers send them, played by a scripted server, and what
//! must come out of each: which event gave the TTFT, how many gaps there are, n and its source, the
//! text, the outcome. `docs/streams.md` has the table of it.
//!
//! Each part of a stream is written on its own, a pause apart, and the server logs when. A stamp is
//! right if it lies between the write of its part and the next one: no figure is taken on trust.

use std::time::Duration;

use agent::load::event_times;
use contracts::sample::{Sample, TokenSource};

use crate::asking::asker;
use crate::support::{self, Script, Step, chunked};

/// Between two parts: far above what a busy machine takes to read one.
pub const PAUSE: Duration = Duration::from_millis(120);

pub const ROLE: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
pub const FINISH: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub const DONE: &str = "data: [DONE]\n\n";

pub fn token(text: &str) -> String {
    delta(&format!("{{\"content\":\"{text}\"}}"))
}

fn delta(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

fn usage(tokens: u32) -> String {
    format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{tokens}}}}}\n\n"
    )
}

/// An event with `text` and the count of tokens so far.
fn counted(text: &str, tokens: u32) -> String {
    token(text).replace(
        "}]}\n",
        &format!("}}],\"usage\":{{\"completion_tokens\":{tokens}}}}}\n"),
    )
}

/// A stream and what must come out.
struct Case {
    name: &'static str,
    /// Parts of the body, each a list of writes that are made at once.
    parts: Vec<Vec<Vec<u8>>>,
    /// Which part completes each content event.
    content: Vec<usize>,
    n: (u32, TokenSource),
    /// Tokens of the first content event, where they are known.
    first: u32,
    text: String,
    done_seen: bool,
    /// How the stream ends.
    last: Vec<Step>,
}

/// Parts that are each one write of one chunk; content in `content`, n by usage, text "abc".
fn case(name: &'static str, parts: &[&str], content: &[usize], n: u32) -> Case {
    Case {
        name,
        parts: parts
            .iter()
            .map(|part| vec![chunked(part).into_bytes()])
            .collect(),
        content: content.to_vec(),
        n: (n, TokenSource::Usage),
        first: 1,
        text: "abc".into(),
        done_seen: true,
        last: vec![Step::Send(b"0\r\n\r\n".to_vec())],
    }
}

impl Case {
    fn text(mut self, text: &str) -> Self {
        self.text = text.to_owned();
        self
    }

    fn by_events(mut self) -> Self {
        self.n.1 = TokenSource::Events;
        self
    }

    fn first(mut self, tokens: u32) -> Self {
        self.first = tokens;
        self
    }

    async fn check(self) {
        let (name, content) = (self.name, self.content.clone());
        // The write that begins each part; the head is the write before them all.
        let mut begins = vec![1];
        let mut script = Script::bytes(support::stream_head().into_bytes());
        for writes in &self.parts {
            script = script.then(Step::Wait(PAUSE));
            begins.push(begins[begins.len() - 1] + writes.len());
            for write in writes {
                script = script.then(Step::Send(write.clone()));
            }
        }
        script = script.then(Step::Wait(PAUSE));
        for step in &self.last {
            script = script.then(step.clone());
        }
        let (server, mut asker) = asker(move |_| script.clone()).await;
        let sample = asker.ask().await;
        assert_eq!(sample.error, None, "{name}");
        let writes = server.writes();
        let within = |what: &str, at_ns: u64, part: usize| {
            let (from, to) = (begins[part], begins[part + 1]);
            let to_ns = writes.get(to).copied().unwrap_or(u64::MAX);
            let is_within = writes[from] <= at_ns && at_ns <= to_ns;
            assert!(
                is_within,
                "{name}: {what} at {at_ns}, part {part} of {writes:?}"
            );
        };
        let (first_ns, last_ns) = (sample.first_content_ns, sample.last_content_ns);
        assert_eq!(first_ns.is_some(), !content.is_empty(), "{name}");
        if let (Some(first_ns), Some(last_ns)) = (first_ns, last_ns) {
            within("first content", first_ns, content[0]);
            within("last content", last_ns, content[content.len() - 1]);
            let sent_ns = sample.sent_ns.unwrap();
            assert!(sent_ns <= writes[0], "{name}");
            let times = event_times::decode(sample.event_times.as_ref().unwrap()).unwrap();
            assert_eq!(times.len(), content.len(), "{name}");
            for (at_us, part) in times.iter().zip(&content) {
                // Stored by the µs.
                within("an event", sent_ns + at_us * 1000 + 500, *part);
            }
            self.check_figures(&sample, first_ns, last_ns);
        } else {
            assert_eq!((sample.ttft_ms, sample.tpot_ms), (None, None), "{name}");
        }
        assert_eq!(
            sample.output_tokens.zip(sample.token_source),
            Some(self.n),
            "{name}"
        );
        let text = sample.text.unwrap_or_default();
        assert!(text == self.text, "{name}: {} bytes of text", text.len());
        assert_eq!(sample.done_seen, self.done_seen, "{name}");
        assert!(!sample.unterminated, "{name}");
    }

    fn check_figures(&self, sample: &Sample, first_ns: u64, last_ns: u64) {
        let ms = |from: u64, to: u64| (to - from) as f64 / 1e6;
        let (name, n) = (self.name, self.n.0);
        let one_event = self.content.len() == 1 && n > 1;
        let ttft_ms = ms(sample.sent_ns.unwrap(), first_ns);
        assert_eq!(
            sample.ttft_ms,
            Some(ttft_ms).filter(|_| !one_event),
            "{name}"
        );
        let tpot_ms = (last_ns > first_ns && n > self.first)
            .then(|| ms(first_ns, last_ns) / f64::from(n - self.first));
        assert_eq!(sample.tpot_ms, tpot_ms, "{name}");
    }
}

fn shapes() -> Vec<Case> {
    let [a, b, c] = ["a", "b", "c"].map(token);
    let (a, b, c) = (a.as_str(), b.as_str(), c.as_str());
    let end = FINISH.to_owned() + &usage(3) + DONE;
    let usual = [a, b, c, &end];
    let changed = |change: &dyn Fn(&str) -> String| usual.map(change);
    let of = |name, parts: &[String], content: &[usize]| {
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        case(name, &parts, content, 3)
    };
    let abc = [0, 1, 2];
    let null_role = ROLE.replace("\"\"", "null");
    let bytes = |part: &str| part.bytes().map(|b| vec![b]).collect::<Vec<_>>();
    let single = |part: &str| -> Vec<Vec<u8>> {
        let chunk = |b: Vec<u8>| [b"1\r\n", b.as_slice(), b"\r\n"].concat();
        bytes(part).into_iter().map(chunk).collect()
    };
    let half = |text: &str, second: bool| {
        let event = token("é日").into_bytes();
        let middle = event.iter().position(|b| *b == 0xc3).unwrap() + 1;
        let (left, right) = event.split_at(middle);
        let data = if second { right } else { left };
        [
            format!("{:x}\r\n", data.len()).as_bytes(),
            data,
            text.as_bytes(),
        ]
        .concat()
    };
    let mut split = case("multi-byte characters split", &["", "", &end], &[1], 3);
    split.parts[0] = vec![half("\r\n", false)];
    split.parts[1] = vec![half("\r\n", true)];
    let mut single_bytes = case("split at every byte", &usual, &abc, 3);
    single_bytes.parts = usual.iter().map(|part| single(part)).collect();
    let long = "x".repeat(2 << 20);
    let all = usual.concat();
    vec![
        case("normal", &usual, &abc, 3),
        case(
            "role chunk first, empty",
            &[ROLE, a, b, c, &end],
            &[1, 2, 3],
            3,
        ),
        case(
            "role chunk first, null",
            &[&null_role, a, b, c, &end],
            &[1, 2, 3],
            3,
        ),
        of("CRLF", &changed(&|s| s.replace('\n', "\r\n")), &abc),
        of("CR", &changed(&|s| s.replace('\n', "\r")), &abc),
        of(
            "no blank after data:",
            &changed(&|s| s.replace("data: ", "data:")),
            &abc,
        ),
        of(
            "comments between",
            &changed(&|s| format!(": ping\n\n{s}: pong\n")),
            &abc,
        ),
        case(
            "comments alone",
            &[": ping\n\n", a, ":\n\n", b, c, ": p\n", &end],
            &[1, 3, 4],
            3,
        ),
        single_bytes,
        case("many events in one segment", &[&all], &[0, 0, 0], 3),
        split.text("é日"),
        case(
            "several tokens an event, counted",
            &[&counted("ab", 4), &counted("c", 8), &end],
            &[0, 1],
            3,
        )
        .first(4)
        .counts(8, &(FINISH.to_owned() + &usage(8) + DONE)),
        case(
            "several tokens an event, uncounted",
            &[a, &token("bc"), &end],
            &[0, 1],
            3,
        )
        .counts(8, &(FINISH.to_owned() + &usage(8) + DONE)),
        case("no usage", &[a, b, c, FINISH, DONE], &abc, 3).by_events(),
        of(
            "usage null",
            &changed(&|s| s.replace("}]}\n", "}],\"usage\":null}\n")),
            &abc,
        ),
        case(
            "usage after the end",
            &[a, b, c, FINISH, DONE, &usage(3)],
            &abc,
            3,
        ),
        case(
            "reasoning first",
            &[&delta("{\"reasoning_content\":\"hm\"}"), a, b, c, &end],
            &[0, 1, 2, 3],
            3,
        ),
        case("tool calls", &tool_calls(&end), &[1, 2], 3).text(""),
        case("a line of 2 MB", &[a, &token(&long), &end], &[0, 1], 3).text(&format!("a{long}")),
        case(
            "an answer that is only the stop",
            &[ROLE, FINISH, &usage(1), DONE],
            &[],
            1,
        )
        .text(""),
        case("no [DONE]", &[a, b, c, FINISH, &usage(3)], &abc, 3).without_done(),
    ]
}

fn tool_calls(end: &str) -> [&str; 4] {
    [
        ROLE,
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"x\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{}\"}}]}}]}\n\n",
        end,
    ]
}

impl Case {
    /// `n` tokens, said by `end` in the last part's place.
    fn counts(mut self, n: u32, end: &str) -> Self {
        self.n.0 = n;
        if let Some(last) = self.parts.last_mut() {
            *last = vec![chunked(end).into_bytes()];
        }
        self
    }

    fn without_done(mut self) -> Self {
        self.done_seen = false;
        self
    }
}

/// All at once: each case has a server of its own.
#[tokio::test(flavor = "multi_thread")]
async fn each_shape_gives_its_figures() {
    let checks: Vec<_> = shapes()
        .into_iter()
        .map(|c| tokio::spawn(c.check()))
        .collect();
    for check in checks {
        check.await.unwrap();
    }
}
