//! Short words of ASCII letters as two numbers: found, folded, compared and hashed without a look at single bytes.

/// A word of at most sixteen small ASCII letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ShortWord {
    /// Its first eight bytes, little-endian, and the rest; zeros behind it.
    low: u64,
    high: u64,
}

/// Letters at a place of a text, the first of them in any case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letters {
    /// How many there are: of more than sixteen, sixteen.
    pub(super) len: usize,
    pub(super) word: ShortWord,
}

const EACH: u64 = 0x0101_0101_0101_0101;
/// The bit that tells small letters from capitals.
const SMALL: u8 = 0x20;

impl ShortWord {
    /// The longest.
    pub(super) const MAX_LEN: usize = 16;

    /// Its letters.
    pub(crate) fn with_str<R>(self, with: impl FnOnce(&str) -> R) -> R {
        let mut bytes = [0; Self::MAX_LEN];
        bytes[..8].copy_from_slice(&self.low.to_le_bytes());
        bytes[8..].copy_from_slice(&self.high.to_le_bytes());
        let len = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        // Letters of ASCII: see `letters`.
        with(std::str::from_utf8(&bytes[..len]).unwrap_or_default())
    }

    /// Its hash, all bits of it good.
    #[inline]
    pub(crate) fn hash(self) -> u32 {
        let low = u128::from(self.low ^ 0x2D35_8DCC_AA6C_78A5);
        let product = low * u128::from(self.high ^ 0x8BB8_4B93_962E_ACC9);
        let folded = product as u64 ^ (product >> 64) as u64;
        (folded ^ (folded >> 32)) as u32
    }
}

/// The word of ASCII letters at `start`: one that may be a capital, then small ones; the word is folded.
#[inline]
pub(super) fn letters(bytes: &[u8], start: usize) -> Letters {
    let fold = bytes.get(start).map_or(0, |b| if b.is_ascii_uppercase() { SMALL } else { 0 });
    let low = eight(bytes, start) ^ u64::from(fold);
    let stop = others(low);
    if stop != 0 {
        let len = stop.trailing_zeros() as usize / 8;
        return Letters { len, word: ShortWord { low: low & first(len), high: 0 } };
    }
    let high = eight(bytes, start + 8);
    let stop = others(high);
    if stop == 0 {
        return Letters { len: ShortWord::MAX_LEN, word: ShortWord { low, high } };
    }
    let len = stop.trailing_zeros() as usize / 8;
    Letters { len: 8 + len, word: ShortWord { low, high: high & first(len) } }
}

/// Eight bytes, zeros behind the end.
#[inline]
fn eight(bytes: &[u8], start: usize) -> u64 {
    let rest = bytes.get(start..).unwrap_or_default();
    if let Some(all) = rest.first_chunk() {
        return u64::from_le_bytes(*all);
    }
    rest.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The highest bit of each byte that is no small letter.
#[inline]
fn others(bytes: u64) -> u64 {
    // Seven bits each, so that no sum goes over into the next byte.
    let low = bytes & (0x7F * EACH);
    let from_a = low + (0x80 - u64::from(b'a')) * EACH;
    let past_z = low + (0x7F - u64::from(b'z')) * EACH;
    !(from_a & !past_z & !bytes) & (0x80 * EACH)
}

/// The bits of the first `len` bytes, of fewer than eight.
#[inline]
fn first(len: usize) -> u64 {
    (1 << (8 * len)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn letters_are_those_that_a_look_at_each_byte_finds(text in "[a-zA-Z`{@\\[é\u{0} .']{0,6}[a-z]{0,18}[a-zé{`.A]{0,3}", start in 0..8usize) {
            let bytes = text.as_bytes();
            let rest = bytes.get(start..).unwrap_or_default();
            let first = rest.first().is_some_and(u8::is_ascii_alphabetic);
            let more = rest.iter().skip(1).take_while(|b| b.is_ascii_lowercase()).count();
            let len = if first { (1 + more).min(ShortWord::MAX_LEN) } else { 0 };
            let found = letters(bytes, start);
            prop_assert_eq!(found.len, len);
            let expected = String::from_utf8(rest[..len].to_ascii_lowercase()).unwrap();
            found.word.with_str(|word| assert_eq!(word, expected));
        }
    }

    #[test]
    fn hashes_of_words_spread() {
        let mut seen = std::collections::BTreeSet::new();
        for a in b'a'..=b'z' {
            for b in b'a'..=b'z' {
                for len in [2, 3, 9, 16] {
                    let mut word = vec![a; len];
                    word[len - 1] = b;
                    word[len / 2] = b;
                    seen.insert(letters(&word, 0).word.hash() & 0xFFFF);
                }
            }
        }
        // 2,704 of 65,536 places: some 55 of them meet another by chance.
        assert!(seen.len() > 2_550, "{}", seen.len());
    }
}
