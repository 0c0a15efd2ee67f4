//! From text as written to text as compared: compatibility forms, invisible characters, optional marks, digits.
//!
//! Case stays, because `camelCase` is split by it later.
//!
//! Text is normalised in pieces. A piece begins where nothing before it can change what it becomes, so that the pieces
//! one after another are the normal form of the whole, and each knows which part of the text it was made from.

use super::chars::{is_group_space, is_optional_mark, is_settled, may_compose, plain_form};
use crate::unicode::is_ignorable;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// What a part of the text became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its end in the text.
    pub(super) text_end: usize,
    /// Its end in the normal form.
    pub(super) normal_end: usize,
    /// Whether it is the same there, byte for byte.
    pub(super) same: bool,
}

/// Appends the normal form of `text` to `out` and tells of each piece.
pub(super) fn normalize_into(text: &str, out: &mut String, mut tell: impl FnMut(Piece)) {
    let base = out.len();
    // Everything before is in `out`.
    let mut done = 0;
    while let Some((at, c, before)) = unsettled(text, done) {
        let starts_here = starts_piece(c);
        // What may change with its follower goes into the piece.
        let start = if starts_here { at } else { before.max(done) };
        if start > done {
            out.push_str(&text[done..start]);
            tell(Piece { text_end: start, normal_end: out.len() - base, same: true });
        }
        let rest = &text[at + c.len_utf8()..];
        let next = rest.chars().next();
        let single = starts_here && next.is_none_or(is_settled);
        done = if let Some(c) = single.then(|| single_form(c, &text[..at], next)).flatten() {
            out.push(c);
            text.len() - rest.len()
        } else {
            let end = rest.char_indices().find(|&(_, c)| starts_piece(c));
            let end = end.map_or(text.len(), |(after, _)| text.len() - rest.len() + after);
            compose_into(&text[start..end], out);
            end
        };
        tell(Piece { text_end: done, normal_end: out.len() - base, same: false });
    }
    if done < text.len() {
        out.push_str(&text[done..]);
        tell(Piece { text_end: text.len(), normal_end: out.len() - base, same: true });
    }
}

/// Whether the normal form of `text` is the text itself.
pub(super) fn is_normal(text: &str) -> bool {
    text.is_ascii() || unsettled(text, 0).is_none()
}

/// The first character from `from` on that may change, with its place and that of the character before it.
fn unsettled(text: &str, from: usize) -> Option<(usize, char, usize)> {
    let mut before = from;
    for (at, c) in text[from..].char_indices() {
        if !is_settled(c) {
            return Some((from + at, c, before));
        }
        before = from + at;
    }
    None
}

/// Whether nothing before `c` changes what becomes of it and what follows.
fn starts_piece(c: char) -> bool {
    if is_settled(c) {
        return true;
    }
    if is_dropped(c) {
        return false;
    }
    let mut first = None;
    decompose_compatible(c, |d| first = first.or(Some(d)));
    first.is_none_or(|d| {
        canonical_combining_class(d) == 0
            && !is_dropped(d)
            && is_nfc_quick(std::iter::once(d)) == IsNormalized::Yes
    })
}

/// What is taken out before letters and marks are put together.
fn is_dropped(c: char) -> bool {
    is_ignorable(c) || (is_optional_mark(c) && !may_compose(c))
}

/// What becomes of the commonest characters that change, when the next one does not join them.
fn single_form(c: char, before: &str, next: Option<char>) -> Option<char> {
    match c {
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(c as u32 - 0xFEE0),
        '\u{3000}' => Some(' '),
        _ if is_group_space(c) => {
            // Between digits it groups them, as a comma does. (What follows is ASCII here, or no digit.)
            let digits = before.chars().next_back().is_some_and(is_digit) && next.is_some_and(is_digit);
            Some(if digits { ',' } else { ' ' })
        }
        _ => {
            let plain = plain_form(c);
            (plain != c).then_some(plain)
        }
    }
}

fn is_digit(c: char) -> bool {
    let c = if matches!(c, '\u{FF10}'..='\u{FF19}') { '0' } else { plain_form(c) };
    c.is_ascii_digit()
}

/// Appends the normal form of one piece.
fn compose_into(piece: &str, out: &mut String) {
    let kept = |text: &str| -> String {
        let decomposed = text.chars().filter(|&c| !is_dropped(c)).nfkd().filter(|&c| !is_dropped(c));
        decomposed.nfc().map(plain_form).collect()
    };
    let mut normal = kept(piece);
    if normal.contains(is_optional_mark) {
        // A hamza on what is no seat for one kept a mark behind it from its letter.
        normal.retain(|c| !is_optional_mark(c));
        normal = normal.nfc().collect();
    }
    out.push_str(&normal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn normalized(text: &str) -> String {
        let mut out = String::new();
        normalize_into(text, &mut out, |_| ());
        out
    }

    /// The same without pieces. Group spaces look at their neighbours and are left to other tests.
    fn model(text: &str) -> String {
        let mut out = String::new();
        compose_into(text, &mut out);
        out
    }

    #[test]
    fn invisible_characters_make_no_difference() {
        for text in [
            "pass\u{200B}word",
            "pass\u{AD}word",
            "\u{FEFF}password",
            "password\u{FE0F}",
            "\u{202E}password\u{202C}",
        ] {
            assert_eq!(normalized(text), "password");
        }
        assert_eq!(normalized("ＰＡＳＳ １２３ ﾃｽﾄ ٤٢"), "PASS 123 テスト 42");
        assert_eq!(normalized("שָׁלוֹם مُحَمَّد"), "שלום محمد");
        assert_eq!(normalized("e\u{200B}\u{301} 1\u{FE0F}\u{20E3}"), "é 1");
        assert_eq!(normalized("أ ا\u{654} x\u{654}\u{301}"), "أ أ x\u{301}");
    }

    #[test]
    fn a_space_that_keeps_digits_together_is_a_comma() {
        for space in ['\u{A0}', '\u{2007}', '\u{2009}', '\u{202F}'] {
            assert_eq!(normalized(&format!("1{space}234{space}567{space}km")), "1,234,567 km");
            assert_eq!(normalized(&format!("٤{space}２３")), "4 23", "digits that change are not looked at");
            assert_eq!(normalized(&format!("a{space}1 1{space}a 1{space}")), "a 1 1 a 1 ");
        }
    }

    #[test]
    fn settled_characters_begin_pieces_and_stay() {
        for c in (char::MIN..=char::MAX).filter(|&c| is_settled(c)) {
            let mut first = None;
            decompose_compatible(c, |d| first = first.or(Some(d)));
            assert_eq!(model(c.encode_utf8(&mut [0; 4])), c.to_string(), "{c:?}");
            assert_eq!(first.map(canonical_combining_class), Some(0), "{c:?}");
            assert_eq!(is_nfc_quick(std::iter::once(c)), IsNormalized::Yes, "{c:?}");
            assert!(!is_ignorable(c) && !is_optional_mark(c) && !is_group_space(c), "{c:?}");
        }
    }

    #[test]
    fn every_character_becomes_what_the_rules_say() {
        for c in (char::MIN..=char::MAX).filter(|&c| !is_group_space(c)) {
            for text in [format!("{c}"), format!("e{c}a"), format!("{c}\u{301}")] {
                assert_eq!(normalized(&text), model(&text), "{text:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn pieces_one_after_another_are_the_whole_and_normal_text_stays(text in "([ae가ㄱㅏㄴㅎ\u{1112}\u{1161}\u{11AB}か\u{3099}ｶﾞ\u{301}\u{308}\u{323}\u{5B0}\u{5C1}ש\u{64E}\u{654}\u{640}ا\u{200B}\u{FE0F}ﬁ㌔ﷺ中é，’1\u{345}]|\\PC){0,12}") {
            let text: String = text.chars().filter(|&c| !is_group_space(c)).collect();
            let normal = normalized(&text);
            prop_assert_eq!(&normal, &model(&text));
            prop_assert_eq!(&normalized(&normal), &normal);
            let (mut ends, mut last) = (Vec::new(), (0, 0));
            normalize_into(&text, &mut String::new(), |piece| ends.push(piece));
            for piece in ends {
                prop_assert!(piece.text_end > last.0 && piece.normal_end >= last.1);
                let (from, to) = (&text[last.0..piece.text_end], &normal[last.1..piece.normal_end]);
                prop_assert!(!piece.same || from == to);
                last = (piece.text_end, piece.normal_end);
            }
            prop_assert_eq!(last, (text.len(), normal.len()));
        }
    }
}
