//! Many requests over one model and one memory: what the chapters that batch share.
//!
//! Here are the load, the check of a request against the memory, and one forward pass over any rows.
//! Which rows, and when a request becomes one, is each chapter's idea.

use contracts::{
    generate::{GenerateResult, SamplingParams},
    run::ModelFacts,
};

use super::{
    Engine, Limits, RequestId, StepEvent,
    sequence::{Sequence, report},
};
use crate::{
    decoder::{self, Decoder, LoadedDecoder, Slot, Span, Wanted, cache::in_place::InPlace},
    error::EngineError,
    model::ModelRequest,
    text::{Input, Text},
};

/// Option: positions of keys and values in all.
pub(super) const KV_TOKENS: &str = "kv_tokens";

/// Memory of keys and values that a chapter takes by default, at most. It is reserved, not used: the
/// system gives pages as they are first written. Who wants more says so by [`KV_TOKENS`].
const KV_BYTES_MAX: usize = 1 << 30;

/// Tokens of a step by default. A pass over this many is bound by arithmetic and not by reading the
/// weights, so a larger one is no faster for each token; and it keeps those who decode beside it
/// waiting by well under a second for a model of 135 million parameters on two cores.
pub(super) const STEP_TOKENS: usize = 512;

/// A model, and the keys and values of all that run over it.
pub(super) struct Model {
    pub(super) text: Text,
    pub(super) facts: ModelFacts,
    decoder: Decoder,
    pub(super) cache: InPlace,
}

/// A request under way.
pub(super) struct Row {
    pub(super) sequence: Sequence,
    /// Where its keys and values are.
    pub(super) slot: Slot,
}

impl Model {
    /// Loads, and takes memory for `kv_tokens` positions, or for `rows` whole contexts within
    /// [`KV_BYTES_MAX`].
    pub(super) fn load(
        request: &ModelRequest,
        rows: usize,
        kv_tokens: Option<usize>,
    ) -> Result<Self, EngineError> {
        let LoadedDecoder {
            text,
            mut facts,
            decoder,
        } = decoder::load(request)?;
        let positions = kv_tokens.unwrap_or_else(|| {
            let affordable = KV_BYTES_MAX / InPlace::position_bytes(&decoder).max(1);
            rows.saturating_mul(decoder.context()).min(affordable)
        });
        let cache = InPlace::new(&decoder, positions).map_err(|error| match kv_tokens {
            Some(asked) => {
                // Whose fault it is, is known here: the number asked for.
                let why = match error {
                    EngineError::Internal(why) => why,
                    other => other.to_string(),
                };
                EngineError::bad_input("option", format!("{KV_TOKENS} is {asked}: {why}"))
            }
            None => error,
        })?;
        // An answer that may use "the rest of the context" must fit into the memory, too.
        let longest = u32::try_from(cache.positions()).unwrap_or(u32::MAX);
        facts.context_tokens = facts.context_tokens.min(longest);
        Ok(Self {
            text,
            facts,
            decoder,
            cache,
        })
    }

    /// Checks and tokenises; refuses what could not run even alone.
    pub(super) fn begin(
        &self,
        id: RequestId,
        input: &Input,
        params: &SamplingParams,
    ) -> Result<Sequence, EngineError> {
        let limits = Limits {
            vocab: self.decoder.vocab(),
            context: self.decoder.context(),
        };
        let sequence = Sequence::begin(id, &self.text, limits, input, params)?;
        let (needed, all) = (sequence.positions_max(), self.cache.positions());
        if needed > all {
            return Err(EngineError::bad_input(
                "max_tokens",
                format!(
                    "prompt and ceiling are {needed} tokens and there is memory for {all}; ask for fewer, or raise the option {KV_TOKENS}"
                ),
            ));
        }
        Ok(sequence)
    }

    /// One forward pass: each row runs its prompt or its latest token, and gets its next token.
    /// Gives back the rows that go on; the slots of the others are free. A pass that fails ends
    /// every row in it.
    pub(super) fn advance(&mut self, mut rows: Vec<Row>, events: &mut Vec<StepEvent>) -> Vec<Row> {
        let company = rows.len();
        for row in &mut rows {
            row.sequence.join(company);
        }
        let spans: Vec<Span<'_>> = rows.iter().map(Row::span).collect();
        let logits = self.decoder.forward(&mut self.cache, &spans); // [rows, vocab]
        let (going_on, free) = settle(&self.text, rows, logits, self.decoder.vocab(), events);
        for slot in free {
            self.cache.release(slot);
        }
        going_on
    }
}

/// Gives each row its token. Returns the rows that go on, and the slots of those that don't.
fn settle(
    text: &Text,
    rows: Vec<Row>,
    logits: Result<Vec<f32>, EngineError>,
    vocab: usize,
    events: &mut Vec<StepEvent>,
) -> (Vec<Row>, Vec<Slot>) {
    let company = rows.len();
    let (mut going_on, mut free) = (Vec::with_capacity(company), Vec::new());
    for (at, Row { mut sequence, slot }) in rows.into_iter().enumerate() {
        let piece = match &logits {
            // A row without logits would be refused by its sampler: no row is ever lost.
            Ok(logits) => {
                let own = logits.get(at * vocab..(at + 1) * vocab);
                sequence.take(text, own.unwrap_or_default())
            }
            Err(error) => Err(EngineError::Internal(format!(
                "a forward pass of {company} requests failed: {error}"
            ))),
        };
        match report(sequence, piece, events) {
            Some(sequence) => going_on.push(Row { sequence, slot }),
            None => free.push(slot),
        }
    }
    (going_on, free)
}

impl Row {
    fn span(&self) -> Span<'_> {
        let (ids, start) = self.sequence.next_ids();
        Span {
            slot: self.slot,
            ids,
            start,
            wanted: Wanted::Last,
        }
    }
}

/// Runs requests to their ends, by submit and step, over an engine that has nothing else to do.
pub(super) fn run_all(
    engine: &mut dyn Engine,
    requests: &[(Input, SamplingParams)],
) -> Vec<Result<GenerateResult, EngineError>> {
    let lost = || EngineError::Internal("the engine forgot the request".to_owned());
    let mut results: Vec<Result<GenerateResult, EngineError>> =
        requests.iter().map(|_| Err(lost())).collect();
    for ((id, result), (input, params)) in (0..).zip(&mut results).zip(requests) {
        if let Err(error) = engine.submit(id, input, params) {
            *result = Err(error);
        }
    }
    while !engine.is_idle() {
        for event in engine.step() {
            if let StepEvent::Finished { id, result } = event
                && let Some(place) = usize::try_from(id).ok().and_then(|at| results.get_mut(at))
            {
                *place = result;
            }
        }
    }
    results
}

/// One request alone, by [`run_all`].
pub(super) fn run_one(
    engine: &mut dyn Engine,
    input: &Input,
    params: &SamplingParams,
) -> Result<GenerateResult, EngineError> {
    let mut results = run_all(engine, &[(input.clone(), params.clone())]);
    results
        .pop()
        .unwrap_or_else(|| Err(EngineError::Internal("no result".to_owned())))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::text::MIN_VOCAB_SIZE;

    const VOCAB: usize = MIN_VOCAB_SIZE;

    /// Rows with slots 10, 11, ... and ids 0, 1, ...
    fn rows(text: &Text, count: usize) -> Vec<Row> {
        let limits = Limits {
            vocab: VOCAB,
            context: 100,
        };
        let input = Input::Text("a".to_owned());
        // Of equal logits the lowest id is taken, which ends answers.
        let params = SamplingParams {
            ignore_eos: true,
            ..SamplingParams::default()
        };
        (0..count)
            .map(|at| Row {
                sequence: Sequence::begin(at as RequestId, text, limits, &input, &params).unwrap(),
                slot: 10 + at,
            })
            .collect()
    }

    /// Who ended, each with its error; whose slots are free; who goes on.
    fn settled(
        logits: Result<Vec<f32>, EngineError>,
    ) -> (Vec<(RequestId, String)>, Vec<Slot>, usize) {
        let text = Text::made(VOCAB).unwrap();
        let mut events = Vec::new();
        let rows = rows(&text, 3);
        let (going_on, free) = settle(&text, rows, logits, VOCAB, &mut events);
        let ended = events.into_iter().filter_map(|event| match event {
            StepEvent::Finished { id, result } => Some((id, result.unwrap_err().to_string())),
            StepEvent::Token { .. } => None,
        });
        (ended.collect(), free, going_on.len())
    }

    #[test]
    fn a_pass_that_fails_ends_every_row_in_it() {
        let (ended, free, going_on) = settled(Err(EngineError::Stopping));
        let line = "internal: a forward pass of 3 requests failed: the server is shutting down";
        let each = [0, 1, 2].map(|id| (id, line.to_owned()));
        assert_eq!((ended.as_slice(), going_on), (&each[..], 0));
        assert_eq!(free, [10, 11, 12]);
    }

    #[test]
    fn broken_logits_end_their_own_row_and_missing_ones_too() {
        let mut logits = vec![0.0; 2 * VOCAB];
        logits[VOCAB + 3] = f32::NAN;
        let (ended, free, going_on) = settled(Ok(logits));
        let ids: Vec<_> = ended.iter().map(|(id, _)| *id).collect();
        assert_eq!((ids, going_on), (vec![1, 2], 1));
        assert_eq!(free, [11, 12]);
    }
}
