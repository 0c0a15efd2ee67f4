//! Building a graph, step by step.

use super::super::codes::{CodeRows, Pairs};
use super::super::signs::Signs;
use super::append::append;
use super::found::Found;
use super::links::Links;
use super::repair::repair;
use super::scratch::Scratch;
use super::seed;
use super::twins::Twins;
use super::{Graph, MAX_ROWS, MEAN, SIGNS};
use crate::error::{Error, Result};
use crate::sections::SectionWriter;
use std::cell::Cell;
use std::io::{self, Write};

/// Rows that the crate builds the graph of. It takes twice as long for a row of so many as [`append`] does, and nine times
/// for one of 30,000.
const SEED: usize = 2_000;

/// Rows that are looked through for an answer to `stop` at once.
const ASK_EVERY: usize = 16;

/// A graph on its way.
///
/// What [`Builder::write`] wrote at any time can be taken up with [`Builder::from_graph`]: in the end there are the same bytes
/// as without.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    rows: CodeRows<'a>,
    pairs: Pairs<'a>,
    twins: Twins,
    pub(super) links: Links,
    seed: usize,
    scratch: Box<Scratch>,
    chosen: Vec<Found>,
}

impl<'a> Builder<'a> {
    /// A graph of these rows, none of which is in it yet.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when there are too many for one graph.
    pub(crate) fn new(rows: CodeRows<'a>) -> Result<Self> {
        Self::with(rows, Links::with_capacity(rows.len()), SEED)
    }

    fn with(rows: CodeRows<'a>, links: Links, seed: usize) -> Result<Self> {
        if rows.len() > MAX_ROWS {
            let message =
                format!("{} in one segment, a graph has 2^31 at most; keep more segments", rows.len());
            return Err(Error::invalid("vectors", message));
        }
        Ok(Self {
            rows,
            pairs: Pairs::new(rows),
            twins: Twins::find(rows),
            links,
            seed,
            scratch: Box::default(),
            chosen: Vec::new(),
        })
    }

    /// Goes on from a graph of the first of these rows: one that was not finished, or that of a segment whose rows come
    /// first in a larger one. None when it is no such graph or is damaged: then it has to be built from its beginning.
    ///
    /// # Errors
    /// As [`Builder::new`].
    pub(crate) fn from_graph(rows: CodeRows<'a>, graph: &Graph) -> Result<Option<Self>> {
        let layers = graph.layers();
        let mut builder = Self::with(rows, Links::default(), SEED)?;
        let fits = layers.len() <= rows.len() && builder.twins.among(layers.len()) == layers.twins;
        let links = if fits { Links::copy(layers, rows.len(), builder.pairs) } else { None };
        Ok(links.map(|links| {
            builder.links = links;
            builder
        }))
    }

    /// Goes on from `begun` if that is a graph of the first of these rows, else from the beginning.
    ///
    /// # Errors
    /// As [`Builder::new`].
    pub(crate) fn begin(rows: CodeRows<'a>, begun: Option<&Graph>) -> Result<Self> {
        let begun = begun.map(|graph| Self::from_graph(rows, graph)).transpose()?.flatten();
        begun.map_or_else(|| Self::new(rows), Ok)
    }

    /// Adds all rows and links what cannot be reached. False when `stop` said so before the end.
    ///
    /// # Errors
    /// As [`Builder::step`].
    pub(crate) fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<bool> {
        self.run_for(stop, &mut |_, _| true)
    }

    /// The same, as long as `goes_on` says: it is told after every thousand rows how many are done, of how many.
    ///
    /// # Errors
    /// As [`Builder::step`].
    pub(crate) fn run_for(
        &mut self,
        stop: &dyn Fn() -> bool,
        goes_on: &mut dyn FnMut(usize, usize) -> bool,
    ) -> Result<bool> {
        const STEP: usize = if cfg!(test) { 50 } else { 1_000 };
        // Who asks for a signal takes it away: it is told once.
        let stopped = Cell::new(false);
        let stop = || {
            stopped.set(stopped.get() || stop());
            stopped.get()
        };
        loop {
            let all_done = self.step(STEP, &stop)?;
            let (done, all) = self.progress();
            let goes_on = goes_on(done, all);
            if all_done {
                self.finish();
                return Ok(true);
            }
            if stop() || !goes_on {
                return Ok(false);
            }
        }
    }

    /// The same with another number of rows in the seed.
    #[cfg(test)]
    pub(super) fn with_seed(mut self, seed: usize) -> Self {
        self.seed = seed;
        self
    }

    /// Rows that are done, of all.
    pub(crate) fn progress(&self) -> (usize, usize) {
        (self.links.len(), self.rows.len())
    }

    /// Adds up to `most` rows, fewer when `stop` says so; the first step adds the seed as a whole or not at all. True when
    /// all rows are done.
    ///
    /// # Errors
    /// [`Error::Internal`] or [`Error::Store`] when the seed cannot be built. A segment is searched without a graph as well.
    pub(crate) fn step(&mut self, most: usize, stop: &dyn Fn() -> bool) -> Result<bool> {
        let all = self.rows.len();
        if self.links.len() == 0 && all > 0 {
            let members = (0..all as u32).filter(|row| !self.twins.is_later(*row));
            let members: Vec<u32> = members.take(self.seed).collect();
            match seed::build(self.rows, &members, all, stop)? {
                Some(links) => self.links = links,
                None => return Ok(false),
            }
        }
        let end = all.min(self.links.len().saturating_add(most));
        while self.links.len() < end {
            if self.links.len().is_multiple_of(ASK_EVERY) && stop() {
                return Ok(false);
            }
            if self.twins.is_later(self.links.len() as u32) {
                self.links.add(0);
            } else {
                append(&mut self.links, self.rows, self.pairs, &mut self.scratch, &mut self.chosen);
            }
        }
        Ok(self.links.len() == all)
    }

    /// Links what cannot be reached; gives how many rows are out of reach all the same. Rows can be added afterwards, by
    /// [`Builder::from_graph`] too.
    pub(crate) fn finish(&mut self) -> usize {
        repair(&mut self.links, self.rows, &self.twins, &mut self.scratch)
    }

    /// Writes the graph of the rows that are done; nothing when there are none.
    ///
    /// # Errors
    /// Those of the writer.
    pub(crate) fn write<W: Write>(&self, out: &mut SectionWriter<W>) -> io::Result<()> {
        let done = self.links.len();
        if done == 0 {
            return Ok(());
        }
        self.links.layers(&self.twins.among(done)).write(out, self.twins.distinct(done))?;
        if done == self.rows.len()
            && let Some(signs) = Signs::of(self.rows)
        {
            out.section(SIGNS, &signs.rows)?;
            out.section(MEAN, &signs.mean)?;
        }
        Ok(())
    }
}
