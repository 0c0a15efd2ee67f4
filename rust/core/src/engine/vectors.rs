//! Vectors of records: which are wanted, which are given, which are kept.

use super::Engine;
use super::report::Coverage;
use super::served::{Served, VectorState};
use crate::episode::{EmbeddedText, Episode, Status};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::query::Filter;
use crate::store::{
    Embedded, EmbedderRow, EmbeddingRow, GIVEN, NO_EMBEDDER, REPLACED, ReadView, Wait, WriteView,
};
use crate::vector::{MAX_DIM, Refusal, UnitRow};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// A record that lacks a current vector.
#[derive(Debug, Clone)]
pub struct PendingText {
    /// The record.
    pub id: RecordId,
    /// What to embed, and the hash to give back with the rows.
    pub text: EmbeddedText,
    /// Why the vector it was given cannot be searched; None when it has none of its present text.
    pub reason: Option<String>,
}

/// Vectors made for a record: one row a chunk, or why there are none.
#[derive(Debug, Clone)]
pub enum VectorRows {
    /// One row for each chunk, in order.
    Rows(Vec<Vec<f32>>),
    /// The embedder's reason.
    Refused(String),
}

/// What became of vectors that were handed in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attached {
    /// Records whose vectors are searched now.
    pub attached: usize,
    /// Records whose vectors cannot be searched.
    pub refused: usize,
    /// Records that are gone, or whose text changed meanwhile.
    pub outdated: usize,
    /// Why, for each that was refused.
    pub reasons: Vec<(RecordId, String)>,
}

impl Attached {
    fn count(&mut self, id: RecordId, refusal: Option<String>) {
        match refusal {
            None => self.attached += 1,
            Some(reason) => {
                self.refused += 1;
                self.reasons.push((id, reason));
            }
        }
    }
}

/// All vectors of one record under one embedder.
#[derive(Debug, Clone)]
pub struct StoredVectors {
    /// The embedder.
    pub fingerprint: String,
    /// Its width.
    pub dim: u32,
    /// What is stored.
    pub rows: VectorRows,
}

/// What became of a vector given with a record.
pub(super) enum Given {
    Stored,
    Same,
    Refused(String),
}

/// Reason of a vector leg that has nothing to search.
pub(super) fn no_vectors(coverage: &Coverage) -> String {
    let refused = coverage.refused + coverage.dimension_mismatches;
    if refused > 0 && coverage.pending + coverage.stale == 0 {
        format!("no record has a vector: {refused} cannot be searched and were refused; see `otolith status`")
    } else {
        "no record has a vector yet; embed what is pending".to_owned()
    }
}

/// Fingerprint of vectors that callers give without an embedder.
fn given(dim: usize) -> String {
    format!("{GIVEN}{dim}")
}

fn is_given(fingerprint: &str) -> bool {
    fingerprint.starts_with(GIVEN)
}

impl Engine {
    /// Why a vector of this handle's embedder cannot be searched or stored here; None if it can.
    ///
    /// # Errors
    /// Store errors.
    pub fn vectors_refused(&self) -> Result<Option<String>> {
        let home = self.store.read(home_embedder)?;
        Ok(self.mismatch(home.as_ref()))
    }

    /// Why a query vector is not worth making; None if it can be searched.
    ///
    /// # Errors
    /// Store errors.
    pub fn query_vector_refused(&self) -> Result<Option<String>> {
        if let Some(refused) = self.vectors_refused()? {
            return Ok(Some(refused));
        }
        let coverage = self.coverage()?;
        Ok((coverage.vectorized == 0).then(|| no_vectors(&coverage)))
    }

    pub(super) fn vectors_unusable(&self, served: &Served) -> Option<String> {
        match (self.embedder(), served.embedder()) {
            // It may have vectors here that are not the home's: of an import, or of a reindex that is not done.
            (Some(_), _) => self.vectors_refused().unwrap_or_else(|error| Some(error.to_string())),
            (None, Some(home)) if !is_given(&home.fingerprint) => self.mismatch(Some(home)),
            _ => None,
        }
    }

    fn mismatch(&self, home: Option<&EmbedderRow>) -> Option<String> {
        let home = home?;
        match self.embedder() {
            Some(own) if own == home.fingerprint => None,
            None if is_given(&home.fingerprint) => None,
            Some(own) => Some(format!(
                "the vectors of this home are from {}, this handle's embedder is {own}; open it with that embedder, or \
                 make its vectors anew with `otolith reindex`",
                home.fingerprint
            )),
            None => Some(format!(
                "the vectors of this home are from {}; open it with that embedder to search them",
                home.fingerprint
            )),
        }
    }

    /// Up to `limit` records after `after`, in order of their ids, that lack a current vector of the handle's embedder.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the handle has no embedder or the home's is another.
    pub fn pending(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<PendingText>> {
        self.without_vector(after, limit, |state| matches!(state, VectorState::Pending | VectorState::Stale))
    }

    /// The same with those that were given a vector which cannot be searched, each with the reason.
    ///
    /// # Errors
    /// As [`Engine::pending`].
    pub fn pending_and_refused(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<PendingText>> {
        self.without_vector(after, limit, |state| state != VectorState::Current)
    }

    fn without_vector(
        &self,
        after: Option<RecordId>,
        limit: usize,
        wanting: impl Fn(VectorState) -> bool,
    ) -> Result<Vec<PendingText>> {
        let own = self.require_embedder()?;
        let ids: Vec<RecordId> = {
            let served = self.served()?;
            let within = served.select(&Filter::default(), &self.options.scope).docs;
            let rows = served.in_order_where(&within, false, after, limit, wanting);
            rows.into_iter().map(|row| row.id).collect()
        };
        self.store.read(|view| {
            let known = view.embedders()?.into_iter().find(|e| e.fingerprint == own);
            let mut pending = Vec::with_capacity(ids.len());
            for id in &ids {
                let Some(episode) = view.episode(*id)? else { continue };
                let text = EmbeddedText::of(&episode);
                let rows = match &known {
                    Some(known) => readable(view, known.number, *id)?,
                    None => Vec::new(),
                };
                let dim = known.as_ref().map(|known| known.dim as usize);
                let reason =
                    rows.into_iter().find(|row| row.text_hash == text.hash).and_then(|row| {
                        match row.vector {
                            Embedded::Refused(reason) => Some(reason),
                            Embedded::Row(row) => {
                                UnitRow::new(&row, dim).err().map(|refusal| refusal.to_string())
                            }
                        }
                    });
                pending.push(PendingText { id: *id, text, reason });
            }
            Ok(pending)
        })
    }

    /// Those of these records that lack a current vector of the handle's embedder, in order of their ids.
    ///
    /// # Errors
    /// As [`Engine::pending`].
    pub fn pending_of(&self, ids: &[RecordId]) -> Result<Vec<PendingText>> {
        let own = self.require_embedder()?;
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        // Straight from the store: a process that only writes never builds the copy in memory.
        self.store.read(|view| {
            let known = view.embedders()?.into_iter().find(|e| e.fingerprint == own);
            let mut pending = Vec::new();
            for id in &ids {
                let Some(episode) = view.episode(*id)? else { continue };
                if episode.status != Status::Active || !self.options.scope.contains(&episode.scope) {
                    continue;
                }
                let text = EmbeddedText::of(&episode);
                let rows = match &known {
                    Some(known) => readable(view, known.number, *id)?,
                    None => Vec::new(),
                };
                if rows.iter().all(|row| row.text_hash != text.hash) {
                    pending.push(PendingText { id: *id, text, reason: None });
                }
            }
            Ok(pending)
        })
    }

    fn require_embedder(&self) -> Result<String> {
        let Some(own) = self.embedder() else {
            return Err(Error::invalid("embedder", "none is configured; open the memory with one"));
        };
        match self.vectors_refused()? {
            Some(why) => Err(Error::invalid("embedder", why)),
            None => Ok(own),
        }
    }

    /// Attaches vectors to records whose text still has the given hash; the first ones make the embedder the home's.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the handle has no embedder or the home's is another; store errors.
    pub fn attach(&self, wait: &Wait<'_>, rows: Vec<(RecordId, u128, VectorRows)>) -> Result<Attached> {
        let fingerprint = self.require_embedder()?;
        self.attach_rows(wait, fingerprint, false, rows)
    }

    /// The same for vectors made by this embedder, which must still be the handle's: another thread may have changed it
    /// while they were made.
    ///
    /// # Errors
    /// As [`Engine::attach`].
    pub fn attach_of(
        &self,
        wait: &Wait<'_>,
        fingerprint: &str,
        rows: Vec<(RecordId, u128, VectorRows)>,
    ) -> Result<Attached> {
        if self.embedder().as_deref() != Some(fingerprint) {
            let message = format!("{fingerprint} is not this handle's any more; embed what is pending again");
            return Err(Error::invalid("embedder", message));
        }
        self.attach(wait, rows)
    }

    /// Stores vectors of this embedder. They are the home's, or `beside` those of the home.
    pub(super) fn attach_rows(
        &self,
        wait: &Wait<'_>,
        fingerprint: String,
        beside: bool,
        rows: Vec<(RecordId, u128, VectorRows)>,
    ) -> Result<Attached> {
        let scope = self.options.scope.clone();
        self.store.write(wait, move |view| {
            // The home may have got another one since it was looked at.
            if !beside && let Some(home) = home_embedder(view)?.filter(|home| home.fingerprint != fingerprint)
            {
                let message = format!("the vectors of this home are from {} now", home.fingerprint);
                return Err(Error::invalid("embedder", message));
            }
            let mut done = Attached::default();
            for (id, hash, vectors) in &rows {
                let episode = view.episode(*id)?.filter(|e| scope.contains(&e.scope));
                match episode {
                    Some(episode) if EmbeddedText::of(&episode).hash == *hash => {
                        done.count(*id, store_rows(view, &fingerprint, *id, *hash, vectors, true)?);
                    }
                    _ => done.outdated += 1,
                }
            }
            Ok(done)
        })
    }

    /// Brings the vectors of an export back to records that exist, as they were. The embedder becomes the home's if
    /// it has none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a width outside 1 to 8192; store errors.
    pub fn restore_vectors(
        &self,
        wait: &Wait<'_>,
        fingerprint: &str,
        dim: u32,
        rows: Vec<(RecordId, VectorRows)>,
    ) -> Result<Attached> {
        if dim == 0 && fingerprint.is_empty() {
            // Refused before the home had an embedder.
        } else if !(1..=MAX_DIM as u32).contains(&dim) || fingerprint.trim().is_empty() {
            return Err(Error::invalid(
                "vectors",
                format!("need a fingerprint and a width of 1 to {MAX_DIM}"),
            ));
        }
        if fingerprint.starts_with(REPLACED) {
            // Another took its place where the export was made.
            return Ok(Attached { outdated: rows.len(), ..Attached::default() });
        }
        let (fingerprint, scope) = (fingerprint.to_owned(), self.options.scope.clone());
        self.store.write(wait, move |view| {
            let mut done = Attached::default();
            if dim > 0 {
                register(view, &fingerprint, dim as usize)?;
            }
            for (id, vectors) in &rows {
                let Some(episode) = view.episode(*id)?.filter(|e| scope.contains(&e.scope)) else {
                    done.outdated += 1;
                    continue;
                };
                let hash = EmbeddedText::of(&episode).hash;
                if dim == 0 {
                    if let VectorRows::Refused(reason) = vectors {
                        refuse(view, NO_EMBEDDER, *id, hash, reason.clone())?;
                    }
                    done.refused += 1;
                } else {
                    done.count(*id, store_rows(view, &fingerprint, *id, hash, vectors, false)?);
                }
            }
            Ok(done)
        })
    }

    /// All that is stored of a record's vectors: those of the home's embedder first, then by fingerprint, so that it does
    /// not depend on which came first into the store. Rows of an earlier text are left out.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such record in the handle's scope.
    pub fn stored_vectors(&self, id: RecordId) -> Result<Vec<StoredVectors>> {
        self.store.read(|view| {
            let hash = EmbeddedText::of(&self.require(view, id)?).hash;
            let none = EmbedderRow { number: NO_EMBEDDER, fingerprint: String::new(), dim: 0 };
            let mut all = Vec::new();
            let home = view.home_embedder()?;
            let mut embedders = view.embedders()?;
            embedders.retain(|embedder| !embedder.is_replaced());
            embedders.sort_by(|a, b| {
                let order = |e: &EmbedderRow| (Some(e.number) != home, e.fingerprint.clone());
                order(a).cmp(&order(b))
            });
            for embedder in embedders.into_iter().chain([none]) {
                let (mut rows, mut refused) = (Vec::new(), None);
                for row in
                    readable(view, embedder.number, id)?.into_iter().filter(|row| row.text_hash == hash)
                {
                    match row.vector {
                        Embedded::Row(row) => rows.push(row),
                        Embedded::Refused(reason) => refused = Some(reason),
                    }
                }
                let rows = match refused {
                    Some(reason) if rows.is_empty() => VectorRows::Refused(reason),
                    None if rows.is_empty() => continue,
                    _ => VectorRows::Rows(rows),
                };
                all.push(StoredVectors { fingerprint: embedder.fingerprint, dim: embedder.dim, rows });
            }
            Ok(all)
        })
    }

    /// How many of the handle's records have vectors.
    ///
    /// # Errors
    /// Store errors.
    pub fn coverage(&self) -> Result<Coverage> {
        let served = self.served()?;
        Ok(self.coverage_of(&served))
    }

    /// The embedder this home belongs to: fingerprint and width; None before its first vector.
    ///
    /// # Errors
    /// Store errors.
    pub fn home_embedder(&self) -> Result<Option<(String, u32)>> {
        Ok(self.store.read(home_embedder)?.map(|e| (e.fingerprint, e.dim)))
    }

    /// Records with vectors of other embedders than the one this handle serves, by fingerprint.
    ///
    /// # Errors
    /// Store errors.
    pub fn foreign_vectors(&self) -> Result<BTreeMap<String, usize>> {
        let own = self.served()?.embedder().map(|e| e.number);
        self.store.read(|view| {
            let mut counts = BTreeMap::new();
            let others = |e: &EmbedderRow| Some(e.number) != own && !e.is_replaced();
            for embedder in view.embedders()?.into_iter().filter(others) {
                let (mut count, mut last) = (0, None);
                view.embeddings(embedder.number, &mut |id, _| {
                    count += usize::from(last.replace(id) != Some(id));
                    Ok(ControlFlow::Continue(()))
                })?;
                if count > 0 {
                    counts.insert(embedder.fingerprint, count);
                }
            }
            Ok(counts)
        })
    }
}

/// The rows of a record, none if they are damaged: then they are made again, and `Info` tells.
pub(super) fn readable(view: &ReadView<'_>, number: u32, id: RecordId) -> Result<Vec<EmbeddingRow>> {
    match view.embeddings_of(number, id) {
        Err(Error::StoreCorrupt { .. }) => Ok(Vec::new()),
        rows => rows,
    }
}

/// The embedder the home belongs to.
pub(super) fn home_embedder(view: &ReadView<'_>) -> Result<Option<EmbedderRow>> {
    match view.home_embedder()? {
        Some(number) => view.embedder(number),
        None => Ok(None),
    }
}

/// The number of an embedder, new ones included; the home's own choice if it has none yet.
fn register(view: &mut WriteView<'_>, fingerprint: &str, dim: usize) -> Result<EmbedderRow> {
    if fingerprint.starts_with(REPLACED) {
        let message = format!("a fingerprint cannot begin with {REPLACED}; give the embedder another one");
        return Err(Error::invalid("embedder", message));
    }
    let known = view.embedders()?.into_iter().find(|e| e.fingerprint == fingerprint);
    let row = if let Some(row) = known {
        row
    } else {
        let number = view.register_embedder(fingerprint, dim as u32)?;
        EmbedderRow { number, fingerprint: fingerprint.to_owned(), dim: dim as u32 }
    };
    if view.home_embedder()?.is_none() {
        view.set_home_embedder(row.number)?;
        forget_refusals(view)?;
    }
    Ok(row)
}

/// What was refused before the home had an embedder waits for this one's vector. The feed tells of each record: an index on
/// disk that was made before has them as refused.
fn forget_refusals(view: &mut WriteView<'_>) -> Result<()> {
    let mut ids = Vec::new();
    view.embeddings(NO_EMBEDDER, &mut |id, _| {
        ids.push(id);
        Ok(ControlFlow::Continue(()))
    })?;
    ids.dedup();
    ids.into_iter().try_for_each(|id| view.put_embeddings(NO_EMBEDDER, id, &[]))
}

/// Stores a vector given with its record. It belongs to the handle's embedder, under none to `given:DIM`.
pub(super) fn store_given(
    view: &mut WriteView<'_>,
    own: Option<&str>,
    episode: &Episode,
    vector: &[f32],
) -> Result<Given> {
    let hash = EmbeddedText::of(episode).hash;
    let home = home_embedder(view)?;
    let fingerprint = match (own, &home) {
        (Some(own), Some(home)) if own != home.fingerprint => {
            return Ok(Given::Refused(format!(
                "the vectors of this home are from {}, this one is from {own}",
                home.fingerprint
            )));
        }
        (None, Some(home)) if !is_given(&home.fingerprint) => {
            return Ok(Given::Refused(format!("the vectors of this home are from {}", home.fingerprint)));
        }
        (Some(own), _) => own.to_owned(),
        (None, Some(home)) => home.fingerprint.clone(),
        (None, None) => given(vector.len()),
    };
    let dim = home.as_ref().map(|e| e.dim as usize);
    let row = match UnitRow::new(vector, dim) {
        Ok(row) => row.into_vec(),
        Err(refusal) => {
            let number = home.map_or(NO_EMBEDDER, |e| e.number);
            refuse(view, number, episode.id, hash, refusal.to_string())?;
            return Ok(Given::Refused(refusal.to_string()));
        }
    };
    let embedder = register(view, &fingerprint, row.len())?;
    let rows = [EmbeddingRow { chunk: 0, text_hash: hash, vector: Embedded::Row(row) }];
    let stored = put_changed(view, embedder.number, episode.id, &rows)?;
    Ok(if stored { Given::Stored } else { Given::Same })
}

/// Stores what an embedder made of a record; the reason when none of it can be searched. Rows are kept as unit rows.
fn store_rows(
    view: &mut WriteView<'_>,
    fingerprint: &str,
    id: RecordId,
    hash: u128,
    vectors: &VectorRows,
    normalise: bool,
) -> Result<Option<String>> {
    let known = view.embedders()?.into_iter().find(|e| e.fingerprint == fingerprint);
    let mut dim = known.as_ref().map(|e| e.dim as usize);
    let rows = match vectors {
        VectorRows::Rows(rows) if !rows.is_empty() => rows,
        VectorRows::Rows(_) => {
            return store_refusal(view, known, id, hash, "the embedder gave no rows".to_owned());
        }
        VectorRows::Refused(reason) => return store_refusal(view, known, id, hash, reason.clone()),
    };
    let mut kept = Vec::with_capacity(rows.len());
    let mut refusal = None;
    for (row, chunk) in rows.iter().zip(0..) {
        match UnitRow::new(row, dim) {
            Ok(unit) => {
                dim = Some(row.len());
                let row = if normalise { unit.into_vec() } else { row.clone() };
                kept.push(EmbeddingRow { chunk, text_hash: hash, vector: Embedded::Row(row) });
            }
            Err(why) => refusal = Some(why),
        }
    }
    let Some(width) = dim.filter(|_| !kept.is_empty()) else {
        let why = refusal.unwrap_or(Refusal::Size { found: 0 }).to_string();
        return store_refusal(view, known, id, hash, why);
    };
    let embedder = register(view, fingerprint, width)?;
    put_changed(view, embedder.number, id, &kept)?;
    Ok(None)
}

/// Keeps the reason, so that it is counted and not tried for ever, and gives it back.
fn store_refusal(
    view: &mut WriteView<'_>,
    embedder: Option<EmbedderRow>,
    id: RecordId,
    hash: u128,
    reason: String,
) -> Result<Option<String>> {
    // One that never gave a vector has no number; in a home that belongs to another its refusals are nobody's.
    if embedder.is_some() || view.home_embedder()?.is_none() {
        refuse(view, embedder.map_or(NO_EMBEDDER, |e| e.number), id, hash, reason.clone())?;
    }
    Ok(Some(reason))
}

fn refuse(view: &mut WriteView<'_>, number: u32, id: RecordId, hash: u128, reason: String) -> Result<()> {
    let row = EmbeddingRow { chunk: 0, text_hash: hash, vector: Embedded::Refused(reason) };
    put_changed(view, number, id, &[row]).map(drop)
}

/// Stores rows unless they are there already: an import that is run again neither writes nor tells the feed of it.
fn put_changed(view: &mut WriteView<'_>, number: u32, id: RecordId, rows: &[EmbeddingRow]) -> Result<bool> {
    if readable(view, number, id)? == rows {
        return Ok(false);
    }
    view.put_embeddings(number, id, rows)?;
    Ok(true)
}
