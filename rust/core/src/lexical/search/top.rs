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

/// The best `k` and every document that is tied with the last of them.
///
/// What a document needs is exact after each one, by a heap of the best scores alone: a buffer that is cut back when it
/// is full lets more through, and every one of them is completed.
#[derive(Debug)]
pub(super) struct Top {
    k: usize,
    /// The `k` best scores, the least first. Scores are positive, so their bits are in their order. Not kept when every
    /// document counts.
    best: BinaryHeap<Reverse<u32>>,
    /// Documents that were good enough when they came.
    found: Vec<ScoredDoc>,
    /// So many of them are worth going through again.
    full: usize,
    least: f32,
}

impl Top {
    /// `most` is how many documents can be found.
    pub(super) fn new(k: usize, most: usize) -> Self {
        let best = BinaryHeap::with_capacity(if k < most { k } else { 0 });
        Self { k: k.min(most), best, found: Vec::with_capacity(64.min(most)), full: 1024, least: LEAST }
    }

    /// Score of the k-th best so far: less does not count any more.
    #[inline]
    pub(super) fn least(&self) -> f32 {
        self.least
    }

    /// Adds a document, unless it is not good enough.
    #[inline]
    pub(super) fn push(&mut self, doc: u32, score: f32) {
        if score >= self.least {
            self.add(doc, score);
        }
    }

    #[inline(never)]
    fn add(&mut self, doc: u32, score: f32) {
        self.found.push(ScoredDoc { doc: DocId(doc), score });
        if self.best.capacity() == 0 {
            return;
        }
        if self.best.len() < self.k {
            self.best.push(Reverse(score.to_bits()));
        } else if score > self.least
            && let Some(mut last) = self.best.peek_mut()
        {
            *last = Reverse(score.to_bits());
        }
        if self.best.len() == self.k
            && let Some(Reverse(bits)) = self.best.peek()
        {
            self.least = f32::from_bits(*bits);
        }
        if self.found.len() >= self.full {
            self.thin_out();
            // With many ties, going through them after a few more would take too often.
            self.full = self.full.max(2 * self.found.len());
        }
    }

    fn thin_out(&mut self) {
        let least = self.least;
        self.found.retain(|found| found.score >= least);
    }

    /// What is left, in no order.
    pub(super) fn finish(mut self) -> Vec<ScoredDoc> {
        self.thin_out();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_and_all_that_are_tied_with_the_last(scores in prop::collection::vec(1..12u32, 0..3000), k in 1..40usize) {
            let mut top = Top::new(k, scores.len());
            let scores: Vec<f32> = scores.iter().map(|score| *score as f32 / 3.0).collect();
            scores.iter().zip(0..).for_each(|(score, doc)| top.push(doc, *score));
            let mut sorted = scores.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let least = sorted.get(k - 1).copied().unwrap_or(0.0);
            let expected: Vec<u32> =
                scores.iter().zip(0..).filter(|(score, _)| **score >= least).map(|(_, doc)| doc).collect();
            let found: Vec<u32> = top.finish().iter().map(|found| found.doc.0).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
