//! Vectors: checked unit rows, their similarity, and the exact search over them.

mod exact;
mod metric;
mod row;
#[allow(dead_code, reason = "the engine uses all of it in the next step")]
mod segment;

pub use exact::VectorSet;
pub use metric::dot;
pub use row::{MAX_DIM, Refusal, UnitRow};
pub(crate) use segment::VectorSegment;
