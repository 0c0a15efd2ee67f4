//! The rows of an index: of its segments, and those that came since.

use super::building::{BuiltGraph, GraphJob, Order};
use super::graph::Graph;
use super::row::Refusal;
use super::rows::{self, Rows, RowsView, StoredRow};
use super::segment::{UNIT, VectorSegment, add_to_sum};
use crate::ids::DocId;
use fixedbitset::FixedBitSet;
use std::ops::Range;

/// Unit rows of documents, one or several to a document, all of one width, rounded to half precision.
///
/// A document scores by its best row. The rows of the first documents may lie in segments; those of the others are held
/// here, and freed when more than half are dead, but for those that a graph leads to while half of these live.
#[derive(Debug, Default)]
pub struct VectorSet {
    /// Of the rows that are held here.
    order: Order,
    dim: Option<usize>,
    pub(super) segments: Vec<Part>,
    /// The first document that is in no segment.
    pub(super) first_own: u32,
    rows: Rows,
    /// Document of each row, or [`DEAD`].
    owners: Vec<u32>,
    /// Where each document's rows are: they lie together. Indexed by document, from `first_own` on.
    spans: Vec<Span>,
    live_rows: usize,
    /// Dead rows that were left where they are when others were freed.
    dead_kept: usize,
    live_docs: usize,
    /// Over the first of the rows that are held here.
    graph: Option<Graph>,
    /// Sum of each live document's first row, in units of 2^-40: whole numbers, so that any history of
    /// insertions and removals gives the same bits. Its mean is what unrelated text has in common.
    sum: Vec<i64>,
}

impl VectorSet {
    /// An empty set; the width comes from `dim` or from the first row.
    pub fn new(dim: Option<usize>) -> Self {
        Self { dim, ..Self::default() }
    }

    /// Takes in the rows of the next `max_doc` documents, without those that are dead. Segments come before every
    /// insertion.
    ///
    /// # Errors
    /// [`Refusal::Width`] when the rows have another width; then the documents have none.
    pub(crate) fn add_segment(
        &mut self,
        segment: Option<VectorSegment>,
        max_doc: u32,
        dead: &FixedBitSet,
    ) -> Result<(), Refusal> {
        let base = self.first_own;
        self.first_own += max_doc;
        let Some(segment) = segment else { return Ok(()) };
        let found = segment.dim();
        match self.dim {
            Some(expected) if expected != found => return Err(Refusal::Width { expected, found }),
            _ => self.dim = Some(found),
        }
        self.sum.resize(found, 0);
        self.sum.iter_mut().zip(segment.sum()).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
        self.live_docs += segment.num_docs();
        let mut part = Part {
            base,
            max_doc,
            segment,
            dead: FixedBitSet::with_capacity(max_doc as usize),
            dead_count: 0,
        };
        for doc in dead.ones().take_while(|doc| *doc < max_doc as usize) {
            self.live_docs -= usize::from(part.kill(DocId(doc as u32), &mut self.sum));
        }
        self.segments.push(part);
        Ok(())
    }

    /// The segment of a document and its number there.
    fn part(&self, doc: DocId) -> Option<(usize, DocId)> {
        let at = self.segments.partition_point(|part| part.base <= doc.0).checked_sub(1)?;
        let part = &self.segments[at];
        (doc.0 - part.base < part.max_doc).then(|| (at, DocId(doc.0 - part.base)))
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
        match self.part(doc) {
            Some((at, doc)) => self.segments[at].contains(doc),
            None => self.span(doc).count > 0,
        }
    }

    /// Gives the document these rows, in place of what it had.
    ///
    /// # Errors
    /// The first row's [`Refusal`] that applies; the document then has no rows.
    pub fn insert(&mut self, doc: DocId, rows: &[&[f32]]) -> Result<(), Refusal> {
        if doc.0 < self.first_own {
            self.unmap();
        }
        self.remove(doc);
        let mut dim = self.dim;
        let mut halves = Vec::with_capacity(rows.len());
        for row in rows {
            let row = rows::halves(row, dim)?;
            dim = Some(row.len());
            halves.push(row);
        }
        self.take(doc, &halves)
    }

    /// The same with rows of half precision that were searched before: they are taken bit for bit.
    ///
    /// # Errors
    /// As [`VectorSet::insert`].
    pub(crate) fn insert_halves<R: AsRef<[u16]>>(&mut self, doc: DocId, halves: &[R]) -> Result<(), Refusal> {
        if doc.0 < self.first_own {
            self.unmap();
        }
        self.remove(doc);
        let mut dim = self.dim;
        for row in halves {
            rows::checked(row.as_ref(), dim)?;
            dim = Some(row.as_ref().len());
        }
        self.take(doc, halves)
    }

    /// Takes checked rows of a document that has none.
    fn take<R: AsRef<[u16]>>(&mut self, doc: DocId, halves: &[R]) -> Result<(), Refusal> {
        let Some(width) = halves.first().map(|row| row.as_ref().len()) else {
            return Err(Refusal::Size { found: 0 });
        };
        self.dim = Some(width);
        self.sum.resize(width, 0);
        let place = self.place(doc);
        if self.spans.len() <= place {
            self.spans.resize(place + 1, Span::default());
        }
        let first = self.owners.len();
        self.spans[place] = Span { first: first as u32, count: halves.len() as u32 };
        for row in halves {
            self.rows.push(row.as_ref());
            self.owners.push(doc.0);
        }
        self.add_first(first, 1);
        self.live_rows += halves.len();
        self.live_docs += 1;
        Ok(())
    }

    /// Adds a row that is held here to the sum of all, or with -1 takes it out.
    fn add_first(&mut self, at: usize, sign: i64) {
        if let Some(rows) = self.dim.and_then(|width| self.rows.view(width)) {
            add_to_sum(&mut self.sum, rows.half(at), sign);
        }
    }

    /// What the graph of the rows that are held here is built from, if it is not there and there are `least` or more: a copy,
    /// so that nobody waits for it. Fewer rows have no graph.
    pub(crate) fn graph_job(&self, least: usize) -> GraphJob {
        let rows = self.own().map_or(0, |(rows, _)| rows.codes().len());
        let wanted = rows > 0 && rows >= least;
        let done = self.graph.as_ref().is_some_and(|graph| graph.len() == rows);
        let copied = match self.dim {
            Some(width) if wanted && !done => Some((width, self.rows.copied_codes())),
            _ => None,
        };
        GraphJob::new(self.order.held(rows), copied, self.graph.clone().filter(|_| wanted))
    }

    /// Puts a graph in place; false when it is of rows in another order, or there is a graph of more.
    pub(crate) fn put_graph(&mut self, built: BuiltGraph) -> bool {
        let more = |own: &Graph| built.graph.as_ref().is_some_and(|graph| graph.len() < own.len());
        if built.order != self.order || self.graph.as_ref().is_some_and(more) {
            return false;
        }
        self.graph = built.graph;
        true
    }

    /// The graph of the first of the rows that are held here.
    pub(crate) fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref()
    }

    /// Rows that graphs lead to, and rows there are; those of documents that are gone are among them.
    pub fn rows_with_graph(&self) -> (usize, usize) {
        let parts = self.segments.iter().map(|part| {
            let rows = part.segment.all().map_or(0, |(_, docs)| docs.len());
            (part.segment.graph().map_or(0, Graph::len), rows)
        });
        let own = (self.graph.as_ref().map_or(0, Graph::len), self.owners.len());
        parts.chain([own]).fold((0, 0), |(walked, rows), (more, all)| (walked + more, rows + all))
    }

    /// The graph of the first rows, in order of their documents: of rows as a file of them would have them.
    pub(crate) fn graph_in_order(&self) -> Option<&Graph> {
        match &self.segments[..] {
            [] => self.graph.as_ref().filter(|_| self.is_whole() && self.owners.is_sorted()),
            [only] if self.owners.is_empty() && only.dead_count == 0 => only.segment.graph(),
            _ => None,
        }
    }

    /// The same rows in memory, in the order of their documents, which get these numbers; None when they lie so already. A
    /// document that is gone has no rows, whatever its number.
    ///
    /// # Errors
    /// Why a row cannot be searched that was: damage.
    pub(crate) fn renumbered(&self, numbers: &[u32]) -> Result<Option<Self>, Refusal> {
        let same = numbers.iter().copied().eq(0..numbers.len() as u32);
        if same && self.segments.is_empty() && self.is_whole() && self.owners.is_sorted() {
            return Ok(None);
        }
        let mut refused = None;
        let mut all = self.under(numbers.iter().copied(), &mut |refusal| refused = Some(refusal));
        if same {
            all.graph = self.graph_in_order().cloned();
        }
        refused.map_or(Ok(Some(all)), Err)
    }

    /// Whether [`VectorSet::renumber`] can be called: no rows lie in segments.
    pub(crate) fn can_be_renumbered(&self) -> bool {
        self.first_own == 0
    }

    /// Gives the documents other numbers, as [`VectorSet::renumbered`] does, and leaves rows where they are, so that their
    /// graph stays.
    pub(crate) fn renumber(&mut self, numbers: &[u32]) {
        for owner in self.owners.iter_mut().filter(|owner| **owner != DEAD) {
            *owner = numbers[*owner as usize];
        }
        let spans = std::mem::take(&mut self.spans);
        for (span, number) in spans.into_iter().zip(numbers).filter(|(span, _)| span.count > 0) {
            let place = *number as usize;
            if self.spans.len() <= place {
                self.spans.resize(place + 1, Span::default());
            }
            self.spans[place] = span;
        }
    }

    /// Takes the rows of segments into memory, where documents can be given others.
    fn unmap(&mut self) {
        let count = self.first_own + self.spans.len() as u32;
        // They were searched before; what damage made of one is not.
        let mut all = self.under(0..count, &mut |_| {});
        let graph = self.graph_in_order().cloned();
        all.graph = graph.filter(|graph| graph.len() <= all.owners.len());
        *self = all;
    }

    /// The rows of the documents under other numbers; `refused` is told of those that cannot be searched.
    fn under(&self, numbers: impl Iterator<Item = u32>, refused: &mut dyn FnMut(Refusal)) -> Self {
        let mut all = Self::new(self.dim);
        for (doc, number) in (0..).map(DocId).zip(numbers.map(DocId)) {
            let rows: Vec<&[u16]> = self.rows_of(doc).map(|row| row.half.bits).collect();
            if !rows.is_empty()
                && let Err(refusal) = all.insert_halves(number, &rows)
            {
                refused(refusal);
            }
        }
        all
    }

    /// Whether all rows that are held here are of live documents.
    pub(super) fn is_whole(&self) -> bool {
        self.live_rows == self.owners.len()
    }

    /// Share of the rows that are held here that are of live documents.
    pub(super) fn live_share(&self) -> f64 {
        self.live_rows as f64 / self.owners.len().max(1) as f64
    }

    /// The rows that are held here, and the document of each, [`DEAD`] for one that is gone.
    pub(super) fn own(&self) -> Option<(RowsView<'_>, &[u32])> {
        Some((self.rows.view(self.dim?)?, &self.owners))
    }

    /// Where the rows of a document lie among those that are held here.
    pub(super) fn own_span(&self, doc: DocId) -> Range<usize> {
        let Span { first, count } = self.span(doc);
        first as usize..(first + count) as usize
    }

    /// Takes the document's rows out; false when it had none.
    pub fn remove(&mut self, doc: DocId) -> bool {
        if let Some((at, doc)) = self.part(doc) {
            let there = self.segments[at].kill(doc, &mut self.sum);
            self.live_docs -= usize::from(there);
            return there;
        }
        let Span { first, count } = self.span(doc);
        if count == 0 {
            return false;
        }
        let (first, count) = (first as usize, count as usize);
        self.add_first(first, -1);
        self.owners[first..first + count].fill(DEAD);
        let place = self.place(doc);
        self.spans[place] = Span::default();
        self.live_rows -= count;
        self.live_docs -= 1;
        // What looking through them all costs is shared by that many removals.
        let dead = self.owners.len() - self.live_rows;
        if dead > self.live_rows + 64 && dead > self.dead_kept + self.owners.len() / 8 {
            self.purge();
        }
        true
    }

    fn span(&self, doc: DocId) -> Span {
        if doc.0 < self.first_own {
            return Span::default();
        }
        self.spans.get(self.place(doc)).copied().unwrap_or_default()
    }

    /// Where the span of a document that is in no segment lies.
    fn place(&self, doc: DocId) -> usize {
        (doc.0 - self.first_own) as usize
    }

    /// Frees dead rows. Those that a graph leads to, or is being built over, stay where they are, as long as half of them
    /// live; and whatever lives while one is being built.
    fn purge(&mut self) {
        let graph = self.graph.as_ref().map_or(0, Graph::len);
        let held = self.order.rows_held();
        let live = self.owners[..graph].iter().filter(|owner| **owner != DEAD).count();
        let fixed = if held > 0 || 2 * live >= graph { held.max(graph) } else { 0 };
        if fixed < graph {
            self.graph = None;
        }
        let width = self.dim.unwrap_or(0);
        let mut kept = fixed;
        for row in fixed..self.owners.len() {
            if self.owners[row] == DEAD {
                continue;
            }
            let owner = self.owners[row];
            if kept != row {
                let place = self.place(DocId(owner));
                let span = &mut self.spans[place];
                // Rows of a document are moved in order: the first one tells where the others follow.
                if span.first as usize == row {
                    span.first = kept as u32;
                }
                self.owners[kept] = owner;
                self.rows.put(row, kept, width);
            }
            kept += 1;
        }
        self.owners.truncate(kept);
        self.rows.truncate(kept, width);
        self.dead_kept = kept - self.live_rows;
    }

    /// Mean of the documents' first rows, None when there is none.
    pub fn mean(&self) -> Option<Vec<f64>> {
        let scale = UNIT * self.live_docs as f64;
        (self.live_docs > 0).then(|| self.sum.iter().map(|sum| *sum as f64 / scale).collect())
    }

    /// The document's rows, in their order.
    pub(crate) fn rows_of(&self, doc: DocId) -> impl Iterator<Item = StoredRow<'_>> {
        let (rows, span) = self.place_of(doc);
        rows.into_iter().flat_map(move |rows| span.clone().map(move |at| rows.row(at)))
    }

    fn place_of(&self, doc: DocId) -> (Option<RowsView<'_>>, Range<usize>) {
        match self.part(doc) {
            Some((at, doc)) => self.segments[at].rows_of(doc),
            None => (self.own().map(|(rows, _)| rows), self.own_span(doc)),
        }
    }

    /// The rows of many documents: `take` is given each place in `docs`, the segment, or one number more for the rows that are
    /// held here, and the numbers of the document's rows there. Gives the rows of each: arrays are looked up once.
    pub(super) fn each_place(
        &self,
        docs: &[DocId],
        mut take: impl FnMut(usize, usize, Range<usize>),
    ) -> Vec<Option<RowsView<'_>>> {
        let segments = self.segments.iter().map(|part| part.segment.all().map(|(rows, _)| rows));
        let rows: Vec<Option<RowsView<'_>>> = segments.chain([self.own().map(|(rows, _)| rows)]).collect();
        for (doc, at) in docs.iter().zip(0..) {
            let (part, span) = match self.part(*doc) {
                Some((part, doc)) => {
                    let Part { segment, dead, .. } = &self.segments[part];
                    (part, if dead.contains(doc.index()) { 0..0 } else { segment.span(doc) })
                }
                None => (self.segments.len(), self.own_span(*doc)),
            };
            take(at, part, if rows[part].is_some() { span } else { 0..0 });
        }
        rows
    }

    /// The graph of a segment, or of the rows that are held here: see [`VectorSet::each_place`].
    pub(super) fn graph_of(&self, part: usize) -> Option<&Graph> {
        self.segments.get(part).map_or(self.graph.as_ref(), |part| part.segment.graph())
    }
}

/// The rows of a segment, and which of its documents are gone.
#[derive(Debug)]
pub(super) struct Part {
    /// Number of its first document.
    pub(super) base: u32,
    pub(super) max_doc: u32,
    pub(super) segment: VectorSegment,
    pub(super) dead: FixedBitSet,
    /// How many these are: counting them took a hundredth of a question's time.
    pub(super) dead_count: usize,
}

impl Part {
    fn contains(&self, doc: DocId) -> bool {
        !self.dead.contains(doc.index()) && self.segment.contains(doc)
    }

    fn rows_of(&self, doc: DocId) -> (Option<RowsView<'_>>, Range<usize>) {
        let rows = self.segment.all().filter(|_| !self.dead.contains(doc.index())).map(|(rows, _)| rows);
        (rows, if rows.is_some() { self.segment.span(doc) } else { 0..0 })
    }

    /// Takes a document out of the answers and out of the sum of all; false when it had no rows.
    fn kill(&mut self, doc: DocId, sum: &mut [i64]) -> bool {
        let (rows, mut span) = self.rows_of(doc);
        let first = rows.zip(span.next());
        if let Some((rows, first)) = first {
            add_to_sum(sum, rows.half(first), -1);
        }
        let there = first.is_some();
        self.dead_count += usize::from(!self.dead.put(doc.index()));
        there
    }
}

/// Rows `first .. first + count`; a count of 0 means none.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    first: u32,
    count: u32,
}

/// Owner of a row whose document is gone. Documents are numbered below it.
pub(super) const DEAD: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::super::UnitRow;
    use super::*;
    use crate::sections::Sections;
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
        fn any_history_equals_a_fresh_set(
            ops in proptest::collection::vec((0..12u32, 0..4usize, -1.0..1.0f32), 1..300),
            segments in proptest::collection::vec(proptest::collection::vec(0..3usize, 0..4), 0..4),
        ) {
            let mut set = VectorSet::new(Some(3));
            let mut model: std::collections::BTreeMap<u32, Vec<[f32; 3]>> = std::collections::BTreeMap::new();
            for counts in segments {
                let base = set.first_own;
                let max_doc = counts.len() as u32;
                let mut part = VectorSet::new(Some(3));
                for (doc, count) in (0..max_doc).zip(counts) {
                    let rows: Vec<[f32; 3]> = (0..count).map(|n| [0.6, n as f32, -0.8]).collect();
                    if count > 0 {
                        part.insert(DocId(doc), &rows.iter().map(|row| &row[..]).collect::<Vec<_>>()).unwrap();
                        model.insert(base + doc, rows);
                    }
                }
                let sections = Sections::in_memory(|out| {
                    VectorSegment::write(out, Some(3), max_doc, |doc| part.rows_of(doc))
                }).unwrap();
                let segment = VectorSegment::open(&sections).unwrap();
                let mut dead = FixedBitSet::with_capacity(max_doc as usize);
                if max_doc > 1 {
                    dead.insert(1);
                    model.remove(&(base + 1));
                }
                set.add_segment(segment, max_doc, &dead).unwrap();
            }
            let in_segments = set.first_own;
            let mut job = None;
            for (doc, count, x) in ops {
                // A graph is built beside all this now and then, and always fits.
                match job.take() {
                    Some(under_way) if x < 0.9 => job = Some(under_way),
                    Some(under_way) => {
                        let built = GraphJob::run(under_way, &|| false).unwrap();
                        prop_assert!(set.put_graph(built));
                    }
                    None if x < -0.9 => job = Some(set.graph_job(1)),
                    None => {}
                }
                let rows: Vec<[f32; 3]> = (0..count).map(|n| [x, 1.0, x * n as f32]).collect();
                if count > 0 && doc >= in_segments {
                    set.insert(DocId(doc), &rows.iter().map(|row| &row[..]).collect::<Vec<_>>()).unwrap();
                    model.insert(doc, rows);
                } else {
                    prop_assert_eq!(set.remove(DocId(doc)), model.remove(&doc).is_some());
                }
            }
            let mut fresh = VectorSet::new(Some(3));
            for (doc, rows) in &model {
                fresh.insert(DocId(*doc), &rows.iter().map(|row| &row[..]).collect::<Vec<_>>()).unwrap();
                prop_assert!(set.rows_of(DocId(*doc)).eq(fresh.rows_of(DocId(*doc))));
                let codes = |set: &VectorSet| -> Vec<(Vec<u8>, u32)> {
                    set.rows_of(DocId(*doc)).map(|row| (row.codes.to_vec(), row.scale.to_bits())).collect()
                };
                prop_assert_eq!(codes(&set), codes(&fresh));
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
