//! What two indexes of the same documents have otherwise, whatever their histories and numberings.

use super::index::LexicalIndex;
use super::search::Part;
use crate::ids::DocId;
use std::collections::BTreeMap;

/// An index whose documents and terms can be looked at.
#[derive(Debug)]
pub(crate) struct Readable<'i> {
    index: &'i LexicalIndex,
    parts: Vec<Part<'i>>,
}

impl<'i> Readable<'i> {
    pub(crate) fn new(index: &'i LexicalIndex) -> Self {
        Self { index, parts: index.parts() }
    }

    /// Terms of a document and their weighted frequencies, by term.
    pub(crate) fn document(&self, doc: DocId) -> Vec<(&'i [u8], u32)> {
        let mut terms = Vec::new();
        if let Some((part, local)) = self.find(doc) {
            part.terms_of(local, |term, tf| terms.push((term, tf)));
        }
        terms.sort_unstable();
        terms
    }

    /// Terms of live documents and in how many each is, by term.
    pub(crate) fn doc_freqs(&self) -> BTreeMap<&'i [u8], u32> {
        let mut found = BTreeMap::new();
        for part in &self.parts {
            part.doc_freqs(|term, doc_freq| *found.entry(term).or_default() += doc_freq);
        }
        found
    }

    /// Live documents, and the sum of their lengths.
    pub(crate) fn totals(&self) -> (u32, u64) {
        (self.index.num_docs(), self.index.total_len())
    }

    /// Length of a document.
    pub(crate) fn doc_len(&self, doc: DocId) -> u32 {
        self.find(doc).map_or(0, |(part, local)| part.doc_len(local))
    }

    fn find(&self, doc: DocId) -> Option<(&Part<'i>, u32)> {
        self.parts.iter().find_map(|part| Some((part, part.local(doc.0)?)))
    }
}
