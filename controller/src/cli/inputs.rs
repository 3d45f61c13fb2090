//! Reading what a comparison needs of the runs that were chosen for it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures_util::stream::{self, StreamExt as _};

use crate::compare::pairing::Pairing;
use crate::compare::{Input, Inputs, differing};
use crate::import::Sides;
use crate::record::RunRecord;
use crate::store::Store;

/// Runs that are read and reduced at a time: each takes some ten MB on the way.
const READ_AT_A_TIME: usize = 4;

/// What was measured in the chosen runs: their columns, and of their answers those that differ.
///
/// # Errors
/// The database, or a file's.
pub async fn load(sides: &Sides, pairings: &[Pairing]) -> anyhow::Result<Inputs> {
    let runs = pairings.iter().flat_map(Pairing::runs);
    let stored = runs.filter_map(|run| Some((run.run_id.as_str(), (run, sides.store_of(run)?))));
    let stored: BTreeMap<&str, (&RunRecord, &Store)> = stored.collect();
    let mut inputs = Inputs::new();
    let reducing = stored.values().map(|(run, store)| reduce(store, run));
    let mut reduced = stream::iter(reducing).buffered(READ_AT_A_TIME);
    while let Some(input) = reduced.next().await {
        let (run_id, input) = input?;
        inputs.insert(run_id, input);
    }
    let wanted = differing(pairings, &inputs).into_iter();
    let wanted: Vec<_> = wanted.map(|(id, of)| (id.to_owned(), of)).collect();
    for (run_id, indices) in wanted {
        let input = inputs.get_mut(&run_id);
        if let (Some(input), Some((_, store))) = (input, stored.get(run_id.as_str())) {
            input.spoken = store.spoken(&run_id, &indices).await?;
        }
    }
    Ok(inputs)
}

/// One run's columns, reduced beside the reading of the next.
async fn reduce(store: &Store, run: &RunRecord) -> anyhow::Result<(String, Input)> {
    let columns = store.columns(&run.run_id).await?;
    let run = run.clone();
    let reducing = tokio::task::spawn_blocking(move || {
        let input = Input::of(&run, &columns);
        (run.run_id, input)
    });
    reducing.await.context("reducing a run")
}
