//! What redb says, in our words.

use super::backend::BackendFault;
use super::holder::{self, Tenure};
use crate::error::{Error, Lock};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What errors have to name, and whether the handle can go on.
#[derive(Debug)]
pub(super) struct Context {
    /// The directory of the memory.
    pub(super) home: PathBuf,
    /// The store file.
    pub(super) path: PathBuf,
    /// Set once redb reported an error: it refuses everything afterwards, so the next call opens the file again.
    dead: AtomicBool,
}

impl Context {
    pub(super) fn new(home: &Path, path: &Path) -> Self {
        Self { home: home.to_owned(), path: path.to_owned(), dead: AtomicBool::new(false) }
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    pub(super) fn mark_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Turns an error of redb into ours; the handle is not used again.
    pub(super) fn fail(&self, error: impl Into<redb::Error>) -> Error {
        use redb::Error as Redb;
        self.mark_dead();
        match error.into() {
            Redb::Io(error) => self.io(error),
            Redb::Corrupted(detail) => self.corrupt(detail),
            Redb::TableDoesNotExist(name) => self.corrupt(format!("is a redb file, but has no table {name}")),
            error @ (Redb::TableTypeMismatch { .. }
            | Redb::TableIsMultimap(_)
            | Redb::TableIsNotMultimap(_)
            | Redb::TypeDefinitionChanged { .. }
            | Redb::LockPoisoned(_)) => self.corrupt(error.to_string()),
            Redb::UpgradeRequired(version) => self.corrupt(format!("is a redb file of the old format {version}")),
            Redb::DatabaseAlreadyOpen => self.refused(false, 0),
            Redb::LockProtocolMismatch => self.store(
                "open in a process whose otolith locks in another way; run one version of otolith, then repeat",
                None,
            ),
            Redb::RepairAborted => self.store(
                "was not closed cleanly and cannot be repaired read-only; open it writable once, for instance with `otolith status`",
                None,
            ),
            Redb::PreviousIo | Redb::DatabaseClosed => {
                self.store("an input/output error happened before; repeat the call, the file is opened anew", None)
            }
            Redb::Unsupported => {
                self.store("this platform or file system has no byte-range locks, which sharing needs; keep the memory on a local disk, or open it with store.mode = exclusive", None)
            }
            other => Error::Internal(format!("{}: {other}", self.path.display())),
        }
    }

    /// Turns an input/output error on the store file into ours.
    pub(super) fn io(&self, error: io::Error) -> Error {
        match BackendFault::of(&error) {
            Some(BackendFault::Forked) => return forked(&self.path),
            Some(BackendFault::LockTimeout(waited_ms)) => return self.locked(Lock::Write, waited_ms),
            None => {}
        }
        let message = match error.kind() {
            ErrorKind::InvalidData => return self.corrupt("is not an otolith store".to_owned()),
            ErrorKind::UnexpectedEof => return self.corrupt("ends before its own header says".to_owned()),
            ErrorKind::NotFound => return missing(&self.path),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                "no space left on the disk; what was stored before is intact. Free some, then repeat"
            }
            ErrorKind::PermissionDenied => {
                "no permission; give this user read and write access to it, then repeat"
            }
            ErrorKind::ReadOnlyFilesystem => {
                "the file system is read-only; open the memory read-only or move it"
            }
            _ => "input/output error; what was stored before is intact. Check the disk, then repeat",
        };
        self.store(message, Some(error))
    }

    /// [`Error::StoreLocked`] after `waited_ms`, naming the holder if the note does.
    pub(super) fn locked(&self, lock: Lock, waited_ms: u64) -> Error {
        let holder = holder::current(&self.home).map(|(holder, _)| holder);
        Error::StoreLocked { path: self.path.clone(), lock, holder, waited_ms }
    }

    /// [`Error::StoreLocked`] for an open that was refused for `waited_ms`; with `alone` it wanted the store to itself.
    pub(super) fn refused(&self, alone: bool, waited_ms: u64) -> Error {
        let noted = holder::current(&self.home);
        let lock = match &noted {
            Some((_, Tenure::Commit)) | None if alone => Lock::Shared,
            _ => Lock::Exclusive,
        };
        let holder = noted.filter(|(_, tenure)| *tenure == Tenure::Life).map(|(holder, _)| holder);
        Error::StoreLocked { path: self.path.clone(), lock, holder, waited_ms }
    }

    pub(super) fn corrupt(&self, detail: String) -> Error {
        Error::StoreCorrupt { path: self.path.clone(), detail }
    }

    pub(super) fn store(&self, message: &str, source: Option<io::Error>) -> Error {
        let message =
            source.as_ref().map_or_else(|| message.to_owned(), |error| format!("{message} ({error})"));
        Error::Store { path: self.path.clone(), message, source }
    }

    /// A panic below us: redb panics on some damaged pages. The handle is not used again.
    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) -> Error {
        self.mark_dead();
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        self.corrupt(format!("a page of it cannot be read ({text})"))
    }
}

pub(super) fn forked(path: &Path) -> Error {
    Error::store(path, "opened before a fork; open it again in this process")
}

/// That `count` writes were acknowledged and could not be committed.
pub(super) fn lost(path: &Path, count: usize, error: Error) -> Error {
    let writes = if count == 1 { "1 write" } else { &format!("{count} writes") };
    let message = format!(
        "{writes} that had been acknowledged could not be committed (durability = batched) and count as lost: {error}. Repeat them, then this call"
    );
    let source = if let Error::Store { source, .. } = error { source } else { None };
    Error::Store { path: path.to_owned(), message, source }
}

pub(super) fn closed(path: &Path) -> Error {
    Error::store(path, "closed; open it again")
}

pub(super) fn missing(path: &Path) -> Error {
    Error::store(
        path,
        "there is no memory here; make it with `otolith init DIR`, or look whether the path is right",
    )
}

/// The same error once more, for the next of several callers it concerns.
pub(super) fn copy(error: &Error) -> Error {
    match error {
        Error::Store { path, message, source } => {
            let source = source.as_ref().map(|error| match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            });
            Error::Store { path: path.clone(), message: message.clone(), source }
        }
        Error::StoreLocked { path, lock, holder, waited_ms } => Error::StoreLocked {
            path: path.clone(),
            lock: *lock,
            holder: holder.clone(),
            waited_ms: *waited_ms,
        },
        Error::StoreCorrupt { path, detail } => {
            Error::StoreCorrupt { path: path.clone(), detail: detail.clone() }
        }
        Error::FormatTooNew { what, found, supported } => {
            Error::FormatTooNew { what: what.clone(), found: *found, supported: *supported }
        }
        other => Error::Internal(other.to_string()),
    }
}
