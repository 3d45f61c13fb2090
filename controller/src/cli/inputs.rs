//! Reading what a comparison needs of the runs that were chosen for it.

use crate::compare::pairing::Pairing;
use crate::compare::{Input, Inputs, differing};
use crate::import::Sides;
use crate::record::RunRecord;
use crate::store::StoreError;

/// What was measured in the chosen runs: their columns, and of their answers those that differ.
///
/// # Errors
/// The database, or the file that a run is from.
pub async fn load(sides: &Sides, pairings: &[Pairing]) -> Result<Inputs, StoreError> {
    let mut inputs = Inputs::new();
    let runs = || pairings.iter().flat_map(Pairing::runs);
    for run in runs() {
        if let Some(store) = sides.store_of(run)
            && !inputs.contains_key(&run.run_id)
        {
            let columns = store.columns(&run.run_id).await?;
            inputs.insert(run.run_id.clone(), Input::of(run, &columns));
        }
    }
    let wanted = differing(pairings, &inputs).into_iter();
    let wanted: Vec<_> = wanted.map(|(id, of)| (id.to_owned(), of)).collect();
    for (run_id, indices) in wanted {
        let of_it = |run: &&RunRecord| run.run_id == run_id;
        let store = runs().find(of_it).and_then(|run| sides.store_of(run));
        if let (Some(store), Some(input)) = (store, inputs.get_mut(&run_id)) {
            input.spoken = store.spoken(&run_id, &indices).await?;
        }
    }
    Ok(inputs)
}
