//! Lock files: empty, locked by a process for as long as it does what only one may do at a time.

use super::fork::{self, Registration};
use super::owner;
use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Held until dropped. The lock belongs to the open descriptor, so it ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct LockFile {
    // Before the file: the registration must go before the descriptor is closed.
    _registration: Option<Registration>,
    file: File,
    pid: u32,
}

impl Drop for LockFile {
    /// Closing alone would leave the lock to a child that another thread is just starting, until that begins its own
    /// program: tests under load met a lock that nobody had any more.
    fn drop(&mut self) {
        if self.pid == fork::process_id() {
            let _ = self.file.unlock();
        }
    }
}

impl LockFile {
    /// Takes the lock of the file at `path` in `home`, which is made if need be. None when somebody has it: nobody
    /// waits.
    ///
    /// # Errors
    /// [`Error::Store`] when there is something else than a file of that name (the home may have come with a cloned
    /// repository: a link in it may lead anywhere); what `failed` makes of an error of the operating system.
    pub(crate) fn try_take(
        path: &Path,
        home: &Path,
        failed: impl Fn(io::Error) -> Error,
    ) -> Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => {
                return Err(Error::store(path, "is a symbolic link; remove it, then repeat"));
            }
            Ok(found) if !found.is_file() => {
                return Err(Error::store(path, "is not a regular file; remove it, then repeat"));
            }
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            options.mode(0o600).custom_flags(flags.bits().cast_signed());
        }
        let file = match options.clone().create_new(true).open(path) {
            Ok(file) => {
                owner::give(&file, home);
                file
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path).map_err(&failed)?,
            Err(error) => return Err(failed(error)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        #[cfg(unix)]
        let registration = Some(fork::register(std::os::fd::AsRawFd::as_raw_fd(&file)));
        #[cfg(not(unix))]
        let registration = None;
        Ok(Some(Self { _registration: registration, file, pid: fork::process_id() }))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_lock_that_was_given_back_is_free_though_others_start_processes() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let done = AtomicBool::new(false);
        let missed = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        std::process::Command::new("true").status().unwrap();
                    }
                });
            }
            let take = || LockFile::try_take(&path, home.path(), |error| Error::Internal(error.to_string()));
            let missed = (0..2_000).filter(|_| !matches!(take(), Ok(Some(_)))).count();
            done.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0);
        let held = LockFile::try_take(&path, home.path(), |error| Error::Internal(error.to_string()));
        let other = LockFile::try_take(&path, home.path(), |error| Error::Internal(error.to_string()));
        assert!(matches!((held, other), (Ok(Some(_)), Ok(None))));
    }
}
