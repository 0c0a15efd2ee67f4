//! For each document the ordinal of its value: 0 for none, else 1 + rank, as narrow as the values allow.

use super::bits;
use crate::error::Result;
use crate::ids::DocId;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use fixedbitset::FixedBitSet;
use std::io::{self, Write};
use std::ops::Range;

/// The ordinals of a column.
#[derive(Debug)]
pub(super) enum Ordinals {
    /// Every document has the one value there is; holds how many documents.
    Everywhere(usize),
    One(Numbers<u8>),
    Two(Numbers<u16>),
    Four(Numbers<u32>),
}

impl Ordinals {
    /// The ordinals of `num_docs` documents over `values` distinct values.
    pub(super) fn open(
        sections: &Sections,
        name: SectionName,
        num_docs: usize,
        values: usize,
    ) -> Result<Self> {
        let bytes = sections.has(name).then(|| sections.array::<u8>(name)).transpose()?;
        let width = bytes.as_ref().and_then(|bytes| bytes.len().checked_div(num_docs));
        Ok(match (bytes, width) {
            (None, _) if values == 1 => Self::Everywhere(num_docs),
            (Some(bytes), Some(1)) if bytes.len() == num_docs => Self::One(bytes),
            (Some(bytes), Some(2)) if bytes.len() == num_docs * 2 => Self::Two(sections.array(name)?),
            (Some(bytes), Some(4)) if bytes.len() == num_docs * 4 => Self::Four(sections.array(name)?),
            _ => return Err(sections.corrupt(&format!("section {name} does not fit the documents"))),
        })
    }

    /// Writes ordinals of at most `values`: nothing when all are 1, the one value there is.
    pub(super) fn write<W: Write>(
        writer: &mut SectionWriter<W>,
        name: SectionName,
        ordinals: &[u32],
        values: usize,
    ) -> io::Result<()> {
        if values == 1 && !ordinals.contains(&0) {
            Ok(())
        } else if u8::try_from(values).is_ok() {
            writer.section(name, &ordinals.iter().map(|ordinal| *ordinal as u8).collect::<Vec<_>>())
        } else if u16::try_from(values).is_ok() {
            writer.section(name, &ordinals.iter().map(|ordinal| *ordinal as u16).collect::<Vec<_>>())
        } else {
            writer.section(name, ordinals)
        }
    }

    /// Rank of the document's value; it may be one that damage made up.
    pub(super) fn index(&self, doc: DocId) -> Option<usize> {
        let ordinal = match self {
            Self::Everywhere(num_docs) => usize::from(doc.index() < *num_docs),
            Self::One(ordinals) => usize::from(*ordinals.get(doc.index())?),
            Self::Two(ordinals) => usize::from(*ordinals.get(doc.index())?),
            Self::Four(ordinals) => *ordinals.get(doc.index())? as usize,
        };
        ordinal.checked_sub(1)
    }

    /// Whether every document has the one value there is.
    pub(super) fn is_everywhere(&self) -> bool {
        matches!(self, Self::Everywhere(_))
    }

    /// Adds the documents whose value has one of these ranks.
    pub(super) fn add(&self, set: &mut FixedBitSet, ranks: &Range<usize>) {
        if ranks.is_empty() {
            return;
        }
        // Inclusive: the greatest ordinal of a width has none after it.
        let (first, last) = (ranks.start + 1, ranks.end);
        match self {
            Self::Everywhere(_) => set.insert_range(..),
            Self::One(ordinals) => {
                let Ok(first) = u8::try_from(first) else { return };
                let span = u8::try_from(last).unwrap_or(u8::MAX) - first;
                bits::add_where(set, ordinals, |ordinal| ordinal.wrapping_sub(first) <= span);
            }
            Self::Two(ordinals) => {
                let Ok(first) = u16::try_from(first) else { return };
                let span = u16::try_from(last).unwrap_or(u16::MAX) - first;
                bits::add_where(set, ordinals, |ordinal| ordinal.wrapping_sub(first) <= span);
            }
            Self::Four(ordinals) => {
                let Ok(first) = u32::try_from(first) else { return };
                let span = u32::try_from(last).unwrap_or(u32::MAX) - first;
                bits::add_where(set, ordinals, |ordinal| ordinal.wrapping_sub(first) <= span);
            }
        }
    }
}
