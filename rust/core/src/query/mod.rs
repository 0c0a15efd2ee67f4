//! What a caller asks for: filters. Pure data and pure functions.

mod filter;

pub(crate) use filter::{Condition, TextField};
pub use filter::{Filter, Kind};
