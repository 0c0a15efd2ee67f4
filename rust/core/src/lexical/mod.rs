//! Keyword search: BM25 over weighted fields, exact under insertion and removal.
//!
//! Documents lie in immutable segments and a small delta. Scores are computed from integer statistics of live documents
//! at search time; sums run in one canonical order, so that equal contents give equal bits.

mod bm25;
mod compare;
mod delta;
mod document;
mod index;
mod params;
mod search;
pub(crate) mod segment;
mod simd;
mod tombstones;

pub use bm25::{TermExplanation, idf};
pub(crate) use compare::Readable;
pub use document::{Field, PreparedDoc, prepare};
pub(crate) use index::NewSegment;
pub use index::{LexicalIndex, LexicalMatches};
pub use params::Bm25Params;
pub use search::{Likeness, Question, ScoredDoc};
pub(crate) use segment::{DROPPED, Names, Segment, SegmentBuilder};
pub use simd::Simd;

#[cfg(test)]
mod tests;
