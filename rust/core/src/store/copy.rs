//! Copying a store into a draft while others write to it.
//!
//! Rows are read in pages, each from a snapshot of its own, since a long read transaction keeps the file from using
//! space again. What changed meanwhile is brought over by the change feed, whose rows name the ids: applying one means
//! to drop the record's old form and to write what the store says now. After the last round the draft equals the one
//! snapshot that round was read from.
//!
//! Of the feed itself the draft gets the last row of every record that is there, and the very last row: a feed that is
//! never cut would grow for ever. Who follows it from a state before the copy was begun would not hear of what is gone,
//! so `feed_start` says from where on it tells everything. Vectors of an embedder whose place another took stay behind.

use super::Store;
use super::draft::{Draft, DraftTables};
use super::rows::{NO_EMBEDDER, Operation};
use super::seal::seal;
use super::tables::{
    FORMAT_VERSION, META_FEED_START, META_FORMAT, META_GENERATION, META_OLDEST_READER, OLDEST_READER,
};
use super::view::ReadView;
use crate::error::{Error, Result};
use crate::ids::RecordId;
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes read in one snapshot.
const PAGE_BYTES: usize = 8 << 20;
/// Rows of the feed read in one snapshot.
const PAGE_CHANGES: usize = 20_000;
/// So few changes may be left when everybody else is made to wait.
const FEW: usize = 200;
/// After so many rounds there will never be few.
const MOST_ROUNDS: usize = 20;

/// Called with the rows that are done and how many there are, about; `true` ends the work with [`Error::Interrupted`].
pub type Progress<'a> = dyn FnMut(u64, u64) -> bool + 'a;

/// See the module.
pub(super) struct Copier {
    /// Up to this change the draft has everything.
    sequence: u64,
    /// The change it was begun at.
    begun: u64,
    generation: u64,
    store_id: [u8; 16],
    /// Number of the last change of each record.
    last: FxHashMap<RecordId, u64>,
    /// How many records changed or went after they were copied.
    outdated: u64,
}

impl Copier {
    /// Copies everything but what changes meanwhile.
    pub(super) fn copy(source: &Store, draft: &Draft, progress: &mut Progress<'_>) -> Result<Self> {
        let (mut copier, total, embedders) = source.read(|view| {
            let copier = Self {
                sequence: view.last_sequence()?,
                begun: view.last_sequence()?,
                generation: view.generation()?,
                store_id: view.store_id()?,
                last: FxHashMap::default(),
                outdated: 0,
            };
            Ok((copier, view.count()? + view.count_embeddings()?, view.sealed_embedders()?))
        })?;
        draft.write(|tables| put_embedders(tables, &embedders))?;
        let mut done = 0;
        let mut report = |more: usize| {
            done += more as u64;
            if progress(done.min(total), total) { Err(Error::Interrupted) } else { Ok(()) }
        };
        report(0)?;
        copier.copy_episodes(source, draft, &mut report)?;
        copier.copy_embeddings(source, draft, &mut report)?;
        copier.copy_changes(source, draft, &mut report)?;
        Ok(copier)
    }

    fn copy_episodes(
        &self,
        source: &Store,
        draft: &Draft,
        report: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let page = source.read(|view| {
                self.check(view)?;
                view.sealed_episodes(after, PAGE_BYTES)
            })?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.episode.id);
            draft.write(|tables| tables.append_episodes(&page))?;
            report(page.len())?;
        }
    }

    fn copy_embeddings(
        &self,
        source: &Store,
        draft: &Draft,
        report: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let (mut page, nobodys) = source.read(|view| {
                self.check(view)?;
                Ok((view.sealed_embeddings_after(after.as_ref(), PAGE_BYTES)?, replaced(view)?))
            })?;
            draft.write(|tables| {
                let mut kept = Vec::with_capacity(page.len());
                for row in &page {
                    // One whose record is gone was forgotten since the records were read.
                    if !nobodys.contains(&row.embedder) && tables.contains(row.id)? {
                        kept.push(row);
                    }
                }
                tables.append_embeddings(kept.into_iter())
            })?;
            let copied = page.iter().map(|vector| vector.rows.len()).sum();
            after = page.pop();
            if after.is_none() {
                return Ok(());
            }
            report(copied)?;
        }
    }

    fn copy_changes(
        &mut self,
        source: &Store,
        draft: &Draft,
        report: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        for copying in [false, true] {
            let mut after = 0;
            while after < self.sequence {
                let page = source.read(|view| {
                    self.check(view)?;
                    view.sealed_changes(after, PAGE_CHANGES)
                })?;
                let Some(last) = page.last() else { break };
                after = last.change.sequence;
                let known = page.iter().filter(|row| row.change.sequence <= self.sequence);
                if copying {
                    let kept = known.filter(|row| {
                        let change = &row.change;
                        let is_last = self.last[&change.id] == change.sequence;
                        is_last && (change.operation != Operation::Delete || change.sequence == self.sequence)
                    });
                    draft.write(|tables| tables.append_changes(kept))?;
                } else {
                    self.last.extend(known.map(|row| (row.change.id, row.change.sequence)));
                }
                report(0)?;
            }
        }
        Ok(())
    }

    /// Brings over what changed, until little is left.
    pub(super) fn catch_up(
        &mut self,
        source: &Store,
        draft: &Draft,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        for _ in 0..MOST_ROUNDS {
            let applied = source.read(|view| self.apply(view, draft))?;
            if interrupted() {
                return Err(Error::Interrupted);
            }
            if applied <= FEW {
                break;
            }
        }
        Ok(())
    }

    /// Makes the draft equal to what `view` shows, with this generation.
    pub(super) fn settle(&mut self, view: &ReadView<'_>, draft: &Draft, generation: u64) -> Result<()> {
        while self.apply(view, draft)? > 0 {}
        let meta = view.sealed_meta()?;
        draft.write(|tables| {
            for (name, value) in &meta {
                tables.put_meta(name, value)?;
            }
            let put = |name: &str, body: &[u8]| tables.put_meta(name, &seal("meta", name.as_bytes(), body));
            // Whatever form the rows had, they have the present one now.
            put(META_FORMAT, &FORMAT_VERSION.to_le_bytes())?;
            put(META_OLDEST_READER, &OLDEST_READER.to_le_bytes())?;
            put(META_FEED_START, &self.begun.to_le_bytes())?;
            if generation > 0 {
                put(META_GENERATION, &generation.to_le_bytes())?;
            }
            Ok(())
        })
    }

    /// How many records changed or went after they were copied: the bytes of their old form may be left in the draft.
    pub(super) fn outdated(&self) -> u64 {
        self.outdated
    }

    /// Applies the next changes. Returns how many.
    fn apply(&mut self, view: &ReadView<'_>, draft: &Draft) -> Result<usize> {
        self.check(view)?;
        let changes = view.sealed_changes(self.sequence, PAGE_CHANGES)?;
        let Some(last) = changes.last() else { return Ok(0) };
        let sequence = last.change.sequence;
        let embedders = view.sealed_embedders()?;
        let nobodys = replaced(view)?;
        let numbers: Vec<u32> = std::iter::once(NO_EMBEDDER)
            .chain(embedders.iter().map(|(number, _)| *number).filter(|number| !nobodys.contains(number)))
            .collect();
        let mut replaced = FxHashSet::default();
        draft.write(|tables| {
            put_embedders(tables, &embedders)?;
            // All old forms go before any new one comes: a key may have moved from one record to another.
            let ids: Vec<RecordId> =
                changes.iter().map(|row| row.change.id).filter(|id| replaced.insert(*id)).collect();
            for id in &ids {
                self.outdated += u64::from(tables.remove_episode(*id)?);
            }
            for id in ids {
                let Some(row) = view.sealed_episode(id)? else { continue };
                tables.put_episode(&row)?;
                for number in &numbers {
                    let rows = view.sealed_embeddings_of(*number, id)?;
                    rows.iter().try_for_each(|row| tables.put_embedding(row))?;
                }
            }
            for row in &changes {
                let before = self.last.insert(row.change.id, row.change.sequence);
                tables.put_change(row, before)?;
            }
            Ok(())
        })?;
        self.sequence = sequence;
        Ok(changes.len())
    }

    /// That this is still the file the copy was begun from: after a repair its feed does not tell everything.
    fn check(&self, view: &ReadView<'_>) -> Result<()> {
        if view.store_id()? == self.store_id && view.generation()? == self.generation {
            return Ok(());
        }
        let what = view.context.path.display().to_string();
        Err(Error::Conflict {
            what,
            detail: "was compacted or repaired while it was copied; repeat".to_owned(),
        })
    }
}

/// Numbers of the embedders whose vectors are nobody's.
fn replaced(view: &ReadView<'_>) -> Result<Vec<u32>> {
    let embedders = view.embedders()?;
    Ok(embedders.iter().filter(|embedder| embedder.is_replaced()).map(|embedder| embedder.number).collect())
}

fn put_embedders(tables: &DraftTables<'_>, embedders: &[(u32, Vec<u8>)]) -> Result<()> {
    embedders.iter().try_for_each(|(number, value)| tables.put_embedder(*number, value))
}
