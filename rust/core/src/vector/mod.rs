//! Vectors: checked unit rows, their similarity, and the exact search over them.

#[cfg(test)]
mod clustered;
mod codes;
#[allow(dead_code, reason = "the engine builds and asks graphs in a later step")]
mod graph;
mod half;
mod kernel;
mod row;
mod rows;
mod search;
mod segment;
mod set;

pub use row::{MAX_DIM, Refusal, UnitRow};
pub(crate) use rows::StoredRow;
pub(crate) use segment::VectorSegment;
pub use set::VectorSet;
