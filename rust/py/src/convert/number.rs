//! Numbers, `bool` never being one.

use crate::errors;
use otolith_core::episode::MetaValue;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBoolMethods, PyFloat, PyInt, PyString};
use std::time::Duration;

/// Longest wait that is told apart from waiting for ever, in seconds: ten years.
const LONGEST_WAIT: f64 = 315_360_000.0;

/// A whole number from 0 up; one beyond what fits counts as the largest that does.
pub(crate) fn count(field: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    whole(field, "a whole number from 0 up", value)
}

/// The same from 1 up.
pub(crate) fn positive(field: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    const WANTED: &str = "a whole number from 1 up";
    match whole(field, WANTED, value)? {
        0 => Err(errors::invalid(value.py(), field, format!("is 0; give {WANTED}"))),
        number => Ok(number),
    }
}

fn whole(field: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyResult<usize> {
    if value.is_instance_of::<PyBool>() {
        return Err(errors::wanted(field, wanted, value));
    }
    let py = value.py();
    match value.extract::<i64>() {
        Ok(number) => usize::try_from(number)
            .map_err(|_| errors::invalid(py, field, format!("{number} is negative; give {wanted}"))),
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => {
            if value.gt(0)? {
                Ok(usize::MAX)
            } else {
                Err(errors::invalid(py, field, format!("is negative; give {wanted}")))
            }
        }
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Err(errors::wanted(field, wanted, value)),
        Err(error) => Err(error),
    }
}

/// A number.
pub(crate) fn real(field: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if let Ok(float) = value.cast::<PyFloat>() {
        return Ok(float.value());
    }
    if value.is_instance_of::<PyBool>() || value.is_instance_of::<PyString>() {
        return Err(errors::wanted(field, "a number", value));
    }
    value.extract::<f64>().map_err(|error| {
        let py = value.py();
        if error.is_instance_of::<PyTypeError>(py) {
            errors::wanted(field, "a number", value)
        } else if error.is_instance_of::<PyOverflowError>(py) {
            errors::invalid(py, field, "is too large for a number")
        } else {
            error
        }
    })
}

/// True or False, of Python or of NumPy.
pub(crate) fn flag(field: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.extract::<bool>().map_err(|_| errors::wanted(field, "True or False", value))
}

/// The same, or None: False.
pub(crate) fn flag_or_none(field: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    value.filter(|value| !value.is_none()).map_or(Ok(false), |value| flag(field, value))
}

/// A span of time in seconds.
pub(crate) fn seconds(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = real(field, value)?;
    if seconds.is_nan() || seconds < 0.0 {
        return Err(errors::invalid(
            value.py(),
            field,
            format!("{seconds} is not a number of seconds from 0 up"),
        ));
    }
    Ok(Duration::from_secs_f64(seconds.min(LONGEST_WAIT)))
}

/// A value of metadata.
pub(crate) fn meta(field: &str, value: &Bound<'_, PyAny>) -> PyResult<MetaValue> {
    if value.is_none() {
        return Ok(MetaValue::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(MetaValue::Bool(flag.is_true()));
    }
    if value.is_instance_of::<PyInt>() {
        let outside =
            |_| errors::invalid(value.py(), field, "is a number of more than 64 bits; give it as text");
        return value.extract().map(MetaValue::Int).map_err(outside);
    }
    if let Ok(float) = value.cast::<PyFloat>() {
        return Ok(MetaValue::Float(float.value()));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(MetaValue::Str(super::text::text(field, value)?.to_owned()));
    }
    Err(errors::wanted(field, "a str, int, float, bool or None", value))
}
