//! Rows that are looked through for a question: those of a segment, or those that are in none.

use super::codes::{Block, Query8};
use super::graph::Graph;
use super::rows::RowsView;
use super::search::kth_best;
use super::signs::SignQuery;
use crate::ids::DocId;
use fixedbitset::FixedBitSet;
use std::borrow::Cow;
use std::ops::Range;

/// Part of what a row's cosine may differ from that of its codes, see [`super::search`]: `5 / sqrt(12)`.
pub(super) const SPREAD: f32 = 1.443_375_7;

/// Rows that are compared before their bounds are looked at: sums stay in the nearest cache.
const BLOCK: usize = 64;

/// Where there is a graph, so many documents that may be found are compared one by one: it takes 9 to 30 ns for each, and
/// finds all; a walk among so few of 100,000 takes longer.
const SCANNED: usize = 25_000;

/// Deviations that are added to what signs tell of a cosine where rows are sifted: one in 4,000 is farther off.
pub(super) const DEVIATIONS: f32 = 3.5;

/// Rows of a segment, or those that are in none.
pub(super) struct Table<'a> {
    pub(super) rows: RowsView<'a>,
    /// By row, the document, counted from `base`.
    pub(super) docs: &'a [u32],
    pub(super) base: u32,
    /// Documents there are: one of a greater number is damage, or gone.
    pub(super) max_doc: u32,
    pub(super) dead: Option<&'a FixedBitSet>,
    /// Over the first of the rows.
    pub(super) graph: Option<&'a Graph>,
    /// Share of the rows that are of live documents, and of these that may be found.
    pub(super) shares: (f64, f64),
    /// The rows of the documents that may be found, if these are few.
    pub(super) listed: Option<Vec<u32>>,
    /// Rows that a walk has answered for: they are not looked through.
    pub(super) walked: usize,
    /// There may be other rows among these that could be found: a walk keeps what is nearest.
    pub(super) passed_by: bool,
}

impl Table<'_> {
    /// Notes where those of the documents `start .. start + count` that may be found have their rows, if they are few.
    /// `span` is asked in rising order; not at all where rows have the numbers of documents, from `start` on.
    pub(super) fn list(
        &mut self,
        allowed: Option<&FixedBitSet>,
        start: u32,
        count: u32,
        plain: bool,
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
        let all = count as usize;
        let count = allowed.count_ones(start..end);
        self.shares.1 = (count as f64 / all.min(self.docs.len()).max(1) as f64).min(1.0);
        let few = if self.graph.is_some() { count <= SCANNED } else { count * FEW < self.docs.len() };
        if !few {
            return;
        }
        let mut listed = Vec::with_capacity(count);
        if plain {
            let end = end.min(start + self.docs.len());
            listed.resize(count, 0);
            let mut places = listed.iter_mut();
            ones(allowed, start, end, |doc| {
                if let Some(place) = places.next() {
                    *place = (doc - start) as u32;
                }
            });
            let left = places.len();
            listed.truncate(count - left);
        } else {
            ones(allowed, start, end, |doc| listed.extend(span(DocId(doc as u32)).map(|row| row as u32)));
        }
        self.listed = Some(listed);
    }

    /// The document of a row.
    pub(super) fn document(&self, row: u32) -> DocId {
        DocId(self.base.wrapping_add(self.docs[row as usize]))
    }

    /// Leaves of the rows of documents that may be found those that can be among the nearest `k` as far as their signs tell.
    ///
    /// The best of each of some blocks, by signs, are compared: the rows have to be as near as the `k`th of those.
    pub(super) fn sift(&mut self, query: &Query8, k: usize) {
        let Some(signs) = self.graph.and_then(Graph::signs) else { return };
        let Some(listed) = &self.listed else { return };
        let (blocks, codes) = (k.saturating_mul(4).max(64), self.rows.codes());
        if listed.len() / 32 < blocks {
            return;
        }
        // Rows that came since have none. Documents rise, but those that were given other rows have them at the end.
        let has_signs = |row: u32| (row as usize) < signs.len();
        let without: Vec<u32> = listed.iter().copied().filter(|row| !has_signs(*row)).collect();
        let listed: Cow<'_, [u32]> = if without.is_empty() {
            Cow::Borrowed(listed)
        } else {
            listed.iter().copied().filter(|row| has_signs(*row)).collect()
        };
        let Some(signs) = SignQuery::new(query, signs) else { return };
        let mut most = vec![0.0; listed.len()];
        signs.most(DEVIATIONS, &listed, &mut most);
        let size = listed.len().div_ceil(blocks).max(1);
        let best = listed.chunks(size).zip(most.chunks(size)).filter_map(|(rows, most)| {
            let best = most.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let place = most.iter().position(|most| *most >= best)?;
            Some(rows[place]).filter(|row| self.admitted(*row as usize, None).is_some())
        });
        let best: Vec<u32> = best.collect();
        let mut dots = vec![0; best.len()];
        query.dots_at(codes, &best, &mut dots);
        let least = best.iter().zip(&dots).map(|(row, dot)| {
            let scale = codes.scale(*row as usize);
            (self.document(*row), query.cosine(*dot, scale) - query.spread(scale))
        });
        let Some(bar) = kth_best(least, k) else { return };
        // Without a jump for each row.
        let (mut left, mut kept) = (vec![0; listed.len()], 0);
        for (row, most) in listed.iter().zip(&most) {
            left[kept] = *row;
            kept += usize::from(*most >= bar);
        }
        left.truncate(kept);
        left.extend_from_slice(&without);
        self.listed = Some(left);
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
fn ones(bits: &FixedBitSet, start: usize, end: usize, mut take: impl FnMut(usize)) {
    const BITS: usize = usize::BITS as usize;
    let words = bits.as_slice().iter().zip((0..).step_by(BITS)).skip(start / BITS);
    for (word, base) in words.take_while(|(_, base)| *base < end) {
        let mut rest = *word;
        if base < start {
            rest &= usize::MAX << (start - base);
        }
        if end - base < BITS {
            rest &= (1 << (end - base)) - 1;
        }
        while rest != 0 {
            take(base + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
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
