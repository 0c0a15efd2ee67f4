//! One score from two legs. Pure functions over scored candidates.
//!
//! Weighted fusion scales each leg by its true best among the allowed documents and gives the weight of a leg that
//! is absent, for the query or for one document, to the other: nothing is capped for what it lacks.

use crate::error::{Error, Result};
use crate::ids::DocId;
use std::cmp::Ordering;
use std::str::FromStr;

/// Matched share of the query's idf mass from which on the lexical leg has its full weight. A query of which next to
/// nothing is in the memory says little through the words it shares.
pub const FULL_MASS: f64 = 0.15;
/// Rank constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009).
pub const RRF_K: f64 = 60.0;
/// A best cosine that is no more above the floor tells no documents apart.
const SPAN: f64 = 1e-9;
/// How many of the best lexical candidates vouch for the matched mass.
pub const MASS_DEPTH: usize = 10;

/// How two legs become one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fusion {
    /// Weighted sum of scaled scores.
    #[default]
    Weighted,
    /// Reciprocal ranks.
    Rrf,
}

impl FromStr for Fusion {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "weighted" => Ok(Self::Weighted),
            "rrf" => Ok(Self::Rrf),
            _ => Err(Error::invalid("fusion", format!("{word:?} is not one of weighted, rrf"))),
        }
    }
}

/// Weights of the legs; only their ratio counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    lexical: f64,
    vector: f64,
}

impl Weights {
    /// # Errors
    /// [`Error::InvalidInput`] unless both are finite, none is negative and one is positive.
    pub fn new(lexical: f64, vector: f64) -> Result<Self> {
        let fine = |w: f64| w.is_finite() && w >= 0.0;
        let sum = lexical + vector;
        if !fine(lexical) || !fine(vector) || !sum.is_finite() || sum <= 0.0 {
            return Err(Error::invalid("weights", "must be finite, not negative, and not all zero"));
        }
        Ok(Self { lexical: lexical / sum, vector: vector / sum })
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self { lexical: 0.5, vector: 0.5 }
    }
}

/// A document with its raw scores.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// The document.
    pub doc: DocId,
    /// BM25: 0 when no word matched, None when it has no text.
    pub bm25: Option<f32>,
    /// Cosine, None when it has no vector.
    pub cosine: Option<f32>,
}

/// A candidate with its fused score.
#[derive(Debug, Clone, Copy)]
pub struct Scored {
    /// The raw scores.
    pub raw: Candidate,
    /// Orders the answer, 0 to 1.
    pub score: f64,
    /// BM25 over the best one, when the lexical leg counts for it.
    pub lexical: Option<f64>,
    /// Cosine above the floor over the best one, when the vector leg counts for it.
    pub vector: Option<f64>,
}

/// Which legs found anything, and what their scores were scaled by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scales {
    /// Best BM25 among the candidates; 0 when the leg is absent.
    pub bm25_best: f64,
    /// Best cosine; None when the leg is absent.
    pub cosine_best: Option<f64>,
    /// Cosine that counts as nothing.
    pub cosine_floor: f64,
    /// Part of its weight that the lexical leg keeps, from the matched mass.
    pub confidence: f64,
}

impl Scales {
    /// `cosine_floor` and `mass` as for [`fuse`].
    pub fn new(bm25_best: f32, cosine_best: Option<f32>, cosine_floor: f64, mass: f32) -> Self {
        let confidence = (f64::from(mass) / FULL_MASS).min(1.0);
        let (bm25_best, cosine_best) = (f64::from(bm25_best), cosine_best.map(f64::from));
        Self { bm25_best, cosine_best, cosine_floor, confidence }
    }

    fn of(candidates: &[Candidate], cosine_floor: f64, mass: f32) -> Self {
        let best =
            |raw: fn(&Candidate) -> Option<f32>| candidates.iter().filter_map(raw).max_by(f32::total_cmp);
        Self::new(best(|c| c.bm25).unwrap_or(0.0), best(|c| c.cosine), cosine_floor, mass)
    }

    /// Whether the lexical leg found anything.
    pub fn has_lexical(&self) -> bool {
        self.bm25_best > 0.0
    }

    /// Whether the vector leg found anything.
    pub fn has_vector(&self) -> bool {
        self.cosine_best.is_some()
    }

    /// Whether the best vector is above what counts as nothing.
    pub fn tells_vectors_apart(&self) -> bool {
        self.cosine_best.is_some_and(|best| best - self.cosine_floor > SPAN)
    }

    /// The weighted sum of a candidate's scaled scores, with `weight` that of the lexical leg for one that has both.
    pub fn sum(&self, candidate: &Candidate, weight: f64) -> f64 {
        joined(self.lexical(candidate), self.vector(candidate), weight)
    }

    fn lexical(&self, candidate: &Candidate) -> Option<f64> {
        candidate.bm25.filter(|_| self.has_lexical()).map(|score| f64::from(score) / self.bm25_best)
    }

    fn vector(&self, candidate: &Candidate) -> Option<f64> {
        let (cosine, best) = (f64::from(candidate.cosine?), self.cosine_best?);
        let span = best - self.cosine_floor;
        // All alike: with nothing above the floor the leg cannot tell documents apart.
        if span <= SPAN {
            return Some(if cosine > 0.0 && cosine >= best { 1.0 } else { 0.0 });
        }
        Some(((cosine - self.cosine_floor) / span).clamp(0.0, 1.0))
    }

    /// Weight of the lexical leg for a document that has both.
    pub fn lexical_weight(&self, weights: Weights) -> f64 {
        weights.lexical * self.confidence
    }
}

fn joined(lexical: Option<f64>, vector: Option<f64>, weight: f64) -> f64 {
    match (lexical, vector) {
        (Some(l), Some(v)) => weight * l + (1.0 - weight) * v,
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => 0.0,
    }
}

/// Scores every candidate. `cosine_floor` is what unrelated text scores, 0 when that is not known; `mass` the largest
/// share of the query's idf mass that one of the [`MASS_DEPTH`] best lexical candidates (and those tied with the last)
/// matched, which only matters when both legs found something.
pub fn fuse(
    candidates: &[Candidate],
    fusion: Fusion,
    weights: Weights,
    cosine_floor: f64,
    mass: f32,
) -> (Vec<Scored>, Scales) {
    let scales = Scales::of(candidates, cosine_floor, mass);
    let mut scored: Vec<Scored> = candidates
        .iter()
        .map(|raw| {
            let (lexical, vector) = (scales.lexical(raw), scales.vector(raw));
            let score = joined(lexical, vector, scales.lexical_weight(weights));
            debug_assert!(score.is_finite());
            Scored { raw: *raw, score, lexical, vector }
        })
        .collect();
    if fusion == Fusion::Rrf && scales.has_lexical() && scales.has_vector() {
        reciprocal_ranks(&mut scored, weights);
    }
    (scored, scales)
}

/// `sum w / (k + rank)` over the legs a document has, divided by the best it could reach with them. Equal raw scores
/// share the better rank, so that the result does not depend on how ties are listed.
fn reciprocal_ranks(scored: &mut [Scored], weights: Weights) {
    let lexical = ranks(scored, |c| c.bm25.filter(|s| *s > 0.0));
    let vector = ranks(scored, |c| c.cosine);
    for (item, (l, v)) in scored.iter_mut().zip(lexical.into_iter().zip(vector)) {
        let gain = |rank: Option<usize>| rank.map_or(0.0, |rank| (RRF_K + 1.0) / (RRF_K + rank as f64));
        let (mut sum, mut most) = (0.0, 0.0);
        if item.raw.bm25.is_some() {
            sum += weights.lexical * gain(l);
            most += weights.lexical;
        }
        if item.raw.cosine.is_some() {
            sum += weights.vector * gain(v);
            most += weights.vector;
        }
        item.score = if most > 0.0 { sum / most } else { 0.0 };
    }
}

/// Rank of each item from 1, best first; None without a score.
fn ranks(scored: &[Scored], raw: impl Fn(&Candidate) -> Option<f32>) -> Vec<Option<usize>> {
    let mut order: Vec<(f32, usize)> =
        scored.iter().enumerate().filter_map(|(at, item)| Some((raw(&item.raw)?, at))).collect();
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut ranks = vec![None; scored.len()];
    let mut rank = 0;
    for (place, (score, at)) in order.iter().enumerate() {
        if place == 0 || *score < order[place - 1].0 {
            rank = place + 1;
        }
        ranks[*at] = Some(rank);
    }
    ranks
}

/// The order of an answer, best first: one leg alone gives that leg's exact order, two give the fused score.
///
/// Ties are left to the caller.
pub fn compare(a: &Scored, b: &Scored, scales: &Scales) -> Ordering {
    let raw = |x: Option<f32>, y: Option<f32>| {
        y.unwrap_or(f32::NEG_INFINITY).total_cmp(&x.unwrap_or(f32::NEG_INFINITY))
    };
    match (scales.has_lexical(), scales.has_vector()) {
        (true, false) => raw(a.raw.bm25, b.raw.bm25),
        (false, true) => raw(a.raw.cosine, b.raw.cosine),
        _ => b.score.total_cmp(&a.score),
    }
}

/// The best `k` in the given total order, sorted; the cut never depends on how the input was ordered.
pub fn select(
    mut scored: Vec<Scored>,
    k: usize,
    order: impl Fn(&Scored, &Scored) -> Ordering,
) -> Vec<Scored> {
    if k == 0 {
        return Vec::new();
    }
    if scored.len() > k {
        scored.select_nth_unstable_by(k - 1, &order);
        scored.truncate(k);
    }
    scored.sort_unstable_by(&order);
    scored
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(doc: u32, bm25: Option<f32>, cosine: Option<f32>) -> Candidate {
        Candidate { doc: DocId(doc), bm25, cosine }
    }

    fn ranked(candidates: &[Candidate], fusion: Fusion, mass: f32) -> Vec<(u32, f64)> {
        let (scored, scales) = fuse(candidates, fusion, Weights::default(), 0.0, mass);
        select(scored, usize::MAX, |a, b| compare(a, b, &scales).then(a.raw.doc.cmp(&b.raw.doc)))
            .iter()
            .map(|s| (s.raw.doc.0, s.score))
            .collect()
    }

    #[test]
    fn a_perfect_keyword_match_without_a_vector_reaches_the_top() {
        let pool = [
            candidate(0, Some(9.0), None),
            candidate(1, Some(0.0), Some(0.9)),
            candidate(2, Some(2.0), Some(0.5)),
        ];
        for fusion in [Fusion::Weighted, Fusion::Rrf] {
            let order = ranked(&pool, fusion, 1.0);
            assert_eq!(order[0].0, 0, "{fusion:?}");
            assert!((order[0].1 - 1.0).abs() < 1e-9, "{fusion:?}");
        }
    }

    #[test]
    fn words_that_match_next_to_nothing_give_their_weight_away() {
        let pool = [candidate(0, Some(0.5), Some(0.1)), candidate(1, Some(0.0), Some(0.9))];
        let order = ranked(&pool, Fusion::Weighted, 0.03);
        assert_eq!(order[0].0, 1);
        // confidence .2, lexical weight .1
        assert!((order[0].1 - 0.9).abs() < 1e-6 && (order[1].1 - (0.1 + 0.9 * 0.1 / 0.9)).abs() < 1e-6);
    }

    #[test]
    fn one_leg_alone_keeps_its_exact_order_below_zero_too() {
        let pool: Vec<Candidate> =
            [-0.5, -0.1, -0.9].iter().zip(0..).map(|(c, d)| candidate(d, None, Some(*c))).collect();
        let order: Vec<u32> = ranked(&pool, Fusion::Weighted, 0.0).iter().map(|r| r.0).collect();
        assert_eq!(order, [1, 0, 2]);
    }

    #[test]
    fn equal_scores_share_a_rank() {
        let pool = [
            candidate(0, Some(1.0), Some(0.5)),
            candidate(1, Some(1.0), Some(0.5)),
            candidate(2, Some(0.5), Some(0.4)),
        ];
        let order = ranked(&pool, Fusion::Rrf, 1.0);
        assert!((order[0].1 - order[1].1).abs() < 1e-12 && order[1].1 > order[2].1);
    }

    #[test]
    fn weights_are_checked() {
        for (l, v) in [(-1.0, 1.0), (f64::NAN, 1.0), (0.0, 0.0), (f64::INFINITY, 1.0), (f64::MAX, f64::MAX)] {
            assert!(Weights::new(l, v).is_err(), "{l} {v}");
        }
        assert_eq!(Weights::new(3.0, 1.0).unwrap(), Weights { lexical: 0.75, vector: 0.25 });
    }

    proptest! {
        #[test]
        fn scores_are_finite_in_range_and_independent_of_listing_order(
            raw in proptest::collection::vec(
                (proptest::option::of(0.0..20.0f32), proptest::option::of(-1.0..1.0f32)), 0..40),
            rrf in any::<bool>(), floor in -0.5..0.9f64, mass in 0.0..1.0f32,
        ) {
            let pool: Vec<Candidate> =
                raw.iter().zip(0..).map(|((b, c), d)| candidate(d, *b, *c)).collect();
            let fusion = if rrf { Fusion::Rrf } else { Fusion::Weighted };
            let (scored, _) = fuse(&pool, fusion, Weights::default(), floor, mass);
            for s in &scored {
                prop_assert!((0.0..=1.0 + 1e-12).contains(&s.score), "{:?}", s);
            }
            let mut reversed = pool.clone();
            reversed.reverse();
            let mut other = fuse(&reversed, fusion, Weights::default(), floor, mass).0;
            other.reverse();
            for (a, b) in scored.iter().zip(&other) {
                prop_assert_eq!(a.score.to_bits(), b.score.to_bits());
            }
        }
    }
}
