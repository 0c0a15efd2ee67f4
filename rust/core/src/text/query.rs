//! The terms of a question.

use super::chars::{is_cjk, is_unspaced};
use super::forms::{Kind, Token};
use super::phrase::Phrase;
use super::stem::SURFACE;
use super::stop::{is_cjk_stop, is_english};
use super::synonyms::Synonyms;
use crate::error::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use std::str::FromStr;
use unicode_normalization::char::is_combining_mark;

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

/// Which words of a question are also taken for others that the index holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Expansion {
    /// None.
    Off,
    /// Those that no live document holds: for words that begin with them, and for words that differ by a typo.
    #[default]
    Missing,
    /// The same, and those that some documents hold for words that begin with them, in the other documents.
    Always,
}

impl FromStr for Expansion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "off" => Ok(Self::Off),
            "missing" => Ok(Self::Missing),
            "always" => Ok(Self::Always),
            _ => Err(Error::invalid("expand", format!("{text:?} is not one of missing, always, off"))),
        }
    }
}

/// Terms that count as a word when a document holds all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The word, for explanations.
    pub word: String,
    /// As they are in the index.
    pub terms: Vec<String>,
}

/// A word of the question that others may stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueryWord {
    /// As the user typed it.
    pub surface: String,
    /// Its surface form as it is in the index; None for what has no letters alone: it is never taken for another word.
    pub key: Option<String>,
    /// Its letters.
    pub letters: usize,
    /// Places of its forms among the query's terms.
    pub forms: Vec<usize>,
    /// Of a run without spaces, the terms that a document with it holds: it has no forms.
    pub run: Option<Alternative>,
    /// What the user says it is also called.
    pub synonyms: Vec<Alternative>,
}

/// Distinct terms in the order of the text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The terms, each once.
    pub terms: Vec<QueryTerm>,
    /// The words that others may stand for, each once.
    pub words: Vec<QueryWord>,
    /// Which of them are taken for words that begin with them or look like them.
    pub expansion: Expansion,
    /// What stood in quotation marks: a document without it is no answer.
    pub phrases: Vec<Phrase>,
}

impl Query {
    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// What a document holds that holds a word: all terms of one of these.
    pub fn exact(&self, word: &QueryWord) -> Vec<Alternative> {
        let forms = word.forms.iter().filter_map(|form| self.terms.get(*form));
        let forms =
            forms.map(|term| Alternative { word: term.surface.clone(), terms: vec![term.term.clone()] });
        word.run.iter().cloned().chain(forms).collect()
    }
}

/// The part of the text that a token was made from, by address, and what it was.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Cover {
    start: usize,
    end: usize,
    /// Words inside are words of their own: `state-of-the-art`.
    open: bool,
}

impl Cover {
    pub(super) const NONE: Self = Self { start: 0, end: 0, open: false };

    pub(super) fn of(token: &Token<'_>) -> Self {
        let start = token.written.as_ptr().addr();
        let open = token.kind == Kind::Whole && token.written.chars().all(|c| c.is_alphabetic() || c == '-');
        Self { start, end: start + token.written.len(), open }
    }

    pub(super) fn is_at(self, other: Self) -> bool {
        (self.start, self.end) == (other.start, other.end)
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Finds the runs of one character among tokens: the characters of longer ones are in their pairs.
#[derive(Default)]
pub(super) struct Single {
    waiting: Option<String>,
    in_run: bool,
}

impl Single {
    /// A lone character that the next token shows to be one.
    pub(super) fn next(&mut self, kind: Kind, term: &str) -> Option<String> {
        match kind {
            Kind::Pair => {
                self.waiting = None;
                self.in_run = true;
                None
            }
            Kind::Char if std::mem::take(&mut self.in_run) => None,
            Kind::Char => self.waiting.replace(term.to_owned()),
            Kind::Word | Kind::Whole => self.end(),
        }
    }

    /// The last one.
    pub(super) fn end(&mut self) -> Option<String> {
        self.in_run = false;
        self.waiting.take()
    }
}

/// Letters of a word of an alphabet; None when it holds anything else.
pub(crate) fn letters(word: &str) -> Option<usize> {
    let mut count = 0;
    for c in word.chars() {
        if is_cjk(c) || is_unspaced(c) || !(c.is_alphabetic() || is_combining_mark(c)) {
            return None;
        }
        count += 1;
    }
    Some(count)
}

/// A dictionary's term as a word; None when it is no surface form where surface forms are marked.
pub(crate) fn word_of<'t>(term: &'t str, key: &str) -> Option<&'t str> {
    if key.starts_with(SURFACE) { term.strip_prefix(SURFACE) } else { Some(term) }
}

/// What a dictionary's surface forms begin with where `key` is one of them.
pub(crate) fn surface_mark(key: &str) -> &str {
    if key.starts_with(SURFACE) { &key[..SURFACE.len_utf8()] } else { "" }
}

/// So many terms are compared one by one, as it takes less than their copies in a table do.
const FEW: usize = 16;

/// Collects tokens into a query.
pub(super) struct QueryBuilder<'s> {
    synonyms: &'s Synonyms,
    /// Places of the terms, once there are more than [`FEW`].
    seen: FxHashMap<String, usize>,
    terms: Vec<(QueryTerm, bool)>,
    words: Vec<QueryWord>,
    /// The longest token that the present one may be a part of.
    cover: Cover,
    /// The word that is being read, and where it is.
    current: Option<(usize, Cover)>,
}

impl<'s> QueryBuilder<'s> {
    pub(super) fn new(synonyms: &'s Synonyms) -> Self {
        Self {
            synonyms,
            seen: FxHashMap::default(),
            terms: Vec::new(),
            words: Vec::new(),
            cover: Cover::NONE,
            current: None,
        }
    }

    /// Adds a token of the default analyzer. `english` says whether English stop words apply.
    pub(super) fn add(&mut self, token: Token<'_>, english: bool) {
        let Ok(term) = std::str::from_utf8(token.term) else { return };
        let stop = match token.kind {
            Kind::Word => english && is_english(token.word),
            Kind::Whole => false,
            Kind::Char | Kind::Pair => is_cjk_stop(term),
        };
        let weight = if token.kind == Kind::Pair { CJK_PAIR_WEIGHT } else { 1.0 };
        let place = self.push(term, token.written, weight, stop);
        if !stop && matches!(token.kind, Kind::Word | Kind::Whole) {
            self.form(&token, term, place);
        }
    }

    /// Adds a term if it is new; gives its place.
    pub(super) fn push(&mut self, term: &str, written: &str, weight: f32, stop: bool) -> usize {
        if let Some(place) = self.place(term) {
            return place;
        }
        let place = self.terms.len();
        if place == FEW {
            self.seen.extend(self.terms.iter().zip(0..).map(|((known, _), at)| (known.term.clone(), at)));
        }
        if place >= FEW {
            self.seen.insert(term.to_owned(), place);
        }
        let term = QueryTerm { term: term.to_owned(), surface: written.to_owned(), weight };
        self.terms.push((term, stop));
        place
    }

    fn place(&self, term: &str) -> Option<usize> {
        if self.terms.len() > FEW {
            return self.seen.get(term).copied();
        }
        self.terms.iter().position(|(known, _)| known.term == term)
    }

    /// Notes that a term is a form of a word.
    fn form(&mut self, token: &Token<'_>, term: &str, place: usize) {
        let at = Cover::of(token);
        let begins = !self.current.is_some_and(|(_, current)| current.is_at(at));
        if begins {
            self.current = None;
            let inside = self.cover.contains(at) && !self.cover.open;
            if !self.cover.contains(at) {
                self.cover = at;
            }
            let synonyms = if inside { None } else { self.synonyms.of(token.word) };
            let letters = if inside || token.kind == Kind::Whole { None } else { letters(token.word) };
            if synonyms.is_none() && letters.is_none() {
                return;
            }
            let word = QueryWord {
                surface: token.written.to_owned(),
                letters: letters.unwrap_or(0),
                synonyms: synonyms.map_or_else(Vec::new, <[Alternative]>::to_vec),
                ..QueryWord::default()
            };
            self.current = Some((self.words.len(), at));
            self.words.push(word);
        }
        let Some((word, _)) = self.current else { return };
        let word = &mut self.words[word];
        if word.letters > 0 && (term.starts_with(SURFACE) || (word.key.is_none() && term == token.word)) {
            word.key = Some(term.to_owned());
        }
        word.forms.push(place);
    }

    /// The query without its stop words, or with them if they are all there is. `text` is what was read.
    pub(super) fn build(mut self, text: &str) -> Query {
        self.words.extend(self.synonyms.within(text));
        let only_stops = self.terms.iter().all(|(_, stop)| *stop);
        let mut places = vec![None; self.terms.len()];
        let mut terms = Vec::with_capacity(self.terms.len());
        for ((term, stop), place) in self.terms.into_iter().zip(&mut places) {
            if only_stops || !stop {
                *place = Some(terms.len());
                terms.push(term);
            }
        }
        let mut words: Vec<QueryWord> = Vec::with_capacity(self.words.len());
        let mut known = FxHashSet::default();
        for mut word in self.words {
            // A form may be that of a stop word too, and gone with it.
            word.forms.retain(|form| places[*form].is_some());
            word.forms.iter_mut().for_each(|form| *form = places[*form].unwrap_or(0));
            if known.insert((word.forms.clone(), word.run.as_ref().map(|run| run.word.clone()))) {
                words.push(word);
            }
        }
        Query { terms, words, expansion: Expansion::default(), phrases: Vec::new() }
    }
}
