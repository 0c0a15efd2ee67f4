//! The neighbourhood of a question, by codes alone: what the sum of two legs is decided by before anything is scored.

use super::codes::{CodeRows, Query8};
use super::graph::Graph;
use super::row::{Refusal, UnitRow};
use super::search::{AHEAD, Effort, walk};
use super::set::VectorSet;
use super::signs::SignQuery;
use super::table::{Candidate, DEVIATIONS, Pool, Table};
use crate::ids::DocId;
use fixedbitset::FixedBitSet;
use std::borrow::Cow;

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
        let mut found: Vec<(usize, Option<Between>)> = Vec::with_capacity(docs.len());
        let mut places: Vec<Place<'_>> = Vec::with_capacity(docs.len());
        self.each_place(docs, |at, part, rows| match rows {
            None => found.push((at, None)),
            Some((rows, span)) => {
                let codes = rows.codes();
                places.extend(span.map(|row| Place { at, part, codes, row: row as u32 }));
            }
        });
        for group in places.chunk_by(|a, b| a.part == b.part) {
            let all = Cow::Borrowed(group);
            let likely = if reach.exact { all } else { self.likely(group, &reach.query, &can_count) };
            for (at, one) in likely.iter().enumerate() {
                if let Some(later) = likely.get(at + AHEAD) {
                    later.codes.prefetch(later.row as usize);
                }
                let Place { at, codes, row, .. } = *one;
                let scale = codes.scale(row as usize);
                let cosine = reach.query.cosine(reach.query.dot(codes.row(row as usize)), scale);
                let between = Between::around(cosine, reach.query.spread(scale));
                match found.last_mut() {
                    Some((last, Some(other))) if *last == at => *other = other.or(between),
                    _ => found.push((at, Some(between))),
                }
            }
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        found
    }

    /// The rows of one part that can count, see [`VectorSet::between`].
    fn likely<'a>(
        &self,
        places: &'a [Place<'a>],
        query: &Query8,
        can_count: impl Fn(usize, f32) -> bool,
    ) -> Cow<'a, [Place<'a>]> {
        let all = Cow::Borrowed(places);
        let Some(part) = places.first().map(|place| place.part) else { return all };
        let Some(signs) = self.graph_of(part).and_then(Graph::signs) else { return all };
        let Some(asked) = SignQuery::new(query, signs, DEVIATIONS) else { return all };
        let has_signs = |place: &Place<'_>| (place.row as usize) < signs.len();
        let rows: Vec<u32> = places.iter().filter(|place| has_signs(place)).map(|place| place.row).collect();
        let mut most = vec![0.0; rows.len()];
        asked.most(&rows, &mut most);
        let mut most = most.into_iter();
        let mut can_count = |place: &&Place<'_>| {
            let most = if has_signs(place) { most.next() } else { None };
            most.is_none_or(|most| can_count(place.at, most))
        };
        places.iter().filter(|place| can_count(place)).copied().collect()
    }
}

/// A row of a document that is asked about.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    /// Which document it is of.
    at: usize,
    part: usize,
    codes: CodeRows<'a>,
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
