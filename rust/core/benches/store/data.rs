//! Seeded records, and the same as bare rows.

use otolith_core::{Clock, Episode, EpisodePatch, Origin, Put, RecordId, Scope, SystemClock};

/// Width of the vectors unless told otherwise.
pub(crate) const DIM: usize = 384;
/// Bytes of the envelope around every stored value.
const SEAL: usize = 9;
/// Bytes of a row of the change feed.
const CHANGE: usize = 26;

/// Splitmix64, and how wide the vectors are that it draws.
pub(crate) struct Draw(u64, usize);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0xD134_2543_DE82_EF95), DIM)
    }

    pub(crate) fn with_dim(self, dim: usize) -> Self {
        Self(self.0, dim)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Words of a vocabulary of 20,000, the first ones often.
    fn words(&mut self, count: usize) -> String {
        let word = |draw: &mut Self| {
            let place = draw.next() as f64 / u64::MAX as f64;
            format!("w{:x}", (20_000.0 * place.powi(3)) as u32 + 0x1000)
        };
        (0..count).map(|_| word(self)).collect::<Vec<_>>().join(" ")
    }

    fn row(&mut self) -> Vec<f32> {
        (0..self.1).map(|_| self.next() as f32 / u64::MAX as f32 - 0.5).collect()
    }

    /// A record with key, directory and tags: every table gets a row.
    pub(crate) fn put(&mut self, who: &str, at: usize, with_vector: bool) -> Put {
        let fields = EpisodePatch {
            key: Some(Some(key(who, at))),
            summary: Some(self.words(15)),
            body: Some(Some(self.words(60))),
            working_dir: Some(Some(format!("/work/project{:02}", self.below(50)))),
            tags: Some(vec![self.words(1), self.words(1)]),
            ..EpisodePatch::default()
        };
        Put { id: None, fields, vector: with_vector.then(|| self.row()) }
    }
}

pub(crate) fn key(who: &str, at: usize) -> String {
    format!("{who}/{at:06}")
}

/// Bytes of what a caller gave: texts and cells.
pub(crate) fn payload(put: &Put) -> usize {
    let fields = &put.fields;
    let texts =
        [&fields.key, &fields.body, &fields.working_dir].into_iter().flatten().flatten().map(String::len);
    let tags = fields.tags.iter().flatten().map(String::len);
    texts.chain(tags).sum::<usize>()
        + fields.summary.as_ref().map_or(0, String::len)
        + put.vector.as_ref().map_or(0, |row| row.len() * 4)
}

/// The rows that a record becomes, byte for byte as long as the store's own.
pub(crate) struct Rows {
    pub(crate) id: [u8; 16],
    pub(crate) key: String,
    pub(crate) dir: String,
    pub(crate) episode: Vec<u8>,
    /// What the rows of its vector are cut from.
    pub(crate) cells: Option<Vec<u8>>,
}

impl Rows {
    pub(crate) const NAME: [u8; SEAL + 16] = [7; SEAL + 16];
    pub(crate) const DIR: [u8; SEAL] = [7; SEAL];
    pub(crate) const CHANGE: [u8; SEAL + CHANGE] = [7; SEAL + CHANGE];
    pub(crate) const NUMBER: [u8; SEAL + 8] = [7; SEAL + 8];
}

pub(crate) fn rows(put: &Put) -> Rows {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    let mut episode = Episode::new(id, now, Scope::root(), Origin::Assistant);
    put.fields.clone().apply(&mut episode).unwrap();
    let json = episode.to_stored().unwrap();
    let cells =
        put.vector.as_ref().map(|row| row.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>());
    Rows {
        id: *id.as_bytes(),
        key: episode.key.unwrap(),
        dir: episode.working_dir.unwrap(),
        episode: [&[7; SEAL][..], &json].concat(),
        cells,
    }
}
