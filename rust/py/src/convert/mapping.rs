//! Mappings of names to values.

use super::{number, text};
use crate::errors;
use otolith_core::episode::MetaValue;
use otolith_core::fusion::Weights;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyTuple};
use std::collections::BTreeMap;

/// A name with its value.
pub(crate) type Entry<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The entries of a mapping, all taken out before the first is looked at: looking may run code that changes it.
pub(crate) fn entries<'py>(field: &str, value: &Bound<'py, PyAny>) -> PyResult<Vec<Entry<'py>>> {
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(dict.iter().collect());
    }
    let Ok(mapping) = value.cast::<PyMapping>() else {
        return Err(errors::wanted(field, "a mapping", value));
    };
    let mut entries = Vec::with_capacity(mapping.len()?);
    for entry in mapping.items()?.iter() {
        let pair = entry.cast_into::<PyTuple>().map_err(|_| errors::wanted(field, "a mapping", value))?;
        entries.push((pair.get_item(0)?, pair.get_item(1)?));
    }
    Ok(entries)
}

/// Metadata, or the part of a filter that looks at it.
pub(crate) fn metadata(field: &str, value: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, MetaValue>> {
    let mut metadata = BTreeMap::new();
    for (name, value) in entries(field, value)? {
        let name = text::text(field, &name)?.to_owned();
        let value = number::meta(&format!("{field}.{name}"), &value)?;
        metadata.insert(name, value);
    }
    Ok(metadata)
}

/// Weights of the legs. A leg that is not named keeps the default's.
pub(crate) fn weights(value: Option<&Bound<'_, PyAny>>) -> PyResult<Weights> {
    const FIELD: &str = "weights";
    let Some(value) = value else { return Ok(Weights::default()) };
    let (mut lexical, mut vector) = (0.5, 0.5);
    for (name, weight) in entries(FIELD, value)? {
        match text::text(FIELD, &name)? {
            "lexical" => lexical = number::real("weights.lexical", &weight)?,
            "vector" => vector = number::real("weights.vector", &weight)?,
            other => {
                let message = format!("{other:?} is not a leg; there are lexical, vector");
                return Err(errors::invalid(value.py(), FIELD, message));
            }
        }
    }
    Weights::new(lexical, vector).map_err(|error| errors::to_py(value.py(), &error))
}
