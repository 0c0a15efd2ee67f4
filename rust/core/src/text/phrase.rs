//! Phrases in quotation marks, and whether a text holds one.

use super::Analyzer;
use super::chars::{is_cjk, is_pictograph, is_unspaced};
use super::fold::fold_char;
use super::forms::{Kind, Token};
use super::query::{Cover, Single};
use super::stem::SURFACE;
use rustc_hash::FxHashSet;
use unicode_normalization::char::is_combining_mark;

/// What stood in quotation marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// As it was written, without the marks.
    pub text: String,
    /// Terms that every document with the phrase holds.
    pub terms: Vec<String>,
    compared: String,
}

impl Phrase {
    fn new(analyzer: Analyzer, text: &str) -> Option<Self> {
        let compared = compared(text);
        if compared.is_empty() {
            return None;
        }
        Some(Self { text: text.trim().to_owned(), terms: needed(analyzer, text), compared })
    }

    /// Whether a text in its normal form holds the phrase.
    pub(super) fn is_in(&self, normal: &str) -> bool {
        let text = compared(normal);
        let phrase = self.compared.as_str();
        let ends = |c: Option<char>| c.is_none_or(|c| c == ' ' || stands_alone(c));
        let (first, last) = (phrase.chars().next(), phrase.chars().next_back());
        text.match_indices(phrase).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            (ends(before) || first.is_some_and(stands_alone))
                && (ends(after) || last.is_some_and(stands_alone))
        })
    }
}

/// The phrases of a text in its normal form. Marks of titles, `《》`, quote when nothing stands beside the marks: in a
/// sentence they name a work, which its answer need not (measured: docs/retrieval.md). A mark without its partner is ordinary text, and so is a straight mark that
/// does not stand around words: `5" and 3"`.
pub(super) fn quoted(analyzer: Analyzer, normal: &str) -> Vec<Phrase> {
    let mut phrases: Vec<(Phrase, char)> = Vec::new();
    let mut outside = String::new();
    let (mut from, mut done) = (0, 0);
    // Marks that nothing behind closes: a question of many open ones is read once.
    let mut open: Vec<char> = Vec::new();
    let mut seen: FxHashSet<String> = FxHashSet::default();
    while let Some((at, mark)) = normal[from..].char_indices().find(|&(_, c)| !closing(c).is_empty()) {
        let start = from + at + mark.len_utf8();
        let before = normal[..from + at].chars().next_back();
        from = start;
        if open.contains(&mark) || (mark == '"' && before.is_some_and(is_in_word)) {
            continue;
        }
        let end = normal[start..].char_indices().find(|&(at, c)| {
            let after = normal[start + at + c.len_utf8()..].chars().next();
            closing(mark).contains(&c) && (mark != '"' || !after.is_some_and(is_in_word))
        });
        let Some((len, close)) = end else {
            open.push(mark);
            continue;
        };
        from = start + len + close.len_utf8();
        if let Some(phrase) = Phrase::new(analyzer, &normal[start..start + len]) {
            outside.push_str(&normal[done..start - mark.len_utf8()]);
            done = from;
            if seen.insert(phrase.text.clone()) {
                phrases.push((phrase, mark));
            }
        }
    }
    let alone = !outside.chars().chain(normal[done..].chars()).any(char::is_alphanumeric);
    phrases.into_iter().filter(|(_, mark)| alone || *mark != '《').map(|(phrase, _)| phrase).collect()
}

/// What ends a quotation that begins with this mark; nothing for other characters.
fn closing(mark: char) -> &'static [char] {
    match mark {
        '"' => &['"'],
        '“' => &['”'],
        '„' => &['“', '”'],
        '«' => &['»'],
        '「' => &['」'],
        '『' => &['』'],
        '《' => &['》'],
        _ => &[],
    }
}

/// A character that a straight mark beside it belongs to.
fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() && !stands_alone(c)
}

/// A character that is compared without looking at its neighbours.
fn stands_alone(c: char) -> bool {
    is_cjk(c) || is_unspaced(c) || is_pictograph(c)
}

/// A text as it is compared: folded words with one space between them, and at borders of scripts without spaces.
fn compared(normal: &str) -> String {
    let mut out = String::with_capacity(normal.len() + 8);
    let (mut gap, mut last_alone) = (false, false);
    for c in normal.chars() {
        let (word, alone) = if c.is_ascii() {
            // The sign of `C++` belongs to it.
            (c.is_ascii_alphanumeric() || (matches!(c, '+' | '#') && !gap && !out.is_empty()), false)
        } else {
            let alone = stands_alone(c);
            (alone || c.is_alphanumeric() || is_combining_mark(c), alone)
        };
        if !word {
            gap = true;
            continue;
        }
        if !out.is_empty() && (gap || alone != last_alone) {
            out.push(' ');
        }
        (gap, last_alone) = (false, alone);
        if c.is_ascii() {
            out.push(c.to_ascii_lowercase());
        } else {
            out.extend(fold_char(c));
        }
    }
    out
}

/// Terms of the phrase that do not depend on what stands before and behind it.
fn needed(analyzer: Analyzer, text: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    let mut single = Single::default();
    let mut cover = Cover::NONE;
    analyzer.tokens(text, |token: Token<'_>| {
        let term = String::from_utf8_lossy(token.term);
        terms.extend(single.next(token.kind, &term));
        let at = Cover::of(&token);
        let inside = cover.contains(at) && !cover.is_at(at);
        // What a word or a name without signs is made of need not be in a text that writes it otherwise: `OAuth2`.
        let joined = match token.kind {
            Kind::Word => true,
            Kind::Whole => term.chars().all(char::is_alphanumeric),
            Kind::Char | Kind::Pair => false,
        };
        if joined && !cover.contains(at) {
            cover = at;
        }
        let is_needed = match token.kind {
            Kind::Pair => true,
            Kind::Char => false,
            Kind::Whole => !inside && term.chars().all(|c| c.is_alphanumeric() || is_pictograph(c)),
            Kind::Word => !inside && (term.starts_with(SURFACE) || term == token.word),
        };
        if is_needed && !terms.iter().any(|known| *known == term) {
            terms.push(term.into_owned());
        }
    });
    terms.extend(single.end());
    terms
}

#[cfg(test)]
mod tests {
    use crate::text::{Analyzer, AnalyzerKind, Language};

    fn phrases(text: &str) -> Vec<String> {
        Analyzer::default().query(text).phrases.into_iter().map(|phrase| phrase.text).collect()
    }

    #[test]
    fn marks_quote_in_pairs_around_words() {
        for (text, expected) in [
            ("the \"connection pool\" error", vec!["connection pool"]),
            ("“one two” and „drei vier“ and «cinq six»", vec!["one two", "drei vier", "cinq six"]),
            ("他说「图书馆」和『学校』", vec!["图书馆", "学校"]),
            ("他说\"你好\"吗", vec!["你好"]),
            ("《三体》", vec!["三体"]),
            ("《三体》《流浪地球》", vec!["三体", "流浪地球"]),
            ("《三体》讲了什么", vec![]),
            ("＂full width＂", vec!["full width"]),
            ("\"a b\" \"A B\" \"a b\"", vec!["a b", "A B"]),
            ("an \"open mark", vec![]),
            ("5\" and 3\" disks", vec![]),
            ("\"\" and \"...\"", vec![]),
            ("don't say 'single marks' or ‘these’", vec![]),
            ("a “nested \"mark\" inside” b", vec!["nested \"mark\" inside"]),
            ("”wrong way“", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(phrases(text), expected, "{text}");
        }
        let plain = Analyzer::new(AnalyzerKind::Plain, Language::Off);
        assert!(plain.query("\"a b\"").phrases.is_empty());
    }

    #[test]
    fn a_text_holds_a_phrase_whatever_its_case_and_its_signs() {
        let analyzer = Analyzer::default();
        for (phrase, text, holds) in [
            ("connection pool", "The Connection-Pool, again", true),
            ("connection pool", "a pool for each connection", false),
            ("connection pool", "connection pooling", false),
            ("connection pool", "reconnection pool", false),
            ("connection pool", "connection\n\n  pool", true),
            ("GitHub", "on github today", true),
            ("src/auth", "in src/auth/token.rs", true),
            ("user's guide", "the user’s guide", true),
            ("C", "C++ code", false),
            ("C++", "modern c++ code", true),
            ("straße 5", "STRASSE 5", true),
            ("图书馆", "昨天去了图书馆看书", true),
            ("图书馆", "图书和馆", false),
            ("图书馆", "图书 馆", false),
            ("图书馆", "图书。馆", false),
            ("用 rust 写", "用Rust写的", true),
            ("to be or not", "To be, or not to be", true),
            ("4471", "ERR-4471.", true),
            ("447", "ERR-4471.", false),
            ("oauth2 token", "an OAuth2 token", true),
            ("OAuth2", "oauth2", true),
            ("getuser2fa", "calls getUser2FA()", true),
            ("postgresql15", "PostgreSQL15", true),
        ] {
            let query = analyzer.query(&format!("\"{phrase}\""));
            assert_eq!(query.phrases.len(), 1, "{phrase}");
            assert_eq!(analyzer.holds(text, &query.phrases[0]), holds, "{phrase:?} in {text:?}");
            let mut terms = Vec::new();
            analyzer.document(text, &mut |term, _| terms.push(term.to_owned()));
            let needed = &query.phrases[0].terms;
            assert!(!holds || needed.iter().all(|term| terms.contains(term)), "{needed:?} in {terms:?}");
        }
    }
}
