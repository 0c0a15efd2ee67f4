//! The distinct values of a column, sorted.

use crate::error::Result;
use crate::sections::{Numbers, SectionName, Sections};
use std::ops::Range;

/// Values in byte order. Never empty.
#[derive(Debug)]
pub(super) struct Dictionary {
    bytes: Numbers<u8>,
    ends: Numbers<u32>,
}

impl Dictionary {
    /// The dictionary in these sections; None when it is not there.
    pub(super) fn open(sections: &Sections, values: SectionName, ends: SectionName) -> Result<Option<Self>> {
        if !sections.has(values) && !sections.has(ends) {
            return Ok(None);
        }
        let own = Self { bytes: sections.array(values)?, ends: sections.array(ends)? };
        let last = own.ends.last().map(|end| *end as usize);
        if last != Some(own.bytes.len()) || !own.ends.is_sorted() {
            return Err(sections.corrupt(&format!("section {ends} does not fit {values}")));
        }
        Ok(Some(own))
    }

    /// Distinct values.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The value of this rank; empty when there is none.
    pub(super) fn get(&self, rank: usize) -> &[u8] {
        let start = rank.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let end = self.ends.get(rank).copied();
        let value = start.zip(end).and_then(|(start, end)| self.bytes.get(start as usize..end as usize));
        value.unwrap_or_default()
    }

    /// Rank of a value.
    pub(super) fn find(&self, value: &[u8]) -> Option<usize> {
        // Only a value that is not empty has a rank past the last, where there is none.
        let rank = self.first_not(|own| own < value);
        (self.get(rank) == value).then_some(rank)
    }

    /// Ranks of the values that begin with `prefix`.
    pub(super) fn beginning_with(&self, prefix: &[u8]) -> Range<usize> {
        let start = self.first_not(|own| own < prefix);
        let end = self.first_not(|own| own < prefix || own.starts_with(prefix));
        start..end.max(start)
    }

    /// The first rank whose value does not pass, when those that pass come first.
    fn first_not(&self, passes: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if passes(self.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
