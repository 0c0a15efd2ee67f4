//! Writing: what a job may do inside its write transaction.

use super::failure::Context;
use super::rows::{
    Change, Embedded, EmbedderRow, EmbeddingRow, GIVEN, NO_EMBEDDER, Operation, REPLACED, RecordKind,
};
use super::seal::{seal, seal_parts};
use super::sealed::{SealedEmbedding, seal_episode};
use super::tables::{self, FORMAT_VERSION, ID_MAX, ID_MIN, OLDEST_READER, OpenTables};
use super::view::{ReadView, Source};
use crate::episode::{Episode, Scope};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use redb::{CursorError, ReadableTable};
use std::hash::{BuildHasher, RandomState};
use std::ops::{ControlFlow, Deref};

/// Everything of [`ReadView`], and changes. All of it becomes visible and durable together, or not at all.
pub struct WriteView<'t> {
    read: ReadView<'t>,
    sequence: u64,
    /// The rows of `changes` from `first_sequence` on, written together at the end.
    log: Vec<Vec<u8>>,
    first_sequence: u64,
    changed: bool,
    /// Random number of this transaction, in each of its changes.
    nonce: u64,
}

impl<'t> Deref for WriteView<'t> {
    type Target = ReadView<'t>;

    fn deref(&self) -> &Self::Target {
        &self.read
    }
}

impl<'t> WriteView<'t> {
    pub(super) fn new(tables: OpenTables<'t>, context: &'t Context) -> Result<Self> {
        let read = ReadView { source: Source::Open(Box::new(tables)), context };
        let sequence = read.last_sequence()?;
        // Seeded by the system anew for every state.
        let nonce = RandomState::new().hash_one(sequence);
        Ok(Self { read, sequence, log: Vec::new(), first_sequence: sequence, changed: false, nonce })
    }

    /// To be called before each job of the transaction.
    pub(super) fn begin_job(&self) -> Result<()> {
        self.read.tables()?.written.set(false);
        Ok(())
    }

    /// Whether the present job may have written: if not, it may fail and the transaction go on.
    pub(super) fn job_wrote(&self) -> Result<bool> {
        Ok(self.read.tables()?.written.get())
    }

    /// Number of the last change, this transaction's own among them.
    pub fn last_sequence(&self) -> Result<u64> {
        Ok(self.sequence)
    }

    /// Writes `episode`, new or over its old version, with its directory and key.
    ///
    /// `previous` is the version that is stored now, if the caller has it; it is looked up otherwise.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another episode that is there owns the key in this scope.
    pub fn put_episode(&mut self, episode: &Episode, previous: Option<&Episode>) -> Result<()> {
        let stored;
        let mut previous = previous.filter(|previous| previous.id == episode.id);
        if previous.is_none() {
            stored = self.read.episode(episode.id)?;
            previous = stored.as_ref();
        }
        if let Some(key) = &episode.key
            && let Some(owner) = self.read.id_for_key(&episode.scope, key)?
            && owner != episode.id
            && self.read.contains(owner)?
        {
            return Err(Error::Conflict {
                what: format!("key {key:?}"),
                detail: format!(
                    "belongs to episode {owner} in scope {:?}; update that one, or give another key",
                    episode.scope.as_str()
                ),
            });
        }
        let value = seal_episode(episode)?;
        let id = episode.id.as_bytes();
        let same_dir = previous.is_some_and(|previous| previous.working_dir == episode.working_dir);
        let same_key = previous.is_some_and(|p| (&p.scope, &p.key) == (&episode.scope, &episode.key));
        if let Some(previous) = previous {
            if !same_dir {
                self.read.tables_to_write()?.remove_dir(previous).map_err(|e| self.read.context.fail(e))?;
            }
            if !same_key {
                self.remove_key(&previous.scope, previous.key.as_deref(), previous.id)?;
            }
        }
        {
            let mut table = self.read.tables_to_write()?.episodes.borrow_mut();
            table.insert(id, value.as_slice()).map_err(|e| self.read.context.fail(e))?;
            // A page that lies in the place of another takes the row in and is not where it is looked for: about a
            // microsecond, so that nothing is acknowledged that cannot be found.
            let found = table.get(id).map_err(|e| self.read.context.fail(e))?;
            if found.is_none_or(|found| found.value() != value) {
                return Err(self.read.context.corrupt(format!(
                    "table episodes, row {}: what was written there is not found again",
                    episode.id
                )));
            }
        }
        if !same_dir {
            self.read.tables_to_write()?.put_dir(episode).map_err(|e| self.read.context.fail(e))?;
        }
        if !same_key {
            self.read.tables_to_write()?.put_key(episode).map_err(|e| self.read.context.fail(e))?;
        }
        self.log(Operation::Put, episode.id)
    }

    /// Removes `episode` from every table: its key, its directory, the vectors of all embedders. What is stored
    /// counts, the given version only where the stored one cannot be read. Returns whether it was there.
    pub fn delete_episode(&mut self, episode: &Episode) -> Result<bool> {
        let stored = self.read.episode(episode.id).ok().flatten();
        let episode = stored.as_ref().unwrap_or(episode);
        let removed = self
            .read
            .tables_to_write()?
            .episodes
            .borrow_mut()
            .remove(episode.id.as_bytes())
            .map_err(|e| self.read.context.fail(e))?
            .is_some();
        self.read.tables_to_write()?.remove_dir(episode).map_err(|e| self.read.context.fail(e))?;
        self.remove_key(&episode.scope, episode.key.as_deref(), episode.id)?;
        let vectors = self.remove_embeddings(None, episode.id)?;
        if removed {
            self.log(Operation::Delete, episode.id)?;
        }
        self.changed |= removed || vectors;
        Ok(removed)
    }

    /// Makes `rows` the record's vectors under `embedder`, in place of all it had. Under [`NO_EMBEDDER`] there can be
    /// refusals only.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`] for a row of another width than the embedder's, [`Error::NotFound`] for an
    /// embedder that was never registered, [`Error::InvalidInput`] for a row that is too large to store.
    pub fn put_embeddings(&mut self, embedder: u32, id: RecordId, rows: &[EmbeddingRow]) -> Result<()> {
        let known = self.read.embedder(embedder)?.map(|known| known.dim as usize);
        let known = known.or((embedder == NO_EMBEDDER).then_some(0));
        let expected = known.ok_or_else(|| Error::NotFound { what: "embedder", id: embedder.to_string() })?;
        for row in rows {
            if let Embedded::Row(vector) = &row.vector
                && vector.len() != expected
            {
                return Err(Error::DimensionMismatch { what: "vector", expected, found: vector.len() });
            }
        }
        self.remove_embeddings(Some(embedder), id)?;
        {
            let mut table = self.read.tables_to_write()?.embeddings.borrow_mut();
            for row in rows {
                for (number, value) in SealedEmbedding::of(embedder, id, row)?.rows {
                    table
                        .insert((embedder, id.as_bytes(), number), value.as_slice())
                        .map_err(|e| self.read.context.fail(e))?;
                }
            }
        }
        self.log(Operation::Embed, id)
    }

    /// Removes the record's vectors under every embedder. Returns whether there were any.
    pub fn delete_embeddings(&mut self, id: RecordId) -> Result<bool> {
        let removed = self.remove_embeddings(None, id)?;
        if removed {
            self.log(Operation::Embed, id)?;
        }
        Ok(removed)
    }

    /// The number of the embedder with this fingerprint, given out now if it is new.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`] when it is known with another width.
    pub fn register_embedder(&mut self, fingerprint: &str, dim: u32) -> Result<u32> {
        let known = self.read.embedders()?;
        if let Some(row) = known.iter().find(|row| row.fingerprint == fingerprint) {
            if row.dim == dim {
                return Ok(row.number);
            }
            let (expected, found) = (row.dim as usize, dim as usize);
            return Err(Error::DimensionMismatch { what: "the embedder", expected, found });
        }
        let number = known.last().map_or(1, |row| row.number + 1);
        self.name_embedder(number, fingerprint, dim)?;
        Ok(number)
    }

    fn name_embedder(&mut self, number: u32, fingerprint: &str, dim: u32) -> Result<()> {
        let value =
            seal_parts("embedders", &number.to_le_bytes(), &[&dim.to_le_bytes(), fingerprint.as_bytes()]);
        let mut table = self.read.tables_to_write()?.embedders.borrow_mut();
        table.insert(number, value.as_slice()).map_err(|e| self.read.context.fail(e))?;
        self.changed = true;
        Ok(())
    }

    /// Makes `number` the embedder this home belongs to.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an embedder that was never registered.
    pub fn set_home_embedder(&mut self, number: u32) -> Result<()> {
        if self.read.embedder(number)?.is_none() {
            return Err(Error::NotFound { what: "embedder", id: number.to_string() });
        }
        if self.read.home_embedder()? == Some(number) {
            return Ok(());
        }
        self.set_meta(tables::META_HOME_EMBEDDER, &number.to_le_bytes())
    }

    /// Gives the home to `number`, or to whichever embedder comes next. The vectors of the one it belonged to are nobody's
    /// from here on, except those that callers gave: nobody can make these again. The feed tells, so that every copy is
    /// made anew.
    ///
    /// A number never means another embedder than before, so that no copy takes rows for those of its own: the one that
    /// is replaced keeps its number under another name, and gets a new one if it comes back.
    ///
    /// # Errors
    /// [`Error::NotFound`] for an embedder that was never registered.
    pub fn replace_home_embedder(&mut self, number: Option<u32>) -> Result<()> {
        let old = self.read.home_embedder()?;
        if old == number {
            return Ok(());
        }
        if let Some(number) = number {
            self.set_home_embedder(number)?;
        } else {
            let mut table = self.read.tables_to_write()?.meta.borrow_mut();
            table.remove(tables::META_HOME_EMBEDDER).map_err(|e| self.read.context.fail(e))?;
            self.changed = true;
        }
        if let Some(old) = old.map(|number| self.read.embedder(number)).transpose()?.flatten()
            && !old.fingerprint.starts_with(GIVEN)
        {
            self.name_embedder(old.number, &format!("{REPLACED}{}", old.fingerprint), old.dim)?;
        }
        self.tell_of_vectors()
    }

    /// A row of the feed that changes nothing, for what concerns no record and all of them.
    fn tell_of_vectors(&mut self) -> Result<()> {
        let mut some = None;
        self.read.episodes(None, false, &mut |id, _| {
            some = Some(id);
            Ok(ControlFlow::Break(()))
        })?;
        match some {
            Some(id) => self.log(Operation::Embed, id),
            // Nobody knows this id, and that it is gone is true.
            None => self.log(Operation::Delete, RecordId::new_episode(0)),
        }
    }

    /// Removes about `most` rows of vectors that are nobody's any more, all of a record or none. Returns how many; 0 when
    /// none are left. No copy has any of them, so the feed says nothing of it.
    pub fn purge_replaced(&mut self, most: usize) -> Result<usize> {
        for embedder in self.read.embedders()?.into_iter().filter(EmbedderRow::is_replaced) {
            let mut table = self.read.tables_to_write()?.embeddings.borrow_mut();
            let low = (embedder.number, &ID_MIN, 0);
            let last = {
                let rows = table
                    .range::<(u32, &[u8; 16], u32)>(low..=(embedder.number, &ID_MAX, u32::MAX))
                    .map_err(|e| self.read.context.fail(e))?;
                let last = rows.take(most.max(1)).last().transpose();
                last.map_err(|e| self.read.context.fail(e))?.map(|(key, _)| *key.value().1)
            };
            let Some(id) = last else { continue };
            let mut removed = 0;
            table
                .retain_in::<(u32, &[u8; 16], u32), _>(low..=(embedder.number, &id, u32::MAX), |_, _| {
                    removed += 1;
                    false
                })
                .map_err(|e| self.read.context.fail(e))?;
            self.changed = true;
            return Ok(removed);
        }
        Ok(0)
    }

    /// Stores `body` under a name in `meta`.
    pub fn set_meta(&mut self, name: &str, body: &[u8]) -> Result<()> {
        let value = seal("meta", name.as_bytes(), body);
        let mut table = self.read.tables_to_write()?.meta.borrow_mut();
        table.insert(name, value.as_slice()).map_err(|e| self.read.context.fail(e))?;
        self.changed = true;
        Ok(())
    }

    /// Writes what is kept until the end of the transaction. Returns whether there is anything to commit.
    ///
    /// The first commit to a file of an earlier format makes it one of this: builds that know only that one would meet
    /// rows that they cannot read.
    pub(super) fn finish(mut self) -> Result<bool> {
        if self.changed && self.read.format_version()? < FORMAT_VERSION {
            self.set_meta(tables::META_FORMAT, &FORMAT_VERSION.to_le_bytes())?;
            self.set_meta(tables::META_OLDEST_READER, &OLDEST_READER.to_le_bytes())?;
        }
        if self.sequence != self.first_sequence {
            let rows = (self.first_sequence + 1..).zip(&self.log);
            tables::append(&self.read.tables_to_write()?.changes, rows).map_err(|error| match error {
                CursorError::UnorderedKey => self.read.out_of_order("changes"),
                error => self.read.context.fail(error),
            })?;
            let sequence = self.sequence;
            self.set_meta(tables::META_LAST_SEQUENCE, &sequence.to_le_bytes())?;
        }
        Ok(self.changed)
    }

    fn log(&mut self, operation: Operation, id: RecordId) -> Result<()> {
        let sequence = self.sequence + 1;
        let value = seal(
            "changes",
            &sequence.to_le_bytes(),
            &Change::body(operation, RecordKind::Episode, id, self.nonce),
        );
        // Marks the job as one that wrote.
        self.read.tables_to_write()?;
        self.log.push(value);
        self.sequence = sequence;
        self.changed = true;
        Ok(())
    }

    /// Gives a key back, unless it went to another record in the meantime.
    fn remove_key(&mut self, scope: &Scope, key: Option<&str>, id: RecordId) -> Result<()> {
        if let Some(key) = key
            && self.read.id_for_key(scope, key)? == Some(id)
        {
            let mut table = self.read.tables_to_write()?.keys.borrow_mut();
            table.remove((scope.as_str(), key)).map_err(|e| self.read.context.fail(e))?;
        }
        Ok(())
    }

    fn remove_embeddings(&mut self, embedder: Option<u32>, id: RecordId) -> Result<bool> {
        let removed = match embedder {
            Some(number) => self.read.tables_to_write()?.remove_embeddings_of(number, id),
            None => self.read.tables_to_write()?.remove_embeddings(&self.read.embedders()?, id),
        };
        removed.map_err(|e| self.read.context.fail(e))
    }
}
