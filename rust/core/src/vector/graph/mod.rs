//! A graph over rows of codes, to find near rows without comparing all: HNSW (Malkov, Yashunin 2016).
//!
//! | section | what |
//! |---|---|
//! | `vgr.head` | `u64`: rows, those of them in the graph, entry point, highest layer |
//! | `vgr.base` | `u32`: layer 0: by row, 32 places for neighbours; unused ones, behind the others, hold 2^32 - 1 |
//! | `vgr.offs` | `u32`: by row and one more, lists of higher layers before its own: it has as many as its level |
//! | `vgr.high` | `u32`: those lists, 16 places each, a row's from layer 1 up |
//! | `vgr.sign` | `u64`: by row, its signs and three numbers, see [`super::signs`]; absent in a graph that is half done, and of |
//! |            | narrow rows |
//! | `vgr.mean` | `f32`: what the signs are counted from, by component |
//! | `vgr.twin` | `u32`: by row, the next row that equals it, or 2^32 - 1; absent when no row has one |
//!
//! The crate `hnsw_rs` builds a graph of the first rows, [`seed`]; the same algorithm over flat lists adds the others,
//! [`append`], which is many times faster, see ARCHITECTURE.md. Of rows that are equal the first is in the graph, and the
//! others hang on it: a graph over equal rows falls apart, as each is nearest to all the others. What no path leads to in the
//! end is linked once more, [`repair`]. A graph that is half done has the same form: it is one of the first rows.
//!
//! All is decided by whole numbers and by floats that are computed in one way: the same rows give the same bytes with every
//! kernel, in one go or after any number of interruptions.

mod append;
mod build;
mod found;
mod layers;
mod links;
mod repair;
mod scratch;
mod seed;
mod twins;
mod walk;

pub(crate) use build::Builder;
pub(crate) use walk::EF_SEARCH;
#[cfg(test)]
use walk::Walked;

use super::signs::{SignRows, turned};
use crate::error::Result;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use layers::Layers;
use std::io::{self, Write};

const HEAD: SectionName = SectionName::new("vgr.head");
const BASE: SectionName = SectionName::new("vgr.base");
const OFFSETS: SectionName = SectionName::new("vgr.offs");
const HIGH: SectionName = SectionName::new("vgr.high");
const SIGNS: SectionName = SectionName::new("vgr.sign");
const MEAN: SectionName = SectionName::new("vgr.mean");
const TWINS: SectionName = SectionName::new("vgr.twin");

/// Neighbours of a row on the higher layers, at most.
const M: usize = 16;

/// Neighbours of a row on layer 0, at most.
const M0: usize = 2 * M;

/// Rows that are looked at for neighbours of a new one.
const EF_CONSTRUCTION: usize = 200;

/// The highest layer there can be.
const MAX_LEVEL: usize = 15;

/// Most rows of a graph: a row's number and a bit fit 32.
const MAX_ROWS: usize = 1 << 31;

/// An unused place in a list, and no twin.
const NONE: u32 = u32::MAX;

/// The graph of a segment's rows, or of the first of them.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    /// Rows in the graph: all but those that equal an earlier one.
    nodes: usize,
    entry: u32,
    top: usize,
    base: Numbers<u32>,
    offsets: Numbers<u32>,
    high: Numbers<u32>,
    twins: Option<Numbers<u32>>,
    signs: Option<Signs>,
}

/// Signs of all rows.
#[derive(Debug, Clone)]
struct Signs {
    rows: Numbers<u64>,
    /// What they are counted from, as it is written, and for questions.
    mean: Numbers<f32>,
    turned: Vec<f32>,
}

impl Signs {
    fn open(sections: &Sections) -> Result<Self> {
        let mean: Numbers<f32> = sections.array(MEAN)?;
        Ok(Self { rows: sections.array(SIGNS)?, turned: turned(mean.to_vec()), mean })
    }
}

impl Graph {
    /// The graph in a file; None when it has none.
    ///
    /// Sizes are compared. The numbers of rows are when they are used: in a damaged file a walk goes astray, no further.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when the sizes do not fit each other.
    pub(crate) fn open(sections: &Sections) -> Result<Option<Self>> {
        if !sections.has(HEAD) {
            return Ok(None);
        }
        let head = sections.array::<u64>(HEAD)?;
        let &[rows, nodes, entry, top] = &head[..] else {
            return Err(sections.corrupt("the head of its graph"));
        };
        let [rows, nodes, entry, top] =
            [rows, nodes, entry, top].map(|x| usize::try_from(x).unwrap_or(usize::MAX));
        let graph = Self {
            nodes,
            entry: entry as u32,
            top,
            base: sections.array(BASE)?,
            offsets: sections.array(OFFSETS)?,
            high: sections.array(HIGH)?,
            twins: if sections.has(TWINS) { Some(sections.array(TWINS)?) } else { None },
            signs: if sections.has(SIGNS) { Some(Signs::open(sections)?) } else { None },
        };
        let lists = graph.offsets.last().map_or(0, |lists| *lists as usize);
        let fits = rows <= MAX_ROWS
            && nodes <= rows
            && (entry < rows || rows == 0)
            && top <= MAX_LEVEL
            && graph.base.len() == rows * M0
            && graph.offsets.len() == rows + 1
            && lists.checked_mul(M) == Some(graph.high.len())
            && graph.twins.as_ref().is_none_or(|twins| twins.len() == rows)
            && graph.signs.is_some() == graph.signs().is_some();
        if !fits {
            return Err(sections.corrupt("its graph does not fit its head"));
        }
        Ok(Some(graph))
    }

    /// Compares the checksums of the graph, if there is one.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when one differs.
    pub(crate) fn check(sections: &Sections) -> Result<()> {
        let all =
            [HEAD, BASE, OFFSETS, HIGH, TWINS, SIGNS, MEAN].into_iter().filter(|name| sections.has(*name));
        all.into_iter().try_for_each(|name| sections.check(name))
    }

    /// How many rows it is a graph of: the first so many of a segment's.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Writes it once more.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write<W: Write>(&self, out: &mut SectionWriter<W>) -> io::Result<()> {
        self.layers().write(out, self.nodes)?;
        if let Some(signs) = &self.signs {
            out.section(SIGNS, &signs.rows)?;
            out.section(MEAN, &signs.mean)?;
        }
        Ok(())
    }

    /// The signs of all rows.
    pub(super) fn signs(&self) -> Option<SignRows<'_>> {
        self.signs.as_ref().and_then(|signs| SignRows::new(&signs.rows, &signs.turned, self.len()))
    }

    fn layers(&self) -> Layers<'_> {
        Layers {
            entry: self.entry,
            top: self.top,
            base: self.base.as_chunks().0,
            offsets: &self.offsets,
            high: self.high.as_chunks().0,
            twins: self.twins.as_deref().unwrap_or(&[]),
        }
    }
}

impl Layers<'_> {
    /// Writes the sections of a graph.
    fn write<W: Write>(self, out: &mut SectionWriter<W>, nodes: usize) -> io::Result<()> {
        out.section(HEAD, &[self.len() as u64, nodes as u64, u64::from(self.entry), self.top as u64])?;
        out.section(BASE, self.base.as_flattened())?;
        out.section(OFFSETS, self.offsets)?;
        out.section(HIGH, self.high.as_flattened())?;
        if self.twins.is_empty() { Ok(()) } else { out.section(TWINS, self.twins) }
    }
}

#[cfg(test)]
mod tests;
