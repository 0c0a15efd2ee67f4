//! Text analysis: from text to the terms of the lexical index. Pure, and the same for documents and queries.
//!
//! The default analyzer normalises (NFKC, full case folding, invisible characters out), splits at script borders, takes
//! CJK and the other unspaced scripts by characters and overlapping pairs, and indexes identifiers whole and in parts.
//! An English word gives its Snowball stem with weight 1 and its surface form, a term of its own that begins with `=`,
//! with weight one half, so that `authorization` (stem `author`) is not `author`; so does every word when another
//! language is set. An accented word gives its form without accents with weight one half, and so does a number with
//! grouped digits its form without the groups.
//!
//! Weights are counted in halves and belong to the documents; the weight of a query term is 1, but for CJK pairs.

mod chars;
mod fold;
mod forms;
mod language;
mod normalize;
mod phrase;
mod plain;
mod query;
mod segment;
mod short;
mod spans;
mod stem;
mod stop;
mod synonyms;
pub(crate) mod term_table;

pub use language::Language;
pub use phrase::Phrase;
pub use query::{Alternative, CJK_PAIR_WEIGHT, Expansion, Query, QueryTerm, QueryWord};
pub(crate) use query::{letters, surface_mark, word_of};
pub(crate) use short::ShortWord;
pub use synonyms::Synonyms;

use crate::error::{Error, Result};
use forms::{Forms, Token};
use query::QueryBuilder;
use spans::{Normalized, Spans};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Raised whenever any text may give other terms than before. The exact version of the stemmer belongs to it: raise
/// this with every change of that pin. (The standard library's Unicode tables may grow with the compiler: letters that
/// were unassigned before are the only ones they change.)
const ANALYZER_VERSION: u32 = 2;

/// Which pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AnalyzerKind {
    /// Everything described in the module's documentation.
    #[default]
    Default,
    /// Case-folded Unicode words and nothing else: no stems, surface forms or stop words. For comparison with others.
    Plain,
}

impl AnalyzerKind {
    /// As in settings and in the id of an analyzer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Plain => "plain",
        }
    }
}

impl FromStr for AnalyzerKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "default" => Ok(Self::Default),
            "plain" => Ok(Self::Plain),
            _ => Err(Error::invalid("analyzer", format!("{text:?} is not one of default, plain"))),
        }
    }
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
        match self.kind {
            AnalyzerKind::Default => write!(f, "default-{}-{}", self.language.name(), self.version),
            AnalyzerKind::Plain => write!(f, "plain-{}", self.version),
        }
    }
}

/// Turns text into terms. Cheap to clone and to share between threads; the stem cache is the thread's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
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

    /// Which pipeline.
    pub fn kind(&self) -> AnalyzerKind {
        self.kind
    }

    /// Whose words are stemmed; off for [`AnalyzerKind::Plain`].
    pub fn language(&self) -> Language {
        self.language
    }

    /// What the terms depend on.
    pub fn id(&self) -> AnalyzerId {
        AnalyzerId { kind: self.kind, language: self.language, version: ANALYZER_VERSION }
    }

    /// Calls `sink` with every term of `text` in order and its weight in halves: 2, or 1 for a surface form, a form
    /// without accents, or a number without its groups.
    pub fn document(&self, text: &str, sink: &mut dyn FnMut(&str, u8)) {
        self.each_term(text, |term, halves| {
            if let Ok(term) = std::str::from_utf8(term) {
                sink(term, halves);
            }
        });
    }

    /// The distinct terms of a query text, stop words dropped unless nothing else is left, with the words that others may
    /// stand for and the phrases in quotation marks; neither of these for [`AnalyzerKind::Plain`].
    pub fn query(&self, text: &str) -> Query {
        self.query_with(text, &Synonyms::default())
    }

    /// The same with what words are also called.
    pub fn query_with(&self, text: &str, synonyms: &Synonyms) -> Query {
        let mut builder = QueryBuilder::new(synonyms);
        match self.kind {
            AnalyzerKind::Plain => {
                plain::words(text, &mut |term, written| {
                    builder.push(term, written, 1.0, false);
                });
                builder.build("")
            }
            AnalyzerKind::Default => {
                let english = self.language == Language::English;
                let normal = normal_form(text);
                self.tokens(&normal, |token| builder.add(token, english));
                let mut query = builder.build(&normal);
                query.phrases = phrase::quoted(*self, &normal);
                query
            }
        }
    }

    /// Whether a text holds a phrase: its words in its order, whatever their case and what stands between them, or its
    /// characters one after another.
    pub fn holds(&self, text: &str, phrase: &Phrase) -> bool {
        phrase.is_in(&normal_form(text))
    }

    /// As [`Analyzer::spans`] of `query`, the words that it was expanded to among them.
    pub fn spans_with<'w>(
        &self,
        text: &str,
        query: &Query,
        words: impl Iterator<Item = &'w str>,
    ) -> Vec<Range<usize>> {
        let mut query = Query { terms: query.terms.clone(), ..Query::default() };
        for word in words {
            // The word as it is written, not what shares its stem.
            let read = self.query(word);
            let keys = read.words.iter().filter_map(|word| word.key.clone());
            let mut terms: Vec<String> = keys.collect();
            if terms.is_empty() {
                terms.extend(read.terms.into_iter().map(|term| term.term));
            }
            query.terms.extend(terms.into_iter().map(|term| QueryTerm {
                surface: word.to_owned(),
                term,
                weight: 1.0,
            }));
        }
        self.spans(text, &query)
    }

    /// Where `text` holds terms of a query: ranges of bytes in order, on borders of graphemes, none touching another.
    /// Indexing does not pay for this: the text is analysed anew.
    pub fn spans(&self, text: &str, query: &Query) -> Vec<Range<usize>> {
        let mut spans = Spans::new(query);
        if spans.is_empty() {
            return Vec::new();
        }
        match self.kind {
            AnalyzerKind::Plain => {
                plain::words(text, &mut |term, written| spans.look(term.as_bytes(), written, text));
                spans.finish(&Normalized::unchanged(text))
            }
            AnalyzerKind::Default => {
                let normalized = Normalized::new(text);
                let form = normalized.form();
                self.tokens(form, |token| spans.look(token.term, token.written, form));
                spans.finish(&normalized)
            }
        }
    }

    /// [`Analyzer::document`] without a virtual call per term, the terms as the bytes of their UTF-8.
    pub(crate) fn each_term(self, text: &str, mut sink: impl FnMut(&[u8], u8)) {
        self.each_hashed_term(text, |term, _, halves| sink(term, halves));
    }

    /// [`Analyzer::each_term`] with the hash of each term, which is known for most of them.
    pub(crate) fn each_hashed_term(self, text: &str, mut sink: impl FnMut(&[u8], u32, u8)) {
        match self.kind {
            AnalyzerKind::Plain => plain::words(text, &mut |term, _| {
                sink(term.as_bytes(), term_table::hash(term.as_bytes()), 2);
            }),
            AnalyzerKind::Default => {
                self.tokens(&normal_form(text), |token| sink(token.term, token.hash, token.halves));
            }
        }
    }

    /// [`Analyzer::each_hashed_term`] in no order, but for short lone words of ASCII letters: these go to `lone`, and
    /// their terms are those of [`Analyzer::word_terms`]. Who keeps these by word pays for a word once.
    pub(crate) fn each_term_around(
        self,
        text: &str,
        mut lone: impl FnMut(ShortWord),
        mut sink: impl FnMut(&[u8], u32, u8),
    ) {
        match self.kind {
            AnalyzerKind::Plain => plain::words_around(text, &mut lone, &mut |term, _| {
                sink(term.as_bytes(), term_table::hash(term.as_bytes()), 2);
            }),
            AnalyzerKind::Default => {
                let normal = normal_form(text);
                let out = |token: Token<'_>| sink(token.term, token.hash, token.halves);
                stem::with_cache(self.language, |stems| {
                    segment::scan_around(&normal, &mut Forms::new(stems, out), &mut lone);
                });
            }
        }
    }

    /// The terms of a lone word: one, or its stem of two halves and its surface form of one.
    pub(crate) fn word_terms(self, word: ShortWord, mut sink: impl FnMut(&[u8], u32, u8)) {
        word.with_str(|word| match self.kind {
            AnalyzerKind::Plain => sink(word.as_bytes(), term_table::hash(word.as_bytes()), 2),
            AnalyzerKind::Default => stem::with_cache(self.language, |stems| {
                let out = |token: Token<'_>| sink(token.term, token.hash, token.halves);
                Forms::new(stems, out).ascii_word(word, word);
            }),
        });
    }

    /// The tokens of a text in its normal form.
    fn tokens(self, normal: &str, out: impl FnMut(Token<'_>)) {
        stem::with_cache(self.language, |stems| segment::scan(normal, &mut Forms::new(stems, out)));
    }
}

fn normal_form(text: &str) -> Cow<'_, str> {
    if normalize::is_normal(text) {
        return Cow::Borrowed(text);
    }
    let mut normal = String::with_capacity(text.len());
    normalize::normalize_into(text, &mut normal, |_| ());
    Cow::Owned(normal)
}

#[cfg(test)]
mod tests;
