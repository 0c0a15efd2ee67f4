//! Search: the nearest documents, and what documents score.
//!
//! A score is the cosine of a unit row and a row of halves, see [`super::half`]: the same bits by every function here. The
//! nearest are found by comparing codes with every row that may be found and scoring those that can be among the best.
//!
//! **What codes leave open.** A cosine differs from that of the codes by the rounding of the row's components, each by half
//! a step `s` at most, and by that of the question's, of step `t`. If they are rounded independently, the difference has a
//! standard deviation of `sqrt((s^2 + t^2) / 12)`. Rows are put in order of the most their cosine can be expected to be, which
//! is [`super::table::SPREAD`]` (s + t)` above that of the codes, five to seven deviations; and when a row that was not scored may be as
//! near as the last of the answer, all that may be are scored. Up to 8 components nothing lies beyond it, as the
//! difference is at most `sqrt(width) / 2 (s + t)`; with more, a row is missed if it errs by more than that.

use super::codes::{Query8, stride};
use super::graph::EF_SEARCH;
use super::half;
use super::kernel::{Kernel, prefetch};
use super::row::{Refusal, UnitRow};
use super::set::{DEAD, VectorSet};
use super::table::{Candidate, Pool, Table};
use crate::ids::DocId;
use fixedbitset::FixedBitSet;

/// For each document asked for, rows that are scored; and how many at least. Codes alone have .994 of the ten best among
/// their ten best, all of them among the first 20. By estimate: of 10,000 random rows of 384 the 400th best is three times as
/// far behind the 200th as codes leave open, so that rows are seldom looked through again.
const POOL: (usize, usize) = (2, 100);

/// A walk that would compare more than one row in so many is not begun, or given up: each of them is waited for, where rows
/// one after the other are not.
const WORTH: usize = 4;

/// Rows ahead of the one that is scored that memory is asked for.
pub(super) const AHEAD: usize = 8;

/// Fewer rows of a width than these are compared one by one: until their codes take 8 MiB that takes a tenth of a
/// millisecond, and finds all.
pub fn exact_rows(dim: usize) -> usize {
    const BYTES: usize = 8 << 20;
    BYTES / stride(dim)
}

/// Rows of a width from which on they have a graph, and are walked on when words are asked for too: there a walk takes half the
/// time at 10,000 rows, and what it misses is far from the sum's best.
pub fn graph_rows(dim: usize) -> usize {
    exact_rows(dim) / 4
}

/// How hard to look where rows have a graph.
#[derive(Debug, Clone, Copy, Default)]
pub struct Effort {
    /// Rows that are kept on a walk; more find more and take longer. Not less than the documents asked for.
    pub ef: Option<usize>,
    /// Compare all rows instead.
    pub exact: bool,
    /// With fewer rows compare all of them, unless words are asked for too. None is as many as [`exact_rows`].
    pub exact_below: Option<usize>,
}

/// What was found, and how.
#[derive(Debug, Default)]
pub struct Near {
    /// Documents with their cosines, best first; all that are tied with the last.
    pub found: Vec<(DocId, f32)>,
    /// Rows that were looked through one by one.
    pub compared: usize,
    /// Rows that have a graph which was walked on instead.
    pub walked: usize,
    /// How often rows were looked through.
    pub(super) rounds: usize,
}

impl VectorSet {
    /// The `k` documents that are nearest to `query`, with their cosines, best first; equal ones in order of their numbers.
    ///
    /// `allowed` is indexed by document: what is not in it is not found. None allows all.
    ///
    /// # Errors
    /// [`Refusal::Width`] when the query is not as wide as the rows.
    pub fn nearest(
        &self,
        query: &UnitRow,
        k: usize,
        allowed: Option<&FixedBitSet>,
    ) -> Result<Vec<(DocId, f32)>, Refusal> {
        let mut best = self.look(query, k, allowed, Effort::default())?.found;
        best.truncate(k);
        Ok(best)
    }

    /// The same and all that are tied with the last of them, as `effort` says, and how it was done.
    ///
    /// # Errors
    /// As [`VectorSet::nearest`].
    pub fn look(
        &self,
        query: &UnitRow,
        k: usize,
        allowed: Option<&FixedBitSet>,
        effort: Effort,
    ) -> Result<Near, Refusal> {
        let mut near = Near::default();
        if !self.fits(query)? || k == 0 {
            return Ok(near);
        }
        let asked = Asked::new(query);
        let mut tables = self.tables(allowed);
        let codes = Query8::new(query.as_slice());
        let (mut limit, mut floor) = (k.saturating_mul(POOL.0).max(POOL.1), f32::NEG_INFINITY);
        let mut ef = (
            effort.ef.unwrap_or(EF_SEARCH).max(k),
            effort.ef.unwrap_or(EF_SEARCH / 2).max(k.saturating_mul(4)),
        );
        let rows: usize = tables.iter().map(Table::len).sum();
        let exact = effort.exact || rows < effort.exact_below.unwrap_or(exact_rows(query.as_slice().len()));
        let mut walked = if exact { Vec::new() } else { walk(&mut tables, &codes, allowed, ef, limit) };
        // Once, as what is left out then stays out.
        let compared: usize = tables.iter().map(Table::len).sum();
        if !effort.exact {
            for table in &mut tables {
                table.sift(&codes, k);
            }
        }
        loop {
            near.rounds += 1;
            let total: usize = tables.iter().map(Table::len).sum();
            // So many are scored that codes would leave none out.
            let all = limit >= total && floor == f32::NEG_INFINITY;
            let mut pool = Pool::new(limit, floor);
            for (table, at) in tables.iter().zip(0..) {
                if all {
                    table.each(allowed, |row, _| pool.found.push((f32::INFINITY, at, row as u32)));
                } else {
                    table.look_through(&codes, allowed, at, &mut pool);
                }
            }
            let left_out = pool.close();
            pool.found.extend_from_slice(&walked);
            if !all {
                leave_likely(&tables, &codes, k, &mut pool.found);
            }
            let mut best = asked.score(&tables, pool.found);
            best.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let last = best.get(k - 1).map(|last| last.1);
            let done = match last {
                Some(last) => left_out < last,
                None => left_out == f32::NEG_INFINITY && walked.is_empty(),
            };
            if done {
                if let Some(last) = last {
                    best.truncate(best.partition_point(|found| found.1 >= last));
                }
                near.found = best;
                near.compared = compared;
                near.walked = tables.iter().map(|table| table.walked).sum();
                return Ok(near);
            }
            if let Some(last) = last {
                (limit, floor) = (usize::MAX, last.next_down());
                continue;
            }
            // Many rows of few documents.
            limit = limit.saturating_mul(4);
            ef = (ef.0.saturating_mul(4), ef.1.saturating_mul(4));
            if !walked.is_empty() {
                walked = walk(&mut tables, &codes, allowed, ef, limit);
            }
        }
    }

    /// The cosine of each document's best row with `query`: NaN where a document has none.
    ///
    /// # Errors
    /// As [`VectorSet::nearest`].
    pub fn scores_of(&self, query: &UnitRow, docs: &[DocId]) -> Result<Vec<f32>, Refusal> {
        if !self.fits(query)? {
            return Ok(vec![f32::NAN; docs.len()]);
        }
        let asked = Asked::new(query);
        let mut places: Vec<(usize, usize, usize)> = Vec::with_capacity(docs.len());
        let parts = self.each_place(docs, |at, part, span| places.extend(span.map(|row| (at, part, row))));
        let row = |(_, part, row): (usize, usize, usize)| parts[part].as_ref().map(|rows| rows.half(row));
        let mut scores = vec![f32::NAN; docs.len()];
        for (at, place) in places.iter().enumerate() {
            if let Some(later) = places.get(at + AHEAD).and_then(|place| row(*place)) {
                prefetch(later.bits);
            }
            let score = &mut scores[place.0];
            if let Some(row) = row(*place) {
                // `max` takes the number when the other is NaN.
                *score = score.max(row.cosine(asked.kernel, &asked.lanes));
            }
        }
        Ok(scores)
    }

    /// The cosine of every allowed document's best row with `query`: NaN where a document has none.
    ///
    /// `allowed` is indexed by document; the answer has `max_doc` entries.
    ///
    /// # Errors
    /// As [`VectorSet::nearest`].
    pub fn cosines(
        &self,
        query: &UnitRow,
        allowed: Option<&FixedBitSet>,
        max_doc: usize,
    ) -> Result<Vec<f32>, Refusal> {
        let mut scores = vec![f32::NAN; max_doc];
        if !self.fits(query)? {
            return Ok(scores);
        }
        let asked = Asked::new(query);
        for table in self.tables(allowed) {
            table.each(allowed, |row, doc| {
                // A damaged segment may name documents that are not there.
                if let Some(best) = scores.get_mut(doc.index()) {
                    *best = best.max(table.rows.half(row).cosine(asked.kernel, &asked.lanes));
                }
            });
        }
        Ok(scores)
    }

    /// Whether there are rows to compare with.
    pub(super) fn fits(&self, query: &UnitRow) -> Result<bool, Refusal> {
        let found = query.as_slice().len();
        match self.dim() {
            Some(expected) if expected != found => Err(Refusal::Width { expected, found }),
            dim => Ok(dim.is_some()),
        }
    }

    /// Everything that may be looked through.
    pub(super) fn tables(&self, allowed: Option<&FixedBitSet>) -> Vec<Table<'_>> {
        let mut tables = Vec::with_capacity(self.segments.len() + 1);
        for part in &self.segments {
            let Some((rows, docs)) = part.segment.all() else { continue };
            let mut table = Table {
                rows,
                docs,
                base: part.base,
                max_doc: part.max_doc,
                dead: (part.dead_count > 0).then_some(&part.dead),
                graph: part.segment.graph(),
                shares: (1.0 - part.dead_count as f64 / f64::from(part.max_doc.max(1)), 1.0),
                listed: None,
                walked: 0,
                passed_by: false,
            };
            let mut from = 0;
            table.list(allowed, part.base, part.max_doc, part.segment.is_plain(), |doc| {
                let span = part.segment.span_from(from, DocId(doc.0 - part.base));
                from = span.end;
                span
            });
            tables.push(table);
        }
        if let Some((rows, docs)) = self.own() {
            let mut table = Table {
                rows,
                docs,
                base: 0,
                max_doc: DEAD,
                dead: None,
                graph: self.graph(),
                shares: (self.live_share(), 1.0),
                listed: None,
                walked: 0,
                passed_by: false,
            };
            table.list(allowed, self.first_own, DEAD - self.first_own, false, |doc| self.own_span(doc));
            tables.push(table);
        }
        tables
    }
}

/// Walks over the rows that have a graph, where that takes less than comparing them: which of them are likely to be
/// among the best. Tables that were walked say so. `ef` rows are kept on a walk, `enough` among those that
/// may be found, where they are many.
pub(super) fn walk(
    tables: &mut [Table<'_>],
    query: &Query8,
    allowed: Option<&FixedBitSet>,
    (ef, enough): (usize, usize),
    limit: usize,
) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (table, at) in tables.iter_mut().zip(0..) {
        (table.walked, table.passed_by) = (0, false);
        let Some(graph) = table.graph.filter(|_| table.listed.is_none()) else { continue };
        let (rows, codes) = (graph.len(), table.rows.codes());
        if rows > codes.len() || ef.saturating_mul(WORTH) > rows {
            continue;
        }
        let (live, admitted) = table.shares;
        let near = if live >= 1.0 && allowed.is_none() {
            graph.walk(query, codes, ef)
        } else {
            // Half of the length finds as much where half of the rows may be found: they lie as far away as all of them.
            let enough = enough.max((ef as f64 * admitted) as usize).min(ef);
            let accept = |row: u32| table.admitted(row as usize, allowed).is_some();
            graph.walk_among(query, codes, (ef, rows / WORTH), (enough, live * admitted), accept)
        };
        if near.is_whole {
            let most = |row: u32, cosine: f32| cosine + query.spread(codes.scale(row as usize));
            found.extend(near.found.iter().take(limit).map(|(row, cosine)| (most(*row, *cosine), at, *row)));
            (table.walked, table.passed_by) = (rows, !near.is_all);
        }
    }
    found
}

/// Leaves the rows that can be among those of the nearest `k` documents: codes tell of a hundred which twenty that are.
fn leave_likely(tables: &[Table<'_>], query: &Query8, k: usize, found: &mut Vec<Candidate>) {
    let least = found.iter().map(|(most, table, row)| {
        let table = &tables[*table as usize];
        (table.document(*row), most - 2.0 * query.spread(table.rows.codes().scale(*row as usize)))
    });
    if let Some(bar) = kth_best(least, k) {
        found.retain(|found| found.0 >= bar);
    }
}

/// What the `k`th best document has at least, given what rows of documents have; None when there are not so many.
pub(super) fn kth_best(rows: impl Iterator<Item = (DocId, f32)>, k: usize) -> Option<f32> {
    /// What rounding does to a cosine with a margin.
    const ROUNDING: f32 = 1e-6;
    let mut rows: Vec<(DocId, f32)> = rows.collect();
    if rows.len() < k {
        return None;
    }
    rows.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
    rows.dedup_by_key(|row| row.0);
    let at = k.checked_sub(1).filter(|at| *at < rows.len())?;
    Some(rows.select_nth_unstable_by(at, |a, b| b.1.total_cmp(&a.1)).1.1 - ROUNDING)
}

/// A question, as rows are scored.
struct Asked {
    kernel: Kernel,
    lanes: Vec<f32>,
}

impl Asked {
    fn new(query: &UnitRow) -> Self {
        Self { kernel: Kernel::current(), lanes: half::lanes(query.as_slice()) }
    }

    /// The documents of these rows, each with its best row's cosine.
    fn score(&self, tables: &[Table<'_>], mut found: Vec<Candidate>) -> Vec<(DocId, f32)> {
        // In the order they lie in.
        found.sort_unstable_by_key(|(_, table, row)| (*table, *row));
        let row = |(_, table, row): &Candidate| (&tables[*table as usize], *row as usize);
        let mut best: Vec<(DocId, f32)> = Vec::with_capacity(found.len());
        for (at, candidate) in found.iter().enumerate() {
            if let Some((table, row)) = found.get(at + AHEAD).map(row) {
                prefetch(table.rows.half(row).bits);
            }
            let (table, row) = row(candidate);
            let cosine = table.rows.half(row).cosine(self.kernel, &self.lanes);
            if !cosine.is_nan() {
                best.push((DocId(table.base + table.docs[row]), cosine));
            }
        }
        if best.iter().zip(best.iter().skip(1)).any(|(a, b)| a.0 >= b.0) {
            best.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
            best.dedup_by_key(|found| found.0);
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::super::VectorSegment;
    use super::super::clustered::clustered;
    use super::super::table::SPREAD;
    use super::*;
    use crate::sections::Sections;
    use proptest::prelude::*;

    /// What `nearest` promises, by every score there is.
    fn naive(
        set: &VectorSet,
        query: &UnitRow,
        k: usize,
        allowed: Option<&FixedBitSet>,
        max_doc: usize,
    ) -> Vec<(DocId, f32)> {
        let scores = set.cosines(query, allowed, max_doc).unwrap();
        let mut best: Vec<(DocId, f32)> =
            scores.into_iter().zip(0..).map(|(score, doc)| (DocId(doc), score)).collect();
        best.retain(|(_, score)| !score.is_nan());
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        best.truncate(k);
        best
    }

    /// The rows as documents: those of the first two thirds in two segments, with every seventh dead.
    fn spread(rows: &[Vec<f32>], segments: bool) -> VectorSet {
        let mut set = VectorSet::new(Some(rows[0].len()));
        let third = rows.len() / 3;
        let mut first_own = 0;
        for rows in rows.chunks(third.max(1)).take(if segments { 2 } else { 0 }) {
            let mut part = VectorSet::new(Some(rows[0].len()));
            let mut dead = FixedBitSet::with_capacity(rows.len());
            for (row, doc) in rows.iter().zip(0..) {
                part.insert(DocId(doc), &[row]).unwrap();
                dead.set(doc as usize, doc % 7 == 0);
            }
            let max_doc = rows.len() as u32;
            let sections = Sections::in_memory(|out| {
                VectorSegment::write(out, part.dim(), max_doc, |doc| part.rows_of(doc))
            });
            let segment = VectorSegment::open(&sections.unwrap()).unwrap();
            set.add_segment(segment, max_doc, &dead).unwrap();
            first_own += rows.len();
        }
        for (row, doc) in rows.iter().zip(0..).skip(first_own) {
            set.insert(DocId(doc), &[row]).unwrap();
        }
        set
    }

    #[test]
    fn the_nearest_are_those_of_all_scores_on_clustered_rows() {
        for (width, segments) in [(384, true), (384, false), (65, true), (8, true), (1, false)] {
            let (rows, questions) = clustered(3_000, width, 40);
            let set = spread(&rows, segments);
            let mut again = 0;
            for (question, number) in questions.iter().zip(0..) {
                let query = UnitRow::new(question, None).unwrap();
                let mut allowed = FixedBitSet::with_capacity(rows.len());
                (0..rows.len())
                    .filter(|doc| doc % (1 << (number % 8)) == 0)
                    .for_each(|doc| allowed.insert(doc));
                for allowed in [None, Some(&allowed)] {
                    for k in [1, 10, 100, 5_000] {
                        let expected = naive(&set, &query, k, allowed, rows.len());
                        assert_eq!(set.nearest(&query, k, allowed).unwrap(), expected, "{width} {k}");
                    }
                }
                again += usize::from(set.look(&query, 10, None, Effort::default()).unwrap().rounds > 1);
            }
            // Codes decide at once where scores differ by more than a step.
            assert!(width < 65 || again == 0, "{again} of 40 questions were looked through twice");
        }
    }

    #[test]
    fn a_filter_that_leaves_thousands_finds_what_all_scores_give() {
        let (rows, questions) = clustered(7_000, 128, 30);
        let mut set = VectorSet::new(None);
        for doc in 0..6_000_usize {
            let more = (doc % 6 == 0).then(|| &rows[6_000 + doc / 6][..]);
            let rows: Vec<&[f32]> = [&rows[doc][..]].into_iter().chain(more).collect();
            set.insert(DocId(doc as u32), &rows).unwrap();
        }
        let built = set.graph_job(1).run(&|| false).unwrap();
        assert!(set.put_graph(built));
        (0..6_000).step_by(11).for_each(|doc| assert!(set.remove(DocId(doc))));
        // Rows behind those that have signs, some of documents between others.
        for doc in (40..6_000).step_by(500) {
            set.insert(DocId(doc), &[&rows[doc as usize + 7]]).unwrap();
        }
        for doc in 6_000..6_200 {
            set.insert(DocId(doc), &[&rows[doc as usize - 5_500]]).unwrap();
        }
        let mut allowed = FixedBitSet::with_capacity(6_200);
        (0..6_200).filter(|doc| doc % 7 < 4).for_each(|doc| allowed.insert(doc));
        let mut other = 0;
        for question in &questions {
            let query = UnitRow::new(question, None).unwrap();
            for k in [1, 10, 15] {
                let expected = naive(&set, &query, k, Some(&allowed), 6_200);
                let near = set.look(&query, k, Some(&allowed), Effort::default()).unwrap();
                assert!(near.walked == 0 && near.compared > 2_048);
                other += usize::from(near.found[..k] != expected);
                let exact = Effort { exact: true, ..Effort::default() };
                assert_eq!(set.look(&query, k, Some(&allowed), exact).unwrap().found[..k], expected);
            }
        }
        assert!(other <= 1, "{other} of 90 answers were not those of all scores");
    }

    #[test]
    fn rows_with_one_large_component_are_found_among_thousands() {
        let (mut rows, _) = clustered(3_000, 130, 1);
        for places in [4, 40] {
            let mut set = VectorSet::new(None);
            for (row, doc) in rows.iter_mut().zip(0..) {
                row[doc as usize * 7 % places] = if doc % 3 == 0 { -4.0 } else { 4.0 };
                set.insert(DocId(doc), &[&row[..]]).unwrap();
            }
            let built = set.graph_job(1).run(&|| false).unwrap();
            assert!(set.put_graph(built));
            let mut allowed = FixedBitSet::with_capacity(3_000);
            allowed.insert_range(1..3_000);
            let (mut found, mut all) = (0, 0);
            for row in rows.iter().step_by(50) {
                let query = UnitRow::new(row, None).unwrap();
                let expected = naive(&set, &query, 10, Some(&allowed), 3_000);
                let near = set.look(&query, 10, Some(&allowed), Effort::default()).unwrap().found;
                assert!(near.len() >= 10);
                found += expected.iter().filter(|one| near.contains(one)).count();
                all += 10;
            }
            assert!(found * 1_000 >= all * 995, "{places}: {found} of {all}");
        }
    }

    #[test]
    fn no_row_is_above_its_bound_and_few_are_near_it() {
        let mut most = 0.0_f32;
        for width in [1, 7, 8, 64, 384] {
            let (rows, questions) = clustered(2_000, width, 20);
            let set = spread(&rows, false);
            let (view, _) = set.own().unwrap();
            for question in &questions {
                let (codes, lanes) = (Query8::new(question), half::lanes(question));
                for at in 0..rows.len() {
                    let near = codes.cosine(codes.dot(view.codes().row(at)), view.codes().scale(at));
                    let off = (view.half(at).cosine(Kernel::Portable, &lanes) - near).abs();
                    most = most.max(off / (SPREAD * (view.codes().scale(at) + codes.scale())));
                }
            }
        }
        assert!(most < 1.0, "a cosine is off by {most} of what is allowed for");
    }

    #[test]
    fn thousands_of_equal_rows_are_told_apart_by_their_numbers() {
        let mut set = VectorSet::new(None);
        for doc in (0..1_000).rev() {
            set.insert(DocId(doc), &[&[1.0, 2.0, (doc % 2) as f32]]).unwrap();
        }
        let query = UnitRow::new(&[1.0, 2.0, 0.0], None).unwrap();
        assert_eq!(set.nearest(&query, 7, None).unwrap(), naive(&set, &query, 7, None, 1_000));
        let tied = set.look(&query, 7, None, Effort::default()).unwrap().found;
        assert!(tied.len() == 500 && tied.iter().all(|(_, score)| score.to_bits() == tied[0].1.to_bits()));
    }

    #[test]
    fn documents_of_many_rows_do_not_crowd_out_others() {
        let (rows, questions) = clustered(1_500, 16, 3);
        let mut set = VectorSet::new(None);
        for (rows, doc) in rows.chunks(300).zip(0..) {
            set.insert(DocId(doc), &rows.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
        }
        for question in questions {
            let query = UnitRow::new(&question, None).unwrap();
            assert_eq!(set.nearest(&query, 4, None).unwrap(), naive(&set, &query, 4, None, 5));
        }
    }

    #[test]
    fn nothing_to_search_gives_nothing_and_another_width_is_refused() {
        let query = UnitRow::new(&[1.0, 0.0], None).unwrap();
        let mut set = VectorSet::new(None);
        assert!(set.nearest(&query, 3, None).unwrap().is_empty());
        assert!(set.scores_of(&query, &[DocId(0)]).unwrap()[0].is_nan());
        set.insert(DocId(1), &[&[1.0, 1.0]]).unwrap();
        assert!(set.nearest(&query, 0, None).unwrap().is_empty());
        assert!(set.nearest(&query, 3, Some(&FixedBitSet::with_capacity(1))).unwrap().is_empty());
        let wide = UnitRow::new(&[1.0; 3], None).unwrap();
        assert!(set.nearest(&wide, 3, None).is_err() && set.scores_of(&wide, &[]).is_err());
        set.remove(DocId(1));
        assert!(set.nearest(&query, 3, None).unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_set_gives_what_all_its_scores_give(
            width in 1..70usize,
            counts in prop::collection::vec(0..4usize, 1..120),
            seed in any::<u64>(),
            k in 1..40usize,
            some in prop::option::of(prop::collection::vec(any::<bool>(), 0..130)),
        ) {
            let mut state = seed;
            // Of few values, so that there are ties.
            let mut row = || -> Vec<f32> {
                let row: Vec<f32> = (0..width).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 62) as f32 - 1.0
                }).collect();
                if row.iter().all(|x| *x == 0.0) { vec![1.0; width] } else { row }
            };
            let mut set = VectorSet::new(Some(width));
            for (count, doc) in counts.iter().zip(0..) {
                let rows: Vec<Vec<f32>> = (0..*count).map(|_| row()).collect();
                let _ = set.insert(DocId(doc), &rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            let query = UnitRow::new(&row(), None).unwrap();
            let allowed = some.map(|some| {
                let mut allowed = FixedBitSet::with_capacity(some.len());
                some.iter().enumerate().for_each(|(at, there)| allowed.set(at, *there));
                allowed
            });
            let expected = naive(&set, &query, k, allowed.as_ref(), counts.len());
            prop_assert_eq!(&set.nearest(&query, k, allowed.as_ref()).unwrap(), &expected);
            let docs: Vec<DocId> = expected.iter().map(|(doc, _)| *doc).collect();
            let scores = set.scores_of(&query, &docs).unwrap();
            prop_assert!(scores.iter().zip(&expected).all(|(score, (_, own))| score.to_bits() == own.to_bits()));
        }
    }
}
