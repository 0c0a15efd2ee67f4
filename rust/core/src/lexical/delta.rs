//! The newest documents: an inverted index in memory that takes one at a time.
//!
//! It holds so few documents that a term in many of them has a dense row of fixed width. When it is full it becomes a
//! segment.

use super::document::PreparedDoc;
use super::segment::{Bounds, Over, Postings, SegmentBuilder};
use crate::ids::TermId;
use fixedbitset::FixedBitSet;

/// Documents it takes, dead ones included. A flush sorts its terms, which costs each document some microseconds; a
/// larger delta would cost every search more than a segment more does.
pub(crate) const CAPACITY: usize = if cfg!(test) { 64 } else { 1024 };
/// Terms of all documents it takes: long documents fill it sooner.
const MAX_POSTINGS: usize = 1 << 19;
/// A term in so many of its documents gets a row.
const DENSE: usize = CAPACITY / 16;

/// Postings of a term.
#[derive(Debug, Clone, Default)]
struct List {
    docs: Vec<u32>,
    tfs: Vec<u8>,
    over: Vec<Over>,
    dense: Option<Box<Dense>>,
    /// Live documents.
    doc_freq: u32,
}

#[derive(Debug, Clone)]
struct Dense {
    row: [u8; CAPACITY],
    bounds: Bounds,
    /// Documents, dead ones included.
    count: u32,
}

/// Documents numbered from 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Delta {
    docs: SegmentBuilder,
    /// By term.
    lists: Vec<List>,
    dead: FixedBitSet,
    num_dead: u32,
}

impl Delta {
    /// Numbers given, dead documents and empty places included.
    pub(crate) fn num_docs(&self) -> u32 {
        self.docs.num_docs()
    }

    /// Whether it wants to become a segment.
    pub(crate) fn is_full(&self) -> bool {
        self.docs.num_docs() as usize >= CAPACITY || self.docs.num_postings() >= MAX_POSTINGS
    }

    /// Adds a document.
    ///
    /// # Panics
    /// When it is full: that is a bug in the caller.
    pub(crate) fn push(&mut self, prepared: &PreparedDoc) {
        let doc = self.num_docs();
        assert!((doc as usize) < CAPACITY, "a document for a full delta");
        self.docs.push(prepared);
        self.dead.grow(doc as usize + 1);
        self.lists.resize_with(self.docs.terms().len(), List::default);
        for (id, tf) in self.docs.terms_of(doc) {
            self.lists[id.index()].push(id, doc, tf, prepared.len(), self.docs.lens());
        }
    }

    /// Adds an empty place, which is as good as dead.
    pub(crate) fn skip(&mut self) {
        assert!((self.num_docs() as usize) < CAPACITY, "a place in a full delta");
        self.dead.grow_and_insert(self.num_docs() as usize);
        self.num_dead += 1;
        self.docs.skip();
    }

    /// Takes a document out; false when it is not there or was dead before.
    pub(crate) fn bury(&mut self, doc: u32) -> bool {
        if doc >= self.num_docs() || self.dead.put(doc as usize) {
            return false;
        }
        self.num_dead += 1;
        for (id, _) in self.docs.terms_of(doc) {
            self.lists[id.index()].doc_freq -= 1;
        }
        true
    }

    /// Its documents, for a segment of them.
    pub(crate) fn docs(&self) -> &SegmentBuilder {
        &self.docs
    }

    /// The dead documents.
    pub(crate) fn dead(&self) -> &FixedBitSet {
        &self.dead
    }

    /// How many documents are dead.
    pub(crate) fn num_dead(&self) -> u32 {
        self.num_dead
    }

    /// Number of a term.
    pub(crate) fn term(&self, term: &str) -> Option<TermId> {
        self.docs.terms().get(term)
    }

    /// Live documents that hold a term.
    pub(crate) fn doc_freq(&self, term: TermId) -> u32 {
        self.lists.get(term.index()).map_or(0, |list| list.doc_freq)
    }

    /// The documents of a term.
    pub(crate) fn postings(&self, term: TermId) -> Postings<'_> {
        let Some(list) = self.lists.get(term.index()) else { return Postings::default() };
        let mut postings = Postings {
            docs: &list.docs,
            tfs: &list.tfs,
            row: None,
            over: &list.over,
            doc_freq: list.docs.len() as u32,
            bounds: None,
        };
        if let Some(dense) = &list.dense {
            postings.row = Some(&dense.row[..self.num_docs() as usize]);
            postings.bounds = Some(&dense.bounds);
            postings.doc_freq = dense.count;
        }
        postings
    }
}

impl List {
    fn push(&mut self, term: TermId, doc: u32, tf: u32, len: u32, lens: &[u32]) {
        let byte = u8::try_from(tf).unwrap_or(u8::MAX);
        if tf > u32::from(u8::MAX) {
            self.over.push(Over { term: term.0, doc, tf });
        }
        self.doc_freq += 1;
        if let Some(dense) = &mut self.dense {
            dense.row[doc as usize] = byte;
            dense.bounds.cover(tf, len);
            dense.count += 1;
            return;
        }
        self.docs.push(doc);
        self.tfs.push(byte);
        if self.docs.len() >= DENSE {
            let mut dense = Box::new(Dense { row: [0; CAPACITY], bounds: Bounds::NONE, count: 0 });
            let postings =
                Postings { docs: &self.docs, tfs: &self.tfs, over: &self.over, ..Postings::default() };
            postings.each(|doc, tf| {
                dense.row[doc as usize] = u8::try_from(tf).unwrap_or(u8::MAX);
                dense.bounds.cover(tf, lens[doc as usize]);
                dense.count += 1;
            });
            *self = Self {
                over: std::mem::take(&mut self.over),
                dense: Some(dense),
                doc_freq: self.doc_freq,
                ..Self::default()
            };
        }
    }
}
