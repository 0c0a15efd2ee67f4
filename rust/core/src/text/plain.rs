//! The plain analyzer: case-folded Unicode words and nothing else, for comparison with other engines.

use super::chars::{CLASS, DIGIT, LOWER, UNDERSCORE, UPPER};
use super::fold::fold_char;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

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

/// The same, but the places of words that need no folding are listed in `lone`.
pub(super) fn words_around(text: &str, lone: &mut Vec<Range<usize>>, sink: &mut impl FnMut(&str, &str)) {
    if !text.is_ascii() {
        return words(text, sink);
    }
    let mut folded = String::new();
    ascii_words(text, |at, upper| {
        if !upper {
            return lone.push(at);
        }
        folded.clear();
        folded.push_str(&text[at.clone()]);
        folded.make_ascii_lowercase();
        sink(&folded, &text[at]);
    });
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
    const LETTER: u8 = LOWER | UPPER;
    let bytes = text.as_bytes();
    let class = |at: usize| bytes.get(at).map_or(0, |&b| CLASS[usize::from(b)]);
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let mut shape = 0;
        loop {
            let here = class(at) & (LETTER | DIGIT | UNDERSCORE);
            if here != 0 {
                shape |= here;
                at += 1;
                continue;
            }
            if at == start || at >= bytes.len() {
                break;
            }
            let (before, after) = (class(at - 1), class(at + 1));
            let joins = match bytes[at] {
                b'\'' | b'.' => {
                    (before & after & DIGIT) != 0 || (before & LETTER != 0 && after & LETTER != 0)
                }
                b':' => before & LETTER != 0 && after & LETTER != 0,
                b',' | b';' => (before & after & DIGIT) != 0,
                _ => false,
            };
            if !joins {
                break;
            }
            at += 1;
        }
        if shape & (LETTER | DIGIT) != 0 {
            sink(start..at, shape & UPPER != 0);
        }
        if at == start {
            at += 1;
        }
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
    }
}
