//! Vectors: checked unit rows, their similarity, and the exact search over them.

mod exact;
mod metric;
mod row;
mod segment;

pub use exact::VectorSet;
pub use metric::dot;
pub use row::{MAX_DIM, Refusal, UnitRow};
#[allow(unused_imports, reason = "the engine uses it in the next step")]
pub(crate) use segment::VectorSegment;
