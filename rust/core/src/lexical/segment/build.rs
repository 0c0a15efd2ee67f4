//! A segment from documents.

use super::postings::{Over, PostingsWriter, Written, byte};
use super::{DICTIONARY, Names, forward};
use crate::ids::TermId;
use crate::lexical::document::{Field, PreparedDoc};
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
    memo: WordMemo,
    interned: Vec<TermId>,
    /// The other terms of a field as they come, and what each counts.
    listed: TermTable,
    counts: Vec<u32>,
}

/// The terms of lone words, so that a word is stemmed once, and costs one look-up where it would cost one a term.
#[derive(Debug, Clone, Default)]
struct WordMemo {
    words: TermTable,
    /// By word: its terms, each with its weight in halves; the second weighs 0 when there is one alone.
    terms: Vec<[(TermId, u32); 2]>,
    /// Kept from field to field: places of words, and their numbers.
    places: Vec<Range<usize>>,
    found: Vec<TermId>,
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
        let start = self.forward.len();
        let mut len = 0;
        for field in fields.iter().filter(|field| field.weight_halves > 0) {
            len = self.add_field(*analyzer, field, start, len);
        }
        self.end(len);
    }

    /// Adds a field of the document whose terms begin at `start`; gives its length, which was `len`.
    fn add_field(&mut self, analyzer: Analyzer, field: &Field<'_>, start: usize, mut len: u32) -> u32 {
        let weight = u32::from(field.weight_halves);
        let mut memo = std::mem::take(&mut self.memo);
        self.listed.clear();
        self.counts.clear();
        memo.found.clear();
        let (listed, counts) = (&mut self.listed, &mut self.counts);
        let list = |term: &[u8], hash, halves| {
            listed.list(term, hash);
            counts.push(weight * u32::from(halves));
        };
        let WordMemo { words, terms, places, found } = &mut memo;
        let table = &mut self.terms;
        analyzer.each_term_around(field.text, places, list, |text, places| {
            words.intern_words(text, places, found);
            for (id, place) in found.iter().zip(places) {
                // Numbers are given in the order of the words, so that a new one is the next.
                if id.index() == terms.len() {
                    terms.push(terms_of_word(analyzer, &text[place.clone()], table));
                }
            }
        });
        let mark = self.lens.len() as u32 + 1;
        self.interned.clear();
        self.terms.intern_all(&self.listed, &mut self.interned);
        self.last.resize(self.terms.len(), (0, 0));
        let (last, forward) = (&mut self.last, &mut self.forward);
        let mut add = |id: TermId, quarters: u32| {
            let last = &mut last[id.index()];
            if last.0 == mark {
                let tf = &mut forward[start + last.1 as usize].1;
                *tf = tf.saturating_add(quarters);
            } else {
                *last = (mark, (forward.len() - start) as u32);
                forward.push((id, quarters));
            }
            len = len.saturating_add(quarters);
        };
        for word in &memo.found {
            let [(first, halves), (second, more)] = memo.terms[word.index()];
            add(first, weight * halves);
            if more > 0 {
                add(second, weight * more);
            }
        }
        for (&id, &quarters) in self.interned.iter().zip(&self.counts) {
            add(id, quarters);
        }
        self.memo = memo;
        len
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
        let (mut docs, mut tfs) = (vec![0_u32; total], vec![0_u8; total]);
        let mut over = Vec::new();
        for doc in (0..self.num_docs()).filter(|doc| kept(*doc)) {
            for &(id, tf) in self.terms_of(doc) {
                let place = &mut places[id.index()];
                docs[*place] = doc;
                tfs[*place] = byte(tf);
                *place += 1;
                if tf > u32::from(u8::MAX) {
                    over.push(Over { term: ranks[id.index()], doc, tf });
                }
            }
        }
        over.sort_unstable_by_key(|entry| (entry.term, entry.doc));
        let mut writer = PostingsWriter::new(&lens);
        writer.terms(out, |term| {
            let (mut start, mut over) = (0, &over[..]);
            for (&end, rank) in ends.iter().zip(0..) {
                let own;
                (own, over) = over.split_at(over.iter().take_while(|entry| entry.term == rank).count());
                term(Written { docs: &docs[start..end], tfs: &tfs[start..end], over: own })?;
                start = end;
            }
            Ok(())
        })?;
        drop((docs, tfs));
        // Term and frequency as one number: sorted in half the time of a pair.
        let mut sorted: Vec<u64> = Vec::new();
        writer.finish(out, |doc, list| {
            if kept(doc) {
                let terms = self.terms_of(doc).iter();
                sorted.clear();
                sorted.extend(terms.map(|&(id, tf)| u64::from(ranks[id.index()]) << 32 | u64::from(tf)));
                sorted.sort_unstable();
                forward::encode(sorted.iter().map(|term| ((term >> 32) as u32, *term as u32)), list);
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

/// The terms of a lone word: one, or its stem and its surface form.
fn terms_of_word(analyzer: Analyzer, word: &str, table: &mut TermTable) -> [(TermId, u32); 2] {
    let mut terms = [(TermId(0), 0); 2];
    let mut count = 0;
    analyzer.word_terms(word, |term, hash, halves| {
        debug_assert!(count < 2, "a third term of {word:?}");
        if let Some(place) = terms.get_mut(count) {
            *place = (table.intern(term, hash), u32::from(halves));
            count += 1;
        }
    });
    terms
}

/// The first eight bytes, so that a smaller key is a smaller name.
fn key(name: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(8);
    bytes[..len].copy_from_slice(&name[..len]);
    u64::from_be_bytes(bytes)
}
