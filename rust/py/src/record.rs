//! What makes a compiled class behave like a frozen dataclass: its text, its pickling, its plain form.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// `Name(field=value, ...)`.
pub(crate) fn repr(object: &Bound<'_, PyAny>, fields: &[&str]) -> PyResult<String> {
    let mut parts = Vec::with_capacity(fields.len());
    for field in fields {
        parts.push(format!("{field}={}", object.getattr(*field)?.repr()?));
    }
    Ok(format!("{}({})", object.get_type().name()?, parts.join(", ")))
}

/// For pickling: the class is made again by its `_from_state` from the values of `fields`.
pub(crate) fn reduce<'py>(
    object: &Bound<'py, PyAny>,
    fields: &[&str],
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let state = fields.iter().map(|field| object.getattr(*field)).collect::<PyResult<Vec<_>>>()?;
    Ok((object.get_type().getattr("_from_state")?, PyTuple::new(object.py(), state)?))
}

/// The fields as a dict, with lists for tuples.
pub(crate) fn to_dict<'py>(object: &Bound<'py, PyAny>, fields: &[&str]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(object.py());
    for field in fields {
        let value = object.getattr(*field)?;
        match value.cast::<PyTuple>() {
            Ok(tuple) => dict.set_item(*field, tuple.to_list())?,
            Err(_) => dict.set_item(*field, value)?,
        }
    }
    Ok(dict)
}
