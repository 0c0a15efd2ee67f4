//! Vectors: checked unit rows, their similarity, and the exact search over them.

mod exact;
mod metric;
mod row;

pub use exact::VectorSet;
pub use metric::dot;
pub use row::{MAX_DIM, Refusal, UnitRow};
