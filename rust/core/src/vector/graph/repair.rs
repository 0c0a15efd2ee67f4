//! Rows that no path leads to are linked once more.
//!
//! A list that is full gives up its farthest neighbour, which may have been the last that led there.

use super::super::codes::{CodeRows, Query8};
use super::NONE;
use super::links::Links;
use super::scratch::Scratch;
use super::twins::Twins;
use fixedbitset::FixedBitSet;

/// Near rows that are asked for a place, at first; and when none of them has one.
const NEAR: [usize; 2] = [128, 2_048];

/// A neighbour that so many lead to can be done without in one list.
const SPARE: u32 = 4;

/// How often all is gone through: a neighbour that gave way may be out of reach then.
const ROUNDS: usize = 16;

/// Links rows that layer 0 does not lead to from the entry point; gives how many are left, which was none in every graph
/// that was seen.
pub(super) fn repair(links: &mut Links, rows: CodeRows<'_>, twins: &Twins, scratch: &mut Scratch) -> usize {
    let mut lost = unreachable(links, twins);
    for _ in 0..ROUNDS {
        if lost.is_empty() {
            break;
        }
        relink(links, rows, &lost, scratch);
        lost = unreachable(links, twins);
    }
    lost.len()
}

fn reachable(links: &Links) -> FixedBitSet {
    let layers = links.layers(&[]);
    let mut reached = FixedBitSet::with_capacity(layers.len());
    layers.mark_reachable(layers.entry, &mut reached);
    reached
}

/// Rows of the graph that layer 0 does not lead to from the entry point.
pub(super) fn unreachable(links: &Links, twins: &Twins) -> Vec<u32> {
    let reached = reachable(links);
    (0..links.len() as u32).filter(|row| !reached.contains(*row as usize) && !twins.is_later(*row)).collect()
}

fn relink(links: &mut Links, rows: CodeRows<'_>, lost: &[u32], scratch: &mut Scratch) {
    let mut reached = reachable(links);
    // By row, lists that it is in; counted when it is first asked for.
    let mut degrees: Vec<u32> = Vec::new();
    for row in lost.iter().copied() {
        if reached.contains(row as usize) {
            continue;
        }
        let query = Query8::of_row(rows.row(row as usize), rows.scale(row as usize));
        for (attempt, near) in NEAR.into_iter().enumerate() {
            let layers = links.layers(&[]);
            let Some(start) = layers.descend(&query, rows, 0, scratch) else { return };
            scratch.search_layer(layers, 0, &query, rows, &[start], near);
            let hosts = || scratch.pool.found().iter().filter(|host| reached.contains(host.row() as usize));
            let linked = hosts().any(|host| links.push(host.row(), 0, row, host.cosine()));
            if linked || attempt + 1 < NEAR.len() {
                if linked {
                    break;
                }
                continue;
            }
            if degrees.is_empty() {
                degrees = in_degrees(links);
            }
            for host in hosts() {
                let spare = |next: u32| degrees.get(next as usize).is_some_and(|degree| *degree > SPARE);
                let gone = links.replace(host.row(), row, host.cosine(), spare);
                if let Some(degree) = gone.and_then(|gone| degrees.get_mut(gone as usize)) {
                    *degree -= 1;
                    break;
                }
            }
        }
        links.layers(&[]).mark_reachable(row, &mut reached);
    }
}

fn in_degrees(links: &Links) -> Vec<u32> {
    let layers = links.layers(&[]);
    let mut degrees = vec![0; layers.len()];
    for row in 0..layers.len() as u32 {
        for next in layers.base(row).iter().take_while(|next| **next != NONE) {
            if let Some(degree) = degrees.get_mut(*next as usize) {
                *degree += 1;
            }
        }
    }
    degrees
}
