//! Damage of the index on disk: found while nobody waits, built anew from the store.
//!
//! Files are checked as far as an answer needs it when they are opened; the arrays in them are compared with their
//! checksums by a thread, slowly, once when a process maps a segment that nobody has compared in a day. Who finds damage
//! notes the segment, so that the others who have it mapped stop using it.

use super::Engine;
use super::served::{self, Served};
use super::upkeep::{POLL, lock};
use super::watch::{Watch, Work};
use crate::error::{Error, Result};
use crate::index::disk::{Directory, Loaded, Turn, is_graph};
use crate::sections::Sections;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A segment that a process compared is not compared again by others for so long.
const EVERY: Duration = Duration::from_hours(24);
/// Who found damage waits so long for a process that is changing the directory; then it looks again later.
const PATIENCE: Duration = Duration::from_secs(5);

impl Engine {
    /// Looks whether a segment in use was found damaged by another process, and compares those that nobody has compared
    /// lately. What is damaged is built anew.
    ///
    /// # Errors
    /// Store errors.
    pub(super) fn look(&self, stop: &AtomicBool) -> Result<()> {
        let Some(directory) = &self.upkeep.directory else { return Ok(()) };
        let files = self.files();
        let notes = directory.notes();
        let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
        let told: Vec<&String> = names.iter().filter(|name| notes.is_damaged(name)).collect();
        if !told.is_empty() {
            return self.heal(&told, "another process found its file damaged");
        }
        let mut whole = Vec::new();
        for (name, sections) in &files {
            let lately = notes.age(name).is_some_and(|age| age < EVERY);
            if lately || self.upkeep.watch.knows(name) {
                continue;
            }
            let checked = sections.check_in_pieces(|bytes| {
                std::thread::sleep(Watch::pause(bytes));
                !stop.load(Ordering::Acquire)
            });
            match checked {
                Ok(true) => whole.push(name.clone()),
                Ok(false) => return Ok(()),
                Err(damage) => return self.heal(&[name], &wrong_with(&damage)),
            }
        }
        if whole.is_empty() {
            return Ok(());
        }
        if self.upkeep.writable
            && let Ok(Some(turn)) = directory.lock()
        {
            turn.note(whole.iter().map(String::as_str), false);
        }
        self.upkeep.watch.note_whole(&whole, &names);
        Ok(())
    }

    /// The segments in files, and their graphs, by name.
    fn files(&self) -> Vec<(String, Sections)> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let segments =
            served.members().filter_map(|member| Some((member.file.as_ref()?, member.segment.sections())));
        let graphs = served.members().filter_map(|member| member.segment.graph());
        segments.chain(graphs).map(|(file, sections)| (file.name.clone(), sections.clone())).collect()
    }

    /// What to do after an error that says that a file of the index is damaged; nothing for a while if that failed before.
    pub(super) fn heal_after(&self, damage: &Error) {
        // It is not in use, but the newest state on disk: that is what has to go.
        if let Err(error) = self.upkeep.watch.attempt(Work::Heal, || self.heal_what(damage)) {
            self.upkeep.notice(format!("a damaged index was not built anew: {error}"));
        }
    }

    /// Builds anew what an error says is damaged.
    ///
    /// # Errors
    /// Store errors.
    pub(super) fn heal_what(&self, damage: &Error) -> Result<()> {
        let files = self.files();
        let named: Vec<&String> = match damage {
            Error::StoreCorrupt { path, .. } => {
                files.iter().filter(|(_, sections)| sections.path() == path).map(|(name, _)| name).collect()
            }
            _ => Vec::new(),
        };
        self.heal(&named, &wrong_with(damage))
    }

    /// Goes on without the segments `bad`: with the newest index on disk if another process has made one without them,
    /// else with one that is made from the store.
    ///
    /// # Errors
    /// Store errors.
    fn heal(&self, bad: &[&String], why: &str) -> Result<()> {
        let _own = lock(&self.upkeep.turn);
        let directory = self.upkeep.directory.as_ref();
        let turn = match directory.filter(|_| self.upkeep.writable) {
            Some(directory) => match patient_turn(directory)? {
                Some(turn) => Some(turn),
                // Whoever is at it may be making what is wanted.
                None => return Ok(()),
            },
            None => None,
        };
        if let Some(turn) = &turn {
            turn.note(bad.iter().map(|name| name.as_str()), true);
        }
        if !bad.is_empty()
            && let Some(directory) = directory
            && newest_is_without(directory, bad)
            && let Ok(Some(newer)) = self.read_index(directory, false, None)
            && self.replace(newer)?
        {
            self.tell_healed(bad, why);
            return Ok(());
        }
        if let Some((directory, turn)) = directory.zip(turn.as_ref())
            && are_graphs(bad)
        {
            // The segments are whole.
            turn.drop_graphs(&bad.iter().map(|name| name.as_str()).collect::<Vec<_>>())?;
            self.adopt(directory)?;
            self.tell_healed(bad, why);
            return Ok(());
        }
        let fresh = match &turn {
            Some(turn) => {
                turn.forget_all()?;
                self.built_on_disk(turn)?
            }
            None => served::build(&self.store, &self.analyzer, self.embedder().as_deref())?,
        };
        drop(turn);
        self.replace(fresh)?;
        self.tell_healed(bad, why);
        Ok(())
    }

    fn tell_healed(&self, bad: &[&String], why: &str) {
        self.upkeep.watch.note_damage(bad.len().max(1));
        self.upkeep.notice(if are_graphs(bad) {
            graph_lost(why)
        } else {
            format!(
                "a segment of the index was damaged, which may have cost ranking, and was built anew from the store: {why}; nothing is lost, but the disk or who writes to it may deserve a look"
            )
        });
    }

    /// A copy made from the store, as the newest state of the directory if it is what that is to hold.
    pub(super) fn built_on_disk(&self, turn: &Turn) -> Result<Served> {
        let handle = self.embedder();
        let embedder = served::serving(&self.store, handle.as_deref())?;
        if !self.may_publish(embedder.as_ref()) {
            return served::build(&self.store, &self.analyzer, handle.as_deref());
        }
        let mut sink = self.sink(turn);
        let fresh = served::scan(&self.store, &self.analyzer, handle.as_deref(), &mut sink)?;
        // A small store has no segments, and no index.
        let snapshot = fresh.snapshot().filter(|_| fresh.members().next().is_some());
        match snapshot {
            Some(snapshot) if fresh.embedder() == embedder.as_ref() => {
                let count =
                    fresh.index().map_or(0, |index| index.num_docs() as u64) + fresh.left_out() as u64;
                self.publish(snapshot.into_state()?, turn).served(count)
            }
            _ => Ok(fresh),
        }
    }

    /// Compares the checksums of the index on disk; None when there is none or nothing is wrong.
    pub(super) fn index_damage(&self) -> Option<Error> {
        let directory = self.upkeep.directory.as_ref()?;
        let checked = directory.load().and_then(|loaded| match loaded {
            Some(Loaded { segments, graphs, lost, .. }) => {
                segments.iter().try_for_each(Sections::check_all)?;
                lost.map_or(Ok(()), Err)?;
                graphs.iter().flatten().try_for_each(Sections::check_all)
            }
            None => Ok(()),
        });
        checked.err()
    }

    /// Goes on without the graph that an error is of, if it is of one; false when it is not, or somebody else is at work in
    /// the directory.
    ///
    /// # Errors
    /// Store errors.
    pub(super) fn went_on_without_graph(&self, damage: &Error) -> Result<bool> {
        let (Error::StoreCorrupt { path, .. } | Error::Store { path, .. }) = damage else { return Ok(false) };
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_graph(name));
        let Some((directory, name)) = self.upkeep.directory.as_ref().zip(name) else { return Ok(false) };
        let Some(turn) = patient_turn(directory)? else { return Ok(false) };
        turn.drop_graphs(&[name])?;
        drop(turn);
        self.adopt(directory)?;
        Ok(true)
    }

    /// A record that the copy knows is not in the store, though nothing changed. If the copy rests on an index on disk,
    /// that may be what is damaged: it is built anew, once. Else the store is.
    ///
    /// # Errors
    /// `lost`, when the copy is of the store alone, or what was wrong was something else.
    pub(super) fn distrust(&self, lost: Error) -> Result<()> {
        if self.files().is_empty() || !matches!(lost, Error::StoreCorrupt { .. }) {
            return Err(lost);
        }
        // Without the error: it speaks of the store, whose rows are whole.
        let what = "the index named a record that is not there or not as it says, and was built anew";
        self.upkeep.notice(what.to_owned());
        self.rebuild()
    }

    /// Makes copy and index from all records of the store, as if there were none; others who have the same segments
    /// mapped leave them too.
    ///
    /// # Errors
    /// Store errors.
    pub(super) fn rebuild(&self) -> Result<()> {
        self.keeper.stop();
        let _own = lock(&self.upkeep.turn);
        let files = self.files();
        self.upkeep.watch.note_damage(1);
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
            turn.note(files.iter().map(|(name, _)| name.as_str()), true);
            turn.forget_all()?;
        }
        Ok(())
    }
}

/// Whether graphs alone are damaged.
fn are_graphs(bad: &[&String]) -> bool {
    !bad.is_empty() && bad.iter().all(|name| is_graph(name))
}

/// What is said of a graph that is not used for this reason.
pub(super) fn graph_lost(why: &str) -> String {
    format!(
        "a graph of the index is damaged or gone, its vectors are compared one by one until it is built anew: {why}; nothing is lost, but the disk or who writes to it may deserve a look"
    )
}

/// The right to change the directory, if nobody keeps it for long.
fn patient_turn(directory: &Directory) -> Result<Option<Turn>> {
    let until = Instant::now() + PATIENCE;
    loop {
        match directory.lock()? {
            None if Instant::now() < until => std::thread::sleep(POLL),
            turn => return Ok(turn),
        }
    }
}

fn newest_is_without(directory: &Directory, bad: &[&String]) -> bool {
    let newest = directory.load().ok().flatten();
    newest.is_some_and(|newest| {
        let mut files =
            newest.manifest.segments.iter().flat_map(|entry| [Some(&entry.file), entry.graph.as_ref()]);
        files.all(|file| !file.is_some_and(|file| bad.iter().any(|name| **name == file.name)))
    })
}

/// What is wrong with a file of the index. The error's own words advise what only a store needs.
pub(super) fn wrong_with(damage: &Error) -> String {
    match damage {
        Error::StoreCorrupt { path, detail } => format!("{}: {detail}", path.display()),
        other => other.to_string(),
    }
}
