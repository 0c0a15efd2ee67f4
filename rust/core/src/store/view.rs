//! Reading: one snapshot, or the state inside a write transaction.

use super::failure::Context;
use super::parts::{self, Broken, Joined, Joiner, Part};
use super::rows::{Change, EmbedderRow, EmbeddingRow};
use super::seal::{Body, SealError, body_version, unseal};
use super::tables::{
    self, CHANGES, CWD_INDEX, EMBEDDERS, EMBEDDINGS, EPISODES, ID_MAX, ID_MIN, KEYS, META, OpenTables,
    SnapshotTables,
};
use crate::episode::{self, Episode, Scope};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::time::Moment;
use redb::{ReadableTable, ReadableTableMetadata};
use std::ops::{Bound, ControlFlow};

/// Where a view reads from.
pub(super) enum Source<'t> {
    Snapshot(&'t SnapshotTables),
    Open(Box<OpenTables<'t>>),
}

/// Reads of one consistent state. Everything is checked: a damaged value is an error, never an answer.
///
/// Keep it short: while a view of [`super::Store::read`] lives, the file cannot reuse the space of what is deleted.
pub struct ReadView<'t> {
    pub(super) source: Source<'t>,
    pub(super) context: &'t Context,
}

/// Runs `$call` on one table, opened at its first use in a snapshot, open already in a write transaction.
macro_rules! on_table {
    ($self:expr, $definition:ident, $field:ident, $table:ident => $call:expr) => {
        match &$self.source {
            Source::Snapshot(tables) => {
                let table = tables.table(&tables.$field, $definition);
                let $table = table.map_err(|e| $self.context.fail(e))?;
                $call
            }
            Source::Open(tables) => {
                let $table = &*tables.$field.borrow();
                $call
            }
        }
    };
}

pub(super) use on_table;

impl<'t> ReadView<'t> {
    /// The tables of the write transaction this view is in.
    pub(super) fn tables(&self) -> Result<&OpenTables<'t>> {
        match &self.source {
            Source::Open(tables) => Ok(tables),
            Source::Snapshot(_) => Err(Error::Internal("a snapshot is written to".to_owned())),
        }
    }

    /// The same, for writing: every write goes through here.
    pub(super) fn tables_to_write(&self) -> Result<&OpenTables<'t>> {
        let tables = self.tables()?;
        tables.written.set(true);
        Ok(tables)
    }

    /// The episode with this id.
    pub fn episode(&self, id: RecordId) -> Result<Option<Episode>> {
        on_table!(self, EPISODES, episodes, table => {
            let value = table.get(id.as_bytes()).map_err(|e| self.context.fail(e))?;
            value.map(|value| self.decode_episode(id, value.value())).transpose()
        })
    }

    /// Whether there is an episode with this id; its content is not looked at.
    pub fn contains(&self, id: RecordId) -> Result<bool> {
        on_table!(self, EPISODES, episodes, table => {
            Ok(table.get(id.as_bytes()).map_err(|e| self.context.fail(e))?.is_some())
        })
    }

    /// The id that owns `key` in exactly this scope.
    pub fn id_for_key(&self, scope: &Scope, key: &str) -> Result<Option<RecordId>> {
        on_table!(self, KEYS, keys, table => {
            let value = table.get((scope.as_str(), key)).map_err(|e| self.context.fail(e))?;
            let Some(value) = value else { return Ok(None) };
            let row = || format!("{key:?} in scope {:?}", scope.as_str());
            let body = self.open("keys", &tables::name_key(scope.as_str(), key), value.value(), row)?;
            let id = body.try_into().ok().and_then(|bytes| RecordId::from_bytes(bytes).ok());
            id.map(Some).ok_or_else(|| self.damaged("keys", &row()))
        })
    }

    /// Visits the episodes in order of their ids, which is the order of their creation, or the reverse.
    ///
    /// Starts behind `after` in the direction of travel. A row that cannot be read is handed over as an error, and
    /// the visit goes on; it ends at the last row, at a `Break`, or at an error of `visit`.
    pub fn episodes(
        &self,
        after: Option<RecordId>,
        newest_first: bool,
        visit: &mut dyn FnMut(RecordId, Result<Episode>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let edge = after.map(|id| *id.as_bytes());
        let (low, high) = match (&edge, newest_first) {
            (None, _) => (Bound::Unbounded, Bound::Unbounded),
            (Some(edge), false) => (Bound::Excluded(edge), Bound::Unbounded),
            (Some(edge), true) => (Bound::Unbounded, Bound::Excluded(edge)),
        };
        on_table!(self, EPISODES, episodes, table => {
            let mut rows = table.range::<&[u8; 16]>((low, high)).map_err(|e| self.context.fail(e))?;
            let mut last = after;
            loop {
                let row = if newest_first { rows.next_back() } else { rows.next() };
                let Some(row) = row else { return Ok(()) };
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                let id = self.id(key.value())?;
                let behind = last.replace(id);
                if behind.is_some_and(|behind| if newest_first { id >= behind } else { id <= behind }) {
                    return Err(self.out_of_order("episodes"));
                }
                if visit(id, self.decode_episode(id, value.value()))?.is_break() {
                    return Ok(());
                }
            }
        })
    }

    /// Ids that begin with `prefix`, hexadecimal digits as in the text form with or without hyphens; at most
    /// `limit`, smallest first.
    pub fn ids_with_prefix(&self, prefix: &str, limit: usize) -> Result<Vec<RecordId>> {
        let (low, high) = prefix_range(prefix)?;
        on_table!(self, EPISODES, episodes, table => {
            let rows = table.range::<&[u8; 16]>(&low..=&high).map_err(|e| self.context.fail(e))?;
            rows.take(limit)
                .map(|row| row.map_err(|e| self.context.fail(e)).and_then(|(key, _)| self.id(key.value())))
                .collect()
        })
    }

    /// How many episodes there are; does not depend on their number.
    pub fn count(&self) -> Result<u64> {
        on_table!(self, EPISODES, episodes, table => table.len().map_err(|e| self.context.fail(e)))
    }

    /// Ids of the episodes made in `dir`, with `below` also of those in directories under it, smallest first.
    pub fn ids_in_dir(&self, dir: &str, below: bool) -> Result<Vec<RecordId>> {
        let dir = episode::normalize_dir(dir)?;
        let mut ids = Vec::new();
        on_table!(self, CWD_INDEX, cwd_index, table => {
            let mut collect = |low: (&str, &[u8; 16]), high: Bound<(&str, &[u8; 16])>| -> Result<()> {
                let rows = table
                    .range::<(&str, &[u8; 16])>((Bound::Included(low), high))
                    .map_err(|e| self.context.fail(e))?;
                let mut last: Option<(String, [u8; 16])> = None;
                for row in rows {
                    let (key, value) = row.map_err(|e| self.context.fail(e))?;
                    let (dir, id) = key.value();
                    let behind = last.replace((dir.to_owned(), *id));
                    if behind.is_some_and(|(behind, before)| (dir, id) <= (behind.as_str(), &before)) {
                        return Err(self.out_of_order("cwd_index"));
                    }
                    self.open("cwd_index", &tables::cwd_key(dir, id), value.value(), || dir.to_owned())?;
                    ids.push(self.id(id)?);
                }
                Ok(())
            };
            collect((&dir, &ID_MIN), Bound::Included((&dir, &ID_MAX)))?;
            if below {
                // Everything that begins with `dir/`: `0` is the character after `/`.
                let stem = dir.trim_end_matches('/');
                let (low, high) = (format!("{stem}/\0"), format!("{stem}0"));
                collect((&low, &ID_MIN), Bound::Excluded((&high, &ID_MIN)))?;
            }
        });
        ids.sort_unstable();
        Ok(ids)
    }

    /// Number of the last change, 0 before the first.
    pub fn last_sequence(&self) -> Result<u64> {
        Ok(self.meta_number(tables::META_LAST_SEQUENCE)?.map_or(0, u64::from_le_bytes))
    }

    /// The changes after number `sequence`, oldest first, at most `limit`.
    pub fn changes_since(&self, sequence: u64, limit: usize) -> Result<Vec<Change>> {
        on_table!(self, CHANGES, changes, table => {
            let rows = table
                .range::<u64>((Bound::Excluded(sequence), Bound::Unbounded))
                .map_err(|e| self.context.fail(e))?;
            let mut last = sequence;
            rows.take(limit)
                .map(|row| {
                    let (key, value) = row.map_err(|e| self.context.fail(e))?;
                    let (number, row) = (key.value(), || key.value().to_string());
                    if number <= std::mem::replace(&mut last, number) {
                        return Err(self.out_of_order("changes"));
                    }
                    let body = self.open("changes", &number.to_le_bytes(), value.value(), row)?;
                    Change::parse(number, body).ok_or_else(|| self.damaged("changes", &row()))
                })
                .collect()
        })
    }

    /// The vectors of one record under one embedder, by chunk number; empty while it is pending.
    pub fn embeddings_of(&self, embedder: u32, id: RecordId) -> Result<Vec<EmbeddingRow>> {
        let mut all = Vec::new();
        self.joined((embedder, id.as_bytes(), 0), (embedder, id.as_bytes(), u32::MAX), &mut |_, row| {
            all.push(row?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// Visits all vectors of one embedder by record id, then chunk number. An unreadable one is handed over as an
    /// error that names it, as in [`ReadView::episodes`].
    pub fn embeddings(
        &self,
        embedder: u32,
        visit: &mut dyn FnMut(RecordId, Result<EmbeddingRow>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.joined((embedder, &ID_MIN, 0), (embedder, &ID_MAX, u32::MAX), visit)
    }

    fn joined(
        &self,
        low: (u32, &[u8; 16], u32),
        high: (u32, &[u8; 16], u32),
        visit: &mut dyn FnMut(RecordId, Result<EmbeddingRow>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        on_table!(self, EMBEDDINGS, embeddings, table => {
            let (mut joiner, mut last) = (Joiner::default(), None);
            let mut visit = |(chunk, row): Joined<Error>| {
                visit(self.id(&chunk.1)?, row.map_err(|fault| self.broken(chunk, fault)))
            };
            for row in table.range::<(u32, &[u8; 16], u32)>(low..=high).map_err(|e| self.context.fail(e))? {
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                let (embedder, id, number) = key.value();
                let place = (self.id(id)?, number);
                if last.replace(place).is_some_and(|behind| place <= behind) {
                    return Err(self.out_of_order("embeddings"));
                }
                let part = self.decode_part(key.value(), value.value());
                if let Some(joined) = joiner.next((embedder, *id, number), part)
                    && visit(joined)?.is_break()
                {
                    return Ok(());
                }
            }
            joiner.end().map_or(Ok(()), |joined| visit(joined).map(drop))
        })
    }

    /// All embedders this store has seen, by number.
    pub fn embedders(&self) -> Result<Vec<EmbedderRow>> {
        on_table!(self, EMBEDDERS, embedders, table => {
            let rows = table.iter().map_err(|e| self.context.fail(e))?;
            let mut last = None;
            rows.map(|row| {
                let (key, value) = row.map_err(|e| self.context.fail(e))?;
                if last.replace(key.value()).is_some_and(|behind| key.value() <= behind) {
                    return Err(self.out_of_order("embedders"));
                }
                self.decode_embedder(key.value(), value.value())
            })
            .collect()
        })
    }

    /// The embedder with this number.
    pub fn embedder(&self, number: u32) -> Result<Option<EmbedderRow>> {
        on_table!(self, EMBEDDERS, embedders, table => {
            let value = table.get(number).map_err(|e| self.context.fail(e))?;
            value.map(|value| self.decode_embedder(number, value.value())).transpose()
        })
    }

    /// The bytes stored under a name in `meta`.
    pub fn meta(&self, name: &str) -> Result<Option<Vec<u8>>> {
        on_table!(self, META, meta, table => {
            let value = table.get(name).map_err(|e| self.context.fail(e))?;
            value
                .map(|value| {
                    self.open("meta", name.as_bytes(), value.value(), || name.to_owned()).map(<[u8]>::to_vec)
                })
                .transpose()
        })
    }

    /// Which store this is: 16 random bytes from its making.
    pub fn store_id(&self) -> Result<[u8; 16]> {
        self.required(tables::META_STORE_ID)
    }

    /// When the file was made.
    pub fn created(&self) -> Result<Moment> {
        let micros = self.required(tables::META_CREATED).map(i64::from_le_bytes)?;
        Ok(Moment::utc(micros))
    }

    /// Layout version of the file.
    pub fn format_version(&self) -> Result<u32> {
        self.required(tables::META_FORMAT).map(u32::from_le_bytes)
    }

    /// Oldest layout version that may read the file.
    pub fn oldest_reader(&self) -> Result<u32> {
        self.required(tables::META_OLDEST_READER).map(u32::from_le_bytes)
    }

    /// How many times a new file took the place of the old one; 0 for the first.
    pub fn generation(&self) -> Result<u64> {
        Ok(self.meta_number(tables::META_GENERATION)?.map_or(0, u64::from_le_bytes))
    }

    /// Up to this change the feed does not tell of records that are gone: who knows the state of an earlier one cannot
    /// follow it, and reads everything anew.
    pub fn feed_start(&self) -> Result<u64> {
        Ok(self.meta_number(tables::META_FEED_START)?.map_or(0, u64::from_le_bytes))
    }

    /// Number of the embedder this home belongs to; none before its first vector.
    pub fn home_embedder(&self) -> Result<Option<u32>> {
        Ok(self.meta_number(tables::META_HOME_EMBEDDER)?.map(u32::from_le_bytes))
    }

    fn required<const N: usize>(&self, name: &'static str) -> Result<[u8; N]> {
        self.meta_number(name)?.ok_or_else(|| self.damaged("meta", &format!("{name}, which is missing")))
    }

    fn meta_number<const N: usize>(&self, name: &str) -> Result<Option<[u8; N]>> {
        on_table!(self, META, meta, table => {
            let value = table.get(name).map_err(|e| self.context.fail(e))?;
            let Some(value) = value else { return Ok(None) };
            let body = self.open("meta", name.as_bytes(), value.value(), || name.to_owned())?;
            body.try_into().map(Some).map_err(|_| self.damaged("meta", name))
        })
    }

    pub(super) fn decode_episode(&self, id: RecordId, value: &[u8]) -> Result<Episode> {
        let body = self.open_any("episodes", id.as_bytes(), value, || id.to_string())?;
        read_episode(id, body).map_err(|error| match error {
            Error::FormatTooNew { .. } => error,
            other => self.context.corrupt(format!("table episodes, row {id}: {other}")),
        })
    }

    pub(super) fn decode_part(&self, key: (u32, &[u8; 16], u32), value: &[u8]) -> Result<Part> {
        let (embedder, id, number) = key;
        let row = || chunk_name((embedder, *id, parts::place(number).0));
        let body = self.open_any("embeddings", &tables::chunk_key(embedder, id, number), value, row)?;
        Part::parse(number, body).ok_or_else(|| self.damaged("embeddings", &row()))
    }

    /// Why there is no vector.
    pub(super) fn broken(&self, chunk: parts::Chunk, fault: Broken<Error>) -> Error {
        match fault {
            Broken::Row(error) => error,
            Broken::Parts => self.context.corrupt(format!(
                "table embeddings, row {}: its parts are not all there, or are not of one vector",
                chunk_name(chunk)
            )),
        }
    }

    pub(super) fn decode_embedder(&self, number: u32, value: &[u8]) -> Result<EmbedderRow> {
        let body = self.open("embedders", &number.to_le_bytes(), value, || number.to_string())?;
        EmbedderRow::parse(number, body).ok_or_else(|| self.damaged("embedders", &number.to_string()))
    }

    pub(super) fn id(&self, bytes: &[u8; 16]) -> Result<RecordId> {
        RecordId::from_bytes(*bytes)
            .map_err(|error| self.context.corrupt(format!("a key is no record id: {error}")))
    }

    /// The body of a value whose envelope is good; `row` names it in an error.
    pub(super) fn open<'v>(
        &self,
        table: &'static str,
        key: &[u8],
        value: &'v [u8],
        row: impl Fn() -> String,
    ) -> Result<&'v [u8]> {
        self.open_any(table, key, value, row).map(|(_, body)| body)
    }

    /// The same with its version, for tables that have had several.
    fn open_any<'v>(
        &self,
        table: &'static str,
        key: &[u8],
        value: &'v [u8],
        row: impl Fn() -> String,
    ) -> Result<Body<'v>> {
        unseal(table, key, value).map_err(|error| match error {
            SealError::Damaged => self.damaged(table, &row()),
            SealError::TooNew(found) => Error::FormatTooNew {
                what: format!("{}: table {table}, row {}", self.context.path.display(), row()),
                found: u64::from(found),
                supported: u64::from(body_version(table)),
            },
        })
    }

    /// A record that an earlier look at this very state of the store has found.
    pub fn lost(&self, id: RecordId) -> Error {
        self.context.corrupt(format!(
            "table episodes, row {id}: is there in a walk and not in a look-up, so a page is not where it was written"
        ))
    }

    /// Rows come in the order of their keys. Others mean pages that are whole and not where they were written; such
    /// pages may lead back to each other, and the walk would never end.
    pub(super) fn out_of_order(&self, table: &str) -> Error {
        self.context
            .corrupt(format!("table {table}: rows out of order, so a page is not where it was written"))
    }

    pub(super) fn damaged(&self, table: &str, row: &str) -> Error {
        self.context.corrupt(format!("table {table}, row {row}: the bytes are not what was written"))
    }
}

/// Reads the body of a row of `episodes`.
pub(super) fn read_episode(id: RecordId, (version, body): Body<'_>) -> Result<Episode> {
    let episode = if version == 1 { Episode::from_json(body)? } else { Episode::from_stored(id, body)? };
    if episode.id == id {
        Ok(episode)
    } else {
        Err(Error::invalid("id", format!("is that of the record {}", episode.id)))
    }
}

fn chunk_name((embedder, id, chunk): parts::Chunk) -> String {
    match RecordId::from_bytes(id) {
        Ok(id) => format!("{id}, chunk {chunk}, embedder {embedder}"),
        Err(error) => error.to_string(),
    }
}

/// The smallest and largest id that begin with the given hexadecimal digits.
fn prefix_range(prefix: &str) -> Result<([u8; 16], [u8; 16])> {
    let (mut low, mut high) = (ID_MIN, ID_MAX);
    let digits: Option<Vec<u8>> =
        prefix.chars().filter(|c| *c != '-').map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() <= 32).ok_or_else(|| {
        Error::invalid("id", format!("{prefix:?} is not the beginning of an id (hexadecimal digits)"))
    })?;
    for (at, digit) in digits.into_iter().enumerate() {
        let (shift, mask) = if at % 2 == 0 { (4, 0x0F) } else { (0, 0xF0) };
        low[at / 2] = (low[at / 2] & mask) | (digit << shift);
        high[at / 2] = (high[at / 2] & mask) | (digit << shift);
    }
    Ok((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_any_length_become_ranges() {
        assert_eq!(prefix_range("").unwrap(), (ID_MIN, ID_MAX));
        let (low, high) = prefix_range("0192d7f0-a").unwrap();
        assert_eq!(low[..5], [0x01, 0x92, 0xD7, 0xF0, 0xA0]);
        assert_eq!(high[..5], [0x01, 0x92, 0xD7, 0xF0, 0xAF]);
        let id = RecordId::new_episode(7);
        assert_eq!(prefix_range(&id.to_string()).unwrap(), (*id.as_bytes(), *id.as_bytes()));
        for bad in ["g", "0x", "项", &"0".repeat(33)] {
            assert!(prefix_range(bad).is_err(), "{bad}");
        }
    }
}
