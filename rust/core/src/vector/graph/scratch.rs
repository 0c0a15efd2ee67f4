//! What a walk needs while it goes on, kept for the next one: nothing the size of the index is allocated for a question.

use super::super::codes::{CodeRows, Query8};
use super::super::kernel::prefetch;
use super::found::{Found, Pool};
use super::layers::Layers;
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
    batch: Vec<u32>,
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
        self.batch.clear();
        for row in list.iter().take_while(|row| (**row as usize) < rows.len()) {
            rows.prefetch(*row as usize);
            self.batch.push(*row);
        }
        let mut nearest = None;
        compare(query, rows, &self.batch, |found| {
            nearest = Some(nearest.map_or(found, |nearest: Found| nearest.min(found)));
        });
        nearest
    }

    /// Looks for the `ef` nearest rows on a layer, from one of them on; they are in the pool then.
    ///
    /// The nearest row whose neighbours were not looked at is next; it ends when all in the pool were.
    pub(super) fn search_layer(
        &mut self,
        layers: Layers<'_>,
        layer: usize,
        query: &Query8,
        rows: CodeRows<'_>,
        start: Found,
        ef: usize,
    ) {
        self.begin(layers, rows, start);
        self.pool.reset(ef);
        self.pool.offer(start.fresh());
        let mut place = 0;
        while place < self.pool.found().len() {
            let Some(row) = self.pool.expand(place) else {
                place += 1;
                continue;
            };
            self.gather(layers.list(row, layer), rows);
            // Who is next, if nothing nearer is found now.
            if layer == 0
                && let Some(next) = self.pool.found().get(place + 1)
            {
                prefetch(layers.base(next.row()));
            }
            let mut first = place + 1;
            let pool = &mut self.pool;
            compare(query, rows, &self.batch, |found| {
                first = first.min(pool.offer(found).unwrap_or(first));
            });
            place = first;
        }
    }

    /// The same on layer 0 for the rows that `accept` takes: the others lead on and are not in the pool. Gives up once more
    /// than `most` rows were compared.
    pub(super) fn search_among(
        &mut self,
        layers: Layers<'_>,
        query: &Query8,
        rows: CodeRows<'_>,
        start: Found,
        (ef, most): (usize, usize),
        accept: impl Fn(u32) -> bool,
    ) {
        self.begin(layers, rows, start);
        self.pool.reset(ef);
        self.open.clear();
        take_if(&mut self.pool, &mut self.open, layers, start.fresh(), &accept);
        while let Some(Reverse(next)) = self.open.pop() {
            if self.pool.is_beyond(next) || self.compared > most {
                return;
            }
            self.gather(layers.base(next.row()), rows);
            if let Some(Reverse(next)) = self.open.peek() {
                prefetch(layers.base(next.row()));
            }
            let (pool, open) = (&mut self.pool, &mut self.open);
            compare(query, rows, &self.batch, |found| take_if(pool, open, layers, found, &accept));
        }
    }

    fn begin(&mut self, layers: Layers<'_>, rows: CodeRows<'_>, start: Found) {
        self.visited.reset(layers.len().min(rows.len()));
        self.visited.first_time(start.row());
        self.compared = 1;
    }

    /// Takes the neighbours that were not seen before as the next batch and asks for their memory.
    #[inline]
    fn gather(&mut self, list: &[u32], rows: CodeRows<'_>) {
        self.batch.clear();
        for row in list {
            match self.visited.first_time(*row) {
                Some(true) => {
                    rows.prefetch(*row as usize);
                    self.batch.push(*row);
                }
                Some(false) => {}
                // The first unused place.
                None => break,
            }
        }
        self.compared += self.batch.len();
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

/// Compares the question with rows that there are, four at a time.
#[inline]
fn compare(query: &Query8, rows: CodeRows<'_>, batch: &[u32], mut take: impl FnMut(Found)) {
    let mut take = |row: u32, dot: i32| {
        take(Found::new(query.cosine(dot, rows.scale(row as usize)), row));
    };
    for four in batch.chunks(4) {
        match *four {
            [a] => take(a, query.dot(rows.row(a as usize))),
            // Four at once cost less than two and three one by one: the last one fills up.
            [a, b, ref rest @ ..] => {
                let c = rest.first().copied().unwrap_or(b);
                let d = rest.get(1).copied().unwrap_or(c);
                let dots = query.dot4([a, b, c, d].map(|row| rows.row(row as usize)));
                four.iter().zip(dots).for_each(|(row, dot)| take(*row, dot));
            }
            [] => {}
        }
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
