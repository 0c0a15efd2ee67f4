//! Sorted names with their ranks, and hash slots beside: an exact look-up takes one probe, a prefix is a range of ranks.
//!
//! | section | what |
//! |---|---|
//! | text | `u8`: all names in the order of their bytes, one after another |
//! | ends | `u32` by name, and 0 before: where each ends |
//! | slot | `u32`: rank + 1 at the place that the lower bits of xxh3-64 of the name give, or the next free one; 0 is free |

use crate::error::Result;
use crate::prefetch::prefetch;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use std::io::{self, Write};
use std::ops::Range;
use twox_hash::XxHash3_64;

/// A dictionary.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    text: Numbers<u8>,
    ends: Numbers<u32>,
    slots: Numbers<u32>,
}

impl Names {
    /// Hash of a name, the same for every dictionary.
    pub(crate) fn hash(name: &[u8]) -> u64 {
        XxHash3_64::oneshot(name)
    }

    /// The dictionary in the sections text, ends and slot. Compares no checksum.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when the sizes do not fit each other.
    pub(crate) fn open(sections: &Sections, [text, ends, slots]: [SectionName; 3]) -> Result<Self> {
        let names =
            Self { text: sections.array(text)?, ends: sections.array(ends)?, slots: sections.array(slots)? };
        let fits = !names.ends.is_empty()
            && names.ends[0] == 0
            && names.ends.last().is_some_and(|end| *end as usize == names.text.len())
            && names.slots.len().is_power_of_two()
            && names.slots.len() >= names.ends.len();
        if fits { Ok(names) } else { Err(sections.corrupt("a dictionary does not fit its sizes")) }
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    /// Bytes of it.
    pub(crate) fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends) + size_of_val(&*self.slots)
    }

    /// The name of a rank; empty for one that is not there.
    pub(crate) fn name(&self, rank: u32) -> &[u8] {
        let ends = &self.ends[..];
        match (ends.get(rank as usize), ends.get(rank as usize + 1)) {
            (Some(&start), Some(&end)) => self.text.get(start as usize..end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Asks for the memory that [`Names::rank`] reads first.
    pub(crate) fn fetch_slot(&self, hash: u64) {
        prefetch(&self.slots, hash as usize & (self.slots.len() - 1));
    }

    /// Asks for the memory that tells where a name lies.
    pub(crate) fn fetch_end(&self, rank: u32) {
        prefetch(&self.ends, rank as usize);
    }

    /// Asks for the memory of a name.
    pub(crate) fn fetch_name(&self, rank: u32) {
        if let Some(start) = self.ends.get(rank as usize) {
            prefetch(&self.text, *start as usize);
        }
    }

    /// The rank of a name. `hash` is [`Names::hash`] of it.
    pub(crate) fn rank(&self, name: &[u8], hash: u64) -> Option<u32> {
        let slots = &self.slots[..];
        let mask = slots.len() - 1;
        let first = hash as usize & mask;
        for slot in (first..slots.len()).chain(0..first) {
            let rank = slots[slot].checked_sub(1)?;
            if self.name(rank) == name {
                return Some(rank);
            }
        }
        None
    }

    /// The ranks of the names that begin with `prefix`.
    pub(crate) fn prefixed(&self, prefix: &[u8]) -> Range<u32> {
        let start = self.partition_point(|name| name < prefix);
        let end = self.partition_point(|name| name < prefix || name.starts_with(prefix));
        start..end.max(start)
    }

    /// The first rank of `ranks` whose name does not begin with `prefix`, as those before it do.
    pub(crate) fn after(&self, prefix: &[u8], ranks: Range<u32>) -> u32 {
        let (mut low, mut step) = (ranks.start, 1);
        while low.saturating_add(step) < ranks.end && self.name(low + step - 1).starts_with(prefix) {
            low += step;
            step *= 2;
        }
        let mut high = low.saturating_add(step).min(ranks.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.name(middle).starts_with(prefix) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn partition_point(&self, before: impl Fn(&[u8]) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.len() as u32);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.name(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Writes names that are sorted and distinct.
    ///
    /// # Errors
    /// Those of the writer; [`io::ErrorKind::InvalidInput`] for more than 4 GiB of names.
    pub(crate) fn write<'n, W: Write>(
        out: &mut SectionWriter<W>,
        [text, ends, slots]: [SectionName; 3],
        names: &(impl Iterator<Item = &'n [u8]> + Clone),
    ) -> io::Result<()> {
        let mut places = vec![0_u32];
        let mut end = 0_u32;
        for name in names.clone() {
            let len = u32::try_from(name.len()).ok();
            end = len.and_then(|len| end.checked_add(len)).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidInput, "more than 4 GiB of distinct terms in a segment")
            })?;
            places.push(end);
        }
        let mut table = vec![0_u32; (places.len() * 2).next_power_of_two()];
        let mask = table.len() - 1;
        for (name, rank) in names.clone().zip(0_u32..) {
            let mut slot = Self::hash(name) as usize & mask;
            while table[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            table[slot] = rank + 1;
        }
        out.pieces(text, |out| names.clone().try_for_each(|name| out.put(name)))?;
        out.section(ends, &places)?;
        out.section(slots, &table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const SECTIONS: [SectionName; 3] = [SectionName::new("a"), SectionName::new("b"), SectionName::new("c")];

    fn dictionary(names: &BTreeSet<Vec<u8>>) -> Names {
        let names = names.iter().map(Vec::as_slice);
        let sections = Sections::in_memory(|out| Names::write(out, SECTIONS, &names)).unwrap();
        Names::open(&sections, SECTIONS).unwrap()
    }

    proptest! {
        #[test]
        fn ranks_names_and_prefixes_are_those_of_a_sorted_set(
            names in prop::collection::btree_set(prop::collection::vec(97..101u8, 0..6), 0..200),
            probe in prop::collection::vec(97..101u8, 0..6),
        ) {
            let dictionary = dictionary(&names);
            prop_assert_eq!(dictionary.len(), names.len());
            for (name, rank) in names.iter().zip(0..) {
                prop_assert_eq!(dictionary.name(rank), &name[..]);
                prop_assert_eq!(dictionary.rank(name, Names::hash(name)), Some(rank));
            }
            prop_assert_eq!(dictionary.rank(&probe, Names::hash(&probe)).is_some(), names.contains(&probe));
            let expected: Vec<&[u8]> = names.iter().map(Vec::as_slice).filter(|n| n.starts_with(&probe)).collect();
            let found: Vec<&[u8]> = dictionary.prefixed(&probe).map(|rank| dictionary.name(rank)).collect();
            prop_assert_eq!(found, expected);
            let all = 0..dictionary.len() as u32;
            let range = dictionary.prefixed(&probe);
            prop_assert_eq!(dictionary.after(&probe, range.start..all.end), range.end);
        }
    }
}
