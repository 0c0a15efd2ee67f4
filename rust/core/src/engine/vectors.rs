//! Vectors of records: which are wanted, which are given, which are kept.

use super::Engine;
use super::report::Coverage;
use super::served::{Served, VectorState};
use crate::episode::{EmbeddedText, Episode, Status};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::query::Filter;
use crate::store::{Embedded, EmbedderRow, EmbeddingRow, GIVEN, NO_EMBEDDER, ReadView, Wait, WriteView};
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attached {
    /// Records whose vectors are searched now.
    pub attached: usize,
    /// Records whose vectors cannot be searched.
    pub refused: usize,
    /// Records that are gone, or whose text changed meanwhile.
    pub outdated: usize,
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
pub(super) const NO_VECTORS: &str = "no record has a vector yet; embed what is pending";

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
        let none = self.coverage()?.vectorized == 0;
        Ok(none.then(|| NO_VECTORS.to_owned()))
    }

    pub(super) fn vectors_unusable(&self, served: &Served) -> Option<String> {
        // The served embedder is the handle's own, so only the home's own choice can differ.
        match (self.embedder(), served.embedder()) {
            (Some(_), None) => self.vectors_refused().unwrap_or_else(|error| Some(error.to_string())),
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
                "the vectors of this home are from {}, this handle's embedder is {own}; open it with that embedder",
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
        self.require_embedder()?;
        let ids: Vec<RecordId> = {
            let served = self.served()?;
            let within = served.select(&Filter::default(), &self.options.scope).docs;
            let wanting = |state| matches!(state, VectorState::Pending | VectorState::Stale);
            let rows = served.in_order_where(&within, false, after, limit, wanting);
            rows.into_iter().map(|row| row.id).collect()
        };
        self.texts_of(&ids)
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
                    pending.push(PendingText { id: *id, text });
                }
            }
            Ok(pending)
        })
    }

    fn texts_of(&self, ids: &[RecordId]) -> Result<Vec<PendingText>> {
        self.store.read(|view| {
            let present = ids.iter().filter_map(|id| view.episode(*id).transpose());
            present.map(|e| e.map(|e| PendingText { id: e.id, text: EmbeddedText::of(&e) })).collect()
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
        let scope = self.options.scope.clone();
        self.store.write(wait, move |view| {
            let mut done = Attached::default();
            for (id, hash, vectors) in &rows {
                let episode = view.episode(*id)?.filter(|e| scope.contains(&e.scope));
                match episode {
                    Some(episode) if EmbeddedText::of(&episode).hash == *hash => {
                        if store_rows(view, &fingerprint, *id, *hash, vectors, true)? {
                            done.attached += 1;
                        } else {
                            done.refused += 1;
                        }
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
                } else if store_rows(view, &fingerprint, *id, hash, vectors, false)? {
                    done.attached += 1;
                } else {
                    done.refused += 1;
                }
            }
            Ok(done)
        })
    }

    /// All that is stored of a record's vectors, by embedder. Rows of an earlier text are left out.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such record in the handle's scope.
    pub fn stored_vectors(&self, id: RecordId) -> Result<Vec<StoredVectors>> {
        self.store.read(|view| {
            let hash = EmbeddedText::of(&self.require(view, id)?).hash;
            let none = EmbedderRow { number: NO_EMBEDDER, fingerprint: String::new(), dim: 0 };
            let mut all = Vec::new();
            for embedder in view.embedders()?.into_iter().chain([none]) {
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
            for embedder in view.embedders()?.into_iter().filter(|e| Some(e.number) != own) {
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
fn readable(view: &ReadView<'_>, number: u32, id: RecordId) -> Result<Vec<EmbeddingRow>> {
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
    let known = view.embedders()?.into_iter().find(|e| e.fingerprint == fingerprint);
    let row = if let Some(row) = known {
        row
    } else {
        let number = view.register_embedder(fingerprint, dim as u32)?;
        EmbedderRow { number, fingerprint: fingerprint.to_owned(), dim: dim as u32 }
    };
    if view.home_embedder()?.is_none() {
        view.set_home_embedder(row.number)?;
    }
    Ok(row)
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

/// Stores what an embedder made of a record; false when none of it can be searched. Rows are kept as unit rows.
fn store_rows(
    view: &mut WriteView<'_>,
    fingerprint: &str,
    id: RecordId,
    hash: u128,
    vectors: &VectorRows,
    normalise: bool,
) -> Result<bool> {
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
    Ok(true)
}

/// Keeps the reason, so that it is counted and not tried for ever. Always false: nothing to search.
fn store_refusal(
    view: &mut WriteView<'_>,
    embedder: Option<EmbedderRow>,
    id: RecordId,
    hash: u128,
    reason: String,
) -> Result<bool> {
    refuse(view, embedder.map_or(NO_EMBEDDER, |e| e.number), id, hash, reason)?;
    Ok(false)
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
