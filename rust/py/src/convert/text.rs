//! `str` and what is written as one.

use crate::errors::{self, to_py};
use otolith_core::error::Error;
use otolith_core::ids::RecordId;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use std::str::FromStr;

/// A `str` without lone surrogates.
pub(crate) fn text<'a>(field: &str, value: &'a Bound<'_, PyAny>) -> PyResult<&'a str> {
    let Ok(string) = value.cast::<PyString>() else { return Err(errors::wanted(field, "a str", value)) };
    string.to_str().map_err(|error| {
        let py = value.py();
        let place = error.value(py).getattr("start").and_then(|start| start.extract::<usize>());
        let place = place.map_or_else(|_| String::new(), |at| format!(" at character {at}"));
        errors::invalid(
            py,
            field,
            format!(
                "holds a lone surrogate{place}, which is not text; decode it with errors=\"replace\" first"
            ),
        )
    })
}

/// A `str`, or None.
pub(crate) fn optional<'a>(field: &str, value: &'a Bound<'_, PyAny>) -> PyResult<Option<&'a str>> {
    if value.is_none() { Ok(None) } else { text(field, value).map(Some) }
}

/// A `str` that core reads as one of its own types: a word, a scope, a time.
pub(crate) fn parsed<T: FromStr<Err = Error>>(field: &str, value: &Bound<'_, PyAny>) -> PyResult<T> {
    text(field, value)?.parse().map_err(|error| named(value.py(), field, error))
}

/// As [`parsed`], or None.
pub(crate) fn parsed_optional<T: FromStr<Err = Error>>(
    field: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Option<T>> {
    if value.is_none() { Ok(None) } else { parsed(field, value).map(Some) }
}

/// The error with the caller's name for the field in place of core's.
pub(crate) fn named(py: Python<'_>, field: &str, error: Error) -> PyErr {
    match error {
        Error::InvalidInput { message, .. } => errors::invalid(py, field, message),
        other => to_py(py, &other),
    }
}

/// The id of a record.
pub(crate) fn id(field: &str, value: &Bound<'_, PyAny>) -> PyResult<RecordId> {
    parsed(field, value)
}

/// A list or tuple, as its items.
pub(crate) fn items<'py>(
    field: &str,
    wanted: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = value.cast::<PyList>() {
        Ok(list.iter().collect())
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        Ok(tuple.iter().collect())
    } else {
        Err(errors::wanted(field, wanted, value))
    }
}

/// A tuple of exactly this many items.
pub(crate) fn tuple<'py, const N: usize>(
    field: &str,
    value: &Bound<'py, PyAny>,
) -> PyResult<[Bound<'py, PyAny>; N]> {
    let items = items(field, "a tuple", value)?;
    let count = items.len();
    items.try_into().map_err(|_| errors::invalid(value.py(), field, format!("holds {count} items; give {N}")))
}

/// A list or tuple of `str`.
pub(crate) fn texts(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let items = items(field, "a list of str", value)?;
    items.iter().map(|item| text(field, item).map(ToOwned::to_owned)).collect()
}

/// A list or tuple of record ids.
pub(crate) fn ids(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<RecordId>> {
    items(field, "a list of ids", value)?.iter().map(|item| id(field, item)).collect()
}
