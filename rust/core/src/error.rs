//! One error type. Three families: the caller's fault, the environment's fault, our bug.
//! Every message names the path or id and ends with the next step.

use std::path::PathBuf;

/// What every fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who holds the write lock, as far as the holder note beside the store tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id of the holder.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// When it took the lock, RFC 3339 in UTC.
    pub since: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} ({}) since {}", self.pid, self.command, self.since)
    }
}

/// What stood in the way of a call that gave up waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// The write lock, which each process holds for the time of a commit.
    Write,
    /// A handle that has the store to itself for as long as it lives.
    Exclusive,
    /// Handles that share the store, in the way of one that wants it to itself.
    Shared,
}

impl Lock {
    fn told(self, holder: Option<&Holder>, waited_ms: u64) -> String {
        let holder = holder.map_or_else(|| "another process".to_owned(), ToString::to_string);
        match self {
            Self::Write => {
                format!(
                    "locked for writing by {holder}; waited {waited_ms} ms. Wait for it or stop it, then repeat"
                )
            }
            Self::Exclusive => format!(
                "opened by {holder} with store.mode = exclusive, which keeps all others from reading and writing; waited {waited_ms} ms. Close it there, then repeat"
            ),
            Self::Shared => format!(
                "open in other handles or processes, so not to be had with store.mode = exclusive; waited {waited_ms} ms. Close them, or open it with store.mode = shared"
            ),
        }
    }
}

/// The next step for somebody who asked for what is not there.
fn where_it_would_be(what: &str) -> &'static str {
    match what {
        "document" => "insert it first",
        _ => "list what is there with `otolith list`",
    }
}

/// Everything that can go wrong, one variant per thing a caller may want to handle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // The caller's fault.
    /// No such record, or none within the handle's scope.
    #[error("no {what} {id}; {}", where_it_would_be(what))]
    NotFound {
        /// Kind of thing that was asked for, for instance `episode`.
        what: &'static str,
        /// The id or name as the caller gave it.
        id: String,
    },
    /// A value that cannot be accepted; the message says which and what would be.
    #[error("{field}: {message}")]
    InvalidInput {
        /// The field or argument at fault.
        field: String,
        /// What is wrong and what to give instead.
        message: String,
    },
    /// A vector of the wrong width.
    #[error(
        "{what} has {}, this index has {expected}; use the embedder the vectors were made with",
        counted(*found, "dimension")
    )]
    DimensionMismatch {
        /// Which vector: `query vector`, `vector`.
        what: &'static str,
        /// Width of the index.
        expected: usize,
        /// Width that was given.
        found: usize,
    },
    /// What is there is not what the caller took for granted: it changed since it was read, or belongs to another.
    #[error("{what}: {detail}")]
    Conflict {
        /// Record id or path.
        what: String,
        /// What is there now, and the next step.
        detail: String,
    },

    // The environment's fault.
    /// Others kept the store locked until the deadline.
    #[error("{path}: {told}", path = path.display(), told = lock.told(holder.as_ref(), *waited_ms))]
    StoreLocked {
        /// The store file.
        path: PathBuf,
        /// What kept it.
        lock: Lock,
        /// Who holds it, if known.
        holder: Option<Holder>,
        /// How long this call waited, in milliseconds.
        waited_ms: u64,
    },
    /// Bytes on disk are not what was written.
    #[error("{path}: {detail}. Nothing was changed; save what can be read with `otolith verify --repair`, or restore a backup beside it", path = path.display())]
    StoreCorrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where and what.
        detail: String,
    },
    /// Bytes of a saved index are not what was written.
    #[error("{path}: {detail}. Build the index again from its documents and save it", path = path.display())]
    IndexCorrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where and what.
        detail: String,
    },
    /// Written by a newer version of Otolith.
    #[error(
        "{what} has format {found}, this version reads up to {supported}; upgrade otolith. Nothing was changed"
    )]
    FormatTooNew {
        /// File or record.
        what: String,
        /// Version found.
        found: u64,
        /// Newest version this build reads.
        supported: u64,
    },
    /// A write was asked of a read-only handle.
    #[error("{path}: opened read-only; open it writable to change it", path = path.display())]
    ReadOnly {
        /// The store file.
        path: PathBuf,
    },
    /// The store cannot be used: permission, disk, file system, closed or forked handle.
    #[error("{path}: {message}", path = path.display())]
    Store {
        /// The file or directory at fault.
        path: PathBuf,
        /// What happened and the next step.
        message: String,
        /// The operating system's error, if there was one.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The caller's signal handler asked to stop waiting.
    #[error("interrupted; nothing was left half done")]
    Interrupted,

    // Our bug.
    /// A panic or a broken invariant inside the engine.
    #[error("internal error: {0}. This is a bug in otolith; please report it with this text")]
    Internal(String),
}

/// So many of a thing, in words.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

impl Error {
    /// An [`Error::InvalidInput`] for `field`.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::InvalidInput { field: field.into(), message: message.into() }
    }

    /// An [`Error::Store`] without an operating system error.
    pub fn store(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Store { path: path.into(), message: message.into(), source: None }
    }
}
