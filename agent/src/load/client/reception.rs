//! The answer to one request, from its bytes: head, framing, gzip, events, one after the other and
//! each in its own file; here is how they follow. Without I/O: the client says which bytes came
//! when.

use contracts::sample::{ErrorClass, Sample, SampleError};

use super::body::{BodyKind, status_error};
use super::framing::Framing;
use super::head::Head;
use super::unzip::Unzip;
use crate::load::answer::{Answer, failure};
use crate::load::sse::SseParser;

/// Body bytes of one answer, decoded, at most: far above any real one, so that a server gone wild
/// ends its request and not the agent.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Body bytes of an error page that are read for its message.
const ERROR_BODY_BYTES_MAX: u64 = 64 << 10;

/// An answer as its bytes come.
pub struct Reception {
    stage: Stage,
    /// Whether a stream was asked for.
    stream: bool,
    keep_alive: bool,
    /// Whether any byte has come.
    touched: bool,
    verdict: Result<(), SampleError>,
    answer: Answer,
}

enum Stage {
    Head,
    Body(Framing, Body),
    Ended,
}

/// What becomes of a body's bytes, whatever delimits them.
struct Body {
    kind: BodyKind,
    unzip: Option<Unzip>,
    parser: SseParser,
    /// All of it, unless it is events.
    whole: Vec<u8>,
    /// Decoded bytes so far.
    bytes: u64,
}

impl Reception {
    /// Before the first byte. `answer` is empty.
    pub fn new(stream: bool, answer: Answer) -> Self {
        Self {
            stage: Stage::Head,
            stream,
            keep_alive: false,
            touched: false,
            verdict: Ok(()),
            answer,
        }
    }

    /// What it came to.
    pub fn into_answer(self) -> Answer {
        self.answer
    }

    /// Whether the answer has been read to its end.
    pub fn is_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// What an answer that has been read to its end came to.
    pub fn verdict(&self) -> Result<(), SampleError> {
        self.verdict.clone()
    }

    /// Whether no byte has come.
    pub fn is_untouched(&self) -> bool {
        !self.touched
    }

    /// Whether the connection may serve again.
    pub fn may_keep(&self) -> bool {
        self.is_ended() && self.keep_alive
    }

    /// Takes what it can off the front of `bytes`, which a read at `at_ns` completed, and says how
    /// many. What is left is to be offered again with more behind it. An error ends it midway.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        at_ns: u64,
        sample: &mut Sample,
    ) -> Result<usize, SampleError> {
        self.touched |= !bytes.is_empty();
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            match &mut self.stage {
                Stage::Ended => return Ok(used),
                Stage::Head => {
                    let Some((head, length)) = Head::parse(rest).map_err(violation)? else {
                        return Ok(used);
                    };
                    used += length;
                    self.begin(head, at_ns, sample)?;
                }
                Stage::Body(framing, body) => {
                    let piece = framing.take(rest).map_err(violation)?;
                    used += piece.used;
                    sample.bytes += piece.data.len() as u64;
                    body.push(piece.data, at_ns, &mut self.answer, sample.status)?;
                    if piece.ended {
                        self.end(at_ns, sample);
                    } else if piece.used == 0 || used == bytes.len() {
                        return Ok(used);
                    }
                }
            }
        }
    }

    /// The head is complete.
    fn begin(&mut self, head: Head, at_ns: u64, sample: &mut Sample) -> Result<(), SampleError> {
        match head.status {
            101 => {
                return Err(violation(
                    "the server switches protocols unasked".to_owned(),
                ));
            }
            // An interim answer: the real one follows.
            100..200 => return Ok(()),
            _ => {}
        }
        sample.headers_ns = Some(at_ns);
        sample.status = Some(head.status);
        self.keep_alive = head.keep_alive;
        let kind = BodyKind::of(&head, self.stream)?;
        let unzip = match head.encoding.as_str() {
            "" | "identity" => None,
            "gzip" | "x-gzip" => Some(Unzip::new()),
            other => {
                let message = format!("content-encoding {other:?}, though identity was asked for");
                return Err(failure(ErrorClass::ContentType, message));
            }
        };
        if kind == BodyKind::Events {
            self.answer.begin_stream();
        }
        let body = Body {
            kind,
            unzip,
            parser: SseParser::default(),
            whole: Vec::new(),
            bytes: 0,
        };
        self.stage = Stage::Body(head.framing, body);
        Ok(())
    }

    /// The body is complete since `at_ns`.
    fn end(&mut self, at_ns: u64, sample: &mut Sample) {
        sample.done_ns = Some(at_ns);
        if let Stage::Body(_, body) = std::mem::replace(&mut self.stage, Stage::Ended) {
            self.verdict = match body.kind {
                BodyKind::Events => Ok(()),
                BodyKind::Whole => self.answer.whole(at_ns, &body.whole),
                BodyKind::Error => Err(body.status_error(sample.status)),
            };
        }
    }

    /// The server closed its side; `eof_ns` is the read that found it, `last_read_ns` the one
    /// before.
    pub fn eof(
        &mut self,
        eof_ns: u64,
        last_read_ns: Option<u64>,
        sample: &mut Sample,
    ) -> Result<(), SampleError> {
        match &self.stage {
            Stage::Ended => self.verdict(),
            Stage::Body(Framing::Close, _) => {
                self.end(eof_ns, sample);
                self.verdict()
            }
            Stage::Body(_, body) if body.kind == BodyKind::Events && !self.answer.is_finished() => {
                // Nothing is amiss but the stream itself, and that is for `answer` to judge.
                sample.done_ns = Some(eof_ns);
                Ok(())
            }
            _ => {
                let message = match (&self.stage, last_read_ns) {
                    (Stage::Head, None) => "the server closed the connection without an answer",
                    (Stage::Head, Some(_)) => "the server closed the connection within the head",
                    _ => "the server closed the connection within the answer",
                };
                self.give_up(
                    failure(ErrorClass::Transport, message),
                    last_read_ns,
                    sample,
                )
            }
        }
    }

    /// No more bytes will come, for the reason that `error` says. What it then comes to: a stream
    /// that has said all has lost nothing, and of an error page the status is the news.
    pub fn give_up(
        &mut self,
        error: SampleError,
        last_read_ns: Option<u64>,
        sample: &mut Sample,
    ) -> Result<(), SampleError> {
        if error.class == ErrorClass::Aborted {
            return Err(error);
        }
        match &self.stage {
            Stage::Body(_, body) if body.kind == BodyKind::Error => {
                Err(body.status_error(sample.status))
            }
            Stage::Body(_, body) if body.kind == BodyKind::Events && self.answer.is_finished() => {
                sample.unterminated = true;
                sample.done_ns = last_read_ns;
                Ok(())
            }
            _ => Err(error),
        }
    }
}

impl Body {
    fn push(
        &mut self,
        data: &[u8],
        at_ns: u64,
        answer: &mut Answer,
        status: Option<u16>,
    ) -> Result<(), SampleError> {
        if data.is_empty() {
            return Ok(());
        }
        let Some(mut unzip) = self.unzip.take() else {
            return self.decoded(data, at_ns, answer, status);
        };
        let pushed = unzip.push(data, |decoded| self.decoded(decoded, at_ns, answer, status));
        self.unzip = Some(unzip);
        pushed.map_err(|e| violation(format!("the answer's gzip cannot be read: {e}")))?
    }

    fn decoded(
        &mut self,
        data: &[u8],
        at_ns: u64,
        answer: &mut Answer,
        status: Option<u16>,
    ) -> Result<(), SampleError> {
        self.bytes += data.len() as u64;
        if self.kind == BodyKind::Events && self.bytes <= ANSWER_BYTES_MAX {
            return self.events(data, at_ns, answer);
        }
        self.whole.extend_from_slice(data);
        if self.kind == BodyKind::Error && self.bytes > ERROR_BODY_BYTES_MAX {
            return Err(self.status_error(status));
        }
        if self.bytes > ANSWER_BYTES_MAX {
            let message = format!("the answer has more than {ANSWER_BYTES_MAX} bytes");
            return Err(failure(ErrorClass::TooLarge, message));
        }
        Ok(())
    }

    /// Gives each event that `data` completes to `answer` under the read's stamp.
    fn events(&mut self, data: &[u8], at_ns: u64, answer: &mut Answer) -> Result<(), SampleError> {
        let mut result = Ok(());
        let pushed = self.parser.push(data, |event| {
            if result.is_ok() {
                result = answer.event(at_ns, event);
            }
        });
        result?;
        pushed.map_err(|e| failure(ErrorClass::TooLarge, e.to_string()))
    }

    fn status_error(&self, status: Option<u16>) -> SampleError {
        status_error(status.unwrap_or_default(), &self.whole)
    }
}

fn violation(message: String) -> SampleError {
    failure(ErrorClass::Transport, message)
}
