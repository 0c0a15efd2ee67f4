//! What users say a word is also called.

use super::chars::{is_cjk, is_unspaced};
use super::forms::{Kind, Token};
use super::query::{Alternative, Cover, QueryWord, Single};
use super::{Analyzer, AnalyzerKind, normal_form};
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;

/// A table from words as they are written, whatever their case, to what they are also called. It changes what a
/// question finds, never what an index holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synonyms {
    /// By folded word.
    words: FxHashMap<String, Vec<Alternative>>,
    /// Those of scripts that do not set words apart, wherever they stand.
    runs: Vec<(String, QueryWord)>,
}

impl Synonyms {
    /// The table of `entries` for questions that `analyzer` reads; empty for [`AnalyzerKind::Plain`].
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a key that is not one word, and for a name that holds nothing that can be searched.
    pub fn new(analyzer: Analyzer, entries: &[(String, Vec<String>)]) -> Result<Self> {
        let mut table = Self::default();
        if analyzer.kind() == AnalyzerKind::Plain {
            return Ok(table);
        }
        for (key, names) in entries {
            let mut synonyms = Vec::with_capacity(names.len());
            for name in names {
                let terms = terms_of(analyzer, name).0;
                if terms.is_empty() {
                    let why =
                        format!("{name:?} for {key:?} holds nothing that can be searched; leave it out");
                    return Err(Error::invalid("synonyms", why));
                }
                synonyms.push(Alternative { word: name.trim().to_owned(), terms });
            }
            let (terms, word) = terms_of(analyzer, key);
            let normal = normal_form(key.trim()).into_owned();
            if !normal.is_empty() && normal.chars().all(|c| is_cjk(c) || is_unspaced(c)) {
                let run = Some(Alternative { word: normal.clone(), terms });
                let word = QueryWord { surface: normal.clone(), run, synonyms, ..QueryWord::default() };
                table.runs.push((normal, word));
            } else if let (Some(word), 1) = (word, terms.len()) {
                table.words.entry(word).or_default().extend(synonyms);
            } else {
                let why = format!("{key:?} is not one word; give a word as it stands in questions");
                return Err(Error::invalid("synonyms", why));
            }
        }
        table.runs.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(table)
    }

    /// What a folded word is also called.
    pub(super) fn of(&self, word: &str) -> Option<&[Alternative]> {
        if self.words.is_empty() { None } else { self.words.get(word).map(Vec::as_slice) }
    }

    /// The words of unspaced scripts that a text in its normal form holds.
    pub(super) fn within(&self, text: &str) -> impl Iterator<Item = QueryWord> {
        self.runs.iter().filter(move |(run, _)| text.contains(run.as_str())).map(|(_, word)| word.clone())
    }
}

/// The terms that a document with this name holds for sure, and the folded word if it is one word.
fn terms_of(analyzer: Analyzer, name: &str) -> (Vec<String>, Option<String>) {
    let (mut terms, mut word) = (Vec::new(), None);
    let mut cover = Cover::NONE;
    let mut single = Single::default();
    let normal = normal_form(name.trim());
    analyzer.tokens(&normal, |token: Token<'_>| {
        let term = String::from_utf8_lossy(token.term).into_owned();
        terms.extend(single.next(token.kind, &term));
        match token.kind {
            Kind::Pair => terms.push(term),
            Kind::Char => {}
            Kind::Word | Kind::Whole => {
                let at = Cover::of(&token);
                if !cover.contains(at) {
                    cover = at;
                    word = Some(token.word.to_owned());
                    terms.push(term);
                }
            }
        }
    });
    terms.extend(single.end());
    (terms, word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Language;

    fn table(key: &str, name: &str) -> Result<Synonyms> {
        Synonyms::new(Analyzer::default(), &[(key.to_owned(), vec![name.to_owned()])])
    }

    #[test]
    fn keys_are_words_and_names_are_anything_that_can_be_searched() {
        for key in ["k8s", "DB", "C++", "电脑", "ERR-4471", "naïve", "한국어"] {
            assert!(table(key, "machine learning").is_ok(), "{key}");
        }
        for (key, name) in
            [("two words", "x"), ("", "x"), ("...", "x"), ("中 文", "x"), ("ok", "..."), ("ok", "")]
        {
            assert!(matches!(table(key, name), Err(Error::InvalidInput { .. })), "{key:?} {name:?}");
        }
        let plain = Analyzer::new(AnalyzerKind::Plain, Language::Off);
        assert_eq!(Synonyms::new(plain, &[("two words".to_owned(), vec![])]).unwrap(), Synonyms::default());
    }

    #[test]
    fn a_key_is_found_whatever_its_case_and_form() {
        for (key, text) in
            [("k8s", "our K8S"), ("DB", "the db"), ("pool", "Pool, again"), ("电脑", "我的电脑坏了")]
        {
            let query = Analyzer::default().query_with(text, &table(key, "other").unwrap());
            assert!(query.words.iter().any(|word| !word.synonyms.is_empty()), "{key} {text}");
        }
        let query = Analyzer::default().query_with("pools k8s-node", &table("k8s", "other").unwrap());
        assert!(query.words.iter().all(|word| word.synonyms.is_empty()), "part of another name");
    }
}
