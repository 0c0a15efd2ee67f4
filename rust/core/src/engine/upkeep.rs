//! Care of the index on disk: what lies in memory becomes a segment, segments are merged, damage is built anew.
//!
//! Nothing here is needed for an answer to be right: a process that never gets to it answers from memory. Nobody waits
//! for it but the call that found it due; the locks a question needs are held for the moment in which the new copy
//! takes the place of the old one. The store is never touched.

use super::Engine;
use super::served::{self, Member, Merge, Segment, Served, Snapshot, State};
use super::vectors::home_embedder;
use crate::error::{Error, Result};
use crate::index::disk::{Directory, Loaded, Manifest, SegmentEntry, Turn};
use crate::sections::Sections;
use crate::store::Wait;
use fixedbitset::FixedBitSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Documents in memory from which on they become a segment: some ten milliseconds of work, and what the next process
/// has to analyse at most.
pub(super) const FLUSH: usize = if cfg!(test) { 40 } else { 1_000 };
/// Segments of about the same size that are merged: every document is written again log4(documents / FLUSH) times.
const FACTOR: usize = 4;
/// A segment of which more than one in so many documents is dead is merged by itself.
const DEAD_SHARE: usize = 4;
/// Merges up to so many documents are done by the call that found them due; larger ones by a thread.
const INLINE: usize = 20_000;
/// From so many segments on the call does it however large it is: no process lived long enough for a thread.
const TOO_MANY: usize = 24;
/// With so much in memory, and another process at work in the directory, it becomes segments in memory.
const OVERDUE: usize = 8 * FLUSH;
/// How often it is looked whether another process has done with the directory.
const POLL: Duration = Duration::from_millis(50);

/// What the care of an index needs besides the copy.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Where the index lies; None for a memory in RAM.
    directory: Option<Directory>,
    /// Whether it may be written.
    writable: bool,
    /// Held by the thread that works.
    turn: Mutex<()>,
    merging: Mutex<Option<Merging>>,
    notices: Mutex<Vec<String>>,
}

/// A merge on its way.
#[derive(Debug)]
struct Merging {
    pid: u32,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Upkeep {
    pub(super) fn of(directory: Directory, writable: bool) -> Self {
        let mut upkeep = Self::default();
        upkeep.directory = Some(directory);
        upkeep.writable = writable;
        upkeep
    }

    /// What went wrong without stopping anything, oldest first.
    pub(super) fn notices(&self) -> Vec<String> {
        lock(&self.notices).clone()
    }

    pub(super) fn notice(&self, text: String) {
        let mut notices = lock(&self.notices);
        if !notices.contains(&text) {
            notices.push(text);
        }
    }

    /// Ends a merge that is on its way; what it wrote so far is removed. In a forked child there is no such thread.
    pub(super) fn stop(&self) {
        let Some(Merging { pid, stop, thread }) = lock(&self.merging).take() else { return };
        if pid == std::process::id() {
            stop.store(true, Ordering::Release);
            let _ = thread.join();
        } else {
            std::mem::forget(thread);
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// A copy of the store as it is now: from the index on disk and what changed since, else from all records.
    pub(super) fn new_copy(&self) -> Result<Served> {
        if let Some(directory) = &self.upkeep.directory {
            match self.read_index(directory) {
                Ok(Some(served)) => return Ok(served),
                Ok(None) => {}
                Err(error) => self.upkeep.notice(format!("the index was built anew: {error}")),
            }
        }
        served::build(&self.store, &self.analyzer, self.embedder().as_deref())
    }

    /// The copy that the newest manifest and the changes since give; None when there is none or it does not fit.
    fn read_index(&self, directory: &Directory) -> Result<Option<Served>> {
        let Some(loaded) = directory.load()? else { return Ok(None) };
        let Some(position) = served::Position::of_manifest(&self.store, &loaded.manifest)? else {
            return Ok(None);
        };
        let handle = self.embedder();
        let embedder = served::serving(&self.store, handle.as_deref())?;
        let state = State::from_disk(loaded, position)?;
        if state.embedder.is_some() && embedder.is_some() && state.embedder != embedder {
            // Of another model's vectors; this handle's copy has its own.
            return Ok(None);
        }
        let mut served = Served::over(state, embedder)?;
        let Some(update) = served::changes(&self.store, &self.analyzer, handle.as_deref(), position)? else {
            return Ok(None);
        };
        // Records that the index lacks and no change tells of: what is missing is for the store to say.
        if !served.apply(update)? || served.missing() > 0 {
            return Ok(None);
        }
        if self.upkeep.writable {
            directory.note_use();
        }
        Ok(Some(served))
    }

    /// Does what is due. Failures are told, not raised: the answer does not need it.
    pub(super) fn take_care(&self) {
        let merged = lock(&self.upkeep.merging).as_ref().is_some_and(|merging| merging.thread.is_finished());
        let due = {
            let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
            let unfiled = served.members().any(|member| member.file.is_none());
            served.backlog().0 >= FLUSH || (unfiled && self.publishes(&served))
        };
        if !due && !merged {
            return;
        }
        let Ok(_turn) = self.upkeep.turn.try_lock() else { return };
        let done = if merged { self.take_merged() } else { Ok(()) };
        if let Err(error) = done.and_then(|()| if due { self.make_segment() } else { Ok(()) }) {
            self.upkeep.notice(format!("the index on disk was not brought up to date: {error}"));
        }
    }

    /// Whether this copy is the one that the home's index on disk is to hold.
    fn publishes(&self, served: &Served) -> bool {
        let ours = || {
            let home = self.store.read(home_embedder);
            home.is_ok_and(|home| home.as_ref() == served.embedder())
        };
        self.upkeep.writable && self.upkeep.directory.is_some() && ours()
    }

    /// Makes a segment of what lies in memory.
    fn make_segment(&self) -> Result<()> {
        let (overdue, publishes) = {
            let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
            (served.backlog().0 >= OVERDUE, self.publishes(&served))
        };
        let directory = self.upkeep.directory.as_ref().filter(|_| publishes);
        let turn = directory.map(Directory::lock).transpose()?.flatten();
        let Some((directory, turn)) = directory.zip(turn) else {
            // Another process is at it: what it does serves this one too, once it is done.
            return if overdue || !publishes { self.make_segment_in_memory() } else { Ok(()) };
        };
        if self.take_newer(directory)? && self.backlog() < FLUSH {
            return Ok(());
        }
        let Some(snapshot) = self.snapshot() else { return Ok(()) };
        let state = file(snapshot.into_state()?, &turn)?;
        let (manifest, dead) = state.to_manifest();
        turn.publish(manifest, &dead)?;
        let rest = merge_small(&turn)?;
        drop(turn);
        self.adopt(directory)?;
        if rest {
            self.start_merge(directory);
        }
        Ok(())
    }

    /// Goes on with the newest manifest if the copy rests on an older one. Whether it did.
    fn take_newer(&self, directory: &Directory) -> Result<bool> {
        let number = self.served.read().unwrap_or_else(PoisonError::into_inner).number();
        if directory.newest()? == number {
            return Ok(false);
        }
        // One that is damaged, or of another history, is replaced by what this copy has.
        match self.read_index(directory) {
            Ok(Some(newer)) => self.replace(newer),
            _ => Ok(false),
        }
    }

    /// Documents that lie in memory.
    fn backlog(&self) -> usize {
        self.served.read().unwrap_or_else(PoisonError::into_inner).backlog().0
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).snapshot()
    }

    /// The same without a file.
    fn make_segment_in_memory(&self) -> Result<()> {
        let Some(snapshot) = self.snapshot() else { return Ok(()) };
        let mut state = snapshot.into_state()?;
        while let Some(chosen) = plan(&sizes(state.members.iter())) {
            let members: Vec<&Member> = chosen.iter().map(|at| &state.members[*at]).collect();
            let merged = Merge::new(&members)?;
            let segment = Segment::open(Sections::in_memory(|out| merged.write(out))?)?;
            let dead = FixedBitSet::with_capacity(segment.max_doc() as usize);
            state.members = without(state.members, &chosen);
            state.members.push(Member { file: None, segment, dead });
        }
        let embedder = served::serving(&self.store, self.embedder().as_deref())?;
        self.replace(Served::over(state, embedder)?).map(drop)
    }

    /// Goes on with the newest manifest.
    fn adopt(&self, directory: &Directory) -> Result<()> {
        match self.read_index(directory)? {
            Some(served) => self.replace(served).map(drop),
            None => Ok(()),
        }
    }

    /// Puts `fresh` in the place of the copy, once it has caught up. False when it is of another history or embedder.
    fn replace(&self, mut fresh: Served) -> Result<bool> {
        let handle = self.embedder();
        let catch_up = |fresh: &mut Served| -> Result<bool> {
            let Some(from) = fresh.position() else { return Ok(false) };
            match served::changes(&self.store, &self.analyzer, handle.as_deref(), from)? {
                Some(update) => fresh.apply(update),
                None => Ok(false),
            }
        };
        // What came meanwhile is analysed before anybody waits; what comes during that is little.
        if !catch_up(&mut fresh)? {
            return Ok(false);
        }
        let old = {
            let _turn = lock(&self.catching_up);
            if self.embedder() != handle || !catch_up(&mut fresh)? {
                return Ok(false);
            }
            let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *served, fresh)
        };
        drop(old);
        Ok(true)
    }

    /// Starts a thread that merges what is too much for a call, unless one is at it.
    fn start_merge(&self, directory: &Directory) {
        let mut merging = lock(&self.upkeep.merging);
        if merging.is_some() {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (directory, stopped) = (directory.clone(), Arc::clone(&stop));
        let work = move || {
            let Some(turn) = directory.lock()? else { return Ok(()) };
            let turn = turn.until(stopped);
            while merge_once(&turn, usize::MAX)? {}
            Ok(())
        };
        let thread = std::thread::Builder::new().name("otolith-merge".to_owned()).spawn(work);
        match thread {
            Ok(thread) => *merging = Some(Merging { pid: std::process::id(), stop, thread }),
            Err(error) => self.upkeep.notice(format!("segments of the index were not merged: {error}")),
        }
    }

    /// Goes on with what a thread has merged.
    fn take_merged(&self) -> Result<()> {
        let Some(Merging { pid, thread, .. }) = lock(&self.upkeep.merging).take() else { return Ok(()) };
        if pid != std::process::id() {
            std::mem::forget(thread);
            return Ok(());
        }
        match thread.join() {
            Ok(done) => done?,
            Err(_) => return Err(Error::Internal("the merge of segments ended in a panic".to_owned())),
        }
        match &self.upkeep.directory {
            Some(directory) => self.adopt(directory),
            None => Ok(()),
        }
    }

    /// Merges all segments of the index on disk into one without what was forgotten. Nothing where there is none. Gives the
    /// directory that is free of it.
    ///
    /// # Errors
    /// [`Error::Store`] when another process is at work in it until the deadline, or when it cannot be written: the
    /// words of forgotten records may then still be in its files.
    pub(super) fn compact_index(&self, wait: &Wait<'_>) -> Result<Option<PathBuf>> {
        let directory = self.upkeep.directory.clone().filter(|_| self.upkeep.writable);
        let Some(directory) = directory.filter(|directory| directory.path().is_dir()) else {
            return Ok(None);
        };
        self.upkeep.stop();
        let _own = lock(&self.upkeep.turn);
        let turn = wait_for_turn(&directory, wait)?;
        if directory.newest()? == 0 {
            turn.forget_all()?;
            return Ok(None);
        }
        drop(self.current()?);
        self.take_newer(&directory)?;
        let snapshot = {
            let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
            // An index of the home's embedder is left to a handle with that one.
            if self.publishes(&served) { served.snapshot() } else { None }
        };
        let Some(snapshot) = snapshot else { return Ok(None) };
        let mut state = snapshot.into_state()?;
        if !matches!(&state.members[..], [one] if one.file.is_some() && one.dead.is_clear()) {
            let members: Vec<&Member> = state.members.iter().collect();
            let merged = Merge::new(&members)?;
            let max_doc = merged.max_doc();
            state.members = if max_doc == 0 {
                Vec::new()
            } else {
                let (file, sections) = turn.write_segment(|out| merged.write(out))?;
                let dead = FixedBitSet::with_capacity(max_doc as usize);
                vec![Member { file: Some(file), segment: Segment::open(sections)?, dead }]
            };
        }
        let (manifest, dead) = state.to_manifest();
        turn.publish(manifest, &dead)?;
        drop(turn);
        self.adopt(&directory)?;
        Ok(Some(directory.path().to_owned()))
    }

    /// Compares the checksums of the index on disk; None when there is none or nothing is wrong.
    pub(super) fn index_damage(&self) -> Option<Error> {
        let directory = self.upkeep.directory.as_ref()?;
        let checked = directory.load().and_then(|loaded| match loaded {
            Some(loaded) => loaded.segments.iter().try_for_each(Sections::check_all),
            None => Ok(()),
        });
        checked.err()
    }

    /// A record that the copy knows is not in the store, though nothing changed. If the copy rests on an index on disk,
    /// that may be what is damaged: it is built anew, once. Else the store is.
    ///
    /// # Errors
    /// `lost`, when the copy is of the store alone, or what was wrong was something else.
    pub(super) fn distrust(&self, lost: Error) -> Result<()> {
        let rests_on_disk = {
            let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
            served.members().any(|member| member.file.is_some())
        };
        if !rests_on_disk || !matches!(lost, Error::StoreCorrupt { .. }) {
            return Err(lost);
        }
        self.upkeep
            .notice(format!("the index named a record that is not there, and was built anew ({lost})"));
        self.rebuild()
    }

    /// Makes copy and index from all records of the store, as if there were none.
    ///
    /// # Errors
    /// Store errors.
    pub(super) fn rebuild(&self) -> Result<()> {
        self.upkeep.stop();
        let _own = lock(&self.upkeep.turn);
        let fresh = served::build(&self.store, &self.analyzer, self.embedder().as_deref())?;
        let old = {
            let _turn = lock(&self.catching_up);
            std::mem::replace(&mut *self.served.write().unwrap_or_else(PoisonError::into_inner), fresh)
        };
        drop(old);
        let Some(directory) = self.upkeep.directory.as_ref().filter(|_| self.upkeep.writable) else {
            return Ok(());
        };
        if let Some(turn) = directory.lock()? {
            turn.forget_all()?;
        }
        Ok(())
    }
}

/// The right to change the directory, as soon as nobody else has it.
fn wait_for_turn(directory: &Directory, wait: &Wait<'_>) -> Result<Turn> {
    let until = Instant::now() + wait.deadline;
    loop {
        if let Some(turn) = directory.lock()? {
            return Ok(turn);
        }
        if wait.interrupted.is_some_and(|interrupted| interrupted()) {
            return Err(Error::Interrupted);
        }
        if Instant::now() >= until {
            let message = "another process is at work in the index; words of forgotten records may still be in its files. Repeat when that is done";
            return Err(Error::store(directory.path(), message));
        }
        std::thread::sleep(POLL);
    }
}

/// Writes the segments that are in no file of the newest manifest: others may be removed at any time.
fn file(mut state: State, turn: &Turn) -> Result<State> {
    let newest = turn.directory().load().ok().flatten().map(|loaded| loaded.manifest.segments);
    let named: Vec<String> = newest.into_iter().flatten().map(|entry| entry.file.name).collect();
    for member in &mut state.members {
        if member.file.as_ref().is_none_or(|file| !named.contains(&file.name)) {
            let (file, sections) = turn.write_segment(|out| member.segment.write(out))?;
            *member =
                Member { file: Some(file), segment: Segment::open(sections)?, dead: member.dead.clone() };
        }
    }
    Ok(state)
}

/// Merges what a call can do; whether more is due.
fn merge_small(turn: &Turn) -> Result<bool> {
    while merge_once(turn, INLINE)? {}
    let Some(loaded) = turn.directory().load()? else { return Ok(false) };
    if loaded.manifest.segments.len() >= TOO_MANY {
        while merge_once(turn, usize::MAX)? {}
        return Ok(false);
    }
    Ok(plan(&entry_sizes(&loaded.manifest)).is_some())
}

/// Merges the segments that are due, if they have at most so many documents together. Whether it did.
fn merge_once(turn: &Turn, most: usize) -> Result<bool> {
    let Some(loaded) = turn.directory().load()? else { return Ok(false) };
    let sizes = entry_sizes(&loaded.manifest);
    let Some(chosen) = plan(&sizes) else { return Ok(false) };
    if chosen.iter().map(|at| sizes[*at].live).sum::<usize>() > most {
        return Ok(false);
    }
    let Loaded { mut manifest, segments, tombstones } = loaded;
    let files = manifest.segments.iter().zip(segments).zip(&tombstones);
    let members = files.map(|((entry, sections), dead)| {
        let segment = Segment::open(sections)?;
        Ok(Member { file: Some(entry.file.clone()), segment, dead: dead.clone() })
    });
    let members: Vec<Member> = members.collect::<Result<_>>()?;
    let taken: Vec<&Member> = chosen.iter().map(|at| &members[*at]).collect();
    let merged = Merge::new(&taken)?;
    let max_doc = merged.max_doc();
    let mut dead = without(tombstones, &chosen);
    manifest.segments = without(manifest.segments, &chosen);
    if max_doc > 0 {
        let (file, _) = turn.write_segment(|out| merged.write(out))?;
        manifest.segments.push(SegmentEntry { file, max_doc, dead: 0 });
        dead.push(FixedBitSet::with_capacity(max_doc as usize));
    }
    turn.publish(manifest, &dead)?;
    Ok(true)
}

/// How large a segment is.
#[derive(Debug, Clone, Copy)]
struct Size {
    live: usize,
    dead: usize,
}

fn sizes<'m>(members: impl Iterator<Item = &'m Member>) -> Vec<Size> {
    let size = |member: &Member| Size { live: member.num_docs(), dead: member.dead.count_ones(..) };
    members.map(size).collect()
}

fn entry_sizes(manifest: &Manifest) -> Vec<Size> {
    let size = |entry: &SegmentEntry| Size {
        live: entry.max_doc.saturating_sub(entry.dead) as usize,
        dead: entry.dead as usize,
    };
    manifest.segments.iter().map(size).collect()
}

/// Which segments are to be merged next: those with too many dead documents, else the smallest size of which there are
/// enough.
fn plan(sizes: &[Size]) -> Option<Vec<usize>> {
    let wasteful = |size: &Size| size.dead * DEAD_SHARE > size.live + size.dead;
    if let Some(at) = sizes.iter().position(wasteful) {
        return Some(vec![at]);
    }
    let tier = |size: &Size| (size.live / FLUSH).max(1).ilog(FACTOR);
    let least = (0..u32::BITS).find(|t| sizes.iter().filter(|size| tier(size) == *t).count() >= FACTOR)?;
    Some((0..sizes.len()).filter(|at| tier(&sizes[*at]) == least).collect())
}

/// The items at other places than `chosen`.
fn without<T>(items: Vec<T>, chosen: &[usize]) -> Vec<T> {
    let kept = items.into_iter().enumerate().filter(|(at, _)| !chosen.contains(at));
    kept.map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[(usize, usize)]) -> Vec<Size> {
        sizes.iter().map(|(live, dead)| Size { live: *live, dead: *dead }).collect()
    }

    #[test]
    fn sizes_of_which_there_are_enough_are_merged_smallest_first() {
        let f = FLUSH;
        assert_eq!(plan(&of(&[(f, 0), (f, 0), (f, 0)])), None);
        assert_eq!(
            plan(&of(&[(100 * f, 0), (f, 0), (f + 1, 0), (2 * f, 0), (f, 1)])),
            Some(vec![1, 2, 3, 4])
        );
        assert_eq!(
            plan(&of(&[(5 * f, 0), (6 * f, 0), (7 * f, 0), (4 * f, 0), (f, 0)])),
            Some(vec![0, 1, 2, 3])
        );
        assert_eq!(plan(&of(&[(30 * f, 0), (3 * f, f)])), None);
        assert_eq!(plan(&of(&[(30 * f, 0), (3 * f, f + 1)])), Some(vec![1]));
        assert_eq!(plan(&of(&[(0, 1)])), Some(vec![0]), "nothing but dead ones");
    }

    #[test]
    fn a_document_is_written_again_a_logarithmic_number_of_times() {
        let (mut sizes, mut written, flushes) = (Vec::new(), 0, 4_096);
        for _ in 0..flushes {
            sizes.push(Size { live: FLUSH, dead: 0 });
            written += FLUSH;
            while let Some(chosen) = plan(&sizes) {
                let live = chosen.iter().map(|at| sizes[*at].live).sum();
                written += live;
                sizes = without(sizes, &chosen);
                sizes.push(Size { live, dead: 0 });
            }
            assert!(sizes.len() <= 3 * 7 + 3, "{} segments", sizes.len());
        }
        assert!(written <= flushes * FLUSH * 8, "{} times", written / (flushes * FLUSH));
    }
}
