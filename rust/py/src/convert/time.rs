//! `datetime` and [`Moment`], exact to the microsecond, offset included.

use super::text::{named, parsed};
use crate::errors;
use otolith_core::time::Moment;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDelta, PyString, PyTzInfo};

/// Ordinal of 1970-01-01 in the proleptic Gregorian calendar, where 0001-01-01 is 1.
const EPOCH_ORDINAL: i64 = 719_163;
const SECONDS_A_DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;

/// A moment from an aware `datetime` or an ISO string with an offset.
pub(crate) fn moment(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Moment> {
    if value.is_instance_of::<PyString>() {
        return parsed(field, value);
    }
    let py = value.py();
    if !value.is_instance_of::<PyDateTime>() {
        return Err(errors::wanted(field, "a datetime with an offset from UTC", value));
    }
    let offset = value.call_method0(intern!(py, "utcoffset"))?;
    if offset.is_none() {
        let message = "has no offset from UTC, and guessing one would shift it; add one, for instance datetime.now(UTC)";
        return Err(errors::invalid(py, field, message));
    }
    let part = |of: &Bound<'_, PyAny>, name: &Bound<'_, PyString>| of.getattr(name)?.extract::<i64>();
    let offset_seconds =
        part(&offset, intern!(py, "days"))? * SECONDS_A_DAY + part(&offset, intern!(py, "seconds"))?;
    let day = value.call_method0(intern!(py, "toordinal"))?.extract::<i64>()? - EPOCH_ORDINAL;
    let second = part(value, intern!(py, "hour"))? * 3600
        + part(value, intern!(py, "minute"))? * 60
        + part(value, intern!(py, "second"))?;
    let local = (day * SECONDS_A_DAY + second) * MICROS + part(value, intern!(py, "microsecond"))?;
    // An offset may have microseconds: the moment counts them, the offset that is kept does not.
    let micros = local - offset_seconds * MICROS - part(&offset, intern!(py, "microseconds"))?;
    Moment::new(micros, offset_seconds as i32).map_err(|error| named(py, field, error))
}

/// The `datetime` of a moment, in its own offset.
pub(crate) fn datetime(py: Python<'_>, moment: Moment) -> PyResult<Bound<'_, PyDateTime>> {
    let (year, month, day) = moment.date();
    let local = moment.unix_micros() + i64::from(moment.offset_seconds()) * MICROS;
    let of_day = local.rem_euclid(SECONDS_A_DAY * MICROS);
    let second = of_day / MICROS;
    let zone = match moment.offset_seconds() {
        0 => PyTzInfo::utc(py)?.to_owned(),
        seconds => PyTzInfo::fixed_offset(py, PyDelta::new(py, 0, seconds, 0, true)?)?,
    };
    PyDateTime::new(
        py,
        i32::from(year),
        month.unsigned_abs(),
        day.unsigned_abs(),
        (second / 3600) as u8,
        (second / 60 % 60) as u8,
        (second % 60) as u8,
        (of_day % MICROS) as u32,
        Some(&zone),
    )
}
