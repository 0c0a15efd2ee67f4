//! The graph of the first rows, built by the crate `hnsw_rs`.
//!
//! It is given numbers of rows and a distance over them, one row after the other, and what it built is taken out. Its lists
//! are not all of use: on layers above its own a row has what the search came by, and a list may name a row that is not on
//! its layer; both are left out. The crate panics on distances that are no number or negative: there are none, and a panic
//! is caught all the same.

use super::super::codes::{CodeRows, Pairs};
use super::found::Found;
use super::links::Links;
use super::{EF_CONSTRUCTION, M, M0, MAX_LEVEL};
use crate::error::{Error, Result};
use hnsw_rs::prelude::{Distance, Hnsw};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How far rows are from each other, by their numbers.
pub(super) struct Apart<'a>(pub(super) Pairs<'a>);

impl Distance<u32> for Apart<'_> {
    fn eval(&self, a: &[u32], b: &[u32]) -> f32 {
        let Some((a, b)) = a.first().zip(b.first()) else { return 0.0 };
        let far = 1.0 - self.0.cosine(*a, *b);
        // Not below 0 by rounding. Scales of a damaged segment may be any float: what is no number is near.
        if far > 0.0 { far.min(f32::MAX) } else { 0.0 }
    }
}

/// Builds the graph of the rows up to the last of `members`, which rise and are those that are in it. None when `stop` said
/// so, which is asked before each.
///
/// # Errors
/// [`Error::Internal`] when the crate panics; [`Error::Store`] when no thread can be started.
pub(super) fn build(
    rows: CodeRows<'_>,
    members: &[u32],
    capacity: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Links>> {
    build_by(Apart(Pairs::new(rows)), rows, members, capacity, stop)
}

fn build_by<D: Distance<u32> + Send + Sync>(
    distance: D,
    rows: CodeRows<'_>,
    members: &[u32],
    capacity: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Links>> {
    // What the crate built it frees on rayon's threads. Those would stay: the pool of the process starts for it, with a
    // thread for each processor. A pool of one thread ends with this call. Made first, since without it there is no way
    // out.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|error| Error::Store {
        path: std::path::PathBuf::new(),
        message: format!("no thread for building a graph: {error}; try again when fewer are running"),
        source: None,
    })?;
    let graph = Hnsw::<u32, D>::new(M, members.len().max(1), MAX_LEVEL + 1, EF_CONSTRUCTION, distance);
    let built = catch_unwind(AssertUnwindSafe(|| {
        for row in members {
            if stop() {
                return None;
            }
            graph.insert_slice((&[*row], *row as usize));
        }
        Some(take_out(&graph, rows, members, capacity))
    }));
    let freed = catch_unwind(AssertUnwindSafe(|| pool.install(move || drop(graph))));
    match (built, freed) {
        (Ok(built), Ok(())) => Ok(built),
        (Err(panic), _) | (_, Err(panic)) => {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Err(Error::Internal(format!("hnsw_rs, building a graph of {} vectors: {said}", members.len())))
        }
    }
}

/// A row's level and its neighbours by layer, as they lie in the crate.
type Point = (usize, Vec<Vec<Found>>);

fn take_out<D: Distance<u32> + Send + Sync>(
    graph: &Hnsw<'_, u32, D>,
    rows: CodeRows<'_>,
    members: &[u32],
    capacity: usize,
) -> Links {
    let pairs = Pairs::new(rows);
    let points = graph.get_point_indexation();
    let top = usize::from(points.get_max_level_observed());
    let mut by_row: Vec<Option<Point>> =
        members.last().map_or_else(Vec::new, |last| vec![None; *last as usize + 1]);
    let mut entry = None;
    for level in 0..=top {
        for point in points.get_layer_iterator(level) {
            let row = point.get_origin_id() as u32;
            let mut lists: Vec<Vec<Found>> = Vec::with_capacity(level + 1);
            for (layer, list) in point.get_neighborhood_id().iter().take(level + 1).enumerate() {
                let on_layer = list.iter().filter(|next| usize::from(next.p_id.0) >= layer);
                let others = on_layer.map(|next| next.d_id as u32).filter(|next| *next != row);
                let mut list: Vec<Found> =
                    others.map(|next| Found::new(pairs.cosine(row, next), next)).collect();
                list.sort_unstable();
                list.dedup();
                list.truncate(if layer == 0 { M0 } else { M });
                lists.push(list);
            }
            // The first row that came to the highest layer is where walks begin.
            if level == top && entry.is_none() {
                entry = Some(row);
            }
            if let Some(place) = by_row.get_mut(row as usize) {
                *place = Some((level, lists));
            }
        }
    }
    let mut links = Links::with_capacity(capacity);
    for point in by_row {
        let (level, lists) = point.unwrap_or_default();
        let row = links.add(level);
        for (layer, list) in lists.iter().enumerate() {
            for next in list {
                links.push(row, layer, next.row(), next.cosine());
            }
        }
    }
    if let Some(entry) = entry {
        links.enter_at(entry, top);
    }
    links
}

#[cfg(test)]
mod tests {
    use super::super::super::codes::CodeRows;
    use super::super::tests::TestRows;
    use super::*;

    /// The crate draws them with the generators of `rand`, which may be others in a later version: then the same rows would
    /// give another graph.
    #[test]
    fn levels_of_the_crate_are_those_that_were_recorded() {
        let data = TestRows::clustered(300, 8);
        let members: Vec<u32> = (0..300).collect();
        let links = build(data.rows(), &members, 300, &|| false).unwrap().unwrap();
        let layers = links.layers(&[]);
        let high: Vec<(u32, usize)> =
            (0..300).map(|row| (row, layers.level(row))).filter(|(_, level)| *level > 0).collect();
        let recorded = [
            (17, 1),
            (21, 1),
            (27, 1),
            (35, 1),
            (45, 1),
            (62, 1),
            (65, 1),
            (85, 2),
            (106, 1),
            (107, 1),
            (112, 2),
            (123, 1),
            (126, 1),
            (148, 1),
            (154, 1),
            (175, 1),
            (188, 3),
            (193, 1),
            (209, 1),
            (220, 1),
            (234, 1),
            (240, 2),
            (275, 2),
            (285, 2),
            (293, 1),
        ];
        assert_eq!(high, recorded);
        assert_eq!((layers.entry, layers.top), (188, 3));
    }

    struct Panics;

    impl Distance<u32> for Panics {
        fn eval(&self, a: &[u32], _: &[u32]) -> f32 {
            if a[0] == 7 { f32::NAN } else { 1.0 }
        }
    }

    #[test]
    fn a_panic_of_the_crate_is_an_error() {
        let data = TestRows::clustered(20, 8);
        let members: Vec<u32> = (0..20).collect();
        let error = build_by(Panics, data.rows(), &members, 20, &|| false).unwrap_err().to_string();
        assert!(error.contains("hnsw_rs, building a graph of 20 vectors"), "{error}");
    }

    #[test]
    fn scales_that_are_no_numbers_do_not_make_it_panic() {
        let data = TestRows::clustered(60, 8);
        let mut scales = data.rows().scales().to_vec();
        for (at, odd) in
            [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -1.0, 0.0].into_iter().enumerate()
        {
            scales[3 * at + 1] = odd;
        }
        let codes: Vec<u8> = (0..60).flat_map(|row| data.rows().row(row).to_vec()).collect();
        let rows = CodeRows::new(8, &codes, &scales).unwrap();
        let members: Vec<u32> = (0..60).collect();
        assert_eq!(build(rows, &members, 60, &|| false).unwrap().unwrap().len(), 60);
    }

    #[test]
    fn it_stops_when_told() {
        let data = TestRows::clustered(60, 8);
        let members: Vec<u32> = (0..60).collect();
        let asked = std::cell::Cell::new(0);
        let stop = || asked.replace(asked.get() + 1) == 30;
        assert!(build(data.rows(), &members, 60, &stop).unwrap().is_none() && asked.get() == 31);
    }
}
