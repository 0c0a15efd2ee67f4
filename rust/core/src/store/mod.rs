//! The store: one redb file that any number of processes read and write. The only place that names redb.
//!
//! [`Store`] is a handle on `<home>/episodes.redb`. [`Store::read`] gives a [`ReadView`] of one snapshot,
//! [`Store::write`] runs a job with a [`WriteView`] in a write transaction on the handle's writer thread. A handle
//! that only reads opens the file read-only, starts no thread and is never stopped by a writer that hangs; it
//! opens the file for writing at its first write, or when the last writer died and the file has to be repaired.
//!
//! What can be relied on: a write that returned is on disk ([`Durability::Batched`]: soon); one that failed left
//! nothing, unless the error says that its outcome is unknown or the disk failed during its commit. Damage is a typed error, never a wrong answer. The layout of the file is described
//! in the tables module, the envelope around every value in the seal module.

mod backend;
mod compact;
mod copy;
#[cfg(test)]
mod crash_tests;
mod draft;
mod failure;
#[cfg(test)]
mod fault;
mod file_system;
#[cfg(test)]
mod format_tests;
mod group;
mod handle;
mod holder;
mod inspect;
mod maintenance;
#[cfg(test)]
mod mode_tests;
mod parts;
#[cfg(test)]
mod passing_tests;
mod rows;
mod seal;
mod sealed;
#[cfg(test)]
mod strange_homes;
mod tables;
#[cfg(test)]
mod tests;
mod view;
mod write_view;
mod writer;

pub use compact::{BackedUp, Compacted};
pub use copy::Progress;
pub use file_system::{FileSystem, file_system};
pub use inspect::{Loss, Problem, ProblemKind, Repaired, Verified};
pub use rows::{
    Change, Embedded, EmbedderRow, EmbeddingRow, GIVEN, NO_EMBEDDER, Operation, REPLACED, RecordKind,
};
pub use tables::{FORMAT_VERSION, OLDEST_READER};
pub use view::ReadView;
pub use write_view::WriteView;
pub use writer::Wait;

use crate::error::{Error, Holder, Result};
use crate::files::fork;
use failure::Context;
use handle::{Access, Handle, Lineage, OpenError, Place, Refusal};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use view::Source;
use writer::Writer;

/// Name of the store file within a home.
pub const STORE_FILE: &str = "episodes.redb";
/// How long a writer waits for the lock unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long closing waits for the writer thread before it is left behind.
const CLOSE_BOUND: Duration = Duration::from_secs(5);

/// The same when no caller waits for a write any more.
const IDLE_CLOSE_BOUND: Duration = Duration::from_millis(500);

/// Who holds the write lock of the store in `home` now, and whether it keeps the store to itself, as far as its note
/// tells; asks no lock and opens no store.
#[must_use]
pub fn holder(home: &Path) -> Option<(Holder, bool)> {
    holder::current(home).map(|(holder, tenure)| (holder, tenure == holder::Tenure::Life))
}

/// The longest wait of an open that is refused because a handle wants the store to itself: such a handle lives long, so
/// this is for one that is about to close.
const HANDOVER: Duration = Duration::from_secs(1);

/// Who may use a store at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Any number of processes and handles.
    #[default]
    Shared,
    /// This handle alone: nobody else reads or writes while it is open, and a commit costs one sync instead of two.
    Exclusive,
}

/// When a write returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is on disk.
    #[default]
    Full,
    /// When it has run in a transaction, which is committed at the latest 50 ms after it began, at a read through the
    /// same handle, at [`Store::flush`] and at [`Store::close`]. A crash loses what was not committed, the latest
    /// writes and never half of one. Other processes wait for the lock that long.
    Batched,
}

/// What to do about a file system that other machines reach as well: locks and caches do not hold across machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// Refuse to open.
    #[default]
    Refuse,
    /// Open; the caller answers for it that one machine at a time uses the store.
    Allow,
}

/// Makes a setting readable from the words it is given with.
macro_rules! from_word {
    ($setting:ident, $field:literal, $($word:literal => $value:ident),+) => {
        impl FromStr for $setting {
            type Err = Error;

            fn from_str(word: &str) -> Result<Self> {
                match word {
                    $($word => Ok(Self::$value),)+
                    _ => Err(Error::invalid(
                        $field,
                        format!("{word:?} is not one of {}", [$($word),+].join(", ")),
                    )),
                }
            }
        }
    };
}

from_word!(Mode, "mode", "shared" => Shared, "exclusive" => Exclusive);
from_word!(Durability, "durability", "full" => Full, "batched" => Batched);
from_word!(Network, "network", "refuse" => Refuse, "allow" => Allow);

/// How to open a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// Make the home and the store if they are not there.
    pub create: bool,
    /// Never write a byte; writing is refused with [`Error::ReadOnly`].
    pub read_only: bool,
    /// Longest wait for other processes, in opening, reading and writing. 30 s.
    pub lock_timeout: Duration,
    /// Memory for cached pages, in bytes. 12 MiB: a commit of another process empties it anyway.
    pub cache_bytes: usize,
    /// Who may use it at the same time; a read-only handle never keeps others out.
    pub mode: Mode,
    /// When a write returns.
    pub durability: Durability,
    /// Whether a network file system will do.
    pub network: Network,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            create: false,
            read_only: false,
            lock_timeout: LOCK_TIMEOUT,
            cache_bytes: 12 << 20,
            mode: Mode::Shared,
            durability: Durability::Full,
            network: Network::Refuse,
        }
    }
}

/// A handle on one store; share it in an `Arc`. Dropping it closes it.
pub struct Store {
    // Not dropped in a forked child: its locks and threads are the parent's.
    shared: ManuallyDrop<Arc<Shared>>,
}

/// What the handle's callers and its writer thread have in common.
struct Shared {
    place: Place,
    read_only: bool,
    durability: Durability,
    in_memory: bool,
    pid: u32,
    /// The file this store was last opened on; reopening must find it, or one that goes on from it.
    lineage: Mutex<Option<Lineage>>,
    /// What is read from now: read-only until the first write, the writer thread's own afterwards.
    current: Mutex<Option<Arc<Handle>>>,
    writer: Mutex<Option<Writer>>,
    closed: AtomicBool,
    /// Callers that wait for a write.
    waiting: AtomicUsize,
    /// Held by a caller whose write runs on its own thread.
    passing: Mutex<()>,
    /// Set when closing gave up on the writer thread: it must not write any more.
    abandoned: AtomicBool,
    /// Writes that were acknowledged and are not committed yet.
    unflushed: AtomicUsize,
    /// How many acknowledged writes were lost, and why, until somebody was told.
    lost: Mutex<Option<(usize, Error)>>,
}

impl Store {
    /// Opens `<home>/episodes.redb`.
    ///
    /// # Errors
    /// [`Error::Store`] when there is none (and `create` is not set), for a directory in its place, missing
    /// permission, a full disk; [`Error::StoreCorrupt`] for a file that is no store; [`Error::FormatTooNew`] for a
    /// newer layout; [`Error::StoreLocked`] when it has to be repaired and a process keeps the lock, and beside handles
    /// of another [`Mode`]. Nothing that is there is ever deleted or rewritten.
    pub fn open(home: &Path, options: &StoreOptions) -> Result<Self> {
        Self::open_place(Place::of(home, options), options)
    }

    fn open_place(place: Place, options: &StoreOptions) -> Result<Self> {
        if options.network == Network::Refuse {
            place.refuse_network()?;
        }
        if options.create && !options.read_only {
            guarded(&place, || place.create())?;
        }
        let store = Self::assemble(place, options.read_only, options.durability, None);
        store.shared.handle()?;
        Ok(store)
    }

    /// A store that lives in memory and is gone when it is dropped.
    pub fn in_memory() -> Result<Self> {
        let name = Path::new(":memory:");
        let place = Place {
            home: name.to_owned(),
            path: name.to_owned(),
            cache_bytes: StoreOptions::default().cache_bytes,
            lock_timeout: LOCK_TIMEOUT,
            mode: Mode::Shared,
            #[cfg(test)]
            faults: None,
            #[cfg(test)]
            file_system: None,
        };
        let handle = guarded(&place, || place.in_memory())?;
        Ok(Self::assemble(place, false, Durability::Full, Some(handle)))
    }

    fn assemble(place: Place, read_only: bool, durability: Durability, memory: Option<Handle>) -> Self {
        let shared = Shared {
            place,
            read_only,
            durability,
            in_memory: memory.is_some(),
            pid: fork::process_id(),
            lineage: Mutex::new(None),
            current: Mutex::new(memory.map(Arc::new)),
            writer: Mutex::new(None),
            closed: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            passing: Mutex::new(()),
            abandoned: AtomicBool::new(false),
            unflushed: AtomicUsize::new(0),
            lost: Mutex::new(None),
        };
        Self { shared: ManuallyDrop::new(Arc::new(shared)) }
    }

    /// Runs `job` on a snapshot of the last commit of any process, after [`Store::flush`].
    ///
    /// # Errors
    /// Those of `job` and of [`Store::flush`], and those of the store: closed, forked, replaced, damaged, or locked for
    /// too long.
    pub fn read<R>(&self, job: impl FnOnce(&ReadView<'_>) -> Result<R>) -> Result<R> {
        self.flush(&self.wait())?;
        let handle = self.shared.handle()?;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let tables = handle.begin_read()?;
            job(&ReadView { source: Source::Snapshot(&tables), context: &handle.context })
        }));
        let outcome = outcome.unwrap_or_else(|panic| Err(handle.context.panicked(&*panic)));
        self.shared.forget_dead(&handle);
        outcome
    }

    /// Runs `job` in a write transaction and returns when it is on disk, or with [`Durability::Batched`] when it has run;
    /// on the writer thread, so that it can be given up while it is waited for, or on this one when nobody else writes.
    ///
    /// Jobs that come close together share a transaction; if one of them fails after it wrote, the others are run again
    /// without it, so a job must be able to run twice and do the same. A job that fails leaves nothing behind. Do
    /// nothing slow in it, and do not call `write` from it.
    ///
    /// # Errors
    /// Those of `job`; an [`Error::Store`] as of [`Store::flush`], and the job does not run; [`Error::StoreLocked`] at the deadline and [`Error::Interrupted`] when `wait` says so, and the
    /// job will not run; [`Error::ReadOnly`]; an [`Error::Store`] that says so when the outcome is unknown.
    pub fn write<T, F>(&self, wait: &Wait<'_>, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteView<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(wait, false, job)
    }

    /// As [`Store::write`], in a transaction that no other job shares.
    fn write_alone<T, F>(&self, wait: &Wait<'_>, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteView<'_>) -> Result<T> + Send + 'static,
    {
        self.submit(wait, true, job)
    }

    fn submit<T, F>(&self, wait: &Wait<'_>, alone: bool, job: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteView<'_>) -> Result<T> + Send + 'static,
    {
        self.shared.check_usable()?;
        if self.shared.read_only {
            return Err(Error::ReadOnly { path: self.shared.place.path.clone() });
        }
        if writer::on_writer_thread() {
            return Err(Error::Internal("a write job waits for another write".to_owned()));
        }
        self.shared.tell_lost()?;
        writer::submit(&self.shared, wait, alone, job)
    }

    /// Returns when all that was acknowledged before is on disk; at once unless durability is batched.
    ///
    /// # Errors
    /// [`Error::Store`] when acknowledged writes could not be stored, which is told once, by the next call of any kind;
    /// [`Error::StoreLocked`] and [`Error::Interrupted`] as of [`Store::write`].
    pub fn flush(&self, wait: &Wait<'_>) -> Result<()> {
        self.shared.check_usable()?;
        if self.shared.durability == Durability::Full {
            return Ok(());
        }
        writer::flush(&self.shared, wait)?;
        self.shared.tell_lost()
    }

    /// Number of the last change of any process, 0 before the first; about 3 microseconds.
    pub fn last_sequence(&self) -> Result<u64> {
        #[allow(clippy::redundant_closure_for_method_calls)]
        // the method's path is not general enough to compile
        self.read(|view| view.last_sequence())
    }

    /// The store file; `:memory:` for one in memory.
    pub fn path(&self) -> &Path {
        &self.shared.place.path
    }

    /// Whether writing is refused.
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// Length of the file in bytes; 0 in memory.
    pub fn file_len(&self) -> Result<u64> {
        self.shared.check_usable()?;
        if self.shared.in_memory {
            return Ok(0);
        }
        let found = std::fs::metadata(self.path()).map_err(|error| self.shared.context().io(error))?;
        Ok(found.len())
    }

    /// A wait with the store's own lock timeout and no signals to look for.
    pub fn wait(&self) -> Wait<'static> {
        Wait { deadline: self.shared.place.lock_timeout, interrupted: None }
    }

    /// Ends the writer thread and closes the file; every later call is an error. Closing twice is fine.
    ///
    /// # Errors
    /// In a forked child, where nothing is closed; when acknowledged writes could not be stored, after closing.
    pub fn close(&self) -> Result<()> {
        self.shared.check_process()?;
        self.shared.close();
        self.shared.tell_lost()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.shared.check_process().is_err() {
            return;
        }
        self.shared.close();
        // SAFETY: `shared` is not touched again.
        unsafe { ManuallyDrop::drop(&mut self.shared) };
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path()).field("read_only", &self.is_read_only()).finish()
    }
}

impl Shared {
    fn context(&self) -> Context {
        Context::new(&self.place.home, &self.place.path)
    }

    fn check_process(&self) -> Result<()> {
        if self.pid == fork::process_id() {
            return Ok(());
        }
        fork::null_inherited();
        Err(failure::forked(&self.place.path))
    }

    fn check_usable(&self) -> Result<()> {
        self.check_process()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(failure::closed(&self.place.path));
        }
        Ok(())
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Handle>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lineage(&self) -> MutexGuard<'_, Option<Lineage>> {
        self.lineage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file, which must be the one that was open before, or the one that took its place in a compaction.
    fn open(&self, access: Access) -> std::result::Result<Arc<Handle>, OpenError> {
        loop {
            let expected = *self.lineage();
            let handle = self.place.open(access, expected)?;
            // One that was swapped between finding it at its path and locking it is nobody's any more.
            if handle.is_in_place().map_err(OpenError::Other)? {
                *self.lineage() = handle.lineage();
                return Ok(Arc::new(handle));
            }
        }
    }

    /// The same, waiting a moment for a handle that has the file to itself.
    fn open_in_time(&self, access: Access) -> std::result::Result<Arc<Handle>, OpenError> {
        let mut refusal = Refusal::new(&self.place);
        loop {
            match self.open(access) {
                Err(OpenError::Refused) => refusal.pause(access).map_err(OpenError::Other)?,
                other => return other,
            }
        }
    }

    /// Notes that acknowledged writes are lost, for the next call.
    fn lose(&self, count: usize, error: &Error) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *lost {
            Some((before, _)) => *before += count,
            none => *none = Some((count, failure::copy(error))),
        }
    }

    /// The error about acknowledged writes that were lost, if nobody was told yet.
    fn tell_lost(&self) -> Result<()> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner).take();
        lost.map_or(Ok(()), |(count, error)| Err(failure::lost(&self.place.path, count, error)))
    }

    /// Whether the handle is to be opened for itself alone.
    fn is_exclusive(&self) -> bool {
        self.place.mode == Mode::Exclusive && !self.read_only && !self.in_memory
    }

    /// A handle to read from, opened if there is none or if another file took the place of the one that is open.
    fn handle(self: &Arc<Self>) -> Result<Arc<Handle>> {
        if self.is_exclusive() {
            return self.writable_handle();
        }
        let left;
        {
            let mut current = self.current();
            if let Some(handle) = &*current
                && handle.is_in_place()?
            {
                return Ok(Arc::clone(handle));
            }
            left = current.take();
            match self.open_in_time(Access::Read) {
                Ok(handle) => {
                    *current = Some(Arc::clone(&handle));
                    drop(current);
                    drop(left);
                    return Ok(handle);
                }
                Err(OpenError::NeedsRepair(_)) if !self.read_only => {}
                Err(error) => return Err(error.into()),
            }
        }
        let wait = Wait { deadline: self.place.lock_timeout, interrupted: None };
        writer::open_writable(self, &wait)
    }

    /// The handle that writes, opened if there is none. Blocks for as long as others hold the lock.
    fn writable_handle(&self) -> Result<Arc<Handle>> {
        if self.is_exclusive() {
            return self.exclusive_handle();
        }
        if let Some(handle) = &*self.current() {
            if handle.writable().is_some() {
                return Ok(Arc::clone(handle));
            }
            // Before the file is opened for writing, which may cut off what is free at its end.
            handle.check_writable_format()?;
        }
        let handle = self.open_in_time(Access::Write)?;
        let replaced = self.current().replace(Arc::clone(&handle));
        drop(replaced);
        Ok(handle)
    }

    /// The only handle there is, opened if there is none. It can be opened anew only when nobody uses a dead one any
    /// more, hence the attempts with nothing held between them.
    fn exclusive_handle(&self) -> Result<Arc<Handle>> {
        let mut refusal = Refusal::new(&self.place);
        loop {
            {
                let mut current = self.current();
                if let Some(handle) = &*current
                    && handle.is_in_place()?
                {
                    return Ok(Arc::clone(handle));
                }
                drop(current.take());
                match self.open(Access::Alone) {
                    Ok(handle) => {
                        *current = Some(Arc::clone(&handle));
                        return Ok(handle);
                    }
                    Err(OpenError::Refused) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            refusal.pause(Access::Alone)?;
        }
    }

    /// Lets go of a handle that saw an error; the next call opens the file anew.
    fn forget_dead(&self, handle: &Arc<Handle>) {
        if handle.context.is_dead() && !self.in_memory {
            self.let_go(handle);
        }
    }

    /// Leaves the file in whose place a compaction put another one; the space it takes is free when nobody has it open.
    fn go_on_in(&self, handle: Option<Handle>) {
        let mut current = self.current();
        let old = current.take();
        if let Some(handle) = handle {
            if let Some(old) = &old {
                old.pass_on();
            }
            *self.lineage() = handle.lineage();
            *current = Some(Arc::new(handle));
        }
        drop(current);
        drop(old);
    }

    /// Makes the next call open the file anew.
    fn let_go(&self, handle: &Arc<Handle>) {
        let mut current = self.current();
        let dead = current.take_if(|held| Arc::ptr_eq(held, handle));
        drop(current);
        drop(dead);
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // With nobody waiting for a write there is nothing to lose: a thread that is still busy waits for the lock.
        let unflushed = || self.unflushed.load(Ordering::Acquire);
        let idle = self.waiting.load(Ordering::Acquire) == 0 && unflushed() == 0;
        if let Some(writer) = writer
            && !writer.stop(if idle { IDLE_CLOSE_BOUND } else { CLOSE_BOUND })
        {
            self.abandoned.store(true, Ordering::Release);
            if unflushed() > 0 {
                let slow = "their commit did not end in time, so they may or may not be stored";
                self.lose(unflushed(), &Error::store(&self.place.path, slow));
            }
        }
        let until = Instant::now() + CLOSE_BOUND;
        while matches!(self.passing.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let handle = self.current().take();
        drop(handle);
    }
}

/// Runs something that opens a file, a panic in which is damage.
fn guarded<T>(place: &Place, open: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(open))
        .unwrap_or_else(|panic| Err(Context::new(&place.home, &place.path).panicked(&*panic)))
}
