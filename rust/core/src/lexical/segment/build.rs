//! A segment from documents.

use super::postings::{Over, PostingsWriter, Written, byte};
use super::ranks::ByRank;
use super::words::WordMemo;
use super::{DICTIONARY, Names, forward};
use crate::ids::TermId;
use crate::lexical::document::{Field, PreparedDoc};
use crate::prefetch::prefetch;
use crate::sections::SectionWriter;
use crate::text::Analyzer;
use crate::text::term_table::TermTable;
use fixedbitset::FixedBitSet;
use std::io::{self, Write};
use std::ops::Range;

/// Documents on their way into a segment: their terms with frequencies, one document after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct SegmentBuilder {
    terms: TermTable,
    /// Terms of all documents.
    forward: Vec<TermId>,
    /// Their frequencies in quarters, 255 for that and all above; and those above, with their places.
    tfs: Vec<u8>,
    over: Vec<(usize, u32)>,
    /// Where the terms of each document end in `forward`.
    ends: Vec<usize>,
    /// Lengths in quarters.
    lens: Vec<u32>,
    /// Those without a document.
    places: FixedBitSet,
    /// By term, one more than the last document that it was found in, and where in `own`.
    last: Vec<(u32, u32)>,
    /// Terms and frequencies of the document that is read.
    own: Vec<(TermId, u32)>,
    /// Short words, their terms known.
    words: WordMemo,
    interned: Vec<TermId>,
    /// The other terms of a field as they come, and what each counts.
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

    /// About how many bytes its segment takes.
    pub(crate) fn size(&self) -> usize {
        8 * self.forward.len() + 32 * self.terms.len() + 16 * self.lens.len()
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

    /// Where the terms of a document lie.
    fn range(&self, doc: u32) -> Range<usize> {
        let at = doc as usize;
        let start = if at == 0 { 0 } else { self.ends.get(at - 1).copied().unwrap_or(0) };
        start..self.ends.get(at).copied().unwrap_or(start)
    }

    /// Terms of a document with their frequencies in quarters, each once, in no order.
    pub(crate) fn terms_of(&self, doc: u32) -> impl ExactSizeIterator<Item = (TermId, u32)> {
        let range = self.range(doc);
        let start = range.start;
        let terms = self.forward[range.clone()].iter().zip(&self.tfs[range]).enumerate();
        terms.map(move |(at, (id, tf))| (*id, self.exact(*tf, start + at)))
    }

    /// The frequency that a byte stands for.
    #[inline]
    fn exact(&self, tf: u8, at: usize) -> u32 {
        if tf == u8::MAX { self.above(at) } else { u32::from(tf) }
    }

    #[cold]
    fn above(&self, at: usize) -> u32 {
        let found = self.over.binary_search_by_key(&at, |(place, _)| *place).ok();
        found.map_or(u32::from(u8::MAX), |found| self.over[found].1)
    }

    /// Adds a document that was analysed before.
    pub(crate) fn push(&mut self, doc: &PreparedDoc) {
        self.interned.clear();
        self.terms.intern_all(doc.terms(), &mut self.interned);
        let mut own = std::mem::take(&mut self.own);
        own.clear();
        own.extend(self.interned.iter().copied().zip(doc.tfs().iter().copied()));
        self.own = own;
        self.end(doc.len());
    }

    /// Analyses a document and adds it: without a table of the document's own terms. All are looked up together, so that
    /// the reads of a table that is larger than the cache do not wait for each other.
    pub(crate) fn push_fields(&mut self, analyzer: &Analyzer, fields: &[Field<'_>]) {
        self.own.clear();
        let mut len = 0;
        for field in fields.iter().filter(|field| field.weight_halves > 0) {
            len = self.add_field(*analyzer, field, len);
        }
        self.end(len);
    }

    /// Adds a field of the document that is read; gives its length, which was `len`.
    fn add_field(&mut self, analyzer: Analyzer, field: &Field<'_>, mut len: u32) -> u32 {
        let weight = u32::from(field.weight_halves);
        self.listed.clear();
        self.counts.clear();
        self.words.clear();
        let (words, listed, counts) = (&mut self.words, &mut self.listed, &mut self.counts);
        let list = |term: &[u8], hash, halves| {
            listed.list(term, hash);
            counts.push(weight * u32::from(halves));
        };
        analyzer.each_term_around(field.text, |word| words.push(word), list);
        let last = &self.last;
        words.count(analyzer, &mut self.terms, |id| prefetch(last, id.index()));
        self.interned.clear();
        self.terms.intern_all(&self.listed, &mut self.interned);
        self.last.resize(self.terms.len(), (0, 0));
        let mark = self.lens.len() as u32 + 1;
        let (last, own) = (&mut self.last, &mut self.own);
        let mut add = |id: TermId, quarters: u32| {
            let last = &mut last[id.index()];
            if last.0 == mark {
                let tf = &mut own[last.1 as usize].1;
                *tf = tf.saturating_add(quarters);
            } else {
                *last = (mark, own.len() as u32);
                own.push((id, quarters));
            }
            len = len.saturating_add(quarters);
        };
        self.words.each_term(|id, halves| add(id, weight.saturating_mul(halves)));
        for (&id, &quarters) in self.interned.iter().zip(&self.counts) {
            add(id, quarters);
        }
        len
    }

    /// Adds a place without a document.
    pub(crate) fn skip(&mut self) {
        self.places.grow_and_insert(self.lens.len());
        self.own.clear();
        self.end(0);
    }

    /// Ends the document whose terms are in `own`.
    fn end(&mut self, len: u32) {
        let start = self.forward.len();
        self.forward.extend(self.own.iter().map(|(id, _)| *id));
        self.tfs.extend(self.own.iter().map(|(_, tf)| byte(*tf)));
        let above = self.own.iter().zip(start..).filter(|((_, tf), _)| *tf > u32::from(u8::MAX));
        self.over.extend(above.map(|((_, tf), at)| (at, *tf)));
        self.ends.push(self.forward.len());
        self.lens.push(len);
        self.places.grow(self.lens.len());
    }

    /// Writes the segment. A document that is not `kept` leaves an empty place.
    ///
    /// # Errors
    /// Those of the writer; [`io::ErrorKind::InvalidInput`] for more terms of documents than a `u32` counts.
    pub(crate) fn write<W: Write>(
        &self,
        out: &mut SectionWriter<W>,
        kept: impl Fn(u32) -> bool,
    ) -> io::Result<()> {
        if u32::try_from(self.forward.len()).is_err() {
            let message = "more than four billion terms of documents in a segment that is made at once";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut lens = self.lens.clone();
        let mut doc_freqs = vec![0_u32; self.terms.len()];
        for (doc, len) in (0..).zip(&mut lens) {
            if kept(doc) {
                self.forward[self.range(doc)].iter().for_each(|id| doc_freqs[id.index()] += 1);
            } else {
                *len = 0;
            }
        }
        let names = self.sorted(&doc_freqs);
        let mut ranks = vec![0_u32; self.terms.len()];
        for (rank, (_, id)) in (0..).zip(&names) {
            ranks[id.index()] = rank;
        }
        let docs = (0..self.num_docs()).filter(|doc| kept(*doc));
        let over = self.over_of(docs.clone(), &ranks);
        let ids = names.iter().map(|(_, id)| *id);
        let mut writer = PostingsWriter::new(&lens);
        if self.num_docs() <= u32::MAX >> 8 {
            let postings = self.postings::<u32>(docs, ids, &doc_freqs);
            writer.terms(out, |term| postings.each(&over, term))?;
        } else {
            let postings = self.postings::<u64>(docs, ids, &doc_freqs);
            writer.terms(out, |term| postings.each(&over, term))?;
        }
        let mut sorter = ByRank::new(names.len());
        writer.finish(out, |doc, list| {
            if kept(doc) {
                let range = self.range(doc);
                let ids = self.forward[range.clone()].iter().map(|id| ranks[id.index()]);
                let mut encoder = forward::Encoder::new(list, range.len());
                sorter.sort(ids.zip(self.tfs[range].iter().copied()), |rank, tf| {
                    let above = || over.binary_search_by_key(&(rank, doc), |entry| (entry.term, entry.doc));
                    let tf = match tf {
                        u8::MAX => above().map_or(u32::from(tf), |at| over[at].tf),
                        _ => u32::from(tf),
                    };
                    encoder.put(rank, tf);
                });
            }
        })?;
        Names::write(out, DICTIONARY, &names.iter().map(|(name, _)| *name))
    }

    /// The frequencies above 255 in these documents, by term and document.
    fn over_of(&self, docs: impl Iterator<Item = u32>, ranks: &[u32]) -> Vec<Over> {
        if self.over.is_empty() {
            return Vec::new();
        }
        let mut over = Vec::new();
        for doc in docs {
            let above = self.terms_of(doc).filter(|(_, tf)| *tf > u32::from(u8::MAX));
            over.extend(above.map(|(id, tf)| Over { term: ranks[id.index()], doc, tf }));
        }
        over.sort_unstable_by_key(|entry| (entry.term, entry.doc));
        over
    }

    /// The documents of all terms, which come as they are to lie.
    fn postings<P: Posting>(
        &self,
        docs: impl Iterator<Item = u32>,
        terms: impl Iterator<Item = TermId>,
        doc_freqs: &[u32],
    ) -> Inverted<P> {
        let mut places = vec![0_u32; doc_freqs.len()];
        let (mut ends, mut total) = (Vec::new(), 0_usize);
        for id in terms {
            places[id.index()] = total as u32;
            total += doc_freqs[id.index()] as usize;
            ends.push(total);
        }
        let mut all = vec![P::default(); total];
        for doc in docs {
            let range = self.range(doc);
            for (id, &tf) in self.forward[range.clone()].iter().zip(&self.tfs[range]) {
                let place = &mut places[id.index()];
                all[*place as usize] = P::new(doc, tf);
                *place += 1;
            }
        }
        Inverted { all, ends }
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

/// A document and a frequency in one number: written to one place of memory instead of two.
trait Posting: Copy + Default {
    fn new(doc: u32, tf: u8) -> Self;
    fn doc(self) -> u32;
    fn tf(self) -> u8;
}

impl Posting for u32 {
    #[inline]
    fn new(doc: u32, tf: u8) -> Self {
        doc << 8 | Self::from(tf)
    }

    #[inline]
    fn doc(self) -> u32 {
        self >> 8
    }

    #[inline]
    fn tf(self) -> u8 {
        self as u8
    }
}

impl Posting for u64 {
    fn new(doc: u32, tf: u8) -> Self {
        Self::from(doc) << 8 | Self::from(tf)
    }

    fn doc(self) -> u32 {
        (self >> 8) as u32
    }

    fn tf(self) -> u8 {
        self as u8
    }
}

/// The documents of all terms, by rank, and where those of each end.
struct Inverted<P> {
    all: Vec<P>,
    ends: Vec<usize>,
}

impl<P: Posting> Inverted<P> {
    /// Calls `term` with the documents of each term; `over` are the frequencies above 255, by rank.
    fn each(&self, mut over: &[Over], term: &mut dyn FnMut(Written<'_>) -> io::Result<()>) -> io::Result<()> {
        let (mut docs, mut tfs) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (&end, rank) in self.ends.iter().zip(0..) {
            let postings = &self.all[start..end];
            docs.clear();
            docs.extend(postings.iter().map(|posting| posting.doc()));
            tfs.clear();
            tfs.extend(postings.iter().map(|posting| posting.tf()));
            let own;
            (own, over) = over.split_at(over.iter().take_while(|entry| entry.term == rank).count());
            term(Written { docs: &docs, tfs: &tfs, over: own })?;
            start = end;
        }
        Ok(())
    }
}

/// The first eight bytes, so that a smaller key is a smaller name.
fn key(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(8);
    bytes[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::prepare;
    use crate::text::{Analyzer, AnalyzerKind, Language};

    fn builder() -> SegmentBuilder {
        let analyzer = Analyzer::new(AnalyzerKind::Plain, Language::Off);
        let mut builder = SegmentBuilder::default();
        for text in ["b a b", "", "c b", &"a ".repeat(300)] {
            builder.push_fields(&analyzer, &[Field { text, weight_halves: 2 }]);
            builder.push(&prepare(&analyzer, &[Field { text, weight_halves: 6 }]));
        }
        builder
    }

    #[test]
    fn terms_of_a_document_have_their_exact_frequencies() {
        let builder = builder();
        let terms = |doc| builder.terms_of(doc).map(|(id, tf)| (id.0, tf)).collect::<Vec<_>>();
        assert_eq!((terms(0), terms(1)), (vec![(0, 8), (1, 4)], vec![(0, 24), (1, 12)]));
        assert_eq!((terms(3), terms(6), terms(7)), (vec![], vec![(1, 1_200)], vec![(1, 3_600)]));
        assert_eq!(terms(8), []);
    }

    #[test]
    fn postings_are_the_same_in_numbers_of_either_width() {
        fn listed<P: Posting>(builder: &SegmentBuilder) -> Vec<(Vec<u32>, Vec<u8>, Vec<u32>)> {
            let docs = 0..builder.num_docs();
            let over = builder.over_of(docs.clone(), &[0, 1, 2]);
            let postings = builder.postings::<P>(docs, (0..3).map(TermId), &[4, 4, 2]);
            let mut listed = Vec::new();
            let mut list = |Written { docs, tfs, over }: Written<'_>| {
                listed.push((docs.to_vec(), tfs.to_vec(), over.iter().map(|over| over.tf).collect()));
                Ok(())
            };
            postings.each(&over, &mut list).unwrap();
            listed
        }
        let builder = builder();
        let expected = [
            (vec![0, 1, 4, 5], vec![8, 24, 4, 12], vec![]),
            (vec![0, 1, 6, 7], vec![4, 12, 255, 255], vec![1_200, 3_600]),
            (vec![4, 5], vec![4, 12], vec![]),
        ];
        assert_eq!(listed::<u32>(&builder), expected);
        assert_eq!(listed::<u64>(&builder), expected);
    }
}
