//! From a word to its terms: stem, surface form, accent-free form, parts.

use super::chars::{APOSTROPHE, CLASS, DIGIT, LOWER, UNDERSCORE, WIDE};
use super::fold::{fold_into, is_folded, without_accents};
use super::stem::{SURFACE, StemCache};
use super::term_table::hash;

/// Wholes longer than this many bytes are left to their parts, and a single word is cut here: a term is a name, not a payload.
pub(super) const MAX_TERM_BYTES: usize = 256;
/// A word that changes between letters and digits more often than this is a hash, not a name made of parts.
const MAX_DIGIT_BORDERS: usize = 4;
/// From this length on a word of hexadecimal digits with both letters and digits in it is a hash.
const MIN_HEX_LEN: usize = 7;

/// How many words are kept while their stems are fetched.
const LONE: usize = 16;

/// What a term is; only queries care.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word or its stem, or a form derived from it.
    Word,
    /// An identifier, number or address as a whole, or a pictograph.
    Whole,
    /// One character of a CJK run.
    Char,
    /// Two neighbours of a CJK run.
    Pair,
}

/// One term of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'t> {
    /// As in the index, UTF-8.
    pub(super) term: &'t [u8],
    /// Hash of the term.
    pub(super) hash: u32,
    /// The folded word it was made from: what stop words are compared with.
    pub(super) word: &'t str,
    /// As it stands in the text that is scanned: a slice of that text, never of a copy, so that its place is known.
    pub(super) written: &'t str,
    /// Weight in halves: 2 or 1.
    pub(super) halves: u8,
    /// What it is.
    pub(super) kind: Kind,
}

/// Turns words into tokens and hands them on.
pub(super) struct Forms<'c, F> {
    /// `None` without stemming.
    stems: Option<&'c mut StemCache>,
    out: F,
    /// Kept from word to word: the folded one, and one without accents.
    folded: String,
    bare: String,
    /// Words whose stems are being fetched: start, end and hash, the first `waiting` of them.
    lone: [(usize, usize, u32); LONE],
    waiting: usize,
}

impl<'c, F: FnMut(Token<'_>)> Forms<'c, F> {
    pub(super) fn new(stems: Option<&'c mut StemCache>, out: F) -> Self {
        Self { stems, out, folded: String::new(), bare: String::new(), lone: [(0, 0, 0); LONE], waiting: 0 }
    }

    /// A word of small ASCII letters. It is kept until [`Self::flush`] or until there are enough of them: waiting for one
    /// stem after the other took half of all analysis.
    #[inline]
    pub(super) fn lone(&mut self, text: &str, start: usize, end: usize) {
        let word = &text[start..end];
        let Some(stems) = self.stems.as_deref_mut() else {
            return emit_word(&mut self.out, word.as_bytes(), 2, word, word);
        };
        let hash = hash(word.as_bytes());
        stems.prefetch(hash);
        self.lone[self.waiting] = (start, end, hash);
        self.waiting += 1;
        if self.waiting == LONE {
            self.flush(text);
        }
    }

    /// Emits the words that are kept; to be called before anything else is emitted.
    #[inline]
    pub(super) fn flush(&mut self, text: &str) {
        let waiting = std::mem::take(&mut self.waiting);
        let Some(stems) = self.stems.as_deref_mut() else { return };
        for &(start, end, hash) in &self.lone[..waiting] {
            emit_forms(stems, &mut self.out, &text[start..end], hash, &text[start..end]);
        }
    }

    /// A term that is taken as it stands, two halves of weight.
    #[inline]
    pub(super) fn verbatim(&mut self, term: &str, kind: Kind) {
        let bytes = term.as_bytes();
        (self.out)(Token { term: bytes, hash: hash(bytes), word: term, written: term, halves: 2, kind });
    }

    /// An identifier, address or number as a whole: folded, never stemmed. With a separator that groups its digits the
    /// number without it is a form of half the weight.
    pub(super) fn whole(&mut self, written: &str, separator: Option<char>) {
        let nameless = || written.bytes().all(|b| b < 128 && !b.is_ascii_alphanumeric());
        if written.len() > MAX_TERM_BYTES || nameless() {
            return;
        }
        let mut folded = std::mem::take(&mut self.folded);
        folded.clear();
        fold_into(written, &mut folded);
        let mut emit = |halves: u8, folded: &str| {
            let term = folded.as_bytes();
            (self.out)(Token { term, hash: hash(term), word: folded, written, halves, kind: Kind::Whole });
        };
        emit(2, &folded);
        if let Some(separator) = separator {
            folded.retain(|c| c != separator);
            emit(1, &folded);
        }
        self.folded = folded;
    }

    /// All terms of one run of word characters. `shape` holds the classes that occur in it.
    pub(super) fn word(&mut self, written: &str, shape: u8) {
        if shape == LOWER && written.len() <= MAX_TERM_BYTES {
            return self.ascii_word(written, written);
        }
        let written = cut(written);
        if shape & !LOWER == WIDE && !written.is_ascii() && is_folded(written) {
            return self.wide_word(written, written);
        }
        if shape & APOSTROPHE != 0 {
            return self.apostrophes(written);
        }
        if shape & UNDERSCORE != 0 && written.starts_with("__") {
            self.whole(written, None);
        }
        let written = if shape & UNDERSCORE != 0 { written.trim_matches('_') } else { written };
        if written.is_empty() {
            return;
        }
        let shape = if shape & UNDERSCORE == 0 { shape } else { shape_of(written) };
        if shape == DIGIT {
            return self.verbatim(written, Kind::Whole);
        }
        if shape == DIGIT | UNDERSCORE && is_grouped(written, '_') {
            return self.whole(written, Some('_'));
        }
        if shape & (DIGIT | UNDERSCORE) == 0 && !has_case_border(written, shape) {
            return self.fold_word(written, written);
        }
        self.parts(written, shape);
    }

    /// A word with apostrophes: possessives and short verbs fall off, `n't` closes up, anything else counts closed up
    /// and in parts (`o'brien`: `obrien`, `brien`).
    fn apostrophes(&mut self, written: &str) {
        let Some((base, tail)) = written.rsplit_once('\'') else {
            return self.word(written, shape_of(written));
        };
        let mut folded = String::new();
        fold_into(tail, &mut folded);
        let negation = folded == "t" && base.ends_with(['n', 'N']);
        if !negation && matches!(folded.as_str(), "s" | "re" | "ve" | "ll" | "d" | "m") {
            return self.word(base, shape_of(base));
        }
        self.closed_up(written, '\'');
        if !negation {
            for part in written.split('\'').filter(|part| part.chars().nth(1).is_some()) {
                self.word(part, shape_of(part));
            }
        }
    }

    /// A word without a sign that stands between its letters: `don't` as `dont`, `U.S.A` as `usa`.
    pub(super) fn closed_up(&mut self, written: &str, sign: char) {
        let closed: String = written.chars().filter(|&c| c != sign).collect();
        self.fold_word(&closed, written);
    }

    /// An identifier of several parts: itself, then each part as a word.
    fn parts(&mut self, written: &str, shape: u8) {
        if shape & (DIGIT | UNDERSCORE) == 0 {
            // `GitHub` is also written `github`, which is a word.
            self.fold_word(written, written);
        } else {
            self.whole(written, None);
        }
        let digit_borders = count_digit_borders(written);
        let hash = written.len() >= MIN_HEX_LEN
            && digit_borders > 0
            && written.bytes().all(|b| b.is_ascii_hexdigit());
        if hash || digit_borders > MAX_DIGIT_BORDERS {
            return;
        }
        let mut cases = Cases::new(written);
        let mut start = 0;
        while let Some(end) = cases.next_end() {
            let part = &written[start..end];
            start = end;
            let part = part.trim_matches('_');
            match part.as_bytes().first() {
                None => {}
                Some(_) if part.len() == written.len() => {}
                Some(b) if b.is_ascii_digit() => self.verbatim(part, Kind::Whole),
                Some(_) => self.fold_word(part, part),
            }
        }
    }

    /// A word in any case.
    fn fold_word(&mut self, word: &str, written: &str) {
        let mut folded = std::mem::take(&mut self.folded);
        folded.clear();
        fold_into(word, &mut folded);
        if folded.is_ascii() {
            self.ascii_word(&folded, written);
        } else {
            self.wide_word(&folded, written);
        }
        self.folded = folded;
    }

    /// A folded word of ASCII: its stem and its surface form, or the word as it is without stemming.
    #[inline]
    pub(super) fn ascii_word(&mut self, word: &str, written: &str) {
        let out = &mut self.out;
        match self.stems.as_deref_mut() {
            Some(stems) => emit_forms(stems, out, word, hash(word.as_bytes()), written),
            None => emit_word(out, word.as_bytes(), 2, word, written),
        }
    }

    /// A folded word beyond ASCII: with a language other than English its stem and surface form, else the word as it is;
    /// and the stem of the word without accents, unless that is the same.
    fn wide_word(&mut self, word: &str, written: &str) {
        let out = &mut self.out;
        self.bare.clear();
        let bare = without_accents(word, &mut self.bare).then_some(self.bare.as_str());
        match self.stems.as_deref_mut() {
            Some(stems) if stems.stems_wide_words() => {
                emit_forms(stems, out, word, hash(word.as_bytes()), written);
                if let Some(bare) = bare {
                    let stem = stems.forms(word, |(stem, hash), _| (stem.len(), hash));
                    stems.forms(bare, |(bare, hash), _| {
                        if (bare.len(), hash) != stem {
                            let kind = Kind::Word;
                            out(Token { term: bare, hash, word, written, halves: 1, kind });
                        }
                    });
                }
            }
            stems => {
                emit_word(out, word.as_bytes(), 2, word, written);
                match (bare, stems) {
                    (Some(bare), Some(stems)) if bare.is_ascii() => stems.forms(bare, |(term, hash), _| {
                        out(Token { term, hash, word, written, halves: 1, kind: Kind::Word });
                    }),
                    (Some(bare), _) => emit_word(out, bare.as_bytes(), 1, word, written),
                    (None, _) => {}
                }
            }
        }
    }
}

#[inline]
fn emit_word(out: &mut impl FnMut(Token<'_>), term: &[u8], halves: u8, word: &str, written: &str) {
    out(Token { term, hash: hash(term), word, written, halves, kind: Kind::Word });
}

/// The stem, and the surface form of half its weight.
#[inline]
fn emit_forms(stems: &mut StemCache, out: &mut impl FnMut(Token<'_>), word: &str, hash: u32, written: &str) {
    stems.forms_of(word, hash, |(stem, stem_hash), (surface, surface_hash)| {
        debug_assert_eq!(surface.first(), Some(&(SURFACE as u8)));
        let kind = Kind::Word;
        out(Token { term: stem, hash: stem_hash, word, written, halves: 2, kind });
        out(Token { term: surface, hash: surface_hash, word, written, halves: 1, kind });
    });
}

/// Whether digits stand in groups of three behind a first one of at most three.
fn is_grouped(number: &str, separator: char) -> bool {
    let mut groups = number.split(separator);
    groups.next().is_some_and(|first| (1..=3).contains(&first.len())) && groups.all(|group| group.len() == 3)
}

/// At most [`MAX_TERM_BYTES`] of a word, up to a border of characters.
fn cut(word: &str) -> &str {
    if word.len() <= MAX_TERM_BYTES {
        return word;
    }
    (0..=MAX_TERM_BYTES).rev().find_map(|end| word.get(..end)).unwrap_or_default()
}

/// Classes that occur in a word.
pub(super) fn shape_of(word: &str) -> u8 {
    word.bytes().fold(0, |shape, b| shape | if b < 128 { CLASS[usize::from(b)] } else { WIDE })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Upper,
    Digit,
    Underscore,
}

/// Marks and letters without case continue what they follow as small letters do.
fn case_of(c: char) -> Case {
    match c {
        '_' => Case::Underscore,
        _ if c.is_ascii_digit() => Case::Digit,
        _ if c.is_uppercase() => Case::Upper,
        _ => Case::Lower,
    }
}

/// Whether a word of letters has a border inside; most capitalised words are decided on their bytes.
fn has_case_border(word: &str, shape: u8) -> bool {
    let simple = shape & WIDE == 0 && word.bytes().skip(1).all(|b| b.is_ascii_lowercase());
    !simple && Cases::new(word).next_end() != Some(word.len())
}

fn count_digit_borders(word: &str) -> usize {
    let bytes = word.as_bytes();
    bytes
        .windows(2)
        .filter(|w| w[0] != b'_' && w[1] != b'_' && w[0].is_ascii_digit() != w[1].is_ascii_digit())
        .count()
}

/// Finds the parts of an identifier: `HTTPServer_v2` is `HTTP`, `Server`, `_`, `v`, `2`. A plural of capitals (`URLs`) is
/// one part.
struct Cases<'w> {
    word: &'w str,
    chars: std::str::CharIndices<'w>,
    before: Option<Case>,
}

impl<'w> Cases<'w> {
    fn new(word: &'w str) -> Self {
        let mut chars = word.char_indices();
        let before = chars.next().map(|(_, c)| case_of(c));
        Self { word, chars, before }
    }

    /// The end of the next part; the last one is the end of the word.
    fn next_end(&mut self) -> Option<usize> {
        let mut before = self.before?;
        for (at, c) in self.chars.by_ref() {
            let here = case_of(c);
            let border = match (before, here) {
                (Case::Upper, Case::Upper) => {
                    let mut rest = self.word[at + c.len_utf8()..].chars();
                    let next = rest.next();
                    let small = next.is_some_and(|c| case_of(c) == Case::Lower);
                    // The `s` of a plural of capitals: nothing small follows it.
                    let plural = next == Some('s') && rest.next().is_none_or(|c| case_of(c) != Case::Lower);
                    small && !plural
                }
                (Case::Upper, Case::Lower) => false,
                _ => before != here,
            };
            before = here;
            if border {
                self.before = Some(here);
                return Some(at);
            }
        }
        self.before = None;
        Some(self.word.len())
    }
}
