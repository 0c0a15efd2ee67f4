//! An exact inverted index in memory.

use super::bm25::QUARTERS;
use super::document::PreparedDoc;
use super::params::Bm25Params;
use crate::ids::{DocId, TermId};
use crate::text::term_table::TermTable;
use fixedbitset::FixedBitSet;

/// Fewer postings of removed documents than this are never worth a purge. Small in tests, so that they see many.
const MIN_PURGE: usize = if cfg!(test) { 16 } else { 4096 };

/// One document of a term.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    pub(super) doc: u32,
    /// Weighted frequency in quarters.
    pub(super) tf: u32,
}

/// All documents of a term.
#[derive(Debug, Clone, Default)]
pub(super) struct PostingsList {
    /// In rising order of documents; removed ones stay until the next purge.
    pub(super) postings: Vec<Posting>,
    /// Live documents.
    pub(super) doc_freq: u32,
}

/// Postings, lengths and statistics of live documents.
///
/// Statistics (document frequencies, lengths) are integers corrected at each insertion and removal, and scores are
/// computed from them at search time: two indexes with the same live documents score alike to the last bit, whatever
/// their histories.
#[derive(Debug, Clone)]
pub struct LexicalIndex {
    pub(super) params: Bm25Params,
    pub(super) terms: TermTable,
    /// By term.
    pub(super) lists: Vec<PostingsList>,
    /// Length in quarters by document.
    pub(super) doc_lens: Vec<u32>,
    pub(super) live: FixedBitSet,
    /// Terms of every document, one after another: a removal needs no text.
    forward: Vec<TermId>,
    /// Where the terms of a document begin in `forward`, and how many they are.
    forward_spans: Vec<(usize, u32)>,
    pub(super) num_docs: u32,
    /// Sum of the lengths of live documents, in quarters.
    pub(super) total_len: u64,
    dead_postings: usize,
}

impl LexicalIndex {
    /// An empty index.
    pub fn new(params: Bm25Params) -> Self {
        Self {
            params,
            terms: TermTable::default(),
            lists: Vec::new(),
            doc_lens: Vec::new(),
            live: FixedBitSet::new(),
            forward: Vec::new(),
            forward_spans: Vec::new(),
            num_docs: 0,
            total_len: 0,
            dead_postings: 0,
        }
    }

    /// Adds a document. Ids must rise from call to call; gaps are allowed, and a removed id is not used again.
    ///
    /// # Panics
    /// If `doc` is not larger than every id before it: that is a bug in the caller.
    pub fn insert(&mut self, doc: DocId, prepared: &PreparedDoc) {
        assert!(doc.0 >= self.max_doc(), "document {} inserted after {}", doc.0, self.max_doc());
        let size = doc.index() + 1;
        self.doc_lens.resize(size, 0);
        self.forward_spans.resize(size, (0, 0));
        self.live.grow(size);
        let start = self.forward.len();
        self.terms.intern_all(prepared.terms(), &mut self.forward);
        self.lists.resize_with(self.terms.len(), PostingsList::default);
        for (id, &tf) in self.forward[start..].iter().zip(prepared.tfs()) {
            let list = &mut self.lists[id.index()];
            list.postings.push(Posting { doc: doc.0, tf });
            list.doc_freq += 1;
        }
        self.forward_spans[doc.index()] = (start, (self.forward.len() - start) as u32);
        self.doc_lens[doc.index()] = prepared.len();
        self.live.insert(doc.index());
        self.num_docs += 1;
        self.total_len += u64::from(prepared.len());
    }

    /// Takes a document out of every answer and statistic. False if it is not there.
    pub fn remove(&mut self, doc: DocId) -> bool {
        if !self.contains(doc) {
            return false;
        }
        self.live.set(doc.index(), false);
        let (start, count) = self.forward_spans[doc.index()];
        for id in &self.forward[start..start + count as usize] {
            self.lists[id.index()].doc_freq -= 1;
        }
        self.num_docs -= 1;
        self.total_len -= u64::from(self.doc_lens[doc.index()]);
        self.dead_postings += count as usize;
        if self.dead_postings > MIN_PURGE && self.dead_postings * 2 > self.forward.len() {
            self.purge();
        }
        true
    }

    /// Whether a document is there and not removed.
    pub fn contains(&self, doc: DocId) -> bool {
        self.live.contains(doc.index())
    }

    /// Live documents.
    pub fn num_docs(&self) -> u32 {
        self.num_docs
    }

    /// One more than the largest id ever inserted.
    pub fn max_doc(&self) -> u32 {
        self.doc_lens.len() as u32
    }

    /// Mean weighted length of live documents; 0 without any.
    pub fn avg_doc_len(&self) -> f32 {
        if self.num_docs == 0 {
            return 0.0;
        }
        (self.total_len as f64 / f64::from(self.num_docs) / f64::from(QUARTERS)) as f32
    }

    /// Live documents that hold a term (as the analyzer gives it).
    pub fn doc_freq(&self, term: &str) -> u32 {
        self.terms.get(term).map_or(0, |id| self.lists[id.index()].doc_freq)
    }

    /// The parameters scores are computed with.
    pub fn params(&self) -> Bm25Params {
        self.params
    }

    /// Terms of a live document.
    pub(super) fn terms_of(&self, doc: DocId) -> &[TermId] {
        let (start, count) = self.forward_spans.get(doc.index()).copied().unwrap_or((0, 0));
        &self.forward[start..start + count as usize]
    }

    /// Weighted frequency of a term in a document, in quarters; 0 if it is not in it.
    pub(super) fn tf(&self, term: TermId, doc: DocId) -> u32 {
        let postings = &self.lists[term.index()].postings;
        postings.binary_search_by_key(&doc.0, |posting| posting.doc).map_or(0, |at| postings[at].tf)
    }

    /// Drops the postings and forward lists of removed documents and the terms nobody holds. Ids of documents stay.
    fn purge(&mut self) {
        let mut terms = TermTable::with_capacity(self.terms.len());
        let mut lists = Vec::new();
        let mut renumbered = vec![TermId(u32::MAX); self.terms.len()];
        for (old, term, hash) in self.terms.iter() {
            let mut list = std::mem::take(&mut self.lists[old.index()]);
            if list.doc_freq == 0 {
                continue;
            }
            list.postings.retain(|posting| self.live.contains(posting.doc as usize));
            list.postings.shrink_to_fit();
            renumbered[old.index()] = terms.intern(term, hash);
            lists.push(list);
        }
        let mut forward = Vec::with_capacity(self.forward.len() - self.dead_postings);
        for (doc, span) in self.forward_spans.iter_mut().enumerate() {
            let (start, count) = *span;
            *span = (forward.len(), 0);
            if self.live.contains(doc) {
                forward.extend(
                    self.forward[start..start + count as usize].iter().map(|id| renumbered[id.index()]),
                );
                span.1 = count;
            } else {
                self.doc_lens[doc] = 0;
            }
        }
        self.terms = terms;
        self.lists = lists;
        self.forward = forward;
        self.dead_postings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::{Field, prepare};
    use crate::text::Analyzer;

    fn doc(text: &str) -> PreparedDoc {
        prepare(&Analyzer::default(), &[Field { text, weight_halves: 2 }])
    }

    #[test]
    fn statistics_are_those_of_live_documents() {
        let mut index = LexicalIndex::new(Bm25Params::default());
        index.insert(DocId(3), &doc("red fox"));
        index.insert(DocId(9), &doc("red red cat"));
        assert_eq!((index.num_docs(), index.max_doc()), (2, 10));
        assert_eq!((index.doc_freq("red"), index.doc_freq("cat"), index.doc_freq("dog")), (2, 1, 0));
        assert!((index.avg_doc_len() - 3.75).abs() < 1e-6, "each word counts 1.5: stem and surface form");
        assert!(index.remove(DocId(9)));
        assert!(!index.remove(DocId(9)) && !index.remove(DocId(4)) && !index.remove(DocId(99)));
        assert_eq!((index.num_docs(), index.max_doc()), (1, 10));
        assert_eq!((index.doc_freq("red"), index.doc_freq("cat")), (1, 0));
        assert!((index.avg_doc_len() - 3.0).abs() < 1e-6);
    }

    #[test]
    #[should_panic(expected = "inserted after")]
    fn ids_must_rise() {
        let mut index = LexicalIndex::new(Bm25Params::default());
        index.insert(DocId(1), &doc("a"));
        index.insert(DocId(1), &doc("b"));
    }

    #[test]
    fn postings_of_removed_documents_are_purged_when_they_are_the_majority() {
        let mut index = LexicalIndex::new(Bm25Params::default());
        for id in 0..2000 {
            index.insert(DocId(id), &doc(&format!("common word{id} other{}", id % 7)));
        }
        let before = index.forward.len();
        for id in 0..1900 {
            assert!(index.remove(DocId(id)));
        }
        assert!(
            index.forward.len() < before / 2 && index.terms.len() < 3000,
            "{} {}",
            index.forward.len(),
            index.terms.len()
        );
        assert_eq!(index.doc_freq("common"), 100);
        assert_eq!(index.doc_freq("word1950"), 1);
        assert_eq!(index.doc_freq("word50"), 0);
        let live: usize = index.lists.iter().map(|list| list.doc_freq as usize).sum();
        assert_eq!(live + index.dead_postings, index.forward.len());
        assert_eq!(index.lists.iter().map(|list| list.postings.len()).sum::<usize>(), index.forward.len());
        index.insert(DocId(2000), &doc("common"));
        assert!(index.remove(DocId(1999)));
        assert_eq!(index.doc_freq("common"), 100);
    }
}
