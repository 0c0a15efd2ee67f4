//! Text analysis: from text to the terms of the lexical index. Pure, and the same for documents and queries.
//!
//! The default analyzer normalises (NFKC, full case folding, invisible characters out), splits at script borders, takes
//! CJK and the other unspaced scripts by characters and overlapping pairs, and indexes identifiers whole and in parts.
//! An English word gives its Snowball stem with weight 1 and its surface form, a term of its own that begins with `=`,
//! with weight one half, so that `authorization` (stem `author`) is not `author`. An accented word gives its form
//! without accents with weight one half.
//!
//! Weights are counted in halves and belong to the documents; the weight of a query term is 1, but for CJK pairs.

mod chars;
mod forms;
mod normalize;
mod plain;
mod query;
mod segment;
mod stem;
mod stop;
pub(crate) mod term_table;

pub use query::{CJK_PAIR_WEIGHT, Query, QueryTerm};

use forms::{Forms, Token};
use query::QueryBuilder;
use std::fmt;

/// Raised whenever any text may give other terms than before. The exact version of the stemmer belongs to it: raise
/// this with every change of that pin. (The standard library's Unicode tables may grow with the compiler: letters that
/// were unassigned before are the only ones they change.)
const ANALYZER_VERSION: u32 = 1;

/// Which pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AnalyzerKind {
    /// Everything described in the module's documentation.
    #[default]
    Default,
    /// Case-folded Unicode words and nothing else: no stems, surface forms or stop words. For comparison with others.
    Plain,
}

/// Which language's words are stemmed and whose stop words are dropped from queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// Snowball's English stemmer and 85 function words.
    #[default]
    English,
    /// Words as they are.
    Off,
}

/// Identity of an analyzer: text analysed under another id is not comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnalyzerId {
    kind: AnalyzerKind,
    language: Language,
    version: u32,
}

impl fmt::Display for AnalyzerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.language) {
            (AnalyzerKind::Default, Language::English) => write!(f, "default-english-{}", self.version),
            (AnalyzerKind::Default, Language::Off) => write!(f, "default-off-{}", self.version),
            (AnalyzerKind::Plain, _) => write!(f, "plain-{}", self.version),
        }
    }
}

/// Turns text into terms. Cheap to clone and to share between threads; the stem cache is the thread's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Analyzer {
    kind: AnalyzerKind,
    language: Language,
}

impl Analyzer {
    /// The language does not matter to [`AnalyzerKind::Plain`].
    pub fn new(kind: AnalyzerKind, language: Language) -> Self {
        let language = if kind == AnalyzerKind::Plain { Language::Off } else { language };
        Self { kind, language }
    }

    /// Which pipeline it is.
    pub fn kind(&self) -> AnalyzerKind {
        self.kind
    }

    /// What the terms depend on.
    pub fn id(&self) -> AnalyzerId {
        AnalyzerId { kind: self.kind, language: self.language, version: ANALYZER_VERSION }
    }

    /// Calls `sink` with every term of `text` in order and its weight in halves: 2, or 1 for a surface form or a form
    /// without accents.
    pub fn document(&self, text: &str, sink: &mut dyn FnMut(&str, u8)) {
        self.each_term(text, |term, halves| {
            if let Ok(term) = std::str::from_utf8(term) {
                sink(term, halves);
            }
        });
    }

    /// The distinct terms of a query text, stop words dropped unless nothing else is left.
    pub fn query(&self, text: &str) -> Query {
        let mut builder = QueryBuilder::default();
        match self.kind {
            AnalyzerKind::Plain => {
                plain::words(text, &mut |term, written| builder.push(term, written, 1.0, false));
            }
            AnalyzerKind::Default => {
                let english = self.language == Language::English;
                self.tokens(text, |token| builder.add(token, english));
            }
        }
        builder.build()
    }

    /// [`Analyzer::document`] without a virtual call per term, the terms as the bytes of their UTF-8.
    pub(crate) fn each_term(self, text: &str, mut sink: impl FnMut(&[u8], u8)) {
        match self.kind {
            AnalyzerKind::Plain => plain::words(text, &mut |term, _| sink(term.as_bytes(), 2)),
            AnalyzerKind::Default => self.tokens(text, |token| sink(token.term, token.halves)),
        }
    }

    fn tokens(self, text: &str, out: impl FnMut(Token<'_>)) {
        let mut normalized = String::new();
        let text = if text.is_ascii() {
            text
        } else {
            normalize::normalize_into(text, &mut normalized);
            &normalized
        };
        match self.language {
            Language::English => {
                stem::with_cache(|stems| segment::scan(text, &mut Forms::new(Some(stems), out)));
            }
            Language::Off => segment::scan(text, &mut Forms::new(None, out)),
        }
    }
}

#[cfg(test)]
mod tests;
