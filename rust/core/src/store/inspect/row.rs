//! Rows as they lie in a page: key bytes as redb writes them, the value in its envelope.

use super::super::parts::{self, Part};
use super::super::rows::{Change, EmbedderRow};
use super::super::seal::{Body, SealError, unseal};
use super::super::tables;
use super::super::view::read_episode;
use crate::episode::Episode;
use crate::error::Error;
use crate::ids::RecordId;

/// The tables of a store, in the order in which each is needed to judge the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Table {
    Meta,
    Changes,
    Episodes,
    Keys,
    CwdIndex,
    Embedders,
    Embeddings,
}

impl Table {
    pub(super) const ALL: [Self; 7] = [
        Self::Meta,
        Self::Changes,
        Self::Episodes,
        Self::Keys,
        Self::CwdIndex,
        Self::Embedders,
        Self::Embeddings,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Changes => "changes",
            Self::Episodes => "episodes",
            Self::Keys => "keys",
            Self::CwdIndex => "cwd_index",
            Self::Embedders => "embedders",
            Self::Embeddings => "embeddings",
        }
    }

    /// Width of its keys, where they all have the same.
    pub(super) fn key_width(self) -> Option<usize> {
        match self {
            Self::Changes => Some(8),
            Self::Episodes => Some(16),
            Self::Embedders => Some(4),
            Self::Embeddings => Some(24),
            Self::Meta | Self::Keys | Self::CwdIndex => None,
        }
    }
}

/// The key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Meta(String),
    Change(u64),
    Episode([u8; 16]),
    Name(String, String),
    Dir(String, [u8; 16]),
    Embedder(u32),
    /// The last of it is the number of [`parts::place`].
    Part(u32, [u8; 16], u32),
}

impl Key {
    pub(super) fn parse(table: Table, bytes: &[u8]) -> Option<Self> {
        Some(match table {
            Table::Meta => Self::Meta(text(bytes)?),
            Table::Changes => Self::Change(u64::from_le_bytes(bytes.try_into().ok()?)),
            Table::Episodes => Self::Episode(bytes.try_into().ok()?),
            Table::Embedders => Self::Embedder(u32::from_le_bytes(bytes.try_into().ok()?)),
            Table::Embeddings => {
                let (embedder, rest) = bytes.split_first_chunk()?;
                let (id, number) = rest.split_first_chunk()?;
                let number = u32::from_le_bytes(number.try_into().ok()?);
                Self::Part(u32::from_le_bytes(*embedder), *id, number)
            }
            Table::Keys => {
                let (scope, key) = first_text(bytes)?;
                Self::Name(text(scope)?, text(key)?)
            }
            Table::CwdIndex => {
                let (dir, id) = first_text(bytes)?;
                Self::Dir(text(dir)?, id.try_into().ok()?)
            }
        })
    }

    /// The bytes the checksum of its value is seeded with.
    pub(super) fn seed(&self) -> Vec<u8> {
        match self {
            Self::Meta(name) => name.as_bytes().to_vec(),
            Self::Change(sequence) => sequence.to_le_bytes().to_vec(),
            Self::Episode(id) => id.to_vec(),
            Self::Name(scope, key) => tables::name_key(scope, key),
            Self::Dir(dir, id) => tables::cwd_key(dir, id),
            Self::Embedder(number) => number.to_le_bytes().to_vec(),
            Self::Part(embedder, id, number) => tables::chunk_key(*embedder, id, *number).to_vec(),
        }
    }

    /// The id, of a key of `episodes`.
    pub(super) fn episode(&self) -> Option<[u8; 16]> {
        match self {
            Self::Episode(id) => Some(*id),
            _ => None,
        }
    }

    /// The record that a row of `episodes` or `embeddings` is of.
    pub(super) fn record(&self) -> Option<[u8; 16]> {
        self.episode().or_else(|| self.part().map(|(_, id, _)| id))
    }

    /// The parts, of a key of `embeddings`.
    pub(super) fn part(&self) -> Option<(u32, [u8; 16], u32)> {
        match self {
            Self::Part(embedder, id, number) => Some((*embedder, *id, *number)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Meta(name) => f.write_str(name),
            Self::Change(sequence) => sequence.fmt(f),
            Self::Episode(id) => f.write_str(&id_text(id)),
            Self::Name(scope, key) => write!(f, "{key:?} in scope {scope:?}"),
            Self::Dir(dir, id) => write!(f, "{} in {dir:?}", id_text(id)),
            Self::Embedder(number) => number.fmt(f),
            Self::Part(embedder, id, number) => match parts::place(*number) {
                (chunk, None | Some(0)) => chunk_name((*embedder, *id, chunk)).fmt(f),
                (chunk, Some(part)) => {
                    write!(f, "{}, chunk {chunk}, part {part}, embedder {embedder}", id_text(id))
                }
            },
        }
    }
}

/// A vector as it is named in a list.
pub(super) fn chunk_name((embedder, id, chunk): parts::Chunk) -> String {
    format!("{}, chunk {chunk}, embedder {embedder}", id_text(&id))
}

/// An id as text, also where the bytes are none.
pub(super) fn id_text(id: &[u8; 16]) -> String {
    RecordId::from_bytes(*id).map_or_else(|_| hex(id), |id| id.to_string())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What a row holds.
#[derive(Debug)]
pub(super) enum Row {
    Meta(Vec<u8>),
    Change(Change),
    Episode(Box<Episode>),
    Name(RecordId),
    Dir,
    Embedder(EmbedderRow),
    Part(Part),
}

/// Why a row cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowFault {
    /// Its bytes are not what was written.
    Damaged,
    /// Intact, and nothing this version knows.
    TooNew(u64),
    /// Intact, and not what the table holds.
    Foreign(String),
}

impl std::fmt::Display for RowFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged => f.write_str("the bytes are not what was written"),
            Self::TooNew(found) => {
                write!(f, "it has format {found}, which this version does not know; upgrade otolith")
            }
            Self::Foreign(what) => f.write_str(what),
        }
    }
}

/// The body of a value under `key`.
pub(super) fn body<'v>(table: Table, key: &Key, value: &'v [u8]) -> Result<Body<'v>, RowFault> {
    unseal(table.name(), &key.seed(), value).map_err(|fault| match fault {
        SealError::Damaged => RowFault::Damaged,
        SealError::TooNew(found) => RowFault::TooNew(u64::from(found)),
    })
}

/// Reads a value under `key`.
pub(super) fn decode(table: Table, key: &Key, value: &[u8]) -> Result<Row, RowFault> {
    let sealed = body(table, key, value)?;
    let (_, body) = sealed;
    let foreign = || RowFault::Foreign(format!("it is no row of the table {}", table.name()));
    let row = match key {
        Key::Meta(_) => Row::Meta(body.to_vec()),
        Key::Change(sequence) => Row::Change(Change::parse(*sequence, body).ok_or_else(foreign)?),
        Key::Episode(id) => Row::Episode(Box::new(episode(id, sealed)?)),
        Key::Name(..) => {
            let id = body.try_into().ok().and_then(|bytes| RecordId::from_bytes(bytes).ok());
            Row::Name(id.ok_or_else(foreign)?)
        }
        Key::Dir(_, id) => {
            (body.is_empty() && RecordId::from_bytes(*id).is_ok()).then_some(Row::Dir).ok_or_else(foreign)?
        }
        Key::Embedder(number) => Row::Embedder(EmbedderRow::parse(*number, body).ok_or_else(foreign)?),
        Key::Part(_, id, number) => {
            let part = RecordId::from_bytes(*id).ok().and_then(|_| Part::parse(*number, sealed));
            Row::Part(part.ok_or_else(foreign)?)
        }
    };
    Ok(row)
}

fn episode(id: &[u8; 16], body: Body<'_>) -> Result<Episode, RowFault> {
    let episode = RecordId::from_bytes(*id).and_then(|id| read_episode(id, body));
    episode.map_err(|error| match error {
        Error::FormatTooNew { found, .. } => RowFault::TooNew(found),
        other => RowFault::Foreign(other.to_string()),
    })
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// The first part of a pair, whose length stands before both, and the rest.
fn first_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (len, rest) = match first {
        254 => rest.split_first_chunk().map(|(len, rest)| (usize::from(u16::from_le_bytes(*len)), rest))?,
        255 => rest.split_first_chunk().map(|(len, rest)| (u32::from_le_bytes(*len) as usize, rest))?,
        short => (usize::from(*short), rest),
    };
    rest.split_at_checked(len)
}
