//! Rows of a segment of the index: written once, mapped into memory.
//!
//! | section | what |
//! |---|---|
//! | `vec.head` | `u64`: width, number of documents with rows |
//! | `vec.docs` | `u32`: document of each row; those of a document together, documents ascending |
//! | `vec.code` | `u8`: 128 + code by component, each row at a multiple of 64, 128 behind its last one |
//! | `vec.scal` | `f32`: by row, the width of its step over its length; then, by row, its length |
//! | `vec.half` | `u16`: IEEE 754 binary16, the unit rows, rounded |
//! | `vec.sum` | `i64`: by component, the sum of each document's first row in units of 2^-40 |
//!
//! Codes are what the question is compared with first, halves what is scored: see [`super::codes`], [`super::half`].

use super::codes::CodeRows;
use super::graph::Graph;
use super::half::{HalfRow, from_half};
use super::row::MAX_DIM;
use super::rows::{RowsView, StoredRow};
use crate::error::Result;
use crate::ids::DocId;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use std::io::{self, Write};
use std::ops::Range;

const HEAD: SectionName = SectionName::new("vec.head");
const DOCS: SectionName = SectionName::new("vec.docs");
const CODES: SectionName = SectionName::new("vec.code");
const SCALES: SectionName = SectionName::new("vec.scal");
const HALVES: SectionName = SectionName::new("vec.half");
const SUM: SectionName = SectionName::new("vec.sum");

/// One, in the fixed point numbers of the sum: 2^40. A million rows leave 2^3 of room in 64 bits.
pub(super) const UNIT: f64 = (1_u64 << 40) as f64;

/// Adds a row to the sum of all, `sign` times: whole numbers, as halves are multiples of 2^-24.
pub(super) fn add_to_sum(sum: &mut [i64], row: HalfRow<'_>, sign: i64) {
    for (sum, half) in sum.iter_mut().zip(row.bits) {
        let fixed = (f64::from(from_half(*half)) * UNIT) as i64;
        *sum = sum.wrapping_add(fixed.wrapping_mul(sign));
    }
}

/// The rows of a segment.
#[derive(Debug, Clone)]
pub(crate) struct VectorSegment {
    dim: usize,
    num_docs: usize,
    /// Each document has one row, that of its number: nothing has to be looked up.
    is_plain: bool,
    docs: Numbers<u32>,
    codes: Numbers<u8>,
    /// Scales of all rows, then their lengths.
    scales: Numbers<f32>,
    halves: Numbers<u16>,
    sum: Numbers<i64>,
    /// To find near rows without comparing all.
    graph: Option<Graph>,
}

impl VectorSegment {
    /// The rows in a file; None when it has none.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when the sizes do not fit each other.
    pub(crate) fn open(sections: &Sections) -> Result<Option<Self>> {
        if !sections.has(HEAD) {
            return Ok(None);
        }
        let head = sections.array::<u64>(HEAD)?;
        let &[dim, num_docs] = &head[..] else { return Err(sections.corrupt("the head of its vectors")) };
        let dim = usize::try_from(dim).unwrap_or(usize::MAX);
        let docs: Numbers<u32> = sections.array(DOCS)?;
        let num_docs = usize::try_from(num_docs).unwrap_or(usize::MAX);
        // As documents rise; in a damaged file rows count for other documents then, no more.
        let is_plain =
            num_docs == docs.len() && docs.last().is_some_and(|last| *last as usize == num_docs - 1);
        let segment = Self {
            dim,
            num_docs,
            is_plain,
            docs,
            codes: sections.array(CODES)?,
            scales: sections.array(SCALES)?,
            halves: sections.array(HALVES)?,
            sum: sections.array(SUM)?,
            graph: None,
        };
        let fits = (1..=MAX_DIM).contains(&dim)
            && segment.num_docs <= segment.docs.len()
            && segment.scales.len() == 2 * segment.docs.len()
            && segment.sum.len() == dim
            && segment.fitting().is_some();
        if !fits {
            return Err(sections.corrupt("its vectors do not fit their head"));
        }
        Ok(Some(segment))
    }

    fn fitting(&self) -> Option<RowsView<'_>> {
        let (scales, norms) = self.scales.split_at_checked(self.docs.len())?;
        RowsView::new(self.dim, &self.codes, scales, norms, &self.halves)
    }

    /// Writes the rows of documents in rising order, as they are; nothing when there are none. `rows_of` is called three
    /// times for each.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write<'r, W: Write, R: Iterator<Item = StoredRow<'r>>>(
        out: &mut SectionWriter<W>,
        dim: Option<usize>,
        max_doc: u32,
        rows_of: impl Fn(DocId) -> R,
    ) -> io::Result<()> {
        let (mut docs, mut scales, mut norms) = (Vec::new(), Vec::new(), Vec::new());
        let mut sum = vec![0_i64; dim.unwrap_or(0)];
        let mut num_docs = 0_u64;
        for doc in (0..max_doc).map(DocId) {
            for (at, row) in rows_of(doc).enumerate() {
                docs.push(doc.0);
                scales.push(row.scale);
                norms.push(row.half.norm);
                if at == 0 {
                    num_docs += 1;
                    add_to_sum(&mut sum, row.half, 1);
                }
            }
        }
        let Some(dim) = dim.filter(|_| num_docs > 0) else { return Ok(()) };
        let all = || (0..max_doc).map(DocId).flat_map(&rows_of);
        out.section(HEAD, &[dim as u64, num_docs])?;
        out.pieces(CODES, |out| all().try_for_each(|row| out.put(row.codes)))?;
        scales.append(&mut norms);
        out.section(SCALES, &scales)?;
        out.pieces(HALVES, |out| all().try_for_each(|row| out.put(row.half.bits)))?;
        out.section(DOCS, &docs)?;
        out.section(SUM, &sum)
    }

    /// Compares the checksums of the rows.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when one differs.
    pub(crate) fn check(sections: &Sections) -> Result<()> {
        [HEAD, DOCS, CODES, SCALES, HALVES].into_iter().try_for_each(|name| sections.check(name))
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// The same with a graph of its rows, or of the first of them. A graph of other rows is none.
    pub(crate) fn with_graph(self, graph: Option<Graph>) -> Self {
        let graph = graph.filter(|graph| graph.len() <= self.docs.len());
        Self { graph, ..self }
    }

    pub(crate) fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref()
    }

    /// What a graph is built over; None never happens: sizes were compared when the segment was opened.
    pub(crate) fn codes(&self) -> Option<CodeRows<'_>> {
        self.fitting().map(|rows| rows.codes())
    }

    /// Whether rows have the numbers of their documents.
    pub(super) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Documents with rows.
    pub(crate) fn num_docs(&self) -> usize {
        self.num_docs
    }

    /// By component, the sum of each document's first row, in units of 2^-40.
    pub(super) fn sum(&self) -> &[i64] {
        &self.sum
    }

    /// All rows, and the document of each. None never happens: sizes were compared when the segment was opened.
    pub(super) fn all(&self) -> Option<(RowsView<'_>, &[u32])> {
        Some((self.fitting()?, &self.docs))
    }

    /// The rows of a document, in their order.
    pub(crate) fn rows_of(&self, doc: DocId) -> impl Iterator<Item = StoredRow<'_>> {
        self.fitting().into_iter().flat_map(move |rows| self.span(doc).map(move |at| rows.row(at)))
    }

    pub(crate) fn contains(&self, doc: DocId) -> bool {
        !self.span(doc).is_empty()
    }

    pub(super) fn span(&self, doc: DocId) -> Range<usize> {
        self.span_from(0, doc)
    }

    /// The same for a document whose rows are not before row `from`, sooner if they are near.
    pub(super) fn span_from(&self, from: usize, doc: DocId) -> Range<usize> {
        if self.is_plain {
            let place = doc.index().min(self.num_docs);
            return place..(place + 1).min(self.num_docs);
        }
        let docs = &self.docs[from..];
        let (mut low, mut step) = (0, 1);
        while docs.get(low + step).is_some_and(|owner| *owner < doc.0) {
            low += step;
            step *= 2;
        }
        let high = docs.len().min(low + step + 1);
        let start = from + low + docs[low..high].partition_point(|owner| *owner < doc.0);
        // Documents out of order, in a damaged file, give a wrong span; never one outside of the rows.
        let count = self.docs[start..].iter().take_while(|owner| **owner == doc.0).count();
        start..start + count
    }
}
