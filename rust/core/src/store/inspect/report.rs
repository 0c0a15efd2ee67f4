//! What a check finds and a repair does.

use std::fmt;
use std::path::PathBuf;

/// What kind of thing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The file itself: header, pages, or that reading it ends the process.
    File,
    /// A row whose bytes are not what was written, or that this version cannot read.
    Row,
    /// Something that must be there is not.
    Missing,
    /// A row that belongs to nothing.
    Orphan,
    /// Two rows, or a row and a count, that contradict each other.
    Mismatch,
    /// The copy that questions are asked of differs from the store.
    Index,
}

impl ProblemKind {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Row => "row",
            Self::Missing => "missing",
            Self::Orphan => "orphan",
            Self::Mismatch => "mismatch",
            Self::Index => "index",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What kind of thing.
    pub kind: ProblemKind,
    /// The table it is in; empty for the file.
    pub table: String,
    /// The record's id, or the row's key, or where in the file.
    pub id: String,
    /// What is wrong.
    pub detail: String,
}

/// What a check of a store found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Everything that is wrong, file first.
    pub problems: Vec<Problem>,
    /// Records that can be read.
    pub records: u64,
    /// Vectors that can be read.
    pub vectors: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// How long writers were held, in milliseconds; 0 where the file could only be opened for reading.
    pub held_ms: u64,
}

/// Something that did not come back, or not as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The table; empty for a page nobody can tell the table of.
    pub table: String,
    /// The record's id, the row's key, or where in the file.
    pub id: String,
    /// Why, and what there is instead.
    pub detail: String,
    /// Name of the file in `lost+found` that has its bytes.
    pub file: Option<String>,
}

/// What a repair did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong before.
    pub before: Verified,
    /// Where the damaged file is now; none when there was nothing to repair and nothing was changed.
    pub kept_as: Option<PathBuf>,
    /// Where bytes are that could not be brought back; none when there are none.
    pub lost_found: Option<PathBuf>,
    /// Records in the new file.
    pub restored: u64,
    /// Vectors in the new file.
    pub restored_vectors: u64,
    /// What is not in the new file, or only in an earlier version.
    pub lost: Vec<Loss>,
}
