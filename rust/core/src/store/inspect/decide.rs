//! What comes back of a damaged file, and what is told of the rest.
//!
//! A record that is sure comes back. Of another the newest version that is whole comes back if the change feed says
//! that the record is there; a feed with holes, or without its end, says it only of records after whose last change
//! nothing can be missing. What is in doubt goes to `lost+found` in a form that can be imported.

use super::super::rows::Operation;
use super::pages::{PAGE, Pages};
use super::recover::Gap;
use super::report::Loss;
use super::row::{Key, Row, Table, decode, id_text};
use super::salvage::{Salvage, Spot, Version, place_of};
use crate::episode::Episode;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

pub(super) type Id = [u8; 16];

/// What the feed says of a record.
#[derive(Debug, Clone, Copy)]
struct Said {
    last: Operation,
    /// Whether a later change may be missing.
    hole: bool,
}

type Feed = FxHashMap<Id, Said>;

impl Salvage {
    /// What the feed says of each record.
    fn feed(&self) -> Feed {
        let mut said = Feed::default();
        let (end, whole) = (self.end(), self.whole(Table::Changes));
        let mut hole = end.is_none();
        let mut next = end.unwrap_or(u64::MAX).saturating_add(1);
        for (sequence, told) in self.changes.iter().rev() {
            hole |= !whole && sequence + 1 != next;
            next = *sequence;
            // Where two transactions took the same number, one of them was never committed: none is sure, and one
            // that forgets weighs more.
            let doubtful = told.changes.len() > 1;
            for (id, operation) in &told.changes {
                let entry = said.entry(*id).or_insert(Said { last: *operation, hole });
                if doubtful && *operation == Operation::Delete {
                    entry.last = Operation::Delete;
                }
            }
        }
        said
    }

    /// Decides what comes back.
    pub(super) fn decide(&mut self, pages: &Pages) -> io::Result<()> {
        let feed = self.feed();
        let gaps = self.gaps_in_vectors();
        self.drop_forgotten(&feed);
        self.recover_episodes(&feed, pages)?;
        let broken = self.recover_vectors(pages)?;
        self.tell_missing(&feed, &gaps, broken);
        Ok(())
    }

    /// A record that the feed says is gone, and that its table has, is not served.
    fn drop_forgotten(&mut self, feed: &Feed) {
        let is_gone = |id: &Id| matches!(feed.get(id), Some(Said { last: Operation::Delete, .. }));
        let gone: BTreeMap<Id, Spot> = self.episodes.extract_if(.., |id, _| is_gone(id)).collect();
        self.owners.retain(|_, owner| !gone.contains_key(owner));
        for (id, at) in gone {
            self.left.push((Table::Episodes, Key::Episode(id), at, "its last change forgot it".to_owned()));
        }
    }

    /// Makes candidates of the records of which there is a later version than the commit has.
    fn doubt_outdated(&mut self) -> FxHashSet<Id> {
        let mut outdated = FxHashSet::default();
        if self.is_behind() {
            for (id, versions) in &mut self.old_episodes {
                let (Some(at), Some(mark)) = (self.episodes.get(id), self.marks.get(id)) else { continue };
                if versions.iter().any(|version| version.mark > *mark) {
                    versions.push(Version { at: *at, mark: *mark, placed: true });
                    outdated.insert(*id);
                }
            }
            self.episodes.retain(|id, _| !outdated.contains(id));
            self.owners.retain(|_, owner| !outdated.contains(owner));
        }
        outdated
    }

    fn recover_episodes(&mut self, feed: &Feed, pages: &Pages) -> io::Result<()> {
        let mut known = self.doubt_outdated();
        let unreadable = self.unreadable.iter().filter(|row| row.sure);
        known.extend(unreadable.filter_map(|row| row.key.as_ref().and_then(Key::episode)));
        let behind = self.is_behind();
        let tree_is_whole = self.whole(Table::Episodes) && !behind;
        let mut candidates = Vec::new();
        for (id, versions) in &self.old_episodes {
            // In a whole tree whatever is not there is not meant to be there.
            let wanted = known.contains(id) || !tree_is_whole;
            let newest =
                versions.iter().max_by_key(|version| (version.mark, version.placed, version.at.offset));
            if let (true, false, Some(newest)) = (wanted, self.episodes.contains_key(id), newest) {
                let torn = newest.placed && self.torn.contains(&(newest.at.offset / PAGE));
                candidates.push((newest.mark, *id, newest.at, torn));
            }
        }
        // Newest first: of two that claim a key the newer one has it.
        candidates.sort_by_key(|(mark, id, ..)| Reverse((*mark, *id)));
        for (_, id, at, torn) in candidates {
            let key = Key::Episode(id);
            let why_not = match feed.get(&id) {
                Some(Said { last: Operation::Delete, .. }) => continue,
                _ if known.contains(&id) => None,
                Some(Said { hole: false, .. }) => None,
                Some(_) => {
                    Some("changes after its last known one may be lost, and one may have forgotten it")
                }
                None if self.whole(Table::Changes) && !behind => continue,
                None => Some("no change that can be read tells of it, and one may have forgotten it"),
            };
            if let Some(reason) = why_not {
                self.left.push((Table::Episodes, key, at, reason.to_owned()));
                continue;
            }
            let Some(episode) = read_episode(pages, id, at)? else { continue };
            if let Some(owner) = place_of(&episode).and_then(|place| self.owners.get(&place)) {
                let reason = format!("its key belongs to {} now", id_text(owner));
                self.left.push((Table::Episodes, key, at, reason));
                continue;
            }
            self.own(&episode);
            self.episodes.insert(id, at);
            if known.contains(&id) || self.content_lost && !torn || behind {
                let detail = format!(
                    "came back as it was at {}; if it was updated later, that is lost",
                    episode.updated_at
                );
                self.losses.push(loss(Table::Episodes, id_text(&id), detail));
            }
        }
        Ok(())
    }

    /// Records that are in the new file, or whole in `lost+found`.
    pub(super) fn at_hand(&self) -> BTreeMap<Id, Spot> {
        let left = self.left.iter().filter_map(|(_, key, at, _)| Some((key.episode()?, *at)));
        left.chain(self.episodes.iter().map(|(id, at)| (*id, *at))).collect()
    }

    /// What did not come back, by name where it has one.
    fn tell_missing(&mut self, feed: &Feed, gaps: &[Gap], broken: BTreeSet<(u32, Id)>) {
        let mut lost: BTreeSet<Id> =
            feed.iter().filter(|(_, said)| said.last != Operation::Delete).map(|(id, _)| *id).collect();
        let unreadable = self.unreadable.iter().filter_map(|row| row.key.as_ref().and_then(Key::episode));
        let forgotten = |id: &Id| matches!(feed.get(id), Some(Said { last: Operation::Delete, .. }));
        lost.extend(unreadable.filter(|id| !forgotten(id)));
        let records = self.at_hand();
        lost.retain(|id| !records.contains_key(id));
        for id in &lost {
            self.losses.push(loss(Table::Episodes, id_text(id), "no version of it can be read".to_owned()));
        }
        self.tell_missing_vectors(&records, gaps, broken, lost.len());
        let rows = self.changes.len() as u64;
        let holes = !self.whole(Table::Changes) && (rows == 0 || rows < self.last_sequence());
        if self.end().is_none() || holes {
            let detail = "parts of the change feed cannot be read, so records may be lost that nothing names";
            self.losses.push(loss(Table::Changes, String::new(), detail.to_owned()));
        }
    }
}

pub(super) fn read_episode(pages: &Pages, id: Id, at: Spot) -> io::Result<Option<Episode>> {
    let value = pages.read(at.offset, at.len)?;
    Ok(match decode(Table::Episodes, &Key::Episode(id), &value) {
        Ok(Row::Episode(episode)) => Some(*episode),
        _ => None,
    })
}

pub(super) fn loss(table: Table, id: String, detail: String) -> Loss {
    Loss { table: table.name().to_owned(), id, detail, file: None }
}
