//! `Report` and what it consists of, hits excepted.

use crate::analyzer::{self, Analyzer, in_characters};
use crate::convert::text;
use crate::door;
use crate::hit::Hit;
use crate::record;
use otolith_core::engine as core;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PySlice, PyTuple};

/// What became of one way of searching.
#[pyclass(frozen, get_all, eq, hash, module = "otolith")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Leg {
    /// Whether it ran.
    ran: bool,
    /// Why it did not; None when it ran.
    reason: Option<String>,
    /// How many records it put forward: its best ones, more than were asked for when two legs are joined.
    candidates: usize,
    /// How the vector leg went about it: `exact` when it compared every vector that may be found, `graph` when it walked
    /// on graphs, `graph and exact` for both: what has no graph yet is compared. None for another leg.
    method: Option<String>,
}

impl Leg {
    const FIELDS: [&str; 4] = ["ran", "reason", "candidates", "method"];
}

#[pymethods]
impl Leg {
    /// The fields as plain data.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        record::to_dict(slf.as_any(), &Self::FIELDS)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    #[pyo3(signature = (ran, reason, candidates, method=None))]
    fn _from_state(ran: bool, reason: Option<String>, candidates: usize, method: Option<String>) -> Self {
        Self { ran, reason, candidates, method }
    }
}

/// One filter of a query: its name and how many records it alone left of all that are served.
#[pyclass(frozen, get_all, eq, hash, module = "otolith")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct FilterEffect {
    /// Name of the condition.
    name: String,
    /// How many records it alone leaves.
    left: usize,
}

impl FilterEffect {
    const FIELDS: [&str; 2] = ["name", "left"];
}

#[pymethods]
impl FilterEffect {
    /// The fields as plain data.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        record::to_dict(slf.as_any(), &Self::FIELDS)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    fn _from_state(name: String, left: usize) -> Self {
        Self { name, left }
    }
}

/// How the query was read: its text, the terms that were searched, and the analyzer that read it.
#[pyclass(frozen, eq, hash, module = "otolith")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Analysis {
    /// The text of the query as it was given.
    #[pyo3(get)]
    text: String,
    terms: Vec<String>,
    expansions: Vec<(String, Vec<String>)>,
    /// How text becomes terms.
    #[pyo3(get)]
    analyzer: Analyzer,
}

impl Analysis {
    const FIELDS: [&str; 4] = ["text", "terms", "expansions", "analyzer"];

    fn core(&self) -> core::Analysis {
        core::Analysis {
            text: self.text.clone(),
            terms: self.terms.clone(),
            expansions: self.expansions.clone(),
            phrases: Vec::new(),
            analyzer: self.analyzer.0,
        }
    }
}

impl From<core::Analysis> for Analysis {
    fn from(read: core::Analysis) -> Self {
        Self {
            text: read.text,
            terms: read.terms,
            expansions: read.expansions,
            analyzer: Analyzer(read.analyzer),
        }
    }
}

#[pymethods]
impl Analysis {
    /// The terms that were searched, as they were written, each once.
    #[getter]
    fn terms<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.terms)
    }

    /// Words that were also taken for others, by word as it was written: synonyms, words that begin with it, words that
    /// differ by a typo.
    #[getter]
    fn expansions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (word, others) in &self.expansions {
            dict.set_item(word, PyTuple::new(py, others)?)?;
        }
        Ok(dict)
    }

    /// Where a text holds what was asked for or what it was taken for: any text, such as `hit.text` or the body of its
    /// record.
    ///
    /// Args:
    ///     text: Any text.
    ///
    /// Returns:
    ///     Pairs (start, end) for `text[start:end]`, in order, none touching another. Each is whole characters as people see
    ///     them: a letter with its accents, an emoji with its skin tone.
    fn spans(&self, text: &Bound<'_, PyAny>) -> PyResult<Vec<(usize, usize)>> {
        let (py, text) = (text.py(), text::text("text", text)?);
        let core = self.core();
        door::run(py, || Ok(in_characters(text, &core.spans(text))))
    }

    /// The text with marks around what was asked for.
    ///
    /// Args:
    ///     text: Any text. Nothing in it is escaped.
    ///     before: What begins a mark.
    ///     after: What ends it.
    #[pyo3(signature = (text, before=None, after=None), text_signature = "($self, text, before='**', after='**')")]
    fn highlight(
        &self,
        text: &Bound<'_, PyAny>,
        before: Option<&Bound<'_, PyAny>>,
        after: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let (py, text) = (text.py(), text::text("text", text)?);
        let mark = |name, mark: Option<&Bound<'_, PyAny>>| match mark {
            Some(mark) => text::text(name, mark).map(ToOwned::to_owned),
            None => Ok("**".to_owned()),
        };
        let (before, after) = (mark("before", before)?, mark("after", after)?);
        let core = self.core();
        door::run(py, || {
            let mut out = String::with_capacity(text.len());
            let mut from = 0;
            for span in core.spans(text) {
                out.extend([&text[from..span.start], &before, &text[span.clone()], &after]);
                from = span.end;
            }
            out.push_str(&text[from..]);
            Ok(out)
        })
    }

    /// The fields as plain data; the analyzer by its id.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let dict = record::to_dict(slf.as_any(), &Self::FIELDS)?;
        let expansions = PyDict::new(slf.py());
        for (word, others) in &slf.get().expansions {
            expansions.set_item(word, others)?;
        }
        dict.set_item("expansions", expansions)?;
        dict.set_item("analyzer", slf.get().analyzer.0.id().to_string())?;
        Ok(dict)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        record::repr(slf.as_any(), &Self::FIELDS)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::FIELDS)
    }

    #[staticmethod]
    fn _from_state(
        text: String,
        terms: Vec<String>,
        expansions: &Bound<'_, PyAny>,
        analyzer: &Bound<'_, Analyzer>,
    ) -> PyResult<Self> {
        let expansions = analyzer::synonyms("expansions", expansions)?;
        Ok(Self { text, terms, expansions, analyzer: *analyzer.get() })
    }
}

/// How many records have vectors.
/// total = vectorized + pending + stale + refused + dimension_mismatches, always.
#[pyclass(frozen, eq, module = "otolith")]
#[derive(PartialEq, Eq)]
pub(crate) struct Coverage(core::Coverage);

impl Coverage {
    const FIELDS: [&str; 8] =
        ["total", "vectorized", "pending", "stale", "dimension_mismatches", "refused", "dim", "embedder"];
}

impl From<core::Coverage> for Coverage {
    fn from(coverage: core::Coverage) -> Self {
        Self(coverage)
    }
}

#[pymethods]
impl Coverage {
    /// Records that are served.
    #[getter]
    fn total(&self) -> usize {
        self.0.total
    }

    /// Searched by vector.
    #[getter]
    fn vectorized(&self) -> usize {
        self.0.vectorized
    }

    /// Not embedded yet.
    #[getter]
    fn pending(&self) -> usize {
        self.0.pending
    }

    /// Embedded when their text was another.
    #[getter]
    fn stale(&self) -> usize {
        self.0.stale
    }

    /// Given a vector of another width.
    #[getter]
    fn dimension_mismatches(&self) -> usize {
        self.0.dimension_mismatches
    }

    /// Given a vector that cannot be searched: zero, NaN, infinite, too long, none.
    #[getter]
    fn refused(&self) -> usize {
        self.0.refused
    }

    /// Width of the vectors; None before the first.
    #[getter]
    fn dim(&self) -> Option<usize> {
        self.0.dim
    }

    /// Fingerprint of the embedder that is counted for.
    #[getter]
    fn embedder(&self) -> Option<&str> {
        self.0.embedder.as_deref()
    }

    /// Share of the records that are searched by vector, 0 to 1; 1 when there are none.
    fn ratio(&self) -> f64 {
        self.0.ratio()
    }

    /// How many records only words can find.
    fn bm25_only(&self) -> usize {
        self.0.bm25_only()
    }

    /// Whether vectors of another width were given.
    fn has_dimension_mismatch(&self) -> bool {
        self.0.has_dimension_mismatch()
    }

    /// The fields as plain data.
    fn to_dict<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        record::to_dict(slf.as_any(), &Self::FIELDS)
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
    #[pyo3(signature = (total, vectorized, pending, stale, dimension_mismatches, refused, dim, embedder))]
    #[allow(clippy::too_many_arguments, reason = "one for each field")]
    fn _from_state(
        total: usize,
        vectorized: usize,
        pending: usize,
        stale: usize,
        dimension_mismatches: usize,
        refused: usize,
        dim: Option<usize>,
        embedder: Option<String>,
    ) -> Self {
        Self(core::Coverage {
            total,
            vectorized,
            pending,
            stale,
            dimension_mismatches,
            refused,
            dim,
            embedder,
        })
    }
}

/// The answer of `recall`: a sequence of hits, best first, that says how it came about.
#[pyclass(frozen, sequence, module = "otolith")]
pub(crate) struct Report {
    hits: Py<PyTuple>,
    legs: Vec<(String, Py<Leg>)>,
    analysis: Py<Analysis>,
    filters: Py<PyTuple>,
    considered: usize,
    coverage: Py<Coverage>,
    elapsed_us: u64,
    why_empty: String,
}

impl Report {
    /// Names of the getters that hold everything.
    const STATE: [&str; 8] =
        ["_hits", "legs", "analysis", "filters", "considered", "coverage", "elapsed_us", "_why_empty"];

    pub(crate) fn new(py: Python<'_>, report: core::Report) -> PyResult<Self> {
        let why_empty = report.why_empty();
        let hits = report.hits.into_iter().map(|hit| Hit::new(py, hit)).collect::<PyResult<Vec<_>>>()?;
        let leg = |leg: core::LegReport| {
            let method = leg.method.map(ToOwned::to_owned);
            let class = Leg { ran: leg.ran, reason: leg.reason, candidates: leg.candidates, method };
            Ok((leg.name.to_owned(), Py::new(py, class)?))
        };
        let filters =
            report.filters.into_iter().map(|f| FilterEffect { name: f.name.to_owned(), left: f.left });
        Ok(Self {
            hits: PyTuple::new(py, hits)?.unbind(),
            legs: report.legs.into_iter().map(leg).collect::<PyResult<_>>()?,
            analysis: Py::new(py, Analysis::from(report.analysis))?,
            filters: PyTuple::new(py, filters.collect::<Vec<_>>())?.unbind(),
            considered: report.considered,
            coverage: Py::new(py, Coverage(report.coverage))?,
            elapsed_us: report.elapsed_us,
            why_empty,
        })
    }
}

#[pymethods]
impl Report {
    /// What became of each way of searching, `lexical` and `vector`.
    #[getter]
    fn legs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, leg) in &self.legs {
            dict.set_item(name, leg)?;
        }
        Ok(dict)
    }

    /// How the query was read.
    #[getter]
    fn analysis(&self, py: Python<'_>) -> Py<Analysis> {
        self.analysis.clone_ref(py)
    }

    /// Each condition of the filter with how many records it alone left.
    #[getter]
    fn filters(&self, py: Python<'_>) -> Py<PyTuple> {
        self.filters.clone_ref(py)
    }

    /// Records that all conditions together left: those that could have been found.
    #[getter]
    fn considered(&self) -> usize {
        self.considered
    }

    /// How many records have vectors.
    #[getter]
    fn coverage(&self, py: Python<'_>) -> Py<Coverage> {
        self.coverage.clone_ref(py)
    }

    /// Time from question to answer, in microseconds.
    #[getter]
    fn elapsed_us(&self) -> u64 {
        self.elapsed_us
    }

    #[getter]
    fn _hits(&self, py: Python<'_>) -> Py<PyTuple> {
        self.hits.clone_ref(py)
    }

    #[getter]
    fn _why_empty(&self) -> &str {
        &self.why_empty
    }

    /// Why there are no hits, in sentences; empty when there are some.
    fn why_empty(&self) -> &str {
        &self.why_empty
    }

    /// All of it as plain data ready for JSON; the hits are under `hits`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let each = |tuple: &Py<PyTuple>| {
            let plain = tuple.bind(py).iter().map(|item| item.call_method0("to_dict"));
            PyList::new(py, plain.collect::<PyResult<Vec<_>>>()?)
        };
        let legs = PyDict::new(py);
        for (name, leg) in &self.legs {
            legs.set_item(name, Leg::to_dict(leg.bind(py))?)?;
        }
        let dict = PyDict::new(py);
        dict.set_item("hits", each(&self.hits)?)?;
        dict.set_item("legs", legs)?;
        dict.set_item("analysis", Analysis::to_dict(self.analysis.bind(py))?)?;
        dict.set_item("filters", each(&self.filters)?)?;
        dict.set_item("considered", self.considered)?;
        dict.set_item("coverage", Coverage::to_dict(self.coverage.bind(py))?)?;
        dict.set_item("elapsed_us", self.elapsed_us)?;
        Ok(dict)
    }

    /// Place of the first hit that equals `value`.
    ///
    /// Raises:
    ///     ValueError: There is none.
    #[pyo3(signature = (value, start = 0, stop = None, /))]
    fn index(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        start: isize,
        stop: Option<isize>,
    ) -> PyResult<usize> {
        let hits = self.hits.bind(py);
        let place =
            |at: isize| if at < 0 { (hits.len().cast_signed() + at).max(0) } else { at }.cast_unsigned();
        let stop = stop.map_or(usize::MAX, place);
        for (at, hit) in hits.iter().enumerate().skip(place(start)).take_while(|(at, _)| *at < stop) {
            if hit.eq(value)? {
                return Ok(at);
            }
        }
        Err(PyValueError::new_err("this hit is not in the report"))
    }

    /// How many hits equal `value`.
    #[pyo3(signature = (value, /))]
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.hits.bind(py).iter().try_fold(0, |count, hit| Ok(count + usize::from(hit.eq(value)?)))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.hits.bind(py).len()
    }

    /// The hit at a place, or of a slice a tuple of hits.
    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let is_index = index.is_instance_of::<PySlice>() || index.hasattr("__index__")?;
        if !is_index {
            let kind = index.get_type().name()?;
            return Err(PyTypeError::new_err(format!("report indices are integers or slices, not {kind}")));
        }
        let item = self.hits.bind(py).as_any().get_item(index);
        item.map_err(|error| {
            if error.is_instance_of::<PyIndexError>(py) {
                PyIndexError::new_err("report index out of range")
            } else {
                error
            }
        })
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.hits.bind(py).try_iter()
    }

    fn __reversed__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let mut hits: Vec<_> = self.hits.bind(py).iter().collect();
        hits.reverse();
        PyTuple::new(py, hits)?.try_iter()
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.hits.bind(py).contains(value)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if other.cast_exact::<Self>().is_err() {
            return Ok(false);
        }
        let state =
            |report: &Bound<'_, PyAny>| record::reduce(report, &Self::STATE).map(|(_, state)| state.unbind());
        let py = slf.py();
        state(slf.as_any())?.bind(py).eq(state(other)?)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.hits.bind(py).hash()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let hits = slf.get().hits.bind(slf.py()).to_list().repr()?;
        let rest = record::repr(slf.as_any(), &Self::STATE[1..7])?;
        Ok(rest.replacen('(', &format!("(hits={hits}, "), 1))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        record::reduce(slf.as_any(), &Self::STATE)
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "one for each field")]
    fn _from_state(
        hits: Py<PyTuple>,
        legs: &Bound<'_, PyDict>,
        analysis: Py<Analysis>,
        filters: Py<PyTuple>,
        considered: usize,
        coverage: Py<Coverage>,
        elapsed_us: u64,
        why_empty: String,
    ) -> PyResult<Self> {
        let leg = |(name, leg): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            Ok((name.extract()?, leg.cast_into::<Leg>()?.unbind()))
        };
        let legs = legs.iter().map(leg).collect::<PyResult<_>>()?;
        Ok(Self { hits, legs, analysis, filters, considered, coverage, elapsed_us, why_empty })
    }
}
