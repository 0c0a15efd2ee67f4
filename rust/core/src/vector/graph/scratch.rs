//! What a walk needs while it goes on, kept for the next one: nothing the size of the index is allocated for a question.

use super::super::codes::{CodeRows, Query8};
use super::super::kernel::prefetch;
use super::super::signs::SignQuery;
use super::M0;
use super::found::{Found, Pool};
use super::layers::Layers;
use super::walk::DEVIATIONS;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

thread_local! {
    static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

#[derive(Debug, Default)]
pub(super) struct Scratch {
    visited: Visited,
    /// Neighbours that were not seen before, to be compared together.
    batch: Batch,
    /// Neighbours of the row before, whose signs are on the way.
    listed: Batch,
    /// Those of the row before that which passed: their codes are on the way.
    passed: Batch,
    pub(super) pool: Pool,
    /// Rows whose neighbours may have to be looked at, in a walk that takes in only some.
    open: BinaryHeap<Reverse<Found>>,
    /// Rows that were compared since the walk began.
    pub(super) compared: usize,
}

impl Scratch {
    /// Runs `job` with what this thread keeps. A nested call gets one of its own.
    pub(super) fn with<R>(job: impl FnOnce(&mut Self) -> R) -> R {
        let mut scratch = KEPT.take().unwrap_or_default();
        let result = job(&mut scratch);
        KEPT.set(Some(scratch));
        result
    }

    /// The nearest of a list.
    pub(super) fn nearest_of(&mut self, query: &Query8, rows: CodeRows<'_>, list: &[u32]) -> Option<Found> {
        self.batch.len = 0;
        for row in list.iter().take_while(|row| (**row as usize) < rows.len()) {
            self.batch.push_if(*row, true);
        }
        self.batch.compare(query, rows, Found::WORST).iter().min().copied()
    }

    /// Looks for the `ef` nearest rows on a layer, from these on; they are in the pool then.
    ///
    /// The nearest row whose neighbours were not looked at is next; it ends when all in the pool were.
    pub(super) fn search_layer(
        &mut self,
        layers: Layers<'_>,
        layer: usize,
        query: &Query8,
        rows: CodeRows<'_>,
        starts: &[Found],
        ef: usize,
    ) {
        self.begin_at(layers, rows, starts, ef);
        let mut place = 0;
        while let Some(row) = self.pool.expand_from(&mut place) {
            self.gather(layers.list(row, layer));
            // Who is next, if nothing nearer is found now.
            if layer == 0
                && let Some(next) = self.pool.found().get(place + 1)
            {
                prefetch(layers.base(next.row()));
            }
            let mut first = place + 1;
            for found in self.batch.compare(query, rows, self.pool.bound()) {
                if let Some(at) = self.pool.offer(*found) {
                    first = first.min(at);
                    // Among the next ones, unless a better one comes.
                    if layer == 0 && at <= place + 2 {
                        prefetch(layers.base(found.row()));
                    }
                }
            }
            place = first;
        }
    }

    /// The same on layer 0, where rows that their signs do not let pass are not compared.
    ///
    /// Memory is asked for a step before it is read: the neighbours of one row are listed, the signs of those of the row
    /// before are looked at, and what passed of those of the row before that is compared. So it is decided two steps late who
    /// is next, which at the end, where most of the walk is, seldom makes a difference.
    pub(super) fn search_signs(
        &mut self,
        layers: Layers<'_>,
        (query, rows): (&Query8, CodeRows<'_>),
        signs: &SignQuery<'_>,
        starts: &[Found],
        ef: usize,
    ) {
        self.begin_at(layers, rows, starts, ef);
        (self.listed.len, self.passed.len) = (0, 0);
        let mut place = 0;
        loop {
            self.batch.len = 0;
            match self.pool.expand_from(&mut place) {
                Some(row) => {
                    self.gather(layers.base(row));
                    self.batch.rows[..self.batch.len].iter().for_each(|row| signs.prefetch(*row));
                    for later in self.pool.found().iter().skip(place + 1).take(2) {
                        prefetch(layers.base(later.row()));
                    }
                }
                None if self.listed.len + self.passed.len == 0 => return,
                None => (),
            }
            let next = place + 2;
            for found in self.passed.compare(query, rows, self.pool.bound()) {
                if let Some(at) = self.pool.offer(*found) {
                    place = place.min(at);
                    if at <= next {
                        prefetch(layers.base(found.row()));
                    }
                }
            }
            self.listed.sieve(signs, self.pool.bound());
            self.listed.prefetch(rows);
            // What passed, what was listed, and room for the next.
            std::mem::swap(&mut self.passed, &mut self.listed);
            std::mem::swap(&mut self.listed, &mut self.batch);
        }
    }

    /// The same on layer 0 for the rows that `accept` takes: the others lead on and are not in the pool. Gives up once more
    /// than `most` rows were compared.
    pub(super) fn search_among(
        &mut self,
        layers: Layers<'_>,
        (query, rows): (&Query8, CodeRows<'_>),
        signs: Option<&SignQuery<'_>>,
        starts: &[Found],
        (ef, most): (usize, usize),
        accept: impl Fn(u32) -> bool,
    ) {
        self.begin(layers, rows, ef);
        self.open.clear();
        for start in starts {
            if self.is_new(*start) {
                take_if(&mut self.pool, &mut self.open, layers, start.fresh(), &accept);
            }
        }
        while let Some(Reverse(next)) = self.open.pop() {
            if self.pool.is_beyond(next) || self.compared > most {
                return;
            }
            self.gather(layers.base(next.row()));
            if let Some(Reverse(next)) = self.open.peek() {
                prefetch(layers.base(next.row()));
            }
            if let Some(signs) = signs {
                self.batch.sieve(signs, self.pool.bound());
            }
            for found in self.batch.compare(query, rows, self.pool.bound()) {
                take_if(&mut self.pool, &mut self.open, layers, *found, &accept);
            }
        }
    }

    /// Begins a walk that keeps all rows it meets, with these.
    fn begin_at(&mut self, layers: Layers<'_>, rows: CodeRows<'_>, starts: &[Found], ef: usize) {
        self.begin(layers, rows, ef);
        for start in starts {
            if self.is_new(*start) {
                self.pool.offer(start.fresh());
            }
        }
    }

    fn begin(&mut self, layers: Layers<'_>, rows: CodeRows<'_>, ef: usize) {
        self.visited.reset(layers.len().min(rows.len()));
        self.pool.reset(ef);
        self.compared = 0;
    }

    /// Whether the walk did not come by the row yet; from now on it did.
    fn is_new(&mut self, start: Found) -> bool {
        let is_new = self.visited.first_time(start.row()) == Some(true);
        self.compared += usize::from(is_new);
        is_new
    }

    /// Takes the neighbours that were not seen before as the next batch.
    #[inline]
    fn gather(&mut self, list: &[u32]) {
        self.batch.len = 0;
        for row in list {
            // The first unused place is the end.
            let Some(first) = self.visited.first_time(*row) else { break };
            self.batch.push_if(*row, first);
        }
        self.compared += self.batch.len;
    }
}

/// Takes a row in to go on from, and those that equal it to answer with, as far as they are accepted.
#[inline]
fn take_if(
    pool: &mut Pool,
    open: &mut BinaryHeap<Reverse<Found>>,
    layers: Layers<'_>,
    found: Found,
    accept: impl Fn(u32) -> bool,
) {
    if !pool.admits(found) {
        return;
    }
    open.push(Reverse(found));
    for row in layers.with_twins(found.row()).filter(|row| accept(*row)) {
        pool.offer(Found::new(found.cosine(), row));
    }
}

/// A row that there is, compared with the question.
pub(super) fn compare_one(query: &Query8, rows: CodeRows<'_>, row: u32) -> Found {
    let dot = query.dot(rows.row(row as usize));
    Found::new(query.cosine(dot, rows.scale(row as usize)), row)
}

/// Neighbours that are compared together: not more than a list has.
#[derive(Debug)]
struct Batch {
    rows: [u32; Self::SIZE],
    dots: [i32; Self::SIZE],
    /// What cosines can be expected to be at most.
    most: [f32; Self::SIZE],
    found: [Found; Self::SIZE],
    len: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            rows: [0; Self::SIZE],
            dots: [0; Self::SIZE],
            most: [0.0; Self::SIZE],
            found: [Found::WORST; Self::SIZE],
            len: 0,
        }
    }
}

impl Batch {
    const SIZE: usize = M0;

    /// Whether a row was seen before cannot be foreseen: a jump would be the wrong one every other time.
    #[inline]
    fn push_if(&mut self, row: u32, there: bool) {
        if let Some(place) = self.rows.get_mut(self.len) {
            *place = row;
            self.len += usize::from(there);
        }
    }

    /// Lets go the rows that are not better than `bound` as far as their signs tell.
    #[inline]
    fn sieve(&mut self, signs: &SignQuery<'_>, bound: Found) {
        if bound == Found::WORST {
            return;
        }
        signs.most(DEVIATIONS, &self.rows[..self.len], &mut self.most[..self.len]);
        let (least, mut kept) = (bound.cosine(), 0);
        for at in 0..self.len {
            self.rows[kept] = self.rows[at];
            kept += usize::from(self.most[at] >= least);
        }
        self.len = kept;
    }

    /// Asks for the codes of the rows.
    #[inline]
    fn prefetch(&self, rows: CodeRows<'_>) {
        self.rows[..self.len].iter().for_each(|row| rows.prefetch(*row as usize));
    }

    /// Compares the question with the rows, four at a time; gives those that are better than `bound`.
    #[inline]
    fn compare(&mut self, query: &Query8, rows: CodeRows<'_>, bound: Found) -> &[Found] {
        // Four at once cost less than two or three one by one: the last one fills up.
        let mut end = self.len;
        if self.len % 4 > 1 {
            end = self.len.next_multiple_of(4);
            let last = self.rows[self.len - 1];
            self.rows[self.len..end].fill(last);
        }
        query.dots_at(rows, &self.rows[..end], &mut self.dots[..end]);
        let mut better = 0;
        for (row, dot) in self.rows.iter().zip(&self.dots).take(self.len) {
            let found = Found::new(query.cosine(*dot, rows.scale(*row as usize)), *row);
            if let Some(place) = self.found.get_mut(better) {
                *place = found;
                better += usize::from(found < bound);
            }
        }
        &self.found[..better]
    }
}

/// Which rows a walk has come by, a bit each.
#[derive(Debug, Default)]
struct Visited {
    count: usize,
    words: Vec<u64>,
}

impl Visited {
    fn reset(&mut self, count: usize) {
        self.count = count;
        self.words.clear();
        self.words.resize(count.div_ceil(64), 0);
    }

    /// Whether the row was not seen before; None when there is no such row.
    #[inline]
    fn first_time(&mut self, row: u32) -> Option<bool> {
        if row as usize >= self.count {
            return None;
        }
        let word = self.words.get_mut(row as usize / 64)?;
        let bit = 1 << (row % 64);
        let first = *word & bit == 0;
        *word |= bit;
        Some(first)
    }
}
