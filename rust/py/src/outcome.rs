//! What writes and vectors came to.

use crate::episode::Episode;
use crate::errors;
use crate::record;
use otolith_core::engine as core;
use otolith_core::error::Error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// What became of one record: the episode, or of a batch the error in its place.
#[pyclass(frozen, get_all, module = "otolith._core")]
pub(crate) struct Outcome {
    /// The record as it is stored; None when there is an error.
    episode: Option<Py<Episode>>,
    /// Whether it is new; else one of the same id or key was replaced.
    created: bool,
    /// Whether anything was written; the same record again is not.
    changed: bool,
    /// Why nothing was written.
    error: Option<Py<PyAny>>,
    /// Why its vector is not searched.
    vector_refused: Option<String>,
}

impl Outcome {
    pub(crate) fn written(py: Python<'_>, written: core::Written) -> PyResult<Self> {
        Ok(Self {
            episode: Some(Py::new(py, Episode::new(written.episode))?),
            created: written.created,
            changed: written.changed,
            error: None,
            vector_refused: written.vector_refused,
        })
    }

    pub(crate) fn failed(py: Python<'_>, error: PyErr) -> Self {
        let error = error.into_value(py).into_any();
        Self { episode: None, created: false, changed: false, error: Some(error), vector_refused: None }
    }

    pub(crate) fn of(py: Python<'_>, outcome: Result<core::Written, Error>) -> PyResult<Self> {
        match outcome {
            Ok(written) => Self::written(py, written),
            Err(error) => Ok(Self::failed(py, errors::to_py(py, &error))),
        }
    }
}

#[pymethods]
impl Outcome {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &["episode", "created", "changed", "error", "vector_refused"])
    }
}

/// A record that lacks a current vector, and the texts to embed for it.
#[pyclass(frozen, get_all, module = "otolith._core")]
pub(crate) struct PendingText {
    /// The record.
    id: String,
    /// Texts to embed in order, at least one, none blank; each becomes one row.
    chunks: Vec<String>,
    /// 16 bytes that `attach` takes back, so that rows of a text that changed meanwhile are dropped.
    text_hash: Py<PyBytes>,
    /// Why the vector it was given cannot be searched; None when it has none of its present text.
    reason: Option<String>,
}

impl PendingText {
    pub(crate) fn new(py: Python<'_>, pending: core::PendingText) -> Self {
        Self {
            id: pending.id.to_string(),
            chunks: pending.text.chunks,
            text_hash: PyBytes::new(py, &pending.text.hash.to_le_bytes()).unbind(),
            reason: pending.reason,
        }
    }
}

#[pymethods]
impl PendingText {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &["id", "chunks", "text_hash", "reason"])
    }
}

/// The hash that [`PendingText`] gave out.
pub(crate) fn text_hash(value: &Bound<'_, PyAny>) -> PyResult<u128> {
    const FIELD: &str = "text_hash";
    let Ok(bytes) = value.cast::<PyBytes>() else { return Err(errors::wanted(FIELD, "bytes", value)) };
    let wrong = |_| errors::invalid(value.py(), FIELD, "is not 16 bytes; give the one of PendingText");
    bytes.as_bytes().try_into().map(u128::from_le_bytes).map_err(wrong)
}

/// What became of vectors that were handed in.
#[pyclass(frozen, get_all, eq, hash, module = "otolith._core")]
#[derive(PartialEq, Eq, Hash)]
#[allow(clippy::struct_field_names, reason = "the fields of the class in Python")]
pub(crate) struct Attached {
    /// Records whose vectors are searched now.
    attached: usize,
    /// Records whose vectors cannot be searched; counted, and not asked for again.
    refused: usize,
    /// Records that are gone, or whose text changed meanwhile.
    outdated: usize,
    /// For each that was refused its id and why, as text that begins with `wrong width` where that is the reason.
    reasons: Vec<(String, String)>,
}

impl From<core::Attached> for Attached {
    fn from(done: core::Attached) -> Self {
        let reasons = done.reasons.into_iter().map(|(id, reason)| (id.to_string(), reason)).collect();
        Self { attached: done.attached, refused: done.refused, outdated: done.outdated, reasons }
    }
}

#[pymethods]
impl Attached {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &["attached", "refused", "outdated", "reasons"])
    }
}
