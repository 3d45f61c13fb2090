//! Reading what a comparison needs: the runs that its sides may mean, and of those that were chosen
//! what was measured. Sides are of the database or of files.

use std::collections::BTreeMap;

use anyhow::Context as _;

use super::{Context, connect};
use crate::compare::pairing::Pairing;
use crate::compare::{Input, Inputs, differing};
use crate::import::{Sides, only_files};
use crate::record::RunRecord;
use crate::selector::Selector;
use crate::store::Store;

/// The runs that the selectors may mean. Where all of them are files, no database is asked for.
///
/// # Errors
/// The database; a file that cannot be read.
pub async fn sides(context: &Context, selectors: &[Selector]) -> anyhow::Result<Sides> {
    let database = match only_files(selectors) {
        true => None,
        false => Some(connect::open_for_reading(context).await?),
    };
    Ok(Sides::open(database, selectors).await?)
}

/// What was measured in the chosen runs: their columns, and of their answers those that differ.
///
/// # Errors
/// The database or the file that a run is from.
pub async fn load(sides: &Sides, pairings: &[Pairing]) -> anyhow::Result<Inputs> {
    let mut inputs = Inputs::new();
    let mut from = BTreeMap::new();
    for run in pairings.iter().flat_map(Pairing::runs) {
        if !inputs.contains_key(&run.run_id) {
            let store = store_of(sides, run)?;
            let columns = store.columns(&run.run_id).await?;
            inputs.insert(run.run_id.clone(), Input::of(run, &columns));
            from.insert(run.run_id.clone(), store);
        }
    }
    let wanted = differing(pairings, &inputs).into_iter();
    let wanted: Vec<_> = wanted.map(|(id, of)| (id.to_owned(), of)).collect();
    for (run_id, indices) in wanted {
        if let (Some(input), Some(store)) = (inputs.get_mut(&run_id), from.get(&run_id)) {
            input.spoken = store.spoken(&run_id, &indices).await?;
        }
    }
    Ok(inputs)
}

fn store_of<'a>(sides: &'a Sides, run: &RunRecord) -> anyhow::Result<&'a Store> {
    let store = sides.store_of(run);
    store.with_context(|| format!("internal: no side has run {}", run.run_id))
}
