//! From a question to the rows that are near it.

use super::super::codes::{CodeRows, Query8};
use super::Graph;
use super::found::Found;
use super::layers::Layers;
use super::scratch::{Scratch, compare_one};

/// Rows that are kept on a walk unless said otherwise: .993 of the ten nearest of 100,000 rows made like embeddings are
/// among them, .982 with half of it.
pub(crate) const EF_SEARCH: usize = 128;

/// What a walk found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Walked {
    /// Rows with the cosines of their codes, the highest first, equal ones in order of their numbers.
    pub(crate) found: Vec<(u32, f32)>,
    /// Rows that were compared.
    pub(crate) compared: usize,
    /// Whether there are as many as were asked for, or all that could be found. If not, comparing all rows finds more.
    pub(crate) is_whole: bool,
}

impl Graph {
    /// The `ef` rows that are nearest to the question, nearly: of those the graph is one of.
    ///
    /// # Panics
    /// When the question has another width than the rows.
    pub(crate) fn walk(&self, query: &Query8, rows: CodeRows<'_>, ef: usize) -> Walked {
        Scratch::with(|scratch| {
            let layers = self.layers();
            if let Some(starts) = starts(layers, query, rows, ef, scratch) {
                scratch.search_layer(layers, 0, query, rows, &starts, ef);
            }
            let mut found = Vec::with_capacity(ef.min(scratch.pool.found().len()));
            for near in scratch.pool.found() {
                let room = ef - found.len();
                found.extend(layers.with_twins(near.row()).map(|row| (row, near.cosine())).take(room));
            }
            // Rows that are as near as others were put behind those of lower numbers; twins may be between.
            if !layers.twins.is_empty() {
                found.sort_by_key(|(row, cosine)| Found::new(*cosine, *row));
            }
            self.told(found, ef, scratch)
        })
    }

    /// The same among the rows that `accept` takes: tombstones and filters. Gives up once more than `most` rows were
    /// compared: where few are accepted, comparing those takes less time.
    ///
    /// # Panics
    /// As [`Graph::walk`].
    pub(crate) fn walk_among(
        &self,
        query: &Query8,
        rows: CodeRows<'_>,
        ef: usize,
        most: usize,
        accept: impl Fn(u32) -> bool,
    ) -> Walked {
        Scratch::with(|scratch| {
            let layers = self.layers();
            if let Some(starts) = starts(layers, query, rows, ef, scratch) {
                scratch.search_among(layers, query, rows, &starts, (ef, most), accept);
            }
            let found = scratch.pool.found().iter().map(|near| (near.row(), near.cosine())).collect();
            self.told(found, ef, scratch)
        })
    }

    fn told(&self, found: Vec<(u32, f32)>, ef: usize, scratch: &Scratch) -> Walked {
        let compared = scratch.compared;
        let is_whole = found.len() >= ef || compared >= self.nodes;
        Walked { found, compared, is_whole }
    }
}

/// The rows that a walk on layer 0 begins with: the one that the higher layers lead to, and the entry point, as every row can
/// be reached from that one (see [`super::repair`]), but not from each.
fn starts(
    layers: Layers<'_>,
    query: &Query8,
    rows: CodeRows<'_>,
    ef: usize,
    scratch: &mut Scratch,
) -> Option<[Found; 2]> {
    scratch.pool.reset(ef);
    scratch.compared = 0;
    if ef == 0 {
        return None;
    }
    let nearest = layers.descend(query, rows, 0, scratch)?;
    Some([nearest, compare_one(query, rows, layers.entry)])
}
