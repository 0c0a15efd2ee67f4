//! Rows that are not episodes, and their bodies.

use crate::ids::RecordId;

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// It was written, new or again.
    Put,
    /// It is gone, with all its vectors.
    Delete,
    /// Its vectors changed.
    Embed,
}

/// What kind of record a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// An [`crate::episode::Episode`].
    Episode,
}

/// One row of the change feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Number of the row; rises by one with every row.
    pub sequence: u64,
    /// What happened.
    pub operation: Operation,
    /// To what kind of record.
    pub kind: RecordKind,
    /// To which one.
    pub id: RecordId,
    /// Random number of the transaction: tells this history from another that took the same steps.
    pub nonce: u64,
}

impl Change {
    pub(super) fn body(operation: Operation, kind: RecordKind, id: RecordId, nonce: u64) -> [u8; 26] {
        let mut body = [0; 26];
        body[0] = match operation {
            Operation::Put => 1,
            Operation::Delete => 2,
            Operation::Embed => 3,
        };
        body[1] = match kind {
            RecordKind::Episode => 1,
        };
        body[2..18].copy_from_slice(id.as_bytes());
        body[18..].copy_from_slice(&nonce.to_le_bytes());
        body
    }

    pub(super) fn parse(sequence: u64, body: &[u8]) -> Option<Self> {
        let ([operation, kind, id @ ..], nonce) = body.split_last_chunk::<8>()? else { return None };
        let operation = match operation {
            1 => Operation::Put,
            2 => Operation::Delete,
            3 => Operation::Embed,
            _ => return None,
        };
        let kind = match kind {
            1 => RecordKind::Episode,
            _ => return None,
        };
        let id = RecordId::from_bytes(id.try_into().ok()?).ok()?;
        Some(Self { sequence, operation, kind, id, nonce: u64::from_le_bytes(*nonce) })
    }
}

/// The vector of one chunk of one record, or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub enum Embedded {
    /// The row the embedder gave.
    Row(Vec<f32>),
    /// The embedder gave something that cannot be used: the reason.
    Refused(String),
}

/// One chunk of a record under one embedder.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddingRow {
    /// Number of the chunk within the record, from 0.
    pub chunk: u32,
    /// Hash of the text that was embedded: when the record's text has another, the row is stale.
    pub text_hash: u128,
    /// The vector, or the refusal.
    pub vector: Embedded,
}

/// Number under which vectors are refused while the home has no embedder. Real ones begin with 1.
pub const NO_EMBEDDER: u32 = 0;

/// How the fingerprint of vectors begins that callers give without an embedder; their width follows.
pub const GIVEN: &str = "given:";

/// How the fingerprint begins of an embedder whose place in the home another took; its own follows. Its rows belong to
/// nobody any more: they are in no answer, no export and no copy, and wait to be removed.
pub const REPLACED: &str = "replaced:";

/// One embedder this store has, or had, vectors of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedderRow {
    /// Its number within this store.
    pub number: u32,
    /// What identifies it: adapter, model, revision, prompt form, text version.
    pub fingerprint: String,
    /// Width of its vectors.
    pub dim: u32,
}

impl EmbedderRow {
    /// Whether its vectors are nobody's any more.
    pub fn is_replaced(&self) -> bool {
        self.fingerprint.starts_with(REPLACED)
    }

    pub(super) fn parse(number: u32, body: &[u8]) -> Option<Self> {
        let (dim, fingerprint) = body.split_first_chunk::<4>()?;
        let fingerprint = String::from_utf8(fingerprint.to_vec()).ok()?;
        Some(Self { number, fingerprint, dim: u32::from_le_bytes(*dim) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_round_trip_and_nonsense_is_refused() {
        let id = RecordId::new_episode(1);
        for operation in [Operation::Put, Operation::Delete, Operation::Embed] {
            let body = Change::body(operation, RecordKind::Episode, id, 77);
            let change = Change::parse(9, &body).unwrap();
            assert_eq!((change.sequence, change.operation, change.id, change.nonce), (9, operation, id, 77));
        }
        for bad in [&[][..], &[1], &[0; 26], &[9; 26], &[1; 25], &[1; 7]] {
            assert_eq!(Change::parse(1, bad), None);
        }
    }
}
