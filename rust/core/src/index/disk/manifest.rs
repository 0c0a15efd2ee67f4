//! Which segments make up the index, and which state of the store it is of.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Layout of manifest and segments; part of the name of the directory, so that no version meets another's files.
pub(crate) const INDEX_FORMAT: u32 = 2;

/// A state of the index. Its file is one line of JSON, then the xxh3-64 of that line in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// [`INDEX_FORMAT`].
    pub(crate) format: u32,
    /// Rises by one with every state; part of the file's name.
    pub(crate) number: u64,
    /// Which store it is of.
    #[serde(with = "hexadecimal")]
    pub(crate) store_id: [u8; 16],
    /// The last change of the store that is in it.
    pub(crate) sequence: u64,
    /// Random number of that change, 0 before the first: tells its history from another.
    pub(crate) nonce: u64,
    /// Whose vectors the segments hold.
    pub(crate) embedder: Option<EmbedderEntry>,
    /// Records that could not be read, with the reason.
    pub(crate) unreadable: BTreeMap<String, String>,
    /// Records whose vectors could not be read.
    pub(crate) unreadable_vectors: BTreeMap<String, String>,
    /// The segments, in the order of their documents.
    pub(crate) segments: Vec<SegmentEntry>,
    /// File of the tombstones, if any segment has some.
    pub(crate) tombstones: Option<FileEntry>,
}

/// An embedder, as the store numbers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EmbedderEntry {
    pub(crate) number: u32,
    pub(crate) fingerprint: String,
    pub(crate) dim: u32,
}

/// A segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentEntry {
    #[serde(flatten)]
    pub(crate) file: FileEntry,
    /// How many documents it numbers, dead ones included.
    pub(crate) max_doc: u32,
    /// How many of them are dead.
    pub(crate) dead: u32,
    /// The graph over its vectors, once it is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) graph: Option<FileEntry>,
}

/// A file of sections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    pub(crate) name: String,
    /// Checksum of its table of sections.
    pub(crate) checksum: u64,
}

const PREFIX: &str = "manifest-";
const SUFFIX: &str = ".json";

impl Manifest {
    /// Name of the file with this number.
    pub(super) fn file_name(number: u64) -> String {
        format!("{PREFIX}{number:06}{SUFFIX}")
    }

    /// The number in a file's name, if it is the name of a manifest.
    pub(super) fn number_in(name: &str) -> Option<u64> {
        let digits = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        digits.parse().ok().filter(|number| Self::file_name(*number) == name)
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let line = serde_json::to_string(self)
            .map_err(|error| Error::Internal(format!("a manifest cannot be written: {error}")))?;
        let checksum = twox_hash::XxHash3_64::oneshot(line.as_bytes());
        Ok(format!("{line}\n{checksum:016x}\n").into_bytes())
    }

    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let corrupt = |detail: &str| Error::StoreCorrupt { path: path.to_owned(), detail: detail.to_owned() };
        let text = std::str::from_utf8(bytes).map_err(|_| corrupt("is no text"))?;
        let mut lines = text.split_inclusive('\n');
        let (line, checksum) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let line = line.strip_suffix('\n').ok_or_else(|| corrupt("is cut short"))?;
        let expected = format!("{:016x}\n", twox_hash::XxHash3_64::oneshot(line.as_bytes()));
        if checksum != expected || lines.next().is_some() {
            return Err(corrupt("is not what was written"));
        }
        let manifest: Self =
            serde_json::from_str(line).map_err(|error| corrupt(&format!("cannot be understood: {error}")))?;
        if manifest.format > INDEX_FORMAT {
            let what = path.display().to_string();
            let (found, supported) = (u64::from(manifest.format), u64::from(INDEX_FORMAT));
            return Err(Error::FormatTooNew { what, found, supported });
        }
        Ok(manifest)
    }
}

/// Sixteen bytes as 32 hexadecimal digits.
mod hexadecimal {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8; 16], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:032x}", u128::from_be_bytes(*bytes)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
        let digits = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&digits, 16).map_err(D::Error::custom)?;
        Ok(number.to_be_bytes())
    }
}
