//! Vectors: checked unit rows, their similarity, and the search for near ones: over all of them, or by a graph.

mod building;
#[cfg(test)]
mod clustered;
mod codes;
mod graph;
mod half;
mod kernel;
mod mixed;
mod reach;
mod row;
mod rows;
mod search;
mod segment;
mod set;
mod signs;
mod table;
mod turn;

pub use building::{BuiltGraph, GraphJob};
pub(crate) use graph::{Builder, Graph};
pub(crate) use reach::{Between, Reach};
pub use row::{MAX_DIM, Refusal, UnitRow};
pub(crate) use rows::StoredRow;
pub use search::{Effort, Near, exact_rows, graph_rows};
pub(crate) use segment::VectorSegment;
pub use set::VectorSet;
