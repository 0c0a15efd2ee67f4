//! One question to both legs.

use super::Index;
use crate::explain::Explanation;
use crate::fusion::{self, Candidate, Fusion, Scales, Scored, Weights};
use crate::ids::DocId;
use crate::lexical::TermExplanation;
use crate::text::Query;
use crate::vector::{Refusal, UnitRow};
use fixedbitset::FixedBitSet;
use std::cmp::Ordering;

/// A question, and how its two legs are to be put together.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Words to search, None to leave the lexical leg out.
    pub query: Option<&'a Query>,
    /// Vector to search, None to leave the vector leg out.
    pub vector: Option<&'a UnitRow>,
    /// Documents that may be found, by number; None for all.
    pub allowed: Option<&'a FixedBitSet>,
    /// How scores are joined.
    pub fusion: Fusion,
    /// What each leg weighs.
    pub weights: Weights,
    /// Whether a cosine counts from what the average document scores (else from 0).
    pub centred: bool,
}

/// Every document that either leg found, scored but not ordered.
#[derive(Debug)]
pub struct Ranking {
    /// The documents.
    pub scored: Vec<Scored>,
    /// What the scores were scaled by.
    pub scales: Scales,
    /// How many the lexical leg found.
    pub lexical_found: usize,
    /// How many the vector leg compared.
    pub vector_found: usize,
}

impl Ranking {
    /// Best first: see [`fusion::compare`]; `tie` decides between equal ones.
    pub fn order<'a, K: Ord>(
        &'a self,
        tie: impl Fn(DocId) -> K + 'a,
    ) -> impl Fn(&Scored, &Scored) -> Ordering + 'a {
        move |a, b| fusion::compare(a, b, &self.scales).then_with(|| tie(a.raw.doc).cmp(&tie(b.raw.doc)))
    }
}

impl Index {
    /// Scores every allowed document that a leg finds.
    ///
    /// # Errors
    /// [`Refusal::Width`] when the query vector is not as wide as the index.
    pub fn rank(&self, ask: &Ask<'_>) -> Result<Ranking, Refusal> {
        let matches = ask.query.map(|query| self.lexical.search(query, ask.allowed));
        let lexical_found = matches.as_ref().map_or(0, |m| m.docs.len());
        let cosines = match ask.vector {
            Some(vector) => Some(self.vectors.cosines(vector, ask.allowed, self.max_doc())?),
            None => None,
        };
        let mut vector_found = 0;
        let mut pool: Vec<Candidate> = Vec::with_capacity(lexical_found);
        let found = matches.iter().flat_map(|m| m.docs.iter().zip(&m.scores).zip(&m.mass));
        let found = found.map(|((doc, score), mass)| (*doc, *score, *mass));
        match &cosines {
            None => {
                let add = |(doc, score, mass)| Candidate { doc, bm25: Some(score), mass, cosine: None };
                pool.extend(found.map(add));
            }
            Some(cosines) => {
                let mut found = found.peekable();
                for (number, cosine) in cosines.iter().enumerate() {
                    let doc = DocId(number as u32);
                    let matched = found.next_if(|(next, ..)| *next == doc);
                    let cosine = (!cosine.is_nan()).then_some(*cosine);
                    vector_found += usize::from(cosine.is_some());
                    if matched.is_none() && cosine.is_none() {
                        continue;
                    }
                    let (bm25, mass) = match matched {
                        Some((_, score, mass)) => (Some(score), mass),
                        // The document has words, none of them asked for; or no words at all.
                        None => ((matches.is_some() && self.texts.contains(number)).then_some(0.0), 0.0),
                    };
                    pool.push(Candidate { doc, bm25, mass, cosine });
                }
            }
        }
        let floor = match ask.vector.filter(|_| ask.centred).zip(self.vectors.mean()) {
            Some((vector, mean)) => vector.as_slice().iter().zip(&mean).map(|(q, m)| f64::from(*q) * m).sum(),
            None => 0.0,
        };
        let (scored, scales) = fusion::fuse(&pool, ask.fusion, ask.weights, floor);
        Ok(Ranking { scored, scales, lexical_found, vector_found })
    }

    /// The tree behind a score of [`Index::rank`] for the same question.
    pub fn explain(&self, ask: &Ask<'_>, ranking: &Ranking, scored: &Scored) -> Explanation {
        let scales = &ranking.scales;
        let lexical = scored.lexical.map(|value| {
            let terms = ask.query.map_or_else(Vec::new, |query| self.lexical.explain(query, scored.raw.doc));
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

fn term_node(term: &TermExplanation) -> Explanation {
    // A term that begins with `=` is the word as it was written, beside its stem.
    let form = match term.term.strip_prefix('=') {
        Some(written) => format!("{written} as written"),
        None if term.term == term.surface => term.term.clone(),
        None => format!("{} as {}", term.surface, term.term),
    };
    let (documents, weight) = (term.doc_freq, term.weight);
    let plural = if documents == 1 { "" } else { "s" };
    let weight = if (weight - 1.0).abs() < 1e-6 { String::new() } else { format!(" x weight {weight}") };
    let description = format!(
        "{form}: idf {:.4} (in {documents} document{plural}){weight} x saturation of tf {}",
        term.idf, term.tf
    );
    Explanation::leaf(f64::from(term.score), description)
}
