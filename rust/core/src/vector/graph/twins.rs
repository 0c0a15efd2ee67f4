//! Rows that equal each other.

use super::super::codes::CodeRows;
use super::NONE;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Which rows equal an earlier one. Rows are equal when their codes and scales are, bit for bit.
#[derive(Debug)]
pub(super) struct Twins {
    /// By row, the next that equals it, or [`NONE`].
    next: Vec<u32>,
    /// Rows that equal an earlier one.
    later: FixedBitSet,
}

impl Twins {
    pub(super) fn find(rows: CodeRows<'_>) -> Self {
        let mut twins = Self { next: vec![NONE; rows.len()], later: FixedBitSet::with_capacity(rows.len()) };
        // The last row of each content, by the hash of it, or by the next number that was free.
        let mut last: FxHashMap<u64, u32> = FxHashMap::default();
        last.reserve(rows.len());
        let equal = |a: usize, b: usize| {
            rows.scale(a).to_bits() == rows.scale(b).to_bits() && rows.row(a) == rows.row(b)
        };
        for row in 0..rows.len() {
            let mut hash =
                twox_hash::XxHash3_64::oneshot_with_seed(u64::from(rows.scale(row).to_bits()), rows.row(row));
            loop {
                match last.entry(hash) {
                    Entry::Vacant(place) => {
                        place.insert(row as u32);
                        break;
                    }
                    Entry::Occupied(mut place) if equal(*place.get() as usize, row) => {
                        let before = place.insert(row as u32);
                        twins.next[before as usize] = row as u32;
                        twins.later.insert(row);
                        break;
                    }
                    Entry::Occupied(_) => hash = hash.wrapping_add(1),
                }
            }
        }
        twins
    }

    /// Whether the row equals an earlier one.
    pub(super) fn is_later(&self, row: u32) -> bool {
        self.later.contains(row as usize)
    }

    /// How many of the first `count` rows equal none before.
    pub(super) fn distinct(&self, count: usize) -> usize {
        count - self.later.count_ones(..count.min(self.later.len()))
    }

    /// By row, the next that equals it, among the first `count`; empty when none of them has one.
    pub(super) fn among(&self, count: usize) -> Vec<u32> {
        if self.distinct(count) == count {
            return Vec::new();
        }
        let within = |next: &u32| if (*next as usize) < count { *next } else { NONE };
        self.next.iter().take(count).map(within).collect()
    }
}
