//! Bitmaps of documents, built and read by words of 64.

use crate::ids::DocId;
use fixedbitset::FixedBitSet;
use std::ops::Range;

/// Documents in a word.
pub(super) const WORD: usize = u64::BITS as usize;
/// Blocks of the bitmap in a word.
const BLOCKS: usize = WORD / usize::BITS as usize;

/// Adds to `set` the bits that `word` gives for each 64 documents; bits past the last document are left out.
pub(super) fn add(set: &mut FixedBitSet, mut word: impl FnMut(usize) -> u64) {
    let len = set.len();
    for (at, blocks) in set.as_mut_slice().chunks_mut(BLOCKS).enumerate() {
        let inside = len - at * WORD;
        let mut bits = word(at) & if inside < WORD { (1 << inside) - 1 } else { u64::MAX };
        for block in blocks {
            *block |= bits as usize;
            bits = bits.checked_shr(usize::BITS).unwrap_or(0);
        }
    }
}

/// Adds the documents whose number passes.
pub(super) fn add_where<T: Copy>(set: &mut FixedBitSet, numbers: &[T], passes: impl Fn(T) -> bool) {
    let (whole, rest) = numbers.as_chunks::<WORD>();
    add(set, |at| match whole.get(at) {
        Some(numbers) => word_of(numbers, &passes),
        None => rest.iter().zip(0..).fold(0, |bits, (number, n)| bits | (u64::from(passes(*number)) << n)),
    });
}

/// A bit for each number that passes. Bytes of 0 and 1 first, which compilers turn into wide compares, then eight of
/// them at a time into bits.
pub(super) fn word_of<T: Copy>(numbers: &[T; WORD], passes: &impl Fn(T) -> bool) -> u64 {
    /// Times eight bytes of 0 or 1: the topmost byte is one bit of each, lowest byte first.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut bytes = [0; WORD];
    for (byte, number) in bytes.iter_mut().zip(numbers) {
        *byte = u8::from(passes(*number));
    }
    let (eights, _) = bytes.as_chunks::<8>();
    let packed = eights.iter().map(|eight| u64::from_le_bytes(*eight).wrapping_mul(GATHER) >> 56);
    packed.zip(0..).fold(0, |bits, (byte, n)| bits | (byte << (8 * n)))
}

/// The word for the documents from `at * 64`; 0 past the end.
pub(super) fn word(set: &FixedBitSet, at: usize) -> u64 {
    let blocks = set.as_slice().get(at * BLOCKS..).unwrap_or_default();
    let blocks = blocks.iter().take(BLOCKS).zip(0..);
    blocks.fold(0, |bits, (block, n)| bits | ((*block as u64) << (n * usize::BITS)))
}

/// The documents of `set` in a range, in order, without a look at those before.
pub(super) fn ones(set: &FixedBitSet, range: Range<usize>) -> Ones<'_> {
    Ones { set, range: range.start..range.end.min(set.len()) }
}

pub(super) struct Ones<'a> {
    set: &'a FixedBitSet,
    /// What is still to be looked at.
    range: Range<usize>,
}

impl Iterator for Ones<'_> {
    type Item = DocId;

    fn next(&mut self) -> Option<DocId> {
        while self.range.start < self.range.end {
            let (at, skip) = (self.range.start / WORD, self.range.start % WORD);
            let bits = word(self.set, at) & (u64::MAX << skip);
            let doc = at * WORD + bits.trailing_zeros() as usize;
            // Without a bit that is the beginning of the next word.
            self.range.start = doc + usize::from(bits != 0);
            if bits != 0 {
                return (doc < self.range.end).then_some(DocId(doc as u32));
            }
        }
        None
    }
}

impl DoubleEndedIterator for Ones<'_> {
    fn next_back(&mut self) -> Option<DocId> {
        while self.range.start < self.range.end {
            let last = self.range.end - 1;
            let at = last / WORD;
            let bits = word(self.set, at) & (u64::MAX >> (WORD - 1 - last % WORD));
            // Without a bit that is the end of the word before.
            let doc = at * WORD + WORD - bits.leading_zeros() as usize;
            self.range.end = if bits == 0 { at * WORD } else { doc - 1 };
            if bits != 0 {
                return (doc > self.range.start).then(|| DocId(doc as u32 - 1));
            }
        }
        None
    }
}
