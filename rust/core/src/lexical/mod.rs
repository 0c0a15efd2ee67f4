//! Keyword search: BM25 over weighted fields, exact under insertion and removal.
//!
//! The index is held in memory. Scores are computed from integer statistics of live documents at search time; sums run
//! in one canonical order, so that equal contents give equal bits.

mod bm25;
mod compare;
mod document;
mod index;
mod params;
mod search;

pub use bm25::{TermExplanation, idf};
pub(crate) use compare::Readable;
pub use document::{Field, PreparedDoc, prepare};
pub use index::LexicalIndex;
pub use params::Bm25Params;
pub use search::LexicalMatches;

#[cfg(test)]
mod tests;
