//! From normalised text to words, identifiers, CJK characters and pairs.
//!
//! One scanner for all text: ASCII bytes are decided by a table, longer characters by their class, so that there is no
//! second rule for a fast path to disagree with.

use super::chars::{
    APOSTROPHE, CLASS, CONNECTOR, DIGIT, LOWER, UPPER, WIDE, WORD, is_cjk, is_flag_letter, is_han_or_kana,
    is_pictograph, is_unspaced, is_wide_word,
};
use super::forms::{Forms, Kind, MAX_TERM_BYTES, Token};
use super::short::{ShortWord, letters};
use unicode_normalization::char::is_combining_mark;

/// More words than this in one compound go on as a new one.
const MAX_COMPOUND_WORDS: usize = 64;

/// A word inside a compound.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    /// Classes that occur in it.
    shape: u8,
    /// Where a sign that belongs to the name ends: `C++`, `C#`. Else equal to `end`.
    name_end: usize,
    /// What groups its digits: a comma or an apostrophe.
    separator: Option<char>,
}

/// Finds the tokens of `text`, which is normalised, and gives them to `forms`.
pub(super) fn scan<F: FnMut(Token<'_>)>(text: &str, forms: &mut Forms<'_, F>) {
    scan_with(text, forms, |forms, at, class| {
        if class != LOWER {
            return None;
        }
        let end = lone_word(text, at)?;
        forms.lone(text, at, end);
        Some(end)
    });
}

/// The same, but short lone words go to `lone`, folded: their terms are up to the caller.
pub(super) fn scan_around<F: FnMut(Token<'_>)>(
    text: &str,
    forms: &mut Forms<'_, F>,
    lone: &mut impl FnMut(ShortWord),
) {
    scan_with(text, forms, |_, at, _| {
        let bytes = text.as_bytes();
        let found = letters(bytes, at);
        let alone = !follows_dot(bytes, at) && ends_alone(bytes, at + found.len);
        (alone && found.len > 0).then(|| {
            lone(found.word);
            at + found.len
        })
    });
}

/// `quick` decides the commonest words on the spot and tells where they end: None leaves a word of a class to the rules.
#[inline]
fn scan_with<F: FnMut(Token<'_>)>(
    text: &str,
    forms: &mut Forms<'_, F>,
    mut quick: impl FnMut(&mut Forms<'_, F>, usize, u8) -> Option<usize>,
) {
    let bytes = text.as_bytes();
    let mut spans: Vec<Span> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let class = CLASS[usize::from(byte)];
        if class & WORD == 0 && byte < 128 {
            at += 1;
            continue;
        }
        if class & (LOWER | UPPER) != 0
            && let Some(end) = quick(forms, at, class)
        {
            at = end;
            continue;
        }
        forms.flush(text);
        if class & WORD != 0 {
            at = compound(text, at, &mut spans, forms);
            continue;
        }
        let Some(c) = char_at(text, at) else { break };
        at = if is_cjk(c) {
            pairs(text, at, c, is_cjk, forms)
        } else if is_unspaced(c) {
            pairs(text, at, c, is_unspaced, forms)
        } else if is_wide_word(c) {
            compound(text, at, &mut spans, forms)
        } else {
            let mut end = at + c.len_utf8();
            if is_flag_letter(c)
                && let Some(second) = char_at(text, end).filter(|&c| is_flag_letter(c))
            {
                end += second.len_utf8();
            }
            if is_pictograph(c) {
                forms.verbatim(&text[at..end], Kind::Whole);
            }
            end
        };
    }
    forms.flush(text);
}

/// The end of a word of small letters that nothing before or behind it can belong to: most words of most text.
#[inline]
fn lone_word(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    if follows_dot(bytes, start) {
        return None;
    }
    let len = bytes[start..].iter().position(|b| !b.is_ascii_lowercase()).unwrap_or(bytes.len() - start);
    let end = start + len;
    (len > 0 && len <= MAX_TERM_BYTES && ends_alone(bytes, end)).then_some(end)
}

#[inline]
fn follows_dot(bytes: &[u8], start: usize) -> bool {
    start > 0 && bytes[start - 1] == b'.'
}

/// Whether nothing behind `end` can belong to the word of letters before it.
#[inline]
fn ends_alone(bytes: &[u8], end: usize) -> bool {
    if bytes.get(end) == Some(&b' ') {
        return true;
    }
    match bytes.get(end) {
        None | Some(b'\n' | b',' | b')' | b';' | b'"') => true,
        Some(b'.' | b':' | b'?' | b'-') => matches!(bytes.get(end + 1), None | Some(b' ' | b'\n')),
        Some(_) => false,
    }
}

#[inline]
fn char_at(text: &str, at: usize) -> Option<char> {
    text.get(at..)?.chars().next()
}

/// Whether a word can begin or go on at `at`.
fn is_word_at(text: &str, at: usize) -> bool {
    match text.as_bytes().get(at) {
        None => false,
        Some(&b) if b < 128 => CLASS[usize::from(b)] & WORD != 0,
        Some(_) => char_at(text, at).is_some_and(is_wide_word),
    }
}

fn is_letter_at(text: &str, at: usize) -> bool {
    match text.as_bytes().get(at) {
        None => false,
        Some(&b) if b < 128 => b.is_ascii_alphabetic(),
        Some(_) => char_at(text, at).is_some_and(|c| is_wide_word(c) && c.is_alphabetic()),
    }
}

/// Every character of a run that begins with `c`, and every two neighbours. Marks belong to the character before them.
fn pairs<F: FnMut(Token<'_>)>(
    text: &str,
    start: usize,
    c: char,
    member: fn(char) -> bool,
    forms: &mut Forms<'_, F>,
) -> usize {
    let mut previous = None;
    let (mut at, mut end) = (start, start + c.len_utf8());
    loop {
        let mut next = char_at(text, end);
        let mut goes_on = next.is_some_and(member);
        // In Thai and its like a mark is a member too.
        while let Some(mark) = next.filter(|&c| !(goes_on && is_han_or_kana(c)) && is_combining_mark(c)) {
            end += mark.len_utf8();
            next = char_at(text, end);
            goes_on = next.is_some_and(member);
        }
        if let Some(before) = previous {
            forms.verbatim(&text[before..end], Kind::Pair);
        }
        forms.verbatim(&text[at..end], Kind::Char);
        previous = Some(at);
        at = end;
        let Some(c) = next.filter(|_| goes_on) else { return at };
        end = at + c.len_utf8();
    }
}

/// The run of word characters at `start`: letters, digits, underscores, marks, and apostrophes between letters.
fn word_at(text: &str, start: usize) -> Span {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut shape = 0;
    while let Some(&b) = bytes.get(at) {
        let class = CLASS[usize::from(b)];
        if class & WORD != 0 {
            shape |= class;
            at += 1;
        } else if b < 128 {
            // An apostrophe follows a letter if the byte before it is one: only ASCII needs the look.
            let joins = class == APOSTROPHE
                && at > start
                && (bytes[at - 1].is_ascii_alphabetic() || bytes[at - 1] >= 128)
                && is_letter_at(text, at + 1);
            if !joins {
                break;
            }
            shape |= APOSTROPHE;
            at += 1;
        } else {
            match char_at(text, at) {
                Some(c) if is_wide_word(c) || (at > start && is_combining_mark(c) && !is_unspaced(c)) => {
                    shape |= WIDE;
                    at += c.len_utf8();
                }
                _ => break,
            }
        }
    }
    Span { start, end: at, shape, name_end: at, separator: None }
}

/// The word at `start` with what belongs to it beyond word characters: `1,234,567`, `1'234`, `C++`, `C#`.
fn name_at(text: &str, start: usize) -> Span {
    let mut span = word_at(text, start);
    let bytes = text.as_bytes();
    let next = bytes.get(span.end).copied();
    if let Some(separator @ (b',' | b'\'')) = next
        && span.shape == DIGIT
        && span.end - span.start <= 3
    {
        let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let group = |at: usize| {
            bytes.get(at) == Some(&separator) && (1..4).all(|i| digit(at + i)) && !is_word_at(text, at + 4)
        };
        while group(span.end) {
            span.end += 4;
            span.separator = Some(char::from(separator));
        }
        span.name_end = span.end;
    } else if span.shape & !(LOWER | UPPER) == 0 && (next == Some(b'+') || next == Some(b'#')) {
        let plus = bytes[span.end..].starts_with(b"++");
        let sharp = next == Some(b'#') && span.end - span.start == 1 && !is_word_at(text, span.end + 1);
        span.name_end += if plus { 2 } else { usize::from(sharp) };
    }
    span
}

/// Length of the connector at `at` that joins two words, 0 if none does: one sign, or one of the few pairs that paths,
/// addresses and code are written with.
fn connector(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    if bytes.get(at).is_none_or(|&b| CLASS[usize::from(b)] != CONNECTOR) {
        return 0;
    }
    let rest = &bytes[at..];
    let len = if rest.starts_with(b"://") {
        3
    } else if [b"::", b"->", b"/.", b":\\", b"\\\\"].iter().any(|pair| rest.starts_with(*pair)) {
        2
    } else {
        1
    };
    if is_word_at(text, at + len) { len } else { 0 }
}

/// Whether a dot before a word at `start` belongs to it, as in `.env` and `.NET`: a letter follows, and before the dot
/// is nothing, a space or an opening.
fn has_leading_dot(text: &str, start: usize) -> bool {
    start > 0
        && text.as_bytes()[start - 1] == b'.'
        && is_letter_at(text, start)
        && text[..start - 1]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || is_cjk(c) || "\"'`([{<,=*/\\:".contains(c))
}

/// Reads the longest chain of words joined by connectors and emits it whole, by its path segments, and by its words.
fn compound<F: FnMut(Token<'_>)>(
    text: &str,
    start: usize,
    spans: &mut Vec<Span>,
    forms: &mut Forms<'_, F>,
) -> usize {
    spans.clear();
    let mut at = start;
    loop {
        let span = name_at(text, at);
        at = span.name_end;
        spans.push(span);
        let joint = connector(text, at);
        if joint == 0 || spans.len() >= MAX_COMPOUND_WORDS {
            break;
        }
        at += joint;
    }
    let dotted = has_leading_dot(text, start);
    if spans.len() > 1 || dotted {
        wholes(text, spans, dotted, forms);
    }
    for span in spans.iter() {
        let written = &text[span.start..span.end];
        if span.separator.is_some() {
            forms.whole(written, span.separator);
        } else {
            if span.name_end > span.end {
                forms.whole(&text[span.start..span.name_end], None);
            }
            forms.word(written, span.shape);
        }
    }
    at
}

fn wholes<F: FnMut(Token<'_>)>(text: &str, spans: &[Span], dotted: bool, forms: &mut Forms<'_, F>) {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else { return };
    let separator = spans.iter().find_map(|span| span.separator);
    let start = first.start - usize::from(dotted);
    let whole = &text[start..last.name_end];
    // `U.S.A.` is also written `USA`.
    if spans.len() > 1 && is_acronym(text, spans) {
        return forms.closed_up(whole, '.');
    }
    forms.whole(whole, separator);
    // The number of a version without its `v`.
    let name = &text[first.start..first.end];
    if !dotted
        && spans.len() > 1
        && name
            .strip_prefix(['v', 'V'])
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    {
        forms.whole(&whole[1..], separator);
    }
    // Segments of a path or address: `path/to/file.rs` is found by `file.rs`.
    let mut from = 0;
    for i in 0..spans.len() {
        let joint = spans.get(i + 1).map_or("", |next| &text[spans[i].name_end..next.start]);
        let strong = joint.contains(['/', '\\', '@', ':', '?', '&', '=', '#', '>']);
        if !strong && i + 1 < spans.len() {
            continue;
        }
        let covers_all = from == 0 && i + 1 == spans.len();
        let hidden = from > 0 && text.as_bytes()[spans[from].start - 1] == b'.';
        if !covers_all && (i > from || hidden) {
            forms.whole(&text[spans[from].start - usize::from(hidden)..spans[i].name_end], separator);
        }
        from = i + 1;
    }
}

/// Single capitals with dots between them.
fn is_acronym(text: &str, spans: &[Span]) -> bool {
    spans.iter().all(|s| s.end - s.start == 1 && s.shape == UPPER && s.name_end == s.end)
        && spans.windows(2).all(|pair| &text[pair[0].end..pair[1].start] == ".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Language, stem};
    use proptest::prelude::*;

    fn terms(
        language: Language,
        scan: impl FnOnce(&mut Forms<'_, &mut dyn FnMut(Token<'_>)>),
    ) -> Vec<(String, u8)> {
        let mut out = Vec::new();
        let mut sink = |token: Token<'_>| {
            out.push((String::from_utf8_lossy(token.term).into_owned(), token.halves));
        };
        let sink: &mut dyn FnMut(Token<'_>) = &mut sink;
        stem::with_cache(language, |stems| scan(&mut Forms::new(stems, sink)));
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn words_that_are_decided_on_the_spot_are_decided_alike(text in "[abXé\u{301}中👍 .,:;'\"?#+/_()1\n-]{0,24}|([A-Za-z]?[a-z]{0,6}[ .,:;?-]{1,2}){0,40}") {
            for language in [Language::English, Language::Off] {
                let mut slow = terms(language, |forms| scan_with(&text, forms, |_, _, _| None));
                prop_assert_eq!(&terms(language, |forms| scan(&text, forms)), &slow);
                let mut short = Vec::new();
                let mut around = terms(language, |forms| scan_around(&text, forms, &mut |word| short.push(word)));
                for word in short {
                    around.extend(word.with_str(|word| {
                        terms(language, |forms| forms.ascii_word(word, word))
                    }));
                }
                around.sort();
                slow.sort();
                prop_assert_eq!(&around, &slow);
            }
        }
    }
}
