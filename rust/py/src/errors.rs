//! Errors of core as classes of `otolith.exceptions`: the only mapping.

use otolith_core::error::{Error, Lock};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

/// The exception for an error.
pub(crate) fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    // An exception that cannot be made is a broken installation, which that error describes.
    exception(py, error).unwrap_or_else(|broken| broken)
}

/// An `InvalidInput` for `field`.
pub(crate) fn invalid(py: Python<'_>, field: impl Into<String>, message: impl Into<String>) -> PyErr {
    to_py(py, &Error::invalid(field, message))
}

/// An `InvalidInput` for `field` that says what was wanted instead of what was given.
pub(crate) fn wanted(field: &str, wanted: &str, given: &Bound<'_, PyAny>) -> PyErr {
    let kind = given.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string());
    invalid(given.py(), field, format!("give {wanted}, not {kind}"))
}

/// Whether an exception is one of ours, and not for instance a `KeyboardInterrupt` of converted values.
pub(crate) fn is_ours(py: Python<'_>, error: &PyErr) -> bool {
    class(py, "OtolithError").is_ok_and(|ours| error.is_instance(py, &ours))
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let details = PyDict::new(py);
    let class_name = match error {
        Error::NotFound { what, id } => {
            details.set_item("what", *what)?;
            details.set_item("id", id)?;
            "NotFound"
        }
        Error::InvalidInput { field, .. } => {
            details.set_item("field", field)?;
            "InvalidInput"
        }
        Error::DimensionMismatch { expected, found, .. } => {
            details.set_item("expected", expected)?;
            details.set_item("found", found)?;
            "DimensionMismatch"
        }
        Error::Conflict { what, detail } => {
            details.set_item("what", what)?;
            details.set_item("detail", detail)?;
            "Conflict"
        }
        Error::StoreLocked { path, lock, holder, waited_ms } => {
            let lock = match lock {
                Lock::Write => "write",
                Lock::Exclusive => "exclusive",
                Lock::Shared => "shared",
            };
            details.set_item("path", path.as_os_str())?;
            details.set_item("lock", lock)?;
            details.set_item("holder_pid", holder.as_ref().map(|h| h.pid))?;
            details.set_item("holder_command", holder.as_ref().map(|h| &h.command))?;
            details.set_item("holder_since", holder.as_ref().map(|h| &h.since))?;
            details.set_item("waited_ms", waited_ms)?;
            "StoreLocked"
        }
        Error::StoreCorrupt { path, detail } | Error::IndexCorrupt { path, detail } => {
            details.set_item("path", path.as_os_str())?;
            details.set_item("detail", detail)?;
            "StoreCorrupt"
        }
        Error::FormatTooNew { what, found, supported } => {
            details.set_item("what", what)?;
            details.set_item("found", found)?;
            details.set_item("supported", supported)?;
            "FormatTooNew"
        }
        Error::ReadOnly { path } => {
            details.set_item("path", path.as_os_str())?;
            "ReadOnly"
        }
        Error::Store { path, source, .. } => {
            details.set_item("path", path.as_os_str())?;
            details.set_item("errno", source.as_ref().and_then(std::io::Error::raw_os_error))?;
            "StoreError"
        }
        // Waits give the exception of the signal handler instead; this is for a wait that had none.
        Error::Interrupted => return Ok(pyo3::exceptions::PyKeyboardInterrupt::new_err(error.to_string())),
        _ => "InternalError",
    };
    let class = class(py, class_name)?;
    Ok(PyErr::from_value(class.call((error.to_string(),), Some(&details))?))
}

/// A class of `otolith.exceptions`, which is imported at the first error and not before.
fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module =
        MODULE.get_or_try_init(py, || PyModule::import(py, "otolith.exceptions").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}
