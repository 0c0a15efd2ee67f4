//! The neighbourhood of a question, by codes alone: what the sum of two legs is decided by before anything is scored.

use super::codes::Query8;
use super::graph::Graph;
use super::row::{Refusal, UnitRow};
use super::search::{AHEAD, Effort, walk};
use super::set::VectorSet;
use super::signs::SignQuery;
use super::table::{Candidate, DEVIATIONS, Pool, Table};
use crate::ids::DocId;
use fixedbitset::FixedBitSet;

/// Between what a cosine can be expected to lie, see [`super::search`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Between {
    pub(crate) least: f32,
    pub(crate) most: f32,
}

impl Between {
    fn around(cosine: f32, spread: f32) -> Self {
        Self { least: cosine - spread, most: cosine + spread }
    }

    /// Of a document that has both rows: it scores by the better one.
    fn or(self, other: Self) -> Self {
        Self { least: self.least.max(other.least), most: self.most.max(other.most) }
    }
}

/// Documents near a question.
#[derive(Debug)]
pub(crate) struct Reach {
    query: Query8,
    /// Signs are not to be looked at.
    exact: bool,
    /// In order of their numbers.
    pub(crate) found: Vec<(DocId, Between)>,
    /// No cosine of another document can be expected to be above it; None when all that may be found were.
    pub(crate) rest: Option<f32>,
    /// Rows that were looked through one by one.
    pub(crate) compared: usize,
    /// Rows that have a graph which was walked on instead.
    pub(crate) walked: usize,
}

impl VectorSet {
    /// The documents of the `depth` rows that are nearest to `query` by their codes, of those that may be found. None
    /// when there are no rows.
    ///
    /// # Errors
    /// [`Refusal::Width`] when the query is not as wide as the rows.
    pub(crate) fn reach(
        &self,
        query: &UnitRow,
        depth: usize,
        allowed: Option<&FixedBitSet>,
        effort: Effort,
    ) -> Result<Option<Reach>, Refusal> {
        if !self.fits(query)? {
            return Ok(None);
        }
        let mut tables = self.tables(allowed);
        let query = Query8::new(query.as_slice());
        let ef = effort.ef.unwrap_or(depth).max(depth);
        let walked = if effort.exact { Vec::new() } else { walk(&mut tables, &query, allowed, (ef, ef), ef) };
        let mut pool = Pool::new(depth, f32::NEG_INFINITY);
        let compared = tables.iter().map(Table::len).sum();
        for (table, at) in tables.iter_mut().zip(0..) {
            if !effort.exact {
                table.sift(&query, depth);
            }
            table.look_through(&query, allowed, at, &mut pool);
        }
        let mut rest = Some(pool.close()).filter(|least| *least > f32::NEG_INFINITY);
        // A walk that keeps fewer than there are may have passed by what is no nearer than its last; each of its own.
        for (table, at) in tables.iter().zip(0..) {
            let own = walked.iter().filter(|found| found.1 == at).map(|found| found.0);
            if table.passed_by {
                let last = own.fold(f32::INFINITY, f32::min);
                rest = Some(rest.map_or(last, |rest| rest.max(last)));
            }
        }
        pool.found.extend_from_slice(&walked);
        let found = documents(&tables, &query, &pool.found);
        let walked = tables.iter().map(|table| table.walked).sum();
        Ok(Some(Reach { query, exact: effort.exact, found, rest, compared, walked }))
    }

    /// Between what the cosines of documents with the question lie, by codes, each with its place in `docs`: of all that can
    /// count. None where a document has no row.
    ///
    /// `can_count` is asked about a place and the most that the document's cosine can be as far as signs tell, where there
    /// are signs.
    pub(crate) fn between(
        &self,
        reach: &Reach,
        docs: &[DocId],
        can_count: impl Fn(usize, f32) -> bool,
    ) -> Vec<(usize, Option<Between>)> {
        let mut found: Vec<(usize, Option<Between>)> = Vec::new();
        let mut places: Vec<Place> = Vec::with_capacity(docs.len());
        let parts = self.each_place(docs, |at, part, span| {
            if span.is_empty() {
                found.push((at, None));
            }
            places.extend(span.map(|row| Place { at: at as u32, part: part as u32, row: row as u32 }));
        });
        for group in places.chunk_by_mut(|a, b| a.part == b.part) {
            let part = group[0].part as usize;
            let Some(rows) = &parts[part] else { continue };
            let codes = rows.codes();
            let kept =
                if reach.exact { group.len() } else { self.keep_likely(group, &reach.query, &can_count) };
            let likely = &group[..kept];
            for (place, one) in likely.iter().enumerate() {
                if let Some(later) = likely.get(place + AHEAD) {
                    codes.prefetch(later.row as usize);
                }
                let (at, row) = (one.at as usize, one.row as usize);
                let cosine = reach.query.cosine(reach.query.dot(codes.row(row)), codes.scale(row));
                let between = Between::around(cosine, reach.query.spread(codes.scale(row)));
                match found.last_mut() {
                    Some((last, Some(other))) if *last == at => *other = other.or(between),
                    _ => found.push((at, Some(between))),
                }
            }
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        found
    }

    /// Puts the rows of one part that can count first, in their order: how many these are. See [`VectorSet::between`].
    fn keep_likely(
        &self,
        places: &mut [Place],
        query: &Query8,
        can_count: impl Fn(usize, f32) -> bool,
    ) -> usize {
        let signs =
            places.first().and_then(|place| self.graph_of(place.part as usize)).and_then(Graph::signs);
        let Some(signs) = signs else { return places.len() };
        let Some(asked) = SignQuery::new(query, signs) else { return places.len() };
        // Rows that came since have none.
        let has_signs = |place: &Place| (place.row as usize) < signs.len();
        let mut rows: Vec<u32> = Vec::with_capacity(places.len());
        rows.extend(places.iter().filter(|place| has_signs(place)).map(|place| place.row));
        let mut most = vec![0.0; rows.len()];
        asked.most(DEVIATIONS, &rows, &mut most);
        let (mut most, mut kept) = (most.into_iter(), 0);
        for at in 0..places.len() {
            let place = places[at];
            let most = if has_signs(&place) { most.next() } else { None };
            if most.is_none_or(|most| can_count(place.at as usize, most)) {
                places[kept] = place;
                kept += 1;
            }
        }
        kept
    }
}

/// A row of a document that is asked about.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Which document it is of.
    at: u32,
    part: u32,
    row: u32,
}

/// The documents of candidates, in order of their numbers.
fn documents(tables: &[Table<'_>], query: &Query8, candidates: &[Candidate]) -> Vec<(DocId, Between)> {
    let document = |(most, table, row): &Candidate| {
        let (table, row) = (&tables[*table as usize], *row as usize);
        let least = most - 2.0 * query.spread(table.rows.codes().scale(row));
        (DocId(table.base + table.docs[row]), Between { least, most: *most })
    };
    let mut found: Vec<(DocId, Between)> = candidates.iter().map(document).collect();
    found.sort_unstable_by_key(|(doc, _)| *doc);
    found.dedup_by(|(doc, between), (kept, all)| {
        let same = doc == kept;
        if same {
            *all = all.or(*between);
        }
        same
    });
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Builder, Graph, VectorSegment};
    use super::*;
    use crate::sections::Sections;

    #[test]
    fn what_is_left_is_below_the_last_of_the_nearest_graph() {
        // All rows of the first segment are nearer than any of the second.
        let mut set = VectorSet::new(Some(8));
        for base in [0.0_f32, 4.0] {
            let mut part = VectorSet::new(Some(8));
            for doc in 0..1_200_u32 {
                let turn = doc as f32 * 2e-4;
                part.insert(DocId(doc), &[&[1.0, base + turn, turn * turn, 0.0, 0.0, 0.0, 0.0, 0.0]])
                    .unwrap();
            }
            let sections = Sections::in_memory(|out| {
                VectorSegment::write(out, part.dim(), 1_200, |doc| part.rows_of(doc))
            });
            let segment = VectorSegment::open(&sections.unwrap()).unwrap().unwrap();
            let graph = {
                let mut builder = Builder::begin(segment.codes().unwrap(), None).unwrap();
                assert!(builder.run(&|| false).unwrap());
                let sections = Sections::in_memory(|out| builder.write(out)).unwrap();
                Graph::open(&sections).unwrap().unwrap()
            };
            let segment = segment.with_graph(Some(graph));
            set.add_segment(Some(segment), 1_200, &FixedBitSet::with_capacity(1_200)).unwrap();
        }
        let query = UnitRow::new(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], None).unwrap();
        let reach = set.reach(&query, 100, None, Effort::default()).unwrap().unwrap();
        assert_eq!(reach.walked, 2_400);
        let left = set.cosines(&query, None, 2_400).unwrap();
        let is_found = |doc: u32| reach.found.iter().any(|(found, _)| found.0 == doc);
        let best = (0..2_400).filter(|doc| !is_found(*doc)).map(|doc| left[doc as usize]);
        let best = best.fold(f32::NEG_INFINITY, f32::max);
        assert!(reach.rest.is_some_and(|rest| rest >= best), "{:?} is below {best}", reach.rest);
    }
}
