//! The best of what a search finds.

use crate::ids::DocId;

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

/// The best `k` and every document that is tied with the last of them: a buffer that is cut back by selection when it
/// is full.
#[derive(Debug)]
pub(super) struct Top {
    k: usize,
    full: usize,
    found: Vec<ScoredDoc>,
    /// Score of the k-th best so far: less does not count any more.
    least: f32,
}

impl Top {
    /// `most` is how many documents there are.
    pub(super) fn new(k: usize, most: usize) -> Self {
        let k = k.min(most);
        let full = k + (k / 2).max(6);
        // Large answers grow: most questions match less than is asked for.
        Self { k, full, found: Vec::with_capacity(full.min(1024)), least: LEAST }
    }

    /// What a document needs to count.
    pub(super) fn least(&self) -> f32 {
        self.least
    }

    /// Adds a document, unless it is not good enough.
    #[inline]
    pub(super) fn push(&mut self, doc: u32, score: f32) {
        if score >= self.least {
            self.found.push(ScoredDoc { doc: DocId(doc), score });
            if self.found.len() >= self.full {
                self.cut();
            }
        }
    }

    #[inline(never)]
    fn cut(&mut self) {
        if self.k == 0 {
            self.found.clear();
            return;
        }
        if self.found.len() > self.k {
            let (_, last, _) =
                self.found.select_nth_unstable_by(self.k - 1, |a, b| b.score.total_cmp(&a.score));
            self.least = self.least.max(last.score);
            let least = self.least;
            self.found.retain(|found| found.score >= least);
            // With many ties, cutting again after a few more would go over all of them each time.
            self.full = self.full.max(self.found.len() + self.found.len() / 2);
        }
    }

    /// What is left, in no order.
    pub(super) fn finish(mut self) -> Vec<ScoredDoc> {
        self.cut();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_and_all_that_are_tied_with_the_last(scores in prop::collection::vec(1..12u32, 0..200), k in 0..40usize) {
            let mut top = Top::new(k, scores.len());
            let scores: Vec<f32> = scores.iter().map(|score| *score as f32 / 3.0).collect();
            scores.iter().zip(0..).for_each(|(score, doc)| top.push(doc, *score));
            let mut sorted = scores.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let least = if k == 0 { f32::INFINITY } else { sorted.get(k - 1).copied().unwrap_or(0.0) };
            let expected: Vec<u32> =
                scores.iter().zip(0..).filter(|(score, _)| **score >= least).map(|(_, doc)| doc).collect();
            let mut found: Vec<u32> = top.finish().iter().map(|found| found.doc.0).collect();
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
