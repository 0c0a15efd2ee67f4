//! From a question to the rows that are near it.

use super::super::codes::{CodeRows, Query8};
use super::super::signs::SignQuery;
use super::Graph;
use super::found::Found;
use super::layers::Layers;
use super::scratch::{Scratch, compare_one};

/// Rows that are kept on a walk unless said otherwise: .993 of the ten nearest of 100,000 rows made like embeddings are
/// among them, .982 with half of it.
pub(crate) const EF_SEARCH: usize = 128;

/// Deviations that are added to what the signs of a row tell of its cosine, before it is passed by: a third of the rows are
/// compared, and nearly as many of the ten nearest are found as without (.991 of 100,000; .992 with one deviation).
pub(super) const DEVIATIONS: f32 = 0.5;

/// Codes of so many bytes are not in the caches: there it takes less time to look at signs first. Of 10,000 rows of 384 both
/// legs take a fifth more with them, of 100,000 a tenth less, vectors alone a sixth less.
const SIGNED: usize = if cfg!(test) { 128 << 10 } else { 16 << 20 };

/// With at least such a share of rows accepted, a walk is one over all.
const MANY: f64 = 0.25;

/// What a walk found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Walked {
    /// Rows with the cosines of their codes, the highest first, equal ones in order of their numbers.
    pub(crate) found: Vec<(u32, f32)>,
    /// Rows that were compared.
    pub(crate) compared: usize,
    /// Whether there are as many as were asked for, or all that could be found. If not, comparing all rows finds more.
    pub(crate) is_whole: bool,
    /// Whether there is no other row that could have been found.
    pub(crate) is_all: bool,
}

impl Graph {
    /// The `ef` rows that are nearest to the question, nearly: of those the graph is one of.
    ///
    /// # Panics
    /// When the question has another width than the rows.
    pub(crate) fn walk(&self, query: &Query8, rows: CodeRows<'_>, ef: usize) -> Walked {
        Scratch::with(|scratch| {
            let layers = self.layers();
            self.walk_all(query, rows, ef, scratch);
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

    fn walk_all(&self, query: &Query8, rows: CodeRows<'_>, ef: usize, scratch: &mut Scratch) {
        let layers = self.layers();
        let Some(starts) = starts(layers, query, rows, ef, scratch) else { return };
        match self.asked(query, rows) {
            Some(signs) => scratch.search_signs(layers, (query, rows), &signs, &starts, ef),
            None => scratch.search_layer(layers, 0, query, rows, &starts, ef),
        }
    }

    /// The same among the rows that `accept` takes, which are a `share` of all: tombstones and filters. Gives up once more
    /// than `most` rows were compared: where few are accepted, comparing those takes less time.
    ///
    /// Where many are accepted a walk over all rows finds some of them, `enough` where they lie as close as elsewhere, in less
    /// time than one that keeps apart what it found and what it goes on from. Where they do not, that one follows.
    ///
    /// # Panics
    /// As [`Graph::walk`].
    pub(crate) fn walk_among(
        &self,
        query: &Query8,
        rows: CodeRows<'_>,
        (ef, most): (usize, usize),
        (enough, share): (usize, f64),
        accept: impl Fn(u32) -> bool,
    ) -> Walked {
        Scratch::with(|scratch| {
            let layers = self.layers();
            if share >= MANY {
                let kept = (enough as f64 / share) as usize;
                self.walk_all(query, rows, kept, scratch);
                let near = scratch.pool.found().iter();
                let accepted = near.flat_map(|near| {
                    layers.with_twins(near.row()).filter(|row| accept(*row)).map(|row| (row, near.cosine()))
                });
                let mut found: Vec<(u32, f32)> = accepted.collect();
                if found.len() >= enough - enough / 4 {
                    found.sort_by_key(|(row, cosine)| Found::new(*cosine, *row));
                    found.truncate(ef);
                    let compared = scratch.compared;
                    let is_all = compared >= self.nodes && scratch.pool.found().len() < kept;
                    return Walked { found, compared, is_whole: true, is_all };
                }
            }
            if let Some(starts) = starts(layers, query, rows, ef, scratch) {
                let signs = self.asked(query, rows);
                scratch.search_among(layers, (query, rows), signs.as_ref(), &starts, (ef, most), accept);
            }
            let found = scratch.pool.found().iter().map(|near| (near.row(), near.cosine())).collect();
            self.told(found, ef, scratch)
        })
    }

    fn asked(&self, query: &Query8, rows: CodeRows<'_>) -> Option<SignQuery<'_>> {
        let signs = self.signs().filter(|_| rows.len() * rows.stride() >= SIGNED)?;
        SignQuery::new(query, signs)
    }

    fn told(&self, found: Vec<(u32, f32)>, ef: usize, scratch: &Scratch) -> Walked {
        let compared = scratch.compared;
        let is_all = compared >= self.nodes && found.len() < ef;
        Walked { is_whole: is_all || found.len() >= ef, is_all, found, compared }
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
