//! The documents of a term: as they are read, and as they are written, term by term.

use super::{
    DENSE_SHARE, DOCS, FORWARD, FORWARD_ENDS, FREQUENT, FREQUENTS, HEAD, LAYOUT, LENS, OVER, POST, ROW_ALIGN,
    ROWS, TFS,
};
use crate::sections::SectionWriter;
use bytemuck::{AnyBitPattern, NoUninit};
use std::io::{self, Write};

/// The documents of a term in one part of an index.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Postings<'a> {
    /// Documents, ascending; empty when there is a row.
    pub(crate) docs: &'a [u32],
    /// Frequency in each, in quarters, 255 for that and all above.
    pub(crate) tfs: &'a [u8],
    /// The same by document, in place of the two.
    pub(crate) row: Option<&'a [u8]>,
    /// Frequencies above 255, by document.
    pub(crate) over: &'a [Over],
    /// How many documents, tombstones included.
    pub(crate) doc_freq: u32,
    /// What no document of the term exceeds; None is not known.
    pub(crate) bounds: Option<&'a Bounds>,
}

impl Postings<'_> {
    /// Frequency in a document, in quarters; 0 when it does not hold the term.
    pub(crate) fn tf(&self, doc: u32) -> u32 {
        let tf = if let Some(row) = self.row {
            row.get(doc as usize)
        } else {
            self.docs.binary_search(&doc).ok().and_then(|at| self.tfs.get(at))
        };
        tf.map_or(0, |tf| self.exact(*tf, doc))
    }

    /// The frequency that a byte stands for.
    #[inline]
    pub(crate) fn exact(&self, tf: u8, doc: u32) -> u32 {
        if tf == u8::MAX { self.above(doc) } else { u32::from(tf) }
    }

    #[cold]
    fn above(&self, doc: u32) -> u32 {
        let found = self.over.binary_search_by_key(&doc, |entry| entry.doc).ok();
        found.map_or(u32::from(u8::MAX), |at| self.over[at].tf)
    }

    /// Whether one of the documents is as `wanted`.
    pub(crate) fn any(&self, mut wanted: impl FnMut(u32) -> bool) -> bool {
        match self.row {
            Some(row) => (0..).zip(row).any(|(doc, tf)| *tf > 0 && wanted(doc)),
            None => self.docs.iter().any(|doc| wanted(*doc)),
        }
    }

    /// Calls `each` with every document and its frequency, ascending.
    pub(crate) fn each(&self, mut each: impl FnMut(u32, u32)) {
        match self.row {
            Some(row) => {
                for (doc, &tf) in (0..).zip(row) {
                    if tf > 0 {
                        each(doc, self.exact(tf, doc));
                    }
                }
            }
            None => self.docs.iter().zip(self.tfs).for_each(|(&doc, &tf)| each(doc, self.exact(tf, doc))),
        }
    }
}

/// A frequency that a byte cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(crate) struct Over {
    pub(crate) term: u32,
    pub(crate) doc: u32,
    /// In quarters.
    pub(crate) tf: u32,
}

/// Pairs of a frequency and a length, in quarters: each document of the term has, compared with one of them, at most
/// its frequency and at least its length. So the best pair is worth as much as any document, whatever the average
/// length and the constants of BM25. A pair of frequency 0 stands for nothing.
#[derive(Debug, Clone, Copy, PartialEq, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(crate) struct Bounds(pub(crate) [[u32; 2]; 8]);

impl Bounds {
    pub(crate) const NONE: Self = Self([[0, u32::MAX]; 8]);

    /// Widens the pair that the frequency falls under.
    #[inline]
    pub(crate) fn cover(&mut self, tf: u32, len: u32) {
        // By words: one, two, three, four, up to six, ten, twenty, more.
        let class = match tf {
            0..=4 => 0,
            5..=8 => 1,
            9..=12 => 2,
            13..=16 => 3,
            17..=24 => 4,
            25..=40 => 5,
            41..=80 => 6,
            _ => 7,
        };
        let [most, least] = &mut self.0[class];
        *most = tf.max(*most);
        *least = len.min(*least);
    }
}

/// What is known of a term in many documents.
#[derive(Debug, Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C)]
pub(super) struct Frequent {
    pub(super) term: u32,
    pub(super) doc_freq: u32,
    /// Number of its dense row; `u32::MAX` when it has none.
    pub(super) row: u32,
    pub(super) bounds: Bounds,
}

/// The documents of a term, which are to be written: ascending, with their frequencies as [`byte`] gives them; those that
/// a byte cannot hold are in `over` as well, whatever term that names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written<'p> {
    pub(super) docs: &'p [u32],
    pub(super) tfs: &'p [u8],
    pub(super) over: &'p [Over],
}

/// Postings on their way into a file, in the order of their terms. Documents go out as they come; what takes a byte each
/// is kept until the end.
pub(super) struct PostingsWriter<'l> {
    lens: &'l [u32],
    ends: Vec<u64>,
    tfs: Vec<u8>,
    frequents: Vec<Frequent>,
    rows: Vec<u8>,
    over: Vec<Over>,
}

impl<'l> PostingsWriter<'l> {
    /// For documents of these lengths.
    pub(super) fn new(lens: &'l [u32]) -> Self {
        Self {
            lens,
            ends: vec![0],
            tfs: Vec::new(),
            frequents: Vec::new(),
            rows: Vec::new(),
            over: Vec::new(),
        }
    }

    /// Writes the lengths and the documents of all terms: `each` calls its argument with the postings of one term after
    /// the other, none of them without any.
    pub(super) fn terms<W: Write>(
        &mut self,
        out: &mut SectionWriter<W>,
        each: impl FnOnce(&mut dyn FnMut(Written<'_>) -> io::Result<()>) -> io::Result<()>,
    ) -> io::Result<()> {
        out.section(LENS, self.lens)?;
        out.pieces(DOCS, |out| {
            each(&mut |postings| if self.term(&postings) { Ok(()) } else { out.put(postings.docs) })
        })
    }

    /// Keeps what takes a byte each; true when there is a row, in place of documents.
    fn term(&mut self, postings: &Written<'_>) -> bool {
        let &Written { docs, tfs, over } = postings;
        let term = (self.ends.len() - 1) as u32;
        let dense = docs.len() >= FREQUENT && docs.len() * DENSE_SHARE > self.lens.len();
        if docs.len() >= FREQUENT {
            let mut bounds = Bounds::NONE;
            for (&doc, &tf) in docs.iter().zip(tfs) {
                bounds.cover(u32::from(tf), self.lens[doc as usize]);
            }
            for entry in over {
                bounds.cover(entry.tf, self.lens[entry.doc as usize]);
            }
            let row = if dense { (self.rows.len() / self.stride().max(1)) as u32 } else { u32::MAX };
            self.frequents.push(Frequent { term, doc_freq: docs.len() as u32, row, bounds });
        }
        if dense {
            let start = self.rows.len();
            self.rows.resize(start + self.stride(), 0);
            let row = &mut self.rows[start..];
            docs.iter().zip(tfs).for_each(|(doc, tf)| row[*doc as usize] = *tf);
        } else {
            self.tfs.extend_from_slice(tfs);
        }
        self.over.extend(over.iter().map(|entry| Over { term, ..*entry }));
        self.ends.push(self.tfs.len() as u64);
        dense
    }

    /// Writes all that is left but the dictionary: `forward` appends the list of a document.
    pub(super) fn finish<W: Write>(
        self,
        out: &mut SectionWriter<W>,
        mut forward: impl FnMut(u32, &mut Vec<u8>),
    ) -> io::Result<()> {
        out.section(TFS, &self.tfs)?;
        out.section(POST, &self.ends)?;
        out.section(FREQUENTS, &self.frequents)?;
        out.section(ROWS, &self.rows)?;
        out.section(OVER, &self.over)?;
        let mut ends = vec![0_u64];
        let mut list = Vec::new();
        out.pieces(FORWARD, |out| {
            for doc in 0..self.lens.len() as u32 {
                list.clear();
                forward(doc, &mut list);
                ends.push(ends.last().copied().unwrap_or(0) + list.len() as u64);
                out.put(&list)?;
            }
            Ok(())
        })?;
        out.section(FORWARD_ENDS, &ends)?;
        let total_len = self.lens.iter().map(|len| u64::from(*len)).sum::<u64>();
        let (docs, terms) = (self.lens.len() as u64, self.ends.len() as u64 - 1);
        out.section(HEAD, &[LAYOUT, docs, terms, total_len, self.stride() as u64])
    }

    fn stride(&self) -> usize {
        self.lens.len().next_multiple_of(ROW_ALIGN)
    }
}

/// As a frequency is kept: 255 for that and all above.
pub(super) fn byte(tf: u32) -> u8 {
    u8::try_from(tf).unwrap_or(u8::MAX)
}
