//! Exact search: every row is compared.

use super::metric::dot;
use super::row::{Refusal, UnitRow};
use crate::ids::DocId;
use fixedbitset::FixedBitSet;

/// Unit rows of documents, one or several to a document, all of one width.
///
/// A document scores by its best row. Rows of removed documents are freed when more than half are dead.
#[derive(Debug, Default)]
pub struct VectorSet {
    dim: Option<usize>,
    rows: Vec<f32>,
    owners: Vec<DocId>,
    /// Where each document's rows are: they lie together. Indexed by document.
    spans: Vec<Span>,
    live_rows: usize,
    live_docs: usize,
    /// Sum of each live document's first row, in units of 2^-40: whole numbers, so that any history of
    /// insertions and removals gives the same bits. Its mean is what unrelated text has in common.
    sum: Vec<i64>,
}

impl VectorSet {
    /// An empty set; the width comes from `dim` or from the first row.
    pub fn new(dim: Option<usize>) -> Self {
        Self { dim, ..Self::default() }
    }

    /// Width of the rows, once known.
    pub fn dim(&self) -> Option<usize> {
        self.dim
    }

    /// Documents that have at least one row.
    pub fn len(&self) -> usize {
        self.live_docs
    }

    /// Whether no document has a row.
    pub fn is_empty(&self) -> bool {
        self.live_docs == 0
    }

    /// Whether the document has a row.
    pub fn contains(&self, doc: DocId) -> bool {
        self.span(doc).count > 0
    }

    /// Gives the document these rows, in place of what it had.
    ///
    /// # Errors
    /// The first row's [`Refusal`] that applies; the document then has no rows.
    pub fn insert(&mut self, doc: DocId, rows: &[&[f32]]) -> Result<(), Refusal> {
        self.remove(doc);
        let mut dim = self.dim;
        let mut units = Vec::with_capacity(rows.len());
        for row in rows {
            let unit = UnitRow::new(row, dim)?;
            dim = Some(unit.as_slice().len());
            units.push(unit);
        }
        let (Some(first), Some(width)) = (units.first(), dim) else { return Err(Refusal::Size { found: 0 }) };
        self.dim = dim;
        self.sum.resize(width, 0);
        for (sum, x) in self.sum.iter_mut().zip(first.as_slice()) {
            *sum += fixed(*x);
        }
        if self.spans.len() <= doc.index() {
            self.spans.resize(doc.index() + 1, Span::default());
        }
        self.spans[doc.index()] = Span { first: self.owners.len() as u32, count: units.len() as u32 };
        for unit in &units {
            self.rows.extend_from_slice(unit.as_slice());
            self.owners.push(doc);
        }
        self.live_rows += units.len();
        self.live_docs += 1;
        Ok(())
    }

    /// Takes the document's rows out; false when it had none.
    pub fn remove(&mut self, doc: DocId) -> bool {
        let Span { first, count } = self.span(doc);
        if count == 0 {
            return false;
        }
        let (first, count, width) = (first as usize, count as usize, self.dim.unwrap_or(0));
        for (sum, x) in self.sum.iter_mut().zip(&self.rows[first * width..(first + 1) * width]) {
            *sum -= fixed(*x);
        }
        self.owners[first..first + count].fill(DEAD);
        self.spans[doc.index()] = Span::default();
        self.live_rows -= count;
        self.live_docs -= 1;
        if self.owners.len() > 2 * self.live_rows + 64 {
            self.purge();
        }
        true
    }

    fn span(&self, doc: DocId) -> Span {
        self.spans.get(doc.index()).copied().unwrap_or_default()
    }

    fn purge(&mut self) {
        let width = self.dim.unwrap_or(0);
        let mut kept = 0;
        for row in 0..self.owners.len() {
            if self.owners[row] == DEAD {
                continue;
            }
            let owner = self.owners[row];
            if kept != row {
                let span = &mut self.spans[owner.index()];
                // Rows of a document are moved in order: the first one tells where the others follow.
                if span.first as usize == row {
                    span.first = kept as u32;
                }
                self.owners[kept] = owner;
                self.rows.copy_within(row * width..(row + 1) * width, kept * width);
            }
            kept += 1;
        }
        self.owners.truncate(kept);
        self.rows.truncate(kept * width);
    }

    /// The cosine of every allowed document's best row with `query`, a unit row: NaN where a document has none.
    ///
    /// `allowed` is indexed by document; the answer has `max_doc` entries.
    ///
    /// # Errors
    /// [`Refusal::Width`] when the query is not as wide as the rows.
    pub fn cosines(
        &self,
        query: &UnitRow,
        allowed: Option<&FixedBitSet>,
        max_doc: usize,
    ) -> Result<Vec<f32>, Refusal> {
        let mut scores = vec![f32::NAN; max_doc];
        let Some(width) = self.dim else { return Ok(scores) };
        if query.as_slice().len() != width {
            return Err(Refusal::Width { expected: width, found: query.as_slice().len() });
        }
        for (row, owner) in self.rows.chunks_exact(width).zip(&self.owners) {
            if *owner == DEAD || allowed.is_some_and(|allowed| !allowed.contains(owner.index())) {
                continue;
            }
            let cosine = dot(row, query.as_slice()).clamp(-1.0, 1.0);
            let best = &mut scores[owner.index()];
            // `max` takes the number when the other is NaN.
            *best = best.max(cosine);
        }
        Ok(scores)
    }

    /// Mean of the documents' first rows, None when there is none.
    pub fn mean(&self) -> Option<Vec<f64>> {
        let scale = UNIT * self.live_docs as f64;
        (self.live_docs > 0).then(|| self.sum.iter().map(|sum| *sum as f64 / scale).collect())
    }

    /// The document's rows, in their order.
    pub fn rows_of(&self, doc: DocId) -> impl Iterator<Item = &[f32]> {
        let Span { first, count } = self.span(doc);
        let width = self.dim.unwrap_or(1);
        self.rows[first as usize * width..(first + count) as usize * width].chunks_exact(width)
    }
}

/// Rows `first .. first + count`; a count of 0 means none.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    first: u32,
    count: u32,
}

/// One, in the fixed point numbers of the sum: 2^40. A million rows leave 2^3 of room in 64 bits.
const UNIT: f64 = (1_u64 << 40) as f64;

/// A component of a unit row as a whole number of 2^-40.
fn fixed(x: f32) -> i64 {
    (f64::from(x) * UNIT).round() as i64
}

/// Owner of a row whose document is gone. Documents are numbered below it.
const DEAD: DocId = DocId(u32::MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_scores_by_its_best_row_and_negative_stays_negative() {
        let mut set = VectorSet::new(None);
        set.insert(DocId(0), &[&[1.0, 0.0], &[0.0, 2.0]]).unwrap();
        set.insert(DocId(2), &[&[-1.0, 0.0]]).unwrap();
        let query = UnitRow::new(&[1.0, 0.0], None).unwrap();
        let scores = set.cosines(&query, None, 3).unwrap();
        assert!((scores[0] - 1.0).abs() < 1e-6 && scores[1].is_nan() && (scores[2] + 1.0).abs() < 1e-6);
        assert!(set.insert(DocId(3), &[&[1.0]]).is_err() && !set.contains(DocId(3)));
        let wide = UnitRow::new(&[1.0, 0.0, 0.0], None).unwrap();
        assert!(set.cosines(&wide, None, 3).is_err());
    }

    proptest! {
        #[test]
        fn any_history_equals_a_fresh_set(ops in proptest::collection::vec((0..12u32, 0..4usize, -1.0..1.0f32), 1..300)) {
            let mut set = VectorSet::new(Some(3));
            let mut model: std::collections::BTreeMap<u32, Vec<[f32; 3]>> = std::collections::BTreeMap::new();
            for (doc, count, x) in ops {
                let rows: Vec<[f32; 3]> = (0..count).map(|n| [x, 1.0, x * n as f32]).collect();
                if count > 0 {
                    set.insert(DocId(doc), &rows.iter().map(|row| &row[..]).collect::<Vec<_>>()).unwrap();
                    model.insert(doc, rows);
                } else {
                    prop_assert_eq!(set.remove(DocId(doc)), model.remove(&doc).is_some());
                }
            }
            let mut fresh = VectorSet::new(Some(3));
            for (doc, rows) in &model {
                fresh.insert(DocId(*doc), &rows.iter().map(|row| &row[..]).collect::<Vec<_>>()).unwrap();
                let kept: Vec<Vec<f32>> = set.rows_of(DocId(*doc)).map(<[f32]>::to_vec).collect();
                let given: Vec<Vec<f32>> = fresh.rows_of(DocId(*doc)).map(<[f32]>::to_vec).collect();
                prop_assert_eq!(kept, given);
            }
            let query = UnitRow::new(&[0.3, 0.4, -0.5], None).unwrap();
            let bits = |set: &VectorSet| -> Vec<u32> {
                set.cosines(&query, None, 12).unwrap().iter().map(|s| s.to_bits()).collect()
            };
            prop_assert_eq!(bits(&set), bits(&fresh));
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.mean(), fresh.mean());
        }
    }
}
