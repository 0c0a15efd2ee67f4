//! What is compared with: redb alone on the same tables, and the disk alone.

use super::data::Rows;
use redb::{Builder, ConcurrencyMode, Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::fs::File;
use std::io::Write;
use std::path::Path;

type Bytes = &'static [u8];
type Id = &'static [u8; 16];

const EPISODES: TableDefinition<'static, Id, Bytes> = TableDefinition::new("episodes");
const CWD_INDEX: TableDefinition<'static, (&str, Id), Bytes> = TableDefinition::new("cwd_index");
const KEYS: TableDefinition<'static, (&str, &str), Bytes> = TableDefinition::new("keys");
const EMBEDDINGS: TableDefinition<'static, (u32, Id, u32), Bytes> = TableDefinition::new("embeddings");
const EMBEDDERS: TableDefinition<'static, u32, Bytes> = TableDefinition::new("embedders");
const CHANGES: TableDefinition<'static, u64, Bytes> = TableDefinition::new("changes");
const META: TableDefinition<'static, &str, Bytes> = TableDefinition::new("meta");

/// A copy of the store file in the same mode with the same cache. Nothing is checked, looked up or encoded.
pub(crate) struct Bare {
    db: Database,
    /// Number and length of each row that the store made of the first vector.
    parts: Vec<(u32, usize)>,
}

impl Bare {
    pub(crate) fn open(path: &Path) -> Self {
        let mut builder = Builder::new();
        builder.set_concurrency_mode(ConcurrencyMode::MultiWriter).set_cache_size(12 << 20);
        let db = builder.open(path).unwrap();
        let parts = {
            let transaction = db.begin_read().unwrap();
            let table = transaction.open_table(EMBEDDINGS).unwrap();
            let first = table.first().unwrap().map(|(key, _)| *key.value().1);
            let rows =
                first.into_iter().flat_map(|id| table.range((1, &id, 0)..=(1, &id, u32::MAX)).unwrap());
            rows.map(Result::unwrap).map(|(key, value)| (key.value().2, value.value().len())).collect()
        };
        Self { db, parts }
    }

    /// Bytes of all keys and values.
    pub(crate) fn stored(&self) -> u64 {
        self.db.begin_write().unwrap().stats().unwrap().stored_bytes()
    }

    /// Where the bytes of the file are.
    pub(crate) fn composition(&self) -> String {
        let transaction = self.db.begin_write().unwrap();
        let stats = transaction.stats().unwrap();
        let pages = stats.allocated_pages() * stats.page_size() as u64;
        let mb = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "{:.1} MB of keys and values, {:.1} of tree, {:.1} unused within pages; {:.1} in pages",
            mb(stats.stored_bytes()),
            mb(stats.metadata_bytes()),
            mb(stats.fragmented_bytes()),
            mb(pages),
        )
    }

    /// One commit of a record's rows.
    pub(crate) fn commit(&self, rows: &Rows) {
        let transaction = self.db.begin_write().unwrap();
        {
            let mut episodes = transaction.open_table(EPISODES).unwrap();
            let mut cwd_index = transaction.open_table(CWD_INDEX).unwrap();
            let mut keys = transaction.open_table(KEYS).unwrap();
            let mut embeddings = transaction.open_table(EMBEDDINGS).unwrap();
            let _embedders = transaction.open_table(EMBEDDERS).unwrap();
            let mut changes = transaction.open_table(CHANGES).unwrap();
            let mut meta = transaction.open_table(META).unwrap();
            let mut last = changes.last().unwrap().map_or(0, |(sequence, _)| sequence.value());
            episodes.insert(&rows.id, rows.episode.as_slice()).unwrap();
            cwd_index.insert((rows.dir.as_str(), &rows.id), Rows::DIR.as_slice()).unwrap();
            keys.insert(("", rows.key.as_str()), Rows::NAME.as_slice()).unwrap();
            last += 1;
            changes.insert(last, Rows::CHANGE.as_slice()).unwrap();
            if let Some(cells) = &rows.cells {
                for (number, len) in &self.parts {
                    embeddings.insert((1, &rows.id, *number), &cells[..*len]).unwrap();
                }
                changes.insert(last + 1, Rows::CHANGE.as_slice()).unwrap();
            }
            meta.insert("last_sequence", Rows::NUMBER.as_slice()).unwrap();
        }
        transaction.commit().unwrap();
    }
}

/// The least that a durable write costs on this disk.
pub(crate) struct Floor(File);

impl Floor {
    pub(crate) fn new(dir: &Path) -> Self {
        Self(File::options().create(true).append(true).open(dir.join("floor")).unwrap())
    }

    /// Appends a page and has it written.
    pub(crate) fn sync(&self) {
        (&self.0).write_all(&[7; 4096]).unwrap();
        self.0.sync_data().unwrap();
    }
}
