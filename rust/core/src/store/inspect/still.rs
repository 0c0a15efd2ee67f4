//! A store file that nobody changes for a while.

use super::super::backend::{Backend, Patience, WRITER_BYTE};
use super::super::failure::Context;
use super::super::handle::{Identity, Place, identity_of};
use super::super::holder::{self, HolderNote, Tenure};
use crate::error::{Error, Lock, Result};
use redb::{BackendError, StorageBackend};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

const BYTE: (Bound<u64>, Bound<u64>) = (Bound::Included(WRITER_BYTE), Bound::Included(WRITER_BYTE));

/// How often another file may be at the path once the lock was got.
const ATTEMPTS: usize = 5;

/// The file, with its writer lock held. Readers go on.
pub(super) struct Still {
    pub(super) backend: Arc<Backend>,
    /// False for a file that may only be read: it cannot be locked.
    pub(super) locked: bool,
    /// Which file it is.
    pub(super) identity: Identity,
    /// When the lock was got.
    since: Instant,
}

impl Still {
    /// Opens the file of `place` and waits for its writer lock until the deadline; `read_only` takes a file that this
    /// user may not write, and goes without.
    pub(super) fn open(place: &Place, context: &Context, read_only: bool) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let still = Self::open_once(place, context, read_only)?;
            if still.is_in_place(place, context)? {
                return Ok(still);
            }
            // Compacted while the lock was waited for: what is locked now is a file that nobody reads any more.
        }
        Err(context.store("is replaced again and again by another program; stop it, then repeat", None))
    }

    fn open_once(place: &Place, context: &Context, read_only: bool) -> Result<Self> {
        let (file, locked) = match place.open_file(true, context) {
            Ok(file) => (file, true),
            Err(Error::Store { source: Some(error), .. })
                if read_only
                    && matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) =>
            {
                (place.open_file(false, context)?, false)
            }
            Err(error) => return Err(error),
        };
        let identity = identity_of(&file.metadata().map_err(|error| context.io(error))?);
        let note = locked.then(|| HolderNote::open(&place.home));
        let patience = Patience::new(place.lock_timeout);
        let mut backend = place.backend(file, &patience, note).map_err(|e| context.fail(e))?;
        if locked {
            backend = lock(backend, place, context)?;
        }
        Ok(Self { backend: Arc::new(backend), locked, identity, since: Instant::now() })
    }

    /// The same file once more, for what does not read it; none where it cannot be opened again.
    pub(super) fn second_file(&self, place: &Place) -> Option<File> {
        let file = place.open_file(false, &place.context()).ok()?;
        file.metadata().is_ok_and(|found| identity_of(&found) == self.identity).then_some(file)
    }

    /// A file that nobody else knows of, such as a draft.
    pub(super) fn over(path: &Path, place: &Place, context: &Context) -> Result<Self> {
        let file = File::open(path).map_err(|error| context.io(error))?;
        let identity = identity_of(&file.metadata().map_err(|error| context.io(error))?);
        let patience = Patience::new(place.lock_timeout);
        let backend = place.backend(file, &patience, None).map_err(|e| context.fail(e))?;
        Ok(Self { backend: Arc::new(backend), locked: false, identity, since: Instant::now() })
    }

    /// Whether its path still leads to it.
    pub(super) fn is_in_place(&self, place: &Place, context: &Context) -> Result<bool> {
        let found = fs::symlink_metadata(&place.path).map_err(|error| context.io(error))?;
        Ok(identity_of(&found) == self.identity)
    }

    /// How long writers have been held, in milliseconds.
    pub(super) fn held_ms(&self) -> u64 {
        if self.locked { self.since.elapsed().as_millis() as u64 } else { 0 }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if self.locked {
            let _ = self.backend.unlock_range(BYTE.0, BYTE.1);
        }
    }
}

/// Waits in the kernel, on a thread of its own that is left behind at the deadline: it gives the lock back if it gets
/// it after all.
fn lock(backend: Backend, place: &Place, context: &Context) -> Result<Backend> {
    let started = Instant::now();
    // Nobody is waited for where the lock is free, however short the wait may be.
    match backend.try_lock_range(BYTE.0, BYTE.1) {
        Ok(true) => return Ok(backend),
        Err(BackendError::Io(error)) => return Err(context.io(error)),
        Ok(false) | Err(_) => {}
    }
    // Who has the store for itself has it for long, and is named as such.
    if let Some((_, Tenure::Life)) = holder::current(&place.home) {
        return Err(context.refused(false, started.elapsed().as_millis() as u64));
    }
    let (send, answer) = mpsc::channel::<Result<Backend, BackendError>>();
    let wait = move || {
        let outcome = backend.lock_range(BYTE.0, BYTE.1).map(|()| backend);
        if let Err(mpsc::SendError(Ok(late))) = send.send(outcome) {
            let _ = late.unlock_range(BYTE.0, BYTE.1);
        }
    };
    let thread = std::thread::Builder::new().name("otolith-verify".to_owned()).spawn(wait);
    thread.map_err(|error| context.io(error))?;
    match answer.recv_timeout(place.lock_timeout) {
        Ok(Ok(backend)) => Ok(backend),
        Ok(Err(BackendError::Io(error))) => Err(context.io(error)),
        Ok(Err(error)) => Err(context.store(
            "this platform or file system has no byte-range locks; keep the memory on a local disk",
            Some(std::io::Error::other(error.to_string())),
        )),
        Err(_) => Err(context.locked(Lock::Write, started.elapsed().as_millis() as u64)),
    }
}
