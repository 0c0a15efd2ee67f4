//! Documents of a segment that are gone, and what that does to its statistics.

use super::segment::Segment;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;

/// The dead documents of one segment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    dead: FixedBitSet,
    count: u32,
    /// Sum of their lengths, in quarters.
    len: u64,
    /// By term, how many of them hold it.
    doc_freqs: FxHashMap<u32, u32>,
}

impl Tombstones {
    /// Nothing is dead.
    pub(crate) fn none(segment: &Segment) -> Self {
        Self { dead: FixedBitSet::with_capacity(segment.num_docs() as usize), ..Self::default() }
    }

    /// These are dead; their terms are counted from their forward lists, some microseconds each.
    pub(crate) fn of(segment: &Segment, dead: &FixedBitSet) -> Self {
        let mut tombstones = Self::none(segment);
        for doc in dead.ones() {
            tombstones.bury(segment, doc as u32);
        }
        tombstones
    }

    /// Takes a document out; false when it is not there or was dead before.
    pub(crate) fn bury(&mut self, segment: &Segment, doc: u32) -> bool {
        let Some(len) = segment.lens().get(doc as usize) else { return false };
        if self.dead.put(doc as usize) {
            return false;
        }
        self.count += 1;
        self.len += u64::from(*len);
        segment.terms_of(doc, |term, _| *self.doc_freqs.entry(term).or_default() += 1);
        true
    }

    /// How many documents are dead.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Sum of their lengths, in quarters.
    pub(crate) fn total_len(&self) -> u64 {
        self.len
    }

    /// How many of them hold a term.
    pub(crate) fn doc_freq(&self, term: u32) -> u32 {
        if self.doc_freqs.is_empty() { 0 } else { self.doc_freqs.get(&term).copied().unwrap_or(0) }
    }

    /// The dead documents.
    pub(crate) fn dead(&self) -> &FixedBitSet {
        &self.dead
    }
}
