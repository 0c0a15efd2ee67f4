//! One question to both legs.

use super::Index;
use super::both::Joined;
use crate::error::counted;
use crate::explain::Explanation;
use crate::fusion::{self, Candidate, Fusion, MASS_DEPTH, Scales, Scored, Weights};
use crate::ids::DocId;
use crate::lexical::{Likeness, Question, ScoredDoc, TermExplanation};
use crate::text::Query;
use crate::vector::{Effort, Near, Refusal, UnitRow};
use fixedbitset::FixedBitSet;
use std::cmp::Ordering;

/// Of each leg at least so many are candidates where ranks are joined, which need a place in both lists.
const MIN_DEPTH: usize = 200;

/// For who asks for so many all are scored by both legs: telling which can be in the answer would leave out few.
const ALL: usize = 1_000;

/// A question, and how its two legs are to be put together.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Words to search, None to leave the lexical leg out.
    pub query: Option<&'a Query>,
    /// Vector to search, None to leave the vector leg out.
    pub vector: Option<&'a UnitRow>,
    /// Documents that may be found, by number; None for all.
    pub allowed: Option<&'a FixedBitSet>,
    /// How many documents the answer will take.
    pub k: usize,
    /// How scores are joined.
    pub fusion: Fusion,
    /// What each leg weighs.
    pub weights: Weights,
    /// How hard to look for near vectors.
    pub effort: Effort,
    /// Whether a cosine counts from what the average document scores (else from 0).
    pub centred: bool,
}

/// The documents that can be among the answer, scored but not ordered.
#[derive(Debug)]
pub struct Ranking<'a> {
    /// The documents: of one leg alone its best `k` and all that are tied with the last of them; of two, those that
    /// either leg has near the top.
    pub scored: Vec<Scored>,
    /// What the scores were scaled by.
    pub scales: Scales,
    /// How many the lexical leg put forward.
    pub lexical_found: usize,
    /// How many the vector leg put forward.
    pub vector_found: usize,
    /// Vectors that were compared one by one, and those over whose graph it walked.
    pub vectors_seen: (usize, usize),
    question: Option<Question<'a, 'a>>,
}

impl Ranking<'_> {
    /// Best first: see [`fusion::compare`]; `tie` decides between equal ones.
    pub fn order<'a, K: Ord>(
        &self,
        tie: impl Fn(DocId) -> K + 'a,
    ) -> impl Fn(&Scored, &Scored) -> Ordering + 'a {
        let scales = self.scales;
        move |a, b| fusion::compare(a, b, &scales).then_with(|| tie(a.raw.doc).cmp(&tie(b.raw.doc)))
    }

    /// Share of the query's idf mass that a document matched, 0 to 1.
    pub fn mass(&self, doc: DocId) -> f32 {
        self.question.as_ref().map_or(0.0, |question| question.mass(doc))
    }

    /// The words of the question that occur in a document, as they were written.
    pub fn matched_terms(&self, doc: DocId) -> Vec<String> {
        self.question.as_ref().map_or_else(Vec::new, |question| question.matched_terms(doc))
    }
}

impl Ranking<'_> {
    /// The words of the question that stand for others, each with these.
    pub fn expansions(&self) -> Vec<(String, Vec<String>)> {
        self.question.as_ref().map_or_else(Vec::new, Question::expansions)
    }

    /// The tree behind a score; `ask` is what was ranked.
    pub fn explain(&self, ask: &Ask<'_>, scored: &Scored) -> Explanation {
        let scales = &self.scales;
        let lexical = scored.lexical.map(|value| {
            let question = self.question.as_ref();
            let terms = question.map_or_else(Vec::new, |question| question.explain(scored.raw.doc));
            let terms = terms.iter().map(term_node).collect();
            let bm25 = f64::from(scored.raw.bm25.unwrap_or(0.0));
            let sum = Explanation::node(bm25, "BM25, sum of the matched terms", terms);
            let best = Explanation::leaf(scales.bm25_best, "best BM25 among the records allowed");
            Explanation::node(value, "lexical = BM25 / best", vec![sum, best])
        });
        let vector = scored.vector.map(|value| {
            let details = vec![
                Explanation::leaf(f64::from(scored.raw.cosine.unwrap_or(0.0)), "cosine with the query"),
                Explanation::leaf(scales.cosine_best.unwrap_or(0.0), "best cosine among the records allowed"),
                Explanation::leaf(scales.cosine_floor, "floor: what counts as unrelated"),
            ];
            Explanation::node(value, "vector = (cosine - floor) / (best - floor), within 0 and 1", details)
        });
        let both = lexical.is_some() && vector.is_some();
        let description = match (ask.fusion, both) {
            (Fusion::Rrf, true) => {
                "reciprocal ranks of both legs, k = 60, over the best attainable".to_owned()
            }
            (Fusion::Weighted, true) => {
                let w = scales.lexical_weight(ask.weights);
                format!("{w:.3} x lexical + {:.3} x vector", 1.0 - w)
            }
            _ if lexical.is_some() => "lexical alone: no vector to compare".to_owned(),
            _ if vector.is_some() => "vector alone: no words to compare".to_owned(),
            _ => "neither leg scored it".to_owned(),
        };
        Explanation::node(scored.score, description, lexical.into_iter().chain(vector).collect())
    }
}

impl Index {
    /// Scores the allowed documents that can be among the best `k`.
    ///
    /// # Errors
    /// [`Refusal::Width`] when the query vector is not as wide as the index.
    pub fn rank<'a>(&'a self, ask: &Ask<'a>) -> Result<Ranking<'a>, Refusal> {
        let question = ask.query.map(|query| self.lexical.question_among(query, ask.allowed));
        let floor = match ask.vector.filter(|_| ask.centred).zip(self.vectors.mean()) {
            Some((vector, mean)) => vector.as_slice().iter().zip(&mean).map(|(q, m)| f64::from(*q) * m).sum(),
            None => 0.0,
        };
        let joined = match (&question, ask.vector) {
            (Some(question), Some(vector)) if ask.fusion == Fusion::Weighted && (1..ALL).contains(&ask.k) => {
                self.join(question, vector, ask, floor)?
            }
            _ => None,
        };
        let both = ask.query.is_some() && ask.vector.is_some();
        let depth = match ask.fusion {
            _ if !both => ask.k,
            Fusion::Weighted if ask.k >= ALL => usize::MAX,
            _ => ask.k.max(MIN_DEPTH),
        };
        let joined = joined.map_or_else(|| self.put_forward(question.as_ref(), ask, depth), Ok)?;
        let Joined { pool, mass, lexical_found, vector_found, vectors_seen } = joined;
        let (scored, scales) = fusion::fuse(&pool, ask.fusion, ask.weights, floor, mass);
        Ok(Ranking { scored, scales, lexical_found, vector_found, vectors_seen, question })
    }

    /// The `depth` best of either leg, with the scores of both.
    pub(super) fn put_forward(
        &self,
        question: Option<&Question<'_, '_>>,
        ask: &Ask<'_>,
        depth: usize,
    ) -> Result<Joined, Refusal> {
        let mut found = question.map_or_else(Vec::new, |q| q.top(depth, ask.allowed));
        let near = ask.vector.map(|vector| self.vectors.look(vector, depth, ask.allowed, ask.effort));
        let Near { found: mut near, compared, walked, .. } = near.transpose()?.unwrap_or_default();
        let (lexical_found, vector_found) = (found.len(), near.len());
        let mut mass = 0.0;
        let pool = if let (Some(question), Some(vector)) = (question, ask.vector) {
            mass = best_mass(question, &mut found);
            found.sort_unstable_by_key(|found| found.doc);
            near.sort_unstable_by_key(|(doc, _)| *doc);
            self.candidates_of_both(question, vector, &found, &near)?
        } else {
            let of_words =
                found.iter().map(|found| Candidate { doc: found.doc, bm25: Some(found.score), cosine: None });
            let of_vectors =
                near.iter().map(|(doc, cosine)| Candidate { doc: *doc, bm25: None, cosine: Some(*cosine) });
            of_words.chain(of_vectors).collect()
        };
        Ok(Joined { pool, mass, lexical_found, vector_found, vectors_seen: (compared, walked) })
    }

    /// What either leg found, each with what the other leg makes of it; both in order of the documents.
    fn candidates_of_both(
        &self,
        question: &Question<'_, '_>,
        vector: &UnitRow,
        found: &[ScoredDoc],
        near: &[(DocId, f32)],
    ) -> Result<Vec<Candidate>, Refusal> {
        let mut pool: Vec<Candidate> = Vec::with_capacity(found.len() + near.len());
        let (mut by_words, mut by_vector) = (found.iter().peekable(), near.iter().peekable());
        let (mut far, mut places) = (Vec::new(), Vec::new());
        loop {
            let words = by_words.peek().map(|found| found.doc);
            let next = words.into_iter().chain(by_vector.peek().map(|(doc, _)| *doc)).min();
            let Some(doc) = next else { break };
            let bm25 = by_words.next_if(|found| found.doc == doc).map(|found| found.score);
            let cosine = by_vector.next_if(|(near, _)| *near == doc).map(|(_, cosine)| *cosine);
            if cosine.is_none() {
                far.push(doc);
                places.push(pool.len());
            }
            // Without a word of the question it scores 0; without any text there is nothing to score.
            let score = || self.texts.contains(doc.index()).then(|| question.score(doc));
            pool.push(Candidate { doc, bm25: bm25.or_else(score), cosine });
        }
        let cosines = self.vectors.scores_of(vector, &far)?;
        for (place, cosine) in places.into_iter().zip(cosines) {
            pool[place].cosine = Some(cosine).filter(|cosine| !cosine.is_nan());
        }
        Ok(pool)
    }
}

/// The largest share of the mass that one of the best lexical candidates matched.
pub(super) fn best_mass(question: &Question<'_, '_>, found: &mut [ScoredDoc]) -> f32 {
    let least = match found.len().checked_sub(MASS_DEPTH) {
        None | Some(0) => 0.0,
        Some(_) => found.select_nth_unstable_by(MASS_DEPTH - 1, |a, b| b.score.total_cmp(&a.score)).1.score,
    };
    let best = found.iter().filter(|found| found.score >= least);
    best.map(|found| question.mass(found.doc)).fold(0.0, f32::max)
}

fn term_node(term: &TermExplanation) -> Explanation {
    // A term that begins with `=` is the word as it was written, beside its stem.
    let form = match (term.likeness, term.term.strip_prefix('=')) {
        (Some(likeness), _) => {
            let how = match likeness {
                Likeness::Synonym => "synonym",
                Likeness::Prefix => "begins with it",
                Likeness::Typo => "typo",
            };
            format!("{} → {} ({how})", term.surface, term.term)
        }
        (None, Some(written)) => format!("{written} as written"),
        (None, None) if term.term == term.surface => term.term.clone(),
        (None, None) => format!("{} as {}", term.surface, term.term),
    };
    let (documents, weight) = (counted(term.doc_freq as usize, "document"), term.weight);
    let weight = if (weight - 1.0).abs() < 1e-6 { String::new() } else { format!(" x weight {weight}") };
    let description =
        format!("{form}: idf {:.4} (in {documents}){weight} x saturation of tf {}", term.idf, term.tf);
    Explanation::leaf(f64::from(term.score), description)
}
