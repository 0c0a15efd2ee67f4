//! The tables of the file, field by field. `u32`, `u64` and `f32` are little-endian in bodies.
//!
//! | table | key | body (inside the envelope of [`super::seal`]) |
//! |---|---|---|
//! | `episodes` | record id, 16 bytes | the episode as JSON, without what follows from the rest |
//! | `cwd_index` | (normalised directory, record id) | empty |
//! | `keys` | (scope, key) | record id, 16 bytes |
//! | `embeddings` | (embedder number `u32`, record id, chunk and part `u32`) | a part of the row as `f32`s, or the reason of a refusal in UTF-8, see [`super::parts`] |
//! | `embedders` | number `u32` | dimensions `u32`, then the fingerprint in UTF-8 |
//! | `changes` | sequence number `u64`, from 1 | operation `u8` (1 put, 2 delete, 3 embed), kind `u8` (1 episode), record id, random `u64` of the transaction |
//! | `meta` | name | see the `META_` constants |
//!
//! Key bytes for the checksum: integers little-endian, ids as they are, strings in UTF-8, the parts of a tuple
//! one after the other, a 0 byte after a string that is followed by something.

use super::rows::{EmbedderRow, NO_EMBEDDER};
use super::seal::seal;
use crate::episode::Episode;
use crate::ids::RecordId;
use redb::{
    CursorError, Key, ReadOnlyTable, ReadTransaction, StorageError, Table, TableDefinition, TableError,
    Value, WriteTransaction,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Bound;

/// Version of the layout this build writes.
pub const FORMAT_VERSION: u32 = 2;
/// Oldest layout version a reader must know to read what this build writes.
pub const OLDEST_READER: u32 = 2;

pub(super) type Id = &'static [u8; 16];
pub(super) type Bytes = &'static [u8];
pub(super) type CwdKey = (&'static str, Id);
pub(super) type NameKey = (&'static str, &'static str);
pub(super) type ChunkKey = (u32, Id, u32);

pub(super) const EPISODES: TableDefinition<'static, Id, Bytes> = TableDefinition::new("episodes");
pub(super) const CWD_INDEX: TableDefinition<'static, CwdKey, Bytes> = TableDefinition::new("cwd_index");
pub(super) const KEYS: TableDefinition<'static, NameKey, Bytes> = TableDefinition::new("keys");
pub(super) const EMBEDDINGS: TableDefinition<'static, ChunkKey, Bytes> = TableDefinition::new("embeddings");
pub(super) const EMBEDDERS: TableDefinition<'static, u32, Bytes> = TableDefinition::new("embedders");
pub(super) const CHANGES: TableDefinition<'static, u64, Bytes> = TableDefinition::new("changes");
pub(super) const META: TableDefinition<'static, &'static str, Bytes> = TableDefinition::new("meta");

/// `u32`: layout version of the file.
pub(super) const META_FORMAT: &str = "format_version";
/// `u32`: oldest layout version that may read the file.
pub(super) const META_OLDEST_READER: &str = "oldest_reader";
/// `i64`: microseconds since 1970 at which the file was made.
pub(super) const META_CREATED: &str = "created";
/// 16 bytes, random: which store this is, so that what is derived from it is not taken for another's.
pub(super) const META_STORE_ID: &str = "store_id";
/// `u64`: how many times compacting or repairing put a new file in the place of the old one; absent is 0.
pub(super) const META_GENERATION: &str = "generation";
/// `u64`: up to this number `changes` lacks the rows of records that are gone; absent is 0.
pub(super) const META_FEED_START: &str = "feed_start";
/// `u64`: number of the last row of `changes`, 0 before the first.
pub(super) const META_LAST_SEQUENCE: &str = "last_sequence";
/// `u32`: the embedder this home belongs to; absent before the first vector.
pub(super) const META_HOME_EMBEDDER: &str = "home_embedder";

/// The smallest and the largest 16 bytes, as ends of ranges over ids.
pub(super) const ID_MIN: [u8; 16] = [0; 16];
pub(super) const ID_MAX: [u8; 16] = [0xFF; 16];

/// The tables of one snapshot, each opened when it is first asked for and then kept: opening one takes a search in the
/// tree of tables, about as long as what is looked up in it.
pub(super) struct SnapshotTables {
    pub(super) transaction: ReadTransaction,
    pub(super) episodes: OnceCell<ReadOnlyTable<Id, Bytes>>,
    pub(super) cwd_index: OnceCell<ReadOnlyTable<CwdKey, Bytes>>,
    pub(super) keys: OnceCell<ReadOnlyTable<NameKey, Bytes>>,
    pub(super) embeddings: OnceCell<ReadOnlyTable<ChunkKey, Bytes>>,
    pub(super) embedders: OnceCell<ReadOnlyTable<u32, Bytes>>,
    pub(super) changes: OnceCell<ReadOnlyTable<u64, Bytes>>,
    pub(super) meta: OnceCell<ReadOnlyTable<&'static str, Bytes>>,
}

impl SnapshotTables {
    pub(super) fn of(transaction: ReadTransaction) -> Self {
        Self {
            transaction,
            episodes: OnceCell::new(),
            cwd_index: OnceCell::new(),
            keys: OnceCell::new(),
            embeddings: OnceCell::new(),
            embedders: OnceCell::new(),
            changes: OnceCell::new(),
            meta: OnceCell::new(),
        }
    }

    /// The table of `definition`, whose place is `cell`.
    pub(super) fn table<'c, K: Key + 'static, V: Value + 'static>(
        &self,
        cell: &'c OnceCell<ReadOnlyTable<K, V>>,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<&'c ReadOnlyTable<K, V>, TableError> {
        if let Some(table) = cell.get() {
            return Ok(table);
        }
        let table = self.transaction.open_table(definition)?;
        Ok(cell.get_or_init(|| table))
    }
}

/// Every table of one write transaction, opened once: redb hands out a table only once at a time.
pub(super) struct OpenTables<'t> {
    pub(super) episodes: RefCell<Table<'t, Id, Bytes>>,
    pub(super) cwd_index: RefCell<Table<'t, CwdKey, Bytes>>,
    pub(super) keys: RefCell<Table<'t, NameKey, Bytes>>,
    pub(super) embeddings: RefCell<Table<'t, ChunkKey, Bytes>>,
    pub(super) embedders: RefCell<Table<'t, u32, Bytes>>,
    pub(super) changes: RefCell<Table<'t, u64, Bytes>>,
    pub(super) meta: RefCell<Table<'t, &'static str, Bytes>>,
    /// Whether the present job may have changed any of them.
    pub(super) written: Cell<bool>,
}

impl<'t> OpenTables<'t> {
    /// Opens all tables, making those that are not there yet.
    pub(super) fn open(transaction: &'t WriteTransaction) -> Result<Self, TableError> {
        Ok(Self {
            episodes: RefCell::new(transaction.open_table(EPISODES)?),
            cwd_index: RefCell::new(transaction.open_table(CWD_INDEX)?),
            keys: RefCell::new(transaction.open_table(KEYS)?),
            embeddings: RefCell::new(transaction.open_table(EMBEDDINGS)?),
            embedders: RefCell::new(transaction.open_table(EMBEDDERS)?),
            changes: RefCell::new(transaction.open_table(CHANGES)?),
            meta: RefCell::new(transaction.open_table(META)?),
            written: Cell::new(false),
        })
    }
}

impl OpenTables<'_> {
    /// Writes the row of the record's directory, if it has one.
    pub(super) fn put_dir(&self, episode: &Episode) -> Result<(), StorageError> {
        if let Some(dir) = &episode.working_dir {
            let id = episode.id.as_bytes();
            let value = seal("cwd_index", &cwd_key(dir, id), &[]);
            self.cwd_index.borrow_mut().insert((dir.as_str(), id), value.as_slice())?;
        }
        Ok(())
    }

    /// Removes the row of the record's directory.
    pub(super) fn remove_dir(&self, episode: &Episode) -> Result<(), StorageError> {
        if let Some(dir) = &episode.working_dir {
            self.cwd_index.borrow_mut().remove((dir.as_str(), episode.id.as_bytes()))?;
        }
        Ok(())
    }

    /// Writes the row of the record's key, if it has one.
    pub(super) fn put_key(&self, episode: &Episode) -> Result<(), StorageError> {
        if let Some(key) = &episode.key {
            let scope = episode.scope.as_str();
            let value = seal("keys", &name_key(scope, key), episode.id.as_bytes());
            self.keys.borrow_mut().insert((scope, key.as_str()), value.as_slice())?;
        }
        Ok(())
    }

    /// Removes the record's vectors under these embedders and its refusals from before there was one. Returns
    /// whether there were any.
    pub(super) fn remove_embeddings(
        &self,
        embedders: &[EmbedderRow],
        id: RecordId,
    ) -> Result<bool, StorageError> {
        let mut removed = self.remove_embeddings_of(NO_EMBEDDER, id)?;
        for embedder in embedders {
            removed |= self.remove_embeddings_of(embedder.number, id)?;
        }
        Ok(removed)
    }

    /// Removes the record's vectors under one embedder. Returns whether there were any.
    pub(super) fn remove_embeddings_of(&self, number: u32, id: RecordId) -> Result<bool, StorageError> {
        let range = (number, id.as_bytes(), 0)..=(number, id.as_bytes(), u32::MAX);
        let mut removed = false;
        self.embeddings.borrow_mut().retain_in::<(u32, &[u8; 16], u32), _>(range, |_, _| {
            removed = true;
            false
        })?;
        Ok(removed)
    }
}

/// Writes rows that come after all that are in the table, in order: three times as fast as inserting each.
pub(super) fn append<'k, K: Key + 'static>(
    table: &RefCell<Table<'_, K, Bytes>>,
    rows: impl Iterator<Item = (K::SelfType<'k>, impl AsRef<[u8]>)>,
) -> Result<(), CursorError> {
    let mut table = table.borrow_mut();
    let end: Bound<K::SelfType<'_>> = Bound::Unbounded;
    let mut cursor = table.upper_bound_mut(end)?;
    for (key, value) in rows {
        cursor.insert_before(key, value.as_ref())?;
    }
    Ok(cursor.close()?)
}

/// Key bytes of `cwd_index`.
pub(super) fn cwd_key(dir: &str, id: &[u8; 16]) -> Vec<u8> {
    [dir.as_bytes(), &[0], id].concat()
}

/// Key bytes of `keys`.
pub(super) fn name_key(scope: &str, key: &str) -> Vec<u8> {
    [scope.as_bytes(), &[0], key.as_bytes()].concat()
}

/// Key bytes of `embeddings`.
pub(super) fn chunk_key(embedder: u32, id: &[u8; 16], number: u32) -> [u8; 24] {
    let mut key = [0; 24];
    key[..4].copy_from_slice(&embedder.to_le_bytes());
    key[4..20].copy_from_slice(id);
    key[20..].copy_from_slice(&number.to_le_bytes());
    key
}
