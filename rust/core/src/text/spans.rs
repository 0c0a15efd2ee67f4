//! Where the terms of a question stand in a text, in places of the text as it was written.

use super::normalize::{Piece, is_normal, normalize_into};
use super::query::Query;
use crate::unicode::is_ignorable;
use rustc_hash::FxHashSet;
use std::ops::Range;
use unicode_segmentation::GraphemeCursor;

/// The normal form of a text and the way back.
pub(super) struct Normalized<'t> {
    text: &'t str,
    /// `None` if the text is its own normal form.
    form: Option<(String, Vec<Piece>)>,
}

impl<'t> Normalized<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let form = (!is_normal(text)).then(|| {
            let (mut normal, mut pieces) = (String::new(), Vec::new());
            normalize_into(text, &mut normal, |piece| pieces.push(piece));
            (normal, pieces)
        });
        Self { text, form }
    }

    /// For an analyzer that does not normalise.
    pub(super) fn unchanged(text: &'t str) -> Self {
        Self { text, form: None }
    }

    pub(super) fn form(&self) -> &str {
        self.form.as_ref().map_or(self.text, |(normal, _)| normal)
    }

    /// The part of the text that a part of its normal form was made from.
    fn origin(&self, part: Range<usize>) -> Range<usize> {
        let Some((_, pieces)) = &self.form else { return part };
        let start = locate(pieces, part.start);
        // Of the last character, not of what begins behind it.
        let end = locate(pieces, part.end.saturating_sub(1));
        start.map_or(
            0,
            |(piece, from)| {
                if piece.same { from.text_end + part.start - from.normal_end } else { from.text_end }
            },
        )..end.map_or(self.text.len(), |(piece, from)| {
            if piece.same { from.text_end + part.end - from.normal_end } else { piece.text_end }
        })
    }
}

/// The piece that a place of the normal form lies in, and the one before it.
fn locate(pieces: &[Piece], place: usize) -> Option<(Piece, Piece)> {
    let at = pieces.partition_point(|piece| piece.normal_end <= place);
    let start = Piece { text_end: 0, normal_end: 0, same: true };
    let before = at.checked_sub(1).and_then(|before| pieces.get(before)).copied().unwrap_or(start);
    Some((*pieces.get(at)?, before))
}

/// Collects the places of tokens that a query asks for.
pub(super) struct Spans<'q> {
    wanted: FxHashSet<&'q [u8]>,
    found: Vec<Range<usize>>,
}

impl<'q> Spans<'q> {
    pub(super) fn new(query: &'q Query) -> Self {
        let wanted = query.terms.iter().map(|term| term.term.as_bytes()).collect();
        Self { wanted, found: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Looks at a term that was made from `written`, which is a slice of `scanned`.
    pub(super) fn look(&mut self, term: &[u8], written: &str, scanned: &str) {
        if !self.wanted.contains(term) {
            return;
        }
        let start = written.as_ptr().addr().wrapping_sub(scanned.as_ptr().addr());
        let end = start.wrapping_add(written.len());
        debug_assert!(end <= scanned.len() && start < end, "{written:?} is no slice of the text");
        // One word gives several terms.
        if end <= scanned.len() && start < end && self.found.last() != Some(&(start..end)) {
            self.found.push(start..end);
        }
    }

    /// The places in the text itself, in order, each from grapheme to grapheme, none touching another.
    pub(super) fn finish(mut self, normalized: &Normalized<'_>) -> Vec<Range<usize>> {
        let text = normalized.text;
        self.found.sort_unstable_by_key(|span| (span.start, span.end));
        let mut spans: Vec<Range<usize>> = Vec::new();
        for span in self.found {
            let span = normalized.origin(span);
            // What nobody sees and has its own grapheme belongs to no word.
            let end = text[..span.end].trim_end_matches(is_ignorable).len();
            let (start, end) = (grapheme_start(text, span.start), grapheme_end(text, end));
            match spans.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => spans.push(start..end),
            }
        }
        spans
    }
}

fn is_border(text: &str, at: usize) -> bool {
    GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(true)
}

/// The nearest border at or before a border of characters.
fn grapheme_start(text: &str, mut at: usize) -> usize {
    while !is_border(text, at) {
        at -= text[..at].chars().next_back().map_or(at, char::len_utf8);
    }
    at
}

/// The nearest border at or behind a border of characters.
fn grapheme_end(text: &str, mut at: usize) -> usize {
    while !is_border(text, at) {
        at += text[at..].chars().next().map_or(text.len() - at, char::len_utf8);
    }
    at
}

#[cfg(test)]
mod tests {
    use crate::text::{Analyzer, AnalyzerKind, Language};

    fn marked(analyzer: Analyzer, text: &str, query: &str) -> String {
        let spans = analyzer.spans(text, &analyzer.query(query));
        let mut out = String::new();
        let mut from = 0;
        for span in spans {
            out.extend([&text[from..span.start], "[", &text[span.clone()], "]"]);
            from = span.end;
        }
        out + &text[from..]
    }

    #[test]
    fn words_are_marked_where_they_stand() {
        for (text, query, expected) in [
            ("She runs; running is fun.", "run", "She [runs]; [running] is fun."),
            ("the cat and the dog", "the dog", "the cat and the [dog]"),
            ("Met at the café.", "cafe", "Met at the [café]."),
            ("Met at the cafe\u{301}.", "café", "Met at the [cafe\u{301}]."),
            ("in src/auth/token.rs:42", "token.rs", "in src/auth/[token.rs]:42"),
            ("in src/auth/token.rs", "src/auth/token.rs", "in [src/auth/token.rs]"),
            ("getUserName()", "user", "get[User]Name()"),
            ("the U.S.A. team", "usa", "the [U.S.A]. team"),
            ("I don’t", "dont", "I [don’t]"),
            ("the user’s", "users", "the [user]’s"),
            ("1,234,567 and 1 234", "1234567 1234", "[1,234,567] and 1 234"),
            ("1\u{202F}234\u{202F}567 km", "1234567", "[1\u{202F}234\u{202F}567] km"),
            ("Straße, ﬁle, ＲＵＳＴ", "strasse file rust", "[Straße], [ﬁle], [ＲＵＳＴ]"),
            ("die ﬁlé", "filé", "die [ﬁlé]"),
            ("昨天去了图书馆看书", "图书馆", "昨天去了[图书馆]看[书]"),
            ("ﾃｽﾄ ﾊﾞｯｸ", "バ", "ﾃｽﾄ [ﾊﾞ]ｯｸ"),
            ("한국어 \u{1112}\u{1161}\u{11AB}글", "한", "[한]국어 [\u{1112}\u{1161}\u{11AB}]글"),
            ("pass\u{200B}word\u{200B} x", "password", "[pass\u{200B}word]\u{200B} x"),
            ("\u{FEFF}hello", "hello", "\u{FEFF}[hello]"),
            ("👍🏽 and 👩\u{200D}💻", "👍🏿 💻", "[👍🏽] and [👩\u{200D}💻]"),
            ("❤\u{FE0F}🇩🇪🇫🇷 1\u{FE0F}\u{20E3}", "❤ 🇫🇷 1", "[❤\u{FE0F}]🇩🇪[🇫🇷] [1\u{FE0F}\u{20E3}]"),
            ("قال مُحَمَّد", "محمد", "قال [مُحَمَّد]"),
            ("İstanbul'da", "istanbul", "[İstanbul]'da"),
            ("ที่นี่", "ที่", "[ที่]นี่"),
            ("C++ and C#", "c#", "[C]++ and [C#]"),
            ("nothing here", "else", "nothing here"),
            ("", "x", ""),
            ("x", "...", "x"),
        ] {
            assert_eq!(marked(Analyzer::default(), text, query), expected, "{query:?}");
        }
        let plain = Analyzer::new(AnalyzerKind::Plain, Language::Off);
        assert_eq!(
            marked(plain, "Running, run. Cafe\u{301}", "RUN cafe\u{301}"),
            "Running, [run]. [Cafe\u{301}]"
        );
    }
}
