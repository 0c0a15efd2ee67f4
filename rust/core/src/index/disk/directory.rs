//! The directory of one shape of the index.

use super::manifest::{FileEntry, INDEX_FORMAT, Manifest, SegmentEntry};
use super::notes::Notes;
use crate::error::{Error, Result};
use crate::files::{LockFile, make_dir, publish, sync_dir};
use crate::sections::{SectionName, SectionWriter, Sections};
use crate::vector::Graph;
use fixedbitset::FixedBitSet;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// A directory that no process has used for so long is removed: its version or its settings are gone.
const UNUSED: Duration = Duration::from_hours(7 * 24);
/// The note of use is renewed this often at most.
const USED_EVERY: Duration = Duration::from_hours(24);
/// Times a reader looks for a newer manifest when a file is gone.
const ATTEMPTS: usize = 16;
const LOCK: &str = "lock";
/// Held by the process that builds graphs.
const GRAPH_LOCK: &str = "lock-graphs";
/// Graphs, by what follows it.
const GRAPH: &str = "graph-";
/// What is done of a graph, by the name of its segment.
const BEGUN: &str = "begun-";
const USED: &str = "used";
const NOTES: &str = "checked";
/// Blocks of all bitmaps, one segment's after the other's.
const DEAD: SectionName = SectionName::new("dead");

/// Where the index of a home lies.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    home: PathBuf,
    path: PathBuf,
}

/// The newest state that is on disk.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) manifest: Manifest,
    /// By segment of the manifest.
    pub(crate) segments: Vec<Sections>,
    /// Of each, the graph over its vectors; None also for one that cannot be opened, which is built anew.
    pub(crate) graphs: Vec<Option<Sections>>,
    /// Why the first of those cannot be.
    pub(crate) lost: Option<Error>,
    /// Dead documents of each.
    pub(crate) tombstones: Vec<FixedBitSet>,
}

impl Directory {
    /// The directory of `home` for an index of this shape: all that its bytes depend on.
    pub(crate) fn new(home: &Path, shape: &str) -> Self {
        let path = home.join("index").join(format!("{INDEX_FORMAT}-{shape}"));
        Self { home: home.to_owned(), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the newest manifest, 0 when there is none or no directory.
    ///
    /// # Errors
    /// [`Error::Store`] when the directory cannot be read.
    pub(crate) fn newest(&self) -> Result<u64> {
        Ok(self.names()?.iter().filter_map(|name| Manifest::number_in(name)).max().unwrap_or(0))
    }

    /// Opens the newest state: nothing but heads and tables of the files is read.
    ///
    /// # Errors
    /// [`Error::StoreCorrupt`] or [`Error::Store`] when it is damaged: then it has to be built anew.
    pub(crate) fn load(&self) -> Result<Option<Loaded>> {
        let mut last = 0;
        for attempt in 0.. {
            let number = self.newest()?;
            if number == 0 {
                return Ok(None);
            }
            match self.open(number) {
                // Somebody published the next one meanwhile. The same once more: a file of it is gone.
                Err(error) if is_missing(&error) && number != last && attempt < ATTEMPTS => last = number,
                Ok(Loaded { lost: Some(error), .. })
                    if is_missing(&error) && number != last && attempt < ATTEMPTS =>
                {
                    last = number;
                }
                other => return other.map(Some),
            }
        }
        Ok(None)
    }

    fn open(&self, number: u64) -> Result<Loaded> {
        let path = self.path.join(Manifest::file_name(number));
        let file = fs::metadata(&path).map_err(|error| self.failed(&path, error))?;
        if !file.is_file() {
            return Err(Error::StoreCorrupt { path, detail: "is not a file".to_owned() });
        }
        let bytes = fs::read(&path).map_err(|error| self.failed(&path, error))?;
        let manifest = Manifest::decode(&path, &bytes)?;
        if manifest.number != number {
            return Err(Error::StoreCorrupt { path, detail: "has another one's name".to_owned() });
        }
        let segments = manifest.segments.iter().map(|segment| self.file(&segment.file));
        let segments = segments.collect::<Result<Vec<_>>>()?;
        let mut lost = None;
        let graphs = manifest.segments.iter().map(|segment| match self.graph(segment.graph.as_ref()?) {
            Ok(graph) => Some(graph),
            Err(error) => {
                lost.get_or_insert(error);
                None
            }
        });
        let graphs = graphs.collect();
        let tombstones = match &manifest.tombstones {
            Some(file) => self.tombstones(file, &manifest.segments)?,
            None => {
                manifest.segments.iter().map(|s| FixedBitSet::with_capacity(s.max_doc as usize)).collect()
            }
        };
        Ok(Loaded { manifest, segments, graphs, lost, tombstones })
    }

    /// The file of a graph that can be walked on.
    fn graph(&self, entry: &FileEntry) -> Result<Sections> {
        let sections = self.file(entry)?;
        match Graph::open(&sections)? {
            Some(_) => Ok(sections),
            None => Err(sections.corrupt("holds no graph")),
        }
    }

    fn file(&self, entry: &FileEntry) -> Result<Sections> {
        if entry.name.contains(['/', '\\']) {
            let path = self.path.clone();
            return Err(Error::StoreCorrupt { path, detail: format!("a manifest names {:?}", entry.name) });
        }
        let sections = Sections::open(&self.path.join(&entry.name))?;
        if sections.fingerprint() == entry.checksum {
            Ok(sections)
        } else {
            Err(sections.corrupt("is not the file that its manifest means"))
        }
    }

    fn tombstones(&self, entry: &FileEntry, segments: &[SegmentEntry]) -> Result<Vec<FixedBitSet>> {
        let file = self.file(entry)?;
        file.check(DEAD)?;
        let blocks = file.array::<u64>(DEAD)?;
        let mut rest = &blocks[..];
        let mut all = Vec::with_capacity(segments.len());
        for segment in segments {
            let (own, after) = rest
                .split_at_checked((segment.max_doc as usize).div_ceil(64))
                .ok_or_else(|| file.corrupt("holds too few tombstones"))?;
            let mut dead = FixedBitSet::with_capacity(segment.max_doc as usize);
            for (block, at) in own.iter().zip((0..).step_by(64)) {
                let mut rest = *block;
                while rest != 0 {
                    let doc = at + rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    if doc < segment.max_doc as usize {
                        dead.insert(doc);
                    }
                }
            }
            if dead.count_ones(..) != segment.dead as usize {
                return Err(file.corrupt("does not hold as many tombstones as its manifest says"));
            }
            all.push(dead);
            rest = after;
        }
        Ok(all)
    }

    /// The right to change the directory, which is made if need be. None when another process or thread has it.
    ///
    /// # Errors
    /// [`Error::Store`] when the directory or its lock cannot be made.
    pub(crate) fn lock(&self) -> Result<Option<Turn>> {
        let parent = self.home.join("index");
        for dir in [&parent, &self.path] {
            make_dir(dir, &self.home).map_err(|error| self.failed(dir, error))?;
        }
        let path = self.path.join(LOCK);
        let lock = LockFile::try_take(&path, &self.home, |error| self.failed(&path, error))?;
        let turn =
            |lock| Turn { directory: self.clone(), stop: None, written: Mutex::default(), _lock: lock };
        Ok(lock.map(turn))
    }

    /// The right to build graphs. None when another process or thread has it.
    ///
    /// # Errors
    /// [`Error::Store`] when its lock cannot be made.
    pub(crate) fn lock_graphs(&self) -> Result<Option<LockFile>> {
        let path = self.path.join(GRAPH_LOCK);
        LockFile::try_take(&path, &self.home, |error| self.failed(&path, error))
    }

    /// What is done of the graph of a segment. Best effort: what cannot be read is done again.
    pub(crate) fn begun_graph(&self, segment: &FileEntry) -> Option<Sections> {
        Sections::open(&self.path.join(begun_name(segment))).ok()
    }

    /// Writes what is done of the graph of a segment, in place of what was; by who has the right to build.
    ///
    /// # Errors
    /// [`Error::Store`] when it cannot be written.
    pub(crate) fn write_begun(
        &self,
        segment: &FileEntry,
        write: impl FnOnce(&mut SectionWriter<Stoppable<'_, '_>>) -> io::Result<()>,
    ) -> Result<()> {
        self.write(&begun_name(segment), None, write)
    }

    /// Writes a file of sections, in place of what was there; given up when `stop` is set.
    fn write(
        &self,
        name: &str,
        stop: Option<&AtomicBool>,
        write: impl FnOnce(&mut SectionWriter<Stoppable<'_, '_>>) -> io::Result<()>,
    ) -> Result<()> {
        publish(&self.path, name, &self.home, |file| {
            let mut writer = SectionWriter::new(Stoppable { file, stop })?;
            write(&mut writer)?;
            writer.finish().map(drop)
        })
        .map_err(|error| self.failed(&self.path.join(name), error))
    }

    /// Removes what was done of the graph of a segment; best effort.
    pub(crate) fn drop_begun(&self, segment: &FileEntry) {
        let _ = fs::remove_file(self.path.join(begun_name(segment)));
    }

    /// Notes that this shape is in use, at most once a day; best effort.
    pub(crate) fn note_use(&self) {
        let path = self.path.join(USED);
        if age(&path).is_none_or(|age| age >= USED_EVERY) {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true);
            #[cfg(unix)]
            {
                use std::os::unix::fs::OpenOptionsExt;
                options.mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
            }
            let noted = options.open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            let _ = noted;
        }
    }

    /// What processes have found out about the segments.
    pub(crate) fn notes(&self) -> Notes {
        Notes::decode(&fs::read_to_string(self.path.join(NOTES)).unwrap_or_default())
    }

    fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|error| self.failed(&self.path, error))?,
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().into_string()));
        let names = names.collect::<io::Result<Vec<_>>>().map_err(|error| self.failed(&self.path, error))?;
        let mut names: Vec<String> = names.into_iter().filter_map(std::result::Result::ok).collect();
        names.sort_unstable();
        Ok(names)
    }

    #[allow(clippy::unused_self)] // errors of this directory are made here
    fn failed(&self, path: &Path, error: io::Error) -> Error {
        Error::Store {
            path: path.to_owned(),
            message: format!(
                "the index on disk cannot be used: {error}; nothing is lost, it only saves time. Make room or give permission, or remove its directory"
            ),
            source: Some(error),
        }
    }
}

/// The right to change the directory, until dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    directory: Directory,
    stop: Option<Arc<AtomicBool>>,
    /// Segments that no manifest names yet.
    written: Mutex<Vec<String>>,
    _lock: LockFile,
}

/// A file on its way, which is given up when somebody wants it so.
#[derive(Debug)]
pub(crate) struct Stoppable<'w, 'f> {
    file: &'w mut BufWriter<&'f File>,
    stop: Option<&'w AtomicBool>,
}

impl Write for Stoppable<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Acquire)) {
            return Err(io::Error::other("given up: the memory is being closed"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Turn {
    /// The directory.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Gives up writing when `stop` is set.
    pub(crate) fn until(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Writes a segment. It counts once a manifest names it; until then a [`Turn::publish`] would remove it.
    ///
    /// # Errors
    /// [`Error::Store`] when there is no room, for instance; then nothing of it is left.
    pub(crate) fn write_segment(
        &self,
        write: impl FnOnce(&mut SectionWriter<Stoppable<'_, '_>>) -> io::Result<()>,
    ) -> Result<(FileEntry, Sections)> {
        let name = format!("seg-{:016x}", RandomState::new().hash_one(SystemTime::now()));
        let made = self.write(name, write)?;
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(made.0.name.clone());
        Ok(made)
    }

    /// Writes the graph over the vectors of a segment, as [`Turn::write_segment`] does a segment.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn write_graph(
        &self,
        write: impl FnOnce(&mut SectionWriter<Stoppable<'_, '_>>) -> io::Result<()>,
    ) -> Result<(FileEntry, Sections)> {
        self.write(format!("{GRAPH}{:016x}", RandomState::new().hash_one(SystemTime::now())), write)
    }

    /// Goes on without graphs of these names, whose segments are whole; they are built anew as if they had never been there.
    ///
    /// # Errors
    /// As [`Directory::load`] and [`Turn::publish`].
    pub(crate) fn drop_graphs(&self, names: &[&str]) -> Result<()> {
        let Some(Loaded { mut manifest, tombstones, .. }) = self.directory.load()? else { return Ok(()) };
        for entry in &mut manifest.segments {
            entry.graph.take_if(|graph| names.contains(&&*graph.name));
        }
        self.publish(manifest, &tombstones).map(drop)
    }

    /// Whether this segment was written in this turn: nobody has removed it.
    pub(crate) fn has_written(&self, name: &str) -> bool {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|own| own == name)
    }

    fn write(
        &self,
        name: String,
        write: impl FnOnce(&mut SectionWriter<Stoppable<'_, '_>>) -> io::Result<()>,
    ) -> Result<(FileEntry, Sections)> {
        self.directory.write(&name, self.stop.as_deref(), write)?;
        let sections = Sections::open(&self.directory.path.join(&name))?;
        Ok((FileEntry { name, checksum: sections.fingerprint() }, sections))
    }

    /// Makes this the newest state, with the next number, and removes what no process needs any more.
    ///
    /// `tombstones` are the dead documents of each segment. The manifest's number, its counts of dead documents and the
    /// name of the tombstones' file are set here.
    ///
    /// # Errors
    /// [`Error::Store`]: then the state before is the newest.
    pub(crate) fn publish(&self, mut manifest: Manifest, tombstones: &[FixedBitSet]) -> Result<Manifest> {
        let Directory { home, path } = &self.directory;
        manifest.format = INDEX_FORMAT;
        manifest.number = self.directory.newest()? + 1;
        for (segment, dead) in manifest.segments.iter_mut().zip(tombstones) {
            segment.dead = dead.count_ones(..) as u32;
        }
        manifest.tombstones = None;
        if manifest.segments.iter().any(|segment| segment.dead > 0) {
            let blocks: Vec<u64> = manifest.segments.iter().zip(tombstones).flat_map(blocks).collect();
            let name = format!("dead-{:06}", manifest.number);
            let (file, _) = self.write(name, |writer| writer.section(DEAD, &blocks))?;
            manifest.tombstones = Some(file);
        }
        let failed = |error| self.directory.failed(path, error);
        // What a manifest names must be there after a loss of power, if the manifest is.
        sync_dir(path).map_err(failed)?;
        let bytes = manifest.encode()?;
        let name = Manifest::file_name(manifest.number);
        publish(path, &name, home, |file| file.write_all(&bytes)).map_err(failed)?;
        sync_dir(path).map_err(failed)?;
        self.sweep(&manifest);
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clear();
        Ok(manifest)
    }

    /// Notes of these segments that they are whole, or damaged, and drops what is older than anybody needs. Best effort.
    pub(crate) fn note<'n>(&self, names: impl Iterator<Item = &'n str>, damaged: bool) {
        let Directory { home, path } = &self.directory;
        let mut notes = self.directory.notes();
        names.for_each(|name| notes.set(name, damaged));
        let text = notes.encode();
        let _ = publish(path, NOTES, home, |file| file.write_all(text.as_bytes()));
    }

    /// Removes every state: the next one is made from the store alone.
    ///
    /// # Errors
    /// [`Error::Store`] when a manifest cannot be removed.
    pub(crate) fn forget_all(&self) -> Result<()> {
        let path = &self.directory.path;
        for name in self.directory.names()? {
            let ours = is_made(&name) || name.starts_with(BEGUN);
            let own = path.join(&name);
            if Manifest::number_in(&name).is_some() {
                fs::remove_file(&own).map_err(|error| self.directory.failed(&own, error))?;
            } else if ours {
                let _ = fs::remove_file(own);
            }
        }
        Ok(())
    }

    /// Removes what the newest manifest does not name, and shapes that nobody used for a week. Best effort: what
    /// cannot be removed now (a mapped file on Windows) goes the next time.
    fn sweep(&self, newest: &Manifest) {
        let graphs = newest.segments.iter().filter_map(|segment| segment.graph.as_ref());
        let named = newest.segments.iter().map(|s| &s.file).chain(&newest.tombstones).chain(graphs);
        let named: Vec<&str> = named.map(|file| file.name.as_str()).collect();
        let begun = |name: &str| name.strip_prefix(BEGUN).is_some_and(|segment| !named.contains(&segment));
        let own = Manifest::file_name(newest.number);
        let path = &self.directory.path;
        for name in self.directory.names().unwrap_or_default() {
            let replaced = is_made(&name)
                || begun(&name)
                || Manifest::number_in(&name).is_some_and(|number| number < newest.number);
            if replaced && name != own && !named.contains(&name.as_str()) {
                let _ = fs::remove_file(path.join(name));
            }
        }
        let Some(parent) = path.parent() else { return };
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            let other = entry.path();
            // Only what has the note is an index of ours.
            let unused = age(&other.join(USED)).is_some_and(|age| age >= UNUSED);
            if other != *path && unused && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let _ = fs::remove_dir_all(other);
            }
        }
    }
}

/// Whether this is the name of a file of a graph.
pub(crate) fn is_graph(name: &str) -> bool {
    name.starts_with(GRAPH)
}

/// Name of the file with what is done of the graph of a segment.
fn begun_name(segment: &FileEntry) -> String {
    format!("{BEGUN}{}", segment.name)
}

/// Whether a file of this name is rubbish unless a manifest names it.
fn is_made(name: &str) -> bool {
    ["seg-", "dead-", GRAPH, "."].iter().any(|prefix| name.starts_with(prefix))
}

/// The bitmap of a segment as `u64`, as many as its documents need.
fn blocks((segment, dead): (&SegmentEntry, &FixedBitSet)) -> Vec<u64> {
    let mut blocks = vec![0_u64; (segment.max_doc as usize).div_ceil(64)];
    for doc in dead.ones().take_while(|doc| *doc < segment.max_doc as usize) {
        blocks[doc / 64] |= 1 << (doc % 64);
    }
    blocks
}

fn age(path: &Path) -> Option<Duration> {
    let changed = fs::symlink_metadata(path).ok()?.modified().ok()?;
    // A time in the future is no age: it counts as fresh.
    Some(SystemTime::now().duration_since(changed).unwrap_or_default())
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Store { source: Some(source), .. } if source.kind() == ErrorKind::NotFound)
}
