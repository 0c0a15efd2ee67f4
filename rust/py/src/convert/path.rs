//! Paths.

use crate::errors;
use pyo3::prelude::*;
use std::path::PathBuf;

/// An absolute path, so that a later change of the working directory does not move it.
pub(crate) fn absolute(field: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let py = value.py();
    let Ok(path) = value.extract::<PathBuf>() else { return Err(errors::wanted(field, "a path", value)) };
    std::path::absolute(&path)
        .map_err(|error| errors::invalid(py, field, format!("{} is no path: {error}", path.display())))
}
