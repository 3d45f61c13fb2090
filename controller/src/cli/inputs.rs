//! Reading what a comparison needs of the runs that were chosen for it.

use std::collections::BTreeMap;

use crate::compare::pairing::Pairing;
use crate::compare::{Input, Inputs, differing};
use crate::import::Sides;
use crate::store::{Store, StoreError};

/// What was measured in the chosen runs: their columns, and of their answers those that differ.
///
/// # Errors
/// The database, or a file's.
pub async fn load(sides: &Sides, pairings: &[Pairing]) -> Result<Inputs, StoreError> {
    let mut inputs = Inputs::new();
    let mut stores = BTreeMap::<&str, &Store>::new();
    for run in pairings.iter().flat_map(Pairing::runs) {
        let Some(store) = sides.store_of(run) else {
            continue;
        };
        if stores.insert(&run.run_id, store).is_none() {
            let columns = store.columns(&run.run_id).await?;
            inputs.insert(run.run_id.clone(), Input::of(run, &columns));
        }
    }
    let wanted = differing(pairings, &inputs).into_iter();
    let wanted: Vec<_> = wanted.map(|(id, of)| (id.to_owned(), of)).collect();
    for (run_id, indices) in wanted {
        if let (Some(store), Some(input)) = (stores.get(&*run_id), inputs.get_mut(&run_id)) {
            input.spoken = store.spoken(&run_id, &indices).await?;
        }
    }
    Ok(inputs)
}
