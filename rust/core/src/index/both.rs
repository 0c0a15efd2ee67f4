//! Both legs of a question: which documents can be among the best of their weighted sum.
//!
//! The nearest documents and the ten best by words give scores that the best `k` reach at least. From that follows what a
//! document that is not among the nearest has to have by words, and only such documents are looked for there. This is the
//! threshold algorithm (Fagin, Lotem, Naor 2003) with a different depth for each leg: the answer is that over all documents,
//! as far as the legs are exact, where the same depth for both had to be 200 to 600. Cosines are those of codes, of which it
//! is known how far they are off; only documents that can be in the answer are scored by their halves.

use super::Index;
use super::ranking::{Ask, best_mass};
use crate::fusion::{Candidate, MASS_DEPTH, Scales, Weights};
use crate::ids::DocId;
use crate::lexical::{Question, ScoredDoc};
use crate::vector::{Between, Reach, Refusal, UnitRow};

/// So many of the nearest are looked at first, and kept on a walk: at 10,000 and 100,000 documents it takes a tenth and a
/// twentieth less than with 96, and finds .995 of the ten best sums among 100,000; .997 with 128.
const NEAREST: usize = 80;

/// And so many at most, while a document that neither leg put forward could still be in the answer.
const MOST_NEAREST: usize = 2_048;

/// So many documents are taken by words at most: among 100,000 a question in ten would have more.
const MOST_WORDS: usize = 1_000;

/// And so many for each of the answer: of 100 among 16,000 .95 were found with 1,000.
const WORDS_FOR_EACH: usize = 50;

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
    /// Or a sum that is near to it.
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
    fn new(scales: Scales, weights: Weights) -> Self {
        Self { weight: scales.lexical_weight(weights), scales }
    }

    /// The sum of a document; `lexical` and `cosine` as in a [`Candidate`].
    fn of(&self, bm25: Option<f32>, cosine: Option<f32>) -> f64 {
        self.scales.sum(&Candidate { doc: DocId(0), bm25, cosine }, self.weight)
    }

    /// `error` is a share of the score by words.
    fn between(&self, bm25: Option<f32>, error: f32, near: Option<Between>) -> (f64, f64) {
        let least = self.of(bm25.map(|bm25| bm25 * (1.0 - error)), near.map(|near| near.least));
        let most = self.of(bm25.map(|bm25| bm25 * (1.0 + error)), near.map(|near| near.most));
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
        let mut words = Words::none();
        let mut depth = NEAREST.max(2 * ask.k);
        loop {
            let Some(reach) = self.vectors.reach(vector, depth, ask.allowed, ask.effort)? else {
                return Ok(None);
            };
            let Some(cosine_best) = self.nearest_of(vector, &reach)? else { return Ok(None) };
            // Rows so much alike that codes do not tell which is nearest.
            if reach.rest.is_some_and(|rest| rest >= cosine_best) {
                if depth >= MOST_NEAREST.max(2 * ask.k) {
                    return self.put_forward(Some(question), ask, usize::MAX).map(Some);
                }
                depth *= 4;
                continue;
            }
            let near = self.words_of_nearest(question, &reach);
            let scales = |bm25: f32, mass: f32| Scales::new(bm25, Some(cosine_best), floor, mass);
            if !scales(1.0, 1.0).tells_vectors_apart() {
                return Ok(None);
            }
            // The best by words is not known yet. Where it is better than what the nearest have, more is asked of a document
            // that is not among these.
            let best_of_near = near.iter().filter_map(|near| near.1).fold(0.0, f32::max);
            let guessed = Sums::new(scales(best_of_near, 1.0), ask.weights);
            let likely = likely_near(&reach, &near, &guessed);
            let left = reach.rest.map(|rest| guessed.of(None, Some(rest)));
            let needed = words_needed(bar(&likely, ask.k), left, guessed.weight).min(1.0 - ROUNDING);
            words.look(question, (needed * f64::from(best_of_near)) as f32, ask);
            let Some((bm25_best, mass)) = words.best(question, ask) else { return Ok(None) };

            let sums = Sums::new(scales(bm25_best, mass), ask.weights);
            let mut likely = likely_near(&reach, &near, &sums);
            likely.extend(self.likely_by_words(&reach, (&sums, f64::NEG_INFINITY), (&words.best, 0.0)));
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
            let needed = (words_needed(bar, left, sums.weight) * f64::from(bm25_best)) as f32;
            words.look(question, needed, ask);
            let found = words.others(needed);
            let (lexical_found, vector_found) = (words.best.len() + found.len(), reach.found.len());
            likely.extend(self.likely_by_words(&reach, (&sums, bar), (&found, words.error)));
            let pool = self.can_be_in(question, vector, (ask.k, words.error), likely)?;
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

    /// What the nearest have by words, None without any text.
    fn words_of_nearest(&self, question: &Question<'_, '_>, reach: &Reach) -> Vec<(DocId, Option<f32>)> {
        let mut words: Vec<ScoredDoc> =
            reach.found.iter().map(|(doc, _)| ScoredDoc { doc: *doc, score: 0.0 }).collect();
        question.score_all(&mut words);
        let with_text = |found: &ScoredDoc| self.texts.contains(found.doc.index()).then_some(found.score);
        words.iter().map(|found| (found.doc, with_text(found))).collect()
    }

    /// Those of the documents found by words that are not among the nearest and can have a sum of `bar`; both in order.
    /// Their scores may be off by `error`, a share of them.
    fn likely_by_words(
        &self,
        reach: &Reach,
        (sums, bar): (&Sums, f64),
        (found, error): (&[ScoredDoc], f32),
    ) -> Vec<Likely> {
        let mut near = reach.found.iter().peekable();
        let mut is_near = |found: &&ScoredDoc| {
            while near.next_if(|(doc, _)| *doc < found.doc).is_some() {}
            near.peek().is_some_and(|(doc, _)| *doc == found.doc)
        };
        let mut far: Vec<&ScoredDoc> = Vec::with_capacity(found.len());
        far.extend(found.iter().filter(|found| !is_near(found)));
        let docs: Vec<DocId> = far.iter().map(|found| found.doc).collect();
        let can_be_in =
            |at: usize, most: f32| sums.of(Some(far[at].score * (1.0 + error)), Some(most)) + ROUNDING >= bar;
        let likely = self.vectors.between(reach, &docs, can_be_in);
        let scored = likely.into_iter().map(|(at, near)| (far[at], near));
        scored.map(|(found, near)| Likely::new(found.doc, (Some(found.score), error), near, sums)).collect()
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
            let all = near.found.iter().map(|(doc, near)| Likely::new(*doc, (None, 0.0), Some(*near), sums));
            let mut likely: Vec<Likely> = all.collect();
            let bar = self::bar(&likely, ask.k).max(bar);
            if near.rest.is_none_or(|rest| sums.of(None, Some(rest)) < bar) {
                likely.retain(|one| reach.found.binary_search_by_key(&one.doc, |(doc, _)| *doc).is_err());
                return Ok(likely);
            }
            depth = depth.saturating_mul(4);
        }
    }

    /// Those that can be among the best `k`, and the best of each leg, with their scores; `error` is how far those by words
    /// may be off, as a share of them.
    fn can_be_in(
        &self,
        question: &Question<'_, '_>,
        vector: &UnitRow,
        (k, error): (usize, f32),
        mut likely: Vec<Likely>,
    ) -> Result<Vec<Candidate>, Refusal> {
        let bar = bar(&likely, k);
        let by_words = likely.iter().filter_map(|one| one.bm25).fold(0.0, f32::max) * (1.0 - 2.0 * error);
        let nearest =
            likely.iter().filter_map(|one| one.near).map(|near| near.least).fold(f32::NEG_INFINITY, f32::max);
        likely.retain(|one| {
            one.sum.1 >= bar
                || one.bm25.is_some_and(|bm25| bm25 >= by_words)
                || one.near.is_some_and(|near| near.most >= nearest)
        });
        likely.sort_unstable_by_key(|one| one.doc);
        if error > 0.0 {
            let mut exact: Vec<ScoredDoc> =
                likely.iter().map(|one| ScoredDoc { doc: one.doc, score: 0.0 }).collect();
            question.score_all(&mut exact);
            for (one, exact) in likely.iter_mut().zip(&exact) {
                one.bm25 = one.bm25.map(|_| exact.score);
            }
        }
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

/// What is known by words.
struct Words {
    /// In order of their numbers: all that score `least` and more, [`MOST_WORDS`] or [`WORDS_FOR_EACH`] at most, or a few
    /// more.
    found: Vec<ScoredDoc>,
    /// How far their scores may be off, as a share of them.
    error: f32,
    least: f32,
    /// The best [`MASS_DEPTH`] and those tied with the last, in order of their numbers, with their scores.
    best: Vec<ScoredDoc>,
}

impl Words {
    fn none() -> Self {
        Self { found: Vec::new(), error: 0.0, least: f32::INFINITY, best: Vec::new() }
    }

    /// Finds all that score so much, if that was not done.
    fn look(&mut self, question: &Question<'_, '_>, least: f32, ask: &Ask<'_>) {
        if least < self.least {
            let most = MOST_WORDS.max(ask.k.saturating_mul(WORDS_FOR_EACH));
            (self.found, self.error) = question.nearly_above(least, most, ask.allowed);
            self.found.sort_unstable_by_key(|found| found.doc);
            self.least = least;
        }
    }

    /// The best score, and the mass of the best: see [`best_mass`]. None when nothing holds a word of the question.
    fn best(&mut self, question: &Question<'_, '_>, ask: &Ask<'_>) -> Option<(f32, f32)> {
        if self.best.is_empty() {
            let by_score = |a: &ScoredDoc, b: &ScoredDoc| b.score.total_cmp(&a.score);
            if self.found.len() < MASS_DEPTH {
                self.best = question.top(MASS_DEPTH, ask.allowed);
            } else {
                self.best.clone_from(&self.found);
                let last = self.best.select_nth_unstable_by(MASS_DEPTH - 1, by_score).1.score;
                self.best.retain(|found| found.score >= last * (1.0 - 2.0 * self.error));
                if self.error > 0.0 {
                    question.score_all(&mut self.best);
                }
                let last = self.best.select_nth_unstable_by(MASS_DEPTH - 1, by_score).1.score;
                self.best.retain(|found| found.score >= last);
            }
        }
        let best = self.best.iter().map(|found| found.score).max_by(f32::total_cmp)?;
        let mass = best_mass(question, &mut self.best);
        self.best.sort_unstable_by_key(|found| found.doc);
        Some((best, mass))
    }

    /// Those that are not among the best and may score so much.
    fn others(&self, least: f32) -> Vec<ScoredDoc> {
        let mut best = self.best.iter().peekable();
        let mut is_best = |doc: DocId| {
            while best.next_if(|best| best.doc < doc).is_some() {}
            best.peek().is_some_and(|best| best.doc == doc)
        };
        let least = least * (1.0 - 2.0 * self.error);
        let mut others = Vec::with_capacity(self.found.len());
        others.extend(self.found.iter().filter(|found| found.score >= least && !is_best(found.doc)));
        others
    }
}

/// The nearest, with what they have by words.
fn likely_near(reach: &Reach, near: &[(DocId, Option<f32>)], sums: &Sums) -> Vec<Likely> {
    let all = reach.found.iter().zip(near);
    all.map(|((doc, near), (_, bm25))| Likely::new(*doc, (*bm25, 0.0), Some(*near), sums)).collect()
}

impl Likely {
    fn new(doc: DocId, (bm25, error): (Option<f32>, f32), near: Option<Between>, sums: &Sums) -> Self {
        Self { doc, bm25, near, sum: sums.between(bm25, error, near) }
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
