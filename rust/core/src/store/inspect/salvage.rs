//! What of a damaged file is good: from its trees, and from its pages where a tree is broken.
//!
//! Every value carries a checksum over itself, its key and its table, so a row that is found anywhere in the file was
//! written there as it is. What its bytes do not tell is whether it is still meant: pages that are free hold earlier
//! versions and forgotten records, and so does a page of a tree that has its former content again. Only rows of pages
//! that are whole, as are all above them, are sure; all others are candidates, and [`super::decide`] tells which of them
//! come back.

use super::super::parts::{Chunk, Joiner, Part};
use super::super::rows::{EmbedderRow, EmbeddingRow, Operation};
use super::super::tables;
use super::pages::{Node, PAGE, Pages};
use super::report::Loss;
use super::row::{Key, Row, RowFault, Table, decode};
use super::walk::{Found, TreeState, visit};
use crate::episode::Episode;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
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
    /// Whether it is known to be in its table.
    pub(super) sure: bool,
}

/// A version of a record that may be the one that is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    pub(super) at: Spot,
    /// When it was updated.
    pub(super) mark: i128,
    /// Whether a tree leads to its page.
    pub(super) placed: bool,
}

/// A row of `embeddings`, without its payload; there are millions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: Spot,
    pub(super) tag: u32,
    /// Whether a tree leads to its page.
    pub(super) placed: bool,
    /// Of the first part.
    pub(super) head: Option<PieceHead>,
}

/// What the first part of a vector says of all.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceHead {
    text_hash: [u8; 16],
    pub(super) is_refusal: bool,
    pub(super) count: u8,
}

impl PieceHead {
    pub(super) fn text_hash(&self) -> u128 {
        u128::from_le_bytes(self.text_hash)
    }
}

impl Piece {
    fn of(part: &Part, at: Spot, placed: bool) -> Self {
        let head = part.head.map(|head| PieceHead {
            text_hash: head.text_hash.to_le_bytes(),
            is_refusal: head.is_refusal,
            count: head.count,
        });
        Self { at, tag: part.tag, placed, head }
    }
}

/// What the rows of one number of the feed say.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) sure: bool,
    pub(super) changes: Vec<([u8; 16], Operation)>,
}

/// Key of a row of `embeddings`.
pub(super) type PartKey = (u32, [u8; 16], u32);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Salvage {
    pub(super) meta: BTreeMap<String, Vec<u8>>,
    pub(super) embedders: BTreeMap<u32, EmbedderRow>,
    pub(super) episodes: BTreeMap<[u8; 16], Spot>,
    /// Rows of `embeddings` that are sure, until vectors are made of them.
    pub(super) parts: BTreeMap<PartKey, Piece>,
    /// Vectors that come back, with the rows of each by the last part of the key.
    pub(super) vectors: BTreeMap<Chunk, Vec<(u32, Spot)>>,
    pub(super) unreadable: Vec<Unreadable>,
    /// Rows that are good and did not come back, with the reason.
    pub(super) left: Vec<(Table, Key, Spot, String)>,
    pub(super) losses: Vec<Loss>,
    /// Whether a page that may have held rows is lost, so that an older version may be all there is.
    pub(super) content_lost: bool,
    /// Whether the header did not lead to the last commit.
    pub(super) adrift: bool,
    /// Where rows of `embeddings` are missing in its tree: the last key before each place.
    pub(super) gaps: Vec<Option<Vec<u8>>>,
    /// Rows of `embeddings` by its own count, where that is sure.
    pub(super) rows_said: Option<u64>,
    /// Who owns each key.
    pub(super) owners: FxHashMap<(String, String), [u8; 16]>,
    /// Pages that trees lead to and in which rows are broken: not what they were earlier, but what they are with bytes
    /// written over.
    pub(super) torn: BTreeSet<u64>,
    /// When each record that is sure was updated.
    pub(super) marks: FxHashMap<[u8; 16], i128>,
    pub(super) changes: BTreeMap<u64, Told>,
    pub(super) old_episodes: BTreeMap<[u8; 16], Vec<Version>>,
    pub(super) old_parts: BTreeMap<PartKey, Vec<Piece>>,
    trees: BTreeMap<Table, TreeState>,
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
            (Some(key), Ok(row)) if found.sure => self.good(key, row, at),
            (Some(key), Ok(row)) => self.candidate(key, row, at, true),
            (key, fault) => {
                let fault = fault.err().cloned().unwrap_or(RowFault::Damaged);
                let key = key.cloned();
                if !found.sure {
                    self.torn.insert(at.offset / PAGE);
                }
                self.unreadable.push(Unreadable { table, key, at, fault, sure: found.sure });
            }
        }
    }

    fn good(&mut self, key: &Key, row: &Row, at: Spot) {
        match (key, row) {
            (Key::Meta(name), Row::Meta(body)) => drop(self.meta.insert(name.clone(), body.clone())),
            (Key::Change(sequence), Row::Change(change)) => {
                let changes = vec![(*change.id.as_bytes(), change.operation)];
                self.changes.insert(*sequence, Told { sure: true, changes });
            }
            (Key::Episode(id), Row::Episode(episode)) => {
                self.episodes.insert(*id, at);
                self.marks.insert(*id, i128::from(episode.updated_at.unix_micros()));
                self.own(episode);
            }
            (Key::Embedder(number), Row::Embedder(embedder)) => {
                self.embedders.insert(*number, embedder.clone());
            }
            (Key::Part(embedder, id, number), Row::Part(part)) => {
                self.parts.insert((*embedder, *id, *number), Piece::of(part, at, true));
            }
            // Directories and keys are made anew from the records.
            _ => {}
        }
    }

    pub(super) fn own(&mut self, episode: &Episode) {
        if let Some(place) = place_of(episode) {
            self.owners.insert(place, *episode.id.as_bytes());
        }
    }

    /// How the walk through each tree went.
    pub(super) fn trees(&mut self, trees: BTreeMap<Table, TreeState>) {
        self.trees = trees;
    }

    pub(super) fn whole(&self, table: Table) -> bool {
        self.trees.get(&table).is_some_and(|state| state.whole)
    }

    /// Whether the pages outside the trees may hold what is missing in them.
    pub(super) fn must_scan(&self) -> bool {
        self.adrift || !self.unreadable.is_empty() || Table::ALL.iter().any(|table| !self.whole(*table))
    }

    /// Looks at every page that no tree led to; `step` hears how far it is.
    pub(super) fn scan(
        &mut self,
        pages: &Pages,
        visited: &FixedBitSet,
        step: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        pages.each_leaf(step, &mut |offset, page| {
            if visited.contains((offset / PAGE) as usize) {
                return Ok(());
            }
            for table in Table::ALL {
                if let Some(Node::Leaf(leaf)) = Node::of(page, table.key_width(), None) {
                    // Rows that are larger than a page lie in one by themselves, or as its last.
                    let end = leaf.end().unwrap_or(0) as u64;
                    let more = (end > PAGE && end <= LONGEST).then(|| pages.read(offset, end)).transpose()?;
                    let bytes = more.as_deref().unwrap_or(page);
                    let Some(Node::Leaf(leaf)) = Node::of(bytes, table.key_width(), None) else { continue };
                    visit(bytes, leaf, (offset, false, false), &mut |found| {
                        self.scanned(table, found);
                        Ok(())
                    })?;
                }
            }
            Ok(())
        })
    }

    fn scanned(&mut self, table: Table, found: Found<'_>) {
        let at = Spot { offset: found.offset, len: found.value.len() as u64 };
        let Some(key) = Key::parse(table, found.key) else { return };
        if let Ok(row) = decode(table, &key, found.value) {
            self.candidate(&key, &row, at, false);
        }
    }

    /// A row that is as it was written, and may be of an earlier commit or of one that never was.
    fn candidate(&mut self, key: &Key, row: &Row, at: Spot, placed: bool) {
        match (key, row) {
            (Key::Meta(name), Row::Meta(body)) => {
                self.old_meta.entry(name.clone()).or_default().insert(body.clone());
            }
            (Key::Change(sequence), Row::Change(change)) => {
                let told = self.changes.entry(*sequence).or_default();
                let one = (*change.id.as_bytes(), change.operation);
                if !told.sure && !told.changes.contains(&one) {
                    told.changes.push(one);
                }
            }
            (Key::Episode(id), Row::Episode(episode)) => {
                let mark = i128::from(episode.updated_at.unix_micros());
                let version = Version { at, mark, placed };
                self.old_episodes.entry(*id).or_default().push(version);
            }
            (Key::Embedder(number), Row::Embedder(embedder)) => {
                // Once another has taken its place it never gets its old name back.
                if embedder.is_replaced() {
                    self.embedders.insert(*number, embedder.clone());
                } else {
                    self.embedders.entry(*number).or_insert_with(|| embedder.clone());
                }
            }
            (Key::Part(embedder, id, number), Row::Part(part)) => {
                let pieces = self.old_parts.entry((*embedder, *id, *number)).or_default();
                pieces.push(Piece::of(part, at, placed));
            }
            _ => {}
        }
    }

    /// One of the vectors that come back; none if its bytes are none.
    pub(super) fn vector(&self, pages: &Pages, chunk: &Chunk) -> io::Result<Option<EmbeddingRow>> {
        let (embedder, id, _) = *chunk;
        let mut joiner = Joiner::default();
        for (number, at) in self.vectors.get(chunk).into_iter().flatten() {
            let value = pages.read(at.offset, at.len)?;
            let part = match decode(Table::Embeddings, &Key::Part(embedder, id, *number), &value) {
                Ok(Row::Part(part)) => Ok(part),
                _ => Err(()),
            };
            joiner.next((embedder, id, *number), part);
        }
        Ok(joiner.end().and_then(|(_, row)| row.ok()))
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
        self.meta_candidates(name).iter().filter_map(|body| number(body)).max()
    }

    /// A number behind which no change is known.
    pub(super) fn last_sequence(&self) -> u64 {
        let told = self.number(tables::META_LAST_SEQUENCE).unwrap_or(0);
        told.max(self.changes.last_key_value().map_or(0, |(last, _)| *last))
    }

    /// The last change of the commit that the header leads to, where its trees tell.
    fn end_of_commit(&self) -> Option<u64> {
        let said = self.meta.get(tables::META_LAST_SEQUENCE).and_then(|body| number(body));
        let sure = || self.changes.iter().rev().find(|(_, told)| told.sure).map_or(0, |(last, _)| *last);
        said.or_else(|| self.whole(Table::Changes).then(sure))
    }

    /// Whether there are traces of a later commit than the one that the header leads to.
    pub(super) fn is_behind(&self) -> bool {
        let Some(end) = self.end_of_commit() else { return false };
        let told = self.old_meta.get(tables::META_LAST_SEQUENCE).into_iter().flatten();
        let later = told.filter_map(|body| number(body)).any(|sequence| sequence > end);
        later || self.changes.keys().next_back().is_some_and(|last| *last > end)
    }

    /// The last change of all, if no later one can be lost.
    pub(super) fn end(&self) -> Option<u64> {
        self.end_of_commit().filter(|_| !self.is_behind())
    }
}

pub(super) fn place_of(episode: &Episode) -> Option<(String, String)> {
    episode.key.as_ref().map(|key| (episode.scope.as_str().to_owned(), key.clone()))
}

fn number(body: &[u8]) -> Option<u64> {
    body.try_into().ok().map(u64::from_le_bytes)
}

/// Longest leaf that is looked at: the largest record and what surrounds it.
const LONGEST: u64 = 32 << 20;
