//! A segment from documents.

use super::postings::PostingsWriter;
use super::{DICTIONARY, Names, forward};
use crate::ids::TermId;
use crate::lexical::document::{Field, PreparedDoc, weighted_terms};
use crate::sections::SectionWriter;
use crate::text::Analyzer;
use crate::text::term_table::TermTable;
use fixedbitset::FixedBitSet;
use std::io::{self, Write};

/// Documents on their way into a segment: their terms with frequencies, one document after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct SegmentBuilder {
    terms: TermTable,
    /// Terms of all documents and their frequencies in quarters.
    forward: Vec<(TermId, u32)>,
    /// Where the terms of each document end in `forward`.
    ends: Vec<usize>,
    /// Lengths in quarters.
    lens: Vec<u32>,
    /// Those without a document.
    places: FixedBitSet,
    /// By term, one more than the last document that it was found in, and where in `forward`.
    last: Vec<(u32, u32)>,
    interned: Vec<TermId>,
    /// The words of one document as they come, and what each counts.
    listed: TermTable,
    counts: Vec<u32>,
}

impl SegmentBuilder {
    /// Documents so far.
    pub(crate) fn num_docs(&self) -> u32 {
        self.lens.len() as u32
    }

    /// Terms of all documents so far, each counted once a document.
    pub(crate) fn num_postings(&self) -> usize {
        self.forward.len()
    }

    /// The terms of all documents.
    pub(crate) fn terms(&self) -> &TermTable {
        &self.terms
    }

    /// Lengths by document, in quarters.
    pub(crate) fn lens(&self) -> &[u32] {
        &self.lens
    }

    /// Places without a document.
    pub(crate) fn places(&self) -> &FixedBitSet {
        &self.places
    }

    /// Terms of a document with their frequencies in quarters, each once, in no order.
    pub(crate) fn terms_of(&self, doc: u32) -> &[(TermId, u32)] {
        let at = doc as usize;
        let start = if at == 0 { 0 } else { self.ends.get(at - 1).copied().unwrap_or(0) };
        let end = self.ends.get(at).copied().unwrap_or(start);
        &self.forward[start..end]
    }

    /// Adds a document that was analysed before.
    pub(crate) fn push(&mut self, doc: &PreparedDoc) {
        self.interned.clear();
        self.terms.intern_all(doc.terms(), &mut self.interned);
        self.forward.extend(self.interned.iter().copied().zip(doc.tfs().iter().copied()));
        self.end(doc.len());
    }

    /// Analyses a document and adds it: without a table of the document's own terms. All are looked up together, so that
    /// the reads of a table that is larger than the cache do not wait for each other.
    pub(crate) fn push_fields(&mut self, analyzer: &Analyzer, fields: &[Field<'_>]) {
        self.listed.clear();
        self.counts.clear();
        weighted_terms(*analyzer, fields, |term, hash, quarters| {
            self.listed.list(term, hash);
            self.counts.push(quarters);
        });
        self.interned.clear();
        self.terms.intern_all(&self.listed, &mut self.interned);
        self.last.resize(self.terms.len(), (0, 0));
        let start = self.forward.len();
        let mark = self.lens.len() as u32 + 1;
        let mut len = 0_u32;
        for (&id, &quarters) in self.interned.iter().zip(&self.counts) {
            let last = &mut self.last[id.index()];
            if last.0 == mark {
                let tf = &mut self.forward[start + last.1 as usize].1;
                *tf = tf.saturating_add(quarters);
            } else {
                *last = (mark, (self.forward.len() - start) as u32);
                self.forward.push((id, quarters));
            }
            len = len.saturating_add(quarters);
        }
        self.end(len);
    }

    /// Adds a place without a document.
    pub(crate) fn skip(&mut self) {
        self.places.grow_and_insert(self.lens.len());
        self.end(0);
    }

    fn end(&mut self, len: u32) {
        self.ends.push(self.forward.len());
        self.lens.push(len);
        self.places.grow(self.lens.len());
    }

    /// Writes the segment. A document that is not `kept` leaves an empty place.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write<W: Write>(
        &self,
        out: &mut SectionWriter<W>,
        kept: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        let mut lens = self.lens.clone();
        let mut doc_freqs = vec![0_u32; self.terms.len()];
        for (doc, len) in (0..).zip(&mut lens) {
            if kept(doc) {
                self.terms_of(doc).iter().for_each(|(id, _)| doc_freqs[id.index()] += 1);
            } else {
                *len = 0;
            }
        }
        let names = self.sorted(&doc_freqs);
        let mut ranks = vec![0_u32; self.terms.len()];
        let mut places = vec![0_usize; self.terms.len()];
        let mut ends = Vec::with_capacity(names.len());
        let mut total = 0;
        for (rank, (_, id)) in (0..).zip(&names) {
            ranks[id.index()] = rank;
            places[id.index()] = total;
            total += doc_freqs[id.index()] as usize;
            ends.push(total);
        }
        let mut postings = vec![(0_u32, 0_u32); total];
        for doc in (0..self.num_docs()).filter(|doc| kept(*doc)) {
            for &(id, tf) in self.terms_of(doc) {
                let place = &mut places[id.index()];
                postings[*place] = (doc, tf);
                *place += 1;
            }
        }
        let mut writer = PostingsWriter::new(&lens);
        writer.terms(out, |term| {
            let mut start = 0;
            ends.iter().try_for_each(|&end| term(&postings[std::mem::replace(&mut start, end)..end]))
        })?;
        drop(postings);
        let mut sorted: Vec<(u32, u32)> = Vec::new();
        writer.finish(out, |doc, list| {
            if kept(doc) {
                sorted.clear();
                sorted.extend(self.terms_of(doc).iter().map(|&(id, tf)| (ranks[id.index()], tf)));
                sorted.sort_unstable();
                forward::encode(sorted.iter().copied(), list);
            }
        })?;
        Names::write(out, DICTIONARY, &names.iter().map(|(name, _)| *name))
    }

    /// The terms that a document holds, by name.
    fn sorted(&self, doc_freqs: &[u32]) -> Vec<(&[u8], TermId)> {
        let held = self.terms.iter().filter(|(id, ..)| doc_freqs[id.index()] > 0);
        // The first eight bytes as a number: most comparisons need no more.
        let mut keyed: Vec<(u64, &[u8], TermId)> = held.map(|(id, name, _)| (key(name), name, id)).collect();
        keyed.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        keyed.into_iter().map(|(_, name, id)| (name, id)).collect()
    }
}

/// The first eight bytes, so that a smaller key is a smaller name.
fn key(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(8);
    bytes[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(bytes)
}
