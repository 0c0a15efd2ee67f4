//! The storage redb works on: its own file backend behind checks of ours.
//!
//! - Nothing works in a forked child ([`super::fork`]).
//! - Every lock wait is bounded but the one for the writer byte: that one blocks in the kernel, which hands it out
//!   nearly in order of arrival (polling starved waiters for over a second in tests); the writer thread does it,
//!   and callers wait for that thread with a deadline. Who finds the byte free and nobody waiting takes it in passing.
//!   Everything else is held for microseconds, unless its holder
//!   was stopped.
//! - The holder note follows the writer byte.
//! - Tests inject faults.

use super::holder::{HolderNote, Tenure};
use crate::files::fork::{self, Registration};
use redb::backends::{FileBackend, InMemoryBackend};
use redb::{BackendError, DatabaseError, StorageBackend};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[cfg(test)]
use super::crash_tests::RecordedFile;
#[cfg(test)]
use super::fault::FaultPlan;

/// The byte redb locks for a write transaction in multi-writer mode (a test fails should that ever change).
pub(super) const WRITER_BYTE: u64 = 1 << 62;

/// Held, shared, by everybody who waits for the writer byte. The kernel hands a byte that comes free to who asks first,
/// so who takes it in passing looks here before: a loop of such writes would starve the others.
pub(super) const QUEUE_BYTE: u64 = 1 << 61;

/// How long a write waits in passing for a lock that is held for moments, in milliseconds. Its caller has a deadline of
/// its own, which the writer thread keeps.
const IN_PASSING_MS: u64 = 20;

thread_local! {
    static IN_PASSING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `begin`, in which the writer byte counts as taken also while anybody waits for it.
pub(super) fn in_passing<R>(begin: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            IN_PASSING.set(false);
        }
    }
    IN_PASSING.set(true);
    let _reset = Reset;
    begin()
}

/// Faults of the backend itself, carried through redb inside an [`io::Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BackendFault {
    /// Used in a process that did not open it.
    #[error("used after a fork")]
    Forked,
    /// A lock that is held for moments only did not come free.
    #[error("a short lock was not free after {0} ms")]
    LockTimeout(u64),
}

impl BackendFault {
    fn error(self) -> io::Error {
        let kind = match self {
            Self::Forked => io::ErrorKind::PermissionDenied,
            Self::LockTimeout(_) => io::ErrorKind::TimedOut,
        };
        io::Error::new(kind, self)
    }

    /// The fault inside `error`, if it is one of ours.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Self>().copied()
    }
}

#[derive(Debug)]
enum Medium {
    File(FileBackend),
    Memory(InMemoryBackend),
    #[cfg(test)]
    Recorded(RecordedFile),
}

#[cfg(test)]
impl Medium {
    /// The same with a log of its changes, if the plan wants one.
    fn recorded(self, plan: Option<&FaultPlan>) -> Self {
        match (self, plan.and_then(|plan| plan.recorder.clone())) {
            (Self::File(file), Some(recorder)) => Self::Recorded(RecordedFile { file, recorder }),
            (medium, _) => medium,
        }
    }
}

/// How long short locks are waited for, in milliseconds; shortened when the handle is closed.
#[derive(Debug)]
pub(super) struct Patience(AtomicU64);

impl Patience {
    pub(super) fn new(patience: Duration) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(patience.as_millis() as u64)))
    }

    /// Waits no longer than `bound` from now on.
    pub(super) fn shorten(&self, bound: Duration) {
        self.0.fetch_min(bound.as_millis() as u64, Ordering::Relaxed);
    }

    fn millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Backend {
    // First, since fields are dropped in order: the registration must go before the descriptor is closed.
    _registration: Option<Registration>,
    medium: Medium,
    pid: u32,
    patience: Arc<Patience>,
    note: Option<HolderNote>,
    /// Whether the note says that this handle has the writer byte.
    noted: AtomicBool,
    #[cfg(test)]
    faults: Option<Arc<FaultPlan>>,
}

/// Sends one call to the medium.
macro_rules! on_medium {
    ($self:ident, $medium:ident => $call:expr) => {
        match &$self.medium {
            Medium::File($medium) => $call,
            Medium::Memory($medium) => $call,
            #[cfg(test)]
            Medium::Recorded($medium) => $call,
        }
    };
}

impl Backend {
    /// Over an open file; with a `note` for handles that write.
    pub(super) fn file(
        file: File,
        patience: Arc<Patience>,
        note: Option<HolderNote>,
        #[cfg(test)] faults: Option<Arc<FaultPlan>>,
    ) -> Result<Self, DatabaseError> {
        #[cfg(unix)]
        let registration = Some(fork::register(std::os::fd::AsRawFd::as_raw_fd(&file)));
        #[cfg(not(unix))]
        let registration = None;
        let medium = Medium::File(FileBackend::new(file)?);
        #[cfg(test)]
        let medium = medium.recorded(faults.as_deref());
        Ok(Self {
            _registration: registration,
            medium,
            pid: fork::process_id(),
            patience,
            note,
            noted: AtomicBool::new(false),
            #[cfg(test)]
            faults,
        })
    }

    /// In memory.
    pub(super) fn memory(#[cfg(test)] faults: Option<Arc<FaultPlan>>) -> Self {
        Self {
            _registration: None,
            medium: Medium::Memory(InMemoryBackend::new()),
            pid: fork::process_id(),
            patience: Patience::new(Duration::ZERO),
            note: None,
            noted: AtomicBool::new(false),
            #[cfg(test)]
            faults,
        }
    }

    fn check_process(&self) -> io::Result<()> {
        if self.pid == fork::process_id() {
            return Ok(());
        }
        fork::null_inherited();
        Err(BackendFault::Forked.error())
    }

    fn wait(&self, mut attempt: impl FnMut() -> Result<bool, BackendError>) -> Result<(), BackendError> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(20);
        while !attempt()? {
            let waited = started.elapsed().as_millis() as u64;
            let patience = self.patience.millis();
            if waited >= if IN_PASSING.get() { patience.min(IN_PASSING_MS) } else { patience } {
                return Err(BackendError::Io(BackendFault::LockTimeout(waited).error()));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        Ok(())
    }

    fn note_taken(&self, start: Bound<u64>) {
        if let Some(note) = &self.note
            && is_writer_byte(start)
        {
            note.taken(Tenure::Commit);
            self.noted.store(true, Ordering::Release);
        }
    }

    /// Whether anybody waits for the writer byte, as far as can be told.
    fn is_awaited(&self) -> bool {
        let byte = Bound::Included(QUEUE_BYTE);
        on_medium!(self, medium => medium.query_lock_range(byte, byte)).unwrap_or(true)
    }

    /// Waits for the writer byte for as long as it takes.
    fn queue_for(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if on_medium!(self, medium => medium.try_lock_range(start, end))? {
            return Ok(());
        }
        let byte = Bound::Included(QUEUE_BYTE);
        // Where that cannot be said, the byte is waited for all the same.
        let said = on_medium!(self, medium => medium.try_lock_shared_range(byte, byte)).unwrap_or(false);
        let locked = on_medium!(self, medium => medium.lock_range(start, end));
        if said {
            // A failure leaves the others queueing, which is slower and no more; the lock itself may be held by now.
            let _ = on_medium!(self, medium => medium.unlock_range(byte, byte));
        }
        locked
    }

    /// Says that the writer byte is given back, if it was held: redb lets go of it by closing, too.
    fn note_released(&self) {
        if let Some(note) = &self.note
            && self.noted.swap(false, Ordering::AcqRel)
        {
            note.released();
        }
    }
}

fn is_writer_byte(start: Bound<u64>) -> bool {
    start == Bound::Included(WRITER_BYTE)
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.check_process()?;
        on_medium!(self, medium => medium.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_process()?;
        #[cfg(test)]
        FaultPlan::strike(self.faults.as_ref(), super::fault::Call::Read)?;
        on_medium!(self, medium => medium.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_process()?;
        #[cfg(test)]
        FaultPlan::strike(self.faults.as_ref(), super::fault::Call::SetLen)?;
        on_medium!(self, medium => medium.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_process()?;
        #[cfg(test)]
        FaultPlan::strike(self.faults.as_ref(), super::fault::Call::Sync)?;
        on_medium!(self, medium => medium.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_process()?;
        #[cfg(test)]
        FaultPlan::strike(self.faults.as_ref(), super::fault::Call::Write)?;
        on_medium!(self, medium => medium.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        if self.pid != fork::process_id() {
            // The locks are the parent's.
            fork::null_inherited();
            return Ok(());
        }
        self.note_released();
        on_medium!(self, medium => medium.close())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.check_process()?;
        if IN_PASSING.get() && is_writer_byte(start) && self.is_awaited() {
            return Ok(false);
        }
        let taken = on_medium!(self, medium => medium.try_lock_range(start, end))?;
        if taken {
            self.note_taken(start);
        }
        Ok(taken)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.check_process()?;
        on_medium!(self, medium => medium.try_lock_shared_range(start, end))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.check_process()?;
        if is_writer_byte(start) {
            self.queue_for(start, end)?;
            self.note_taken(start);
            return Ok(());
        }
        self.wait(|| on_medium!(self, medium => medium.try_lock_range(start, end)))
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.check_process()?;
        self.wait(|| on_medium!(self, medium => medium.try_lock_shared_range(start, end)))
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.check_process()?;
        if is_writer_byte(start) {
            self.note_released();
        }
        on_medium!(self, medium => medium.unlock_range(start, end))
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.check_process()?;
        on_medium!(self, medium => medium.query_lock_range(start, end))
    }
}
