//! The compiled module `otolith._core`: a thin binding over `otolith-core`.
//!
//! A function takes its arguments apart (`convert`), goes through the [`door`], and wraps what comes back.

#![allow(clippy::doc_markdown, reason = "doc comments become Python docstrings")]

mod analyzer;
mod convert;
mod door;
mod engine;
mod episode;
mod errors;
mod facts;
mod hit;
mod hybrid;
mod hybrid_types;
mod id_set;
mod maintenance;
mod outcome;
mod record;
mod reindex;
mod report;

use otolith_core::lexical::Simd;
use otolith_core::store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Panics behind the door, for the test that it becomes an `InternalError`.
#[pyfunction]
#[pyo3(name = "_panic_for_tests")]
fn panic_for_tests(py: Python<'_>, message: &str) -> PyResult<()> {
    door::run(py, || panic!("{message}"))
}

/// Who holds the write lock of a home now, as its holder note says. Opens no store and waits for nothing.
///
/// Args:
///     home: Directory of the memory.
///
/// Returns:
///     `pid`, `command`, `since` (RFC 3339 in UTC) and `exclusive` (bool: it keeps the store to itself for as long as it
///     is open); None if nobody does, or if the note cannot be read.
///
/// Raises:
///     InvalidInput: `home` is no path.
#[pyfunction]
fn holder<'py>(home: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyDict>>> {
    let py = home.py();
    let home = convert::path::absolute("home", home)?;
    let Some((found, exclusive)) = door::run(py, || Ok(store::holder(&home)))? else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("pid", found.pid)?;
    dict.set_item("command", found.command)?;
    dict.set_item("since", found.since)?;
    dict.set_item("exclusive", exclusive)?;
    Ok(Some(dict))
}

/// The file system a path is on, or would be made on.
///
/// Args:
///     path: A file or directory; it need not be there.
///
/// Returns:
///     name (str, such as `ext4` or `nfs`), network (bool: other machines may reach its files).
///
/// Raises:
///     StoreError: The system does not tell.
#[pyfunction]
fn file_system(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let found = door::run(py, move || otolith_core::store::file_system(&path))?;
    let dict = PyDict::new(py);
    dict.set_item("name", found.name)?;
    dict.set_item("network", found.network)?;
    Ok(dict)
}

/// Sets what searches are compiled for: what `OTOLITH_SIMD` names, or less if the machine does not have it, or the best.
fn simd_level() -> &'static str {
    let wanted = std::env::var("OTOLITH_SIMD").ok();
    let level = wanted.and_then(|name| Simd::ALL.into_iter().find(|level| level.name() == name));
    Simd::set(level).name()
}

/// The compiled part of otolith. Private: people import from `otolith`.
#[pymodule]
mod _core {
    use super::panic_for_tests;
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::file_system;
    #[pymodule_export]
    use super::holder;
    #[pymodule_export]
    use crate::analyzer::Analyzer;
    #[pymodule_export]
    use crate::engine::Engine;
    #[pymodule_export]
    use crate::episode::Episode;
    #[pymodule_export]
    use crate::hit::{Explanation, Hit};
    #[pymodule_export]
    use crate::hybrid::HybridIndex;
    #[pymodule_export]
    use crate::hybrid_types::{IndexHit, IndexParams, Inserted};
    #[pymodule_export]
    use crate::id_set::IdSet;
    #[pymodule_export]
    use crate::maintenance::{graph_recall, repair_store, verify_index, verify_rows, verify_store};
    #[pymodule_export]
    use crate::outcome::{Attached, Outcome, PendingText};
    #[pymodule_export]
    use crate::reindex::{reindex_attach, reindex_pending, reindex_purge, reindex_state, reindex_switch};
    #[pymodule_export]
    use crate::report::{Analysis, Coverage, FilterEffect, Leg, Report};

    /// Version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name Python has for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// Version of the record layout that is written.
    #[pymodule_export]
    const SCHEMA_VERSION: u32 = otolith_core::episode::SCHEMA_VERSION;
    /// Version of the store file that is written.
    #[pymodule_export]
    const FORMAT_VERSION: u32 = otolith_core::store::FORMAT_VERSION;
    /// Version of the text that embedders see.
    #[pymodule_export]
    const EMBEDDED_TEXT_VERSION: u32 = otolith_core::episode::EMBEDDED_TEXT_VERSION;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::door::quiet_panics();
        module.add("simd_level", crate::simd_level())?;
        // `collections.abc` is the same module, but importing it by that name loads `collections`: 1.4 ms of 2.2.
        let sequence = PyModule::import(module.py(), "_collections_abc")?.getattr("Sequence")?;
        sequence.call_method1("register", (module.py().get_type::<Report>(),))?;
        module.setattr("_panic_for_tests", wrap_pyfunction!(panic_for_tests, module)?)
    }
}
