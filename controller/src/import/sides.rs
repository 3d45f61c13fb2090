//! Runs of the database and of files side by side, for a comparison: each record says where it is
//! from, and [`Sides::store_of`] gives the store that has its samples.

use std::collections::BTreeMap;
use std::path::Path;

use super::{ImportError, Source};
use crate::record::RunRecord;
use crate::selector::{Head, Selector};
use crate::store::{RunFilter, Store};

/// The database, and the files that selectors name.
#[derive(Debug)]
pub struct Sides {
    database: Option<Store>,
    /// By the path as the selector has it.
    files: BTreeMap<String, Source>,
    /// All runs: the database's, then each file's; each part oldest first.
    pub runs: Vec<RunRecord>,
}

/// Whether all of the selectors are about files, so that no database is needed.
pub fn only_files(selectors: &[Selector]) -> bool {
    selectors.iter().all(is_file)
}

fn is_file(selector: &Selector) -> bool {
    matches!(selector.head, Head::File(_))
}

impl Sides {
    /// Reads the runs that the selectors may mean of the database, if one is given, and opens each
    /// file that a selector names.
    ///
    /// # Errors
    /// What [`ImportError`] has for a file; what the store says.
    pub async fn open(
        database: Option<Store>,
        selectors: &[Selector],
    ) -> Result<Self, ImportError> {
        let mut sides = Self {
            database,
            files: BTreeMap::new(),
            runs: Vec::new(),
        };
        let stored = selectors.iter().filter(|selector| !is_file(selector));
        let stored: Vec<Selector> = stored.cloned().collect();
        if let Some(store) = sides.database.as_ref().filter(|_| !stored.is_empty()) {
            let filter = RunFilter {
                selectors: stored,
                ..RunFilter::default()
            };
            sides.runs = store.runs_without_walls(&filter).await?;
        }
        for selector in selectors {
            let Head::File(path) = &selector.head else {
                continue;
            };
            if sides.files.contains_key(path) {
                continue;
            }
            let source = Source::open(Path::new(path)).await?;
            let mut runs = source
                .store
                .runs_without_walls(&RunFilter::default())
                .await?;
            for run in &mut runs {
                run.file = Some(path.clone());
            }
            sides.runs.append(&mut runs);
            sides.files.insert(path.clone(), source);
        }
        Ok(sides)
    }

    /// The store that has a run's samples and events; none for a run that is not of these sides.
    pub fn store_of(&self, run: &RunRecord) -> Option<&Store> {
        match &run.file {
            Some(path) => self.files.get(path).map(|source| &source.store),
            None => self.database.as_ref(),
        }
    }

    /// Closes the files, and takes copies away. The database stays its owner's to close.
    pub async fn close(self) {
        for source in self.files.into_values() {
            source.close().await;
        }
    }
}
