//! Distinct terms and their numbers: the dictionary of an index and of one document.

use crate::ids::TermId;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Open addressing over packed terms: no allocation for a term, a probe that misses reads one word, and a short term is
/// compared without following a pointer. Terms are the bytes of their UTF-8.
#[derive(Debug, Clone, Default)]
pub(crate) struct TermTable {
    entries: Vec<Entry>,
    hashes: Vec<u32>,
    /// Hash in the upper half, number + 1 in the lower; 0 is empty. The length is 0 or a power of two.
    slots: Vec<u64>,
    /// Long terms, one after another.
    arena: Vec<u8>,
    /// Kept between calls of [`Self::intern_all`].
    first_slots: Vec<u64>,
}

/// A term of up to 12 bytes as it is, padded with zeros; a longer one by its first 4 bytes and its start in the arena.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    len: u32,
    bytes: [u8; INLINE],
}

const INLINE: usize = 12;

impl Entry {
    /// The entry of an inline term, or the beginning of a long one's.
    fn of(term: &[u8]) -> Self {
        let (low, high) = words_of(term);
        let mut bytes = [0; INLINE];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Self { len: term.len() as u32, bytes }
    }

    fn arena_start(&self) -> usize {
        let [_, _, _, _, start @ ..] = self.bytes;
        u64::from_le_bytes(start) as usize
    }
}

/// The first 12 bytes of a term, padded with zeros, little-endian; only the first 4 of a longer one. Made in registers of
/// overlapping reads: copying an unknown number of bytes and reading them back took a third of an insertion.
fn words_of(term: &[u8]) -> (u64, u32) {
    let len = term.len();
    let first4 = term.first_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
    let last4 = term.last_chunk().map_or(0, |&bytes| u32::from_le_bytes(bytes));
    match (len, term) {
        (13.., _) => (u64::from(first4), 0),
        (8.., _) => {
            let low = term.first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes));
            (low, (u64::from(last4) >> (8 * (INLINE - len))) as u32)
        }
        (4.., _) => (u64::from(first4) | (u64::from(last4) << (8 * (len - 4))), 0),
        (_, &[a, b, c]) => (u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]), 0),
        (_, &[a, b]) => (u64::from_le_bytes([a, b, 0, 0, 0, 0, 0, 0]), 0),
        (_, &[a]) => (u64::from(a), 0),
        _ => (0, 0),
    }
}

/// Hash of a term, the same for every table, so that it is computed once per term of a document.
pub(crate) fn hash(term: &[u8]) -> u32 {
    let mut hasher = FxHasher::default();
    hasher.write(term);
    let wide = hasher.finish();
    (wide ^ (wide >> 32)) as u32
}

impl TermTable {
    /// An empty table with room for `terms` terms.
    pub(crate) fn with_capacity(terms: usize) -> Self {
        Self {
            entries: Vec::with_capacity(terms),
            hashes: Vec::with_capacity(terms),
            slots: vec![0; (terms * 2).next_power_of_two().max(16)],
            arena: Vec::new(),
            first_slots: Vec::new(),
        }
    }

    /// How many distinct terms there are; their numbers are below it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of a term that was interned before.
    pub(crate) fn get(&self, term: &str) -> Option<TermId> {
        let term = term.as_bytes();
        self.find(&Entry::of(term), term, hash(term)).ok()
    }

    /// Number of `term`, a new one if it was not there. `hash` is [`hash`] of it.
    pub(crate) fn intern(&mut self, term: &[u8], hash: u32) -> TermId {
        if (self.entries.len() + 1) * 2 > self.slots.len() {
            self.grow(self.entries.len() + 1);
        }
        match self.find(&Entry::of(term), term, hash) {
            Ok(id) => id,
            Err(slot) => {
                let id = TermId(self.entries.len() as u32);
                let entry = self.stored(term);
                self.entries.push(entry);
                self.hashes.push(hash);
                self.slots[slot] = pack(hash, id);
                id
            }
        }
    }

    /// Appends a term without looking whether it is there: a list of terms for [`Self::intern_all`] of another table, and
    /// no dictionary.
    pub(crate) fn list(&mut self, term: &[u8], hash: u32) {
        let entry = self.stored(term);
        self.entries.push(entry);
        self.hashes.push(hash);
    }

    /// An empty table that keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.hashes.clear();
        self.slots.fill(0);
        self.arena.clear();
    }

    /// The entry of a term, whose bytes are put into the arena if they are many.
    fn stored(&mut self, term: &[u8]) -> Entry {
        let mut entry = Entry::of(term);
        if term.len() > INLINE {
            entry.bytes[4..].copy_from_slice(&(self.arena.len() as u64).to_le_bytes());
            self.arena.extend_from_slice(term);
        }
        entry
    }

    /// Appends the numbers of all terms of another table, in its order, to `ids`.
    ///
    /// All slots are read before the first is looked at: the reads do not wait for each other, which halves the time
    /// when the table is larger than the cache.
    pub(crate) fn intern_all(&mut self, other: &Self, ids: &mut Vec<TermId>) {
        let most = self.entries.len() + other.entries.len();
        if most * 2 > self.slots.len() {
            self.grow(most);
        }
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        let mut first = std::mem::take(&mut self.first_slots);
        first.clear();
        first.extend(other.hashes.iter().map(|&hash| self.slots[hash as usize & mask]));
        for ((&found, &hash), entry) in first.iter().zip(&other.hashes).zip(&other.entries) {
            if (found >> 32) as u32 == hash && found != 0 && entry.len as usize <= INLINE {
                let id = TermId(found as u32 - 1);
                if self.entries[id.index()] == *entry {
                    ids.push(id);
                    continue;
                }
            }
            ids.push(self.intern(other.bytes_of(entry), hash));
        }
        self.first_slots = first;
    }

    /// Every term with its number and hash, in the order of the numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TermId, &[u8], u32)> {
        self.entries
            .iter()
            .zip(&self.hashes)
            .enumerate()
            .map(|(number, (entry, &hash))| (TermId(number as u32), self.bytes_of(entry), hash))
    }

    /// A term by its number.
    pub(crate) fn name(&self, id: TermId) -> &[u8] {
        self.entries.get(id.index()).map_or(&[], |entry| self.bytes_of(entry))
    }

    fn bytes_of<'t>(&'t self, entry: &'t Entry) -> &'t [u8] {
        let len = entry.len as usize;
        if len <= INLINE { &entry.bytes[..len] } else { &self.arena[entry.arena_start()..][..len] }
    }

    /// The number of a term, or the slot where it would go. `entry` is [`Entry::of`] it.
    fn find(&self, entry: &Entry, term: &[u8], hash: u32) -> Result<TermId, usize> {
        let Some(mask) = self.slots.len().checked_sub(1) else { return Err(0) };
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == 0 {
                return Err(slot);
            }
            if (found >> 32) as u32 == hash {
                let id = TermId(found as u32 - 1);
                let here = &self.entries[id.index()];
                let same = if term.len() <= INLINE {
                    here == entry
                } else {
                    here.len == entry.len
                        && here.bytes[..4] == entry.bytes[..4]
                        && self.bytes_of(here) == term
                };
                if same {
                    return Ok(id);
                }
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Makes room for `terms` terms in all.
    fn grow(&mut self, terms: usize) {
        let size = (terms * 2).next_power_of_two().max(self.slots.len() * 2).max(16);
        self.slots.clear();
        self.slots.resize(size, 0);
        for (number, &hash) in self.hashes.iter().enumerate() {
            let mut slot = hash as usize & (size - 1);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            self.slots[slot] = pack(hash, TermId(number as u32));
        }
    }
}

fn pack(hash: u32, id: TermId) -> u64 {
    (u64::from(hash) << 32) | (u64::from(id.0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_stay_through_growth_and_collisions() {
        let mut table = TermTable::default();
        assert_eq!(table.get("x"), None);
        for round in 0..2 {
            for n in 0..1000_u32 {
                // Lengths around the inline limit, equal beginnings, and all in one hash value: the bytes decide.
                let term = format!("{}{n}", "t".repeat(n as usize % 20));
                assert_eq!(table.intern(term.as_bytes(), 7), TermId(n), "round {round}");
            }
        }
        assert_eq!(table.len(), 1000);
        assert!(table.iter().all(|(id, term, hash)| {
            term == format!("{}{}", "t".repeat(id.index() % 20), id.0).as_bytes() && hash == 7
        }));
    }

    #[test]
    fn a_packed_term_is_its_bytes() {
        let alphabet: Vec<u8> = (1..=40).collect();
        for len in 0..=INLINE {
            let entry = Entry::of(&alphabet[..len]);
            assert_eq!(entry.bytes[..len], alphabet[..len]);
            assert!(entry.bytes[len..].iter().all(|&b| b == 0), "{len}");
        }
        assert_eq!(Entry::of(&alphabet).bytes, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn interning_all_is_interning_each() {
        let table = |range: std::ops::Range<u32>| {
            let mut table = TermTable::default();
            for n in range {
                let term = format!("{n}-{}", "x".repeat(n as usize % 25));
                table.intern(term.as_bytes(), hash(term.as_bytes()));
            }
            table
        };
        let (mut one, mut each) = (table(0..200), table(0..200));
        for other in [table(100..900), table(0..1), TermTable::default(), table(0..1200)] {
            let mut ids = Vec::new();
            one.intern_all(&other, &mut ids);
            let expected: Vec<TermId> = other.iter().map(|(_, term, hash)| each.intern(term, hash)).collect();
            assert_eq!(ids, expected);
        }
        assert_eq!(one.get("7-xxxxxxx"), Some(TermId(7)));
        assert_eq!(one.get(&format!("24-{}", "x".repeat(24))), Some(TermId(24)));
        assert_eq!(one.get(&format!("24-{}", "x".repeat(23))), None);
    }
}
