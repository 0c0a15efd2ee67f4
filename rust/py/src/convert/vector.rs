//! Vectors from whatever holds numbers: numpy arrays of any float or integer type, stride and byte order, lists,
//! tuples, `array.array`. numpy itself is never imported for it.

use super::text;
use crate::errors;
use otolith_core::engine::VectorRows;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyFloat, PyList, PyMemoryView, PySequence, PyString, PyTuple,
};

/// What is accepted where one vector is wanted.
const ONE: &str = "a vector: a numpy array of one dimension, or a list of numbers";
/// What is accepted where several are wanted.
const MANY: &str = "vectors: a numpy array of two dimensions, or a list of vectors";

/// One vector. What is not finite or has no length is left for core to refuse.
pub(crate) fn vector(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let components = |items: Vec<Bound<'_, PyAny>>| items.iter().map(|item| component(field, item)).collect();
    if let Some(items) = listed(value) {
        return components(items);
    }
    match buffered(field, value)? {
        Some((numbers, shape)) if shape.len() == 1 => Ok(numbers),
        Some((_, shape)) => {
            let message = format!("has {} dimensions; give {ONE}", shape.len());
            Err(errors::invalid(value.py(), field, message))
        }
        None => sequence(value)?.map_or_else(|| Err(errors::wanted(field, ONE, value)), components),
    }
}

/// As [`vector`], or None.
pub(crate) fn optional(field: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<f32>>> {
    value.filter(|value| !value.is_none()).map(|value| vector(field, value)).transpose()
}

/// Several vectors, None where there is none. What is wrong with one of them stays in its place.
pub(crate) fn vectors(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<PyResult<Option<Vec<f32>>>>> {
    let each = |items: Vec<Bound<'_, PyAny>>| {
        let named = items.iter().zip(0..).map(|(item, at)| optional(&format!("{field}[{at}]"), Some(item)));
        Ok(named.collect())
    };
    if let Some(items) = listed(value) {
        return each(items);
    }
    match buffered(field, value)? {
        Some((numbers, shape)) => match shape[..] {
            [rows, 0] => Ok((0..rows).map(|_| Ok(Some(Vec::new()))).collect()),
            [_, width] => Ok(numbers.chunks_exact(width).map(|row| Ok(Some(row.to_vec()))).collect()),
            _ => {
                let message = format!("has {} dimensions; give {MANY}", shape.len());
                Err(errors::invalid(value.py(), field, message))
            }
        },
        None => sequence(value)?.map_or_else(|| Err(errors::wanted(field, MANY, value)), each),
    }
}

/// Several vectors, all there and all right.
pub(crate) fn rows(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<f32>>> {
    let missing = || errors::invalid(value.py(), field, "holds None; give a vector for each");
    vectors(field, value)?.into_iter().map(|row| row?.ok_or_else(missing)).collect()
}

/// The items of a list or tuple.
fn listed<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    let list = value.cast::<PyList>().ok().map(|list| list.iter().collect());
    list.or_else(|| value.cast::<PyTuple>().ok().map(|tuple| tuple.iter().collect()))
}

/// The items of any other sequence, for instance a `range`; None for text and what is no sequence.
fn sequence<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
    if is_text(value) {
        return Ok(None);
    }
    match value.cast::<PySequence>() {
        Ok(sequence) => sequence.try_iter()?.collect::<PyResult<_>>().map(Some),
        Err(_) => Ok(None),
    }
}

fn is_text(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
}

fn component(field: &str, item: &Bound<'_, PyAny>) -> PyResult<f32> {
    if let Ok(float) = item.cast::<PyFloat>() {
        return Ok(float.value() as f32);
    }
    let py = item.py();
    if item.is_instance_of::<PyBool>() || is_text(item) {
        return Err(errors::wanted(field, "numbers", item));
    }
    match item.extract::<f64>() {
        Ok(number) => Ok(number as f32),
        // Finite, but beyond every float: refused as the infinity it becomes.
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => Ok(f32::INFINITY),
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Err(errors::wanted(field, "numbers", item)),
        Err(error) => Err(error),
    }
}

/// The numbers of a buffer in C order, and its shape; None for what is no buffer.
fn buffered(field: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<(Vec<f32>, Vec<usize>)>> {
    let py = value.py();
    if is_text(value) {
        return Ok(None);
    }
    let Ok(buffer) = PyUntypedBuffer::get(value) else { return Ok(None) };
    let shape = buffer.shape().to_vec();
    let format = buffer.format().to_string_lossy();
    // pyo3 does not look at the byte order.
    if !format.starts_with(if cfg!(target_endian = "little") { ['>', '!'] } else { ['<', '<'] }) {
        if let Ok(floats) = buffer.as_typed::<f32>() {
            return Ok(Some((floats.to_vec(py)?, shape)));
        }
        if let Ok(doubles) = buffer.as_typed::<f64>() {
            return Ok(Some((doubles.to_vec(py)?.into_iter().map(|x| x as f32).collect(), shape)));
        }
    }
    let bytes = PyMemoryView::from(value)?.call_method0("tobytes")?.cast_into::<PyBytes>()?;
    let Some(numbers) = decoded(&format, buffer.item_size(), bytes.as_bytes()) else {
        let message = format!("holds items of type {format:?}, not numbers; give {ONE}");
        return Err(errors::invalid(py, field, message));
    };
    Ok(Some((numbers, shape)))
}

/// Packed numbers of a `struct` format; None when they are none.
fn decoded(format: &str, size: usize, bytes: &[u8]) -> Option<Vec<f32>> {
    let (big, kind) = match format.as_bytes() {
        [kind] | [b'@' | b'=', kind] => (cfg!(target_endian = "big"), *kind),
        [b'<', kind] => (false, *kind),
        [b'>' | b'!', kind] => (true, *kind),
        _ => return None,
    };
    let read: fn(&[u8]) -> f32 = match (kind, size) {
        (b'e', 2) => |b| half(u16::from_le_bytes([b[0], b[1]])),
        (b'f', 4) => |b| f32::from_bits(unsigned(b) as u32),
        (b'd', 8) => |b| f64::from_bits(unsigned(b)) as f32,
        (b'b' | b'h' | b'i' | b'l' | b'q' | b'n', 1 | 2 | 4 | 8) => |b| {
            let unused = 64 - 8 * b.len() as u32;
            ((unsigned(b) << unused).cast_signed() >> unused) as f32
        },
        (b'B' | b'H' | b'I' | b'L' | b'Q' | b'N', 1 | 2 | 4 | 8) => |b| unsigned(b) as f32,
        _ => return None,
    };
    let number = |item: &[u8]| {
        let mut little = [0; 8];
        let little = &mut little[..size];
        little.copy_from_slice(item);
        if big {
            little.reverse();
        }
        read(little)
    };
    Some(bytes.chunks_exact(size).map(number).collect())
}

/// Up to eight bytes, the least first.
fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A number of IEEE 754 binary16, exactly.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1F), u32::from(bits & 0x3FF));
    let magnitude = match exponent {
        0 => (fraction as f32 * (-24f32).exp2()).to_bits(),
        31 => 0xFF << 23 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// What stands for the rows of one record: a matrix, or the reason why there are none.
pub(crate) fn rows_or_reason(field: &str, value: &Bound<'_, PyAny>) -> PyResult<VectorRows> {
    if value.is_instance_of::<PyString>() {
        return Ok(VectorRows::Refused(text::text(field, value)?.to_owned()));
    }
    rows(field, value).map(VectorRows::Rows)
}
