//! What goes into a `HybridIndex` and comes out of it.

use crate::analyzer;
use crate::convert::number;
use crate::door;
use crate::hit::Explanation;
use crate::record;
use otolith_core::error::Result;
use otolith_core::index as core;
use otolith_core::lexical::Bm25Params;
use otolith_core::text::Analyzer;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

/// Settings of a `HybridIndex`.
///
/// Args:
///     k1: Saturation of the term frequency, 0 to 10; 0 ignores repetition.
///     b: Strength of the length normalisation, 0 to 1; 0 ignores length.
///     analyzer: `default`, or `plain`: case-folded words and nothing else, for comparison with other engines.
///     language: Whose words are stemmed, by Snowball's name, or `off`; nothing to `plain`, where it is always `off`.
///     ef_search: Vectors that are kept on a walk over their graph, 1 or more; more find more and take longer. None is 128.
///     exact_below: Fewer vectors get no graph by `compact`: each is compared. None is as many as take 2 MiB at a byte a
///         component, 5,461 of 384, where words are asked for too, and 8 MiB by the vector alone.
///
/// Raises:
///     InvalidInput: A value is out of its range.
#[pyclass(frozen, module = "otolith")]
pub(crate) struct IndexParams {
    #[pyo3(get)]
    /// Saturation of the term frequency.
    k1: f64,
    #[pyo3(get)]
    /// Strength of the length normalisation.
    b: f64,
    core: Analyzer,
    #[pyo3(get)]
    /// Vectors that are kept on a walk over their graph; None is 128.
    ef_search: Option<usize>,
    #[pyo3(get)]
    /// Fewer vectors are compared one by one; None is as many as take 2 MiB with words, 8 MiB without.
    exact_below: Option<usize>,
}

impl IndexParams {
    const FIELDS: [&str; 6] = ["k1", "b", "analyzer", "language", "ef_search", "exact_below"];

    pub(crate) fn core(&self) -> Result<core::IndexParams> {
        let bm25 = Bm25Params::new(self.k1 as f32, self.b as f32)?;
        Ok(core::IndexParams {
            bm25,
            analyzer: self.core.kind(),
            language: self.core.language(),
            ef_search: self.ef_search,
            exact_below: self.exact_below,
        })
    }

    fn read(
        py: Python<'_>,
        [k1, b, analyzer, language, ef_search, exact_below]: [Option<&Bound<'_, PyAny>>; 6],
    ) -> PyResult<Self> {
        let params = Self {
            k1: k1.map_or(Ok(1.2), |k1| number::real("k1", k1))?,
            b: b.map_or(Ok(0.75), |b| number::real("b", b))?,
            core: analyzer::read(analyzer, language)?,
            ef_search: ef(ef_search)?,
            exact_below: exact_below
                .filter(|rows| !rows.is_none())
                .map(|rows| number::count("exact_below", rows))
                .transpose()?,
        };
        door::quick(py, || params.core())?;
        Ok(params)
    }
}

#[pymethods]
impl IndexParams {
    #[new]
    #[pyo3(signature = (*, k1=None, b=None, analyzer=None, language=None, ef_search=None, exact_below=None),
           text_signature = "(*, k1=1.2, b=0.75, analyzer='default', language='english', ef_search=None, exact_below=None)")]
    fn new(
        py: Python<'_>,
        k1: Option<&Bound<'_, PyAny>>,
        b: Option<&Bound<'_, PyAny>>,
        analyzer: Option<&Bound<'_, PyAny>>,
        language: Option<&Bound<'_, PyAny>>,
        ef_search: Option<&Bound<'_, PyAny>>,
        exact_below: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::read(py, [k1, b, analyzer, language, ef_search, exact_below])
    }

    /// How text becomes terms.
    #[getter]
    fn analyzer(&self) -> &'static str {
        self.core.kind().name()
    }

    /// Whose words are stemmed, or `off`.
    #[getter]
    fn language(&self) -> &'static str {
        self.core.language().name()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let key = |own: &Self| (own.k1, own.b, own.core, own.ef_search, own.exact_below);
        other.cast_exact::<Self>().is_ok_and(|other| key(self) == key(other.get()))
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<isize> {
        record::reduce(slf.as_any(), &Self::FIELDS)?.1.hash()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    #[pyo3(signature = (k1, b, analyzer, language, ef_search=None, exact_below=None))]
    fn _from_state(
        k1: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        analyzer: &Bound<'_, PyAny>,
        language: &Bound<'_, PyAny>,
        ef_search: Option<&Bound<'_, PyAny>>,
        exact_below: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        Self::read(k1.py(), [Some(k1), Some(b), Some(analyzer), Some(language), ef_search, exact_below])
    }
}

/// How many vectors are kept on a walk.
pub(crate) fn ef(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<usize>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    number::positive("ef_search", value).map(Some)
}

/// What an insertion did.
#[pyclass(frozen, get_all, eq, hash, module = "otolith")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Inserted {
    /// Whether a document of this id was there and is gone.
    replaced: bool,
    /// Whether its vector is searched.
    vectorized: bool,
    /// Why its vector is not; None when it is, or when there was none.
    refused: Option<String>,
}

impl Inserted {
    const FIELDS: [&str; 3] = ["replaced", "vectorized", "refused"];
}

impl From<core::Inserted> for Inserted {
    fn from(done: core::Inserted) -> Self {
        let refused = done.refused.map(|refusal| refusal.to_string());
        Self { replaced: done.replaced, vectorized: done.vectorized, refused }
    }
}

#[pymethods]
impl Inserted {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    #[pyo3(signature = (replaced, vectorized, refused))]
    fn _from_state(replaced: bool, vectorized: bool, refused: Option<String>) -> Self {
        Self { replaced, vectorized, refused }
    }
}

/// A hit but its id.
struct Found {
    /// Where its id ends in all of them.
    end: usize,
    score: f64,
    parts: core::Parts,
    explanation: Option<Box<otolith_core::explain::Explanation>>,
}

/// The hits of one question on their way out of the index, their ids in one piece.
pub(crate) struct Answer {
    ids: String,
    hits: Vec<Found>,
}

impl Answer {
    pub(crate) fn new(hits: Vec<core::HybridHit<'_>>) -> Self {
        let mut answer = Self {
            ids: String::with_capacity(hits.iter().map(|hit| hit.id.len()).sum()),
            hits: Vec::with_capacity(hits.len()),
        };
        for core::HybridHit { id, score, parts, explanation } in hits {
            answer.ids.push_str(id);
            answer.hits.push(Found { end: answer.ids.len(), score, parts, explanation });
        }
        answer
    }

    pub(crate) fn into_list(self, py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
        let mut start = 0;
        let hits = self.hits.into_iter().map(|hit| {
            let id = &self.ids[std::mem::replace(&mut start, hit.end)..hit.end];
            Py::new(py, IndexHit::new(py, id, hit)?)
        });
        let hits = hits.collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, hits)
    }
}

/// One result of a `HybridIndex`.
#[pyclass(frozen, module = "otolith")]
pub(crate) struct IndexHit {
    /// The id it was inserted with.
    #[pyo3(get)]
    id: Py<PyString>,
    /// What the results are ordered by, 0 to 1.
    #[pyo3(get)]
    score: f64,
    parts: core::Parts,
    explanation: Option<Py<Explanation>>,
}

impl IndexHit {
    const FIELDS: [&str; 4] = ["id", "score", "parts", "explanation"];

    fn new(py: Python<'_>, id: &str, hit: Found) -> PyResult<Self> {
        let explanation = hit.explanation.map(|tree| Explanation::new(py, *tree)).transpose()?;
        Ok(Self { id: PyString::new(py, id).unbind(), score: hit.score, parts: hit.parts, explanation })
    }
}

#[pymethods]
impl IndexHit {
    /// Raw scores `bm25` and `cosine`, scaled ones `lexical` and `vector`, as far as they count; a new dict each time.
    #[getter]
    fn parts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        self.parts.named().try_for_each(|(name, value)| dict.set_item(name, value))?;
        Ok(dict)
    }

    /// How the score came about, when `explain=True` was asked for.
    #[getter]
    fn explanation(&self, py: Python<'_>) -> Option<Py<Explanation>> {
        self.explanation.as_ref().map(|tree| tree.clone_ref(py))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let Ok(other) = other.cast_exact::<Self>() else { return false };
        let (py, own, other) = (other.py(), self, other.get());
        let same_id = own.id.bind(py).as_any().eq(&other.id).unwrap_or(false);
        same_id
            && (own.score, own.parts) == (other.score, other.parts)
            && self.explanation.as_ref().map(Py::get) == other.explanation.as_ref().map(Py::get)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        (&self.id, self.score).into_pyobject(py)?.hash()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    #[pyo3(signature = (id, score, parts, explanation))]
    fn _from_state(
        id: Py<PyString>,
        score: f64,
        parts: &Bound<'_, PyDict>,
        explanation: Option<Py<Explanation>>,
    ) -> PyResult<Self> {
        let part = |name| parts.get_item(name)?.map(|value| value.extract()).transpose();
        let parts = core::Parts {
            bm25: part("bm25")?,
            cosine: part("cosine")?,
            lexical: part("lexical")?,
            vector: part("vector")?,
        };
        Ok(Self { id, score, parts, explanation })
    }
}
