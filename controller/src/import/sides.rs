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
    /// The runs that a selector may mean, without their wall times: the database's, then each
    /// file's; each part oldest first.
    pub runs: Vec<RunRecord>,
}

/// Whether all of the selectors are about files, so that no database is needed.
pub fn only_files(selectors: &[Selector]) -> bool {
    let is_file = |selector: &Selector| matches!(selector.head, Head::File(_));
    selectors.iter().all(is_file)
}

impl Sides {
    /// Reads the runs of the database, if one is given, and opens each file that a selector names.
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
        if let Some(store) = &sides.database {
            let wanted = RunFilter {
                selectors: selectors.to_vec(),
                ..RunFilter::default()
            };
            sides.runs = store.runs_without_walls(&wanted).await?;
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

    /// The database, if there is one.
    pub fn database(&self) -> Option<&Store> {
        self.database.as_ref()
    }

    /// The store that has a run's samples and events; none for a run that is not of these sides.
    pub fn store_of(&self, run: &RunRecord) -> Option<&Store> {
        match &run.file {
            Some(path) => self.files.get(path).map(|source| &source.store),
            None => self.database.as_ref(),
        }
    }

    /// Closes all, and takes copies away.
    pub async fn close(self) {
        if let Some(store) = self.database {
            store.close().await;
        }
        for source in self.files.into_values() {
            source.close().await;
        }
    }
}
