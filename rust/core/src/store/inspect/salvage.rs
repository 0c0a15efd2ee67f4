//! What of a damaged file is good: from its trees, and from its pages where a tree is broken.
//!
//! Every value carries a checksum over itself, its key and its table, so a row that is found anywhere in the file was
//! written there as it is. What its bytes do not tell is whether it is still meant: pages that are free hold earlier
//! versions and forgotten records. So a record that no tree leads to comes back only if the change feed says that it
//! is there, and a feed with holes, or without its end, says it only about records after whose last change there is no
//! hole. What is in doubt goes to `lost+found` in a form that can be imported.

use super::super::rows::{EmbedderRow, Operation};
use super::super::tables;
use super::pages::{Node, PAGE, Pages};
use super::report::Loss;
use super::row::{Key, Row, RowFault, Table, decode, id_text};
use super::walk::{Found, TreeState, visit};
use crate::episode::{EmbeddedText, Episode};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Where a value lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A row that cannot be used.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) table: Table,
    pub(super) key: Option<Key>,
    pub(super) at: Spot,
    pub(super) fault: RowFault,
}

/// A version of a record or vector that was found outside the trees.
#[derive(Debug, Clone, Copy)]
struct Version {
    at: Spot,
    /// When a record was updated; the text a vector is of.
    mark: i128,
}

/// Number of a vector: embedder, record, chunk.
pub(super) type Chunk = (u32, [u8; 16], u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    pub(super) meta: BTreeMap<String, Vec<u8>>,
    pub(super) embedders: BTreeMap<u32, EmbedderRow>,
    pub(super) episodes: BTreeMap<[u8; 16], Spot>,
    pub(super) embeddings: BTreeMap<Chunk, Spot>,
    pub(super) unreadable: Vec<Unreadable>,
    /// Rows that are good and did not come back, with the reason.
    pub(super) left: Vec<(Table, Key, Spot, String)>,
    pub(super) losses: Vec<Loss>,
    /// Whether a page that may have held rows is lost, so that an older version may be all there is.
    pub(super) content_lost: bool,
    /// Whether the file ends before a page that it leads to: then the latest changes may be what is missing.
    pub(super) cut_off: bool,
    /// Who owns each key.
    owners: FxHashMap<(String, String), [u8; 16]>,
    changes: BTreeMap<u64, Vec<([u8; 16], Operation)>>,
    trees: BTreeMap<Table, TreeState>,
    old_episodes: BTreeMap<[u8; 16], Vec<Version>>,
    old_embeddings: BTreeMap<Chunk, Vec<Version>>,
    old_meta: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

impl Salvage {
    /// A row that a tree leads to.
    pub(super) fn row(
        &mut self,
        table: Table,
        key: Option<&Key>,
        found: Found<'_>,
        row: Result<&Row, &RowFault>,
    ) {
        let at = Spot { offset: found.offset, len: found.value.len() as u64 };
        match (key, row) {
            (Some(key), Ok(row)) => self.good(key, row, at),
            (key, fault) => {
                let fault = fault.err().cloned().unwrap_or(RowFault::Damaged);
                self.unreadable.push(Unreadable { table, key: key.cloned(), at, fault });
            }
        }
    }

    fn good(&mut self, key: &Key, row: &Row, at: Spot) {
        match (key, row) {
            (Key::Meta(name), Row::Meta(body)) => drop(self.meta.insert(name.clone(), body.clone())),
            (Key::Change(sequence), Row::Change(change)) => {
                self.changes.insert(*sequence, vec![(*change.id.as_bytes(), change.operation)]);
            }
            (Key::Episode(id), Row::Episode(episode)) => {
                self.episodes.insert(*id, at);
                self.own(episode);
            }
            (Key::Embedder(number), Row::Embedder(embedder)) => {
                self.embedders.insert(*number, embedder.clone());
            }
            (Key::Chunk(embedder, id, chunk), Row::Vector(_)) => {
                self.embeddings.insert((*embedder, *id, *chunk), at);
            }
            // Directories and keys are made anew from the records.
            _ => {}
        }
    }

    fn own(&mut self, episode: &Episode) {
        if let Some(key) = &episode.key {
            let place = (episode.scope.as_str().to_owned(), key.clone());
            self.owners.insert(place, *episode.id.as_bytes());
        }
    }

    /// How the walk through each tree went.
    pub(super) fn trees(&mut self, trees: BTreeMap<Table, TreeState>) {
        self.trees = trees;
    }

    fn whole(&self, table: Table) -> bool {
        self.trees.get(&table).is_some_and(|state| state.whole)
    }

    /// Whether the pages outside the trees may hold what is missing in them.
    pub(super) fn must_scan(&self) -> bool {
        !self.unreadable.is_empty() || Table::ALL.iter().any(|table| !self.whole(*table))
    }

    /// Looks at every page that no tree led to.
    pub(super) fn scan(&mut self, pages: &Pages, visited: &FixedBitSet) -> io::Result<()> {
        for page in 1..pages.file_len().div_ceil(PAGE) {
            if visited.contains(page as usize) {
                continue;
            }
            let offset = page * PAGE;
            let bytes = pages.read(offset, PAGE)?;
            for table in Table::ALL {
                if let Some(Node::Leaf(leaf)) = Node::of(&bytes, table.key_width(), None) {
                    // Rows that are larger than a page lie in one by themselves, or as its last.
                    let end = leaf.end().unwrap_or(0) as u64;
                    let more = (end > PAGE && end <= LONGEST).then(|| pages.read(offset, end)).transpose()?;
                    let bytes = more.as_ref().unwrap_or(&bytes);
                    let Some(Node::Leaf(leaf)) = Node::of(bytes, table.key_width(), None) else { continue };
                    visit(bytes, leaf, offset, false, &mut |found| {
                        self.scanned(table, found);
                        Ok(())
                    })?;
                }
            }
        }
        Ok(())
    }

    fn scanned(&mut self, table: Table, found: Found<'_>) {
        let at = Spot { offset: found.offset, len: found.value.len() as u64 };
        let Some(key) = Key::parse(table, found.key) else { return };
        let Ok(row) = decode(table, &key, found.value) else { return };
        match (key, row) {
            (Key::Meta(name), Row::Meta(body)) => drop(self.old_meta.entry(name).or_default().insert(body)),
            (Key::Change(sequence), Row::Change(change)) if !self.whole(Table::Changes) => {
                let told = self.changes.entry(sequence).or_default();
                let one = (*change.id.as_bytes(), change.operation);
                if !told.contains(&one) {
                    told.push(one);
                }
            }
            (Key::Episode(id), Row::Episode(episode)) => {
                let mark = i128::from(episode.updated_at.unix_micros());
                self.old_episodes.entry(id).or_default().push(Version { at, mark });
            }
            (Key::Embedder(number), Row::Embedder(embedder)) => {
                self.embedders.entry(number).or_insert(embedder);
            }
            (Key::Chunk(embedder, id, chunk), Row::Vector(vector)) => {
                let mark = vector.text_hash.cast_signed();
                self.old_embeddings.entry((embedder, id, chunk)).or_default().push(Version { at, mark });
            }
            _ => {}
        }
    }

    /// Bodies of a row of `meta`: the present one, else all that were found.
    pub(super) fn meta_candidates(&self, name: &str) -> Vec<Vec<u8>> {
        match self.meta.get(name) {
            Some(body) => vec![body.clone()],
            None if self.whole(Table::Meta) && !self.is_unreadable(name) => Vec::new(),
            None => self.old_meta.get(name).into_iter().flatten().cloned().collect(),
        }
    }

    fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.iter().any(|row| matches!(&row.key, Some(Key::Meta(other)) if other == name))
    }

    /// The largest number that `name` is known to have had.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let numbers = self.meta_candidates(name).into_iter();
        numbers.filter_map(|body| body.as_slice().try_into().ok().map(u64::from_le_bytes)).max()
    }

    /// Number of the last change, as far as that is known.
    pub(super) fn last_sequence(&self) -> u64 {
        let told = self.number(tables::META_LAST_SEQUENCE).unwrap_or(0);
        if self.meta.contains_key(tables::META_LAST_SEQUENCE) {
            told
        } else {
            told.max(self.changes.last_key_value().map_or(0, |(last, _)| *last))
        }
    }

    /// What the feed says of each record: its last change, and whether a later one may be missing.
    fn last_changes(&self) -> FxHashMap<[u8; 16], (Operation, bool)> {
        let last = self.last_sequence();
        let mut said = FxHashMap::default();
        let mut next = last + 1;
        // Of a file that was cut off nothing says how far the feed went, if not the number kept for that.
        let mut hole = self.cut_off && !self.meta.contains_key(tables::META_LAST_SEQUENCE);
        for (sequence, told) in self.changes.range(..=last).rev() {
            hole |= !self.whole(Table::Changes) && *sequence + 1 != next;
            next = *sequence;
            // Where two transactions took the same number, one of them was never committed: none is sure, and one
            // that forgets weighs more.
            let doubtful = told.len() > 1;
            for (id, operation) in told {
                let entry = said.entry(*id).or_insert((*operation, hole));
                if doubtful && *operation == Operation::Delete {
                    *entry = (Operation::Delete, entry.1);
                }
            }
        }
        said
    }

    /// Decides what comes back.
    pub(super) fn decide(&mut self, pages: &Pages) -> io::Result<()> {
        let said = self.last_changes();
        self.drop_forgotten(&said);
        self.recover_episodes(&said, pages)?;
        self.recover_embeddings(pages)?;
        self.tell_missing(&said);
        Ok(())
    }

    /// A record that the feed says is gone, and that its table has, is not served.
    fn drop_forgotten(&mut self, said: &FxHashMap<[u8; 16], (Operation, bool)>) {
        let gone: Vec<_> = self
            .episodes
            .iter()
            .filter(|(id, _)| matches!(said.get(*id), Some((Operation::Delete, _))))
            .map(|(id, at)| (*id, *at))
            .collect();
        for (id, at) in gone {
            self.episodes.remove(&id);
            self.left.push((Table::Episodes, Key::Episode(id), at, "its last change forgot it".to_owned()));
        }
    }

    fn recover_episodes(
        &mut self,
        said: &FxHashMap<[u8; 16], (Operation, bool)>,
        pages: &Pages,
    ) -> io::Result<()> {
        let unreadable: BTreeSet<[u8; 16]> =
            self.unreadable.iter().filter_map(|row| row.key.as_ref().and_then(Key::episode)).collect();
        let tree_is_whole = self.whole(Table::Episodes);
        let mut candidates = Vec::new();
        for (id, versions) in &self.old_episodes {
            // In a whole tree whatever is not there is not meant to be there.
            let wanted = unreadable.contains(id) || !tree_is_whole;
            let newest = versions.iter().max_by_key(|version| (version.mark, version.at.offset));
            if let (true, false, Some(newest)) = (wanted, self.episodes.contains_key(id), newest) {
                candidates.push((newest.mark, *id, newest.at));
            }
        }
        // Newest first: of two that claim a key the newer one has it.
        candidates.sort_by_key(|(mark, id, _)| std::cmp::Reverse((*mark, *id)));
        for (_, id, at) in candidates {
            let key = Key::Episode(id);
            let why_not = match said.get(&id) {
                _ if unreadable.contains(&id) => None,
                Some((Operation::Delete, _)) => continue,
                Some((_, false)) => None,
                Some((_, true)) => {
                    Some("changes after its last known one are lost, and one may have forgotten it")
                }
                None if self.whole(Table::Changes) => continue,
                None => Some("no change that can be read tells of it, and one may have forgotten it"),
            };
            if let Some(reason) = why_not {
                self.left.push((Table::Episodes, key, at, reason.to_owned()));
                continue;
            }
            let value = pages.read(at.offset, at.len)?;
            let Ok(Row::Episode(episode)) = decode(Table::Episodes, &key, &value) else { continue };
            let place = episode.key.as_ref().map(|key| (episode.scope.as_str().to_owned(), key.clone()));
            if let Some(owner) = place.and_then(|place| self.owners.get(&place)) {
                let reason = format!("its key belongs to {} now", id_text(owner));
                self.left.push((Table::Episodes, key, at, reason));
                continue;
            }
            self.own(&episode);
            self.episodes.insert(id, at);
            if unreadable.contains(&id) || self.content_lost {
                let detail = format!(
                    "came back as it was at {}; if it was updated later, that is lost",
                    episode.updated_at
                );
                self.losses.push(loss(Table::Episodes, id_text(&id), detail));
            }
        }
        Ok(())
    }

    fn recover_embeddings(&mut self, pages: &Pages) -> io::Result<()> {
        let tree_is_whole = self.whole(Table::Embeddings);
        let unreadable: BTreeSet<Chunk> =
            self.unreadable.iter().filter_map(|row| row.key.as_ref().and_then(Key::chunk)).collect();
        let old = std::mem::take(&mut self.old_embeddings);
        let mut hashes: FxHashMap<[u8; 16], Option<i128>> = FxHashMap::default();
        for (key, versions) in old {
            let wanted = !tree_is_whole || unreadable.contains(&key);
            let Some(at) = self.episodes.get(&key.1).copied() else { continue };
            if !wanted || self.embeddings.contains_key(&key) {
                continue;
            }
            let hash = match hashes.entry(key.1) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => *free.insert(text_hash(key.1, &pages.read(at.offset, at.len)?)),
            };
            // Of a vector, the text says whether it is meant.
            if let Some(version) = versions.iter().find(|version| Some(version.mark) == hash) {
                self.embeddings.insert(key, version.at);
            }
        }
        Ok(())
    }

    /// What did not come back, by name where it has one.
    fn tell_missing(&mut self, said: &FxHashMap<[u8; 16], (Operation, bool)>) {
        let mut lost: BTreeSet<[u8; 16]> = said
            .iter()
            .filter(|(_, (operation, _))| *operation != Operation::Delete)
            .map(|(id, _)| *id)
            .collect();
        lost.extend(self.unreadable.iter().filter_map(|row| row.key.as_ref().and_then(Key::episode)));
        let told: BTreeSet<String> = self.left.iter().map(|(_, key, ..)| key.to_string()).collect();
        for id in lost {
            let name = id_text(&id);
            if !self.episodes.contains_key(&id) && !told.contains(&name) {
                self.losses.push(loss(Table::Episodes, name, "no version of it can be read".to_owned()));
            }
        }
        for row in &self.unreadable {
            if let Some(Key::Chunk(embedder, id, chunk)) = &row.key
                && !self.embeddings.contains_key(&(*embedder, *id, *chunk))
                && self.episodes.contains_key(id)
            {
                let key = row.key.as_ref().map_or_else(String::new, ToString::to_string);
                let detail = "the vector cannot be read; `otolith embed` makes it anew".to_owned();
                self.losses.push(loss(Table::Embeddings, key, detail));
            }
        }
        if !self.whole(Table::Embeddings) {
            let embedded = self.embedded();
            let mut bare: Vec<String> = said
                .iter()
                .filter(|(id, (last, _))| *last == Operation::Embed && self.episodes.contains_key(*id))
                .filter(|(id, _)| !embedded.contains(*id))
                .map(|(id, _)| id_text(id))
                .filter(|id| !self.losses.iter().any(|loss| loss.id.starts_with(id)))
                .collect();
            bare.sort_unstable();
            for id in bare {
                let detail = "its vectors are lost; `otolith embed` makes them anew".to_owned();
                self.losses.push(loss(Table::Embeddings, id, detail));
            }
        }
        if self.changes.is_empty() && !self.whole(Table::Changes) || self.has_holes() {
            let detail = "parts of the change feed cannot be read, so records may be lost that nothing names";
            self.losses.push(loss(Table::Changes, String::new(), detail.to_owned()));
        }
    }

    /// Records that have vectors, whosever.
    pub(super) fn embedded(&self) -> BTreeSet<[u8; 16]> {
        self.embeddings.keys().map(|(_, id, _)| *id).collect()
    }

    fn has_holes(&self) -> bool {
        let rows = self.changes.len() as u64;
        !self.whole(Table::Changes) && rows < self.last_sequence()
    }
}

/// What vectors of a record's present text are marked with.
fn text_hash(id: [u8; 16], value: &[u8]) -> Option<i128> {
    match decode(Table::Episodes, &Key::Episode(id), value) {
        Ok(Row::Episode(episode)) => Some(EmbeddedText::of(&episode).hash.cast_signed()),
        _ => None,
    }
}

/// Longest leaf that is looked at: the largest record and what surrounds it.
const LONGEST: u64 = 32 << 20;

fn loss(table: Table, id: String, detail: String) -> Loss {
    Loss { table: table.name().to_owned(), id, detail, file: None }
}
