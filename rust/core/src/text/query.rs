//! The terms of a question.

use super::forms::{Kind, Token};
use super::stop::{is_cjk_stop, is_english};
use rustc_hash::FxHashSet;

/// What a pair of CJK characters weighs beside its characters. It is no multiple of one half, so it weighs here and
/// counts in full in the documents' term frequencies.
pub const CJK_PAIR_WEIGHT: f32 = 0.7;

/// One distinct term to look for.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryTerm {
    /// As it is in the index.
    pub term: String,
    /// As the user typed it (after Unicode normalisation), for explanations.
    pub surface: String,
    /// Factor on the term's score: 1, or 0.7 for a pair of CJK characters.
    ///
    /// The half weight of a surface form is not here: the documents hold it in their term frequency, and it must not
    /// be discounted twice.
    pub weight: f32,
}

/// Distinct terms in the order of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The terms, each once.
    pub terms: Vec<QueryTerm>,
}

impl Query {
    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}

/// Collects tokens into a query.
#[derive(Default)]
pub(super) struct QueryBuilder {
    seen: FxHashSet<String>,
    terms: Vec<(QueryTerm, bool)>,
}

impl QueryBuilder {
    /// Adds a token of the default analyzer. `english` says whether English stop words apply.
    pub(super) fn add(&mut self, token: Token<'_>, english: bool) {
        let Ok(term) = std::str::from_utf8(token.term) else { return };
        let stop = match token.kind {
            Kind::Word => english && is_english(token.word),
            Kind::Whole => false,
            Kind::Char | Kind::Pair => is_cjk_stop(term),
        };
        let weight = if token.kind == Kind::Pair { CJK_PAIR_WEIGHT } else { 1.0 };
        self.push(term, token.written, weight, stop);
    }

    /// Adds a term if it is new.
    pub(super) fn push(&mut self, term: &str, written: &str, weight: f32, stop: bool) {
        if !self.seen.contains(term) {
            self.seen.insert(term.to_owned());
            let term = QueryTerm { term: term.to_owned(), surface: written.to_owned(), weight };
            self.terms.push((term, stop));
        }
    }

    /// The query without its stop words, or with them if they are all there is.
    pub(super) fn build(self) -> Query {
        let only_stops = self.terms.iter().all(|(_, stop)| *stop);
        Query {
            terms: self
                .terms
                .into_iter()
                .filter(|(_, stop)| only_stops || !stop)
                .map(|(term, _)| term)
                .collect(),
        }
    }
}
