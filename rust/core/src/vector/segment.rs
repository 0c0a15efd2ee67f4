//! Rows of a segment of the index: written once, mapped into memory.
//!
//! | section | what |
//! |---|---|
//! | `vec.head` | `u64`: width, number of documents with rows |
//! | `vec.rows` | `f32`: unit rows, those of a document together, documents ascending |
//! | `vec.docs` | `u32`: document of each row |
//! | `vec.sum` | `i64`: by component, the sum of each document's first row in units of 2^-40 |

use super::exact::fixed;
use super::row::MAX_DIM;
use crate::error::Result;
use crate::ids::DocId;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use std::io::{self, Write};
use std::ops::Range;

const HEAD: SectionName = SectionName::new("vec.head");
const ROWS: SectionName = SectionName::new("vec.rows");
const DOCS: SectionName = SectionName::new("vec.docs");
const SUM: SectionName = SectionName::new("vec.sum");

/// The rows of a segment.
#[derive(Debug, Clone)]
pub(crate) struct VectorSegment {
    dim: usize,
    num_docs: usize,
    rows: Numbers<f32>,
    docs: Numbers<u32>,
    sum: Numbers<i64>,
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
        let (rows, docs) = (sections.array::<f32>(ROWS)?, sections.array::<u32>(DOCS)?);
        let sum = sections.array::<i64>(SUM)?;
        let dim = usize::try_from(dim).unwrap_or(usize::MAX);
        let fits = (1..=MAX_DIM).contains(&dim)
            && docs.len().checked_mul(dim) == Some(rows.len())
            && num_docs <= docs.len() as u64
            && sum.len() == dim;
        if !fits {
            return Err(sections.corrupt("its vectors do not fit their head"));
        }
        Ok(Some(Self { dim, num_docs: num_docs as usize, rows, docs, sum }))
    }

    /// Writes the rows of documents in rising order; nothing when there are none. `rows_of` is called twice for each.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write<'r, W: Write, R: Iterator<Item = &'r [f32]>>(
        out: &mut SectionWriter<W>,
        dim: Option<usize>,
        max_doc: u32,
        rows_of: impl Fn(DocId) -> R,
    ) -> io::Result<()> {
        let mut docs = Vec::new();
        let mut sum = vec![0_i64; dim.unwrap_or(0)];
        let mut num_docs = 0_u64;
        for doc in (0..max_doc).map(DocId) {
            for (at, row) in rows_of(doc).enumerate() {
                docs.push(doc.0);
                if at == 0 {
                    num_docs += 1;
                    sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += fixed(*x));
                }
            }
        }
        let Some(dim) = dim.filter(|_| num_docs > 0) else { return Ok(()) };
        out.section(HEAD, &[dim as u64, num_docs])?;
        out.pieces(ROWS, |out| {
            (0..max_doc).map(DocId).try_for_each(|doc| rows_of(doc).try_for_each(|row| out.put(row)))
        })?;
        out.section(DOCS, &docs)?;
        out.section(SUM, &sum)
    }

    /// Compares the checksums of the rows.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when one differs.
    pub(crate) fn check(sections: &Sections) -> Result<()> {
        [HEAD, ROWS, DOCS].into_iter().try_for_each(|name| sections.check(name))
    }

    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// Documents with rows.
    pub(crate) fn num_docs(&self) -> usize {
        self.num_docs
    }

    /// By component, the sum of each document's first row, in units of 2^-40.
    pub(super) fn sum(&self) -> &[i64] {
        &self.sum
    }

    /// Every row with its document.
    pub(super) fn all(&self) -> impl Iterator<Item = (DocId, &[f32])> {
        self.docs.iter().map(|doc| DocId(*doc)).zip(self.rows.chunks_exact(self.dim))
    }

    /// The rows of a document, in their order.
    pub(crate) fn rows_of(&self, doc: DocId) -> std::slice::ChunksExact<'_, f32> {
        let Range { start, end } = self.span(doc);
        self.rows[start * self.dim..end * self.dim].chunks_exact(self.dim)
    }

    pub(crate) fn contains(&self, doc: DocId) -> bool {
        !self.span(doc).is_empty()
    }

    fn span(&self, doc: DocId) -> Range<usize> {
        let start = self.docs.partition_point(|owner| *owner < doc.0);
        // Documents out of order, in a damaged file, give a wrong span; never one outside of the rows.
        let count = self.docs[start..].iter().take_while(|owner| **owner == doc.0).count();
        start..start + count
    }
}
