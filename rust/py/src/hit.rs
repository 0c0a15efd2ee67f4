//! `Hit` and `Explanation`.

use crate::convert::time;
use crate::episode::Episode;
use crate::record;
use otolith_core::engine as core;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDict, PyTuple};
use std::borrow::Cow;

/// Named scores.
pub(crate) type Parts = Vec<(Cow<'static, str>, f64)>;

/// Named scores of core.
pub(crate) fn parts(parts: Vec<(&'static str, f64)>) -> Parts {
    parts.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect()
}

/// Named scores from a dict.
pub(crate) fn parts_from(dict: &Bound<'_, PyDict>) -> PyResult<Parts> {
    dict.iter().map(|(name, value)| Ok((Cow::Owned(name.extract()?), value.extract()?))).collect()
}

/// Named scores as a dict.
pub(crate) fn parts_dict<'py>(py: Python<'py>, parts: &Parts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in parts {
        dict.set_item(name.as_ref(), value)?;
    }
    Ok(dict)
}

/// A node of a score: `value` follows from the values of `details` as `description` says. `str()` draws the tree.
#[pyclass(frozen, eq, module = "otolith")]
#[derive(PartialEq)]
pub(crate) struct Explanation(otolith_core::explain::Explanation);

impl Explanation {
    const FIELDS: [&str; 3] = ["value", "description", "details"];

    pub(crate) fn new(py: Python<'_>, tree: otolith_core::explain::Explanation) -> PyResult<Py<Self>> {
        Py::new(py, Self(tree))
    }
}

#[pymethods]
impl Explanation {
    /// The number.
    #[getter]
    fn value(&self) -> f64 {
        self.0.value
    }

    /// What it is, and how it is made of its details.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// What it is made of.
    #[getter]
    fn details<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.details.iter().map(|node| Self(node.clone())).collect::<Vec<_>>())
    }

    /// The tree as plain data.
    pub(crate) fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let details = self.0.details.iter().map(|node| Self(node.clone()).to_dict(py));
        let dict = PyDict::new(py);
        dict.set_item("value", self.0.value)?;
        dict.set_item("description", &self.0.description)?;
        dict.set_item("details", details.collect::<PyResult<Vec<_>>>()?)?;
        Ok(dict)
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        record::reduce(slf.as_any(), &Self::FIELDS)?.1.hash()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    fn _from_state(value: f64, description: String, details: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let details = details.iter().map(|node| Ok(node.cast::<Self>()?.get().0.clone()));
        let details = details.collect::<PyResult<_>>()?;
        Ok(Self(otolith_core::explain::Explanation { value, description, details }))
    }
}

/// One result: the record, and why it is one.
#[pyclass(frozen, module = "otolith")]
pub(crate) struct Hit {
    episode: Py<Episode>,
    score: f64,
    relevance: f64,
    parts: Parts,
    matched_terms: Vec<String>,
    explanation: Option<Py<Explanation>>,
}

impl Hit {
    const STATE: [&str; 6] = ["episode", "score", "relevance", "parts", "matched_terms", "explanation"];
    const FIELDS: [&str; 8] = ["id", "kind", "score", "relevance", "parts", "text", "matched_terms", "trust"];

    pub(crate) fn new(py: Python<'_>, hit: core::Hit) -> PyResult<Py<Self>> {
        let class = Self {
            episode: Py::new(py, Episode::new(hit.episode))?,
            score: hit.score,
            relevance: hit.relevance,
            parts: parts(hit.parts),
            matched_terms: hit.matched_terms,
            explanation: hit.explanation.map(|tree| Explanation::new(py, tree)).transpose()?,
        };
        Py::new(py, class)
    }

    fn tree(&self) -> Option<&otolith_core::explain::Explanation> {
        self.explanation.as_ref().map(|tree| &tree.get().0)
    }
}

#[pymethods]
impl Hit {
    /// Id of the record.
    #[getter]
    fn id(&self) -> String {
        self.episode.get().core().id.to_string()
    }

    /// Kind of the record.
    #[getter]
    #[allow(clippy::unused_self, reason = "an attribute of the class in Python")]
    fn kind(&self) -> &'static str {
        "episode"
    }

    /// What the report is ordered by, 0 to 1.
    #[getter]
    fn score(&self) -> f64 {
        self.score
    }

    /// How likely it is about the question at all, 0 to 1, on the same scale for every question.
    #[getter]
    fn relevance(&self) -> f64 {
        self.relevance
    }

    /// Raw scores `bm25` and `cosine`, scaled ones `lexical` and `vector`, as far as they count; a new dict each time.
    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        parts_dict(py, &self.parts)
    }

    /// The memory itself: the summary of the record.
    #[getter]
    fn text(&self) -> &str {
        &self.episode.get().core().summary
    }

    /// The record as it was when the report was made.
    #[getter]
    fn episode(&self, py: Python<'_>) -> Py<Episode> {
        self.episode.clone_ref(py)
    }

    /// Words of the question that it holds, as they were asked.
    #[getter]
    fn matched_terms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.matched_terms)
    }

    /// When it happened.
    #[getter]
    fn timestamp<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDateTime>> {
        time::datetime(py, self.episode.get().core().occurred_at)
    }

    /// Whether its text may be relied on.
    #[getter]
    fn trust(&self) -> &'static str {
        self.episode.get().trust()
    }

    /// How the score came about, when `explain=True` was asked for.
    #[getter]
    fn explanation(&self, py: Python<'_>) -> Option<Py<Explanation>> {
        self.explanation.as_ref().map(|tree| tree.clone_ref(py))
    }

    /// All of it as plain data ready for JSON.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let (py, hit) = (slf.py(), slf.get());
        let dict = record::to_dict(slf.as_any(), &Self::FIELDS)?;
        dict.set_item("timestamp", hit.episode.get().core().occurred_at.to_string())?;
        dict.set_item("episode", Episode::to_dict(hit.episode.bind(py))?)?;
        dict.set_item(
            "explanation",
            hit.explanation.as_ref().map(|tree| tree.get().to_dict(py)).transpose()?,
        )?;
        Ok(dict)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast_exact::<Self>() else { return false };
        let other = other.get();
        self.episode.get() == other.episode.get()
            && (self.score, self.relevance) == (other.score, other.relevance)
            && self.parts == other.parts
            && self.matched_terms == other.matched_terms
            && self.tree() == other.tree()
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (self.id(), self.score, self.relevance).into_pyobject(py)?.hash()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::STATE)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::STATE)
    }

    #[staticmethod]
    #[pyo3(signature = (episode, score, relevance, parts, matched_terms, explanation))]
    fn _from_state(
        episode: Py<Episode>,
        score: f64,
        relevance: f64,
        parts: &Bound<'_, PyDict>,
        matched_terms: Vec<String>,
        explanation: Option<Py<Explanation>>,
    ) -> PyResult<Self> {
        Ok(Self { episode, score, relevance, parts: parts_from(parts)?, matched_terms, explanation })
    }
}
