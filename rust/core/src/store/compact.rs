//! A smaller file in the place of the old one, and a copy of the store elsewhere, while others read and write.
//!
//! **Compacting.** A draft is made beside the file ([`super::copy`]). Then the writer lock of the *old* file is taken:
//! nothing is committed anywhere from here on. The draft gets what is still missing, is synced, is opened and locked
//! in turn, takes the old file's name, and the directory is synced; then both locks are given back. Whoever waited for
//! the old one finds, with the lock held, another file at the path, and goes on in that one ([`super::writer`]);
//! whoever opens the new one meanwhile cannot write to it before its name is durable. So no write is ever
//! acknowledged that went to a file nobody reads any more, and a process that is killed at any point leaves the old
//! file or the new one. redb's own `compact` blocks everybody, left 1.9 times a fresh file, and leaves deleted text
//! readable in free pages.

use super::Store;
use super::backend::Patience;
use super::copy::{Copier, Progress};
use super::draft::Draft;
use super::failure::Context;
use super::handle::{self, Access, Handle, Place};
use super::maintenance::MaintenanceLock;
use super::writer::Wait;
use crate::error::{Error, Result};
use redb::ConcurrencyMode;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a backup begins anew when a compaction gets in its way.
const BACKUP_ATTEMPTS: usize = 3;

/// What a compaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// Length of the file before, in bytes.
    pub before_bytes: u64,
    /// Length of the file after, in bytes.
    pub after_bytes: u64,
    /// Records in it.
    pub records: u64,
    /// How long nobody could write.
    pub blocked: Duration,
    /// Records that changed or went while it ran: bytes of their old form may be left, until the next compaction.
    pub changed_meanwhile: u64,
    /// Drafts that processes left behind which were killed; they are removed.
    pub removed_drafts: Vec<PathBuf>,
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Records in it.
    pub records: u64,
    /// Number of the last change in it.
    pub last_sequence: u64,
}

impl Store {
    /// Puts a file without holes in the place of the present one. The bytes of what was forgotten are in no file of
    /// the store afterwards. Others read all the time and write but for the last moment; their handles go on in the
    /// new file by themselves.
    ///
    /// # Errors
    /// [`Error::StoreCorrupt`] for a row that cannot be read: it is not left out without a word, repair comes first;
    /// [`Error::StoreLocked`] when the writer lock is not free until the deadline; [`Error::Store`] when another
    /// process compacts or repairs, for a full disk, and where files cannot be told apart. The old file is in its
    /// place then.
    pub fn compact(&self, wait: &Wait<'_>, progress: &mut Progress<'_>) -> Result<Compacted> {
        self.shared.check_usable()?;
        if self.shared.read_only {
            return Err(Error::ReadOnly { path: self.shared.place.path.clone() });
        }
        if self.shared.in_memory {
            #[allow(clippy::redundant_closure_for_method_calls)]
            // the method's path is not general enough to compile
            let records = self.read(|view| view.count())?;
            let nothing = Duration::ZERO;
            let removed_drafts = Vec::new();
            return Ok(Compacted {
                before_bytes: 0,
                after_bytes: 0,
                records,
                blocked: nothing,
                changed_meanwhile: 0,
                removed_drafts,
            });
        }
        // A newer version may have tables that this one would leave out.
        self.shared.handle()?.check_writable_format()?;
        let place = &self.shared.place;
        let lock = MaintenanceLock::take(place)?;
        let removed_drafts = lock.remove_stale_drafts(place)?;
        let before_bytes = self.file_len()?;
        let mut draft = Draft::create(place)?;
        let mut copier = Copier::copy(self, &draft, progress)?;
        draft.tidy()?;
        copier.catch_up(self, &draft, &mut || wait.interrupted.is_some_and(|interrupted| interrupted()))?;
        let there = place.again();
        let access = if self.shared.is_exclusive() { Access::Alone } else { Access::Write };
        // Whoever gives up waiting takes the draft back, so that it is not left in the queue.
        let work = Arc::new(Mutex::new(Some((draft, copier))));
        let queued = Arc::clone(&work);
        // Alone: what another job wrote in the same transaction would go to the old file.
        let swapped = self.write_alone(wait, move |view| {
            let work = queued.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (mut draft, mut copier) = work.ok_or(Error::Interrupted)?;
            let locked = Instant::now();
            copier.settle(view, &draft, view.generation()? + 1)?;
            draft.finish()?;
            let kept = swap(&draft, &there, access)?;
            Ok((kept, view.count()?, locked.elapsed(), copier.outdated()))
        });
        drop(work.lock().unwrap_or_else(PoisonError::into_inner).take());
        let (kept, records, blocked, changed_meanwhile) = swapped?;
        self.shared.go_on_in(kept);
        let after_bytes = self.file_len()?;
        Ok(Compacted { before_bytes, after_bytes, records, blocked, changed_meanwhile, removed_drafts })
    }

    /// Writes the state of one moment to `dest`, a file that must not exist; others go on reading and writing.
    ///
    /// # Errors
    /// [`Error::Store`] when `dest` exists or cannot be written; [`Error::StoreCorrupt`] for a row that cannot be
    /// read. Nothing is at `dest` then.
    pub fn backup(&self, dest: &Path, progress: &mut Progress<'_>) -> Result<BackedUp> {
        self.shared.check_usable()?;
        let taken = || Error::store(dest, "is there already; a backup replaces nothing, choose another name");
        if fs::symlink_metadata(dest).is_ok() {
            return Err(taken());
        }
        // A newer version may have tables that this one would leave out.
        self.shared.handle()?.check_writable_format()?;
        let dir = dest.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let place = self.shared.place.at(dir, dest);
        let mut attempt = 1;
        loop {
            match self.try_backup(&place, progress) {
                Err(Error::Conflict { .. }) if attempt < BACKUP_ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    fn try_backup(&self, place: &Place, progress: &mut Progress<'_>) -> Result<BackedUp> {
        let mut draft = Draft::create(place)?;
        let mut copier = Copier::copy(self, &draft, progress)?;
        copier.catch_up(self, &draft, &mut || false)?;
        let (records, last_sequence) = self.read(|view| {
            copier.settle(view, &draft, view.generation()?)?;
            Ok((view.count()?, view.last_sequence()?))
        })?;
        draft.tighten()?;
        draft.finish()?;
        let context = Context::new(&place.home, &place.path);
        let bytes = fs::metadata(draft.path()).map_err(|error| context.io(error))?.len();
        if !handle::publish(draft.path(), &place.path).map_err(|error| context.io(error))? {
            return Err(Error::store(
                &place.path,
                "was made by somebody else meanwhile; choose another name",
            ));
        }
        Ok(BackedUp { bytes, records, last_sequence })
    }
}

/// Gives a finished draft the name of the store file. The caller holds the writer lock of the file that is there. Who
/// has that one to itself gets the new one in the same way: there is no moment in which others could open it.
pub(super) fn swap(draft: &Draft, place: &Place, access: Access) -> Result<Option<Handle>> {
    let context = place.context();
    let old = fs::symlink_metadata(&place.path).map_err(|error| context.io(error))?;
    if handle::identity_of(&old).is_none() {
        return Err(context.store(
            "this system does not tell one file from another, so others would go on in the old one; export and import instead",
            None,
        ));
    }
    let file = OpenOptions::new().read(true).write(true).open(draft.path());
    let file = file.map_err(|error| context.io(error))?;
    keep_owner(&file, &old, &context)?;
    if access == Access::Alone {
        let handle = place.open_over(file, access, None)?;
        fs::rename(draft.path(), &place.path).map_err(|error| context.io(error))?;
        handle::sync_parent(&place.path).map_err(|error| context.io(error))?;
        return Ok(Some(handle));
    }
    // Whoever opens the new file from now on waits for its lock until its name is durable.
    let backend = place.backend(file, &Patience::new(place.lock_timeout), None);
    let db =
        backend.and_then(|backend| place.builder(ConcurrencyMode::MultiWriter).create_with_backend(backend));
    let db = db.map_err(|e| context.fail(e))?;
    let locked = db.begin_write().map_err(|e| context.fail(e))?;
    fs::rename(draft.path(), &place.path).map_err(|error| context.io(error))?;
    handle::sync_parent(&place.path).map_err(|error| context.io(error))?;
    drop(locked);
    Ok(None)
}

/// Gives the new file the owner and the permissions of the old one: who could use the memory can use it still.
#[cfg(unix)]
fn keep_owner(file: &File, old: &fs::Metadata, context: &Context) -> Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let new = file.metadata().map_err(|error| context.io(error))?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid())
        && let Err(error) = fchown(file, Some(old.uid()), Some(old.gid()))
    {
        let message = "belongs to another user, who could not use the new file; let that user do it";
        return Err(context.store(message, Some(error)));
    }
    file.set_permissions(old.permissions()).map_err(|error| context.io(error))
}

#[cfg(not(unix))]
fn keep_owner(file: &File, old: &fs::Metadata, context: &Context) -> Result<()> {
    file.set_permissions(old.permissions()).map_err(|error| context.io(error))
}
