//! Every row against every other.

use super::super::parts::{Broken, Chunk, Joined, Joiner};
use super::super::rows::{Embedded, NO_EMBEDDER, Operation};
use super::super::tables;
use super::report::{Problem, ProblemKind};
use super::row::{Key, Row, RowFault, Table, chunk_name, id_text};
use super::walk::TreeState;
use crate::episode::Episode;
use crate::error::{Error, Result, counted};
use crate::ids::RecordId;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// What the other tables must have of a record.
#[derive(Debug, Default)]
struct Expected {
    dir: Option<Box<str>>,
    key: Option<(Box<str>, Box<str>)>,
    dir_seen: bool,
    key_seen: bool,
}

/// Gathers rows, table by table in the order of [`Table::ALL`], and judges them.
#[derive(Debug, Default)]
pub(super) struct Checker {
    pub(super) problems: Vec<Problem>,
    meta: BTreeMap<String, Vec<u8>>,
    episodes: BTreeMap<[u8; 16], Expected>,
    /// Rows of `episodes` that are there and cannot be read: what belongs to them is no orphan.
    unreadable: BTreeSet<[u8; 16]>,
    embedders: BTreeMap<u32, u32>,
    /// The last change of each record.
    last: FxHashMap<[u8; 16], (u64, Operation)>,
    last_change: u64,
    trees: BTreeMap<Table, TreeState>,
    /// The vector whose rows are being handed over.
    joiner: Joiner<()>,
    /// Vectors of which each row can be read, and not all are there.
    incomplete: Vec<Chunk>,
    /// Vectors that can be read.
    pub(super) vectors: u64,
}

impl Checker {
    pub(super) fn problem(
        &mut self,
        kind: ProblemKind,
        table: &str,
        id: &(impl std::fmt::Display + ?Sized),
        detail: impl Into<String>,
    ) {
        self.problems.push(Problem {
            kind,
            table: table.to_owned(),
            id: id.to_string(),
            detail: detail.into(),
        });
    }

    /// A row that can be read.
    pub(super) fn row(&mut self, key: Key, row: &Row) {
        match (key, row) {
            (Key::Meta(name), Row::Meta(body)) => drop(self.meta.insert(name, body.clone())),
            (Key::Change(sequence), Row::Change(change)) => {
                self.last.insert(*change.id.as_bytes(), (sequence, change.operation));
                self.last_change = self.last_change.max(sequence);
            }
            (Key::Episode(id), Row::Episode(episode)) => self.episode(id, episode),
            (Key::Name(scope, key), Row::Name(id)) => self.name(&scope, &key, *id),
            (Key::Dir(dir, id), Row::Dir) => self.dir(&dir, id),
            (Key::Embedder(number), Row::Embedder(embedder)) => {
                self.embedders.insert(number, embedder.dim);
            }
            (Key::Part(embedder, id, number), Row::Part(part)) => {
                let joined = self.joiner.next((embedder, id, number), Ok(part.clone()));
                self.vector(joined);
            }
            // A key is read for its table, and a row for its key.
            _ => {}
        }
    }

    /// A row that cannot.
    pub(super) fn bad_row(&mut self, table: Table, key: Option<&Key>, shown: &str, fault: &RowFault) {
        if let Some(Key::Episode(id)) = key {
            self.unreadable.insert(*id);
        }
        if let Some(Key::Part(embedder, id, number)) = key {
            let joined = self.joiner.next((*embedder, *id, *number), Err(()));
            self.vector(joined);
        }
        let id = key.map_or_else(|| shown.to_owned(), ToString::to_string);
        self.problem(ProblemKind::Row, table.name(), &id, fault.to_string());
    }

    /// All rows of a table were handed over.
    pub(super) fn table(&mut self, table: Table, rows_said: u64, state: TreeState) {
        let joined = self.joiner.end();
        self.vector(joined);
        if state.whole && state.rows != rows_said {
            let detail = format!("has {} rows, and its count says {rows_said}", state.rows);
            self.problem(ProblemKind::Mismatch, table.name(), "", detail);
        }
        self.trees.insert(table, state);
    }

    /// How the walk through each tree went.
    pub(super) fn trees(&self) -> BTreeMap<Table, TreeState> {
        self.trees.clone()
    }

    fn whole(&self, table: Table) -> bool {
        self.trees.get(&table).is_some_and(|state| state.whole)
    }

    /// That this version may judge the file, or write it.
    pub(super) fn check_format(&self, path: &std::path::Path, to_write: bool) -> Result<()> {
        let number = |name: &str| {
            let body = self.meta.get(name)?;
            Some(u32::from_le_bytes(body.as_slice().try_into().ok()?))
        };
        let format = number(tables::META_FORMAT).filter(|_| to_write);
        match format.into_iter().chain(number(tables::META_OLDEST_READER)).max() {
            Some(found) if found > tables::FORMAT_VERSION => Err(Error::FormatTooNew {
                what: path.display().to_string(),
                found: u64::from(found),
                supported: u64::from(tables::FORMAT_VERSION),
            }),
            _ => Ok(()),
        }
    }

    fn episode(&mut self, id: [u8; 16], episode: &Episode) {
        let dir = episode.working_dir.as_deref().map(Into::into);
        let key = episode.key.as_deref().map(|key| (episode.scope.as_str().into(), key.into()));
        self.episodes.insert(id, Expected { dir, key, ..Expected::default() });
    }

    /// Whether a record is there, or was and cannot be read, so that what names it is no orphan.
    fn known(&self, id: &[u8; 16]) -> bool {
        self.episodes.contains_key(id)
            || self.unreadable.contains(id)
            || self.last.get(id).is_some_and(|(_, last)| *last != Operation::Delete)
                && !self.whole(Table::Episodes)
    }

    fn name(&mut self, scope: &str, key: &str, id: RecordId) {
        let shown = Key::Name(scope.to_owned(), key.to_owned());
        if let Some(expected) = self.episodes.get_mut(id.as_bytes()) {
            if expected.key.as_ref().is_some_and(|(s, k)| (&**s, &**k) == (scope, key)) {
                expected.key_seen = true;
            } else {
                self.problem(
                    ProblemKind::Mismatch,
                    "keys",
                    &shown,
                    format!("leads to {id}, which has another key"),
                );
            }
        } else if !self.known(id.as_bytes()) {
            self.problem(ProblemKind::Orphan, "keys", &shown, format!("leads to {id}, which is not there"));
        }
    }

    fn dir(&mut self, dir: &str, id: [u8; 16]) {
        let shown = Key::Dir(dir.to_owned(), id);
        if let Some(expected) = self.episodes.get_mut(&id) {
            if expected.dir.as_deref() == Some(dir) {
                expected.dir_seen = true;
            } else {
                self.problem(ProblemKind::Mismatch, "cwd_index", &shown, "the record has another directory");
            }
        } else if !self.known(&id) {
            self.problem(ProblemKind::Orphan, "cwd_index", &shown, "there is no such record");
        }
    }

    fn vector(&mut self, joined: Option<Joined<()>>) {
        let Some((chunk, row)) = joined else { return };
        let (embedder, id, _) = chunk;
        let key = chunk_name(chunk);
        let width = match row {
            Ok(row) => match row.vector {
                Embedded::Row(cells) if cells.iter().all(|cell| cell.is_finite()) => Some(cells.len()),
                Embedded::Row(_) => {
                    let detail = "it is no row of the table embeddings";
                    self.problem(ProblemKind::Row, "embeddings", &key, detail);
                    return;
                }
                Embedded::Refused(_) => None,
            },
            // The row was told of.
            Err(Broken::Row(())) => return,
            Err(Broken::Parts) => {
                self.incomplete.push(chunk);
                return;
            }
        };
        self.vectors += u64::from(width.is_some());
        if !self.known(&id) {
            self.problem(ProblemKind::Orphan, "embeddings", &key, "there is no such record");
        }
        match (self.embedders.get(&embedder), width) {
            (None, None) if embedder == NO_EMBEDDER => {}
            (None, _) if self.whole(Table::Embedders) => {
                self.problem(
                    ProblemKind::Orphan,
                    "embeddings",
                    &key,
                    format!("there is no embedder {embedder}"),
                );
            }
            (Some(dim), Some(width)) if *dim as usize != width => {
                let detail = format!("has {}, and its embedder {dim}", counted(width, "dimension"));
                self.problem(ProblemKind::Mismatch, "embeddings", &key, detail);
            }
            _ => {}
        }
    }

    /// What only the whole shows. Returns the number of records.
    pub(super) fn finish(&mut self) -> u64 {
        self.check_meta();
        self.check_records();
        self.check_vectors();
        self.check_feed();
        self.episodes.len() as u64
    }

    fn check_meta(&mut self) {
        if !self.whole(Table::Meta) {
            return;
        }
        let required = [
            (tables::META_FORMAT, 4),
            (tables::META_OLDEST_READER, 4),
            (tables::META_CREATED, 8),
            (tables::META_STORE_ID, 16),
            (tables::META_LAST_SEQUENCE, 8),
        ];
        for (name, width) in required {
            match self.meta.get(name).map(Vec::len) {
                Some(len) if len == width => {}
                Some(len) => {
                    self.problem(
                        ProblemKind::Mismatch,
                        "meta",
                        name,
                        format!("has {len} bytes, not {width}"),
                    );
                }
                // One that is there and cannot be read has been told.
                None if self.problems.iter().any(|p| p.table == "meta" && p.id == name) => {}
                None => self.problem(ProblemKind::Missing, "meta", name, "is not there"),
            }
        }
        for name in [tables::META_FORMAT, tables::META_OLDEST_READER] {
            if self.meta.get(name).is_some_and(|body| body.len() == 4 && body.iter().all(|byte| *byte == 0)) {
                self.problem(ProblemKind::Mismatch, "meta", name, "is 0, which no version of otolith wrote");
            }
        }
        if let Some(body) = self.meta.get(tables::META_HOME_EMBEDDER)
            && self.whole(Table::Embedders)
        {
            let number = body.as_slice().try_into().ok().map(u32::from_le_bytes);
            if number.is_none_or(|number| !self.embedders.contains_key(&number)) {
                let detail = "names an embedder that is not there";
                self.problem(ProblemKind::Orphan, "meta", tables::META_HOME_EMBEDDER, detail);
            }
        }
    }

    fn check_records(&mut self) {
        let mut missing = Vec::new();
        for (id, expected) in &self.episodes {
            if expected.dir.is_some() && !expected.dir_seen {
                missing.push(("cwd_index", *id, "the directory of the record is not in it"));
            }
            if expected.key.is_some() && !expected.key_seen {
                missing.push(("keys", *id, "the key of the record is not in it"));
            }
        }
        for (table, id, detail) in missing {
            self.problem(ProblemKind::Missing, table, &id_text(&id), detail);
        }
    }

    /// Where the table is broken, its pages have been told of.
    fn check_vectors(&mut self) {
        for chunk in std::mem::take(&mut self.incomplete) {
            if self.whole(Table::Embeddings) {
                let detail = "its parts are not all there, or are not of one vector";
                self.problem(ProblemKind::Missing, "embeddings", &chunk_name(chunk), detail);
            }
        }
    }

    fn check_feed(&mut self) {
        let mut found = Vec::new();
        for id in self.episodes.keys() {
            match self.last.get(id) {
                Some((sequence, Operation::Delete)) => {
                    let detail = format!("change {sequence} says that it was forgotten");
                    found.push((ProblemKind::Mismatch, "episodes", *id, detail));
                }
                None if self.whole(Table::Changes) => {
                    found.push((
                        ProblemKind::Missing,
                        "changes",
                        *id,
                        "no change tells of the record".to_owned(),
                    ));
                }
                _ => {}
            }
        }
        for (id, (sequence, operation)) in &self.last {
            let there = self.episodes.contains_key(id) || self.unreadable.contains(id);
            if *operation != Operation::Delete && !there {
                let detail = format!("change {sequence} says that it is there");
                found.push((ProblemKind::Missing, "episodes", *id, detail));
            }
        }
        found.sort();
        for (kind, table, id, detail) in found {
            self.problem(kind, table, &id_text(&id), detail);
        }
        let said = self.last_sequence();
        if let Some(said) = said
            && self.whole(Table::Changes)
            && said != self.last_change
        {
            let detail = format!("is {said}, and the last change has number {}", self.last_change);
            self.problem(ProblemKind::Mismatch, "meta", tables::META_LAST_SEQUENCE, detail);
        }
    }

    pub(super) fn last_sequence(&self) -> Option<u64> {
        self.meta.get(tables::META_LAST_SEQUENCE)?.as_slice().try_into().ok().map(u64::from_le_bytes)
    }
}
