//! Care of the store file.

use super::Engine;
use crate::error::{Error, Result};
use crate::store::{BackedUp, Compacted, Progress, Wait};
use std::path::Path;

impl Engine {
    /// Puts a file without holes in the place of the present one, while others read and write.
    ///
    /// # Errors
    /// As [`crate::store::Store::compact`].
    pub fn compact(&self, wait: &Wait<'_>, progress: &mut Progress<'_>) -> Result<Compacted> {
        self.store.compact(wait, progress)
    }

    /// Writes the whole store as it is at one moment to `dest`, while others read and write.
    ///
    /// # Errors
    /// As [`crate::store::Store::backup`]; [`Error::InvalidInput`] for a handle that does not see all of it.
    pub fn backup(&self, dest: &Path, progress: &mut Progress<'_>) -> Result<BackedUp> {
        let scope = &self.options.scope;
        if !scope.is_root() {
            let message = format!(
                "this handle sees {scope} only, a backup holds everything; open the memory without a scope"
            );
            return Err(Error::invalid("scope", message));
        }
        self.store.backup(dest, progress)
    }
}
