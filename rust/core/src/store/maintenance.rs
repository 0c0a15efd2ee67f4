//! The lock of those who replace the store file: at most one compaction or repair at a time.
//!
//! `<home>/locks/maintenance` is a file whose lock belongs to the open descriptor: it ends with the process that has
//! it, however that ends. Nobody waits for it.

use super::failure::Context;
use super::handle::Place;
use crate::error::{Error, Result};
use crate::files::{LockFile, make_dir};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Held until dropped.
#[derive(Debug)]
pub(super) struct MaintenanceLock {
    _file: LockFile,
}

/// A draft is left alone for so long.
const FRESH: Duration = Duration::from_mins(1);

impl MaintenanceLock {
    /// Takes the lock of `place`.
    ///
    /// # Errors
    /// [`Error::Store`] when another process has it, or when it cannot be made.
    pub(super) fn take(place: &Place) -> Result<Self> {
        let dir = place.home.join("locks");
        let path = dir.join("maintenance");
        let context = Context::new(&place.home, &path);
        make_dir(&dir, &place.home).map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => Error::store(&dir, "is not a directory; remove it, then repeat"),
            _ => context.io(error),
        })?;
        match LockFile::try_take(&path, &place.home, |error| context.io(error))? {
            Some(file) => Ok(Self { _file: file }),
            None => Err(context.store(
                "it is being compacted or repaired already, by another process or another thread; repeat when that is done",
                None,
            )),
        }
    }

    /// Removes drafts that processes left behind which were killed: who makes a large one has this lock, and who makes a
    /// small one does not take a minute. Process numbers tell nothing: they come again, in a container at once. Returns
    /// which.
    #[allow(clippy::unused_self)] // only who has the lock may do it
    pub(super) fn remove_stale_drafts(&self, place: &Place) -> Result<Vec<PathBuf>> {
        let context = Context::new(&place.home, &place.home);
        let mut removed = Vec::new();
        for entry in fs::read_dir(&place.home).map_err(|error| context.io(error))? {
            let entry = entry.map_err(|error| context.io(error))?;
            if !entry.file_name().to_str().is_some_and(is_draft) {
                continue;
            }
            let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
            let age = found.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            if found.is_file() && age.is_some_and(|age| age >= FRESH) {
                fs::remove_file(entry.path())
                    .map_err(|error| Context::new(&place.home, &entry.path()).io(error))?;
                removed.push(entry.path());
            }
        }
        removed.sort();
        Ok(removed)
    }
}

/// Whether a file has the name of a draft: `.episodes.redb.PID-TIME-COUNT.new`.
fn is_draft(name: &str) -> bool {
    let numbers = name.strip_prefix(".episodes.redb.").and_then(|name| name.strip_suffix(".new"));
    numbers.is_some_and(|numbers| numbers.split('-').all(|number| number.parse::<u64>().is_ok()))
}
