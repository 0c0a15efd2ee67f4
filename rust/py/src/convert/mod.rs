//! Python values to those of core. Whatever does not fit is an `InvalidInput` that names the field.

pub(crate) mod fields;
pub(crate) mod filter;
pub(crate) mod mapping;
pub(crate) mod number;
pub(crate) mod path;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod vector;
