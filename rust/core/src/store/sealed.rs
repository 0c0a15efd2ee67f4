//! Reading rows as they are stored, in their envelopes, to be copied. Each is decoded on the way: damage is an error
//! here as everywhere, so that nothing unreadable is carried into a new file or left out of it without a word. Rows of
//! an earlier form are handed over in the present one.

use super::parts::{self, Chunk, Joined, Joiner};
use super::rows::{Change, EmbeddingRow};
use super::seal::{is_present, seal};
use super::tables::{self, CHANGES, EMBEDDERS, EMBEDDINGS, EPISODES, ID_MAX, ID_MIN, META};
use super::view::{ReadView, Source, on_table};
use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::ids::RecordId;
use redb::{ReadableTable, ReadableTableMetadata};
use std::ops::Bound;

/// A record, and its value as it is stored.
pub(super) struct SealedEpisode {
    pub(super) episode: Episode,
    pub(super) value: Vec<u8>,
}

impl SealedEpisode {
    /// From a value that was found good.
    pub(super) fn of(episode: Episode, value: Vec<u8>) -> Result<Self> {
        let value = if is_present("episodes", &value) { value } else { seal_episode(&episode)? };
        Ok(Self { episode, value })
    }
}

/// The value of a record.
pub(super) fn seal_episode(episode: &Episode) -> Result<Vec<u8>> {
    Ok(seal("episodes", episode.id.as_bytes(), &episode.to_stored()?))
}

/// One vector as it is stored: last component of the key, and value, of each of its rows.
pub(super) struct SealedEmbedding {
    pub(super) embedder: u32,
    pub(super) id: RecordId,
    pub(super) rows: Vec<(u32, Vec<u8>)>,
}

impl SealedEmbedding {
    /// The rows of a vector.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for one that is too long, or of too many chunks.
    pub(super) fn of(embedder: u32, id: RecordId, row: &EmbeddingRow) -> Result<Self> {
        let too_large =
            || Error::invalid("vector", format!("chunk {} of {id} is too large to store", row.chunk));
        let mut rows = parts::cut(row).ok_or_else(too_large)?;
        for (number, body) in &mut rows {
            *body = seal("embeddings", &tables::chunk_key(embedder, id.as_bytes(), *number), body);
        }
        Ok(Self { embedder, id, rows })
    }

    fn last(&self) -> (u32, &[u8; 16], u32) {
        let last = self.rows.last().map_or(u32::MAX, |(number, _)| *number);
        (self.embedder, self.id.as_bytes(), last)
    }
}

/// One row of the change feed as it is stored.
pub(super) struct SealedChange {
    pub(super) change: Change,
    pub(super) value: Vec<u8>,
}

impl ReadView<'_> {
    /// The record with this id.
    pub(super) fn sealed_episode(&self, id: RecordId) -> Result<Option<SealedEpisode>> {
        on_table!(self, EPISODES, episodes, table => {
            let found = table.get(id.as_bytes()).map_err(|e| self.context.fail(e))?;
            let Some(found) = found else { return Ok(None) };
            let value = found.value().to_vec();
            SealedEpisode::of(self.decode_episode(id, &value)?, value).map(Some)
        })
    }

    /// The records after `after` in order of their ids, until `bytes` are reached.
    pub(super) fn sealed_episodes(
        &self,
        after: Option<RecordId>,
        bytes: usize,
    ) -> Result<Vec<SealedEpisode>> {
        let edge = after.map(|id| *id.as_bytes());
        let low = edge.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut rows, mut read, mut last) = (Vec::new(), 0, after);
        on_table!(self, EPISODES, episodes, table => {
            let range = table.range::<&[u8; 16]>((low, Bound::Unbounded)).map_err(|e| self.context.fail(e))?;
            for row in range {
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                let value = value.value().to_vec();
                read += value.len();
                let id = self.id(key.value())?;
                if last.replace(id).is_some_and(|behind| id <= behind) {
                    return Err(self.out_of_order("episodes"));
                }
                rows.push(SealedEpisode::of(self.decode_episode(id, &value)?, value)?);
                if read >= bytes {
                    break;
                }
            }
        });
        Ok(rows)
    }

    /// The vectors of one record under one embedder.
    pub(super) fn sealed_embeddings_of(&self, embedder: u32, id: RecordId) -> Result<Vec<SealedEmbedding>> {
        let low = Bound::Included((embedder, id.as_bytes(), 0));
        let high = Bound::Included((embedder, id.as_bytes(), u32::MAX));
        self.sealed_embeddings(low, high, usize::MAX)
    }

    /// The vectors after `after` by embedder, record and chunk, until `bytes` are reached.
    pub(super) fn sealed_embeddings_after(
        &self,
        after: Option<&SealedEmbedding>,
        bytes: usize,
    ) -> Result<Vec<SealedEmbedding>> {
        let low = match after {
            Some(row) => Bound::Excluded(row.last()),
            None => Bound::Included((0, &ID_MIN, 0)),
        };
        self.sealed_embeddings(low, Bound::Included((u32::MAX, &ID_MAX, u32::MAX)), bytes)
    }

    fn sealed_embeddings(
        &self,
        low: Bound<(u32, &[u8; 16], u32)>,
        high: Bound<(u32, &[u8; 16], u32)>,
        bytes: usize,
    ) -> Result<Vec<SealedEmbedding>> {
        let (mut all, mut read, mut joiner) = (Vec::new(), 0, Joiner::default());
        let mut last = None;
        // Of the vector that is being joined.
        let mut rows = Vec::new();
        let mut joined = |(chunk, row): Joined<Error>, rows: Vec<(u32, Vec<u8>)>| -> Result<()> {
            let row = row.map_err(|fault| self.broken(chunk, fault))?;
            let (embedder, id, _): Chunk = chunk;
            let id = self.id(&id)?;
            let present = rows.iter().all(|(_, value)| is_present("embeddings", value));
            all.push(if present {
                SealedEmbedding { embedder, id, rows }
            } else {
                SealedEmbedding::of(embedder, id, &row)?
            });
            Ok(())
        };
        on_table!(self, EMBEDDINGS, embeddings, table => {
            let range =
                table.range::<(u32, &[u8; 16], u32)>((low, high)).map_err(|e| self.context.fail(e))?;
            for row in range {
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                let (embedder, id, number) = key.value();
                let place = (embedder, *id, number);
                if last.replace(place).is_some_and(|behind| place <= behind) {
                    return Err(self.out_of_order("embeddings"));
                }
                let value = value.value().to_vec();
                let part = self.decode_part(key.value(), &value)?;
                if let Some(done) = joiner.next((embedder, *id, number), Ok(part)) {
                    joined(done, std::mem::take(&mut rows))?;
                    // The row at hand is read again: it begins the next page.
                    if read >= bytes {
                        return Ok(all);
                    }
                }
                read += value.len();
                rows.push((number, value));
            }
        });
        if let Some(done) = joiner.end() {
            joined(done, rows)?;
        }
        Ok(all)
    }

    /// The changes after number `sequence`, oldest first, at most `limit`.
    pub(super) fn sealed_changes(&self, sequence: u64, limit: usize) -> Result<Vec<SealedChange>> {
        on_table!(self, CHANGES, changes, table => {
            let range = table
                .range::<u64>((Bound::Excluded(sequence), Bound::Unbounded))
                .map_err(|e| self.context.fail(e))?;
            let mut last = sequence;
            let decode = |row: Result<_, redb::StorageError>| {
                let (key, value): (redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, &[u8]>) =
                    row.map_err(|e| self.context.fail(e))?;
                let (number, value) = (key.value(), value.value().to_vec());
                if number <= std::mem::replace(&mut last, number) {
                    return Err(self.out_of_order("changes"));
                }
                let body = self.open("changes", &number.to_le_bytes(), &value, || number.to_string())?;
                let change = Change::parse(number, body);
                let change = change.ok_or_else(|| self.damaged("changes", &number.to_string()))?;
                Ok(SealedChange { change, value })
            };
            range.take(limit).map(decode).collect()
        })
    }

    /// How many rows `embeddings` has; does not depend on their number.
    pub(super) fn count_embeddings(&self) -> Result<u64> {
        on_table!(self, EMBEDDINGS, embeddings, table => table.len().map_err(|e| self.context.fail(e)))
    }

    /// All embedders by number.
    pub(super) fn sealed_embedders(&self) -> Result<Vec<(u32, Vec<u8>)>> {
        on_table!(self, EMBEDDERS, embedders, table => {
            let rows = table.iter().map_err(|e| self.context.fail(e))?;
            rows.map(|row| {
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                let (number, value) = (key.value(), value.value().to_vec());
                self.decode_embedder(number, &value)?;
                Ok((number, value))
            })
            .collect()
        })
    }

    /// All of `meta` by name.
    pub(super) fn sealed_meta(&self) -> Result<Vec<(String, Vec<u8>)>> {
        on_table!(self, META, meta, table => {
            let rows = table.iter().map_err(|e| self.context.fail(e))?;
            rows.map(|row| {
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                let (name, value) = (key.value().to_owned(), value.value().to_vec());
                self.open("meta", name.as_bytes(), &value, || name.clone())?;
                Ok((name, value))
            })
            .collect()
        })
    }
}
