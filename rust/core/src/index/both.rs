//! Both legs of a question: which documents can be among the best of their weighted sum.
//!
//! The nearest documents and the ten best by words give scores that the best `k` reach at least. From that follows what a
//! document that is not among the nearest has to have by words, and only such documents are looked for there. This is the
//! threshold algorithm (Fagin, Lotem, Naor 2003) with a different depth for each leg: the answer is that over all documents,
//! as far as the legs are exact, where the same depth for both had to be 200 to 600. Cosines are those of codes, of which it
//! is known how far they are off; only documents that can be in the answer are scored by their halves.

use super::Index;
use super::ranking::{Ask, best_mass};
use crate::fusion::{Candidate, MASS_DEPTH, Scales};
use crate::ids::DocId;
use crate::lexical::{Question, ScoredDoc};
use crate::vector::{Between, Reach, Refusal, UnitRow};

/// So many of the nearest are looked at first: as many as a walk keeps.
const NEAREST: usize = 128;

/// And so many at most, while a document that neither leg put forward could still be in the answer.
const MOST_NEAREST: usize = 2_048;

/// So many documents are taken by words at most: among 100,000 a question in ten would have more.
const MOST_WORDS: usize = 1_000;

/// Cosines and sums are compared with so much to spare for rounding.
const ROUNDING: f64 = 1e-6;

/// What both legs put forward.
pub(super) struct Joined {
    /// Those that can be in the answer, and the best of each leg; in order of the documents.
    pub(super) pool: Vec<Candidate>,
    /// See [`crate::fusion::fuse`].
    pub(super) mass: f32,
    pub(super) lexical_found: usize,
    pub(super) vector_found: usize,
    pub(super) vectors_seen: (usize, usize),
}

/// A document with what is known of its scores.
struct Likely {
    doc: DocId,
    bm25: Option<f32>,
    /// Its vector was compared, by codes.
    near: Option<Between>,
    /// Between what the sum lies.
    sum: (f64, f64),
}

/// How sums are made while the cosines are known nearly.
struct Sums {
    scales: Scales,
    /// Of the lexical leg.
    weight: f64,
}

impl Sums {
    /// The sum of a document; `lexical` and `cosine` as in a [`Candidate`].
    fn of(&self, bm25: Option<f32>, cosine: Option<f32>) -> f64 {
        self.scales.sum(&Candidate { doc: DocId(0), bm25, cosine }, self.weight)
    }

    fn between(&self, bm25: Option<f32>, near: Option<Between>) -> (f64, f64) {
        let least = self.of(bm25, near.map(|near| near.least));
        let most = self.of(bm25, near.map(|near| near.most));
        (least - ROUNDING, most + ROUNDING)
    }
}

impl Index {
    /// The documents that can be among the best `k` by the weighted sum. None where that cannot be told from less than
    /// all of them.
    pub(super) fn join(
        &self,
        question: &Question<'_, '_>,
        vector: &UnitRow,
        ask: &Ask<'_>,
        floor: f64,
    ) -> Result<Option<Joined>, Refusal> {
        let mut best = question.top(MASS_DEPTH, ask.allowed);
        let Some(bm25_best) = best.iter().map(|found| found.score).max_by(f32::total_cmp) else {
            return Ok(None);
        };
        let mass = best_mass(question, &mut best);
        best.sort_unstable_by_key(|found| found.doc);
        let mut depth = NEAREST.max(2 * ask.k);
        loop {
            let Some(reach) = self.vectors.reach(vector, depth, ask.allowed, ask.effort)? else {
                return Ok(None);
            };
            let Some(cosine_best) = self.nearest_of(vector, &reach)? else { return Ok(None) };
            // Rows so much alike that codes do not tell which is nearest.
            if reach.rest.is_some_and(|rest| rest >= cosine_best) {
                if depth >= MOST_NEAREST {
                    return Ok(None);
                }
                depth *= 4;
                continue;
            }
            let scales = Scales::new(bm25_best, Some(cosine_best), floor, mass);
            if !scales.tells_vectors_apart() {
                return Ok(None);
            }
            let sums = Sums { weight: scales.lexical_weight(ask.weights), scales };
            let mut likely = self.likely(question, &reach, &sums, &best);
            let bar = bar(&likely, ask.k);
            let left = reach.rest.map(|rest| sums.of(None, Some(rest)));
            // Such a document would be in the answer without any word of the question.
            if left.is_some_and(|left| (1.0 - sums.weight) * left >= bar) && depth < MOST_NEAREST {
                depth *= 4;
                continue;
            }
            if left.is_some_and(|left| left >= bar) {
                likely.extend(self.likely_without_text(vector, ask, &reach, (&sums, bar))?);
            }
            let words = words_needed(bar, left, sums.weight) * f64::from(bm25_best);
            let mut found = question.above(words as f32, MOST_WORDS.max(ask.k), ask.allowed);
            found.retain(|found| best.binary_search_by_key(&found.doc, |best| best.doc).is_err());
            found.sort_unstable_by_key(|found| found.doc);
            let (lexical_found, vector_found) = (best.len() + found.len(), reach.found.len());
            likely.extend(self.likely_by_words(&reach, &sums, &found));
            let pool = self.can_be_in(vector, ask.k, likely)?;
            let vectors_seen = (reach.compared, reach.walked);
            return Ok(Some(Joined { pool, mass, lexical_found, vector_found, vectors_seen }));
        }
    }

    /// The exact cosine of the nearest document.
    fn nearest_of(&self, vector: &UnitRow, reach: &Reach) -> Result<Option<f32>, Refusal> {
        let least = reach.found.iter().map(|(_, near)| near.least).fold(f32::NEG_INFINITY, f32::max);
        let may_be = reach.found.iter().filter(|(_, near)| near.most >= least);
        let docs: Vec<DocId> = may_be.map(|(doc, _)| *doc).collect();
        let cosines = self.vectors.scores_of(vector, &docs)?;
        Ok(cosines.into_iter().filter(|cosine| !cosine.is_nan()).max_by(f32::total_cmp))
    }

    /// The nearest and the best by words.
    fn likely(
        &self,
        question: &Question<'_, '_>,
        reach: &Reach,
        sums: &Sums,
        best: &[ScoredDoc],
    ) -> Vec<Likely> {
        let mut words: Vec<ScoredDoc> =
            reach.found.iter().map(|(doc, _)| ScoredDoc { doc: *doc, score: 0.0 }).collect();
        question.score_all(&mut words);
        let near = reach.found.iter().zip(&words).map(|((doc, near), words)| {
            let bm25 = self.texts.contains(doc.index()).then_some(words.score);
            Likely::new(*doc, bm25, Some(*near), sums)
        });
        let mut likely = Vec::with_capacity(reach.found.len() + best.len());
        likely.extend(near);
        likely.extend(self.likely_by_words(reach, sums, best));
        likely
    }

    /// Those of the documents found by words that are not among the nearest; both in order.
    fn likely_by_words(&self, reach: &Reach, sums: &Sums, found: &[ScoredDoc]) -> Vec<Likely> {
        let mut near = reach.found.iter().peekable();
        let mut is_near = |found: &&ScoredDoc| {
            while near.next_if(|(doc, _)| *doc < found.doc).is_some() {}
            near.peek().is_some_and(|(doc, _)| *doc == found.doc)
        };
        let far: Vec<&ScoredDoc> = found.iter().filter(|found| !is_near(found)).collect();
        let docs: Vec<DocId> = far.iter().map(|found| found.doc).collect();
        let between = self.vectors.between(reach, &docs);
        far.into_iter()
            .zip(between)
            .map(|(found, near)| Likely::new(found.doc, Some(found.score), near, sums))
            .collect()
    }

    /// The nearest of the documents without any text, whose vector is all that counts; those that `reach` has left out.
    fn likely_without_text(
        &self,
        vector: &UnitRow,
        ask: &Ask<'_>,
        reach: &Reach,
        (sums, bar): (&Sums, f64),
    ) -> Result<Vec<Likely>, Refusal> {
        if self.texts.is_superset(&self.live) {
            return Ok(Vec::new());
        }
        let mut without = self.live.clone();
        without.difference_with(&self.texts);
        if let Some(allowed) = ask.allowed {
            without.intersect_with(allowed);
        }
        // As deep as one of them could still be in the answer: there are few, or they are the answer.
        let mut depth = NEAREST.max(2 * ask.k);
        loop {
            let Some(near) = self.vectors.reach(vector, depth, Some(&without), ask.effort)? else {
                return Ok(Vec::new());
            };
            let all = near.found.iter().map(|(doc, near)| Likely::new(*doc, None, Some(*near), sums));
            let mut likely: Vec<Likely> = all.collect();
            let bar = self::bar(&likely, ask.k).max(bar);
            if near.rest.is_none_or(|rest| sums.of(None, Some(rest)) < bar) {
                likely.retain(|one| reach.found.binary_search_by_key(&one.doc, |(doc, _)| *doc).is_err());
                return Ok(likely);
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// Those that can be among the best `k`, and the best of each leg, with their cosines.
    fn can_be_in(
        &self,
        vector: &UnitRow,
        k: usize,
        mut likely: Vec<Likely>,
    ) -> Result<Vec<Candidate>, Refusal> {
        let bar = bar(&likely, k);
        let by_words = likely.iter().filter_map(|one| one.bm25).max_by(f32::total_cmp);
        let nearest =
            likely.iter().filter_map(|one| one.near).map(|near| near.least).fold(f32::NEG_INFINITY, f32::max);
        likely.retain(|one| {
            one.sum.1 >= bar || one.bm25 == by_words || one.near.is_some_and(|near| near.most >= nearest)
        });
        likely.sort_unstable_by_key(|one| one.doc);
        let docs: Vec<DocId> = likely.iter().map(|one| one.doc).collect();
        let cosines = self.vectors.scores_of(vector, &docs)?;
        let candidate = |(one, cosine): (&Likely, f32)| Candidate {
            doc: one.doc,
            bm25: one.bm25,
            cosine: Some(cosine).filter(|cosine| !cosine.is_nan()),
        };
        Ok(likely.iter().zip(cosines).map(candidate).collect())
    }
}

impl Likely {
    fn new(doc: DocId, bm25: Option<f32>, near: Option<Between>, sums: &Sums) -> Self {
        Self { doc, bm25, near, sum: sums.between(bm25, near) }
    }
}

/// What the best `k` have at least.
fn bar(likely: &[Likely], k: usize) -> f64 {
    let Some(at) = k.checked_sub(1).filter(|at| *at < likely.len()) else { return f64::NEG_INFINITY };
    let mut sums: Vec<f64> = likely.iter().map(|one| one.sum.0).collect();
    *sums.select_nth_unstable_by(at, |a, b| b.total_cmp(a)).1
}

/// What a document that is not among the nearest has to have by words, as a share of the best: `left` is what such a one
/// has by its vector at most, None when none has a vector. Without a vector words are all it has.
fn words_needed(bar: f64, left: Option<f64>, weight: f64) -> f64 {
    let beside = left.filter(|_| weight > 0.0).map(|left| (bar - (1.0 - weight) * left) / weight);
    beside.map_or(bar, |beside| beside.min(bar))
}

#[cfg(test)]
#[path = "both_tests.rs"]
mod tests;
