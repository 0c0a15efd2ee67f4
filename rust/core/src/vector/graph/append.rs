//! Adding a row to a graph.
//!
//! The algorithm is that of `hnsw_rs`, over flat lists: down to the row's level, then on each layer a search for
//! neighbours, of which those are taken that are nearer to the row than to any taken before; a neighbour whose list is full
//! gives up its farthest for the row. Layers are drawn by the number of the row, so that they need no state.

use super::super::codes::{CodeRows, Pairs, Query8};
use super::super::mixed::mixed;
use super::found::Found;
use super::links::Links;
use super::scratch::Scratch;
use super::{EF_CONSTRUCTION, M, M0, MAX_LEVEL};

/// Of the levels: graphs hold what comes of it.
const SEED: u64 = 0x6F74_6F6C_6974_6800;

/// Adds the next row. `chosen` is room for the choice.
pub(super) fn append(
    links: &mut Links,
    rows: CodeRows<'_>,
    pairs: Pairs<'_>,
    scratch: &mut Scratch,
    chosen: &mut Vec<Found>,
) {
    let level = level_of(links.len() as u32);
    let first = links.len() == 0;
    let row = links.add(level);
    if first {
        links.enter_at(row, level);
        return;
    }
    let query = Query8::of_row(rows.row(row as usize), rows.scale(row as usize));
    let top = links.layers(&[]).top;
    let Some(mut start) = links.layers(&[]).descend(&query, rows, level, scratch) else { return };
    for layer in (0..=level.min(top)).rev() {
        scratch.search_layer(links.layers(&[]), layer, &query, rows, &[start], EF_CONSTRUCTION);
        choose(pairs, scratch.pool.found(), if layer == 0 { M0 } else { M }, chosen);
        let Some(nearest) = chosen.first() else { return };
        start = *nearest;
        for found in &*chosen {
            links.push(row, layer, found.row(), found.cosine());
            links.push_nearer(found.row(), layer, row, found.cosine());
        }
    }
    if level > top {
        links.enter_at(row, level);
    }
}

/// Highest layer of a row: `l` or higher for one row in `M^l`.
fn level_of(row: u32) -> usize {
    /// Bits of a random number that make a layer: `M` is 2 to the power of them.
    const BITS: u32 = M.trailing_zeros();
    ((mixed(SEED, u64::from(row)).leading_zeros() / BITS) as usize).min(MAX_LEVEL)
}

/// Of rows in order, up to `most` of which each is nearer to the question than to any before it; all, if they are not more.
fn choose(pairs: Pairs<'_>, found: &[Found], most: usize, chosen: &mut Vec<Found>) {
    chosen.clear();
    if found.len() <= most {
        chosen.extend_from_slice(found);
        return;
    }
    for found in found {
        if chosen.len() == most {
            return;
        }
        let (row, own) = (found.row(), found.cosine());
        let nearer = chosen.chunks(4).any(|four| match *four {
            [a, b, c, d] => {
                pairs.cosines(row, [a, b, c, d].map(Found::row)).iter().any(|cosine| *cosine >= own)
            }
            _ => four.iter().any(|other| pairs.cosine(row, other.row()) >= own),
        });
        if !nearer {
            chosen.push(*found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are stored: another generator would be another graph.
    #[test]
    fn levels_are_those_that_were_recorded() {
        let count = |level: usize| (0..1 << 16).filter(|row| level_of(*row) >= level).count();
        assert_eq!([0, 1, 2, 3, 4].map(count), [65_536, 4_026, 257, 15, 0]);
        let high: Vec<u32> = (0..200).filter(|row| level_of(*row) > 0).collect();
        assert_eq!(high, [6, 10, 11, 27, 52, 60, 106, 108, 124, 138, 141, 158, 181]);
    }
}
