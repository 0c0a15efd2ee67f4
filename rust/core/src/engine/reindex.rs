//! Another embedder for a home: its vectors are made beside those that are searched, and take their place when they
//! cover as many records.
//!
//! Nothing is kept of where such a work stands but the vectors themselves: whoever goes on with it, in this process or
//! another, looks at each record for what it lacks. Records come straight from the store, since a copy has the vectors of
//! one embedder only.

use super::Engine;
use super::vectors::{Attached, PendingText, VectorRows, home_embedder, readable};
use crate::episode::{EmbeddedText, Episode, Status};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::store::{Embedded, EmbedderRow, EmbeddingRow, ReadView, Wait};
use crate::vector::Refusal;
use std::ops::ControlFlow;

/// Records read in one transaction: a long one would keep the file from reusing space.
const PAGE: usize = 1_000;
/// Rows removed in one transaction, about 20 ms.
const PURGED_AT_ONCE: usize = 5_000;

/// How far the vectors of an embedder are that is to be the home's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReindexState {
    /// Records that are searched, of every scope.
    pub total: usize,
    /// With a current vector of the embedder.
    pub vectorized: usize,
    /// Whose present text got no vector that can be searched.
    pub refused: usize,
    /// Given a vector of another width, which can be made anew.
    pub mismatched: usize,
    /// Width of its vectors, once there is one.
    pub dim: Option<u32>,
    /// Fingerprint of the embedder the home belongs to.
    pub home: Option<String>,
    /// With a current vector of that one.
    pub home_vectorized: usize,
}

impl ReindexState {
    /// Records that nobody has tried yet with their present text.
    pub fn pending(&self) -> usize {
        self.total - self.vectorized - self.refused - self.mismatched
    }

    /// Whether the home is better served by the embedder than by the one it has: by as many records, or, once all were
    /// tried, by at least half as many. One that refuses more is not the one that was meant.
    fn passes(&self) -> bool {
        let done = self.pending() == 0 && 2 * self.vectorized >= self.home_vectorized;
        self.total == 0 || (self.vectorized > 0 && (self.vectorized >= self.home_vectorized || done))
    }
}

/// What an embedder has of a record.
enum Has {
    Current,
    Refused,
    Mismatched,
    Nothing,
}

impl Has {
    fn of(rows: &[EmbeddingRow], hash: u128) -> Self {
        let mut has = Self::Nothing;
        for row in rows.iter().filter(|row| row.text_hash == hash) {
            has = match &row.vector {
                Embedded::Row(_) => return Self::Current,
                Embedded::Refused(reason) if Refusal::is_width(reason) => Self::Mismatched,
                Embedded::Refused(_) => Self::Refused,
            };
        }
        has
    }
}

impl Engine {
    /// How far the vectors of an embedder are.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a handle that does not see all of the home; store errors.
    pub fn reindex_state(&self, fingerprint: &str) -> Result<ReindexState> {
        self.require_whole()?;
        let mut state = ReindexState::default();
        let mut after = None;
        loop {
            after = self.store.read(|view| {
                let own = number_of(view, fingerprint)?;
                let home = home_embedder(view)?;
                state.dim = own.map(|(_, dim)| dim);
                let last = served_page(view, after, &mut |episode| {
                    let hash = EmbeddedText::of(&episode).hash;
                    let has = |number: u32| -> Result<Has> {
                        Ok(Has::of(&readable(view, number, episode.id)?, hash))
                    };
                    state.total += 1;
                    let of_own = own.map_or(Ok(Has::Nothing), |(number, _)| has(number))?;
                    match &of_own {
                        Has::Current => state.vectorized += 1,
                        Has::Refused => state.refused += 1,
                        Has::Mismatched => state.mismatched += 1,
                        Has::Nothing => {}
                    }
                    let of_home = match &home {
                        Some(home) if home.fingerprint == fingerprint => of_own,
                        Some(home) => has(home.number)?,
                        None => Has::Nothing,
                    };
                    state.home_vectorized += usize::from(matches!(of_home, Has::Current));
                    Ok(ControlFlow::Continue(()))
                })?;
                state.home = home.map(|home| home.fingerprint);
                Ok(last)
            })?;
            if after.is_none() {
                return Ok(state);
            }
        }
    }

    /// Up to `limit` records after `after`, in order of their ids, that lack a current vector of an embedder, whichever
    /// the home's is, and where to go on; None at the end. With `mismatched` also those that were given one of another
    /// width.
    ///
    /// # Errors
    /// As [`Engine::reindex_state`].
    pub fn reindex_pending(
        &self,
        fingerprint: &str,
        mut after: Option<RecordId>,
        limit: usize,
        mismatched: bool,
    ) -> Result<(Vec<PendingText>, Option<RecordId>)> {
        self.require_whole()?;
        let mut pending = Vec::new();
        loop {
            let mut full = None;
            let last = self.store.read(|view| {
                let own = number_of(view, fingerprint)?;
                served_page(view, after, &mut |episode| {
                    let text = EmbeddedText::of(&episode);
                    let has = match own {
                        Some((number, _)) => Has::of(&readable(view, number, episode.id)?, text.hash),
                        None => Has::Nothing,
                    };
                    let wanted = match has {
                        Has::Nothing => true,
                        Has::Mismatched => mismatched,
                        Has::Current | Has::Refused => false,
                    };
                    if !wanted {
                        return Ok(ControlFlow::Continue(()));
                    }
                    pending.push(PendingText { id: episode.id, text, reason: None });
                    if pending.len() < limit.max(1) {
                        return Ok(ControlFlow::Continue(()));
                    }
                    full = Some(episode.id);
                    Ok(ControlFlow::Break(()))
                })
            })?;
            if full.is_some() || last.is_none() {
                return Ok((pending, full));
            }
            after = last;
        }
    }

    /// Attaches vectors of an embedder to records whose text still has the given hash, whichever the home's is.
    ///
    /// # Errors
    /// As [`Engine::reindex_state`].
    pub fn reindex_attach(
        &self,
        wait: &Wait<'_>,
        fingerprint: &str,
        rows: Vec<(RecordId, u128, VectorRows)>,
    ) -> Result<Attached> {
        self.require_whole()?;
        self.attach_rows(wait, fingerprint.to_owned(), true, rows)
    }

    /// Makes an embedder the home's, in one transaction, if its vectors serve the home at least as well as those that are
    /// searched now. Returns whether it did, and how far it is.
    ///
    /// # Errors
    /// As [`Engine::reindex_state`].
    pub fn reindex_switch(&self, wait: &Wait<'_>, fingerprint: &str) -> Result<(bool, ReindexState)> {
        let state = self.reindex_state(fingerprint)?;
        let Some(home) = state.home.clone().filter(|home| home != fingerprint && state.passes()) else {
            return Ok((false, state));
        };
        let (fingerprint, total) = (fingerprint.to_owned(), state.total);
        let switched = self.store.write(wait, move |view| {
            // Another process may have done it, or given the home to a third one, which was not compared.
            if home_embedder(view)?.is_none_or(|now| now.fingerprint != home) {
                return Ok(false);
            }
            match number_of(view, &fingerprint)? {
                Some((number, _)) => view.replace_home_embedder(Some(number))?,
                // Nothing tells its width: the first vector does.
                None if total == 0 => view.replace_home_embedder(None)?,
                None => return Ok(false),
            }
            Ok(true)
        })?;
        Ok((switched, state))
    }

    /// Removes some of the vectors whose embedder's place another took. Returns how many rows went; 0 when none are left.
    ///
    /// # Errors
    /// Store errors.
    pub fn reindex_purge(&self, wait: &Wait<'_>) -> Result<usize> {
        // Nothing is written, and no lock asked for, where nothing is left.
        let some = self.store.read(|view| {
            let mut some = false;
            for embedder in view.embedders()?.into_iter().filter(EmbedderRow::is_replaced) {
                view.embeddings(embedder.number, &mut |_, _| {
                    some = true;
                    Ok(ControlFlow::Break(()))
                })?;
            }
            Ok(some)
        })?;
        if some { self.store.write(wait, |view| view.purge_replaced(PURGED_AT_ONCE)) } else { Ok(0) }
    }

    /// An embedder belongs to the whole home.
    fn require_whole(&self) -> Result<()> {
        let scope = &self.options.scope;
        if scope.is_root() {
            return Ok(());
        }
        let message = format!(
            "this handle sees {scope} only, and an embedder is that of the whole home; open the memory without a scope"
        );
        Err(Error::invalid("scope", message))
    }
}

/// Number and width of the embedder with this fingerprint.
fn number_of(view: &ReadView<'_>, fingerprint: &str) -> Result<Option<(u32, u32)>> {
    let known = view.embedders()?.into_iter().find(|embedder| embedder.fingerprint == fingerprint);
    Ok(known.map(|embedder| (embedder.number, embedder.dim)))
}

/// Visits the next records that are searched. Returns the last id that was read; None at the end of the store. One that
/// cannot be read has no text to embed, and is told elsewhere.
fn served_page(
    view: &ReadView<'_>,
    after: Option<RecordId>,
    visit: &mut dyn FnMut(Episode) -> Result<ControlFlow<()>>,
) -> Result<Option<RecordId>> {
    let (mut read, mut last) = (0, None);
    view.episodes(after, false, &mut |id, episode| {
        read += 1;
        last = Some(id);
        let episode = match episode {
            Err(Error::StoreCorrupt { .. } | Error::FormatTooNew { .. }) => None,
            episode => Some(episode?).filter(|episode| episode.status == Status::Active),
        };
        if let Some(episode) = episode
            && visit(episode)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        Ok(if read < PAGE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(last.filter(|_| read == PAGE))
}
