//! What two indexes of the same documents have otherwise, whatever their histories and numberings.

use super::index::LexicalIndex;
use crate::ids::DocId;

/// An index whose terms can be looked up by number.
#[derive(Debug)]
pub(crate) struct Readable<'i> {
    index: &'i LexicalIndex,
    names: Vec<&'i [u8]>,
}

impl<'i> Readable<'i> {
    pub(crate) fn new(index: &'i LexicalIndex) -> Self {
        let mut names = vec![&[][..]; index.terms.len()];
        for (id, name, _) in index.terms.iter() {
            names[id.index()] = name;
        }
        Self { index, names }
    }

    /// Terms of a document and their weighted frequencies, by term.
    pub(crate) fn document(&self, doc: DocId) -> Vec<(&'i [u8], u32)> {
        let terms = self.index.terms_of(doc).iter();
        let mut terms: Vec<_> = terms.map(|id| (self.names[id.index()], self.index.tf(*id, doc))).collect();
        terms.sort_unstable();
        terms
    }

    /// Terms of live documents and in how many each is, by term.
    pub(crate) fn doc_freqs(&self) -> Vec<(&'i [u8], u32)> {
        let lists = self.names.iter().zip(&self.index.lists);
        let mut found: Vec<_> =
            lists.filter(|(_, list)| list.doc_freq > 0).map(|(name, list)| (*name, list.doc_freq)).collect();
        found.sort_unstable();
        found
    }

    /// Live documents, and the sum of their lengths.
    pub(crate) fn totals(&self) -> (u32, u64) {
        (self.index.num_docs, self.index.total_len)
    }

    /// Length of a document.
    pub(crate) fn doc_len(&self, doc: DocId) -> u32 {
        self.index.doc_lens.get(doc.index()).copied().unwrap_or(0)
    }
}
