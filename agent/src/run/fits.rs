//! Whether the requests of a spec fit the model: template, lengths, context. Reads nothing.

use contracts::run::{Endpoint, Mode, PromptSource, RunSpec, Workload};
use engine::error::EngineError;
use engine::text::Text;

use super::check::Refusal;
use crate::load::Route;
use crate::prompts::{PromptError, Prompts, without_answer};

/// Given prompts that are encoded to see whether they fit, at most: of more, the longest.
const GIVEN_CHECKED_MAX: usize = 1_000;
/// Requests with drawn lengths that are looked at, at most. A longer one that comes later fails
/// when it is sent.
const DRAWN_CHECKED_MAX: u32 = 100_000;

/// Which endpoint the requests go to; a chat needs a template.
pub fn route(workload: &Workload, model: &str, chat_template: bool) -> Result<Route, Refusal> {
    if workload.endpoint == Endpoint::Chat && !chat_template {
        return Err(Refusal::new(
            "workload.endpoint",
            format!("{model} has no chat template; use completions"),
        ));
    }
    Ok(Route::resolve(workload.endpoint, chat_template))
}

/// Whether the requests of `spec` can be made, and fit into `context_tokens`, prompt and answer
/// together. Without `text` only what is given word for word can be made, and its length is not
/// known; without a context any length fits.
pub fn check(
    spec: &RunSpec,
    route: Route,
    text: Option<&Text>,
    context_tokens: Option<usize>,
) -> Result<(), Refusal> {
    if spec.arm.mode == Mode::Offline
        && let Some(index) = without_answer(&spec.workload.prompts)
    {
        return Err(Refusal::new(
            "workload.prompts.conversations",
            format!(
                "conversation {index} has a turn without a recorded answer before the next, and \
                 offline no answers are fed back: record them, or run online"
            ),
        ));
    }
    let prompts = Prompts::open(spec, route, text.cloned()).map_err(refusal)?;
    let Some(text) = text else {
        return Ok(());
    };
    let fit = Fit {
        spec,
        prompts: &prompts,
        route,
        text,
        // What is not known is no limit.
        context_tokens: context_tokens.unwrap_or(usize::MAX),
    };
    match prompts.planned(false, 0) {
        Some(_) => fit.drawn(),
        None => fit.given(),
    }
}

fn refusal(error: PromptError) -> Refusal {
    Refusal::new(error.field, error.message)
}

/// What requests are held against.
struct Fit<'a> {
    spec: &'a RunSpec,
    prompts: &'a Prompts,
    route: Route,
    text: &'a Text,
    context_tokens: usize,
}

impl Fit<'_> {
    /// Lengths are known without making the prompts; the shortest and the longest are made, as a
    /// proof that this tokenizer can.
    fn drawn(&self) -> Result<(), Refusal> {
        let workload = &self.spec.workload;
        let phases = [(true, workload.warmup), (false, workload.n_runs)];
        let requests = phases.into_iter().flat_map(|(warmup, requests)| {
            (0..requests.min(DRAWN_CHECKED_MAX)).map(move |index| (warmup, index))
        });
        let mut shortest = None;
        let mut longest = None;
        for (warmup, index) in requests {
            let Some(planned) = self.prompts.planned(warmup, index) else {
                continue;
            };
            let tokens = planned.input_tokens as usize;
            if let Err(error) = self.room(tokens, planned.max_tokens) {
                let field = match workload.prompts {
                    PromptSource::Trace { .. } => "workload.prompts.requests",
                    _ => "workload.prompts.input",
                };
                let phase = if warmup { "warm-up request" } else { "request" };
                return Err(Refusal::new(field, format!("{phase} {index}: {error}")));
            }
            let this = (tokens, warmup, index);
            shortest = Some(shortest.map_or(this, |other| this.min(other)));
            longest = Some(longest.map_or(this, |other| this.max(other)));
        }
        for (_, warmup, index) in shortest.into_iter().chain(longest) {
            self.prompts.prompt(warmup, index, &[]).map_err(refusal)?;
        }
        Ok(())
    }

    /// Each given prompt, of many the longest and the shortest.
    fn given(&self) -> Result<(), Refusal> {
        let mut items = self.items();
        items.sort_unstable_by_key(|item| std::cmp::Reverse(item.bytes));
        if items.len() > GIVEN_CHECKED_MAX {
            let shortest = items.pop();
            items.truncate(GIVEN_CHECKED_MAX - 1);
            items.extend(shortest);
        }
        items.sort_unstable_by_key(|item| item.number);
        let mut first = None;
        let mut others = 0;
        for item in items {
            match (self.one(&item)?, &first) {
                (None, _) => {}
                (Some(error), None) => first = Some((item.number, error)),
                (Some(_), Some(_)) => others += 1,
            }
        }
        let Some((number, error)) = first else {
            return Ok(());
        };
        let (field, noun) = self.names();
        let others = match others {
            0 => String::new(),
            n => format!("; {n} more do not fit either"),
        };
        let field = match self.spec.workload.prompts {
            // The ceilings are the answers' lengths.
            PromptSource::Pairs { .. } => field,
            _ => "workload.sampling.max_tokens",
        };
        Err(Refusal::new(
            field,
            format!("{noun} {number}: {error}{others}"),
        ))
    }

    /// Why one does not fit, if it does not.
    fn one(&self, item: &Item) -> Result<Option<EngineError>, Refusal> {
        let (field, noun) = self.names();
        let number = item.number;
        let refuse = |why: String| Refusal::new(field, format!("{noun} {number}{why}"));
        let max_tokens = self.spec.workload.sampling.max_tokens as usize;
        // Answers that are yet to come may be as long as the ceiling allows.
        let needed = self.prompts.answers_needed(item.index) as usize;
        let said = match needed {
            0 => Vec::new(),
            _ => vec![String::new(); item.index as usize],
        };
        let prompt = self
            .prompts
            .prompt(false, item.index, &said)
            .map_err(refusal)?;
        let ids = self.text.encode(&prompt.content.into_input(self.route));
        let ids = ids.map_err(|error| refuse(format!(": {error}")))?;
        if ids.is_empty() {
            return Err(refuse(" has no tokens".to_owned()));
        }
        Ok(self
            .room(ids.len() + needed * max_tokens, prompt.max_tokens)
            .err())
    }

    fn room(&self, input_tokens: usize, max_tokens: u32) -> Result<(), EngineError> {
        let max_tokens = max_tokens as usize;
        if input_tokens.saturating_add(max_tokens) <= self.context_tokens {
            return Ok(());
        }
        Err(EngineError::ContextTooLong {
            input_tokens,
            max_tokens,
            context_tokens: self.context_tokens,
        })
    }

    /// The source's place in the spec, and what one of it is called.
    fn names(&self) -> (&'static str, &'static str) {
        match &self.spec.workload.prompts {
            PromptSource::Pairs { .. } => ("workload.prompts.pairs", "pair"),
            PromptSource::Conversations { .. } => {
                ("workload.prompts.conversations", "conversation")
            }
            _ => ("workload.prompts.texts", "prompt"),
        }
    }

    fn items(&self) -> Vec<Item> {
        let item = |(number, bytes): (usize, usize)| Item {
            number,
            index: u32::try_from(number).unwrap_or(u32::MAX),
            bytes,
        };
        match &self.spec.workload.prompts {
            PromptSource::Pairs { pairs } => {
                let sizes = pairs
                    .iter()
                    .map(|pair| pair.prompt.len() + pair.answer.len());
                sizes.enumerate().map(item).collect()
            }
            PromptSource::Texts { texts } => texts
                .iter()
                .map(String::len)
                .enumerate()
                .map(item)
                .collect(),
            PromptSource::Conversations { conversations } => {
                let mut next = 0;
                let sizes = conversations.iter().map(|messages| {
                    messages
                        .iter()
                        .map(|message| message.content.to_string().len())
                        .sum()
                });
                let last = |(number, bytes): (usize, usize)| {
                    next += self.prompts.together(next);
                    Item {
                        number,
                        index: next - 1,
                        bytes,
                    }
                };
                sizes.enumerate().map(last).collect()
            }
            PromptSource::Synthetic { .. } | PromptSource::Trace { .. } => Vec::new(),
        }
    }
}

/// One given prompt, or conversation.
struct Item {
    /// Its place in the source.
    number: usize,
    /// The request that carries all of it.
    index: u32,
    /// Its size, as a guess at its tokens.
    bytes: usize,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::openai::ChatMessage;
    use contracts::run::{Length, PromptPair, TraceRequest};

    use super::*;
    use crate::run::testing::fake_spec;

    fn refused(spec: &RunSpec) -> String {
        let text = engine::inspect::inspect("dummy:tiny-llm").unwrap().text;
        check(spec, Route::Chat, Some(&text), Some(200))
            .unwrap_err()
            .to_string()
    }

    fn with(prompts: PromptSource) -> RunSpec {
        let mut spec = fake_spec();
        spec.workload.prompts = prompts;
        spec.workload.n_runs = 2000;
        spec
    }

    fn synthetic(input: Length) -> PromptSource {
        PromptSource::Synthetic {
            input,
            output: None,
            prefix: None,
        }
    }

    #[test]
    fn a_request_beyond_the_context_is_refused_by_name() {
        let texts = vec!["a".to_owned(), "b".repeat(170), "c".repeat(190)];
        let pair = |prompt: &str, answer: String| PromptPair {
            prompt: prompt.to_owned(),
            answer,
        };
        let request = |input_tokens, output_tokens| TraceRequest {
            due_ms: 0,
            input_tokens,
            output_tokens,
            block_ids: vec![],
        };
        let cases = [
            (
                PromptSource::Texts { texts },
                "workload.sampling.max_tokens: prompt 1: ",
            ),
            (
                PromptSource::Pairs {
                    pairs: vec![pair("q", "a".to_owned()), pair("q", "b".repeat(400))],
                },
                "workload.prompts.pairs: pair 1: ",
            ),
            (
                synthetic(Length::Fixed { tokens: 161 }),
                "workload.prompts.input: warm-up request 0: ",
            ),
            (
                synthetic(Length::Uniform {
                    low_tokens: 60,
                    high_tokens: 161,
                }),
                "workload.prompts.input: request ",
            ),
            (
                PromptSource::Trace {
                    requests: vec![request(100, 100), request(100, 101)],
                },
                "workload.prompts.requests: request 1: ",
            ),
        ];
        for (prompts, expected) in cases {
            let told = refused(&with(prompts));
            assert!(told.starts_with(expected), "{told}");
            assert!(
                told.contains("more than the model's context of 200"),
                "{told}"
            );
        }
        let one = vec!["b".repeat(170), "a".to_owned(), "c".repeat(190)];
        let told = refused(&with(PromptSource::Texts { texts: one }));
        assert!(told.ends_with("; 1 more do not fit either"), "{told}");
    }

    #[test]
    fn what_fits_is_fine_and_what_is_not_known_is_no_limit() {
        let text = engine::inspect::inspect("dummy:tiny-llm").unwrap().text;
        let spec = with(synthetic(Length::Fixed { tokens: 160 }));
        check(&spec, Route::Chat, Some(&text), Some(200)).unwrap();
        let long = with(synthetic(Length::Fixed { tokens: 5000 }));
        check(&long, Route::Chat, Some(&text), None).unwrap();
        let texts = vec!["c".repeat(5000)];
        check(
            &with(PromptSource::Texts { texts }),
            Route::Chat,
            None,
            Some(200),
        )
        .unwrap();
    }

    #[test]
    fn turns_whose_answers_are_to_come_are_counted_at_their_ceiling_and_refused_offline() {
        let message = |role: &str| ChatMessage {
            role: role.to_owned(),
            content: "x".into(),
        };
        let live = |turns: usize| PromptSource::Conversations {
            conversations: vec![vec![message("user")], vec![message("user"); turns]],
        };
        let mut spec = with(live(9));
        let told = refused(&spec);
        assert!(
            told.starts_with("workload.prompts.conversations: conversation 1 has a turn without"),
            "{told}"
        );
        spec.arm.mode = Mode::Online;
        let told = refused(&spec);
        assert!(
            told.starts_with("workload.sampling.max_tokens: conversation 1: "),
            "{told}"
        );
        let recorded = vec![message("user"), message("assistant"), message("user")];
        let text = engine::inspect::inspect("dummy:tiny-llm").unwrap().text;
        let conversations = vec![recorded];
        let spec = with(PromptSource::Conversations { conversations });
        check(&spec, Route::Chat, Some(&text), Some(200)).unwrap();
    }
}
