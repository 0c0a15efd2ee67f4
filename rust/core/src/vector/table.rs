//! Rows that are looked through for a question: those of a segment, or those that are in none.

use super::codes::{Block, Query8};
use super::graph::Graph;
use super::rows::RowsView;
use crate::ids::DocId;
use fixedbitset::FixedBitSet;
use std::ops::Range;

/// Part of what a row's cosine may differ from that of its codes, see [`super::search`]: `5 / sqrt(12)`.
pub(super) const SPREAD: f32 = 1.443_375_7;

/// Rows that are compared before their bounds are looked at: sums stay in the nearest cache.
const BLOCK: usize = 64;

/// Where there is a graph, so many documents that may be found are compared one by one: it takes 9 to 30 ns for each, and
/// finds all; a walk among so few of 100,000 takes longer.
const SCANNED: usize = 25_000;

/// Rows of a segment, or those that are in none.
pub(super) struct Table<'a> {
    pub(super) rows: RowsView<'a>,
    /// By row, the document, counted from `base`.
    pub(super) docs: &'a [u32],
    pub(super) base: u32,
    /// Documents there are: one of a greater number is damage, or gone.
    pub(super) max_doc: u32,
    pub(super) dead: Option<&'a FixedBitSet>,
    /// Over the first of the rows, and whether all of them are of live documents.
    pub(super) graph: Option<(&'a Graph, bool)>,
    /// The rows of the documents that may be found, if these are few.
    pub(super) listed: Option<Vec<u32>>,
    /// Rows that a walk has answered for: they are not looked through.
    pub(super) walked: usize,
}

impl Table<'_> {
    /// Notes where those of the documents `start .. start + count` that may be found have their rows, if they are few.
    /// `span` is asked in rising order.
    pub(super) fn list(
        &mut self,
        allowed: Option<&FixedBitSet>,
        start: u32,
        count: u32,
        mut span: impl FnMut(DocId) -> Range<usize>,
    ) {
        /// A row that is compared out of its turn takes about twice as long as one after the other.
        const FEW: usize = 2;
        let Some(allowed) = allowed else { return };
        let (start, end) = (start as usize, (start as usize + count as usize).min(allowed.len()));
        if start >= end {
            self.listed = Some(Vec::new());
            return;
        }
        let count = allowed.count_ones(start..end);
        let few = if self.graph.is_some() { count <= SCANNED } else { count * FEW < self.docs.len() };
        if !few {
            return;
        }
        let mut listed = Vec::new();
        for doc in ones(allowed, start, end) {
            listed.extend(span(DocId(doc as u32)).map(|row| row as u32));
        }
        self.listed = Some(listed);
    }

    /// Rows that may have to be looked through.
    pub(super) fn len(&self) -> usize {
        self.listed.as_ref().map_or(self.docs.len() - self.walked, Vec::len)
    }

    /// The document of a row, if it may be found.
    #[inline]
    pub(super) fn admitted(&self, row: usize, allowed: Option<&FixedBitSet>) -> Option<DocId> {
        let own = self.docs[row];
        let doc = DocId(self.base.wrapping_add(own));
        let fine = own < self.max_doc
            && self.dead.is_none_or(|dead| !dead.contains(own as usize))
            && allowed.is_none_or(|allowed| allowed.contains(doc.index()));
        fine.then_some(doc)
    }

    /// Every row that may be found, with its document.
    pub(super) fn each(&self, allowed: Option<&FixedBitSet>, mut take: impl FnMut(usize, DocId)) {
        let mut take = |row: usize| {
            if let Some(doc) = self.admitted(row, allowed) {
                take(row, doc);
            }
        };
        match &self.listed {
            Some(listed) => listed.iter().for_each(|row| take(*row as usize)),
            None => (self.walked..self.docs.len()).for_each(take),
        }
    }

    /// Offers to the pool the rows that may be found.
    pub(super) fn look_through(
        &self,
        query: &Query8,
        allowed: Option<&FixedBitSet>,
        at: u32,
        pool: &mut Pool,
    ) {
        let codes = self.rows.codes();
        let (mut dots, mut scales, mut bounds) = ([0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        let mut offer = |dots: &[i32], scales: &[f32], row: &dyn Fn(usize) -> usize| {
            let mut above = query.bounds(Block { dots, scales }, SPREAD, pool.least, &mut bounds);
            while above != 0 {
                let place = above.trailing_zeros() as usize;
                above &= above - 1;
                // What was taken meanwhile may have raised it.
                if bounds[place] > pool.least && self.admitted(row(place), allowed).is_some() {
                    pool.take((bounds[place], at, row(place) as u32));
                }
            }
        };
        match &self.listed {
            Some(listed) => {
                for rows in listed.chunks(BLOCK) {
                    let (dots, scales) = (&mut dots[..rows.len()], &mut scales[..rows.len()]);
                    query.dots_at(codes, rows, dots);
                    scales.iter_mut().zip(rows).for_each(|(scale, row)| *scale = codes.scale(*row as usize));
                    offer(dots, scales, &|place| rows[place] as usize);
                }
            }
            None => {
                for (scales, block) in codes.scales()[self.walked..].chunks(BLOCK).zip(0..) {
                    let (dots, first) = (&mut dots[..scales.len()], self.walked + BLOCK * block);
                    query.dots(codes, first, dots);
                    offer(dots, scales, &|place| first + place);
                }
            }
        }
    }
}

/// Bits that are set within `start .. end`.
fn ones(bits: &FixedBitSet, start: usize, end: usize) -> impl Iterator<Item = usize> {
    const BITS: usize = usize::BITS as usize;
    let words =
        bits.as_slice().iter().enumerate().skip(start / BITS).take_while(move |(at, _)| at * BITS < end);
    words
        .flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    at * BITS + bit
                })
            })
        })
        .skip_while(move |bit| *bit < start)
        .take_while(move |bit| *bit < end)
}

/// Most that the cosine of a row can be expected to be, the number of its table, and its own.
pub(super) type Candidate = (f32, u32, u32);

/// The best rows so far.
pub(super) struct Pool {
    limit: usize,
    /// A row has to be above it.
    least: f32,
    pub(super) found: Vec<Candidate>,
}

impl Pool {
    pub(super) fn new(limit: usize, least: f32) -> Self {
        Self { limit, least, found: Vec::new() }
    }

    #[inline]
    fn take(&mut self, candidate: Candidate) {
        self.found.push(candidate);
        if self.found.len() >= self.limit.saturating_mul(2) {
            self.cut();
        }
    }

    /// Lets go all but the best; no row that is not in it can be expected to be above what is given back.
    pub(super) fn close(&mut self) -> f32 {
        if self.found.len() > self.limit {
            self.cut();
        }
        self.least
    }

    #[cold]
    fn cut(&mut self) {
        let order = |a: &Candidate, b: &Candidate| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)));
        self.least = self.found.select_nth_unstable_by(self.limit - 1, order).1.0;
        self.found.truncate(self.limit);
    }
}
