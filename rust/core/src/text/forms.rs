//! From a word to its terms: stem, surface form, accent-free form, parts.

use super::chars::{APOSTROPHE, CLASS, DIGIT, LOWER, UNDERSCORE, WIDE};
use super::normalize::{fold_into, without_accents};
use super::stem::StemCache;

/// Wholes longer than this many bytes are left to their parts, and a single word is cut here: a term is a name, not a payload.
const MAX_TERM_BYTES: usize = 256;
/// A word that changes between letters and digits more often than this is a hash, not a name made of parts.
const MAX_DIGIT_BORDERS: usize = 4;
/// From this length on a word of hexadecimal digits with both letters and digits in it is a hash.
const MIN_HEX_LEN: usize = 7;

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
    /// The folded word it was made from: what stop words are compared with.
    pub(super) word: &'t str,
    /// As it stands in the normalised text.
    pub(super) written: &'t str,
    /// Weight in halves: 2 or 1.
    pub(super) halves: u8,
    /// What it is.
    pub(super) kind: Kind,
}

/// Turns words into tokens and hands them on.
pub(super) struct Forms<'c, F> {
    /// `None` without stemming.
    pub(super) stems: Option<&'c mut StemCache>,
    pub(super) out: F,
    buffer: String,
}

impl<'c, F: FnMut(Token<'_>)> Forms<'c, F> {
    pub(super) fn new(stems: Option<&'c mut StemCache>, out: F) -> Self {
        Self { stems, out, buffer: String::new() }
    }

    /// A term that is taken as it stands, two halves of weight.
    pub(super) fn verbatim(&mut self, term: &str, kind: Kind) {
        (self.out)(Token { term: term.as_bytes(), word: term, written: term, halves: 2, kind });
    }

    /// An identifier, address or number as a whole: folded, never stemmed. `skip` is left out (the commas of a number).
    pub(super) fn whole(&mut self, written: &str, skip: Option<char>) {
        let nameless = || written.bytes().all(|b| b < 128 && !b.is_ascii_alphanumeric());
        if written.len() > MAX_TERM_BYTES || nameless() {
            return;
        }
        let mut folded = std::mem::take(&mut self.buffer);
        folded.clear();
        fold_into(written, &mut folded);
        if let Some(skip) = skip {
            folded.retain(|c| c != skip);
        }
        (self.out)(Token { term: folded.as_bytes(), word: &folded, written, halves: 2, kind: Kind::Whole });
        self.buffer = folded;
    }

    /// All terms of one run of word characters. `shape` holds the classes that occur in it.
    pub(super) fn word(&mut self, written: &str, shape: u8) {
        if shape == LOWER && written.len() <= MAX_TERM_BYTES {
            return self.folded_word(written, written);
        }
        let written = cut(written);
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
        if shape & (DIGIT | UNDERSCORE) == 0 && !has_case_border(written, shape) {
            return self.fold_word(written);
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
        let closed: String = written.chars().filter(|&c| c != '\'').collect();
        folded.clear();
        fold_into(&closed, &mut folded);
        self.folded_word(&folded, written);
        if !negation {
            for part in written.split('\'').filter(|part| part.chars().nth(1).is_some()) {
                self.word(part, shape_of(part));
            }
        }
    }

    /// An identifier of several parts: itself, then each part as a word.
    fn parts(&mut self, written: &str, shape: u8) {
        if shape & (DIGIT | UNDERSCORE) == 0 {
            // `GitHub` is also written `github`, which is a word.
            self.fold_word(written);
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
        let mut start = 0;
        for end in part_ends(written) {
            let part = &written[start..end];
            start = end;
            let part = part.trim_matches('_');
            match part.as_bytes().first() {
                None => {}
                Some(_) if part.len() == written.len() => {}
                Some(b) if b.is_ascii_digit() => self.verbatim(part, Kind::Whole),
                Some(_) => self.fold_word(part),
            }
        }
    }

    /// A word in any case.
    fn fold_word(&mut self, written: &str) {
        let mut folded = std::mem::take(&mut self.buffer);
        folded.clear();
        fold_into(written, &mut folded);
        self.folded_word(&folded, written);
        self.buffer = folded;
    }

    /// A folded word: the stem and the surface form of an English one; another one itself and without its accents.
    pub(super) fn folded_word(&mut self, word: &str, written: &str) {
        let kind = Kind::Word;
        if word.is_ascii() {
            let Some(stems) = self.stems.as_deref_mut() else {
                return (self.out)(Token { term: word.as_bytes(), word, written, halves: 2, kind });
            };
            let out = &mut self.out;
            stems.forms(word, |stem, surface| {
                out(Token { term: stem, word, written, halves: 2, kind });
                out(Token { term: surface, word, written, halves: 1, kind });
            });
            return;
        }
        (self.out)(Token { term: word.as_bytes(), word, written, halves: 2, kind });
        if let Some(bare) = without_accents(word) {
            let out = &mut self.out;
            match self.stems.as_deref_mut() {
                Some(stems) if bare.is_ascii() => {
                    stems.forms(&bare, |stem, _| out(Token { term: stem, word, written, halves: 1, kind }));
                }
                _ => out(Token { term: bare.as_bytes(), word, written, halves: 1, kind }),
            }
        }
    }
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
    !simple && part_ends(word).len() > 1
}

fn count_digit_borders(word: &str) -> usize {
    let bytes = word.as_bytes();
    bytes
        .windows(2)
        .filter(|w| w[0] != b'_' && w[1] != b'_' && w[0].is_ascii_digit() != w[1].is_ascii_digit())
        .count()
}

/// Ends of the parts of an identifier, the last one the end of the word: `HTTPServer_v2` is `HTTP`, `Server`, `_`, `v`, `2`.
/// A plural of capitals (`URLs`) is one part.
fn part_ends(word: &str) -> Vec<usize> {
    let cases: Vec<(usize, Case)> = word.char_indices().map(|(at, c)| (at, case_of(c))).collect();
    let mut ends = Vec::new();
    for i in 1..cases.len() {
        let (before, (at, here)) = (cases[i - 1].1, cases[i]);
        let next = cases.get(i + 1).map(|c| c.1);
        let border = match (before, here) {
            (Case::Upper, Case::Upper) => next == Some(Case::Lower) && !plural_at(word, &cases, i + 1),
            (Case::Upper, Case::Lower) => false,
            _ => before != here,
        };
        if border {
            ends.push(at);
        }
    }
    ends.push(word.len());
    ends
}

/// Whether the character at `i` is the `s` of a plural of capitals: nothing small follows it.
fn plural_at(word: &str, cases: &[(usize, Case)], i: usize) -> bool {
    word[cases[i].0..].starts_with('s') && cases.get(i + 1).is_none_or(|c| c.1 != Case::Lower)
}
