//! Scoring documents against a query.

use super::bm25::{QUARTERS, Saturation, TermExplanation, idf};
use super::index::LexicalIndex;
use crate::ids::{DocId, TermId};
use crate::text::{Query, QueryTerm};
use fixedbitset::FixedBitSet;
use std::cell::Cell;

/// With fewer allowed documents than one in this many (and than postings), they are looked up in the postings one by
/// one instead of scoring every posting: at 1 % allowed nine times faster, at 10 % slower.
const LOOK_UP_SHARE: usize = 32;

/// Weights of query terms beyond these are ignored: products stay far from zero and infinity.
const MIN_WEIGHT: f32 = 1e-6;
const MAX_WEIGHT: f32 = 1e6;

/// Every allowed live document that holds at least one term of the query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LexicalMatches {
    /// The documents, ascending.
    pub docs: Vec<DocId>,
    /// BM25 score of each, above 0.
    pub scores: Vec<f32>,
    /// Share of the query's idf x weight that each matched, 0..1. Terms no document holds count in the whole.
    pub mass: Vec<f32>,
}

impl LexicalMatches {
    fn push(&mut self, doc: u32, sums: Sums, total: f32) {
        assert!(sums.score.is_finite() && sums.mass > 0.0, "score {} of document {doc}", sums.score);
        self.docs.push(DocId(doc));
        self.scores.push(sums.score);
        self.mass.push(sums.mass / total);
    }
}

/// A query term with its statistics.
struct Planned<'q> {
    query: &'q QueryTerm,
    id: Option<TermId>,
    doc_freq: u32,
    idf: f32,
    /// idf x weight.
    mass: f32,
}

/// What a document has gathered.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    score: f32,
    mass: f32,
}

/// Accumulators by document. All zero between searches, so that a search pays for what it touches.
#[derive(Default)]
struct Scratch {
    sums: Vec<Sums>,
    /// One bit for each document with a sum.
    touched: Vec<usize>,
}

const BITS: usize = usize::BITS as usize;

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { sums: Vec::new(), touched: Vec::new() }) };
}

impl LexicalIndex {
    /// All live documents in `allowed` (indexed by document number; `None` allows all) with a term of the query.
    ///
    /// A document's sum runs over its terms in falling order of idf, equal ones by their text: no history and no
    /// filter changes a bit of it. Terms with a weight outside 1e-6..=1e6 are ignored.
    pub fn search(&self, query: &Query, allowed: Option<&FixedBitSet>) -> LexicalMatches {
        let plan = self.plan(query);
        let postings: usize = plan.iter().map(|term| term.doc_freq as usize).sum();
        if postings == 0 {
            return LexicalMatches::default();
        }
        if let Some(allowed) = allowed {
            let count = allowed.count_ones(..);
            if count < self.max_doc() as usize / LOOK_UP_SHARE && count < postings {
                return self.look_up(&plan, allowed);
            }
        }
        self.accumulate(&plan, allowed)
    }

    /// How each query term that occurs in `doc` scored, in the order of summation; their scores add up to the
    /// document's. Empty for a document that is not there.
    pub fn explain(&self, query: &Query, doc: DocId) -> Vec<TermExplanation> {
        if !self.contains(doc) {
            return Vec::new();
        }
        let saturation = self.saturation();
        let mut parts = Vec::new();
        for term in self.plan(query) {
            let tf = term.id.map_or(0, |id| self.tf(id, doc));
            if tf > 0 {
                parts.push(TermExplanation {
                    term: term.query.term.clone(),
                    surface: term.query.surface.clone(),
                    tf: tf as f32 / QUARTERS,
                    doc_freq: term.doc_freq,
                    idf: term.idf,
                    weight: term.query.weight,
                    score: term.mass * saturation.of(tf, self.doc_lens[doc.index()]),
                });
            }
        }
        parts
    }

    /// What the user typed that occurs in `doc`, each once, in the order of the query.
    pub fn matched_terms(&self, query: &Query, doc: DocId) -> Vec<String> {
        let mut matched: Vec<String> = Vec::new();
        if self.contains(doc) {
            for term in &query.terms {
                let found = self.terms.get(&term.term).is_some_and(|id| self.tf(id, doc) > 0);
                if found && !matched.contains(&term.surface) {
                    matched.push(term.surface.clone());
                }
            }
        }
        matched
    }

    /// The terms in canonical order.
    fn plan<'q>(&self, query: &'q Query) -> Vec<Planned<'q>> {
        let mut plan: Vec<Planned<'q>> = query
            .terms
            .iter()
            .filter(|term| (MIN_WEIGHT..=MAX_WEIGHT).contains(&term.weight))
            .map(|query| {
                let id = self.terms.get(&query.term);
                let doc_freq = id.map_or(0, |id| self.lists[id.index()].doc_freq);
                let idf = idf(self.num_docs, doc_freq);
                Planned { query, id, doc_freq, idf, mass: idf * query.weight }
            })
            .collect();
        plan.sort_by(|a, b| b.idf.total_cmp(&a.idf).then_with(|| a.query.term.cmp(&b.query.term)));
        plan
    }

    fn saturation(&self) -> Saturation {
        Saturation::new(self.params, self.num_docs, self.total_len)
    }

    /// Term by term over all postings.
    fn accumulate(&self, plan: &[Planned<'_>], allowed: Option<&FixedBitSet>) -> LexicalMatches {
        let saturation = self.saturation();
        let total = total_mass(plan);
        let size = self.doc_lens.len();
        let mut scratch = SCRATCH.take();
        if scratch.sums.len() < size {
            scratch.sums.resize(size, Sums::default());
            scratch.touched.resize(size.div_ceil(BITS), 0);
        }
        let (sums, touched) = (&mut scratch.sums[..size], &mut scratch.touched[..size.div_ceil(BITS)]);
        for term in plan {
            let Some(id) = term.id else { continue };
            // Neighbouring documents share a block of bits: it is gathered in a register and written once.
            let (mut block, mut bits) = (0, 0);
            for posting in &self.lists[id.index()].postings {
                let doc = posting.doc as usize;
                let sum = &mut sums[doc];
                sum.score += term.mass * saturation.of(posting.tf, self.doc_lens[doc]);
                sum.mass += term.mass;
                if doc / BITS != block {
                    touched[block] |= bits;
                    (block, bits) = (doc / BITS, 0);
                }
                bits |= 1 << (doc % BITS);
            }
            touched[block] |= bits;
        }
        let upper = plan.iter().map(|term| term.doc_freq as usize).sum::<usize>().min(self.num_docs as usize);
        let mut matches = LexicalMatches {
            docs: Vec::with_capacity(upper),
            scores: Vec::with_capacity(upper),
            mass: Vec::with_capacity(upper),
        };
        let live = self.live.as_slice();
        for (block, bits) in touched.iter_mut().enumerate() {
            let mut rest = std::mem::take(bits);
            if rest == 0 {
                continue;
            }
            let kept =
                live[block] & allowed.map_or(usize::MAX, |a| a.as_slice().get(block).copied().unwrap_or(0));
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let doc = block * BITS + bit;
                let sum = std::mem::take(&mut sums[doc]);
                if kept & (1 << bit) != 0 {
                    matches.push(doc as u32, sum, total);
                }
            }
        }
        SCRATCH.set(scratch);
        matches
    }

    /// Document by document over the few that are allowed.
    fn look_up(&self, plan: &[Planned<'_>], allowed: &FixedBitSet) -> LexicalMatches {
        let saturation = self.saturation();
        let total = total_mass(plan);
        let mut lists: Vec<_> = plan
            .iter()
            .filter_map(|term| Some((term.mass, self.lists[term.id?.index()].postings.as_slice())))
            .collect();
        let mut matches = LexicalMatches::default();
        for doc in
            allowed.ones().take_while(|&doc| doc < self.doc_lens.len()).filter(|&doc| self.live.contains(doc))
        {
            let mut sum = Sums::default();
            for (mass, rest) in &mut lists {
                let at = rest.partition_point(|posting| (posting.doc as usize) < doc);
                *rest = &rest[at..];
                if let Some(posting) = rest.first().filter(|posting| posting.doc as usize == doc) {
                    sum.score += *mass * saturation.of(posting.tf, self.doc_lens[doc]);
                    sum.mass += *mass;
                }
            }
            if sum.mass > 0.0 {
                matches.push(doc as u32, sum, total);
            }
        }
        matches
    }
}

/// The mass of a document that holds every term, summed in the same order, so that its share is exactly 1.
fn total_mass(plan: &[Planned<'_>]) -> f32 {
    plan.iter().fold(0.0, |sum, term| sum + term.mass)
}
