//! Classes of characters, and the mappings between characters that count as the same in a search.

/// Lower-case ASCII letter.
pub(super) const LOWER: u8 = 1;
/// Upper-case ASCII letter.
pub(super) const UPPER: u8 = 2;
/// ASCII digit.
pub(super) const DIGIT: u8 = 4;
/// The underscore.
pub(super) const UNDERSCORE: u8 = 8;
/// An apostrophe inside a word (a shape flag; as a class of a byte it may or may not be inside one).
pub(super) const APOSTROPHE: u8 = 16;
/// A letter, digit or mark beyond ASCII (a shape flag).
pub(super) const WIDE: u8 = 32;
/// A byte that may join two words to one identifier, path or address.
pub(super) const CONNECTOR: u8 = 64;
/// Any byte that makes a word.
pub(super) const WORD: u8 = LOWER | UPPER | DIGIT | UNDERSCORE;

/// Class of every ASCII byte; bytes of longer characters have class 0.
pub(super) static CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        table[byte] = if b.is_ascii_lowercase() {
            LOWER
        } else if b.is_ascii_uppercase() {
            UPPER
        } else if b.is_ascii_digit() {
            DIGIT
        } else {
            match b {
                b'_' => UNDERSCORE,
                b'\'' => APOSTROPHE,
                b'.' | b'-' | b'/' | b'\\' | b':' | b'@' | b'?' | b'&' | b'=' | b'#' | b'%' | b'+' | b'~' => {
                    CONNECTOR
                }
                _ => 0,
            }
        };
        byte += 1;
    }
    table
};

/// Hebrew points and accents, Arabic vowel signs, the tatweel, and the box of a keycap: written or left out at will.
pub(super) fn is_optional_mark(c: char) -> bool {
    matches!(c,
        '\u{591}'..='\u{5BD}' | '\u{5BF}' | '\u{5C1}'..='\u{5C2}' | '\u{5C4}'..='\u{5C5}' | '\u{5C7}'
        | '\u{610}'..='\u{61A}' | '\u{640}' | '\u{64B}'..='\u{65F}' | '\u{670}' | '\u{6D6}'..='\u{6DC}'
        | '\u{6DF}'..='\u{6E4}' | '\u{6E7}'..='\u{6E8}' | '\u{6EA}'..='\u{6ED}' | '\u{20E3}')
}

/// Optional marks that make a letter of their own with some letters: `أ` is alef and a hamza.
pub(super) fn may_compose(mark: char) -> bool {
    matches!(mark, '\u{653}'..='\u{655}')
}

/// The zeros of the scripts that write decimal digits of their own, each followed by its one to nine.
const ZEROS: [u32; 18] = [
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50, 0xED0, 0xF20,
    0x1040, 0x17E0, 0x1810,
];

/// Typographic apostrophes and hyphens, the digits of other scripts and the Arabic separators of numbers as their ASCII
/// equals.
pub(super) fn plain_form(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{2BC}' => '\'',
        '\u{2010}'..='\u{2012}' | '\u{2212}' => '-',
        '\u{66B}' => '.',
        '\u{66C}' => ',',
        '\u{660}'..='\u{1819}' => {
            let zero = ZEROS[..ZEROS.partition_point(|&zero| zero <= c as u32)].last();
            let value = zero.map_or(10, |zero| c as u32 - zero);
            if value < 10 { char::from(b'0' + value as u8) } else { c }
        }
        _ => c,
    }
}

/// Spaces that keep the groups of a number together: `1 234 567`.
pub(super) fn is_group_space(c: char) -> bool {
    matches!(c, '\u{A0}' | '\u{2007}' | '\u{2009}' | '\u{202F}')
}

/// Characters of everyday text that normalisation leaves alone, whatever stands before them: most text is made of
/// nothing else. (A test compares the list with the rules for every character.)
pub(super) fn is_settled(c: char) -> bool {
    matches!(c,
        '\0'..='\u{7F}' | '\u{C0}'..='\u{131}' | '\u{391}'..='\u{3A1}' | '\u{3A3}'..='\u{3CE}' | '\u{400}'..='\u{481}'
        | '\u{48A}'..='\u{52F}' | '\u{5D0}'..='\u{5EA}' | '\u{620}'..='\u{63F}' | '\u{641}'..='\u{64A}'
        | '\u{905}'..='\u{939}' | '\u{E01}'..='\u{E30}' | '\u{2013}'..='\u{2014}' | '\u{201C}'..='\u{201E}'
        | '\u{3001}'..='\u{3029}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FE}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{1F300}'..='\u{1F6FF}' | '\u{1F900}'..='\u{1F9FF}'
        | '\u{20000}'..='\u{2A6DF}')
}

/// Han with its extensions, kana, bopomofo and Hangul: scripts written without spaces, or whose words carry particles.
pub(super) fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}'
        | '\u{3031}'..='\u{3035}' | '\u{303B}'..='\u{303C}' | '\u{3041}'..='\u{3096}' | '\u{309D}'..='\u{309F}'
        | '\u{30A1}'..='\u{30FA}' | '\u{30FC}'..='\u{30FF}' | '\u{3105}'..='\u{312F}' | '\u{3131}'..='\u{318E}'
        | '\u{31A0}'..='\u{31BF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{A960}'..='\u{A97C}' | '\u{AC00}'..='\u{D7FB}' | '\u{F900}'..='\u{FAFF}' | '\u{1AFF0}'..='\u{1B16F}'
        | '\u{20000}'..='\u{3FFFD}')
}

/// The characters of Chinese and Japanese that are no marks, for the speed of long runs of them.
#[inline]
pub(super) fn is_han_or_kana(c: char) -> bool {
    matches!(c, '\u{4E00}'..='\u{9FFF}' | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}')
}

/// Letters of Thai, Lao, Myanmar and Khmer: scripts whose words are not set apart.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E01}'..='\u{E3A}' | '\u{E40}'..='\u{E4E}' | '\u{E81}'..='\u{EBD}' | '\u{EC0}'..='\u{ECE}' | '\u{EDC}'..='\u{EDF}'
        | '\u{1000}'..='\u{103F}' | '\u{1050}'..='\u{108F}' | '\u{109A}'..='\u{109D}' | '\u{1780}'..='\u{17D3}'
        | '\u{17D7}' | '\u{17DC}'..='\u{17DD}' | '\u{A9E0}'..='\u{A9EF}' | '\u{A9FA}'..='\u{A9FE}' | '\u{AA60}'..='\u{AA7F}')
}

/// A letter or digit beyond ASCII of a script that sets its words apart.
pub(super) fn is_wide_word(c: char) -> bool {
    match c {
        // Letters and two signs, for the speed of most alphabets.
        '\u{C0}'..='\u{2AF}' => !matches!(c, '\u{D7}' | '\u{F7}'),
        '\u{3A3}'..='\u{481}' => c != '\u{3F6}',
        _ => c.is_alphanumeric() && !is_cjk(c) && !is_unspaced(c),
    }
}

/// Pictographs that are searched one by one. Skin tones are left out: a thumb is a thumb.
pub(super) fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2194}'..='\u{2199}' | '\u{21A9}'..='\u{21AA}' | '\u{231A}'..='\u{231B}' | '\u{2328}' | '\u{23CF}'
        | '\u{23E9}'..='\u{23FA}' | '\u{25AA}'..='\u{25AB}' | '\u{25B6}' | '\u{25C0}' | '\u{25FB}'..='\u{25FE}'
        | '\u{2600}'..='\u{27BF}' | '\u{2934}'..='\u{2935}' | '\u{2B05}'..='\u{2B07}' | '\u{2B1B}'..='\u{2B1C}'
        | '\u{2B50}' | '\u{2B55}' | '\u{1F000}'..='\u{1F3FA}' | '\u{1F400}'..='\u{1FAFF}')
}

/// The letters that make a flag in pairs.
pub(super) fn is_flag_letter(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_ranges_of_word_characters_are_those_of_unicode() {
        for c in '\u{80}'..=char::MAX {
            assert_eq!(is_wide_word(c), c.is_alphanumeric() && !is_cjk(c) && !is_unspaced(c), "{c:?}");
        }
    }

    #[test]
    fn digits_of_other_scripts_are_digits() {
        for (zero, nine) in
            [('٠', '٩'), ('۰', '۹'), ('०', '९'), ('০', '৯'), ('๐', '๙'), ('၀', '၉'), ('០', '៩'), ('᠐', '᠙')]
        {
            assert_eq!((plain_form(zero), plain_form(nine)), ('0', '9'), "{zero}");
        }
        for c in ZEROS.iter().filter_map(|&zero| char::from_u32(zero)) {
            assert!(c.is_numeric() && !is_unspaced(c), "{c:?}");
        }
        assert_eq!(plain_form('ག'), 'ག');
    }
}
