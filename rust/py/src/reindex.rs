//! Another embedder for a home, step by step; `otolith._reindex` does the whole of it.

use crate::convert::{number, text};
use crate::door;
use crate::engine::{Engine, attached_rows};
use crate::facts;
use crate::outcome::{Attached, PendingText};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How far the vectors of an embedder are that is to be the home's. Reads every record, and builds no index.
///
/// Args:
///     engine: The open engine.
///     embedder: Its fingerprint.
///
/// Returns:
///     total (int: records that are searched, of every scope), vectorized, pending, refused, dimension_mismatches (int: of
///     these, by what the embedder has of them), dim (int or None: its width), home (str or None: fingerprint of the
///     embedder the home belongs to), home_vectorized (int: records with a current vector of that one).
///
/// Raises:
///     InvalidInput: The handle has a scope, so it does not see everything.
///     StoreError: The store cannot be read.
#[pyfunction]
pub(crate) fn reindex_state<'py>(
    py: Python<'py>,
    engine: &Engine,
    embedder: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let own = text::text("embedder", embedder)?;
    let state = door::run(py, || engine.core().reindex_state(own))?;
    facts::reindex(py, &state)
}

/// Records that lack a current vector of an embedder, whichever the home's is, in the order of their ids.
///
/// Args:
///     engine: The open engine.
///     embedder: Its fingerprint.
///     after: Go on after this id, itself left out.
///     limit: At most so many.
///     mismatched: Also those that were given a vector of another width.
///
/// Returns:
///     The records, and the id to go on after; None at the end.
///
/// Raises:
///     InvalidInput: The handle has a scope, so it does not see everything.
///     StoreError: The store cannot be read.
#[pyfunction]
#[pyo3(signature = (engine, embedder, *, after=None, limit=None, mismatched=false),
       text_signature = "(engine, embedder, *, after=None, limit=64, mismatched=False)")]
pub(crate) fn reindex_pending(
    py: Python<'_>,
    engine: &Engine,
    embedder: &Bound<'_, PyAny>,
    after: Option<&Bound<'_, PyAny>>,
    limit: Option<&Bound<'_, PyAny>>,
    mismatched: bool,
) -> PyResult<(Vec<PendingText>, Option<String>)> {
    let own = text::text("embedder", embedder)?;
    let after = after.map(|after| text::id("after", after)).transpose()?;
    let limit = limit.map_or(Ok(64), |limit| number::count("limit", limit))?;
    let (pending, next) = door::run(py, || engine.core().reindex_pending(own, after, limit, mismatched))?;
    let pending = pending.into_iter().map(|pending| PendingText::new(py, pending)).collect();
    Ok((pending, next.map(|id| id.to_string())))
}

/// Attaches vectors of an embedder to records whose text is still the one that was embedded, beside those of the home's;
/// one transaction.
///
/// Args:
///     engine: The open engine.
///     embedder: Its fingerprint.
///     rows: As for `Engine.attach`.
///
/// Raises:
///     InvalidInput: The handle has a scope, or a row is no vector.
///     StoreError: Nothing could be stored.
#[pyfunction]
pub(crate) fn reindex_attach(
    py: Python<'_>,
    engine: &Engine,
    embedder: &Bound<'_, PyAny>,
    rows: &Bound<'_, PyAny>,
) -> PyResult<Attached> {
    let own = text::text("embedder", embedder)?;
    let read = attached_rows(rows)?;
    let job = |wait: &otolith_core::store::Wait<'_>| engine.core().reindex_attach(wait, own, read);
    door::wait(py, engine.lock_timeout(), job).map(Attached::from)
}

/// Makes an embedder the home's, in one transaction, if its vectors serve the home at least as well as those that are
/// searched now: as many records, or at least half as many once all were tried.
///
/// Args:
///     engine: The open engine.
///     embedder: Its fingerprint.
///
/// Returns:
///     Whether it did, and what `reindex_state` told before.
///
/// Raises:
///     InvalidInput: The handle has a scope, so it does not see everything.
///     StoreError: It could not be stored.
#[pyfunction]
pub(crate) fn reindex_switch<'py>(
    py: Python<'py>,
    engine: &Engine,
    embedder: &Bound<'py, PyAny>,
) -> PyResult<(bool, Bound<'py, PyDict>)> {
    let own = text::text("embedder", embedder)?;
    let job = |wait: &otolith_core::store::Wait<'_>| engine.core().reindex_switch(wait, own);
    let (switched, state) = door::wait(py, engine.lock_timeout(), job)?;
    Ok((switched, facts::reindex(py, &state)?))
}

/// Removes some of the vectors whose embedder's place another took, in one transaction.
///
/// Args:
///     engine: The open engine.
///
/// Returns:
///     How many rows of the store went; 0 when none are left.
///
/// Raises:
///     StoreError: Nothing could be removed.
#[pyfunction]
pub(crate) fn reindex_purge(py: Python<'_>, engine: &Engine) -> PyResult<usize> {
    door::wait(py, engine.lock_timeout(), |wait| engine.core().reindex_purge(wait))
}
