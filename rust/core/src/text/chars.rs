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

/// Hebrew points and accents, Arabic vowel signs and the tatweel: written or left out at will.
pub(super) fn is_optional_mark(c: char) -> bool {
    matches!(c,
        '\u{591}'..='\u{5BD}' | '\u{5BF}' | '\u{5C1}'..='\u{5C2}' | '\u{5C4}'..='\u{5C5}' | '\u{5C7}'
        | '\u{610}'..='\u{61A}' | '\u{640}' | '\u{64B}'..='\u{65F}' | '\u{670}' | '\u{6D6}'..='\u{6DC}'
        | '\u{6DF}'..='\u{6E4}' | '\u{6E7}'..='\u{6E8}' | '\u{6EA}'..='\u{6ED}')
}

/// Typographic apostrophes and hyphens and the digits of other scripts as their ASCII equals.
pub(super) fn plain_form(c: char) -> char {
    let digit = |zero: u32| char::from(b'0' + (c as u32 - zero) as u8);
    match c {
        '\u{2018}' | '\u{2019}' | '\u{2BC}' => '\'',
        '\u{2010}'..='\u{2012}' | '\u{2212}' => '-',
        '\u{660}'..='\u{669}' => digit(0x660),
        '\u{6F0}'..='\u{6F9}' => digit(0x6F0),
        '\u{966}'..='\u{96F}' => digit(0x966),
        '\u{E50}'..='\u{E59}' => digit(0xE50),
        _ => c,
    }
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

/// Letters of Thai, Lao, Myanmar and Khmer: scripts whose words are not set apart.
pub(super) fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E01}'..='\u{E3A}' | '\u{E40}'..='\u{E4E}' | '\u{E81}'..='\u{EBD}' | '\u{EC0}'..='\u{ECE}' | '\u{EDC}'..='\u{EDF}'
        | '\u{1000}'..='\u{103F}' | '\u{1050}'..='\u{108F}' | '\u{109A}'..='\u{109D}' | '\u{1780}'..='\u{17D3}'
        | '\u{17D7}' | '\u{17DC}'..='\u{17DD}' | '\u{A9E0}'..='\u{A9EF}' | '\u{A9FA}'..='\u{A9FE}' | '\u{AA60}'..='\u{AA7F}')
}

/// A letter or digit beyond ASCII of a script that sets its words apart.
pub(super) fn is_wide_word(c: char) -> bool {
    c.is_alphanumeric() && !is_cjk(c) && !is_unspaced(c)
}

/// Pictographs that are searched one by one. Skin tones are left out: a thumb is a thumb.
pub(super) fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{231A}'..='\u{231B}' | '\u{23E9}'..='\u{23FA}' | '\u{2600}'..='\u{27BF}' | '\u{2B1B}'..='\u{2B1C}'
        | '\u{2B50}' | '\u{2B55}' | '\u{1F000}'..='\u{1F3FA}' | '\u{1F400}'..='\u{1FAFF}')
}

/// The letters that make a flag in pairs.
pub(super) fn is_flag_letter(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}')
}
