//! Case and accents: what is left out of account when words are compared.

use unicode_normalization::char::{decompose_canonical, is_combining_mark};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Full case folding of one character: `ß` and `ẞ` to `ss`, final sigma to sigma, dotless `ı` to itself.
///
/// Lower, upper, lower gives the classes of Unicode's table (compared for every code point, the letters of Cherokee
/// fold to the other case); the one exception is `ı`, whose upper case is `I`.
pub(super) fn fold_char(c: char) -> impl Iterator<Item = char> {
    let simple = simple_fold(c);
    let folded =
        simple.is_none().then(|| c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase));
    simple.into_iter().chain(folded.into_iter().flatten())
}

/// The folded form of letters of common alphabets, without a table. (A test compares them with the tables.)
fn simple_fold(c: char) -> Option<char> {
    match c {
        'A'..='Z' => Some(c.to_ascii_lowercase()),
        '\0'..='\u{7F}' | 'à'..='ÿ' | 'ı' | 'α'..='ρ' | 'σ'..='ώ' | 'а'..='џ' | '\u{591}'..='\u{109F}' => {
            Some(c)
        }
        'À'..='Ö' | 'Ø'..='Þ' | 'Α'..='Ρ' | 'Σ'..='Ϋ' | 'А'..='Я' => {
            char::from_u32(c as u32 + 0x20)
        }
        'Ѐ'..='Џ' => char::from_u32(c as u32 + 0x50),
        '\u{3041}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' => Some(c),
        _ => None,
    }
}

/// Whether a word holds only letters of common alphabets that are folded already. False may be wrong.
pub(super) fn is_folded(word: &str) -> bool {
    word.chars().all(|c| simple_fold(c) == Some(c))
}

/// Appends the folded form of `word` to `out`, composed again where folding took a character apart.
pub(super) fn fold_into(word: &str, out: &mut String) {
    let start = out.len();
    if word.is_ascii() {
        out.push_str(word);
        out[start..].make_ascii_lowercase();
        return;
    }
    let mut simple = true;
    for c in word.chars() {
        if let Some(folded) = simple_fold(c) {
            out.push(folded);
        } else if c == 'İ' {
            // It folds to `i` and a dot above; that dot is not a letter of its own in any language's search.
            out.push('i');
        } else {
            simple = false;
            out.extend(fold_char(c));
        }
    }
    if !simple && is_nfc_quick(out[start..].chars()) != IsNormalized::Yes {
        let composed: String = out[start..].nfc().collect();
        out.truncate(start);
        out.push_str(&composed);
    }
}

/// Appends the form of a folded word without accents to `out` if it is another one: `café` as `cafe`, `ısparta` as
/// `isparta`. False, and nothing appended, if it is not.
///
/// Only in alphabets whose marks are accents: in Indic scripts they are vowels, and `й` is another letter than `и`.
pub(super) fn without_accents(word: &str, out: &mut String) -> bool {
    let start = out.len();
    for c in word.chars() {
        match c {
            '\0'..='\u{7F}' | 'а'..='и' | 'й'..='я' | 'ђ'..='ќ' | 'ў'..='\u{52F}' => out.push(c),
            'ѐ' | 'ё' => out.push('е'),
            'ѝ' => out.push('и'),
            '\u{80}'..='\u{6FF}'
            | '\u{1E00}'..='\u{1FFF}'
            | '\u{2C60}'..='\u{2C7F}'
            | '\u{A720}'..='\u{A7FF}' => {
                decompose_canonical(c, |d| {
                    if !is_combining_mark(d) {
                        match base_letters(d) {
                            Some(letters) => out.push_str(letters),
                            None => out.push(d),
                        }
                    }
                });
            }
            _ => {
                out.truncate(start);
                return false;
            }
        }
    }
    let changed = out.len() > start && out[start..] != *word;
    if !changed {
        out.truncate(start);
    }
    changed
}

/// Latin letters whose stroke or ligature is no combining mark.
fn base_letters(c: char) -> Option<&'static str> {
    Some(match c {
        'ı' => "i",
        'ø' => "o",
        'ł' => "l",
        'đ' | 'ð' => "d",
        'ħ' => "h",
        'æ' => "ae",
        'œ' => "oe",
        'þ' => "th",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(word: &str) -> String {
        let mut out = String::from("before");
        fold_into(word, &mut out);
        out.split_off(6)
    }

    fn bare(word: &str) -> Option<String> {
        let mut out = String::from("before");
        let changed = without_accents(word, &mut out);
        assert!(out.starts_with("before"));
        let rest = out.split_off(6);
        assert_eq!(changed, !rest.is_empty());
        changed.then_some(rest)
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
            ("МОСКВА", "москва"),
            ("ЂАЧКИ", "ђачки"),
        ] {
            assert_eq!(folded(a), folded(b), "{a} {b}");
        }
        assert_ne!(folded("ısı"), folded("isi"), "dotless i is a letter of its own");
    }

    #[test]
    fn the_quick_ranges_fold_as_the_tables_do() {
        for c in char::MIN..=char::MAX {
            let Some(simple) = simple_fold(c).filter(|_| c != 'ı') else { continue };
            let tables: String =
                c.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect();
            assert_eq!(simple.to_string(), tables, "{c:?}");
            assert!(simple != c || !c.is_uppercase(), "{c:?}");
        }
    }

    #[test]
    fn folding_again_changes_nothing() {
        for c in char::MIN..=char::MAX {
            let once = folded(&format!("a{c}"));
            assert_eq!(folded(&once), once, "{c:?}");
        }
    }

    #[test]
    fn accents_come_off_and_letters_stay() {
        for (word, expected) in [
            ("ısı", "isi"),
            ("việt", "viet"),
            ("łódź", "lodz"),
            ("ørsted", "orsted"),
            ("ærø", "aero"),
            ("ёлка", "елка"),
            ("άνθρωποσ", "ανθρωποσ"),
            ("أحمد", "احمد"),
            ("x\u{301}y", "xy"),
        ] {
            assert_eq!(bare(word).as_deref(), Some(expected), "{word}");
        }
        for word in ["cafe", "мой", "їжак", "हिन्दी", "\u{301}", "naïve中", ""] {
            assert_eq!(bare(word), None, "{word}");
        }
    }
}
