//! Which vectors come back of a damaged file, and what is told of the rest.
//!
//! The text of a record tells which of its vectors is meant, and the tag of a row which other rows it belongs to. A
//! vector comes back with all its rows or not at all.

use super::super::parts::{self, Chunk};
use super::super::rows::{EmbedderRow, GIVEN};
use super::super::tables;
use super::decide::{Id, loss, read_episode};
use super::pages::Pages;
use super::row::{Key, Table, id_text};
use super::salvage::{PartKey, Piece, Salvage, Spot};
use crate::episode::EmbeddedText;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Rows of one vector, sure or not, by number.
type Pieces = BTreeMap<u32, Vec<(Piece, bool)>>;

/// A vector with all its rows.
struct Complete {
    tag: u32,
    is_refusal: bool,
    rows: Vec<(u32, Spot)>,
}

fn chunk_of((embedder, id, number): &PartKey) -> Chunk {
    (*embedder, *id, parts::place(*number).0)
}

impl Salvage {
    /// Makes vectors of what is sure, and returns the rows that are left.
    fn join_sure(&mut self) -> BTreeMap<Chunk, Pieces> {
        let mut left: BTreeMap<Chunk, Pieces> = BTreeMap::new();
        let mut rows = std::mem::take(&mut self.parts).into_iter().peekable();
        let mut group = Vec::new();
        while let Some((key, piece)) = rows.next() {
            let chunk = chunk_of(&key);
            group.push((key.2, piece));
            if rows.peek().is_some_and(|(next, _)| chunk_of(next) == chunk) {
                continue;
            }
            let again = self.vectors.contains_key(&chunk) || left.contains_key(&chunk);
            if let Some(rows) = joined(&group).filter(|_| !again) {
                self.vectors.insert(chunk, rows);
            } else {
                // Not whole; or parts behind a row of body version 1 that is of the same chunk.
                let pieces = left.entry(chunk).or_default();
                for (number, piece) in &group {
                    pieces.entry(*number).or_default().push((*piece, true));
                }
            }
            group.clear();
        }
        left
    }

    /// Puts the vectors together. Returns the records, by embedder, of which rows are sure and a vector is not whole.
    pub(super) fn recover_vectors(&mut self, pages: &Pages) -> io::Result<BTreeSet<(u32, Id)>> {
        let mut found = self.join_sure();
        let tree_is_whole = self.whole(Table::Embeddings);
        let unreadable: BTreeSet<Chunk> = self
            .unreadable
            .iter()
            .filter_map(|row| row.key.as_ref().and_then(Key::part))
            .map(|key| chunk_of(&key))
            .collect();
        let records = self.at_hand();
        for (key, pieces) in &self.old_parts {
            let chunk = chunk_of(key);
            let wanted = !tree_is_whole || unreadable.contains(&chunk);
            if wanted && records.contains_key(&key.1) && !self.vectors.contains_key(&chunk) {
                let known = found.entry(chunk).or_default().entry(key.2).or_default();
                known.extend(pieces.iter().map(|piece| (*piece, false)));
            }
        }
        let mut hashes: FxHashMap<Id, Option<u128>> = FxHashMap::default();
        let mut broken = BTreeSet::new();
        for (chunk, pieces) in found {
            let (embedder, id, _) = chunk;
            let sure = || pieces.values().flatten().any(|(_, sure)| *sure);
            let hash = match (hashes.get(&id), records.get(&id)) {
                (Some(known), _) => *known,
                (None, Some(at)) => {
                    let episode = read_episode(pages, id, *at)?;
                    *hashes.entry(id).or_insert(episode.map(|episode| EmbeddedText::of(&episode).hash))
                }
                (None, None) => None,
            };
            let complete = complete(&pieces, hash);
            let Some(best) = complete.first() else {
                if sure() {
                    broken.insert((embedder, id));
                }
                continue;
            };
            if !best.is_refusal && complete.iter().any(|other| !other.is_refusal && other.tag != best.tag) {
                let detail = "several vectors of its text were found, and this may be an earlier one";
                let name = self.vector_name(embedder, &id);
                self.losses.push(loss(Table::Embeddings, name, detail.to_owned()));
            }
            let rows = best.rows.clone();
            self.vectors.insert(chunk, rows);
        }
        Ok(broken)
    }

    /// Records that have vectors, whosever.
    pub(super) fn embedded(&self) -> BTreeSet<Id> {
        self.vectors.keys().map(|(_, id, _)| *id).collect()
    }

    pub(super) fn gaps_in_vectors(&self) -> Vec<Gap> {
        if self.whole(Table::Embeddings) {
            return Vec::new();
        }
        let part = |key: &[u8]| Key::parse(Table::Embeddings, key).and_then(|key| key.part());
        let begins: BTreeSet<Option<PartKey>> =
            self.gaps.iter().map(|after| after.as_deref().and_then(part)).collect();
        if begins.is_empty() || self.parts.is_empty() {
            return vec![Gap { after: None, until: None }];
        }
        let end_of = |after: &Option<PartKey>| match after {
            Some(after) => self.parts.keys().find(|key| *key > after).copied(),
            None => self.parts.keys().next().copied(),
        };
        begins.iter().map(|after| Gap { after: *after, until: end_of(after) }).collect()
    }

    /// Whether the record has all vectors of an embedder up to its last one.
    fn has_vectors(&self, embedder: u32, id: &Id) -> bool {
        let chunks = self.vectors.range((embedder, *id, 0)..=(embedder, *id, u32::MAX));
        let (count, last) = chunks.fold((0, None), |(count, _), ((.., chunk), _)| (count + 1, Some(*chunk)));
        last.is_some_and(|last| count == last + 1)
    }

    /// Names each record and embedder whose vectors were in a part of the tree that is lost.
    pub(super) fn tell_missing_vectors(
        &mut self,
        records: &BTreeMap<Id, Spot>,
        gaps: &[Gap],
        mut pairs: BTreeSet<(u32, Id)>,
        lost_records: usize,
    ) {
        let kept: usize = self.vectors.values().map(Vec::len).sum();
        let missing = self.rows_said.map(|said| said.saturating_sub(kept as u64));
        pairs.retain(|(_, id)| records.contains_key(id));
        for row in &self.unreadable {
            if let Some(key @ (embedder, id, _)) = row.key.as_ref().and_then(Key::part)
                && !self.vectors.contains_key(&chunk_of(&key))
                && records.contains_key(&id)
            {
                pairs.insert((embedder, id));
            }
        }
        if missing != Some(0) {
            let mut seen: BTreeSet<u32> =
                self.vectors.keys().chain(self.old_parts.keys()).map(|(embedder, ..)| *embedder).collect();
            // All rows of one may be in the part that is lost.
            seen.extend(self.embedders.keys());
            seen.extend(self.home_embedder());
            // Refusals from before there was an embedder are made again.
            seen.remove(&0);
            for embedder in seen {
                let bare = records.keys().filter(|id| !self.has_vectors(embedder, id));
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
        // How many rows a vector has, of each embedder: a record has one vector, mostly.
        let rows_of = |embedder: &u32| {
            let of_it = self.vectors.range((*embedder, [0; 16], 0)..=(*embedder, [0xFF; 16], u32::MAX));
            of_it.map(|(_, rows)| rows.len()).max().unwrap_or(1) as u64
        };
        let embedders: BTreeSet<u32> =
            pairs.iter().map(|(embedder, _)| *embedder).chain(self.embedders.keys().copied()).collect();
        let rows: BTreeMap<u32, u64> =
            embedders.iter().map(|embedder| (*embedder, rows_of(embedder))).collect();
        let named: u64 = pairs.iter().map(|(embedder, _)| rows[embedder]).sum();
        let of_lost = lost_records as u64 * rows.values().max().copied().unwrap_or(1);
        if let Some(missing) = missing.filter(|missing| *missing > named + of_lost) {
            let detail = format!(
                "{missing} rows of vectors are lost, {named} of them named; others may be of records named as lost"
            );
            self.losses.push(loss(Table::Embeddings, String::new(), detail));
        }
    }

    pub(super) fn home_embedder(&self) -> Option<u32> {
        let bodies = self.meta_candidates(tables::META_HOME_EMBEDDER);
        let numbers =
            bodies.iter().filter_map(|body| body.as_slice().try_into().ok().map(u32::from_le_bytes));
        // One whose place another took was the home's before.
        let replaced = |number: &u32| self.embedders.get(number).is_some_and(EmbedderRow::is_replaced);
        numbers.filter(|number| !replaced(number)).max()
    }

    pub(super) fn vector_name(&self, embedder: u32, id: &Id) -> String {
        match self.embedders.get(&embedder) {
            Some(row) => format!("{}, embedder {}", id_text(id), row.fingerprint),
            None => format!("{}, embedder {embedder}", id_text(id)),
        }
    }
}

/// The rows of the one vector that these are, if they are.
fn joined(group: &[(u32, Piece)]) -> Option<Vec<(u32, Spot)>> {
    let ((first, head), rest) = group.split_first()?;
    let fits = |(place, (number, piece)): (u32, &(u32, Piece))| {
        piece.head.is_none() && piece.tag == head.tag && *number == first + place
    };
    let whole = usize::from(head.head?.count) == group.len() && (1..).zip(rest).all(fits);
    whole.then(|| group.iter().map(|(number, piece)| (*number, piece.at)).collect())
}

/// Every vector of the text with this hash that all rows are there of, the likeliest first.
fn complete(pieces: &Pieces, hash: Option<u128>) -> Vec<Complete> {
    let mut heads: Vec<_> = pieces
        .iter()
        .flat_map(|(number, known)| known.iter().map(move |(piece, sure)| (*number, piece, *sure)))
        .filter_map(|(number, piece, sure)| piece.head.map(|head| (number, piece, head, sure)))
        .filter(|(_, _, head, sure)| *sure || Some(head.text_hash()) == hash)
        .collect();
    heads.sort_by_key(|(_, piece, head, sure)| {
        Reverse((*sure, !head.is_refusal, piece.placed, Reverse(piece.at.offset)))
    });
    let all = heads.into_iter().filter_map(|(number, first, head, _)| {
        let mut rows = vec![(number, first.at)];
        for next in number + 1..number.saturating_add(u32::from(head.count)) {
            let known =
                pieces.get(&next)?.iter().filter(|(piece, _)| piece.head.is_none() && piece.tag == first.tag);
            let (piece, _) =
                known.max_by_key(|(piece, sure)| (*sure, piece.placed, Reverse(piece.at.offset)))?;
            rows.push((next, piece.at));
        }
        Some(Complete { tag: first.tag, is_refusal: head.is_refusal, rows })
    });
    all.collect()
}

/// A part of the tree of vectors that is lost, between two keys that are not; none is the end of the table.
#[derive(Debug)]
pub(super) struct Gap {
    after: Option<PartKey>,
    until: Option<PartKey>,
}

impl Gap {
    /// Whether rows of a record may have been in it.
    fn may_hold(&self, embedder: u32, id: &Id) -> bool {
        self.after.is_none_or(|after| after < (embedder, *id, u32::MAX))
            && self.until.is_none_or(|until| until > (embedder, *id, 0))
    }
}
