//! A graph in memory that rows are added to.

use super::super::codes::Pairs;
use super::layers::Layers;
use super::{M, M0, MAX_LEVEL, NONE};

/// Lists of neighbours, each neighbour with its cosine, so that the farthest is known.
#[derive(Debug, Default)]
pub(super) struct Links {
    entry: u32,
    top: usize,
    base: Vec<[u32; M0]>,
    base_cosines: Vec<[f32; M0]>,
    offsets: Vec<u32>,
    high: Vec<[u32; M]>,
    high_cosines: Vec<[f32; M]>,
}

impl Links {
    /// Of no rows, with room for so many.
    pub(super) fn with_capacity(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            base: Vec::with_capacity(rows),
            base_cosines: Vec::with_capacity(rows),
            offsets,
            ..Self::default()
        }
    }

    /// Takes over a graph; None when its lists name rows that are not there, or are not those of its levels.
    pub(super) fn copy(layers: Layers<'_>, rows: usize, pairs: Pairs<'_>) -> Option<Self> {
        let mut links = Self::with_capacity(rows);
        let count = layers.len() as u32;
        for row in 0..count {
            let level = layers.level(row);
            if level > MAX_LEVEL || links.offsets.last() != layers.offsets.get(row as usize) {
                return None;
            }
            links.add(level);
            for layer in 0..=level {
                for next in layers.list(row, layer).iter().take_while(|next| **next != NONE) {
                    if *next >= count || layers.level(*next) < layer {
                        return None;
                    }
                    links.push(row, layer, *next, pairs.cosine(row, *next));
                }
            }
        }
        if count > 0 && (layers.entry >= count || layers.level(layers.entry) != layers.top) {
            return None;
        }
        (links.entry, links.top) = (layers.entry, layers.top);
        Some(links)
    }

    /// How many rows it is a graph of.
    pub(super) fn len(&self) -> usize {
        self.base.len()
    }

    pub(super) fn layers<'a>(&'a self, twins: &'a [u32]) -> Layers<'a> {
        Layers {
            entry: self.entry,
            top: self.top,
            base: &self.base,
            offsets: &self.offsets,
            high: &self.high,
            twins,
        }
    }

    /// Adds the next row, without neighbours; gives its number.
    pub(super) fn add(&mut self, level: usize) -> u32 {
        let row = self.base.len() as u32;
        self.base.push([NONE; M0]);
        self.base_cosines.push([0.0; M0]);
        let lists = self.high.len() + level;
        self.high.resize(lists, [NONE; M]);
        self.high_cosines.resize(lists, [0.0; M]);
        self.offsets.push(lists as u32);
        row
    }

    /// Has walks begin at a row.
    pub(super) fn enter_at(&mut self, row: u32, level: usize) {
        (self.entry, self.top) = (row, level);
    }

    fn list_mut(&mut self, row: u32, layer: usize) -> Option<(&mut [u32], &mut [f32])> {
        let at = row as usize;
        let Some(above) = layer.checked_sub(1) else {
            return Some((self.base.get_mut(at)?, self.base_cosines.get_mut(at)?));
        };
        let (start, end) = (*self.offsets.get(at)? as usize, *self.offsets.get(at + 1)? as usize);
        let place = start + above;
        if place >= end {
            return None;
        }
        Some((self.high.get_mut(place)?, self.high_cosines.get_mut(place)?))
    }

    /// Puts a neighbour behind the others; false when there is no place.
    pub(super) fn push(&mut self, row: u32, layer: usize, next: u32, cosine: f32) -> bool {
        let Some((list, cosines)) = self.list_mut(row, layer) else { return false };
        let place = list.iter().position(|other| *other == NONE);
        if let Some(place) = place {
            (list[place], cosines[place]) = (next, cosine);
        }
        place.is_some()
    }

    /// The same; where there is no place it takes that of the farthest, if it is nearer.
    pub(super) fn push_nearer(&mut self, row: u32, layer: usize, next: u32, cosine: f32) {
        if self.push(row, layer, next, cosine) {
            return;
        }
        let Some((list, cosines)) = self.list_mut(row, layer) else { return };
        let mut farthest = 0;
        for place in 1..list.len() {
            if (cosines[place], list[farthest]) < (cosines[farthest], list[place]) {
                farthest = place;
            }
        }
        if cosine > cosines[farthest] {
            (list[farthest], cosines[farthest]) = (next, cosine);
        }
    }

    /// Puts `next` in place of the farthest neighbour on layer 0 that `spare` says can be done without; gives who it was.
    pub(super) fn replace(
        &mut self,
        row: u32,
        next: u32,
        cosine: f32,
        spare: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (list, cosines) = self.list_mut(row, 0)?;
        let places = (0..list.len()).filter(|place| list[*place] != NONE && spare(list[*place]));
        let place =
            places.min_by(|a, b| cosines[*a].total_cmp(&cosines[*b]).then(list[*b].cmp(&list[*a])))?;
        let old = list[place];
        (list[place], cosines[place]) = (next, cosine);
        Some(old)
    }
}
