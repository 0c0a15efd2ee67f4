//! A lexical segment: postings, lengths and forward lists of documents that never change, over a file of sections.
//!
//! Documents and terms are numbered from 0; the number of a term is its rank in the sorted dictionary.
//!
//! | section | what |
//! |---|---|
//! | `lex.head` | `u64`: layout, documents, terms, sum of all lengths, bytes from one dense row to the next |
//! | `lex.lens` | `u32` by document: length in quarters |
//! | `lex.text`, `lex.ends`, `lex.slot` | the dictionary, see [`Names`] |
//! | `lex.post` | `u64` by term, and the end: where its postings begin in the two next; empty for a term with a row |
//! | `lex.docs` | `u32` by posting: document, ascending within a term |
//! | `lex.tfs` | `u8` by posting: weighted frequency in quarters, 255 for that and all above |
//! | `lex.freq` | [`Frequent`] for each term in [`FREQUENT`] documents or more, by term |
//! | `lex.rows` | `u8`: dense rows: the frequency in every document, then zeros up to a multiple of 64 |
//! | `lex.over` | [`Over`]: frequencies above 255, by term and document |
//! | `lex.fwds` | `u64` by document, and the end: where its forward list begins in the next |
//! | `lex.fwd` | `u8`: terms of a document and their frequencies, see [`forward`] |
//!
//! Opening checks sizes, and the checksums of head, dictionary and offsets. What else is read from the arrays is
//! checked against what it points into when it is used: damage gives wrong answers until somebody compares the
//! checksums of the bodies, never a panic.

mod build;
mod forward;
mod merge;
mod names;
mod postings;
mod ranks;
mod words;

pub(crate) use build::SegmentBuilder;
pub(crate) use merge::{DROPPED, Source, merge};
pub(crate) use names::Names;
pub(crate) use postings::{Bounds, Over, Postings};

use crate::error::{Error, Result};
use crate::sections::{Numbers, SectionName, Sections};
use postings::Frequent;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const HEAD: SectionName = SectionName::new("lex.head");
const LENS: SectionName = SectionName::new("lex.lens");
const DICTIONARY: [SectionName; 3] =
    [SectionName::new("lex.text"), SectionName::new("lex.ends"), SectionName::new("lex.slot")];
const POST: SectionName = SectionName::new("lex.post");
const DOCS: SectionName = SectionName::new("lex.docs");
const TFS: SectionName = SectionName::new("lex.tfs");
const FREQUENTS: SectionName = SectionName::new("lex.freq");
const ROWS: SectionName = SectionName::new("lex.rows");
const OVER: SectionName = SectionName::new("lex.over");
const FORWARD_ENDS: SectionName = SectionName::new("lex.fwds");
const FORWARD: SectionName = SectionName::new("lex.fwd");

/// Layout of the arrays.
const LAYOUT: u64 = 1;

/// A term in so many documents has bounds, which let a search skip it.
const FREQUENT: usize = 128;
/// A frequent term in more than one of so many documents has a dense row: a posting takes five bytes, a document of a
/// row one, and rows are scored without scatter.
const DENSE_SHARE: usize = 20;
/// Rows begin at a multiple of it: a line of the cache, the widest register.
const ROW_ALIGN: usize = 64;

/// An open segment. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    num_docs: u32,
    total_len: u64,
    stride: usize,
    lens: Numbers<u32>,
    names: Names,
    post: Numbers<u64>,
    docs: Numbers<u32>,
    tfs: Numbers<u8>,
    frequents: Numbers<Frequent>,
    rows: Numbers<u8>,
    over: Numbers<Over>,
    forward_ends: Numbers<u64>,
    forward: Numbers<u8>,
    /// So many look-ups of terms are still to have their postings fetched ahead: those of the first questions to a file.
    cold: Arc<AtomicUsize>,
}

/// See [`Segment::cold`]: some ten questions.
const COLD: usize = 64;

impl Segment {
    /// The segment in a file of sections.
    ///
    /// # Errors
    /// [`Error::StoreCorrupt`] when sizes, head, dictionary or offsets are not what was written, [`Error::FormatTooNew`].
    pub(crate) fn open(sections: &Sections) -> Result<Self> {
        let checked = [HEAD, POST, FREQUENTS].into_iter().chain(DICTIONARY);
        sections.will_need(checked.clone().chain([LENS, OVER]));
        for name in checked {
            sections.check(name)?;
        }
        let head = sections.array::<u64>(HEAD)?;
        let &[layout, num_docs, num_terms, total_len, stride, ..] = &head[..] else {
            return Err(sections.corrupt("the head of its words"));
        };
        if layout > LAYOUT {
            let what = format!("words of {}", sections.path().display());
            return Err(Error::FormatTooNew { what, found: layout, supported: LAYOUT });
        }
        let segment = Self {
            num_docs: u32::try_from(num_docs).unwrap_or(u32::MAX),
            total_len,
            stride: usize::try_from(stride).unwrap_or(usize::MAX),
            lens: sections.array(LENS)?,
            names: Names::open(sections, DICTIONARY)?,
            post: sections.array(POST)?,
            docs: sections.array(DOCS)?,
            tfs: sections.array(TFS)?,
            frequents: sections.array(FREQUENTS)?,
            rows: sections.array(ROWS)?,
            over: sections.array(OVER)?,
            forward_ends: sections.array(FORWARD_ENDS)?,
            forward: sections.array(FORWARD)?,
            cold: Arc::new(AtomicUsize::new(if sections.is_mapped() { COLD } else { 0 })),
        };
        let docs = segment.lens.len();
        let fits = docs as u64 == num_docs
            && docs < u32::MAX as usize
            && segment.names.len() as u64 == num_terms
            && segment.post.len() == segment.names.len() + 1
            && segment.tfs.len() == segment.docs.len()
            && segment.stride == docs.next_multiple_of(ROW_ALIGN)
            && segment.forward_ends.len() == docs + 1;
        if fits { Ok(segment) } else { Err(sections.corrupt("its words do not fit their head")) }
    }

    /// Documents, with those that were empty places when it was written.
    pub(crate) fn num_docs(&self) -> u32 {
        self.num_docs
    }

    /// Sum of all lengths, in quarters.
    pub(crate) fn total_len(&self) -> u64 {
        self.total_len
    }

    /// Lengths by document, in quarters.
    pub(crate) fn lens(&self) -> &[u32] {
        &self.lens
    }

    /// The dictionary.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Bytes of its arrays, but for those that are small.
    pub(crate) fn size(&self) -> usize {
        let postings = size_of_val(&*self.docs) + self.tfs.len() + self.rows.len() + self.forward.len();
        postings + self.names.size() + size_of_val(&*self.post) + 12 * self.lens.len()
    }

    /// How many postings it holds, those of dense rows left out.
    #[cfg(test)]
    pub(crate) fn num_postings(&self) -> usize {
        self.docs.len()
    }

    /// The documents of a term.
    pub(crate) fn postings(&self, term: u32) -> Postings<'_> {
        let at = term as usize;
        let range = match (self.post.get(at), self.post.get(at + 1)) {
            (Some(&start), Some(&end)) => start as usize..end as usize,
            _ => 0..0,
        };
        let cold = self.cold.load(Ordering::Relaxed);
        if cold > 0 {
            self.cold.store(cold - 1, Ordering::Relaxed);
            self.docs.will_need(range.clone());
            self.tfs.will_need(range.clone());
        }
        let docs = self.docs.get(range.clone()).unwrap_or_default();
        let tfs = self.tfs.get(range).unwrap_or_default();
        let mut postings =
            Postings { docs, tfs, row: None, doc_freq: docs.len() as u32, bounds: None, over: &[] };
        // A term with an empty range has a row; any other that is not frequent has no entry to look for.
        if docs.is_empty() || docs.len() >= FREQUENT {
            let frequents = &self.frequents[..];
            if let Ok(at) = frequents.binary_search_by_key(&term, |frequent| frequent.term) {
                let frequent = &frequents[at];
                postings.bounds = Some(&frequent.bounds);
                if cold > 0 && docs.is_empty() {
                    self.rows.will_need(self.row_range(frequent.row));
                }
                let row = self.rows.get(self.row_range(frequent.row)).filter(|_| docs.is_empty());
                if let Some(row) = row {
                    postings.row = Some(&row[..self.lens.len()]);
                    postings.doc_freq = frequent.doc_freq;
                }
            }
        }
        if !self.over.is_empty() {
            let over = &self.over[..];
            let start = over.partition_point(|entry| entry.term < term);
            let count = over[start..].partition_point(|entry| entry.term == term);
            postings.over = &over[start..start + count];
        }
        postings
    }

    fn row_range(&self, row: u32) -> Range<usize> {
        let start = self.stride.saturating_mul(row as usize);
        start..start.saturating_add(self.stride)
    }

    /// Calls `each` with every term of a document, ascending, and its frequency in quarters.
    pub(crate) fn terms_of(&self, doc: u32, mut each: impl FnMut(u32, u32)) {
        let at = doc as usize;
        let (Some(&start), Some(&end)) = (self.forward_ends.get(at), self.forward_ends.get(at + 1)) else {
            return;
        };
        let list = self.forward.get(start as usize..end as usize).unwrap_or_default();
        let num_terms = self.names.len() as u32;
        forward::decode(list, |term, tf| {
            if term < num_terms {
                each(term, tf);
            }
        });
    }
}

#[cfg(test)]
mod tests;
