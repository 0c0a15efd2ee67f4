//! Care of the store file.

use super::Engine;
use crate::error::{Error, Result};
use crate::store::{BackedUp, Compacted, Progress, Wait};
use std::path::{Path, PathBuf};

impl Engine {
    /// Puts a file without holes in the place of the present one, while others read and write. Then the index on disk is
    /// made of one segment, without the words of what was forgotten, and gets the graph over its vectors if these are many.
    /// Gives the directory that is free of those, None
    /// when there is no index or when it cannot be done now, which is told by [`Engine::info`].
    ///
    /// # Errors
    /// As [`crate::store::Store::compact`]; [`Error::Interrupted`] also while the index is waited for, the store being
    /// compacted then.
    pub fn compact(
        &self,
        wait: &Wait<'_>,
        progress: &mut Progress<'_>,
    ) -> Result<(Compacted, Option<PathBuf>)> {
        let compacted = self.store.compact(wait, progress)?;
        // After the store: what was forgotten before is in neither file.
        let clean = match self.made_and_compacted(wait) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => {
                self.upkeep.notice(format!("the index was not compacted: {error}"));
                None
            }
            Ok(clean) => clean,
        };
        match self.build_graphs(wait, progress) {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) => self.upkeep.notice(format!("the graph over the vectors was not built: {error}")),
            Ok(()) => {}
        }
        Ok((compacted, clean))
    }

    /// Makes the index that nobody has asked for yet, of the compacted store: made later, with the graph, it would pass
    /// for one that holds what was forgotten.
    pub(super) fn made_and_compacted(&self, wait: &Wait<'_>) -> Result<Option<PathBuf>> {
        drop(self.served()?);
        self.file_backlog();
        self.compact_index(wait)
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
