//! Building a graph beside the rows it is of, which may be searched and changed meanwhile.

use super::graph::{Builder, Graph};
use super::rows::CopiedCodes;
use crate::error::Result;
use crate::sections::Sections;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An order of rows that no other set has. The first of them, over which a graph is being built, are not to be moved.
#[derive(Debug, Default)]
pub(super) struct Order(Arc<AtomicUsize>);

impl PartialEq for Order {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Order {
    /// The same, for somebody who builds over so many rows.
    pub(super) fn held(&self, rows: usize) -> Self {
        // More than anybody else had who still builds: rows that are held are not freed.
        self.0.store(rows, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }

    /// Over how many rows somebody builds.
    pub(super) fn rows_held(&self) -> usize {
        if Arc::strong_count(&self.0) > 1 { self.0.load(Ordering::Relaxed) } else { 0 }
    }
}

/// What the graph of rows in memory is built from: a copy of them.
#[derive(Debug)]
pub struct GraphJob {
    order: Order,
    /// Their width and their codes; None when there is nothing to build.
    rows: Option<(usize, CopiedCodes)>,
    /// Of the first of them.
    graph: Option<Graph>,
}

/// A graph that is to be put in its place.
#[derive(Debug)]
pub struct BuiltGraph {
    pub(super) order: Order,
    pub(super) graph: Option<Graph>,
    /// Whether it is one of all rows that were copied.
    pub(crate) is_done: bool,
}

impl GraphJob {
    pub(super) fn new(order: Order, rows: Option<(usize, CopiedCodes)>, graph: Option<Graph>) -> Self {
        Self { order, rows, graph }
    }

    /// Builds the graph; `stop` is asked while it does, and what is done by then is given.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when it cannot be built: vectors are compared one by one then.
    pub fn run(self, stop: &dyn Fn() -> bool) -> Result<BuiltGraph> {
        let Self { order, rows, mut graph } = self;
        let mut is_done = true;
        if let Some(codes) = rows.as_ref().and_then(|(width, codes)| codes.view(*width)) {
            let mut builder = Builder::begin(codes, graph.as_ref())?;
            is_done = builder.run(stop)?;
            graph = Graph::open(&Sections::in_memory(|out| builder.write(out))?)?;
        }
        Ok(BuiltGraph { order, graph, is_done })
    }
}
