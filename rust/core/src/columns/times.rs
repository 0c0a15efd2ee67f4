//! When records happened: conditions on it, and the newest.

use super::bits::{self, WORD};
use crate::error::Result;
use crate::ids::DocId;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use fixedbitset::FixedBitSet;
use std::cmp::Reverse;
use std::io::{self, Write};

const TIMES: SectionName = SectionName::new("c.time");
const ZONES: SectionName = SectionName::new("c.zone");

/// Times in microseconds, and of each word of documents the least and greatest: ids rise with the time of writing, so
/// most words lie on one side of a limit as a whole.
#[derive(Debug)]
pub(super) struct Times {
    micros: Numbers<i64>,
    zones: Numbers<[i64; 2]>,
}

impl Times {
    pub(super) fn open(sections: &Sections, num_docs: usize) -> Result<Self> {
        let own = Self { micros: sections.array(TIMES)?, zones: sections.array(ZONES)? };
        if own.micros.len() != num_docs || own.zones.len() != num_docs.div_ceil(WORD) {
            return Err(sections.corrupt("the times of the index do not fit its documents"));
        }
        Ok(own)
    }

    pub(super) fn write<W: Write>(writer: &mut SectionWriter<W>, micros: &[i64]) -> io::Result<()> {
        let zone = |word: &[i64]| word.iter().fold([i64::MAX, i64::MIN], |[a, z], t| [a.min(*t), z.max(*t)]);
        writer.section(TIMES, micros)?;
        writer.section(ZONES, &micros.chunks(WORD).map(zone).collect::<Vec<_>>())
    }

    pub(super) fn at(&self, doc: DocId) -> Option<i64> {
        self.micros.get(doc.index()).copied()
    }

    /// Adds the documents whose time passes, where that changes at most once as time goes on.
    pub(super) fn add(&self, set: &mut FixedBitSet, passes: impl Fn(i64) -> bool) {
        let (micros, zones) = (&*self.micros, &*self.zones);
        let (whole, rest) = micros.as_chunks::<WORD>();
        bits::add(set, |at| match (zones.get(at).map(|zone| zone.map(&passes)), whole.get(at)) {
            (Some([true, true]), _) => u64::MAX,
            (Some([false, false]), _) => 0,
            (_, Some(micros)) => bits::word_of(micros, &passes),
            (_, None) => rest.iter().zip(0..).fold(0, |bits, (t, n)| bits | (u64::from(passes(*t)) << n)),
        });
    }

    /// The `k` newest of `within`, newest first, then by number.
    pub(super) fn newest(&self, within: &FixedBitSet, k: usize) -> Vec<DocId> {
        let (micros, zones) = (&*self.micros, &*self.zones);
        if k == 0 {
            return Vec::new();
        }
        // Candidates up to twice as many as wanted, cut back by selection; the k-th of a cut is the floor of the rest.
        let most = k.saturating_mul(2).max(WORD);
        let mut best: Vec<(Reverse<i64>, u32)> = Vec::new();
        let mut floor: Option<(Reverse<i64>, u32)> = None;
        // From the last: the newest are most often there, and raise the floor at once.
        for (at, zone) in zones.iter().enumerate().rev() {
            let mut bits = bits::word(within, at);
            if bits == 0 || floor.is_some_and(|(Reverse(floor), _)| zone[1] < floor) {
                continue;
            }
            while bits != 0 {
                let last = WORD - 1 - bits.leading_zeros() as usize;
                bits &= !(1 << last);
                let doc = at * WORD + last;
                let Some(time) = micros.get(doc) else { continue };
                let key = (Reverse(*time), doc as u32);
                if floor.is_none_or(|floor| key < floor) {
                    best.push(key);
                }
                if best.len() >= most {
                    best.select_nth_unstable(k - 1);
                    best.truncate(k);
                    floor = best.last().copied();
                }
            }
        }
        best.sort_unstable();
        best.truncate(k);
        best.into_iter().map(|(_, doc)| DocId(doc)).collect()
    }
}
