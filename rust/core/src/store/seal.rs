//! The envelope around every stored value: `checksum | version | body`.
//!
//! redb does not verify a page when it reads one, so a flipped bit would come back as data. The checksum is
//! xxh3-64 over `version | body`, seeded with xxh3-64 over `table name | 0 | key bytes`: a value that turns up
//! under another key or in another table fails as well.

use twox_hash::XxHash3_64;

/// Bytes before the body: eight of checksum (little-endian), one of version.
pub(super) const HEADER: usize = 9;
/// A body, and the version it was written in.
pub(super) type Body<'v> = (u8, &'v [u8]);

/// Version of the bodies this build writes to a table; it reads the earlier ones as well.
pub(super) fn body_version(table: &str) -> u8 {
    match table {
        "episodes" | "embeddings" => 2,
        _ => 1,
    }
}

/// Why a value cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SealError {
    /// Too short, or the checksum does not fit.
    Damaged,
    /// Intact, but of a version this build does not know.
    TooNew(u8),
}

/// A body in its envelope, ready to be stored under `key` in `table`.
pub(super) fn seal(table: &str, key: &[u8], body: &[u8]) -> Vec<u8> {
    seal_parts(table, key, &[body])
}

/// As [`seal`], for a body that is in several pieces.
pub(super) fn seal_parts(table: &str, key: &[u8], body: &[&[u8]]) -> Vec<u8> {
    seal_version(body_version(table), table, key, body)
}

/// As [`seal_parts`], as another version wrote it.
pub(super) fn seal_version(version: u8, table: &str, key: &[u8], body: &[&[u8]]) -> Vec<u8> {
    let length = body.iter().map(|part| part.len()).sum::<usize>();
    let mut value = Vec::with_capacity(HEADER + length);
    value.extend_from_slice(&[0; 8]);
    value.push(version);
    for part in body {
        value.extend_from_slice(part);
    }
    let sum = checksum(table, key, &value[8..]);
    value[..8].copy_from_slice(&sum.to_le_bytes());
    value
}

/// Whether a stored value has the form that this build writes.
pub(super) fn is_present(table: &str, value: &[u8]) -> bool {
    value.get(HEADER - 1) == Some(&body_version(table))
}

/// The body of a stored value, once its checksum and version are found good.
pub(super) fn unseal<'v>(table: &str, key: &[u8], value: &'v [u8]) -> Result<Body<'v>, SealError> {
    let (sum, rest) = value.split_first_chunk::<8>().ok_or(SealError::Damaged)?;
    let (version, body) = rest.split_first().ok_or(SealError::Damaged)?;
    if checksum(table, key, rest) != u64::from_le_bytes(*sum) {
        return Err(SealError::Damaged);
    }
    match *version {
        0 => Err(SealError::Damaged),
        known if known <= body_version(table) => Ok((known, body)),
        newer => Err(SealError::TooNew(newer)),
    }
}

fn checksum(table: &str, key: &[u8], versioned_body: &[u8]) -> u64 {
    let mut place = Vec::with_capacity(table.len() + 1 + key.len());
    place.extend_from_slice(table.as_bytes());
    place.push(0);
    place.extend_from_slice(key);
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&place), versioned_body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_wrong_place_is_seen() {
        let value = seal("episodes", b"key", b"the body");
        assert_eq!(unseal("episodes", b"key", &value), Ok((2, b"the body".as_slice())));
        for bit in 0..value.len() * 8 {
            let mut damaged = value.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(unseal("episodes", b"key", &damaged), Err(SealError::Damaged), "bit {bit}");
        }
        for length in 0..value.len() {
            assert_eq!(unseal("episodes", b"key", &value[..length]), Err(SealError::Damaged));
        }
        assert_eq!(unseal("episodes", b"kez", &value), Err(SealError::Damaged));
        assert_eq!(unseal("keys", b"key", &value), Err(SealError::Damaged));
    }

    #[test]
    fn an_intact_newer_version_is_told_apart_from_damage_and_an_earlier_one_is_read() {
        for (table, version, expected) in [
            ("meta", 2, Err(SealError::TooNew(2))),
            ("meta", 1, Ok((1, b"x".as_slice()))),
            ("meta", 0, Err(SealError::Damaged)),
            ("embeddings", 1, Ok((1, b"x".as_slice()))),
            ("embeddings", 3, Err(SealError::TooNew(3))),
        ] {
            let value = seal_version(version, table, b"k", &[b"x"]);
            assert_eq!(unseal(table, b"k", &value), expected, "{table} {version}");
            assert_eq!(is_present(table, &value), version == body_version(table));
        }
    }
}
