//! A whole file in the place of a damaged one.
//!
//! The damaged file is only read. What is good in it goes into a draft beside it; the draft is checked as any file is;
//! what cannot be used goes into `lost+found` as files; the damaged file gets a dated name; the draft takes its place.
//! The writer lock of the damaged file is held from the first look until then, so nothing is written to a file that
//! is about to be set aside, and whoever waited goes on in the new one.

use super::super::compact::swap;
use super::super::copy::Progress;
use super::super::draft::{Draft, DraftTables};
use super::super::failure::Context;
use super::super::handle::{Access, Place, sync_parent};
use super::super::maintenance::MaintenanceLock;
use super::super::rows::{Change, Embedded, Operation, RecordKind};
use super::super::seal::{seal, seal_parts};
use super::super::sealed::{SealedChange, SealedEmbedding, SealedEpisode};
use super::super::tables::{self, FORMAT_VERSION, OLDEST_READER};
use super::super::{Store, StoreOptions};
use super::held_back::{self, HeldBack};
use super::holes;
use super::lost_found::LostFound;
use super::pages::Pages;
use super::report::{Loss, Repaired};
use super::row::{Key, Row, RowFault, Table, decode, id_text};
use super::salvage::{Salvage, Spot};
use super::still::Still;
use super::{Inspection, Judged};
use crate::error::{Error, Result};
use crate::files::owner;
use crate::ids::RecordId;
use crate::time::{Clock, SystemClock};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes written in one transaction of the draft.
const BATCH: u64 = 8 << 20;

impl Store {
    /// Checks the store file of `home`, and puts a whole one in its place if it is damaged.
    ///
    /// The damaged file is kept, byte for byte, under a name with the date; bytes that cannot be brought back lie in
    /// `lost+found`. Nothing is deleted. Writers wait while it runs and go on in the new file. With `distrust` a new file
    /// is made also if nothing is found, and redb is not asked: for a file whose check ended the process.
    ///
    /// # Errors
    /// As [`Store::verify`]; [`Error::Store`] when another process compacts or repairs, when the file is replaced
    /// meanwhile, and for a full disk. The file is as it was then.
    pub fn repair(
        home: &Path,
        options: &StoreOptions,
        distrust: bool,
        progress: &mut Progress<'_>,
    ) -> Result<Repaired> {
        let place = Place::of(home, options);
        let context = place.context();
        // What is no home is left as it is.
        place.open_file(true, &context)?;
        let lock = MaintenanceLock::take(&place)?;
        lock.remove_stale_drafts(&place)?;
        let still = Still::open(&place, &context, false)?;
        let mut pages = Pages::new(Arc::clone(&still.backend)).map_err(|error| context.io(error))?;
        pages.skip_holes(still.second_file(&place));
        // Looking at the file, looking at what no tree leads to, writing the new one.
        let third = pages.file_len();
        let all = third.saturating_mul(3);
        let mut tell =
            |done: u64| if progress(done.min(all), all) { Err(Error::Interrupted) } else { Ok(()) };
        let mut salvage = Salvage::default();
        let mut inspection = Inspection { search: true, ..Inspection::default() };
        let mut on_row =
            |judged: &Judged<'_>| salvage.row(judged.table, judged.key, judged.found, judged.row);
        inspection.run(&mut pages, &context, &mut |done, _| tell(done).is_err(), &mut on_row)?;
        inspection.checker.check_format(&place.path, true)?;
        salvage.trees(inspection.checker.trees());
        salvage.content_lost = inspection.content_lost();
        salvage.adrift = inspection.adrift;
        salvage.gaps = inspection.gaps();
        salvage.rows_said = inspection.embeddings;
        let mut before = inspection.finish(&still, third, !distrust);
        if before.problems.is_empty() && !distrust {
            before.held_ms = still.held_ms();
            return Ok(Repaired { before, ..Repaired::default() });
        }
        if let Some(newer) = salvage.unreadable.iter().find_map(|row| match &row.fault {
            RowFault::TooNew(found) => Some((row, *found)),
            _ => None,
        }) {
            let (row, found) = newer;
            let key = row.key.as_ref().map_or_else(String::new, ToString::to_string);
            let what = format!("{}: table {}, row {key}", place.path.display(), row.table.name());
            return Err(Error::FormatTooNew { what, found, supported: u64::from(FORMAT_VERSION) });
        }
        if salvage.must_scan() {
            let step = &mut |done| stopping(tell(third + done));
            let outcome = salvage.scan(&pages, &inspection.visited, step);
            outcome.map_err(|error| stopped(error, &context))?;
        }
        salvage.decide(&pages).map_err(|error| context.io(error))?;
        let mut builder = Rebuild { pages: &pages, salvage: &mut salvage, context: &context, written: 0 };
        let mut draft = Draft::create(&place)?;
        let (restored, restored_vectors) = builder.fill(&draft, &mut |done| tell(2 * third + done))?;
        draft.tidy()?;
        draft.finish()?;
        check_draft(&draft, &place, &context, &mut |_, _| tell(all).is_err())?;
        if !still.is_in_place(&place, &context)? {
            let message = "was replaced while it was repaired; nothing was changed, verify it again";
            return Err(context.store(message, None));
        }
        let kept = Kept::keep(&place, &mut || tell(all))?;
        let mut found = LostFound::new(&place.home);
        for bad in inspection.bad.iter().filter(|bad| !bad.mended) {
            let bytes = pages.read_raw(bad.at.offset, bad.at.len).map_err(|error| context.io(error))?;
            found.keep(&format!("page-{}", bad.at.offset), &bytes)?;
        }
        let lost = keep_rows(&mut found, &pages, &salvage, &context)?;
        let lost_found = found.finish()?;
        swap(&draft, &place, Access::Write)?;
        let kept_as = kept.stay();
        before.held_ms = still.held_ms();
        progress(all, all);
        Ok(Repaired { before, kept_as, lost_found, restored, restored_vectors, lost })
    }
}

/// Writes what is good into a draft.
struct Rebuild<'r> {
    pages: &'r Pages,
    salvage: &'r mut Salvage,
    context: &'r Context,
    written: u64,
}

impl Rebuild<'_> {
    /// Returns how many records and vectors there are.
    fn fill(&mut self, draft: &Draft, step: &mut dyn FnMut(u64) -> Result<()>) -> Result<(u64, u64)> {
        let salvage = &*self.salvage;
        draft.write(|tables| {
            salvage.embedders.values().try_for_each(|row| {
                let body: [&[u8]; 2] = [&row.dim.to_le_bytes(), row.fingerprint.as_bytes()];
                tables.put_embedder(row.number, &seal_parts("embedders", &row.number.to_le_bytes(), &body))
            })
        })?;
        let episodes: Vec<_> = salvage.episodes.iter().map(|(id, at)| (*id, *at)).collect();
        let mut kept = 0;
        let mut misfits = Vec::new();
        self.in_batches(draft, &episodes, step, |rebuild, tables, (id, at)| {
            let value = rebuild.value(*at)?;
            let episode = match decode(Table::Episodes, &Key::Episode(*id), &value) {
                Ok(Row::Episode(episode)) => *episode,
                _ => {
                    return Err(rebuild
                        .context
                        .corrupt(format!("{} changed while it was read", id_text(id))));
                }
            };
            tables.put_episode(&SealedEpisode::of(episode, value)?)
        })?;
        let mut unusable = Vec::new();
        let mut usable = Vec::new();
        for (chunk, rows) in &self.salvage.vectors {
            let (embedder, id, _) = *chunk;
            // What belongs to no record was an orphan; of an embedder that is lost, nobody knows what it means.
            if !self.salvage.episodes.contains_key(&id) {
                continue;
            }
            if embedder == 0 || self.salvage.embedders.contains_key(&embedder) {
                let len = rows.iter().map(|(_, at)| at.len).sum();
                let offset = rows.first().map_or(0, |(_, at)| at.offset);
                usable.push((*chunk, Spot { offset, len }));
            } else {
                unusable.push((embedder, id, "left out: nobody can tell which embedder it is of"));
            }
        }
        self.in_batches(draft, &usable, step, |rebuild, tables, (chunk, _)| {
            let (embedder, id, _) = chunk;
            let row = rebuild.salvage.vector(rebuild.pages, chunk).map_err(|e| rebuild.context.io(e))?;
            let Some(row) = row else {
                misfits.push((*embedder, *id, "left out: its bytes are no vector"));
                return Ok(());
            };
            if let Embedded::Row(cells) = &row.vector {
                let dim = rebuild.salvage.embedders.get(embedder).map(|row| row.dim as usize);
                if Some(cells.len()) != dim {
                    misfits.push((*embedder, *id, "left out: it is of another width than its embedder"));
                    return Ok(());
                }
                if !cells.iter().all(|cell| cell.is_finite()) {
                    misfits.push((*embedder, *id, "left out: it holds what is no number"));
                    return Ok(());
                }
                kept += 1;
            }
            tables.put_embedding(&SealedEmbedding::of(*embedder, RecordId::from_bytes(*id)?, &row)?)
        })?;
        unusable.extend(misfits);
        unusable.sort_unstable();
        unusable.dedup();
        for (embedder, id, detail) in unusable {
            let (table, detail) = (Table::Embeddings.name().to_owned(), detail.to_owned());
            let id = self.salvage.vector_name(embedder, &id);
            self.salvage.losses.push(Loss { table, id, detail, file: None });
        }
        let sequence = self.feed(draft, &episodes, step)?;
        draft.write(|tables| self.meta(tables, sequence))?;
        Ok((episodes.len() as u64, kept))
    }

    fn value(&self, at: Spot) -> Result<Vec<u8>> {
        self.pages.read(at.offset, at.len).map_err(|error| self.context.io(error))
    }

    fn in_batches<T>(
        &mut self,
        draft: &Draft,
        rows: &[(T, Spot)],
        step: &mut dyn FnMut(u64) -> Result<()>,
        mut put: impl FnMut(&Self, &DraftTables<'_>, &(T, Spot)) -> Result<()>,
    ) -> Result<()> {
        let mut rest = rows;
        while !rest.is_empty() {
            let mut bytes = 0;
            let count = rest.iter().take_while(|(_, at)| {
                let more = bytes < BATCH;
                bytes += at.len + 64;
                more
            });
            let (batch, after) = rest.split_at(count.count());
            draft.write(|tables| batch.iter().try_for_each(|row| put(self, tables, row)))?;
            self.written += batch.iter().map(|(_, at)| at.len).sum::<u64>();
            step(self.written)?;
            rest = after;
        }
        Ok(())
    }

    /// A new feed behind the old numbers: whoever followed the old one sees that it is another and begins anew.
    fn feed(
        &self,
        draft: &Draft,
        episodes: &[([u8; 16], Spot)],
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        let mut sequence = self.salvage.last_sequence();
        let nonce = RandomState::new().hash_one(sequence);
        let mut lost: Vec<RecordId> = self
            .salvage
            .losses
            .iter()
            .filter(|loss| loss.table == Table::Episodes.name())
            .filter_map(|loss| loss.id.parse().ok())
            .filter(|id: &RecordId| !self.salvage.episodes.contains_key(id.as_bytes()))
            .collect();
        lost.extend(
            self.salvage.left.iter().filter_map(|(_, key, ..)| RecordId::from_bytes(key.episode()?).ok()),
        );
        lost.sort_unstable();
        lost.dedup();
        let gone = lost.into_iter().map(|id| Ok((id, Operation::Delete)));
        // What a record had last: should this file be damaged in turn, that tells whether vectors are missing.
        let embedded = self.salvage.embedded();
        let there = episodes.iter().map(|(id, _)| {
            let last = if embedded.contains(id) { Operation::Embed } else { Operation::Put };
            Ok((RecordId::from_bytes(*id)?, last))
        });
        let rows = gone.chain(there).collect::<Result<Vec<_>>>()?;
        for batch in rows.chunks(20_000) {
            draft.write(|tables| {
                batch.iter().try_for_each(|(id, operation)| {
                    sequence += 1;
                    let change =
                        Change { sequence, operation: *operation, kind: RecordKind::Episode, id: *id, nonce };
                    let body = Change::body(*operation, RecordKind::Episode, *id, nonce);
                    let value = seal("changes", &sequence.to_le_bytes(), &body);
                    tables.put_change(&SealedChange { change, value }, None)
                })
            })?;
            step(self.written)?;
        }
        Ok(sequence)
    }

    fn meta(&self, tables: &DraftTables<'_>, sequence: u64) -> Result<()> {
        let salvage = &*self.salvage;
        let mut rows = salvage.meta.clone();
        let known = |name: &str, width: usize| {
            salvage.meta_candidates(name).into_iter().filter(|body| body.len() == width).max()
        };
        let now = SystemClock.now().unix_micros();
        let store_id = known(tables::META_STORE_ID, 16);
        let created = known(tables::META_CREATED, 8);
        let fresh = || RecordId::new_episode(now).as_bytes().to_vec();
        rows.insert(tables::META_STORE_ID.to_owned(), store_id.unwrap_or_else(fresh));
        rows.insert(tables::META_CREATED.to_owned(), created.unwrap_or_else(|| now.to_le_bytes().to_vec()));
        rows.insert(tables::META_FORMAT.to_owned(), FORMAT_VERSION.to_le_bytes().to_vec());
        rows.insert(tables::META_OLDEST_READER.to_owned(), OLDEST_READER.to_le_bytes().to_vec());
        rows.insert(tables::META_LAST_SEQUENCE.to_owned(), sequence.to_le_bytes().to_vec());
        let generation = salvage.number(tables::META_GENERATION).unwrap_or(0) + 1;
        rows.insert(tables::META_GENERATION.to_owned(), generation.to_le_bytes().to_vec());
        let home = salvage.home_embedder().filter(|number| salvage.embedders.contains_key(number));
        match home {
            Some(number) => {
                drop(rows.insert(tables::META_HOME_EMBEDDER.to_owned(), number.to_le_bytes().to_vec()));
            }
            None => drop(rows.remove(tables::META_HOME_EMBEDDER)),
        }
        rows.iter().try_for_each(|(name, body)| tables.put_meta(name, &seal("meta", name.as_bytes(), body)))
    }
}

/// That the new file is whole, before it takes anybody's place.
fn check_draft(draft: &Draft, place: &Place, context: &Context, progress: &mut Progress<'_>) -> Result<()> {
    let still = Still::over(draft.path(), place, context)?;
    let mut pages = Pages::new(Arc::clone(&still.backend)).map_err(|error| context.io(error))?;
    let mut inspection = Inspection::default();
    inspection.run(&mut pages, context, progress, &mut |_| {})?;
    let found = inspection.finish(&still, 0, true);
    match found.problems.first() {
        None => Ok(()),
        Some(problem) => Err(Error::Internal(format!(
            "the file made in repairing {} is not whole: {} {} {}; nothing was changed",
            place.path.display(),
            problem.table,
            problem.id,
            problem.detail
        ))),
    }
}

/// Puts what cannot be used beside the store. Returns what was lost, each with the name of its file.
fn keep_rows(
    found: &mut LostFound,
    pages: &Pages,
    salvage: &Salvage,
    context: &Context,
) -> Result<Vec<Loss>> {
    let mut lost = salvage.losses.clone();
    let read = |at: Spot| pages.read(at.offset, at.len).map_err(|error| context.io(error));
    for row in &salvage.unreadable {
        // Directories, keys and changes are made anew from the records.
        if !matches!(row.table, Table::Episodes | Table::Embeddings | Table::Embedders | Table::Meta) {
            continue;
        }
        let name = row.key.as_ref().map_or_else(|| format!("byte {}", row.at.offset), ToString::to_string);
        let file = found.keep(&format!("{}-{name}", row.table.name()), &read(row.at)?)?;
        let named = match &row.key {
            Some(Key::Part(embedder, id, _)) => salvage.vector_name(*embedder, id),
            _ => name.clone(),
        };
        let known = lost.iter_mut().find(|loss| loss.table == row.table.name() && loss.id == named);
        if let Some(loss) = known {
            loss.file = Some(file);
        } else {
            let detail = "the row cannot be read".to_owned();
            lost.push(Loss { table: row.table.name().to_owned(), id: name, detail, file: Some(file) });
        }
    }
    let mut held_back = HeldBack::default();
    for (table, key, at, reason) in &salvage.left {
        let Some(id) = key.episode() else { continue };
        held_back.add(pages, salvage, context, (&id, *at))?;
        let file = held_back::NAME.to_owned();
        let detail = format!("did not come back: {reason}");
        lost.push(Loss { table: table.name().to_owned(), id: key.to_string(), detail, file: Some(file) });
    }
    held_back.keep(salvage, found)?;
    lost.sort_by(|a, b| (&a.table, &a.id).cmp(&(&b.table, &b.id)));
    Ok(lost)
}

/// The damaged file under its dated name, which is taken away again if the repair does not end well.
struct Kept {
    path: Option<PathBuf>,
}

impl Kept {
    /// Gives the damaged file a second, dated name. A copy, where there is room: a process that still has the damaged
    /// file open writes to it when it closes it.
    fn keep(place: &Place, tell: &mut dyn FnMut() -> Result<()>) -> Result<Self> {
        let stamp = super::lost_found::stamp();
        let mut name = format!("episodes.redb.damaged-{stamp}");
        let mut count = 1;
        while fs::symlink_metadata(place.home.join(&name)).is_ok() {
            count += 1;
            name = format!("episodes.redb.damaged-{stamp}-{count}");
        }
        let path = place.home.join(name);
        let context = Context::new(&place.home, &path);
        let mut kept = Self { path: None };
        match copy(place, &path, &mut kept, &mut |_| stopping(tell())) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(Error::Interrupted),
            // A full disk, or a place that cannot be read.
            Err(_) => {
                drop(std::mem::replace(&mut kept, Self { path: None }));
                fs::hard_link(&place.path, &path).map_err(|error| context.io(error))?;
                kept.path = Some(path.clone());
            }
        }
        sync_parent(&path).map_err(|error| context.io(error))?;
        Ok(kept)
    }

    fn stay(mut self) -> Option<PathBuf> {
        self.path.take()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

fn copy(
    place: &Place,
    to: &Path,
    kept: &mut Kept,
    step: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut source = File::open(&place.path)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut target = options.open(to)?;
    kept.path = Some(to.to_owned());
    owner::give(&target, &place.home);
    holes::copy(&mut source, &mut target, step)?;
    target.sync_all()
}

/// Takes the wish to end through what knows only errors of files.
fn stopping(outcome: Result<()>) -> io::Result<()> {
    outcome.map_err(|_| io::ErrorKind::Interrupted.into())
}

fn stopped(error: io::Error, context: &Context) -> Error {
    if error.kind() == io::ErrorKind::Interrupted { Error::Interrupted } else { context.io(error) }
}
