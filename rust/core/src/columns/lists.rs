//! Several values for each document: for each value the documents that have it.

use super::bits::{self, WORD};
use super::dictionary::Dictionary;
use crate::error::Result;
use crate::sections::{Numbers, SectionName, Sections};
use fixedbitset::FixedBitSet;

/// Where the parts of such a column lie.
#[derive(Debug)]
pub(super) struct ListSections {
    pub(super) values: SectionName,
    pub(super) ends: SectionName,
    pub(super) stops: SectionName,
    pub(super) lists: SectionName,
}

macro_rules! sections {
    ($code:literal) => {
        ListSections {
            values: SectionName::new(concat!("c.", $code, ".v")),
            ends: SectionName::new(concat!("c.", $code, ".e")),
            stops: SectionName::new(concat!("c.", $code, ".s")),
            lists: SectionName::new(concat!("c.", $code, ".l")),
        }
    };
}

pub(super) const TAGS: ListSections = sections!("tags");
pub(super) const METADATA: ListSections = sections!("meta");

/// Values and their documents.
#[derive(Debug)]
pub(super) struct Lists {
    values: Dictionary,
    stops: Numbers<u32>,
    items: Numbers<u32>,
    num_docs: usize,
}

/// Words of 32 documents: a list of as many documents or more is written as bits.
pub(super) fn bit_words(num_docs: usize) -> usize {
    num_docs.div_ceil(32)
}

impl Lists {
    /// The column in these sections; None when it is not there.
    pub(super) fn open(sections: &Sections, names: &ListSections, num_docs: usize) -> Result<Option<Self>> {
        let Some(values) = Dictionary::open(sections, names.values, names.ends)? else { return Ok(None) };
        let stops = sections.array::<u32>(names.stops)?;
        let items = sections.array::<u32>(names.lists)?;
        let last = stops.last().map(|stop| *stop as usize);
        if stops.len() != values.len() || last != Some(items.len()) || !stops.is_sorted() {
            return Err(sections.corrupt(&format!("section {} does not fit {}", names.stops, names.lists)));
        }
        Ok(Some(Self { values, stops, items, num_docs }))
    }

    pub(super) fn values(&self) -> &Dictionary {
        &self.values
    }

    /// Adds the documents that have the value of this rank.
    pub(super) fn add(&self, set: &mut FixedBitSet, rank: usize) {
        let list = self.list(rank);
        if list.len() == bit_words(self.num_docs) {
            let half = |at: usize| u64::from(list.get(at).copied().unwrap_or(0));
            bits::add(set, |at| half(2 * at) | (half(2 * at + 1) << (WORD / 2)));
            return;
        }
        for doc in list.iter().map(|doc| *doc as usize).filter(|doc| *doc < self.num_docs) {
            set.insert(doc);
        }
    }

    /// Calls with each document that has the value of this rank, in order; it may be one that damage made up.
    pub(super) fn each<E>(&self, rank: usize, mut call: impl FnMut(usize) -> Result<(), E>) -> Result<(), E> {
        let list = self.list(rank);
        if list.len() < bit_words(self.num_docs) {
            return list.iter().try_for_each(|doc| call(*doc as usize));
        }
        for (at, word) in list.iter().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                call(at * 32 + bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
            }
        }
        Ok(())
    }

    fn list(&self, rank: usize) -> &[u32] {
        let start = rank.checked_sub(1).map_or(Some(0), |before| self.stops.get(before).copied());
        let stop = self.stops.get(rank).copied();
        let list = start.zip(stop).and_then(|(start, stop)| self.items.get(start as usize..stop as usize));
        list.unwrap_or_default()
    }
}
