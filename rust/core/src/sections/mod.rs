//! A file of named, checksummed arrays: what the segments of the index are made of.
//!
//! Written once, front to back, never changed; mapped into memory and shared by processes, or held in memory alone. What
//! the arrays mean is up to who writes them: this module promises that what is read has the length that was written,
//! lies within the file and is aligned, and that its checksum can be compared.
//!
//! ```text
//! head      64 B   magic "OTOLSECT", layout u32, zeros
//! sections         each on a multiple of 64, zeros between
//! table            a row of 32 B for each section: name 8 B, offset u64, length in bytes u64, xxh3-64 of its bytes
//! foot      64 B   magic "OTOLSEND", layout u32, number of sections u32, offset of the table u64, xxh3-64 of the table, zeros
//! ```
//!
//! All numbers are little-endian, as arrays in a map are used as they lie; the crate does not build for other machines.

mod read;
mod write;

pub(crate) use read::{Image, Numbers, Sections};
#[cfg(test)]
use write::Pieces;
pub(crate) use write::SectionWriter;

use std::fmt;

#[cfg(not(target_endian = "little"))]
compile_error!("arrays of index files are used as they lie on disk, in little-endian order");

/// Layout of the file around its sections.
const LAYOUT: u32 = 1;
const HEAD: &[u8; 8] = b"OTOLSECT";
const FOOT: &[u8; 8] = b"OTOLSEND";
/// Size of head and foot, and what sections are aligned to: a line of the cache, the widest register.
const ALIGN: usize = 64;
/// Bytes of a row of the table.
const ROW: usize = 32;

/// Name of a section: at most eight ASCII characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SectionName([u8; 8]);

impl SectionName {
    /// `name` padded with zeros; names are constants, so a wrong one does not compile.
    pub(crate) const fn new(name: &str) -> Self {
        let from = name.as_bytes();
        assert!(!from.is_empty() && from.len() <= 8, "1 to 8 characters");
        let mut bytes = [0; 8];
        let mut at = 0;
        while at < from.len() {
            assert!(from[at].is_ascii_graphic());
            bytes[at] = from[at];
            at += 1;
        }
        Self(bytes)
    }
}

impl fmt::Display for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(String::from_utf8_lossy(&self.0).trim_end_matches('\0'))
    }
}

impl fmt::Debug for SectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Checksum of a section or of the table.
fn checksum(bytes: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(bytes)
}

#[cfg(test)]
mod tests;
