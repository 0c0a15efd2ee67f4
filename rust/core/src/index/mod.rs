//! Lexical and vector index over one numbering of documents, and the two together ranked.

mod both;
pub(crate) mod disk;
mod hybrid;
mod ranking;

pub use hybrid::{Among, Batch, HybridHit, HybridIndex, IdSet, IndexParams, Inserted, Parts, Search};
pub(crate) use hybrid::{query_refused, query_row};
pub use ranking::{Ask, Ranking};

use crate::error::{Error, Result};
use crate::ids::DocId;
use crate::lexical::{Bm25Params, DROPPED, LexicalIndex, NewSegment, PreparedDoc, Segment};
use crate::vector::{BuiltGraph, GraphJob, Refusal, VectorSegment, VectorSet};
use fixedbitset::FixedBitSet;

/// Documents with words, vectors, or both. Numbers are given in order of insertion and not reused; the owner may give
/// all documents new ones.
#[derive(Debug)]
pub struct Index {
    lexical: LexicalIndex,
    vectors: VectorSet,
    /// Documents that are not removed.
    live: FixedBitSet,
    num_docs: usize,
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
            num_docs: 0,
            texts: FixedBitSet::new(),
        }
    }

    /// An index of `count` documents; those `without` text have no place among the words.
    pub(crate) fn of_words(
        lexical: LexicalIndex,
        dim: Option<usize>,
        count: u32,
        without: FixedBitSet,
    ) -> Self {
        let mut live = FixedBitSet::with_capacity(count as usize);
        live.insert_range(..);
        let mut texts = without;
        texts.toggle_range(..);
        Self { lexical, vectors: VectorSet::new(dim), live, num_docs: count as usize, texts }
    }

    /// Gives the documents so far the vectors of a segment with as many.
    ///
    /// # Errors
    /// [`Refusal::Width`] when they are of another width.
    pub(crate) fn map_vectors(&mut self, vectors: VectorSegment) -> Result<(), Refusal> {
        let max_doc = self.live.len();
        self.vectors.add_segment(Some(vectors), max_doc as u32, &FixedBitSet::with_capacity(max_doc))
    }

    /// Whether a document was given text, be it without a single term.
    pub(crate) fn has_text(&self, doc: DocId) -> bool {
        self.texts.contains(doc.index())
    }

    /// An index over segments, numbered one after the other, without the documents that are dead in each; all of them
    /// have text. Their vectors have the width `dim`.
    ///
    /// # Errors
    /// [`Error::Internal`] when the vectors of a segment have another width.
    pub(crate) fn over<'s>(
        params: Bm25Params,
        dim: Option<usize>,
        segments: impl Iterator<Item = (Segment, Option<VectorSegment>, &'s FixedBitSet)>,
    ) -> Result<Self> {
        let segments: Vec<_> = segments.collect();
        let mut vectors = VectorSet::new(dim);
        let mut live = FixedBitSet::new();
        for (words, rows, dead) in &segments {
            let first = live.len();
            live.grow(first + words.num_docs() as usize);
            live.insert_range(first..);
            dead.ones()
                .take_while(|doc| *doc < words.num_docs() as usize)
                .for_each(|doc| live.remove(first + doc));
            vectors
                .add_segment(rows.clone(), words.num_docs(), dead)
                .map_err(|refusal| Error::Internal(format!("the vectors of a segment: {refusal}")))?;
        }
        let words = segments.iter().map(|(words, _, dead)| (words.clone(), *dead));
        let lexical = LexicalIndex::of_segments(params, words);
        Ok(Self { lexical, vectors, texts: live.clone(), num_docs: live.count_ones(..), live })
    }

    /// Adds a document, with text if it has any.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when four billion documents have been added.
    pub fn add(&mut self, text: Option<&PreparedDoc>) -> Result<DocId> {
        let doc = self.next(1)?;
        if let Some(text) = text {
            self.lexical.insert(doc, text)?;
            self.texts.grow_and_insert(doc.index());
        }
        self.live.grow_and_insert(doc.index());
        self.num_docs += 1;
        self.texts.grow(doc.index() + 1);
        Ok(doc)
    }

    /// Adds the documents of a segment, of which those with an empty place in it have no text; gives the first number.
    ///
    /// # Errors
    /// As [`Index::add`]; then none of them is there.
    pub(crate) fn add_all(&mut self, segment: NewSegment) -> Result<DocId> {
        let first = self.next(segment.num_docs())?;
        let end = first.index() + segment.num_docs() as usize;
        self.texts.grow(end);
        self.texts.insert_range(first.index()..end);
        segment.places().ones().for_each(|place| self.texts.remove(first.index() + place));
        let segment_docs = segment.num_docs() as usize;
        self.lexical.insert_all(first, segment)?;
        self.live.grow(end);
        self.live.insert_range(first.index()..end);
        self.num_docs += segment_docs;
        Ok(first)
    }

    /// The next number, with room for `count`.
    fn next(&self, count: u32) -> Result<DocId> {
        let first = u32::try_from(self.live.len()).ok();
        let fits = first.filter(|first| first.checked_add(count).is_some_and(|end| end < u32::MAX));
        fits.map(DocId).ok_or_else(|| {
            Error::invalid("index", "holds as many documents as it can number; build a new one")
        })
    }

    /// Gives the documents new numbers, those in `numbers` that are below `count`, in the same order; every live one
    /// has one. Rows are put in that order without the dead ones, or, where that can be, left `in_place`.
    ///
    /// # Errors
    /// [`Error::Internal`] when the new state cannot be built; then nothing has changed.
    pub(crate) fn renumber(&mut self, numbers: &[u32], count: u32, in_place: bool) -> Result<()> {
        let refused = |refusal| Error::Internal(format!("a row that was searched: {refusal}"));
        let in_place = in_place && self.vectors.can_be_renumbered();
        let vectors = if in_place { None } else { self.vectors.renumbered(numbers).map_err(refused)? };
        let mut texts = FixedBitSet::with_capacity(count as usize);
        for (doc, number) in (0..).map(DocId).zip(numbers.iter().copied().map(DocId)) {
            if number.0 == DROPPED {
                continue;
            }
            texts.set(number.index(), self.texts.contains(doc.index()));
        }
        self.lexical.renumber(numbers, count)?;
        if in_place {
            self.vectors.renumber(numbers);
        } else if let Some(vectors) = vectors {
            self.vectors = vectors;
        }
        self.texts = texts;
        self.live = FixedBitSet::with_capacity(count as usize);
        self.live.insert_range(..);
        self.num_docs = count as usize;
        Ok(())
    }

    /// Gives a document these rows, in place of what it had.
    ///
    /// # Errors
    /// Why they cannot be searched; the document then has none.
    pub fn set_vectors(&mut self, doc: DocId, rows: &[&[f32]]) -> Result<(), Refusal> {
        self.vectors.insert(doc, rows)
    }

    /// See [`VectorSet::graph_job`].
    pub(crate) fn graph_job(&self, least: usize) -> GraphJob {
        self.vectors.graph_job(least)
    }

    /// See [`VectorSet::put_graph`].
    pub(crate) fn put_graph(&mut self, built: BuiltGraph) -> bool {
        self.vectors.put_graph(built)
    }

    /// Takes a document out; false when it was not there.
    pub fn remove(&mut self, doc: DocId) -> bool {
        if !self.live.contains(doc.index()) {
            return false;
        }
        self.live.set(doc.index(), false);
        self.num_docs -= 1;
        if self.texts.contains(doc.index()) {
            self.texts.set(doc.index(), false);
            self.lexical.remove(doc);
        }
        self.vectors.remove(doc);
        true
    }

    /// Live documents.
    pub fn num_docs(&self) -> usize {
        self.num_docs
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
