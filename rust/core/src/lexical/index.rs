//! An exact inverted index in memory that takes one document at a time: segments, and a delta of the newest documents.
//!
//! A full delta becomes a segment. Segments of about one size are merged, so that a document is written a logarithmic
//! number of times and a search goes over few of them. Numbers of documents stay; a dead one is an empty place, until
//! the caller gives all documents new numbers.

use super::bm25::QUARTERS;
use super::delta::{CAPACITY, Delta};
use super::document::PreparedDoc;
use super::params::Bm25Params;
use super::search::{Part, Question, ScoredDoc, holding_all};
use super::segment::{DROPPED, Segment, SegmentBuilder, Source, merge};
use super::tombstones::Tombstones;
use crate::error::Result;
use crate::ids::DocId;
use crate::sections::{SectionWriter, Sections};
use crate::text::{Query, QueryTerm};
use fixedbitset::FixedBitSet;
use std::io::{self, Write};
use std::ops::Range;

/// As many segments of about one size become one. With fewer, documents are written more often; with more, a search
/// goes over more of them.
const FANOUT: usize = 4;

/// Every allowed live document that holds at least one term of the query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LexicalMatches {
    /// The documents, ascending.
    pub docs: Vec<DocId>,
    /// BM25 score of each, above 0.
    pub scores: Vec<f32>,
    /// Share of the query's idf x weight that each matched, 0..=1. Terms no document holds count in the whole.
    pub mass: Vec<f32>,
}

/// Postings, lengths and statistics of live documents.
///
/// Statistics (document frequencies, lengths) are integers corrected at each insertion and removal, and scores are
/// computed from them at search time: two indexes with the same live documents score alike to the last bit, whatever
/// their histories.
#[derive(Debug, Clone)]
pub struct LexicalIndex {
    params: Bm25Params,
    /// In the order of their numbers.
    segments: Vec<Held>,
    /// How many of them, from the first on, are the caller's to merge.
    kept: usize,
    delta: Delta,
    /// Number of the delta's first document.
    delta_base: u32,
    /// Sum of the lengths of the delta's live documents, in quarters.
    delta_len: u64,
    num_docs: u32,
    max_doc: u32,
    /// Sum of the lengths of live documents, in quarters.
    total_len: u64,
}

/// A segment of the index.
#[derive(Debug, Clone)]
struct Held {
    /// Number of its first document.
    base: u32,
    segment: Segment,
    /// Its empty places are among them.
    tombstones: Tombstones,
    /// Documents that were live when it was written.
    written: u32,
}

/// Documents that are to be added together: their segment, made before the index is locked.
#[derive(Debug)]
pub(crate) struct NewSegment {
    segment: Segment,
    places: FixedBitSet,
}

impl NewSegment {
    /// # Errors
    /// [`crate::Error::Internal`] when it cannot be built.
    pub(crate) fn build(builder: &SegmentBuilder) -> Result<Self> {
        let segment = in_memory(builder.size(), |out| builder.write(out, |_| true))?;
        Ok(Self { segment, places: builder.places().clone() })
    }

    /// Documents, empty places among them.
    pub(crate) fn num_docs(&self) -> u32 {
        self.segment.num_docs()
    }

    /// Places without a document.
    pub(crate) fn places(&self) -> &FixedBitSet {
        &self.places
    }
}

impl Held {
    fn num_docs(&self) -> u32 {
        self.segment.num_docs() - self.tombstones.count()
    }

    /// Segments of one level are of about one size.
    fn level(&self) -> u32 {
        (self.num_docs() / CAPACITY as u32).max(1).ilog(FANOUT as u32)
    }

    /// The numbers of its live documents.
    fn live(&self) -> impl Iterator<Item = u32> {
        self.tombstones.dead().zeroes().map(|doc| self.base + doc as u32)
    }
}

impl LexicalIndex {
    /// An empty index.
    pub fn new(params: Bm25Params) -> Self {
        Self {
            params,
            segments: Vec::new(),
            kept: 0,
            delta: Delta::default(),
            delta_base: 0,
            delta_len: 0,
            num_docs: 0,
            max_doc: 0,
            total_len: 0,
        }
    }

    /// An index of the documents of a segment, but for those that are empty places in it.
    pub(crate) fn of_segment(params: Bm25Params, segment: Segment, places: &FixedBitSet) -> Self {
        let mut index = Self::new(params);
        index.max_doc = segment.num_docs();
        index.hold(0, segment, places);
        index
    }

    /// An index of several segments, numbered one after the other, without the documents that are dead in each. They
    /// stay as they are: merging them is up to the caller.
    pub(crate) fn of_segments<'s>(
        params: Bm25Params,
        segments: impl Iterator<Item = (Segment, &'s FixedBitSet)>,
    ) -> Self {
        let mut index = Self::new(params);
        for (segment, dead) in segments {
            let base = index.max_doc;
            index.max_doc += segment.num_docs();
            index.hold(base, segment, dead);
        }
        index.kept = index.segments.len();
        index.delta_base = index.max_doc;
        index
    }

    /// A document as it was analysed; without terms when there is none.
    pub(crate) fn prepared(&self, doc: DocId) -> PreparedDoc {
        let mut terms = Vec::new();
        let found = self.parts().into_iter().find_map(|part| Some((part, part.local(doc.0)?)));
        if let Some((part, local)) = found {
            part.terms_of(local, |term, tf| terms.push((term, tf)));
        }
        PreparedDoc::of_terms(terms.into_iter())
    }

    /// Adds a document. Ids must rise from call to call; gaps are allowed, and a removed id is not used again.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when a segment cannot be built: the document is not there then.
    ///
    /// # Panics
    /// If `doc` is not larger than every id before it: that is a bug in the caller.
    pub fn insert(&mut self, doc: DocId, prepared: &PreparedDoc) -> Result<()> {
        assert!(doc.0 >= self.max_doc, "document {} inserted after {}", doc.0, self.max_doc);
        if self.delta.is_full() || (doc.0 - self.delta_base) as usize >= CAPACITY {
            self.flush()?;
        }
        if self.delta.num_docs() == 0 {
            self.delta_base = doc.0;
        }
        while self.delta_base + self.delta.num_docs() < doc.0 {
            self.delta.skip();
        }
        self.delta.push(prepared);
        self.delta_len += u64::from(prepared.len());
        self.total_len += u64::from(prepared.len());
        self.num_docs += 1;
        self.max_doc = doc.0 + 1;
        Ok(())
    }

    /// Adds the documents of a segment, numbered from `first` on.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when the delta before them cannot be made a segment: none of them is there then.
    pub(crate) fn insert_all(&mut self, first: DocId, new: NewSegment) -> Result<()> {
        assert!(first.0 >= self.max_doc, "documents from {} on inserted after {}", first.0, self.max_doc);
        self.flush()?;
        self.max_doc = first.0 + new.segment.num_docs();
        self.hold(first.0, new.segment, &new.places);
        self.tidy()
    }

    /// Takes a document out of every answer and statistic. False if it is not there.
    pub fn remove(&mut self, doc: DocId) -> bool {
        let at = self.segments.partition_point(|held| held.base <= doc.0).checked_sub(1);
        let in_segment =
            at.filter(|at| doc.0 - self.segments[*at].base < self.segments[*at].segment.num_docs());
        let Some(at) = in_segment else { return self.remove_newest(doc) };
        let held = &mut self.segments[at];
        let local = doc.0 - held.base;
        if !held.tombstones.bury(&held.segment, local) {
            return false;
        }
        self.num_docs -= 1;
        // A damaged segment may hold other lengths than their sum.
        self.total_len = self.total_len.saturating_sub(u64::from(held.segment.lens()[local as usize]));
        if at < self.kept {
            return true;
        }
        if held.num_docs() == 0 {
            self.segments.remove(at);
        } else if held.num_docs() * 2 < held.written {
            // What is kept of the dead is room alone: without it the answers are the same.
            let _ = self.merge(at..at + 1);
        }
        true
    }

    fn remove_newest(&mut self, doc: DocId) -> bool {
        let Some(local) = doc.0.checked_sub(self.delta_base) else { return false };
        if !self.delta.bury(local) {
            return false;
        }
        let len = u64::from(self.delta.docs().lens()[local as usize]);
        self.num_docs -= 1;
        self.total_len = self.total_len.saturating_sub(len);
        self.delta_len -= len;
        true
    }

    /// Whether a document is there and not removed.
    pub fn contains(&self, doc: DocId) -> bool {
        self.parts().iter().any(|part| part.contains(doc))
    }

    /// Live documents.
    pub fn num_docs(&self) -> u32 {
        self.num_docs
    }

    /// One more than the largest id ever inserted.
    pub fn max_doc(&self) -> u32 {
        self.max_doc
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
        let term = QueryTerm { term: term.to_owned(), surface: String::new(), weight: 1.0 };
        self.question(&Query { terms: vec![term], ..Query::default() }).doc_freq(0)
    }

    /// The parameters scores are computed with.
    pub fn params(&self) -> Bm25Params {
        self.params
    }

    /// Sum of the lengths of live documents, in quarters.
    pub(super) fn total_len(&self) -> u64 {
        self.total_len
    }

    /// A question to the documents that are there now.
    pub fn question<'q>(&self, query: &'q Query) -> Question<'_, 'q> {
        self.question_among(query, None)
    }

    /// The same, in which words stand only for others that documents in `allowed` hold.
    pub fn question_among<'q>(&self, query: &'q Query, allowed: Option<&FixedBitSet>) -> Question<'_, 'q> {
        Question::new(self.parts(), self.params, query, allowed)
    }

    /// All live documents in `allowed` (indexed by document number; `None` allows all) with a term of the query.
    pub fn search(&self, query: &Query, allowed: Option<&FixedBitSet>) -> LexicalMatches {
        let question = self.question_among(query, allowed);
        let mut found = question.top(usize::MAX, allowed);
        found.sort_unstable_by_key(|found| found.doc);
        LexicalMatches {
            docs: found.iter().map(|found| found.doc).collect(),
            scores: found.iter().map(|found| found.score).collect(),
            mass: found.iter().map(|found| question.mass(found.doc)).collect(),
        }
    }

    /// The best `k` of them, and every one that is tied with the last of those. In no order.
    pub fn top(&self, query: &Query, k: usize, allowed: Option<&FixedBitSet>) -> Vec<ScoredDoc> {
        self.question_among(query, allowed).top(k, allowed)
    }

    /// The documents in `allowed` that hold all of these terms; None when there is no term.
    pub(crate) fn holding_all(&self, terms: &[String], allowed: &FixedBitSet) -> Option<FixedBitSet> {
        holding_all(&self.parts(), terms, allowed)
    }

    /// The parts that a search goes over.
    pub(super) fn parts(&self) -> Vec<Part<'_>> {
        let mut parts = Vec::with_capacity(self.segments.len() + 1);
        parts.extend(
            self.segments.iter().map(|held| Part::segment(held.base, &held.segment, &held.tombstones)),
        );
        if self.delta.num_docs() > 0 {
            parts.push(Part::delta(self.delta_base, &self.delta, self.delta_len));
        }
        parts
    }

    /// Makes the delta a segment.
    fn flush(&mut self) -> Result<()> {
        if self.delta.num_docs() == 0 {
            return Ok(());
        }
        if self.delta.num_docs() > self.delta.num_dead() {
            let dead = self.delta.dead();
            let docs = self.delta.docs();
            let segment = in_memory(docs.size(), |out| docs.write(out, |doc| !dead.contains(doc as usize)))?;
            let (delta, base) = (std::mem::take(&mut self.delta), self.delta_base);
            self.num_docs -= delta.num_docs() - delta.num_dead();
            self.total_len = self.total_len.saturating_sub(self.delta_len);
            self.hold(base, segment, delta.dead());
        }
        self.delta = Delta::default();
        self.delta_base = self.max_doc;
        self.delta_len = 0;
        self.tidy()
    }

    /// Appends a segment with these empty places, and counts its documents.
    fn hold(&mut self, base: u32, segment: Segment, places: &FixedBitSet) {
        let tombstones = Tombstones::of(&segment, places);
        let written = segment.num_docs() - tombstones.count();
        self.num_docs += written;
        let total_len = segment.total_len().saturating_sub(tombstones.total_len());
        self.total_len = self.total_len.saturating_add(total_len);
        self.delta_base = self.delta_base.max(base + segment.num_docs());
        if written > 0 {
            self.segments.push(Held { base, segment, tombstones, written });
        }
    }

    /// Merges the last segments while there are too many of one size.
    fn tidy(&mut self) -> Result<()> {
        while let Some(last) = self.segments[self.kept..].last() {
            let level = last.level();
            let own = &self.segments[self.kept..];
            let count = own.iter().rev().take_while(|held| held.level() <= level).count();
            if count < FANOUT {
                break;
            }
            self.merge(self.segments.len() - count..self.segments.len())?;
        }
        Ok(())
    }

    /// Makes one segment of these, without the dead.
    fn merge(&mut self, range: Range<usize>) -> Result<()> {
        let merged = &self.segments[range.clone()];
        let first = merged.iter().find_map(|held| held.live().next());
        let last = merged.iter().rev().find_map(|held| held.live().last());
        let (Some(base), Some(last)) = (first, last) else { return Ok(()) };
        let span = last - base + 1;
        let mut places = FixedBitSet::with_capacity(span as usize);
        places.insert_range(..);
        let numbers: Vec<Vec<u32>> = merged
            .iter()
            .map(|held| {
                let mut numbers = vec![DROPPED; held.segment.num_docs() as usize];
                for doc in held.live() {
                    numbers[(doc - held.base) as usize] = doc - base;
                    places.remove((doc - base) as usize);
                }
                numbers
            })
            .collect();
        let sources =
            merged.iter().zip(&numbers).map(|(held, numbers)| Source { segment: &held.segment, numbers });
        let sources: Vec<Source<'_>> = sources.collect();
        let size = sources.iter().map(|source| source.segment.size()).sum();
        let segment = in_memory(size, |out| merge(out, &sources, span))?;
        let tombstones = Tombstones::of(&segment, &places);
        let written = segment.num_docs() - tombstones.count();
        self.segments.splice(range, [Held { base, segment, tombstones, written }]);
        Ok(())
    }

    /// Writes one segment of all live documents, each under the number that `numbers` has for its own.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write<W: Write>(
        &self,
        out: &mut SectionWriter<W>,
        numbers: &[u32],
        num_docs: u32,
    ) -> Result<io::Result<()>> {
        let newest = self.delta.docs();
        let newest = in_memory(newest.size(), |out| newest.write(out, |_| true))?;
        let newest_dead = self.delta.dead();
        let held = self.segments.iter().map(|held| (held.base, &held.segment, held.tombstones.dead()));
        let all: Vec<_> = held.chain([(self.delta_base, &newest, newest_dead)]).collect();
        let numbers: Vec<Vec<u32>> = all
            .iter()
            .map(|(base, segment, dead)| {
                let number = |doc: u32| {
                    let known = numbers.get((base + doc) as usize).copied();
                    known.filter(|_| !dead.contains(doc as usize)).unwrap_or(DROPPED)
                };
                (0..segment.num_docs()).map(number).collect()
            })
            .collect();
        let sources: Vec<Source<'_>> =
            all.iter().zip(&numbers).map(|((_, segment, _), numbers)| Source { segment, numbers }).collect();
        Ok(merge(out, &sources, num_docs))
    }

    /// Gives all live documents new numbers, below `num_docs`, and makes them one segment.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when it cannot be built; then nothing has changed.
    pub(crate) fn renumber(&mut self, numbers: &[u32], num_docs: u32) -> Result<()> {
        let mut written = Ok(Ok(()));
        let size =
            self.segments.iter().map(|held| held.segment.size()).sum::<usize>() + self.delta.docs().size();
        let sections = Sections::in_memory_of(size, |out| {
            written = self.write(out, numbers, num_docs);
            Ok(())
        })?;
        written?.map_err(|error| unwritten(&error))?;
        let mut places = FixedBitSet::with_capacity(num_docs as usize);
        places.insert_range(..);
        for (number, doc) in numbers.iter().zip(0..) {
            if *number < num_docs && self.contains(DocId(doc)) {
                places.remove(*number as usize);
            }
        }
        *self = Self::of_segment(self.params, Segment::open(&sections)?, &places);
        Ok(())
    }
}

/// A segment of about `bytes` bytes.
fn in_memory(
    bytes: usize,
    write: impl FnOnce(&mut SectionWriter<&mut crate::sections::Image>) -> io::Result<()>,
) -> Result<Segment> {
    Segment::open(&Sections::in_memory_of(bytes, write)?)
}

fn unwritten(error: &io::Error) -> crate::Error {
    crate::Error::Internal(format!("an index in memory: {error}"))
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
        index.insert(DocId(3), &doc("red fox")).unwrap();
        index.insert(DocId(9), &doc("red red cat")).unwrap();
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
        index.insert(DocId(1), &doc("a")).unwrap();
        index.insert(DocId(1), &doc("b")).unwrap();
    }

    #[test]
    fn segments_stay_few_and_what_is_removed_takes_no_room() {
        let mut index = LexicalIndex::new(Bm25Params::default());
        let size = 40 * CAPACITY as u32;
        for id in 0..size {
            index.insert(DocId(id), &doc(&format!("common word{id} other{}", id % 7))).unwrap();
        }
        assert!(index.segments.len() <= 9, "{}", index.segments.len());
        for id in 0..size - 100 {
            assert!(index.remove(DocId(id)));
        }
        assert!(index.segments.len() <= 4);
        let postings: usize = index.segments.iter().map(|held| held.segment.num_postings()).sum();
        assert!(postings < 4_000, "{postings}");
        assert_eq!(index.doc_freq("common"), 100);
        assert_eq!(index.doc_freq(&format!("word{}", size - 7)), 1);
        assert_eq!(index.doc_freq("word50"), 0);
        index.insert(DocId(size + 10_000_000), &doc("common")).unwrap();
        assert!(index.remove(DocId(size - 1)));
        assert_eq!((index.doc_freq("common"), index.num_docs()), (100, 100));
        let places: usize = index.segments.iter().map(|held| held.segment.num_docs() as usize).sum();
        assert!(places <= 4 * CAPACITY, "a gap takes no room: {places}");
    }
}
