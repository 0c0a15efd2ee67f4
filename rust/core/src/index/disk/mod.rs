//! The index on disk: segments that never change, and a manifest that says which of them count.
//!
//! `<home>/index/<shape>/` holds what can be deleted at any time: it is built anew from the store. Files appear whole,
//! by rename, and are never changed; a new state of the index is a manifest with the next number. Who writes holds the
//! lock of the directory, which nobody waits for; who reads needs none: when a file of a manifest is gone, there is a
//! newer manifest.

mod directory;
mod manifest;
mod notes;

pub(crate) use directory::{Directory, Loaded, Turn, is_graph};
pub(crate) use manifest::{EmbedderEntry, FileEntry, Manifest, SegmentEntry};

#[cfg(test)]
use manifest::INDEX_FORMAT;

#[cfg(test)]
mod tests;
