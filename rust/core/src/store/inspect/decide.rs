//! What comes back of a damaged file, and what is told of the rest.
//!
//! A record that is sure comes back. Of another the newest version that is whole comes back if the change feed says
//! that the record is there; a feed with holes, or without its end, says it only of records after whose last change
//! nothing can be missing. What is in doubt goes to `lost+found` in a form that can be imported. Of a vector the text
//! tells whether it is meant.

use super::super::rows::{GIVEN, Operation};
use super::pages::{PAGE, Pages};
use super::report::Loss;
use super::row::{Key, Row, Table, decode, id_text};
use super::salvage::{Chunk, Salvage, Spot, Version, place_of};
use crate::episode::{EmbeddedText, Episode};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

type Id = [u8; 16];

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
        self.recover_embeddings(pages)?;
        self.tell_missing(&feed, &gaps);
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
                    versions.push(Version { at: *at, mark: *mark, placed: true, is_row: true });
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
    fn at_hand(&self) -> BTreeMap<Id, Spot> {
        let left = self.left.iter().filter_map(|(_, key, at, _)| Some((key.episode()?, *at)));
        left.chain(self.episodes.iter().map(|(id, at)| (*id, *at))).collect()
    }

    fn recover_embeddings(&mut self, pages: &Pages) -> io::Result<()> {
        let tree_is_whole = self.whole(Table::Embeddings);
        let unreadable: BTreeSet<Chunk> =
            self.unreadable.iter().filter_map(|row| row.key.as_ref().and_then(Key::chunk)).collect();
        let records = self.at_hand();
        let mut hashes: FxHashMap<Id, Option<i128>> = FxHashMap::default();
        for (key, versions) in &self.old_embeddings {
            let wanted = !tree_is_whole || unreadable.contains(key);
            let Some(at) = records.get(&key.1).copied() else { continue };
            if !wanted || self.embeddings.contains_key(key) {
                continue;
            }
            let hash = if let Some(known) = hashes.get(&key.1) {
                *known
            } else {
                let episode = read_episode(pages, key.1, at)?;
                let hash = episode.map(|episode| EmbeddedText::of(&episode).hash.cast_signed());
                *hashes.entry(key.1).or_insert(hash)
            };
            let of_text = || versions.iter().filter(|version| Some(version.mark) == hash);
            let best = of_text().max_by_key(|one| (one.is_row, one.placed, Reverse(one.at.offset)));
            let Some(best) = best else { continue };
            self.embeddings.insert(*key, best.at);
            if best.is_row && of_text().filter(|one| one.is_row).count() > 1 {
                let value = pages.read(best.at.offset, best.at.len)?;
                for other in of_text().filter(|one| one.is_row) {
                    if pages.read(other.at.offset, other.at.len)? != value {
                        let detail = "several vectors of its text were found, and this may be an earlier one";
                        let name = self.vector_name(key.0, &key.1);
                        self.losses.push(loss(Table::Embeddings, name, detail.to_owned()));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// What did not come back, by name where it has one.
    fn tell_missing(&mut self, feed: &Feed, gaps: &[Gap]) {
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
        self.tell_missing_vectors(&records, gaps, lost.len());
        let rows = self.changes.len() as u64;
        let holes = !self.whole(Table::Changes) && (rows == 0 || rows < self.last_sequence());
        if self.end().is_none() || holes {
            let detail = "parts of the change feed cannot be read, so records may be lost that nothing names";
            self.losses.push(loss(Table::Changes, String::new(), detail.to_owned()));
        }
    }

    /// Records that have vectors, whosever.
    pub(super) fn embedded(&self) -> BTreeSet<Id> {
        self.embeddings.keys().map(|(_, id, _)| *id).collect()
    }

    fn gaps_in_vectors(&self) -> Vec<Gap> {
        if self.whole(Table::Embeddings) {
            return Vec::new();
        }
        let chunk = |key: &[u8]| Key::parse(Table::Embeddings, key).and_then(|key| key.chunk());
        let begins: BTreeSet<Option<Chunk>> =
            self.gaps.iter().map(|after| after.as_deref().and_then(chunk)).collect();
        if begins.is_empty() || self.embeddings.is_empty() {
            return vec![Gap { after: None, until: None }];
        }
        let end_of = |after: &Option<Chunk>| match after {
            Some(after) => self.embeddings.keys().find(|key| *key > after).copied(),
            None => self.embeddings.keys().next().copied(),
        };
        begins.iter().map(|after| Gap { after: *after, until: end_of(after) }).collect()
    }

    /// Names each record and embedder whose vectors were in a part of the tree that is lost.
    fn tell_missing_vectors(&mut self, records: &BTreeMap<Id, Spot>, gaps: &[Gap], lost_records: usize) {
        let missing = self.embeddings_said.map(|said| said.saturating_sub(self.embeddings.len() as u64));
        let mut pairs: BTreeSet<(u32, Id)> = BTreeSet::new();
        for row in &self.unreadable {
            if let Some(Key::Chunk(embedder, id, chunk)) = &row.key
                && !self.embeddings.contains_key(&(*embedder, *id, *chunk))
                && records.contains_key(id)
            {
                pairs.insert((*embedder, *id));
            }
        }
        if missing != Some(0) {
            let chunks = self.embeddings.keys().chain(self.old_embeddings.keys());
            let mut seen: BTreeSet<u32> = chunks.map(|(embedder, ..)| *embedder).collect();
            // All rows of one may be in the part that is lost.
            seen.extend(self.embedders.keys());
            seen.extend(self.home_embedder());
            // Refusals from before there was an embedder are made again.
            seen.remove(&0);
            for embedder in seen {
                let there = |id: &Id| {
                    let chunks = self.embeddings.range((embedder, *id, 0)..=(embedder, *id, u32::MAX));
                    let (count, last) =
                        chunks.fold((0, None), |(count, _), ((.., chunk), _)| (count + 1, Some(*chunk)));
                    last.is_some_and(|last| count == last + 1)
                };
                let bare = records.keys().filter(|id| !there(id));
                let in_gap = |id: &Id| gaps.iter().any(|gap| gap.may_hold(embedder, id));
                pairs.extend(bare.filter(|id| in_gap(id)).map(|id| (embedder, *id)));
            }
        }
        let home = self.home_embedder();
        for (embedder, id) in &pairs {
            let fingerprint = self.embedders.get(embedder).map(|row| row.fingerprint.as_str());
            let advice = match fingerprint {
                Some(fingerprint) if fingerprint.starts_with(GIVEN) => "give it again",
                Some(_) if home == Some(*embedder) => "`otolith embed` makes it anew",
                _ => "it can be imported again from an export that has it",
            };
            let detail = format!("its vector cannot be read; {advice}");
            let name = self.vector_name(*embedder, id);
            self.losses.push(loss(Table::Embeddings, name, detail));
        }
        let named = pairs.len() as u64;
        if let Some(missing) = missing.filter(|missing| *missing > named + lost_records as u64) {
            let detail = format!(
                "{missing} rows of vectors are lost, {named} of them named; others may be of records named as lost"
            );
            self.losses.push(loss(Table::Embeddings, String::new(), detail));
        }
    }

    pub(super) fn home_embedder(&self) -> Option<u32> {
        let bodies = self.meta_candidates(super::super::tables::META_HOME_EMBEDDER);
        bodies.iter().filter_map(|body| body.as_slice().try_into().ok().map(u32::from_le_bytes)).max()
    }

    pub(super) fn vector_name(&self, embedder: u32, id: &Id) -> String {
        match self.embedders.get(&embedder) {
            Some(row) => format!("{}, embedder {}", id_text(id), row.fingerprint),
            None => format!("{}, embedder {embedder}", id_text(id)),
        }
    }
}

/// A part of the tree of vectors that is lost, between two keys that are not; none is the end of the table.
#[derive(Debug)]
struct Gap {
    after: Option<Chunk>,
    until: Option<Chunk>,
}

impl Gap {
    /// Whether rows of a record may have been in it.
    fn may_hold(&self, embedder: u32, id: &Id) -> bool {
        self.after.is_none_or(|after| after < (embedder, *id, u32::MAX))
            && self.until.is_none_or(|until| until > (embedder, *id, 0))
    }
}

fn read_episode(pages: &Pages, id: Id, at: Spot) -> io::Result<Option<Episode>> {
    let value = pages.read(at.offset, at.len)?;
    Ok(match decode(Table::Episodes, &Key::Episode(id), &value) {
        Ok(Row::Episode(episode)) => Some(*episode),
        _ => None,
    })
}

fn loss(table: Table, id: String, detail: String) -> Loss {
    Loss { table: table.name().to_owned(), id, detail, file: None }
}
