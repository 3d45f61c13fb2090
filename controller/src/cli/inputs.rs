//! Reading what a comparison needs of the runs that were chosen for it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use futures_util::stream::{self, StreamExt as _};

use crate::compare::pairing::Pairing;
use crate::compare::{Input, Inputs, differing};
use crate::record::RunRecord;
use crate::store::Store;

/// Runs that are read and reduced at a time: each takes some ten MB on the way.
const READ_AT_A_TIME: usize = 4;

async fn reduce(store: &Store, run: &RunRecord) -> anyhow::Result<(String, Input)> {
    let columns = store.columns(&run.run_id).await?;
    let run = run.clone();
    let reducing = tokio::task::spawn_blocking(move || {
        let input = Input::of(&run, &columns);
        (run.run_id, input)
    });
    reducing.await.context("reducing a run")
}

/// What was measured in the chosen runs: their columns, and of their answers those that differ.
/// `known` are runs that are not in the database, read already.
///
/// # Errors
/// The database.
pub async fn load(store: &Store, pairings: &[Pairing], known: Inputs) -> anyhow::Result<Inputs> {
    let mut inputs = known;
    let runs = pairings.iter().flat_map(Pairing::runs);
    let unknown = runs.filter(|run| !inputs.contains_key(&run.run_id));
    let unknown: BTreeMap<&str, &RunRecord> =
        unknown.map(|run| (run.run_id.as_str(), run)).collect();
    let mut read =
        stream::iter(unknown.into_values().map(|run| reduce(store, run))).buffered(READ_AT_A_TIME);
    while let Some(input) = read.next().await {
        let (run_id, input) = input?;
        inputs.insert(run_id, input);
    }
    let wanted = differing(pairings, &inputs).into_iter();
    let wanted: Vec<_> = wanted.map(|(id, of)| (id.to_owned(), of)).collect();
    for (run_id, indices) in wanted {
        let unread = |input: &&mut Input| input.spoken.is_empty();
        if let Some(input) = inputs.get_mut(&run_id).filter(unread) {
            input.spoken = store.spoken(&run_id, &indices).await?;
        }
    }
    Ok(inputs)
}
