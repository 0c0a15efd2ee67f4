//! The formula, its constants and its explanation in one place, so that they cannot disagree.
//!
//! ```text
//! score(term, doc) = idf * weight * tf * (k1 + 1) / (tf + k1 * (1 - b + b * doc_len / avg_doc_len))
//! idf              = ln(1 + (num_docs - doc_freq + 1/2) / (doc_freq + 1/2))
//! ```
//!
//! `tf` and `doc_len` are sums over fields (BM25F) of field weight times weight of the form. Both weights are multiples
//! of one half, so the sums are whole quarters: they are kept as integers and stay exact through any insertions and
//! removals. Numerator and denominator are both multiplied by four.

use super::params::Bm25Params;
use super::search::Likeness;

/// Quarters in one unit of term frequency or length.
pub(crate) const QUARTERS: f32 = 4.0;

/// Inverse document frequency over live documents; positive for every `doc_freq <= num_docs`.
pub fn idf(num_docs: u32, doc_freq: u32) -> f32 {
    debug_assert!(doc_freq <= num_docs, "{doc_freq} of {num_docs} documents");
    let (num_docs, doc_freq) = (f64::from(num_docs), f64::from(doc_freq));
    ((num_docs - doc_freq + 0.5) / (doc_freq + 0.5)).ln_1p() as f32
}

/// The part of the formula that depends on a document alone: `k1 * (1 - b + b * doc_len / avg_doc_len)`, in quarters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Norms {
    pub(super) base: f32,
    pub(super) slope: f32,
}

impl Norms {
    /// `total_len` is the sum of the lengths of all live documents, in quarters.
    pub(crate) fn new(params: Bm25Params, num_docs: u32, total_len: u64) -> Self {
        let avg_len = if num_docs == 0 { 0.0 } else { total_len as f64 / f64::from(num_docs) };
        let (k1, b) = (f64::from(params.k1()), f64::from(params.b()));
        // A collection of empty documents has no average; none of them holds a term either.
        let slope = if avg_len > 0.0 { f64::from(QUARTERS) * k1 * b / avg_len } else { 0.0 };
        let base = (f64::from(QUARTERS) * k1 * (1.0 - b)) as f32;
        // Never 0, so that a frequency of 0 is worth 0 and not 0 / 0.
        Self { base: base.max(f32::MIN_POSITIVE), slope: slope as f32 }
    }

    /// For a document of length `len` in quarters.
    #[inline]
    pub(crate) fn of(self, len: u32) -> f32 {
        self.base + self.slope * len as f32
    }
}

/// What `tf` occurrences, in quarters, are worth in a document with this norm: 0 to 1.
///
/// Scores are made of this, in this order and without fused operations: so they have the same bits everywhere. What only
/// decides which documents are scored may be an estimate of it.
#[inline]
pub(crate) fn saturation(tf: f32, norm: f32) -> f32 {
    tf / (tf + norm)
}

/// What a query term adds to a document's score at most: `idf * weight * (k1 + 1)`.
pub(crate) fn gain(mass: f32, params: Bm25Params) -> f32 {
    mass * (params.k1() + 1.0)
}

/// How one query term scored in one document.
#[derive(Debug, Clone, PartialEq)]
pub struct TermExplanation {
    /// The term as it is in the index; the word that occurs, when it stands for the one that was asked.
    pub term: String,
    /// What the user typed.
    pub surface: String,
    /// How the word that occurs is like the one that was asked; None when it is that one.
    pub likeness: Option<Likeness>,
    /// Weighted term frequency in the document.
    pub tf: f32,
    /// Live documents that hold the term; of a word that stands for another, those that hold either or any other that
    /// does so too.
    pub doc_freq: u32,
    /// Inverse document frequency.
    pub idf: f32,
    /// Weight of the query term.
    pub weight: f32,
    /// Its part of the document's score.
    pub score: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idf_is_positive_and_falls_with_doc_freq() {
        for num_docs in [1, 2, 1000, u32::MAX] {
            let mut last = f32::INFINITY;
            for doc_freq in [0, num_docs / 2, num_docs] {
                let value = idf(num_docs, doc_freq);
                assert!(value > 0.0 && value <= last, "{num_docs} {doc_freq} {value}");
                last = value;
            }
        }
        assert!((idf(10, 3) - (1.0_f32 + 7.5 / 3.5).ln()).abs() < 1e-6);
    }

    #[test]
    fn a_document_of_average_length_with_one_occurrence_is_worth_the_idf() {
        let params = Bm25Params::default();
        let norms = Norms::new(params, 10, 400);
        let score = |tf: f32, len| gain(1.0, params) * saturation(tf, norms.of(len));
        assert!((score(4.0, 40) - 1.0).abs() < 1e-6);
        assert!(score(4.0, 20) > 1.0 && score(4.0, 80) < 1.0);
        assert!(score(u32::MAX as f32, 40) <= 2.2 && score(0.0, 40).abs() < 1e-9);
        let params = Bm25Params::new(0.0, 1.0).unwrap();
        let flat = Norms::new(params, 10, 400);
        let score = |tf: f32, len| gain(1.0, params) * saturation(tf, flat.of(len));
        assert!((score(1.0, 4000) - 1.0).abs() < 1e-6, "k1 0 ignores repetition and length");
        assert!(score(0.0, 0).abs() < 1e-9, "what is not there is worth nothing, not NaN");
    }
}
