//! Reading what a comparison needs of the runs that were chosen for it.

use crate::compare::pairing::Pairing;
use crate::compare::{Input, Inputs, differing};
use crate::store::{Store, StoreError};

/// What was measured in the chosen runs: their columns, and of their answers those that differ.
/// `known` are runs that are not in the database, read already.
///
/// # Errors
/// The database.
pub async fn load(
    store: &Store,
    pairings: &[Pairing],
    known: Inputs,
) -> Result<Inputs, StoreError> {
    let mut inputs = known;
    for run in pairings.iter().flat_map(Pairing::runs) {
        if !inputs.contains_key(&run.run_id) {
            let columns = store.columns(&run.run_id).await?;
            inputs.insert(run.run_id.clone(), Input::of(run, &columns));
        }
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
