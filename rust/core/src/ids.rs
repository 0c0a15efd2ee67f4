//! Checked ids. Nothing else in the crate passes a naked integer or string for one of these.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};
use uuid::{ContextV7, Timestamp as UuidTime, Uuid, Variant};

/// Public, stable id of a stored record: `UUIDv7` for episodes, `UUIDv8` for Markdown sections.
///
/// The byte order of version 7 ids is the order of their creation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId([u8; 16]);

impl RecordId {
    /// A new episode id, larger than every id this process made before, also within a millisecond.
    pub fn new_episode(unix_micros: i64) -> Self {
        static CONTEXT: OnceLock<Mutex<(ContextV7, [u8; 16])>> = OnceLock::new();
        let cell = CONTEXT.get_or_init(|| Mutex::new((ContextV7::new(), [0; 16])));
        let mut guard = cell.lock().unwrap_or_else(PoisonError::into_inner);
        let micros = unix_micros.max(0);
        let at = UuidTime::from_unix(
            &guard.0,
            micros.div_euclid(1_000_000).unsigned_abs(),
            (micros.rem_euclid(1_000_000) * 1_000) as u32,
        );
        let mut bytes = *Uuid::new_v7(at).as_bytes();
        // A clock that was set back must not break the order: continue from the last id instead.
        if bytes <= guard.1 {
            bytes = successor(guard.1);
        }
        guard.1 = bytes;
        Self(bytes)
    }

    /// Accepts the 16 bytes of a version 7 or 8 UUID.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Self> {
        let uuid = Uuid::from_bytes(bytes);
        if uuid.get_variant() == Variant::RFC4122 && matches!(uuid.get_version_num(), 7 | 8) {
            Ok(Self(bytes))
        } else {
            Err(Error::invalid(
                "id",
                format!("{uuid} is not an otolith id (a version 7 or 8 UUID); pass a foreign id as `key`"),
            ))
        }
    }

    /// The 16 bytes, big-endian, as they are stored.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The next larger version 7 id: one more in its random bits, carried over version and variant into the time.
fn successor(bytes: [u8; 16]) -> [u8; 16] {
    const LOW: u128 = (1 << 62) - 1;
    let value = u128::from_be_bytes(bytes);
    let (time, high, low) = (value >> 80, (value >> 64) & 0xFFF, value & LOW);
    let counter = ((time << 74) | (high << 62) | low) + 1;
    let (time, high, low) = (counter >> 74, (counter >> 62) & 0xFFF, counter & LOW);
    ((time << 80) | (7 << 76) | (high << 64) | (0b10 << 62) | low).to_be_bytes()
}

impl FromStr for RecordId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        // Only the hyphenated form: one spelling for one id, so that text comparison works.
        let uuid = (text.len() == 36).then(|| Uuid::parse_str(text).ok()).flatten();
        match uuid {
            Some(uuid) => Self::from_bytes(uuid.into_bytes()),
            None => Err(Error::invalid(
                "id",
                format!(
                    "{text:?} is not an otolith id (a version 7 or 8 UUID, 36 characters); pass a foreign id as `key`"
                ),
            )),
        }
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Uuid::from_bytes(self.0).hyphenated().fmt(f)
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Dense number of a document within one index. Never leaves the crate's index side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocId(pub u32);

impl DocId {
    /// As an array position.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Dense number of a term within one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TermId(pub u32);

impl TermId {
    /// As an array position.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episode_ids_rise_even_when_the_clock_is_set_back() {
        let mut last = RecordId::new_episode(2_000_000_000_000_000);
        for micros in [2_000_000_000_000_000, 1_999_999_999_000_000, 1, 0, -5] {
            for _ in 0..300 {
                let next = RecordId::new_episode(micros);
                assert!(next > last, "{next} after {last}");
                assert_eq!(RecordId::from_bytes(*next.as_bytes()).unwrap(), next);
                last = next;
            }
        }
    }

    #[test]
    fn successor_keeps_version_and_variant_over_every_carry() {
        let mut bytes = *RecordId::new_episode(1).as_bytes();
        bytes[8] = 0xBF;
        bytes[9..].fill(0xFF);
        let next = successor(bytes);
        assert!(next > bytes && RecordId::from_bytes(next).is_ok());
        bytes[6] = 0x7F;
        bytes[7] = 0xFF;
        let next = successor(bytes);
        assert!(next > bytes && RecordId::from_bytes(next).is_ok());
    }

    #[test]
    fn foreign_ids_are_refused_with_the_way_out() {
        for text in
            ["", "x", "1", "550e8400-e29b-41d4-a716-446655440000", "{}", "0192d7f0aaaa7bbb8cccddddeeeeffff"]
        {
            let error = text.parse::<RecordId>().unwrap_err().to_string();
            assert!(error.contains("key"), "{error}");
        }
        let id = RecordId::new_episode(1_700_000_000_000_000);
        assert_eq!(id.to_string().parse::<RecordId>().unwrap(), id);
    }
}
