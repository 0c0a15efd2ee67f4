//! What was written since the segments: a few thousand records, in memory.

use crate::episode::{Episode, Scope, Status};
use crate::ids::{DocId, RecordId};
use crate::index::Index;
use crate::lexical::PreparedDoc;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// State of a record's vectors under the embedder that is served. The numbers are those of the columns of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::engine) enum VectorState {
    /// None yet.
    Pending = 0,
    /// At least one row of the present text.
    Current = 1,
    /// Rows of an earlier text only; not searched.
    Stale = 2,
    /// What the embedder gave cannot be searched.
    Refused = 3,
    /// What was given has another width.
    Mismatch = 4,
}

impl VectorState {
    pub(in crate::engine) const COUNT: usize = 5;

    /// The state of this number; a number that damage left is no state, and no vectors.
    pub(super) fn numbered(number: u8) -> Self {
        match number {
            1 => Self::Current,
            2 => Self::Stale,
            3 => Self::Refused,
            4 => Self::Mismatch,
            _ => Self::Pending,
        }
    }
}

/// What is kept of a record for filters and order: everything but its texts.
#[derive(Debug)]
pub(in crate::engine) struct Record {
    pub(in crate::engine) fields: Episode,
    pub(in crate::engine) vectors: VectorState,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Delta {
    /// Number of its first document.
    base: u32,
    /// By document; None where the document is gone.
    records: Vec<Option<Record>>,
    by_id: BTreeMap<RecordId, DocId>,
}

impl Delta {
    /// An empty one, behind the documents of all segments.
    pub(super) fn after(base: u32) -> Self {
        Self { base, records: Vec::new(), by_id: BTreeMap::new() }
    }

    /// Documents, dead ones included.
    pub(super) fn max_doc(&self) -> usize {
        self.records.len()
    }

    /// Adds a record under the number that the index gave it.
    pub(super) fn push(&mut self, doc: DocId, record: Record) {
        debug_assert_eq!(doc.index(), self.base as usize + self.records.len());
        self.by_id.insert(record.fields.id, doc);
        self.records.push(Some(record));
    }

    pub(super) fn remove(&mut self, id: RecordId) -> Option<(DocId, Record)> {
        let doc = self.by_id.remove(&id)?;
        let record = self.records.get_mut((doc.0 - self.base) as usize)?.take()?;
        Some((doc, record))
    }

    pub(super) fn record(&self, doc: DocId) -> Option<&Record> {
        self.records.get(doc.0.checked_sub(self.base)? as usize)?.as_ref()
    }

    /// Live records, in order of their document numbers.
    pub(super) fn records(&self) -> impl Iterator<Item = (DocId, &Record)> {
        let numbered = self.records.iter().zip(self.base..);
        numbered.filter_map(|(record, doc)| record.as_ref().map(|record| (DocId(doc), record)))
    }

    /// Records between two ids, both excluded, in order.
    pub(super) fn between(
        &self,
        after: Option<RecordId>,
        before: Option<RecordId>,
    ) -> impl DoubleEndedIterator<Item = (RecordId, DocId)> {
        let bounds = (after.map_or(Unbounded, Excluded), before.map_or(Unbounded, Excluded));
        self.by_id.range(bounds).map(|(id, doc)| (*id, *doc))
    }

    /// Active records of a scope by state of their vectors.
    pub(super) fn states(&self, scope: &Scope) -> [usize; VectorState::COUNT] {
        let mut states = [0; VectorState::COUNT];
        for (_, record) in self.records() {
            let counts = record.fields.status == Status::Active && scope.contains(&record.fields.scope);
            states[record.vectors as usize] += usize::from(counts);
        }
        states
    }

    /// The live records in order of their ids.
    pub(super) fn copies(&self, index: &Index) -> Vec<Copied> {
        let there = self.by_id.values().filter_map(|doc| Some((*doc, self.record(*doc)?)));
        let copied = there.map(|(doc, record)| Copied {
            fields: record.fields.clone(),
            text: index.lexical().prepared(doc),
            vectors: record.vectors,
            rows: index.vectors().rows_of(doc).map(|row| row.half.bits.to_vec()).collect(),
        });
        copied.collect()
    }
}

/// A record as it lies in memory.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) fields: Episode,
    pub(super) text: PreparedDoc,
    pub(super) vectors: VectorState,
    /// As they are searched: rounded.
    pub(super) rows: Vec<Vec<u16>>,
}
