//! The neighbours of rows, by layer, wherever they lie.

use super::super::codes::{CodeRows, Query8};
use super::found::Found;
use super::scratch::{Scratch, compare_one};
use super::{M, M0, NONE};
use fixedbitset::FixedBitSet;

/// A graph to walk on: borrowed from a file or from what is being built.
///
/// Nothing is taken for granted of the numbers: a list that is not there is empty, and whoever follows one compares it with
/// the number of rows, which also ends a list at its first unused place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layers<'a> {
    /// Where the walk begins, and the layer it begins on.
    pub(super) entry: u32,
    pub(super) top: usize,
    /// By row, its neighbours on layer 0.
    pub(super) base: &'a [[u32; M0]],
    /// By row and one more, lists of higher layers before its own.
    pub(super) offsets: &'a [u32],
    pub(super) high: &'a [[u32; M]],
    /// By row, the next that equals it; empty when no row has one.
    pub(super) twins: &'a [u32],
}

impl<'a> Layers<'a> {
    /// How many rows it is a graph of.
    pub(super) fn len(&self) -> usize {
        self.base.len()
    }

    /// Highest layer of a row.
    pub(super) fn level(&self, row: u32) -> usize {
        match self.offsets.get(row as usize..) {
            Some([start, end, ..]) => end.saturating_sub(*start) as usize,
            _ => 0,
        }
    }

    /// The neighbours of a row on layer 0; the first unused place ends them.
    #[inline]
    pub(super) fn base(&self, row: u32) -> &'a [u32] {
        self.base.get(row as usize).map_or(&[], |list| list)
    }

    /// The neighbours of a row on a layer.
    #[inline]
    pub(super) fn list(&self, row: u32, layer: usize) -> &'a [u32] {
        let Some(above) = layer.checked_sub(1) else { return self.base(row) };
        if above >= self.level(row) {
            return &[];
        }
        let place = self.offsets.get(row as usize).map(|start| *start as usize + above);
        place.and_then(|place| self.high.get(place)).map_or(&[], |list| list)
    }

    /// A row and those that equal it. They rise, so that a damaged file leads nowhere for ever.
    #[inline]
    pub(super) fn with_twins(&self, row: u32) -> impl Iterator<Item = u32> {
        let (twins, count) = (self.twins, self.len() as u32);
        std::iter::successors(Some(row), move |row| {
            twins.get(*row as usize).copied().filter(|next| next > row && *next < count)
        })
    }

    /// From the entry point down to the layer above `layer`, on each to the row that has no nearer neighbour.
    pub(super) fn descend(
        &self,
        query: &Query8,
        rows: CodeRows<'_>,
        layer: usize,
        scratch: &mut Scratch,
    ) -> Option<Found> {
        if self.entry as usize >= self.len().min(rows.len()) {
            return None;
        }
        let mut best = compare_one(query, rows, self.entry);
        for layer in (layer + 1..=self.top).rev() {
            loop {
                let nearest = scratch.nearest_of(query, rows, self.list(best.row(), layer));
                match nearest.filter(|nearest| *nearest < best) {
                    Some(nearest) => best = nearest,
                    None => break,
                }
            }
        }
        Some(best)
    }

    /// Marks every row that links of layer 0 lead to from `start`, and that is not marked yet.
    pub(super) fn mark_reachable(&self, start: u32, reached: &mut FixedBitSet) {
        let mut open = Vec::new();
        let mut visit = |row: u32, open: &mut Vec<u32>| {
            if (row as usize) < reached.len() && !reached.put(row as usize) {
                open.push(row);
            }
        };
        visit(start, &mut open);
        while let Some(row) = open.pop() {
            self.base(row).iter().take_while(|next| **next != NONE).for_each(|next| visit(*next, &mut open));
        }
    }
}
