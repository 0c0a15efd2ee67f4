//! From where a copy stands to the last commit of any process.
//!
//! What is lacked is mostly little and goes through memory. A copy that fell far behind gets it as segments, from one
//! process for all: whoever may change the directory makes them there, the others wait for that as long as it would
//! take them to do it for themselves, in memory.

use super::Engine;
use super::heal::{graph_lost, wrong_with};
use super::served::{self, Behind, Lag, Member, Position, Segment, SegmentBuilder, Served, Snapshot, State};
use super::upkeep::{FLUSH, POLL, file, lock};
use crate::error::Result;
use crate::index::disk::{Directory, Turn};
use fixedbitset::FixedBitSet;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// With more changed records than this the copy gets them as segments.
pub(super) const BULK: usize = 2 * FLUSH;
/// What a changed record takes to be analysed and made part of a segment.
const EACH: Duration = Duration::from_micros(if cfg!(test) { 100_000 } else { 60 });
/// Times that a newer index is taken over before the changes are made up for in memory.
const ATTEMPTS: usize = 8;

/// What became of a copy that was behind.
pub(super) enum CaughtUp {
    /// It stands where the store was a moment ago.
    Now(Box<Served>),
    /// Another process has made a newer index meanwhile.
    Newer,
    /// It is of another history or embedder.
    Never,
}

/// Who makes what many lack.
enum Chance<'e> {
    /// This handle: no other thread of it and no other process is at work in the directory.
    Turn(MutexGuard<'e, ()>, Turn),
    /// Another process has done it.
    Newer,
    /// Another is at work for longer than it is worth waiting.
    Neither,
}

impl Engine {
    /// A copy of the store: from the index on disk and what changed since, else from all records, which then become the
    /// index on disk. It goes up to `enough` at least.
    pub(super) fn new_copy(&self, enough: Position) -> Result<Served> {
        let directory = self.upkeep.directory.as_ref();
        for _ in 0..ATTEMPTS {
            let Some(directory) = directory else { break };
            let newest = directory.newest().unwrap_or(0);
            match self.read_index(directory, true, Some(enough)) {
                Ok(Some(served)) => return Ok(served),
                Ok(None) => {}
                Err(error) => {
                    self.upkeep.watch.note_damage(1);
                    self.upkeep.notice(format!("the index was built anew: {error}"));
                }
            }
            let embedder = served::serving(&self.store, self.embedder().as_deref())?;
            let count = self.store.read(|view| view.count().map(usize::try_from))?.unwrap_or(usize::MAX);
            if count < FLUSH || !self.may_publish(embedder.as_ref()) {
                break;
            }
            match self.turn_or_newer(directory, newest, count) {
                Chance::Turn(_own, turn) => return self.built_on_disk(&turn),
                Chance::Newer => {}
                Chance::Neither => break,
            }
        }
        served::build(&self.store, &self.analyzer, self.embedder().as_deref())
    }

    /// The right to make a large part of the index, or a newer state of it than `number`, whichever comes first; waited
    /// for as long as `records` take in memory.
    fn turn_or_newer(&self, directory: &Directory, number: u64, records: usize) -> Chance<'_> {
        let until = Instant::now() + EACH * u32::try_from(records).unwrap_or(u32::MAX);
        loop {
            // Not waited for: who has it may be waiting for what the caller holds.
            let own = match self.upkeep.turn.try_lock() {
                Ok(own) => Some(own),
                Err(TryLockError::Poisoned(own)) => Some(own.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            // Where it cannot be locked or read it cannot be written either: the answer does not need it.
            let turn = own.as_ref().and_then(|_| directory.lock().ok().flatten());
            if directory.newest().is_ok_and(|newest| newest != number) {
                return Chance::Newer;
            }
            if let (Some(own), Some(turn)) = (own, turn) {
                return Chance::Turn(own, turn);
            }
            if Instant::now() >= until {
                return Chance::Neither;
            }
            std::thread::sleep(POLL);
        }
    }

    /// The copy that the newest manifest and the changes since give; None when there is none or it does not fit.
    /// `filing`: whether the directory may be changed on the way, by a caller who does not have the right to already.
    /// `enough` as in [`Engine::brought_up`].
    pub(super) fn read_index(
        &self,
        directory: &Directory,
        filing: bool,
        enough: Option<Position>,
    ) -> Result<Option<Served>> {
        for attempt in 1.. {
            let Some(loaded) = directory.load()? else { return Ok(None) };
            if let Some(lost) = &loaded.lost {
                self.upkeep.notice(graph_lost(&wrong_with(lost)));
            }
            let Some(position) = served::Position::of_manifest(&self.store, &loaded.manifest)? else {
                return Ok(None);
            };
            let embedder = served::serving(&self.store, self.embedder().as_deref())?;
            let state = State::from_disk(loaded, position)?;
            if state.embedder.is_some() && embedder.is_some() && state.embedder != embedder {
                // Of another model's vectors; this handle's copy has its own.
                return Ok(None);
            }
            let served = match self.brought_up(
                Served::over(state, embedder)?,
                filing && attempt < ATTEMPTS,
                enough,
            )? {
                CaughtUp::Now(served) => *served,
                CaughtUp::Newer => continue,
                CaughtUp::Never => return Ok(None),
            };
            // Records that the index lacks and no change tells of: what is missing is for the store to say.
            if served.missing() > 0 {
                return Ok(None);
            }
            if self.upkeep.writable {
                directory.note_use();
            }
            return Ok(Some(served));
        }
        Ok(None)
    }

    /// `served`, which nobody asks yet, with what the store has since; while that is much, no further than `enough`.
    pub(super) fn brought_up(
        &self,
        mut served: Served,
        filing: bool,
        enough: Option<Position>,
    ) -> Result<CaughtUp> {
        let mut made_up = false;
        loop {
            let Some(from) = served.position() else { return Ok(CaughtUp::Never) };
            if made_up && enough.is_some_and(|enough| enough.leads_to(from)) {
                return Ok(CaughtUp::Now(Box::new(served)));
            }
            match served::lag(&self.store, &self.analyzer, self.embedder().as_deref(), from, BULK)? {
                Lag::Other => return Ok(CaughtUp::Never),
                Lag::Few(update) => {
                    return Ok(if served.apply(update)? {
                        CaughtUp::Now(Box::new(served))
                    } else {
                        CaughtUp::Never
                    });
                }
                Lag::Many(behind) => {
                    let Some(snapshot) = served.snapshot() else { return Ok(CaughtUp::Never) };
                    match self.make_up(snapshot, &behind, filing)? {
                        CaughtUp::Now(further) => {
                            served = *further;
                            made_up = true;
                        }
                        other => return Ok(other),
                    }
                }
            }
        }
    }

    /// The copy of `snapshot` with many changed records, as segments: on disk if that is this process's to do.
    pub(super) fn make_up(&self, snapshot: Snapshot, behind: &Behind, filing: bool) -> Result<CaughtUp> {
        let count = behind.count();
        let directory =
            self.upkeep.directory.as_ref().filter(|_| filing && self.may_publish(behind.embedder()));
        if let Some(directory) = directory {
            match self.turn_or_newer(directory, snapshot.number(), behind.len()) {
                Chance::Turn(_own, turn) => {
                    return match self.make_up_on_disk(snapshot, behind, &turn)? {
                        Some(state) => Ok(CaughtUp::Now(Box::new(state.served(count)?))),
                        None => Ok(CaughtUp::Never),
                    };
                }
                Chance::Newer => return Ok(CaughtUp::Newer),
                Chance::Neither => {}
            }
        }
        let sink = &mut served::in_memory;
        match served::bulk(&self.store, &self.analyzer, snapshot, behind, sink)? {
            Some(state) => Ok(CaughtUp::Now(Box::new(state.served(count)?))),
            None => Ok(CaughtUp::Never),
        }
    }

    /// The same as the newest state of the directory.
    fn make_up_on_disk(&self, snapshot: Snapshot, behind: &Behind, turn: &Turn) -> Result<Option<State>> {
        let mut sink = self.sink(turn);
        let state = served::bulk(&self.store, &self.analyzer, snapshot, behind, &mut sink)?;
        Ok(state.map(|state| self.publish(state, turn)))
    }

    /// Takes segments into the directory; into memory when that cannot be, so that there is an answer.
    pub(super) fn sink<'e>(&'e self, turn: &'e Turn) -> impl FnMut(SegmentBuilder) -> Result<Member> + 'e {
        move |builder| {
            let member = served::in_memory(builder)?;
            Ok(self.filed(&member, turn).unwrap_or(member))
        }
    }

    fn filed(&self, member: &Member, turn: &Turn) -> Option<Member> {
        let filed = turn.write_segment(|out| member.segment.write(out));
        let opened = filed.and_then(|(file, sections)| {
            let segment = Segment::open(sections)?;
            let dead = FixedBitSet::with_capacity(segment.max_doc() as usize);
            Ok(Member { file: Some(file), segment, dead })
        });
        match opened {
            Ok(member) => Some(member),
            Err(error) => {
                self.upkeep.notice(format!("the index on disk was not brought up to date: {error}"));
                None
            }
        }
    }

    /// Makes `state` the newest of the directory. What cannot be written stays in memory, which is told.
    pub(super) fn publish(&self, mut state: State, turn: &Turn) -> State {
        let published = file(&mut state, turn).and_then(|()| {
            let (manifest, dead) = state.to_manifest();
            turn.publish(manifest, &dead)
        });
        match published {
            Ok(manifest) => {
                turn.directory().note_use();
                state.number = manifest.number;
            }
            Err(error) => {
                self.upkeep.notice(format!("the index on disk was not brought up to date: {error}"));
            }
        }
        state
    }

    /// Where the store is now, and whether the copy had to be brought there. One snapshot tells both where it is and what
    /// the copy lacks, unless another thread is at that already, which is not waited for.
    pub(super) fn keep_up(&self) -> Result<(Position, bool)> {
        if let Ok(_turn) = self.catching_up.try_lock() {
            let from = self.served.read().unwrap_or_else(PoisonError::into_inner).position();
            if let Some(from) = from {
                let embedder = self.embedder();
                let (now, lag) = served::look(&self.store, &self.analyzer, embedder.as_deref(), from, BULK)?;
                let changed = lag.map(|lag| self.follow(lag, now)).transpose()?.is_some();
                return Ok((now, changed));
            }
        }
        Ok((self.store.read(served::position)?, false))
    }

    /// Applies the changes the copy lacks up to `wanted` at least; builds it first if need be.
    pub(super) fn catch_up(&self, wanted: Position) -> Result<()> {
        let _turn = lock(&self.catching_up);
        let position = self.served.read().unwrap_or_else(PoisonError::into_inner).position();
        let embedder = self.embedder();
        let lag = match position {
            Some(from) => served::lag(&self.store, &self.analyzer, embedder.as_deref(), from, BULK)?,
            None => Lag::Other,
        };
        self.follow(lag, wanted)
    }

    /// The same for who knows what the copy lacks and has the right to change it.
    fn follow(&self, lag: Lag, wanted: Position) -> Result<()> {
        match lag {
            Lag::Other => {}
            Lag::Few(update) => {
                let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
                if matches!(served.apply(update), Ok(true)) {
                    return Ok(());
                }
            }
            Lag::Many(behind) => {
                let made = match self.snapshot() {
                    Some(snapshot) => self.make_up(snapshot, &behind, true)?,
                    None => CaughtUp::Never,
                };
                if let CaughtUp::Now(fresh) = made {
                    let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
                    let old = std::mem::replace(&mut *served, *fresh);
                    drop(served);
                    drop(old);
                    return Ok(());
                }
            }
        }
        // The copy is of another history or embedder, or a newer index is there. It goes first: two at once would leave
        // the process with the memory of two.
        let old = std::mem::take(&mut *self.served.write().unwrap_or_else(PoisonError::into_inner));
        drop(old);
        let fresh = self.new_copy(wanted)?;
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}
