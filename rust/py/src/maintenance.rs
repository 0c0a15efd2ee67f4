//! Checking and repairing a store file that need not be one that can be opened.

use crate::convert::number;
use crate::convert::path::absolute;
use crate::door;
use crate::engine::Engine;
use otolith_core::engine::graph_problem;
use otolith_core::store::{Problem, Progress, Repaired, Store, StoreOptions, Verified, Wait};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Checks the store file of a home, without writing to it.
///
/// Args:
///     home: Its directory.
///     lock_timeout: Longest wait for the write lock, in seconds.
///     progress: Called now and then with (bytes done, bytes to do).
///
/// Returns:
///     problems (list of (kind, table, id, detail)), records, vectors, bytes, held_ms (int).
///
/// Raises:
///     StoreError: It cannot be looked at.
#[pyfunction]
#[pyo3(signature = (home, *, lock_timeout, progress=None))]
pub(crate) fn verify_store<'py>(
    home: &Bound<'py, PyAny>,
    lock_timeout: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (py, place) = (home.py(), absolute("home", home)?);
    let options = StoreOptions {
        lock_timeout: number::seconds("lock_timeout", lock_timeout)?,
        ..StoreOptions::default()
    };
    let found =
        door::work(py, options.lock_timeout, progress, |_, told| Store::verify(&place, &options, told))?;
    verified(py, found)
}

/// Checks the store file of a home and puts a whole one in its place if it is damaged.
///
/// Args:
///     home: Its directory.
///     lock_timeout: Longest wait for the write lock, in seconds.
///     distrust: Make a new file whatever is found: the check of this one ended its process.
///     progress: Called now and then with (bytes done, bytes to do).
///
/// Returns:
///     What `verify_store` does, of the file before; kept_as and lost_found (str or None), restored,
///     restored_vectors (int), lost (list of (table, id, detail, file or None)).
///
/// Raises:
///     StoreError: It could not be done, and nothing was changed.
#[pyfunction]
#[pyo3(signature = (home, *, lock_timeout, distrust=false, progress=None))]
pub(crate) fn repair_store<'py>(
    home: &Bound<'py, PyAny>,
    lock_timeout: &Bound<'py, PyAny>,
    distrust: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (py, place) = (home.py(), absolute("home", home)?);
    let options = StoreOptions {
        lock_timeout: number::seconds("lock_timeout", lock_timeout)?,
        ..StoreOptions::default()
    };
    let job = |_: &Wait<'_>, told: &mut Progress<'_>| Store::repair(&place, &options, distrust, told);
    let done = door::work(py, options.lock_timeout, progress, job)?;
    let Repaired { before, kept_as, lost_found, restored, restored_vectors, lost } = done;
    let dict = verified(py, before)?;
    dict.set_item("kept_as", kept_as.map(std::path::PathBuf::into_os_string))?;
    dict.set_item("lost_found", lost_found.map(std::path::PathBuf::into_os_string))?;
    dict.set_item("restored", restored)?;
    dict.set_item("restored_vectors", restored_vectors)?;
    let lost: Vec<_> = lost.into_iter().map(|loss| (loss.table, loss.id, loss.detail, loss.file)).collect();
    dict.set_item("lost", lost)?;
    Ok(dict)
}

/// Checks the rows of an open memory against each other.
///
/// Args:
///     engine: The open handle.
///
/// Returns:
///     As `verify_store`.
///
/// Raises:
///     StoreError: The store cannot be read.
#[pyfunction]
pub(crate) fn verify_rows<'py>(py: Python<'py>, engine: &Engine) -> PyResult<Bound<'py, PyDict>> {
    let found = door::run(py, || engine.core().verify_rows())?;
    verified(py, found)
}

/// Compares the index of an open memory with one built anew from the store.
///
/// Args:
///     engine: The open handle.
///
/// Returns:
///     Problems as in `verify_store`; none for a handle that was never asked anything.
///
/// Raises:
///     StoreError: The store cannot be read.
#[pyfunction]
pub(crate) fn verify_index(py: Python<'_>, engine: &Engine) -> PyResult<Vec<Told>> {
    let found = door::run(py, || engine.core().verify_index())?;
    Ok(found.into_iter().map(told).collect())
}

/// Share of the ten nearest to stored vectors that searching on their graphs finds, over 200 of them.
///
/// Args:
///     engine: The open handle.
///
/// Returns:
///     0 to 1, None where every vector is compared; and as problems, as in `verify_store`, whether it is too little.
///
/// Raises:
///     StoreError: The store cannot be read.
#[pyfunction]
pub(crate) fn graph_recall(py: Python<'_>, engine: &Engine) -> PyResult<(Option<f64>, Vec<Told>)> {
    let recall = door::run(py, || engine.core().graph_recall())?;
    Ok((recall, recall.and_then(graph_problem).map(told).into_iter().collect()))
}

type Told = (&'static str, String, String, String);

fn told(problem: Problem) -> Told {
    (problem.kind.as_str(), problem.table, problem.id, problem.detail)
}

fn verified(py: Python<'_>, found: Verified) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let problems: Vec<_> = found.problems.into_iter().map(told).collect();
    dict.set_item("problems", problems)?;
    dict.set_item("records", found.records)?;
    dict.set_item("vectors", found.vectors)?;
    dict.set_item("bytes", found.bytes)?;
    dict.set_item("held_ms", found.held_ms)?;
    Ok(dict)
}
