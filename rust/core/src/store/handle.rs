//! One opened file: making it, opening it, knowing that it is still the one at its path.

use super::backend::{Backend, Patience};
use super::failure::{self, Context};
use super::file_system::file_system;
use super::holder::{HolderNote, Tenure};
use super::seal::seal;
use super::tables::{self, FORMAT_VERSION, META, OLDEST_READER, OpenTables, SnapshotTables};
use super::view::{ReadView, Source};
use super::{HANDOVER, Mode, STORE_FILE, StoreOptions};
use crate::error::{Error, Result};
use crate::files::fork;
use crate::ids::RecordId;
use crate::time::{Clock, SystemClock};
use redb::{Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, ReadableDatabase};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[cfg(test)]
use super::{fault::FaultPlan, file_system::FileSystem};

/// Which file a path led to: device and inode. Nothing where the system does not tell.
pub(super) type Identity = Option<(u64, u64)>;

/// Which state of which store a file is. Compacting and repairing put a new file in the place of the old one: it has
/// the same store id and a higher generation, and whoever had the old one open goes on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lineage {
    identity: Identity,
    store_id: [u8; 16],
    generation: u64,
}

impl Lineage {
    fn goes_on_in(&self, other: &Self) -> bool {
        self.identity == other.identity
            || (self.store_id == other.store_id && self.generation < other.generation)
    }
}

/// How long closing waits for a short lock: nothing that is acknowledged depends on a clean close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Where a store is and how it is to be opened.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) home: PathBuf,
    pub(super) path: PathBuf,
    pub(super) cache_bytes: usize,
    pub(super) lock_timeout: Duration,
    pub(super) mode: Mode,
    #[cfg(test)]
    pub(super) faults: Option<Arc<FaultPlan>>,
    /// The answer of the system, where a test has its own.
    #[cfg(test)]
    pub(super) file_system: Option<FileSystem>,
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading, beside others.
    Read,
    /// Writing, beside others.
    Write,
    /// Writing, with nobody beside.
    Alone,
}

impl Access {
    fn mode(self) -> ConcurrencyMode {
        match self {
            Self::Read | Self::Write => ConcurrencyMode::MultiWriter,
            Self::Alone => ConcurrencyMode::ExclusiveWriter,
        }
    }
}

enum Db {
    ReadOnly(ReadOnlyDatabase),
    Writable(Database),
}

/// An open database and what belongs to it.
pub(super) struct Handle {
    db: ManuallyDrop<Db>,
    pub(super) context: Context,
    identity: Identity,
    /// Of a file; a store in memory has no other to be told from.
    lineage: Option<Lineage>,
    pid: u32,
    newer_writer: Option<u32>,
    patience: Arc<Patience>,
    /// Of a handle that has the file to itself.
    sole: Option<HolderNote>,
    /// Whether another handle of this process goes on with that.
    passed_on: AtomicBool,
}

/// Why a file could not be opened.
pub(super) enum OpenError {
    /// A handle of the other mode has it open, or one that has it to itself; [`Refusal`] names it.
    Refused,
    /// No process has it open and the last writer died: it has to be opened writable once.
    NeedsRepair(Error),
    /// Anything else.
    Other(Error),
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Refused => Self::Internal("an open was refused and not tried again".to_owned()),
            OpenError::NeedsRepair(error) | OpenError::Other(error) => error,
        }
    }
}

/// The wait of an open that is refused.
pub(super) struct Refusal<'a> {
    place: &'a Place,
    started: Instant,
    pause: Duration,
}

impl<'a> Refusal<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        Self { place, started: Instant::now(), pause: Duration::from_millis(1) }
    }

    /// Sleeps before the next attempt.
    ///
    /// # Errors
    /// [`Error::StoreLocked`] naming who is in the way, when it is time to give up.
    pub(super) fn pause(&mut self, access: Access) -> Result<()> {
        let waited = self.started.elapsed();
        if waited >= HANDOVER.min(self.place.lock_timeout) {
            let waited = waited.as_millis() as u64;
            return Err(self.place.context().refused(access == Access::Alone, waited));
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(20));
        Ok(())
    }
}

impl Place {
    /// Where the store of `home` is.
    pub(super) fn of(home: &Path, options: &StoreOptions) -> Self {
        Self {
            home: home.to_owned(),
            path: home.join(STORE_FILE),
            cache_bytes: options.cache_bytes,
            lock_timeout: options.lock_timeout,
            mode: options.mode,
            #[cfg(test)]
            faults: None,
            #[cfg(test)]
            file_system: None,
        }
    }

    /// The same place, for another handle on it.
    pub(super) fn again(&self) -> Self {
        self.at(&self.home, &self.path)
    }

    /// Another place, treated in the same way.
    pub(super) fn at(&self, home: &Path, path: &Path) -> Self {
        Self {
            home: home.to_owned(),
            path: path.to_owned(),
            cache_bytes: self.cache_bytes,
            lock_timeout: self.lock_timeout,
            mode: self.mode,
            #[cfg(test)]
            faults: self.faults.clone(),
            #[cfg(test)]
            file_system: self.file_system.clone(),
        }
    }

    pub(super) fn context(&self) -> Context {
        Context::new(&self.home, &self.path)
    }

    pub(super) fn builder(&self, mode: ConcurrencyMode) -> Builder {
        let mut builder = Builder::new();
        builder.set_concurrency_mode(mode).set_cache_size(self.cache_bytes);
        builder
    }

    #[cfg_attr(not(test), allow(clippy::unused_self))] // tests have faults in it
    pub(super) fn backend(
        &self,
        file: File,
        patience: &Arc<Patience>,
        note: Option<HolderNote>,
    ) -> Result<Backend, DatabaseError> {
        Backend::file(
            file,
            Arc::clone(patience),
            note,
            #[cfg(test)]
            self.faults.clone(),
        )
    }

    /// Refuses a file system that other machines reach; 5 microseconds.
    pub(super) fn refuse_network(&self) -> Result<()> {
        #[cfg(test)]
        let injected = self.file_system.clone();
        #[cfg(not(test))]
        let injected = None;
        let found = injected.map_or_else(|| file_system(&self.home), Ok)?;
        if !found.network {
            return Ok(());
        }
        let message = format!(
            "on a network file system ({}), where locks between machines do not hold and a store can be destroyed; move it to a local disk, or set store.network = allow if only one machine uses it",
            found.name
        );
        Err(Error::store(&self.home, message))
    }

    /// Makes home and store if they are not there. The file appears under its name only when it is complete.
    pub(super) fn create(&self) -> Result<()> {
        let at = |path: &Path| Context::new(&self.home, path);
        make_home(&self.home).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                at(&self.home).store("is not a directory; choose another home", Some(error))
            }
            _ => at(&self.home).io(error),
        })?;
        if fs::symlink_metadata(&self.path).is_ok() {
            return Ok(());
        }
        let draft = draft_path(&self.home);
        let made =
            self.fill(&draft).and_then(|()| publish(&draft, &self.path).map_err(|e| at(&self.path).io(e)));
        // Whatever is left of the draft is ours alone and was never the store.
        let _ = fs::remove_file(&draft);
        // Where another process was first, its store is the one.
        made.map(drop)
    }

    fn fill(&self, draft: &Path) -> Result<()> {
        let context = self.context();
        let file = create_draft(draft).map_err(|error| Context::new(&self.home, &self.home).io(error))?;
        let backend =
            self.backend(file, &Patience::new(self.lock_timeout), None).map_err(|e| context.fail(e))?;
        let mode = if self.mode == Mode::Exclusive { Access::Alone } else { Access::Write };
        let builder = self.builder(mode.mode());
        let db = builder.create_with_backend(backend).map_err(|e| context.fail(e))?;
        initialise(&db, &context)?;
        db.close().map_err(|e| context.fail(e))
    }

    /// A store that lives in memory.
    pub(super) fn in_memory(&self) -> Result<Handle> {
        let context = self.context();
        let backend = Backend::memory(
            #[cfg(test)]
            self.faults.clone(),
        );
        // Memory has no byte-range locks, and nobody to share with.
        let builder = self.builder(ConcurrencyMode::ExclusiveWriter);
        let db = builder.create_with_backend(backend).map_err(|e| context.fail(e))?;
        initialise(&db, &context)?;
        Ok(Handle::new(Db::Writable(db), context, None, Patience::new(self.lock_timeout)))
    }

    /// Opens the file, which must be the one of `expected` if that is known, or one that goes on from it.
    pub(super) fn open(&self, access: Access, expected: Option<Lineage>) -> Result<Handle, OpenError> {
        let context = self.context();
        let opened = catch_unwind(AssertUnwindSafe(|| self.open_unguarded(access, expected)));
        opened.unwrap_or_else(|panic| Err(OpenError::Other(context.panicked(&*panic))))
    }

    fn open_unguarded(&self, access: Access, expected: Option<Lineage>) -> Result<Handle, OpenError> {
        let file = self.open_file(access != Access::Read, &self.context()).map_err(OpenError::Other)?;
        self.open_over(file, access, expected)
    }

    /// Opens a file that lies at the place, or soon will.
    pub(super) fn open_over(
        &self,
        file: File,
        access: Access,
        expected: Option<Lineage>,
    ) -> Result<Handle, OpenError> {
        let context = self.context();
        let writable = access != Access::Read;
        let identity =
            file.metadata().map_err(|e| OpenError::Other(context.io(e))).map(|m| identity_of(&m))?;
        let other = expected.is_some_and(|expected| expected.identity != identity);
        let note = (access == Access::Write).then(|| HolderNote::open(&self.home));
        let builder = self.builder(access.mode());
        let patience = Patience::new(self.lock_timeout);
        let db = self.backend(file, &patience, note).and_then(|backend| {
            if writable {
                builder.create_with_backend(backend).map(Db::Writable)
            } else {
                builder.open_read_only_with_backend(backend).map(Db::ReadOnly)
            }
        });
        let db = db.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::Refused,
            DatabaseError::RepairAborted => {
                OpenError::NeedsRepair(context.fail(DatabaseError::RepairAborted))
            }
            error => OpenError::Other(match context.fail(error) {
                Error::StoreCorrupt { .. } if other => replaced(&context),
                error => error,
            }),
        })?;
        let mut handle = Handle::new(db, context, identity, patience);
        if access == Access::Alone {
            let note = HolderNote::open(&self.home);
            note.taken(Tenure::Life);
            handle.sole = Some(note);
        }
        handle.check_format(identity).and_then(|()| handle.check_lineage(expected)).map_err(|error| {
            OpenError::Other(match error {
                Error::StoreCorrupt { .. } if other => replaced(&handle.context),
                error => error,
            })
        })?;
        Ok(handle)
    }

    pub(super) fn open_file(&self, writable: bool, context: &Context) -> Result<File> {
        let found = fs::symlink_metadata(&self.path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => failure::missing(&self.path),
            _ => context.io(error),
        })?;
        // The home may have come with a cloned repository: a link in it may lead anywhere.
        if found.is_symlink() {
            return Err(
                context.store("is a symbolic link; give the directory that it leads to as the home", None)
            );
        }
        if !found.is_file() {
            let what = if found.is_dir() { "is a directory" } else { "is not a regular file" };
            return Err(context.store(&format!("{what}; move it away or choose another home"), None));
        }
        if found.len() == 0 {
            return Err(
                context.store("is empty, not a store; move it away and repeat, or restore a backup", None)
            );
        }
        let mut options = OpenOptions::new();
        options.read(true).write(writable);
        #[cfg(unix)]
        {
            // A link or pipe that was put there since is not followed and not waited for.
            let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
            std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
        }
        options.open(&self.path).map_err(|error| context.io(error))
    }
}

impl Handle {
    fn new(db: Db, context: Context, identity: Identity, patience: Arc<Patience>) -> Self {
        let pid = fork::process_id();
        let db = ManuallyDrop::new(db);
        Self {
            db,
            context,
            identity,
            lineage: None,
            pid,
            newer_writer: None,
            patience,
            sole: None,
            passed_on: AtomicBool::new(false),
        }
    }

    pub(super) fn lineage(&self) -> Option<Lineage> {
        self.lineage
    }

    /// The database, if this handle may write.
    pub(super) fn writable(&self) -> Option<&Database> {
        match &*self.db {
            Db::Writable(db) => Some(db),
            Db::ReadOnly(_) => None,
        }
    }

    /// A snapshot of the last commit of any process.
    pub(super) fn begin_read(&self) -> Result<SnapshotTables> {
        let transaction = match &*self.db {
            Db::ReadOnly(db) => db.begin_read(),
            Db::Writable(db) => db.begin_read(),
        };
        transaction.map(SnapshotTables::of).map_err(|e| self.context.fail(e))
    }

    /// Whether the path still leads to the file that is open: one `stat`, about a microsecond.
    pub(super) fn is_in_place(&self) -> Result<bool> {
        let Some(_) = self.identity else { return Ok(true) };
        match fs::metadata(&self.context.path) {
            Ok(found) => Ok(identity_of(&found) == self.identity),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.context.store(
                "was removed while it was open; put it back or restore a backup, then open it again",
                None,
            )),
            Err(error) => Err(self.context.io(error)),
        }
    }

    /// Leaves it to another handle of this process to have the file to itself.
    pub(super) fn pass_on(&self) {
        self.passed_on.store(true, Ordering::Release);
    }

    /// The error for a file in whose place another one lies.
    pub(super) fn replaced(&self) -> Error {
        replaced(&self.context)
    }

    /// That this version may write what a newer one may have laid out.
    pub(super) fn check_writable_format(&self) -> Result<()> {
        match self.newer_writer {
            None => Ok(()),
            Some(found) => Err(self.too_new(found)),
        }
    }

    /// Refuses what this version may not read; remembers a newer version that it may read but not write, and which
    /// store this is.
    fn check_format(&mut self, identity: Identity) -> Result<()> {
        let tables = self.begin_read()?;
        let view = ReadView { source: Source::Snapshot(&tables), context: &self.context };
        if !tables
            .transaction
            .list_tables()
            .map_err(|e| self.context.fail(e))?
            .any(|table| redb::TableHandle::name(&table) == redb::TableHandle::name(&META))
        {
            return Err(self
                .context
                .corrupt("is a redb file, but not an otolith store (it has no table meta)".to_owned()));
        }
        let (oldest_reader, format) = (view.oldest_reader()?, view.format_version()?);
        if oldest_reader > FORMAT_VERSION {
            return Err(self.too_new(format));
        }
        if format == 0 {
            return Err(self.context.corrupt("has format 0, which no version of otolith wrote".to_owned()));
        }
        let lineage = Lineage { identity, store_id: view.store_id()?, generation: view.generation()? };
        self.newer_writer = (format > FORMAT_VERSION).then_some(format);
        self.lineage = Some(lineage);
        Ok(())
    }

    fn check_lineage(&self, expected: Option<Lineage>) -> Result<()> {
        match (expected, &self.lineage) {
            (Some(expected), Some(found)) if !expected.goes_on_in(found) => Err(replaced(&self.context)),
            _ => Ok(()),
        }
    }

    fn too_new(&self, found: u32) -> Error {
        Error::FormatTooNew {
            what: self.context.path.display().to_string(),
            found: u64::from(found),
            supported: u64::from(FORMAT_VERSION),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.pid != fork::process_id() {
            // Closing would write to the file and release the parent's locks.
            fork::null_inherited();
            return;
        }
        self.patience.shorten(CLOSE_PATIENCE);
        if let Some(note) = &self.sole
            && !self.passed_on.load(Ordering::Acquire)
        {
            note.released();
        }
        // SAFETY: `db` is not touched again.
        let db = unsafe { ManuallyDrop::take(&mut self.db) };
        // Closing a database with damaged pages may panic; there is nobody to tell.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

/// A name for a store file that is being made in `dir`; with the process in it, so that one that is left behind is known.
pub(super) fn draft_path(dir: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (time, count) = (SystemClock.now().unix_micros(), COUNT.fetch_add(1, Ordering::Relaxed));
    dir.join(format!(".episodes.redb.{}-{time}-{count}.new", std::process::id()))
}

/// Makes the file of a draft, for this user alone.
pub(super) fn create_draft(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn initialise(db: &Database, context: &Context) -> Result<()> {
    let transaction = db.begin_write().map_err(|e| context.fail(e))?;
    {
        let tables = OpenTables::open(&transaction).map_err(|e| context.fail(e))?;
        let mut meta = tables.meta.borrow_mut();
        let created = SystemClock.now().unix_micros().to_le_bytes();
        let id = RecordId::new_episode(SystemClock.now().unix_micros());
        let rows: [(&str, &[u8]); 5] = [
            (tables::META_STORE_ID, id.as_bytes()),
            (tables::META_FORMAT, &FORMAT_VERSION.to_le_bytes()),
            (tables::META_OLDEST_READER, &OLDEST_READER.to_le_bytes()),
            (tables::META_CREATED, &created),
            (tables::META_LAST_SEQUENCE, &0u64.to_le_bytes()),
        ];
        for (name, body) in rows {
            let value = seal("meta", name.as_bytes(), body);
            meta.insert(name, value.as_slice()).map_err(|e| context.fail(e))?;
        }
    }
    transaction.commit().map_err(|e| context.fail(e))
}

/// Makes the home with what is missing above it, for this user alone, and makes the new entries durable.
fn make_home(home: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        home.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(home)?;
    for dir in missing {
        sync_parent(dir)?;
    }
    Ok(())
}

/// Makes the entry of `path` in its directory durable.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(parent) = path.parent() {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Gives a finished draft its name; the directory entry is made durable. False when the name was taken.
pub(super) fn publish(draft: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
        // File systems without hard links.
        Err(_) if !rename_if_free(draft, path)? => return Ok(false),
        _ => {}
    }
    sync_parent(path)?;
    Ok(true)
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_if_free(draft: &Path, path: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::EXIST) => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_if_free(draft: &Path, path: &Path) -> io::Result<bool> {
    fs::rename(draft, path).map(|()| true)
}

#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)] // elsewhere there is none
pub(super) fn identity_of(metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity_of(_metadata: &fs::Metadata) -> Identity {
    None
}

fn replaced(context: &Context) -> Error {
    context
        .store("was replaced by another file while it was open; open it again to go on with that one", None)
}
