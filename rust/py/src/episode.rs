//! `Episode`.

use crate::convert::{fields, number, text, time};
use crate::door;
use crate::errors::{self, to_py};
use crate::record;
use otolith_core::episode::{self as core, EpisodePatch, MetaValue, SCHEMA_VERSION};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDateTime, PyDict, PyTuple};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// All fields, in their order.
const FIELDS: [&str; 26] = [
    "id",
    "key",
    "summary",
    "body",
    "title",
    "outcome",
    "source",
    "actor",
    "agent_id",
    "task_id",
    "session_id",
    "user_id",
    "working_dir",
    "key_decisions",
    "files_modified",
    "tags",
    "metadata",
    "scope",
    "occurred_at",
    "created_at",
    "updated_at",
    "importance",
    "origin",
    "trust",
    "status",
    "schema_version",
];

/// One remembered thing. Frozen; `replace` makes a changed copy. Two are equal when all their fields are.
#[pyclass(frozen, module = "otolith")]
pub(crate) struct Episode(Arc<core::Episode>);

impl Episode {
    pub(crate) fn new(episode: impl Into<Arc<core::Episode>>) -> Self {
        Self(episode.into())
    }

    pub(crate) fn core(&self) -> &core::Episode {
        &self.0
    }
}

/// A value of metadata in Python.
fn meta<'py>(py: Python<'py>, value: &MetaValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        MetaValue::Null => Ok(py.None().into_bound(py)),
        MetaValue::Bool(flag) => flag.into_bound_py_any(py),
        MetaValue::Int(number) => number.into_bound_py_any(py),
        MetaValue::Float(number) => number.into_bound_py_any(py),
        MetaValue::Str(text) => text.into_bound_py_any(py),
    }
}

#[pymethods]
impl Episode {
    /// Identity, a UUID of version 7; ids sort in the order the records were created.
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    /// Idempotency key, unique within the scope.
    #[getter]
    fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The memory itself, one sentence or a page.
    #[getter]
    fn summary(&self) -> &str {
        &self.0.summary
    }

    /// Longer text, searched with less weight.
    #[getter]
    fn body(&self) -> Option<&str> {
        self.0.body.as_deref()
    }

    /// Short name, searched with more weight.
    #[getter]
    fn title(&self) -> Option<&str> {
        self.0.title.as_deref()
    }

    /// How the task ended.
    #[getter]
    fn outcome(&self) -> Option<&'static str> {
        self.0.outcome.map(core::Outcome::as_str)
    }

    /// What kind of event it comes from.
    #[getter]
    fn source(&self) -> &'static str {
        self.0.source.as_str()
    }

    /// Who said or did it.
    #[getter]
    fn actor(&self) -> Option<&str> {
        self.0.actor.as_deref()
    }

    /// The agent that wrote it.
    #[getter]
    fn agent_id(&self) -> Option<&str> {
        self.0.agent_id.as_deref()
    }

    /// The task it belongs to.
    #[getter]
    fn task_id(&self) -> Option<&str> {
        self.0.task_id.as_deref()
    }

    /// The session it belongs to.
    #[getter]
    fn session_id(&self) -> Option<&str> {
        self.0.session_id.as_deref()
    }

    /// The user it belongs to.
    #[getter]
    fn user_id(&self) -> Option<&str> {
        self.0.user_id.as_deref()
    }

    /// Absolute directory it is about.
    #[getter]
    fn working_dir(&self) -> Option<&str> {
        self.0.working_dir.as_deref()
    }

    /// What was decided.
    #[getter]
    fn key_decisions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.key_decisions)
    }

    /// Paths of files.
    #[getter]
    fn files_modified<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.files_modified)
    }

    /// Labels.
    #[getter]
    fn tags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.0.tags)
    }

    /// Named values for filters; a new dict each time.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in &self.0.metadata {
            dict.set_item(name, meta(py, value)?)?;
        }
        Ok(dict)
    }

    /// Namespace it lives in; `""` is the root.
    #[getter]
    fn scope(&self) -> &str {
        self.0.scope.as_str()
    }

    /// When it happened, in the offset it was given with.
    #[getter]
    fn occurred_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        time::datetime(py, self.0.occurred_at)
    }

    /// When it was first stored, in UTC.
    #[getter]
    fn created_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        time::datetime(py, self.0.created_at)
    }

    /// When it was last changed, in UTC; `update(expect=)` takes it.
    #[getter]
    fn updated_at<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        time::datetime(py, self.0.updated_at)
    }

    /// 0 to 1.
    #[getter]
    fn importance(&self) -> f64 {
        self.0.importance
    }

    /// Who wrote it.
    #[getter]
    fn origin(&self) -> &'static str {
        self.0.origin.as_str()
    }

    /// Whether its text may be relied on.
    #[getter]
    pub(crate) fn trust(&self) -> &'static str {
        self.0.trust.as_str()
    }

    /// Whether it is served.
    #[getter]
    fn status(&self) -> &'static str {
        self.0.status.as_str()
    }

    /// Version of the record layout it was written with.
    #[getter]
    fn schema_version(&self) -> u32 {
        self.0.schema_version
    }

    /// A copy with other values for some fields, checked like a record that is written.
    ///
    /// Args:
    ///     **fields: Any fields. None empties one that may be empty. Trust can be lowered but not raised.
    ///
    /// Raises:
    ///     TypeError: There is no such field.
    ///     InvalidInput: A value does not fit its field.
    #[pyo3(signature = (**fields))]
    fn replace(&self, py: Python<'_>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut episode = core::Episode::clone(&self.0);
        let mut patch = EpisodePatch::default();
        for (name, value) in fields.into_iter().flat_map(|fields| fields.iter().collect::<Vec<_>>()) {
            let name = text::text("fields", &name)?;
            match name {
                "id" => episode.id = text::id(name, &value)?,
                "created_at" => episode.created_at = time::moment(name, &value)?,
                "updated_at" => episode.updated_at = time::moment(name, &value)?,
                "status" => episode.status = text::parsed(name, &value)?,
                "schema_version" => {
                    let version = number::count(name, &value)?;
                    let known = u32::try_from(version).ok().filter(|v| (1..=SCHEMA_VERSION).contains(v));
                    let unknown =
                        || errors::invalid(py, name, format!("{version} is not 1 to {SCHEMA_VERSION}"));
                    episode.schema_version = known.ok_or_else(unknown)?;
                }
                name => {
                    if !fields::set(&mut patch, name, &value)? {
                        let message =
                            format!("{name:?} is not a field of Episode; there are {}", FIELDS.join(", "));
                        return Err(PyTypeError::new_err(message));
                    }
                }
            }
        }
        patch.apply(&mut episode).map_err(|error| to_py(py, &error))?;
        Ok(Self::new(episode))
    }

    /// What `copy.replace` calls; the same as `replace`.
    #[pyo3(signature = (**fields))]
    fn __replace__(&self, py: Python<'_>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        self.replace(py, fields)
    }

    /// All fields as plain data ready for JSON: times as RFC 3339, lists for tuples.
    pub(crate) fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let dict = record::to_dict(slf.as_any(), &FIELDS)?;
        let episode = slf.get().core();
        for (name, moment) in [
            ("occurred_at", episode.occurred_at),
            ("created_at", episode.created_at),
            ("updated_at", episode.updated_at),
        ] {
            dict.set_item(name, moment.to_string())?;
        }
        Ok(dict)
    }

    /// The record as one JSON object, as the store and an export hold it; fields that have no content are left out.
    ///
    /// Raises:
    ///     InvalidInput: It is larger than 16 MiB.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let json = door::quick(py, || self.0.to_json())?;
        Ok(String::from_utf8_lossy(&json).into_owned())
    }

    /// Reads what `to_json` wrote. Fields of a newer version are kept and written again.
    ///
    /// Args:
    ///     text: One JSON object, as str or bytes in UTF-8.
    ///
    /// Raises:
    ///     FormatTooNew: A newer version wrote it.
    ///     InvalidInput: It is not a record.
    #[staticmethod]
    #[pyo3(signature = (text))]
    fn from_json(text: &Bound<'_, PyAny>) -> PyResult<Self> {
        let json = match text.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes(),
            Err(_) => text::text("text", text)?.as_bytes(),
        };
        let read = || {
            let episode = core::Episode::from_json(json)?;
            episode.validate()?;
            Ok(episode)
        };
        door::quick(text.py(), read).map(Self::new)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast_exact::<Self>().is_ok_and(|other| *self == *other.get())
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.0.id, self.0.updated_at).hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let mut filled = Vec::with_capacity(FIELDS.len());
        for field in FIELDS {
            let value = slf.getattr(field)?;
            let is_empty = value.is_none() || value.len().is_ok_and(|len| len == 0);
            if !is_empty {
                filled.push(field);
            }
        }
        record::repr(slf.as_any(), &filled)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let json = slf.get().to_json(slf.py())?;
        Ok((slf.get_type().getattr("from_json")?, (json,)))
    }
}

impl PartialEq for Episode {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}
