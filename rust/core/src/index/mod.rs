//! Lexical and vector index over one numbering of documents, and the two together ranked.

#[allow(dead_code, unused_imports, reason = "the engine uses it in the next step")]
pub(crate) mod disk;
mod hybrid;
mod ranking;

pub use hybrid::{HybridHit, HybridIndex, IndexParams, Inserted, Search};
pub(crate) use hybrid::{parts, query_refused, query_row};
pub use ranking::{Ask, Ranking};

use crate::error::{Error, Result};
use crate::ids::DocId;
use crate::lexical::{Bm25Params, LexicalIndex, PreparedDoc};
use crate::vector::{Refusal, VectorSet};
use fixedbitset::FixedBitSet;

/// Documents with words, vectors, or both. Numbers are given in order of insertion and never reused.
#[derive(Debug)]
pub struct Index {
    lexical: LexicalIndex,
    vectors: VectorSet,
    /// Documents that are not removed.
    live: FixedBitSet,
    /// Documents that were given text, be it without a single term.
    texts: FixedBitSet,
}

impl Index {
    /// An empty index; the width of vectors comes from `dim` or from the first one.
    pub fn new(params: Bm25Params, dim: Option<usize>) -> Self {
        Self {
            lexical: LexicalIndex::new(params),
            vectors: VectorSet::new(dim),
            live: FixedBitSet::new(),
            texts: FixedBitSet::new(),
        }
    }

    /// Adds a document, with text if it has any.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when four billion documents have been added.
    pub fn add(&mut self, text: Option<&PreparedDoc>) -> Result<DocId> {
        let number = u32::try_from(self.live.len()).ok().filter(|n| *n < u32::MAX - 1).ok_or_else(|| {
            Error::invalid("index", "holds as many documents as it can number; build a new one")
        })?;
        let doc = DocId(number);
        self.live.grow_and_insert(doc.index());
        self.texts.grow(doc.index() + 1);
        if let Some(text) = text {
            self.texts.insert(doc.index());
            self.lexical.insert(doc, text);
        }
        Ok(doc)
    }

    /// Gives a document these rows, in place of what it had.
    ///
    /// # Errors
    /// Why they cannot be searched; the document then has none.
    pub fn set_vectors(&mut self, doc: DocId, rows: &[&[f32]]) -> Result<(), Refusal> {
        self.vectors.insert(doc, rows)
    }

    /// Takes a document out; false when it was not there.
    pub fn remove(&mut self, doc: DocId) -> bool {
        if !self.live.contains(doc.index()) {
            return false;
        }
        self.live.set(doc.index(), false);
        if self.texts.contains(doc.index()) {
            self.texts.set(doc.index(), false);
            self.lexical.remove(doc);
        }
        self.vectors.remove(doc);
        true
    }

    /// Live documents.
    pub fn num_docs(&self) -> usize {
        self.live.count_ones(..)
    }

    /// Numbers given so far, removed documents included.
    pub fn max_doc(&self) -> usize {
        self.live.len()
    }

    /// The documents that are not removed.
    pub fn live(&self) -> &FixedBitSet {
        &self.live
    }

    /// The vectors.
    pub fn vectors(&self) -> &VectorSet {
        &self.vectors
    }

    /// The words.
    pub fn lexical(&self) -> &LexicalIndex {
        &self.lexical
    }
}
