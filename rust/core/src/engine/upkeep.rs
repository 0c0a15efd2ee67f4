//! Care of the index on disk: what lies in memory becomes a segment, segments are merged, damage is built anew.
//!
//! Nothing here is needed for an answer to be right: a process that never gets to it answers from memory. In a handle
//! that is a few seconds old the call that finds it due does it, so that processes of one question leave an index; later
//! a thread does. The locks a question needs are held for the moment in which the new copy takes the place of the old
//! one. The store is never touched.

use super::Engine;
use super::catching_up::CaughtUp;
use super::served::{self, Lag, Member, Merge, Segment, Served, Snapshot, State};
use super::tiers::{entry_sizes, plan, sizes, without};
use super::vectors::home_embedder;
use super::watch::{Watch, Work};
use crate::error::{Error, Result};
use crate::index::disk::{Directory, FileEntry, Loaded, SegmentEntry, Turn};
use crate::sections::Sections;
use crate::store::{EmbedderRow, Wait};
use fixedbitset::FixedBitSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// Documents in memory from which on they become a segment: some ten milliseconds of work, and what the next process
/// has to analyse at most.
pub(super) const FLUSH: usize = if cfg!(test) { 40 } else { 1_000 };
/// Merges up to so many documents are done with the flush that made them due, larger ones afterwards by the thread.
const INLINE: usize = 20_000;
/// From so many segments on the call does it however large it is: no process lived long enough for a thread.
const TOO_MANY: usize = 24;
/// With so much in memory, and another process at work in the directory, it becomes segments in memory.
const OVERDUE: usize = 8 * FLUSH;
/// How often it is looked whether another process has done with the directory.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// So many changed records are analysed while a question waits for the new copy to take the place of the old one.
const AT_THE_SWAP: usize = 8;
/// Twice as many at each further attempt; after so many attempts, as many as there are.
const ATTEMPTS: usize = 8;
/// How often, and how long apart, it is looked whether the copy is free: two milliseconds in all.
const TRIES: usize = 20;
const TRY: Duration = Duration::from_micros(100);

/// What is said when it was waited for in vain.
const AT_WORK: &str = "another process is at work in the index; words of forgotten records may still be in its files. Repeat when that is done";

/// What the care of an index needs besides the copy.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Where the index lies; None for a memory in RAM.
    pub(super) directory: Option<Directory>,
    /// Whether it may be written.
    pub(super) writable: bool,
    /// Held by the thread that works.
    pub(super) turn: Mutex<()>,
    notices: Mutex<Vec<String>>,
    /// Merges that are too much for a call are due.
    pub(super) merges: AtomicBool,
    pub(super) watch: Watch,
    /// The longest that a question waited for care of the index, in microseconds.
    pub(super) longest_wait: AtomicU64,
}

impl Upkeep {
    pub(super) fn of(directory: Directory, writable: bool) -> Self {
        Self { directory: Some(directory), writable, ..Self::default() }
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
}

/// Since `start`.
fn micros(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Does what is due, or has the handle's thread do it. Failures are told, not raised: the answer does not need it.
    pub(super) fn take_care(&self) {
        let (due, overdue) = self.is_due();
        if self.upkeep.watch.is_settled() {
            if due || self.upkeep.watch.wants_look() {
                self.call_keeper();
            }
            // The thread may be at a merge of everything; what lies in memory must not grow until it is done.
            if !overdue {
                return;
            }
        }
        if due {
            self.tend();
        }
    }

    /// Whether what lies in memory is to become a segment, and whether that is overdue.
    fn is_due(&self) -> (bool, bool) {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let unfiled = served.members().any(|member| member.file.is_none());
        let backlog = served.backlog().0;
        (backlog >= FLUSH || (unfiled && self.publishes(&served)), backlog >= OVERDUE)
    }

    /// Makes a segment of what lies in memory, unless another thread is at it.
    fn tend(&self) {
        let done = {
            let Ok(_turn) = self.upkeep.turn.try_lock() else { return };
            self.upkeep.watch.attempt(Work::Segment, || self.make_segment())
        };
        match done {
            Ok(_) => {}
            Err(damage @ Error::StoreCorrupt { .. }) => self.heal_after(&damage),
            Err(error) => {
                self.upkeep.notice(format!("the index on disk was not brought up to date: {error}"));
            }
        }
        if self.upkeep.merges.load(Ordering::Acquire) {
            self.call_keeper();
        }
    }

    /// The same at the end of a thread.
    pub(super) fn file_backlog(&self) {
        if self.is_due().0 {
            self.tend();
        }
    }

    /// Has the handle's thread look after the index.
    pub(super) fn call_keeper(&self) {
        if let Err(error) = self.keeper.call(|| self.for_keeper()) {
            self.upkeep.notice(format!("the index on disk is not looked after: {error}"));
        }
    }

    /// What the thread does when it is called. What failed after much work rests.
    pub(super) fn keep(&self, stop: &Arc<AtomicBool>) {
        let watch = &self.upkeep.watch;
        let work = || {
            if self.is_due().0 {
                self.tend();
            }
            if !watch.rests(Work::Merge) && self.upkeep.merges.swap(false, Ordering::AcqRel) {
                let merged = watch.attempt(Work::Merge, || self.merge_all(stop));
                // They are due as before.
                merged.inspect_err(|_| self.upkeep.merges.store(true, Ordering::Release))?;
            }
            watch.attempt(Work::Look, || {
                // First, so that damage is told of which another process has healed.
                self.look(stop)?;
                self.follow_others()
            })?;
            watch.attempt(Work::Graphs, || self.keep_graphs(stop)).map(drop)
        };
        let told = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(damage @ Error::StoreCorrupt { .. })) => return self.heal_after(&damage),
            // Whatever went wrong went wrong because it was to end.
            Ok(Err(_)) if stop.load(Ordering::Acquire) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a panic".to_owned(),
        };
        self.upkeep.notice(format!("the index on disk was not looked after: {told}"));
    }

    /// Whether this copy is the one that the home's index on disk is to hold.
    pub(super) fn publishes(&self, served: &Served) -> bool {
        self.may_publish(served.embedder())
    }

    /// Whether a copy with the vectors of this embedder is.
    pub(super) fn may_publish(&self, embedder: Option<&EmbedderRow>) -> bool {
        let ours = || {
            let home = self.store.read(home_embedder);
            home.is_ok_and(|home| home.as_ref() == embedder)
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
        let mut state = snapshot.into_state()?;
        file(&mut state, &turn)?;
        let (manifest, dead) = state.to_manifest();
        turn.publish(manifest, &dead)?;
        let rest = merge_small(&turn);
        drop(turn);
        self.adopt(directory)?;
        self.upkeep.merges.fetch_or(rest?, Ordering::AcqRel);
        Ok(())
    }

    /// Goes on with the newest manifest if the copy rests on an older one. Whether it did.
    pub(super) fn take_newer(&self, directory: &Directory) -> Result<bool> {
        let number = self.served.read().unwrap_or_else(PoisonError::into_inner).number();
        if directory.newest()? == number {
            return Ok(false);
        }
        // One that is damaged, or of another history, is replaced by what this copy has.
        match self.read_index(directory, false, None) {
            Ok(Some(newer)) => self.replace(newer),
            _ => Ok(false),
        }
    }

    /// Goes on with what other processes made of the index since: fewer segments, graphs.
    fn follow_others(&self) -> Result<()> {
        let number = self.served.read().unwrap_or_else(PoisonError::into_inner).number();
        match &self.upkeep.directory {
            // A copy that rests on no manifest is not that of the directory.
            Some(directory) if number > 0 => self.take_newer(directory).map(drop),
            _ => Ok(()),
        }
    }

    /// Documents that lie in memory.
    fn backlog(&self) -> usize {
        self.served.read().unwrap_or_else(PoisonError::into_inner).backlog().0
    }

    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        self.served.read().unwrap_or_else(PoisonError::into_inner).snapshot()
    }

    /// The same without a file.
    fn make_segment_in_memory(&self) -> Result<()> {
        if self.served.read().unwrap_or_else(PoisonError::into_inner).is_foreign() {
            let fresh = served::build(&self.store, &self.analyzer, self.embedder().as_deref())?;
            return self.replace(fresh).map(drop);
        }
        let Some(snapshot) = self.snapshot() else { return Ok(()) };
        let mut state = snapshot.into_state()?;
        loop {
            // What lies in files is left to who has the directory: merging it here would be for this process alone.
            let loose: Vec<usize> =
                (0..state.members.len()).filter(|at| state.members[*at].file.is_none()).collect();
            let Some(chosen) = plan(&sizes(loose.iter().map(|at| &state.members[*at]))) else { break };
            let chosen: Vec<usize> = chosen.into_iter().map(|at| loose[at]).collect();
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
    pub(super) fn adopt(&self, directory: &Directory) -> Result<()> {
        match self.read_index(directory, false, None)? {
            Some(served) => self.replace(served).map(drop),
            None => Ok(()),
        }
    }

    /// Puts `fresh` in the place of the copy, once it has caught up. False when it is of another history or embedder.
    pub(super) fn replace(&self, mut fresh: Served) -> Result<bool> {
        let handle = self.embedder();
        for attempt in 0.. {
            // What came meanwhile is analysed before anybody waits; what comes during that is little.
            fresh = match self.brought_up(fresh, false, None)? {
                CaughtUp::Now(fresh) => *fresh,
                _ => return Ok(false),
            };
            let Some(from) = fresh.position() else { return Ok(false) };
            let most = if attempt < ATTEMPTS { AT_THE_SWAP << attempt } else { usize::MAX };
            let turn = lock(&self.catching_up);
            let start = Instant::now();
            if self.embedder() != handle {
                return Ok(false);
            }
            // A copy that is not behind the one in use takes its place as it is: who asks next brings it further.
            let used = self.served.read().unwrap_or_else(PoisonError::into_inner).position();
            if !used.is_some_and(|used| used.leads_to(from)) {
                match served::lag(&self.store, &self.analyzer, handle.as_deref(), from, most)? {
                    Lag::Many(_) => continue,
                    Lag::Other => return Ok(false),
                    Lag::Few(update) => {
                        if !fresh.apply(update)? {
                            return Ok(false);
                        }
                    }
                }
            }
            let old = std::mem::replace(&mut *self.free_copy(), fresh);
            self.upkeep.longest_wait.fetch_max(micros(start), Ordering::Relaxed);
            drop(turn);
            drop(old);
            break;
        }
        Ok(true)
    }

    /// The copy, to be exchanged. Asked for so that searches that are running do not make others wait: a lock that is
    /// waited for lets nobody else in.
    fn free_copy(&self) -> RwLockWriteGuard<'_, Served> {
        for _ in 0..TRIES {
            match self.served.try_write() {
                Ok(copy) => return copy,
                Err(TryLockError::Poisoned(copy)) => return copy.into_inner(),
                Err(TryLockError::WouldBlock) => std::thread::sleep(TRY),
            }
        }
        self.served.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Merges what is too much for a call.
    fn merge_all(&self, stop: &Arc<AtomicBool>) -> Result<()> {
        let Some(directory) = &self.upkeep.directory else { return Ok(()) };
        let Some(turn) = directory.lock()? else { return Ok(()) };
        let turn = turn.until(Arc::clone(stop));
        let mut merged = false;
        while merge_once(&turn, usize::MAX)? {
            merged = true;
        }
        drop(turn);
        if merged { self.adopt(directory) } else { Ok(()) }
    }

    /// Merges all segments of the index on disk into one without what was forgotten. Nothing where there is none. Gives the
    /// directory that is free of it.
    ///
    /// # Errors
    /// [`Error::Store`] when another process is at work in it until the deadline, or when it cannot be written: the
    /// words of forgotten records may then still be in its files.
    pub(super) fn compact_index(&self, wait: &Wait<'_>) -> Result<Option<PathBuf>> {
        match self.merge_to_one(wait) {
            Err(damage @ Error::StoreCorrupt { .. }) => {
                // What is built anew is as small.
                self.heal_what(&damage)?;
                Ok(self.upkeep.directory.as_ref().map(|directory| directory.path().to_owned()))
            }
            merged => merged,
        }
    }

    fn merge_to_one(&self, wait: &Wait<'_>) -> Result<Option<PathBuf>> {
        let directory = self.upkeep.directory.clone().filter(|_| self.upkeep.writable);
        let Some(directory) = directory.filter(|directory| directory.path().is_dir()) else {
            return Ok(None);
        };
        self.keeper.stop();
        // Before the directory is locked: a copy that is far behind would wait for whoever has it.
        drop(self.current()?);
        let _own = lock(&self.upkeep.turn);
        let turn = wait_for(&directory, wait, AT_WORK, Directory::lock)?;
        if directory.newest()? == 0 {
            turn.forget_all()?;
            return Ok(None);
        }
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
}

/// A right in the directory, as soon as nobody else has it; `refused` is what is said when that takes too long.
pub(super) fn wait_for<T>(
    directory: &Directory,
    wait: &Wait<'_>,
    refused: &str,
    take: impl Fn(&Directory) -> Result<Option<T>>,
) -> Result<T> {
    let until = Instant::now() + wait.deadline;
    loop {
        if let Some(right) = take(directory)? {
            return Ok(right);
        }
        if wait.interrupted.is_some_and(|interrupted| interrupted()) {
            return Err(Error::Interrupted);
        }
        if Instant::now() >= until {
            return Err(Error::store(directory.path(), refused));
        }
        std::thread::sleep(POLL);
    }
}

/// Writes the segments that are in no file of the newest manifest: others may be removed at any time. A graph that it does
/// not name is left out.
pub(super) fn file(state: &mut State, turn: &Turn) -> Result<()> {
    let newest = turn.directory().load().ok().flatten().map(|loaded| loaded.manifest.segments);
    let newest = newest.unwrap_or_default();
    let graphs: Vec<&FileEntry> = newest.iter().filter_map(|entry| entry.graph.as_ref()).collect();
    let made: Vec<&str> = newest.iter().map(|entry| entry.file.name.as_str()).collect();
    for member in &mut state.members {
        if member.segment.graph().is_some_and(|(graph, _)| !graphs.contains(&graph)) {
            member.segment.drop_graph();
        }
        let named = |file: &FileEntry| made.contains(&&*file.name) || turn.has_written(&file.name);
        if member.file.as_ref().is_none_or(|file| !named(file)) {
            let (file, sections) = turn.write_segment(|out| member.segment.write(out))?;
            *member =
                Member { file: Some(file), segment: Segment::open(sections)?, dead: member.dead.clone() };
        }
    }
    Ok(())
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
    let Loaded { mut manifest, segments, tombstones, .. } = loaded;
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
        manifest.segments.push(SegmentEntry { file, max_doc, dead: 0, graph: None });
        dead.push(FixedBitSet::with_capacity(max_doc as usize));
    }
    turn.publish(manifest, &dead)?;
    Ok(true)
}
