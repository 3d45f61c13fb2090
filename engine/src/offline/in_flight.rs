//! Several requests of a phase in flight at once: as many as the job says are with the engine, and
//! the next is submitted when one has ended, in order of index. One engine, one thread: between two
//! steps lines are written and requests handed over, as the server's thread does it.

use std::{
    collections::BTreeMap,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{OfflineError, Outcome, Phase, Report, panicked};
use crate::{
    chapters::{Engine, RequestId, StepEvent},
    error::EngineError,
};

/// Runs a phase to its end; nothing is in flight after it.
///
/// # Errors
/// See [`OfflineError`].
pub(super) fn run_phase(
    engine: &mut dyn Engine,
    phase: &Phase<'_>,
    concurrency: usize,
    report: &mut Report<'_, impl Write>,
) -> Result<(), OfflineError> {
    // When each was submitted, ns since the worker's origin.
    let mut live: BTreeMap<u32, u64> = BTreeMap::new();
    let mut waiting = phase.requests();
    loop {
        while live.len() < concurrency
            && let Some(request) = waiting.next()
        {
            let start_ns = report.now_ns();
            // Indices begin anew in each phase, after all requests of the one before have ended.
            let id = RequestId::from(request.index);
            match guarded(|| engine.submit(id, request.input, &request.params)) {
                Ok(Ok(())) => {
                    live.insert(request.index, start_ns);
                }
                Ok(Err(error)) => {
                    let outcome = Outcome::Refused(error.to_string());
                    report.request(phase, request.index, start_ns, outcome)?;
                }
                Err(panic) => {
                    let outcome = Outcome::Panicked(panic);
                    report.request(phase, request.index, start_ns, outcome)?;
                }
            }
        }
        let Some(oldest) = live.first_key_value().map(|(index, _)| *index) else {
            return Ok(());
        };
        let events = match engine.is_idle() {
            false => guarded(|| engine.step()),
            true => Err("the engine has nothing to do and never ended this request".to_owned()),
        };
        let events = match events {
            Ok(events) => events,
            // Whose fault it was is not known: the oldest stands for all.
            Err(message) => {
                let start_ns = live.remove(&oldest).unwrap_or_default();
                return report.request(phase, oldest, start_ns, Outcome::Panicked(message));
            }
        };
        let done_ns = report.now_ns();
        for event in events {
            let StepEvent::Finished { id, result } = event else {
                continue;
            };
            let ended = u32::try_from(id).ok();
            if let Some((index, start_ns)) = ended.and_then(|index| live.remove_entry(&index)) {
                report.ended(phase, index, (start_ns, done_ns), outcome(result))?;
            }
        }
    }
}

fn outcome(result: Result<contracts::generate::GenerateResult, EngineError>) -> Outcome {
    match result {
        Ok(result) => Outcome::Made(result),
        Err(error) => Outcome::Refused(error.to_string()),
    }
}

/// What `work` gives, or what its panic said.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panicked(&*panic))
}
