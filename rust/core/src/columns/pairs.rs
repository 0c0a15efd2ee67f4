//! A pair of metadata as one value of a column.

use crate::episode::MetaValue;

/// The bytes of a pair; different pairs have different bytes.
pub(super) fn encoded(name: &str, value: &MetaValue) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 10);
    let mut left = name.len();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend_from_slice(name.as_bytes());
    match value {
        MetaValue::Null => bytes.push(b'n'),
        MetaValue::Bool(value) => bytes.push(if *value { b't' } else { b'f' }),
        MetaValue::Int(value) => {
            bytes.push(b'i');
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        MetaValue::Float(value) => {
            bytes.push(b'd');
            bytes.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        MetaValue::Str(value) => {
            bytes.push(b's');
            bytes.extend_from_slice(value.as_bytes());
        }
    }
    bytes
}

/// The bytes of every pair that [`MetaValue::matches`] a wanted one: a number has up to three spellings.
pub(super) fn matching(name: &str, wanted: &MetaValue) -> Vec<Vec<u8>> {
    let mut spellings = vec![wanted.clone()];
    match wanted {
        MetaValue::Int(value) => {
            spellings.extend([*value as f64, -(*value as f64)].map(MetaValue::Float));
        }
        MetaValue::Float(value) => {
            spellings.extend([MetaValue::Float(-value), MetaValue::Int(*value as i64)]);
        }
        MetaValue::Null | MetaValue::Bool(_) | MetaValue::Str(_) => {}
    }
    // Minus zero equals zero; any other number does not equal its negative, and NaN nothing.
    spellings.retain(|value| value.matches(wanted));
    spellings.iter().map(|value| encoded(name, value)).collect()
}
