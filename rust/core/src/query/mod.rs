//! What a caller asks for: filters. Pure data and pure functions.

mod filter;

pub use filter::{Filter, Kind};
