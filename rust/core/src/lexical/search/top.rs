//! The best of what a search finds.

use crate::ids::DocId;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A document with its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredDoc {
    /// The document.
    pub doc: DocId,
    /// Its BM25 score, above 0.
    pub score: f32,
}

/// Least score there is: contributions are positive and far above it.
const LEAST: f32 = f32::MIN_POSITIVE;

/// The best `k` and every document that is tied with the last of them, from sums that are close to the scores.
///
/// What a document needs is exact after each one, by a heap of the best scores alone: a buffer that is cut back when it
/// is full lets more through, and every one of them is completed.
#[derive(Debug)]
pub(super) struct Top {
    k: usize,
    /// Scores below it are not wanted.
    wanted: f32,
    /// A document counts if its sum is within this factor of the k-th best sum.
    slack: f32,
    /// The `k` best sums, the least first. They are positive, so their bits are in their order. Not kept when every
    /// document counts, nor before there are so many.
    best: BinaryHeap<Reverse<u32>>,
    /// Whether they are to be kept.
    limited: bool,
    /// Documents that were good enough when they came.
    found: Vec<ScoredDoc>,
    /// So many of them are worth going through again.
    full: usize,
    /// The k-th best sum so far.
    least: f32,
    /// The same within the slack.
    needed: f32,
}

impl Top {
    /// `most` is how many documents can be found. No sum is further from the score than `error`, as a share of it. What
    /// scores less than `least` is not wanted.
    pub(super) fn new(k: usize, most: usize, error: f32, least: f32) -> Self {
        let found = Vec::with_capacity(64.min(most));
        // The k-th best sum may be as much too large as another one is too small.
        let slack = 1.0 - 2.0 * error;
        let wanted = least.max(LEAST);
        let best = BinaryHeap::new();
        let mut top = Self {
            k: k.min(most),
            wanted,
            slack,
            best,
            limited: k < most,
            found,
            full: 1024,
            least: LEAST,
            needed: LEAST,
        };
        top.need(least);
        top
    }

    /// Above 0; a document whose sum is less does not count any more.
    #[inline]
    pub(super) fn needed(&self) -> f32 {
        self.needed
    }

    /// Whether nothing is too low yet, while not every document counts.
    pub(super) fn takes_all(&self) -> bool {
        self.needed <= LEAST && self.limited
    }

    /// Learns sums of different documents that are still to come, before all of these are.
    pub(super) fn raise(&mut self, sums: &mut [f32]) {
        if self.k <= sums.len() {
            let least = *sums.select_nth_unstable_by(self.k - 1, |a, b| b.total_cmp(a)).1;
            self.need(least);
        }
    }

    /// The k-th best sum is at least so high.
    fn need(&mut self, least: f32) {
        self.least = self.least.max(least);
        self.needed = (self.least * self.slack).max(LEAST);
    }

    /// Adds a document, unless it is not good enough.
    #[inline]
    pub(super) fn push(&mut self, doc: u32, sum: f32) {
        if sum >= self.needed {
            self.add(doc, sum);
        }
    }

    #[inline(never)]
    fn add(&mut self, doc: u32, score: f32) {
        self.found.push(ScoredDoc { doc: DocId(doc), score });
        if !self.limited || self.found.len() < self.k {
            return;
        }
        if self.best.is_empty() {
            // What was left out meanwhile is below `k` others.
            self.best = self.found.iter().map(|found| Reverse(found.score.to_bits())).collect();
        } else if score > self.least
            && let Some(mut last) = self.best.peek_mut()
        {
            *last = Reverse(score.to_bits());
        }
        if let Some(Reverse(bits)) = self.best.peek() {
            let least = f32::from_bits(*bits);
            self.need(least);
        }
        if self.found.len() >= self.full {
            self.thin_out();
            // With many ties, going through them after a few more would take too often.
            self.full = self.full.max(2 * self.found.len());
        }
    }

    fn thin_out(&mut self) {
        let needed = self.needed;
        self.found.retain(|found| found.score >= needed);
    }

    /// What is left by its sums, in no order.
    pub(super) fn close(mut self) -> Vec<ScoredDoc> {
        self.thin_out();
        self.found
    }

    /// What is left, in no order. `score` puts the scores in place of the sums; a document whose score is 0 is none.
    pub(super) fn finish(self, score: impl FnOnce(&mut [ScoredDoc])) -> Vec<ScoredDoc> {
        let (mut least, k) = (self.wanted, self.k);
        let mut found = self.close();
        score(&mut found);
        if k < found.len() {
            let last = found.select_nth_unstable_by(k - 1, |a, b| b.score.total_cmp(&a.score)).1;
            least = least.max(last.score);
        }
        found.retain(|found| found.score >= least);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_and_all_that_are_tied_with_the_last(
            scores in prop::collection::vec((1..12u32, -1.0..=1.0f32), 0..3000), k in 1..40usize, loose in any::<bool>(),
            raised in any::<bool>(), wanted in 0..12u32,
        ) {
            let error = if loose { 0.2 } else { 0.0 };
            let sums: Vec<f32> =
                scores.iter().map(|(score, off)| *score as f32 * (1.0 + error * 0.99 * off)).collect();
            let scores: Vec<f32> = scores.iter().map(|(score, _)| *score as f32).collect();
            let mut top = Top::new(k, scores.len(), error, wanted as f32);
            if raised && top.takes_all() {
                top.raise(&mut sums.iter().copied().step_by(3).collect::<Vec<_>>());
            }
            sums.iter().zip(0..).for_each(|(sum, doc)| top.push(doc, *sum));
            let mut sorted = scores.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let least = sorted.get(k - 1).copied().unwrap_or(0.0).max(wanted as f32);
            let expected: Vec<u32> =
                scores.iter().zip(0..).filter(|(score, _)| **score >= least).map(|(_, doc)| doc).collect();
            let found = top.finish(|found| found.iter_mut().for_each(|one| one.score = scores[one.doc.index()]));
            let mut found: Vec<u32> = found.iter().map(|found| found.doc.0).collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
