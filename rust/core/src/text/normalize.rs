//! From text as written to text as compared: compatibility forms, case, accents.

use super::chars::{is_optional_mark, plain_form};
use crate::unicode::is_ignorable;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Appends the NFKC form of `text` without ignorable code points and optional marks to `out`. Case stays, because
/// `camelCase` is split by it later.
pub(super) fn normalize_into(text: &str, out: &mut String) {
    out.extend(
        text.chars().filter(|&c| !is_ignorable(c)).nfkc().filter(|&c| !is_optional_mark(c)).map(plain_form),
    );
}

/// Full case folding of one character: `ß` and `ẞ` to `ss`, final sigma to sigma, dotless `ı` to itself.
///
/// Lower, upper, lower gives the classes of Unicode's table (compared for every code point, the letters of Cherokee
/// fold to the other case); the one exception is `ı`, whose upper case is `I`.
pub(super) fn fold_char(c: char) -> impl Iterator<Item = char> {
    let kept = (c == 'ı').then_some(c);
    let folded =
        kept.is_none().then(|| c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase));
    kept.into_iter().chain(folded.into_iter().flatten())
}

/// Appends the folded form of `word` to `out`, composed again where folding took a character apart.
pub(super) fn fold_into(word: &str, out: &mut String) {
    if word.is_ascii() {
        out.extend(word.bytes().map(|b| char::from(b.to_ascii_lowercase())));
        return;
    }
    let start = out.len();
    // İ folds to `i` and a dot above; that dot is not a letter of its own in any language's search.
    for c in word.chars() {
        if c == 'İ' {
            out.push('i');
        } else {
            out.extend(fold_char(c));
        }
    }
    if is_nfc_quick(out[start..].chars()) != IsNormalized::Yes {
        let composed: String = out[start..].nfc().collect();
        out.truncate(start);
        out.push_str(&composed);
    }
}

/// The form of a folded word without accents, if it is another one: `café` as `cafe`, `ısparta` as `isparta`.
///
/// Only in alphabets whose marks are accents: in Indic scripts they are vowels.
pub(super) fn without_accents(word: &str) -> Option<String> {
    if !word.chars().all(|c| matches!(c, '\0'..'\u{700}' | '\u{1E00}'..='\u{1FFF}' | '\u{2C60}'..='\u{2C7F}' | '\u{A720}'..='\u{A7FF}')) {
        return None;
    }
    let bare: String = word.nfd().filter(|&c| !is_combining_mark(c)).flat_map(base_letters).nfc().collect();
    (bare != word && !bare.is_empty()).then_some(bare)
}

/// Latin letters whose stroke or ligature is no combining mark.
fn base_letters(c: char) -> impl Iterator<Item = char> {
    let (first, second) = match c {
        'ı' => ('i', None),
        'ø' => ('o', None),
        'ł' => ('l', None),
        'đ' | 'ð' => ('d', None),
        'ħ' => ('h', None),
        'æ' => ('a', Some('e')),
        'œ' => ('o', Some('e')),
        'þ' => ('t', Some('h')),
        _ => (c, None),
    };
    std::iter::once(first).chain(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(word: &str) -> String {
        let mut out = String::new();
        fold_into(word, &mut out);
        out
    }

    fn normalized(text: &str) -> String {
        let mut out = String::new();
        normalize_into(text, &mut out);
        out
    }

    #[test]
    fn folding_is_full() {
        for (a, b) in [
            ("Straße", "STRASSE"),
            ("STRAẞE", "straße"),
            ("ΣΟΦΟΣ", "σοφος"),
            ("σοφος", "σοφοσ"),
            ("İstanbul", "istanbul"),
            ("ΰ", "Ϋ́"),
        ] {
            assert_eq!(folded(a), folded(b), "{a} {b}");
        }
        assert_ne!(folded("ısı"), folded("isi"), "dotless i is a letter of its own");
        assert_eq!(without_accents("ısı").unwrap(), "isi");
        assert_eq!(without_accents("việt").unwrap(), "viet");
        assert_eq!(without_accents("हिन्दी"), None, "vowels are no accents");
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
    }
}
