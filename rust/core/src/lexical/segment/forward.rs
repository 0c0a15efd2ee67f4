//! The forward list of a document: its terms, ascending, with their frequencies.
//!
//! A term is the number `4 * gap + code`, where the gap counts the terms left out since the one before and the code
//! stands for the frequency: 0 for 4 quarters (a word), 1 for 2 (a surface form), 2 for 8 (a word that comes twice); 3
//! for any other, which follows as a number of its own. A number is written seven bits a byte, lower ones first, the
//! upper bit telling that more follow. Text of 80 words takes about 2.2 bytes a term.

/// Frequencies that need no number of their own.
const CODED: [u32; 3] = [4, 2, 8];
/// The code of a frequency below its length; that of the last for every other.
const CODES: [u8; 10] = [3, 3, 1, 3, 0, 3, 3, 3, 2, 3];
/// Bytes of the longest number.
const LONGEST: usize = 5;

/// Appends a list term by term, ascending.
pub(super) struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// The least term that may follow.
    next: u32,
}

impl<'o> Encoder<'o> {
    /// For about `terms` terms.
    pub(super) fn new(out: &'o mut Vec<u8>, terms: usize) -> Self {
        out.reserve(3 * terms);
        Self { out, next: 0 }
    }

    #[inline]
    pub(super) fn put(&mut self, term: u32, tf: u32) {
        let code = CODES[(tf as usize).min(CODES.len() - 1)];
        put((u64::from(term - self.next) << 2) | u64::from(code), self.out);
        if usize::from(code) == CODED.len() {
            put(u64::from(tf), self.out);
        }
        self.next = term + 1;
    }
}

/// Calls `each` with every term and frequency of a list, as far as it can be read.
#[inline]
pub(super) fn decode(mut list: &[u8], mut each: impl FnMut(u32, u32)) {
    let mut next = 0_u32;
    while let Some(number) = take(&mut list) {
        let tf = match CODED.get(number as usize & 3) {
            Some(tf) => *tf,
            None => match take(&mut list) {
                Some(tf) => tf as u32,
                None => return,
            },
        };
        let Some(term) = next.checked_add((number >> 2) as u32).filter(|term| *term < u32::MAX) else {
            return;
        };
        each(term, tf);
        next = term + 1;
    }
}

/// Appends a number of at most 35 bits.
#[inline]
fn put(number: u64, out: &mut Vec<u8>) {
    // Without a branch on its size, which is hard to foresee: seven bits into each byte, then as many as count.
    let len = (63 - (number | 1).leading_zeros() as usize) / 7 + 1;
    let spread = (0..LONGEST).fold(0, |spread, at| spread | (number & (0x7F << (7 * at))) << at);
    let more = 0x80_8080_8080 & ((1 << (8 * (len - 1))) - 1);
    let bytes = (spread | more).to_le_bytes();
    out.extend_from_slice(&bytes);
    out.truncate(out.len() - (bytes.len() - len));
}

/// The next number, None at the end or for one that is longer than any that is written.
#[inline]
fn take(list: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = list.split_first()?;
        *list = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(terms in prop::collection::btree_map(prop_oneof![0..300u32, 0..u32::MAX - 1], prop_oneof![1..10u32, 1..u32::MAX], 0..40)) {
            let mut list = Vec::new();
            let mut encoder = Encoder::new(&mut list, terms.len());
            for (term, tf) in &terms {
                encoder.put(*term, *tf);
            }
            let mut read = Vec::new();
            decode(&list, |term, tf| read.push((term, tf)));
            prop_assert_eq!(read, terms.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_end(list in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut count = 0;
            decode(&list, |_, _| count += 1);
            prop_assert!(count <= list.len());
        }
    }
}
