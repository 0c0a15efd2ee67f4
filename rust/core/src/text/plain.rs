//! The plain analyzer: case-folded Unicode words and nothing else, for comparison with other engines.

use super::chars::{CLASS, DIGIT, LOWER, UNDERSCORE, UPPER};
use super::fold::fold_char;
use super::short::{ShortWord, letters};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

const LETTER: u8 = LOWER | UPPER;

/// Calls `sink` with every folded word and the word as written.
pub(super) fn words(text: &str, sink: &mut impl FnMut(&str, &str)) {
    let mut folded = String::new();
    if text.is_ascii() {
        ascii_words(text, |at, upper| {
            let word = &text[at];
            if !upper {
                return sink(word, word);
            }
            folded.clear();
            folded.push_str(word);
            folded.make_ascii_lowercase();
            sink(&folded, word);
        });
    } else {
        unicode_words(text, &mut folded, sink);
    }
}

/// The same, but short words of letters go to `lone`, folded.
pub(super) fn words_around(text: &str, lone: &mut impl FnMut(ShortWord), sink: &mut impl FnMut(&str, &str)) {
    if !text.is_ascii() {
        return words(text, sink);
    }
    let mut folded = String::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let class = CLASS[usize::from(bytes[at])];
        if class & (LETTER | DIGIT | UNDERSCORE) == 0 {
            at += 1;
            continue;
        }
        if class & LETTER != 0 {
            let found = letters(bytes, at);
            if ends_after_letter(bytes, at + found.len) {
                lone(found.word);
                at += found.len;
                continue;
            }
        }
        let (end, shape) = ascii_word(bytes, at);
        if shape & (LETTER | DIGIT) != 0 {
            folded.clear();
            folded.push_str(&text[at..end]);
            folded.make_ascii_lowercase();
            sink(&folded, &text[at..end]);
        }
        at = end;
    }
}

/// Whether a word whose last byte before `end` is a letter ends there.
#[inline]
fn ends_after_letter(bytes: &[u8], end: usize) -> bool {
    let Some(&next) = bytes.get(end) else { return true };
    if next == b' ' {
        return true;
    }
    let joins = matches!(next, b'\'' | b'.' | b':')
        && bytes.get(end + 1).is_some_and(|after| CLASS[usize::from(*after)] & LETTER != 0);
    !joins && CLASS[usize::from(next)] & (LETTER | DIGIT | UNDERSCORE) == 0
}

/// The general path.
fn unicode_words(text: &str, folded: &mut String, sink: &mut impl FnMut(&str, &str)) {
    for word in text.unicode_words() {
        folded.clear();
        folded.extend(word.chars().flat_map(fold_char));
        sink(folded, word);
    }
}

/// The word borders of Unicode's annex 29 for ASCII: runs of letters, digits and underscores, held together by one of
/// `' . :` between letters and one of `' . , ;` between digits. `sink` gets the place of each, and whether it holds a
/// capital.
fn ascii_words(text: &str, mut sink: impl FnMut(Range<usize>, bool)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let shape;
        (at, shape) = ascii_word(bytes, start);
        if shape & (LETTER | DIGIT) != 0 {
            sink(start..at, shape & UPPER != 0);
        }
        if at == start {
            at += 1;
        }
    }
}

/// The end of the word at `start` and the classes that occur in it; it is empty where none begins.
fn ascii_word(bytes: &[u8], start: usize) -> (usize, u8) {
    let class = |at: usize| bytes.get(at).map_or(0, |&b| CLASS[usize::from(b)]);
    let mut at = start;
    let mut shape = 0;
    loop {
        let here = class(at) & (LETTER | DIGIT | UNDERSCORE);
        if here != 0 {
            shape |= here;
            at += 1;
            continue;
        }
        if at == start || at >= bytes.len() {
            return (at, shape);
        }
        let (before, after) = (class(at - 1), class(at + 1));
        let joins = match bytes[at] {
            b'\'' | b'.' => (before & after & DIGIT) != 0 || (before & LETTER != 0 && after & LETTER != 0),
            b':' => before & LETTER != 0 && after & LETTER != 0,
            b',' | b';' => (before & after & DIGIT) != 0,
            _ => false,
        };
        if !joins {
            return (at, shape);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words of ASCII by its own path and by the general one.
    fn both(text: &str) -> (Vec<String>, Vec<String>) {
        assert!(text.is_ascii());
        let (mut fast, mut general) = (Vec::new(), Vec::new());
        words(text, &mut |term, _| fast.push(term.to_owned()));
        unicode_words(text, &mut String::new(), &mut |term, _| general.push(term.to_owned()));
        (fast, general)
    }

    #[test]
    fn simple_text_is_what_spaces_and_punctuation_give() {
        let (fast, general) =
            both("Don't panic: the Answer (42) is at example.com, or 1,234.5; foo_bar a:b ok.");
        assert_eq!(fast, general);
        let expected =
            ["don't", "panic", "the", "answer", "42", "is", "at", "example.com", "or", "1,234.5", "foo_bar"];
        assert_eq!(fast[..11], expected);
    }

    proptest! {
        #[test]
        fn the_fast_path_is_the_general_path(text in "[ -~\\t\\r\\n]{0,60}") {
            let (fast, general) = both(&text);
            prop_assert_eq!(fast, general);
        }

        #[test]
        fn joiners_and_digits_are_the_same_on_both_paths(text in "[aB1_'.,:; \"-]{0,24}") {
            let (fast, general) = both(&text);
            prop_assert_eq!(fast, general);
        }

        #[test]
        fn short_words_and_the_others_are_all_words(text in "([a-zA-Z]{1,18}[ .,:;'_1\"-]{1,2}){0,12}") {
            let (mut all, mut around) = (Vec::new(), Vec::new());
            words(&text, &mut |term, _| all.push(term.to_owned()));
            let mut short = Vec::new();
            words_around(&text, &mut |word| short.push(word), &mut |term, _| around.push(term.to_owned()));
            prop_assert!(!short.is_empty() || all == around);
            around.extend(short.iter().map(|word| word.with_str(ToOwned::to_owned)));
            all.sort();
            around.sort();
            prop_assert_eq!(all, around);
        }
    }
}
