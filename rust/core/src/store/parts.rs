//! How a vector lies in `embeddings`: cut into parts, one row each.
//!
//! redb fills pages of 4 KiB with whole rows, so that a vector of 384 numbers in one row leaves a fifth of its page
//! empty, and one of 1,024 takes two pages where it nearly fits into one. Cut, both leave less than a tenth. A reader
//! takes parts of any length; how they are cut is up to the writer ([`cut`]).
//!
//! The first part has the head: kind, text hash, how many parts there are. All of them have a tag, a hash of the bytes
//! that were cut: parts of two versions of a vector, which a damaged file may show side by side, are told apart by it.
//! That each part is as it was written, and where, is what its checksum says. Body version 1 had one row a vector, under
//! the number of its chunk.

use super::rows::{Embedded, EmbeddingRow};
use twox_hash::XxHash3_64;

/// In the last component of a key: the row is a part.
const IS_PART: u32 = 1 << 31;
/// Bits of the number of the part, below those of the chunk.
const PART_BITS: u32 = 8;
/// Most parts of one vector.
const MOST_PARTS: usize = (1 << PART_BITS) - 1;
/// Most chunks of one record.
const MOST_CHUNKS: u32 = 1 << (31 - PART_BITS);

/// Bytes of a page that are there for rows.
const PAGE_ROOM: usize = 4096 - 4;
/// Bytes a row takes beside its body: key, envelope, and where its value ends.
const ROW: usize = 24 + super::seal::HEADER + 4;
/// Bytes before the payload of the first part: kind, text hash, how many parts, tag.
const HEAD: usize = 1 + 16 + 1 + TAG;
const TAG: usize = 4;
/// What one row more must save to be worth its while, in ten thousandths of a page: it is checked and written by itself.
const WORTH: usize = 200;
/// Least bytes of a part, where there is more than one.
const LEAST: usize = 256;

/// Which chunk a row is of, and which part of it, by the last component of its key; no part in body version 1.
pub(super) fn place(number: u32) -> (u32, Option<u32>) {
    if number & IS_PART == 0 {
        (number, None)
    } else {
        ((number & !IS_PART) >> PART_BITS, Some(number & ((1 << PART_BITS) - 1)))
    }
}

fn number(chunk: u32, part: usize) -> u32 {
    IS_PART | chunk << PART_BITS | part as u32
}

/// The rows a vector becomes: last component of the key, and body. None for one that is too long, or whose chunk has
/// too large a number.
pub(super) fn cut(row: &EmbeddingRow) -> Option<Vec<(u32, Vec<u8>)>> {
    let (kind, payload) = match &row.vector {
        Embedded::Row(cells) => (0, cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>()),
        Embedded::Refused(reason) => (1, reason.as_bytes().to_vec()),
    };
    let count = if kind == 0 { best_count(payload.len()) } else { 1 };
    if count > MOST_PARTS || row.chunk >= MOST_CHUNKS {
        return None;
    }
    let tag = tag(&payload).to_le_bytes();
    // All rows as long as each other: the head makes the first payload the shorter one.
    let body = (payload.len() + HEAD + (count - 1) * TAG).div_ceil(count);
    let mut rest = payload.as_slice();
    let mut parts = Vec::with_capacity(count);
    for part in 0..count {
        let mut bytes = Vec::with_capacity(body.max(HEAD));
        if part == 0 {
            bytes.push(kind);
            bytes.extend_from_slice(&row.text_hash.to_le_bytes());
            bytes.push(count as u8);
        }
        bytes.extend_from_slice(&tag);
        let room =
            if part + 1 == count { rest.len() } else { body.saturating_sub(bytes.len()).min(rest.len()) };
        let (here, later) = rest.split_at(room);
        bytes.extend_from_slice(here);
        parts.push((number(row.chunk, part), bytes));
        rest = later;
    }
    Some(parts)
}

/// The number of parts that takes least of the file, where the table is filled in the order of its keys.
fn best_count(payload: usize) -> usize {
    let cost = |count: usize| {
        let row = (payload + HEAD + (count - 1) * TAG).div_ceil(count) + ROW;
        // A row that is larger than a page takes two, four, eight and so on.
        let (rows, pages) = match PAGE_ROOM / row {
            0 => (1, row.div_ceil(PAGE_ROOM).next_power_of_two()),
            fitting => (fitting, 1),
        };
        count * (10_000 * pages / rows + WORTH)
    };
    (1..=MOST_PARTS)
        .take_while(|count| *count == 1 || payload / count >= LEAST)
        .min_by_key(|count| cost(*count))
        .unwrap_or(1)
}

fn tag(payload: &[u8]) -> u32 {
    XxHash3_64::oneshot(payload) as u32
}

/// One row of `embeddings`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) chunk: u32,
    /// Which part it is, from 0.
    pub(super) at: u32,
    /// Of the first part.
    pub(super) head: Option<Head>,
    /// The same in all parts of a vector.
    pub(super) tag: u32,
    pub(super) payload: Vec<u8>,
}

/// What the first part says of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) is_refusal: bool,
    pub(super) text_hash: u128,
    /// How many parts there are.
    pub(super) count: u8,
}

impl Part {
    /// Reads a body under a key that ends with `number`.
    pub(super) fn parse(number: u32, (version, body): super::seal::Body<'_>) -> Option<Self> {
        let (chunk, part) = place(number);
        if (version == 1) != part.is_none() {
            return None;
        }
        let part = part.unwrap_or(0);
        if part > 0 {
            let (tag, payload) = body.split_first_chunk()?;
            return Some(Self {
                chunk,
                at: part,
                head: None,
                tag: u32::from_le_bytes(*tag),
                payload: payload.to_vec(),
            });
        }
        let (kind, rest) = body.split_first()?;
        let is_refusal = match kind {
            0 => false,
            1 => true,
            _ => return None,
        };
        let (hash, rest) = rest.split_first_chunk()?;
        let text_hash = u128::from_le_bytes(*hash);
        let (count, tag, payload) = if version == 1 {
            (1, tag(rest), rest)
        } else {
            let (count, rest) = rest.split_first()?;
            let (tag, payload) = rest.split_first_chunk()?;
            (*count, u32::from_le_bytes(*tag), payload)
        };
        let head = (count > 0).then_some(Head { is_refusal, text_hash, count })?;
        Some(Self { chunk, at: part, head: Some(head), tag, payload: payload.to_vec() })
    }
}

/// Parts of one vector that were put together.
#[derive(Debug)]
struct Open {
    head: Head,
    tag: u32,
    next: u32,
    payload: Vec<u8>,
}

impl Open {
    /// Goes on with the next part; false if that is not what this is.
    fn add(&mut self, part: &Part) -> bool {
        let fits = part.head.is_none() && part.at == self.next && part.tag == self.tag;
        if fits {
            self.next += 1;
            self.payload.extend_from_slice(&part.payload);
        }
        fits
    }

    /// The vector, if all of it is there.
    fn row(self, chunk: u32) -> Option<EmbeddingRow> {
        if self.next != u32::from(self.head.count) {
            return None;
        }
        let vector = if self.head.is_refusal {
            Embedded::Refused(String::from_utf8(self.payload).ok()?)
        } else {
            let (cells, []) = self.payload.as_chunks::<4>() else { return None };
            Embedded::Row(cells.iter().map(|cell| f32::from_le_bytes(*cell)).collect())
        };
        Some(EmbeddingRow { chunk, text_hash: self.head.text_hash, vector })
    }
}

/// Embedder, record, chunk.
pub(super) type Chunk = (u32, [u8; 16], u32);

/// Why there is no vector.
#[derive(Debug, PartialEq)]
pub(super) enum Broken<E> {
    /// A row of it cannot be read.
    Row(E),
    /// Its rows are not all there, or not of each other.
    Parts,
}

/// A chunk that was come to the end of.
pub(super) type Joined<E> = (Chunk, Result<EmbeddingRow, Broken<E>>);

/// Puts the rows of `embeddings` together, which come in the order of their keys.
#[derive(Debug)]
pub(super) struct Joiner<E> {
    at: Option<(Chunk, Result<Open, Broken<E>>)>,
}

impl<E> Default for Joiner<E> {
    fn default() -> Self {
        Self { at: None }
    }
}

impl<E> Joiner<E> {
    /// Takes the next row, under the key of these parts. Returns the chunk before it, if it is of another.
    pub(super) fn next(
        &mut self,
        (embedder, id, number): (u32, [u8; 16], u32),
        row: Result<Part, E>,
    ) -> Option<Joined<E>> {
        let chunk = (embedder, id, place(number).0);
        let other = self.at.as_ref().is_none_or(|(at, _)| *at != chunk);
        let done = if other { self.end() } else { None };
        // Behind the rows of body version 1 of a record, parts: it was written twice and not removed between.
        let again = done
            .as_ref()
            .is_some_and(|(before, _)| before.0 == embedder && before.1 == id && before.2 > chunk.2);
        let state = match (self.at.take(), row) {
            (_, Err(fault)) => Err(Broken::Row(fault)),
            (None, Ok(Part { head: Some(head), tag, payload, .. })) if !again => {
                Ok(Open { head, tag, next: 1, payload })
            }
            (Some((_, Ok(mut open))), Ok(part)) => {
                if open.add(&part) {
                    Ok(open)
                } else {
                    Err(Broken::Parts)
                }
            }
            (Some((_, Err(fault))), Ok(_)) => Err(fault),
            (None, Ok(_)) => Err(Broken::Parts),
        };
        self.at = Some((chunk, state));
        done
    }

    /// The last chunk.
    pub(super) fn end(&mut self) -> Option<Joined<E>> {
        let (chunk, state) = self.at.take()?;
        Some((chunk, state.and_then(|open| open.row(chunk.2).ok_or(Broken::Parts))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: [u8; 16] = [7; 16];

    fn row(chunk: u32, width: usize, seed: u32) -> EmbeddingRow {
        let cells = (0..width as u32)
            .map(|n| f32::from_bits(n.wrapping_mul(0x9E37).wrapping_add(seed) & 0x3FFF_FFFF));
        EmbeddingRow {
            chunk,
            text_hash: u128::MAX - u128::from(seed),
            vector: Embedded::Row(cells.collect()),
        }
    }

    fn parse(parts: &[(u32, Vec<u8>)]) -> Vec<(u32, Part)> {
        parts.iter().map(|(number, body)| (*number, Part::parse(*number, (2, body)).unwrap())).collect()
    }

    fn join(parts: Vec<(u32, Part)>) -> Vec<Joined<()>> {
        let mut joiner = Joiner::default();
        let mut all: Vec<_> =
            parts.into_iter().filter_map(|(number, part)| joiner.next((1, ID, number), Ok(part))).collect();
        all.extend(joiner.end());
        all
    }

    #[test]
    fn common_widths_fill_their_pages() {
        for (width, most) in [
            (256, 1.16),
            (384, 1.07),
            (512, 1.17),
            (768, 1.07),
            (1024, 1.15),
            (1536, 1.07),
            (3072, 1.09),
            (4096, 1.09),
        ] {
            let parts = cut(&row(0, width, 1)).unwrap();
            let longest = parts.iter().map(|(_, body)| body.len()).max().unwrap() + ROW;
            let pages = parts.len() as f64 / (PAGE_ROOM / longest) as f64;
            let ratio = pages * 4096.0 / (width * 4) as f64;
            assert!(ratio <= most, "{width}: {} parts, {ratio:.3}", parts.len());
        }
    }

    #[test]
    fn what_is_too_large_is_refused() {
        assert!(cut(&row(MOST_CHUNKS, 3, 1)).is_none());
        let long =
            EmbeddingRow { vector: Embedded::Refused("x".repeat(1 << 20)), ..row(MOST_CHUNKS - 1, 0, 1) };
        let parts = cut(&long).unwrap();
        assert_eq!((parts.len(), place(parts[0].0)), (1, (MOST_CHUNKS - 1, Some(0))));
        assert_eq!(join(parse(&parts)), [((1, ID, MOST_CHUNKS - 1), Ok(long))]);
    }

    #[test]
    fn rows_of_version_1_are_read_under_their_chunk_and_nothing_under_a_key_of_the_other() {
        let mut body = vec![0];
        body.extend_from_slice(&5_u128.to_le_bytes());
        body.extend_from_slice(&1.5_f32.to_le_bytes());
        let part = Part::parse(3, (1, &body)).unwrap();
        let expected = EmbeddingRow { chunk: 3, text_hash: 5, vector: Embedded::Row(vec![1.5]) };
        assert_eq!(join(vec![(3, part)]), [((1, ID, 3), Ok(expected))]);
        assert_eq!(Part::parse(3, (2, &body)), None);
        assert_eq!(Part::parse(number(3, 0), (1, &body)), None);
        for bad in [&[][..], &[0; 16], &[2; 30]] {
            assert_eq!((Part::parse(0, (1, bad)), Part::parse(number(0, 0), (2, bad))), (None, None));
        }
        assert_eq!(Part::parse(number(0, 0), (2, &[0; 22])), None, "of no parts");
        assert_eq!(Part::parse(number(0, 1), (2, &[0; 3])), None);
    }

    proptest! {
        #[test]
        fn any_vector_comes_back_and_never_another(
            width in 0..5000_usize, seed in any::<u32>(), other in any::<u32>(), pick in any::<prop::sample::Index>(), how in 0..4,
        ) {
            let one = row(4, width, seed);
            let mut parts = parse(&cut(&one).unwrap());
            let place = (1, ID, 4);
            prop_assert_eq!(join(parts.clone()), [(place, Ok(one.clone()))]);
            let at = pick.index(parts.len());
            match how {
                // One of them is not there.
                0 => drop(parts.remove(at)),
                // One is of another version of the same vector.
                1 => parts[at] = parse(&cut(&row(4, width, other)).unwrap())[at].clone(),
                // One too many.
                2 => {
                    let (number, last) = parts.last().unwrap().clone();
                    parts.push((number + 1, Part { at: last.at + 1, head: None, ..last }));
                }
                // Two have changed places.
                _ => {
                    let with = (at + 1) % parts.len();
                    let (a, b) = (parts[at].1.clone(), parts[with].1.clone());
                    (parts[at].1, parts[with].1) = (b, a);
                }
            }
            for (_, outcome) in join(parts) {
                prop_assert!(outcome.is_err() || outcome == Ok(one.clone()) || outcome == Ok(row(4, width, other)));
            }
        }
    }
}
