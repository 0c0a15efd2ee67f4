//! The plain analyzer: case-folded Unicode words and nothing else, for comparison with other engines.

use super::chars::{CLASS, DIGIT, LOWER, UNDERSCORE, UPPER};
use super::fold::fold_char;
use unicode_segmentation::UnicodeSegmentation;

/// Calls `sink` with every folded word and the word as written.
pub(super) fn words(text: &str, sink: &mut impl FnMut(&str, &str)) {
    let mut folded = String::new();
    if text.is_ascii() {
        ascii_words(text, &mut folded, sink);
    } else {
        unicode_words(text, &mut folded, sink);
    }
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
/// `' . :` between letters and one of `' . , ;` between digits.
fn ascii_words(text: &str, folded: &mut String, sink: &mut impl FnMut(&str, &str)) {
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
            let word = &text[start..at];
            if shape & UPPER == 0 {
                sink(word, word);
            } else {
                folded.clear();
                folded.push_str(word);
                folded.make_ascii_lowercase();
                sink(folded, word);
            }
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

    fn collect(path: impl Fn(&str, &mut String, &mut dyn FnMut(&str, &str)), text: &str) -> Vec<String> {
        let mut out = Vec::new();
        path(text, &mut String::new(), &mut |term, _| out.push(term.to_owned()));
        out
    }

    fn both(text: &str) -> (Vec<String>, Vec<String>) {
        (
            collect(|t, f, mut s| ascii_words(t, f, &mut s), text),
            collect(|t, f, mut s| unicode_words(t, f, &mut s), text),
        )
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
