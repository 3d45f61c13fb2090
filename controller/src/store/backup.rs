//! Copies of the database, consistent while others write to it.

use std::path::Path;

use super::{Store, StoreError};

impl Store {
    /// Writes a copy of all there is at this moment into a new or empty file. Writers go on
    /// meanwhile: what they store after that moment is not in it.
    ///
    /// # Errors
    /// What SQLite says of either file.
    pub async fn copy_to(&self, copy: &Path) -> Result<(), StoreError> {
        let Some(name) = copy.to_str() else {
            return Err(StoreError::Other {
                path: copy.to_path_buf(),
                message: "the path is not UTF-8".to_owned(),
            });
        };
        sqlx::query("vacuum into ?")
            .bind(name)
            .execute(&self.pool)
            .await
            .map_err(|error| self.error(&error))?;
        // SQLite leaves it to the system when the copy reaches the disk.
        std::fs::File::open(copy)
            .and_then(|file| file.sync_all())
            .map_err(|error| StoreError::Other {
                path: copy.to_path_buf(),
                message: error.to_string(),
            })
    }
}
