//! A store file that is being made beside another one, from rows as they are stored there.
//!
//! Nobody else has it open, so it is written without syncs and made durable once, at its end. It appears under a
//! name of its own only then; until then it is a hidden file with the number of this process in its name, which is
//! removed when the draft is dropped, and by the next compaction if this process was killed.

use super::failure::Context;
use super::handle::{Place, create_draft, draft_path};
use super::sealed::{SealedChange, SealedEmbedding, SealedEpisode};
use super::tables::{self, OpenTables};
use super::view::{ReadView, Source};
use crate::error::{Error, Result};
use crate::files::fork;
use crate::ids::RecordId;
use redb::{ConcurrencyMode, Database, Durability, TableDefinition};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::backend::Patience;

/// Room for the pages of a batch: a draft is written once, in order.
const CACHE_BYTES: usize = 64 << 20;

/// Size of a page of redb.
const PAGE: u64 = 4096;
/// Room is left for this part of the file, and at least and at most for so many pages.
const ROOM_SHARE: u64 = 64;
const LEAST_ROOM: u64 = 8;
const MOST_ROOM: u64 = 1024;
/// Closing the gaps of a file below it takes some hundredths of a second, which others may wait for.
const SMALL: u64 = 64 << 20;
/// A value that fills a page.
const ROOM_VALUE: usize = 3_900;

/// See the module.
pub(super) struct Draft {
    db: Option<Database>,
    path: PathBuf,
    context: Context,
    pid: u32,
    /// Length after tidying.
    tidy_length: u64,
}

/// The tables of a draft within one of its transactions. Everything it is given was found good before.
pub(super) struct DraftTables<'t> {
    read: ReadView<'t>,
    context: &'t Context,
}

impl Draft {
    /// A draft of what is to lie at `place`.
    ///
    /// # Errors
    /// Those of making a file in the directory of `place`.
    pub(super) fn create(place: &Place) -> Result<Self> {
        let context = place.context();
        let path = draft_path(&place.home);
        let file = create_draft(&path).map_err(|error| Context::new(&place.home, &place.home).io(error))?;
        let pid = fork::process_id();
        let mut draft = Self { db: None, path, context, pid, tidy_length: u64::MAX };
        let backend = place.backend(file, &Patience::new(place.lock_timeout), None);
        let mut builder = place.builder(ConcurrencyMode::ExclusiveWriter);
        builder.set_cache_size(CACHE_BYTES);
        let db = backend.and_then(|backend| builder.create_with_backend(backend));
        draft.db = Some(db.map_err(|e| draft.context.fail(e))?);
        Ok(draft)
    }

    /// Where the draft is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `job` in a transaction of its own; nothing of it is durable before [`Draft::finish`].
    pub(super) fn write<R>(&self, job: impl FnOnce(&DraftTables<'_>) -> Result<R>) -> Result<R> {
        self.transact(Durability::None, job)
    }

    fn sync(&self) -> Result<()> {
        self.transact(Durability::Immediate, |_| Ok(()))
    }

    fn transact<R>(
        &self,
        durability: Durability,
        job: impl FnOnce(&DraftTables<'_>) -> Result<R>,
    ) -> Result<R> {
        let Some(db) = &self.db else {
            return Err(Error::Internal("a finished draft is written to".to_owned()));
        };
        let context = &self.context;
        let mut transaction = db.begin_write().map_err(|e| context.fail(e))?;
        transaction.set_durability(durability).map_err(|e| context.fail(e))?;
        let result = {
            let tables = OpenTables::open(&transaction).map_err(|e| context.fail(e))?;
            let read = ReadView { source: Source::Open(Box::new(tables)), context };
            job(&DraftTables { read, context })?
        };
        transaction.commit().map_err(|e| context.fail(e))?;
        Ok(result)
    }

    /// Makes what was written durable, and tells whether more than one part in `parts` of the file is empty: redb doubles
    /// a file that grows. Closing the gaps takes as long as all the copying before it, and asking redb about them a fifth
    /// of that, so the file system is asked which part of the file it ever had to keep.
    fn is_loose(&self, parts: u64) -> Result<bool> {
        self.sync()?;
        let found = fs::metadata(&self.path).map_err(|error| self.context.io(error))?;
        #[cfg(unix)]
        let kept = std::os::unix::fs::MetadataExt::blocks(&found) * 512;
        #[cfg(not(unix))]
        let kept = 0;
        Ok(kept + found.len() / parts < found.len())
    }

    /// Makes the file as short as it can be, unless that is less than a fifth, once the draft is complete.
    pub(super) fn tighten(&mut self) -> Result<()> {
        if self.is_loose(5)?
            && let Some(db) = &mut self.db
        {
            db.compact().map_err(|e| self.context.fail(e))?;
        }
        Ok(())
    }

    /// The same, unless that is next to nothing, for a draft that something is still to come to. Room is left for that: a file without any grows to twice
    /// its length with the next page.
    pub(super) fn tidy(&mut self) -> Result<()> {
        const ROOM: TableDefinition<'static, u32, &[u8]> = TableDefinition::new("room");
        let loose = self.is_loose(32)?;
        let length = self.length()?;
        self.tidy_length = length;
        let Some(db) = self.db.as_mut().filter(|_| loose) else { return Ok(()) };
        let context = &self.context;
        let pages = (length / PAGE / ROOM_SHARE).clamp(LEAST_ROOM, MOST_ROOM) as u32;
        let filled = |db: &Database| -> Result<(), redb::Error> {
            let transaction = db.begin_write()?;
            {
                let mut table = transaction.open_table(ROOM)?;
                for number in 0..pages {
                    table.insert(number, [0; ROOM_VALUE].as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        };
        let emptied = |db: &Database| -> Result<(), redb::Error> {
            let transaction = db.begin_write()?;
            transaction.delete_table(ROOM)?;
            Ok(transaction.commit()?)
        };
        filled(db).map_err(|e| context.fail(e))?;
        db.compact().map_err(|e| context.fail(e))?;
        emptied(db).map_err(|e| context.fail(e))?;
        // What a commit frees can be used again after the next one.
        self.sync()?;
        self.tidy_length = self.length()?;
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(fs::metadata(&self.path).map_err(|error| self.context.io(error))?.len())
    }

    /// Makes the file whole and durable and closes it; it still has its hidden name.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.sync()?;
        let length = self.length()?;
        // What came since may not have found room and doubled the file; one in some fifteen did. A small one may have been
        // doubled by making room.
        let doubled = length / 5 * 4 > self.tidy_length || (length < SMALL && self.is_loose(5)?);
        if doubled && let Some(db) = &mut self.db {
            db.compact().map_err(|e| self.context.fail(e))?;
        }
        if let Some(db) = self.db.take() {
            db.close().map_err(|e| self.context.fail(e))?;
        }
        File::open(&self.path).and_then(|file| file.sync_all()).map_err(|error| self.context.io(error))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.pid != fork::process_id() {
            // The draft of a forked child's parent, who goes on with it.
            std::mem::forget(self.db.take());
            return;
        }
        drop(self.db.take());
        // After a rename there is nothing under this name any more.
        let _ = fs::remove_file(&self.path);
    }
}

impl DraftTables<'_> {
    /// Whether the record is in the draft.
    pub(super) fn contains(&self, id: RecordId) -> Result<bool> {
        self.read.contains(id)
    }

    /// Writes a record that is not there, with its directory and key.
    pub(super) fn put_episode(&self, row: &SealedEpisode) -> Result<()> {
        let (episode, tables) = (&row.episode, self.read.tables()?);
        let id = episode.id.as_bytes();
        let mut table = tables.episodes.borrow_mut();
        table.insert(id, row.value.as_slice()).map_err(|e| self.context.fail(e))?;
        tables.put_dir(episode).map_err(|e| self.context.fail(e))?;
        tables.put_key(episode).map_err(|e| self.context.fail(e))
    }

    /// Removes a record from every table. Returns whether it was there.
    pub(super) fn remove_episode(&self, id: RecordId) -> Result<bool> {
        let Some(episode) = self.read.episode(id)? else { return Ok(false) };
        let tables = self.read.tables()?;
        tables.episodes.borrow_mut().remove(id.as_bytes()).map_err(|e| self.context.fail(e))?;
        tables.remove_dir(&episode).map_err(|e| self.context.fail(e))?;
        if let Some(key) = &episode.key
            && self.read.id_for_key(&episode.scope, key)? == Some(id)
        {
            let place = (episode.scope.as_str(), key.as_str());
            tables.keys.borrow_mut().remove(place).map_err(|e| self.context.fail(e))?;
        }
        let embedders = self.read.embedders()?;
        tables.remove_embeddings(&embedders, id).map_err(|e| self.context.fail(e))?;
        Ok(true)
    }

    /// Writes records that come after all that are there, in order: three times as fast as one by one.
    pub(super) fn append_episodes(&self, rows: &[SealedEpisode]) -> Result<()> {
        let tables = self.read.tables()?;
        let stored = rows.iter().map(|row| (row.episode.id.as_bytes(), row.value.as_slice()));
        tables::append(&tables.episodes, stored).map_err(|e| self.context.fail(e))?;
        for SealedEpisode { episode, .. } in rows {
            tables.put_dir(episode).map_err(|e| self.context.fail(e))?;
            tables.put_key(episode).map_err(|e| self.context.fail(e))?;
        }
        Ok(())
    }

    /// Writes the rows of vectors that come after all that are there, in order.
    pub(super) fn append_embeddings<'r>(
        &self,
        vectors: impl Iterator<Item = &'r SealedEmbedding>,
    ) -> Result<()> {
        let rows = vectors.flat_map(|vector| {
            let row = |(number, value): &'r (u32, Vec<u8>)| {
                ((vector.embedder, vector.id.as_bytes(), *number), value.as_slice())
            };
            vector.rows.iter().map(row)
        });
        tables::append(&self.read.tables()?.embeddings, rows).map_err(|e| self.context.fail(e))
    }

    /// Writes rows of `changes` that come after all that are there, in order.
    pub(super) fn append_changes<'r>(&self, rows: impl Iterator<Item = &'r SealedChange>) -> Result<()> {
        let rows = rows.map(|row| (row.change.sequence, row.value.as_slice()));
        tables::append(&self.read.tables()?.changes, rows).map_err(|e| self.context.fail(e))
    }

    /// Writes the rows of one vector.
    pub(super) fn put_embedding(&self, vector: &SealedEmbedding) -> Result<()> {
        let mut table = self.read.tables()?.embeddings.borrow_mut();
        for (number, value) in &vector.rows {
            let place = (vector.embedder, vector.id.as_bytes(), *number);
            table.insert(place, value.as_slice()).map_err(|e| self.context.fail(e))?;
        }
        Ok(())
    }

    /// Writes one row of `changes`, and removes the row of the number `replaced`.
    pub(super) fn put_change(&self, row: &SealedChange, replaced: Option<u64>) -> Result<()> {
        let mut table = self.read.tables()?.changes.borrow_mut();
        if let Some(replaced) = replaced {
            table.remove(replaced).map_err(|e| self.context.fail(e))?;
        }
        table.insert(row.change.sequence, row.value.as_slice()).map_err(|e| self.context.fail(e))?;
        Ok(())
    }

    /// Writes one row of `embedders`.
    pub(super) fn put_embedder(&self, number: u32, value: &[u8]) -> Result<()> {
        let mut table = self.read.tables()?.embedders.borrow_mut();
        table.insert(number, value).map_err(|e| self.context.fail(e))?;
        Ok(())
    }

    /// Writes one row of `meta`.
    pub(super) fn put_meta(&self, name: &str, value: &[u8]) -> Result<()> {
        let mut table = self.read.tables()?.meta.borrow_mut();
        table.insert(name, value).map_err(|e| self.context.fail(e))?;
        Ok(())
    }
}
