//! The best documents of one part: windows of documents, dense rows by wide registers, and `MaxScore`.
//!
//! Terms with lists come first, in the canonical order, those with rows after them. The first terms, the essential ones,
//! are added up over a window of documents; what the others can add at most decides which documents are looked at
//! further. The better the documents found so far, the fewer terms are essential. When essential lists still let too many
//! documents through, the next ones are added up as well: looking each up is dearer (with loose bounds five times dearer
//! than scoring everything). Rows are added group by group, as long as a document of the group can still count.
//!
//! Where there are rows, sums are close to the scores, in any order: what they let through is scored at the end.

use super::part::{AHEAD, Part, Sieve};
use super::top::Top;
use crate::lexical::bm25::{Norms, saturation};
use crate::lexical::segment::{Bounds, Postings};
use crate::lexical::simd::{self, Row, Simd, Window};
use crate::prefetch::prefetch;
use std::cell::Cell;

/// Documents of a window: sums, lengths and a few rows fit the first cache.
const WINDOW: usize = 4096;
/// Documents that are looked through at once: what is found in them raises what the next need.
const BLOCK: usize = 256;
/// Documents of a window of few postings, which are listed instead of scanned: sums fit the second cache.
const SPARSE_WINDOW: usize = 16 * WINDOW;
/// With fewer postings of essential terms than one in so many documents, they are listed.
const SPARSE_SHARE: usize = 32;
/// With more than one in so many documents of a window left to look at, another list is added up.
const CROWDED_SHARE: usize = 128;
/// Postings ahead of the one that is added up whose document's length is asked for: in a million documents each of a rare
/// word's is waited for otherwise.
const LENGTHS_AHEAD: usize = 16;
/// With fewer postings than so many for each document that is scored, all are compared with the bits of these: searching for
/// each document takes about so much longer than a posting.
const MARKED: usize = 10;
/// Every so many windows the lists that were added up beyond the essential ones are one fewer, to see whether that is
/// enough.
const RETRY: usize = 8;

/// A term of the question in one part.
pub(super) struct Cursor<'i> {
    gain: f32,
    postings: Postings<'i>,
    /// Postings before it are of documents before the window.
    at: usize,
}

impl<'i> Cursor<'i> {
    pub(super) fn new(gain: f32, postings: Postings<'i>) -> Self {
        Self { gain, postings, at: 0 }
    }

    /// What no document of the term exceeds.
    fn bound(&self, norms: Norms) -> f32 {
        let Some(Bounds(pairs)) = self.postings.bounds else { return self.gain };
        let best =
            pairs.iter().filter(|[tf, _]| *tf > 0).map(|[tf, len]| saturation(*tf as f32, norms.of(*len)));
        self.gain * best.fold(0.0, f32::max)
    }

    #[inline]
    fn worth(&self, tf: u8, doc: u32, norm: f32) -> f32 {
        self.gain * saturation(self.postings.exact(tf, doc) as f32, norm)
    }

    /// Adds up the postings below `end` to the sums of a window that begins at `start`.
    #[inline]
    fn scatter(
        &mut self,
        start: u32,
        end: u32,
        part: &Part<'_>,
        norms: Norms,
        mut add: impl FnMut(u32, f32),
    ) {
        let Postings { docs, tfs, .. } = self.postings;
        if docs.get(self.at).is_some_and(|doc| *doc < start) {
            self.at = gallop(docs, self.at, start);
        }
        let (docs, tfs) = (&docs[self.at.min(docs.len())..], tfs.get(self.at..).unwrap_or_default());
        let mut taken = 0;
        for (&doc, &tf) in docs.iter().zip(tfs) {
            if doc >= end {
                break;
            }
            if let Some(later) = docs.get(taken + LENGTHS_AHEAD) {
                prefetch(part.lens, *later as usize);
            }
            taken += 1;
            let Some(len) = part.lens.get(doc as usize) else { continue };
            add(doc, self.worth(tf, doc, norms.of(*len)));
        }
        self.at += taken;
    }

    /// Adds what a row leaves out where the frequency is above what a byte holds; true when that is somewhere.
    fn add_over(&self, start: usize, lens: &[u32], norms: Norms, sums: &mut [f32]) -> bool {
        let over = self.postings.over;
        let first = over.partition_point(|entry| (entry.doc as usize) < start);
        let mut written = false;
        for entry in &over[first..] {
            let place = (entry.doc as usize).wrapping_sub(start);
            let (Some(sum), Some(len)) = (sums.get_mut(place), lens.get(place)) else { break };
            let norm = norms.of(*len);
            let (all, held) = (saturation(entry.tf as f32, norm), saturation(f32::from(u8::MAX), norm));
            *sum += self.gain * (all - held).max(0.0);
            written = true;
        }
        written
    }

    /// What the term is worth in a document; 0 when it does not hold it.
    #[inline]
    fn look_up(&self, doc: u32, norm: f32) -> f32 {
        if let Some(row) = self.postings.row {
            return row.get(doc as usize).map_or(0.0, |tf| self.worth(*tf, doc, norm));
        }
        self.postings
            .docs
            .binary_search(&doc)
            .map_or(0.0, |at| self.postings.tfs.get(at).map_or(0.0, |tf| self.worth(*tf, doc, norm)))
    }

    /// Adds what the term is worth to the sums of documents, which are `listed`.
    pub(super) fn add_to(&mut self, listed: &Listed<'_>, norms: &[f32], sums: &mut [f32]) {
        let Listed { docs, marks } = *listed;
        if let Some(row) = self.postings.row {
            let mut tfs = [0_u8; BLOCK];
            let blocks = docs.chunks(BLOCK).zip(norms.chunks(BLOCK)).zip(sums.chunks_mut(BLOCK));
            for (((docs, norms), sums), first) in blocks.zip((0..).step_by(BLOCK)) {
                for (place, (doc, tf)) in docs.iter().zip(&mut tfs).enumerate() {
                    if let Some(later) = listed.docs.get(first + place + AHEAD) {
                        prefetch(row, *later as usize);
                    }
                    *tf = row.get(*doc as usize).copied().unwrap_or_default();
                }
                // Several at a time, where none is more than a byte holds.
                let held = tfs.iter().take(docs.len()).all(|tf| *tf < u8::MAX);
                for (((tf, doc), norm), sum) in tfs.iter().zip(docs).zip(norms).zip(sums) {
                    *sum += if held {
                        self.gain * saturation(f32::from(*tf), *norm)
                    } else {
                        self.worth(*tf, *doc, *norm)
                    };
                }
            }
        } else if self.postings.docs.len() < MARKED * docs.len() {
            for (doc, tf) in self.postings.docs.iter().zip(self.postings.tfs) {
                let bits = marks.get(*doc as usize / 64).copied().unwrap_or_default();
                if bits >> (doc % 64) & 1 == 1
                    && let Ok(place) = docs.binary_search(doc)
                {
                    sums[place] += self.worth(*tf, *doc, norms[place]);
                }
            }
        } else {
            for ((doc, norm), sum) in docs.iter().zip(norms).zip(sums) {
                *sum += self.look_up_next(*doc, *norm);
            }
        }
    }

    /// The same for documents in rising order.
    #[inline]
    pub(super) fn look_up_next(&mut self, doc: u32, norm: f32) -> f32 {
        if self.postings.row.is_some() {
            return self.look_up(doc, norm);
        }
        let docs = self.postings.docs;
        self.at = gallop(docs, self.at, doc);
        let found = docs.get(self.at) == Some(&doc);
        let tf = self.postings.tfs.get(self.at).filter(|_| found);
        tf.map_or(0.0, |tf| self.worth(*tf, doc, norm))
    }
}

/// The first place from `from` on whose document is not before `doc`.
#[inline]
fn gallop(docs: &[u32], from: usize, doc: u32) -> usize {
    let (mut low, mut step) = (from, 1);
    while docs.get(low + step).is_some_and(|next| *next < doc) {
        low += step;
        step *= 2;
    }
    let end = (low + step + 1).min(docs.len());
    let low = low.min(end);
    low + docs[low..end].partition_point(|next| *next < doc)
}

/// What searches of a thread reuse.
#[derive(Default)]
struct Scratch {
    /// All zero between windows.
    sums: Vec<f32>,
    /// Places in a window.
    places: Vec<u32>,
}

/// Documents in rising order, and all of them as bits.
#[derive(Clone, Copy)]
pub(super) struct Listed<'l> {
    pub(super) docs: &'l [u32],
    marks: &'l [u64],
}

impl Listed<'_> {
    /// Documents below `max_doc`.
    pub(super) fn with<R>(docs: &[u32], max_doc: usize, job: impl FnOnce(Listed<'_>) -> R) -> R {
        let mut marks = MARKS.take();
        if marks.len() * 64 < max_doc {
            marks.resize(max_doc.div_ceil(64), 0);
        }
        let words = |doc: &u32| (*doc as usize / 64, 1_u64 << (doc % 64));
        docs.iter().map(words).for_each(|(word, bit)| marks[word] |= bit);
        let result = job(Listed { docs, marks: &marks });
        docs.iter().map(words).for_each(|(word, _)| marks[word] = 0);
        MARKS.set(marks);
        result
    }
}

thread_local! {
    /// All zero between uses.
    static MARKS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { sums: Vec::new(), places: Vec::new() }) };
}

/// What terms with rows are taken to add up to, where it is decided which documents are looked at further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowBound {
    /// The sum of the most that each adds.
    Most,
    /// In large parts, what next to no document exceeds.
    Likely,
}

/// Which share of the sum of the most that each adds [`RowBound::Likely`] is. Of the ten best sums of both legs among 100,000
/// documents .9943 are found with .6 and .9947 with .7 and 1; it takes a tenth less than with 1. With .5 it is .9923.
const LIKELY: f32 = 0.65;

/// Documents of a part that it takes longer to look through than to decide on.
const LARGE: u32 = 4 * WINDOW as u32;

impl RowBound {
    fn of_rows(self, max_doc: u32) -> f32 {
        if self == Self::Likely && max_doc > LARGE { LIKELY } else { 1.0 }
    }
}

/// One part under search.
pub(super) struct Scan<'s, 'i> {
    part: &'s Part<'i>,
    sieve: Sieve<'i>,
    norms: Norms,
    level: Simd,
    /// Lists, then rows.
    terms: &'s mut [Cursor<'i>],
    /// How many of them are lists.
    lists: usize,
    rows: Vec<Row<'i>>,
    /// What the terms from each on can add at most; one more for none.
    rest: Vec<f32>,
}

impl<'s, 'i> Scan<'s, 'i> {
    /// Terms come in canonical order.
    pub(super) fn new(
        part: &'s Part<'i>,
        sieve: Sieve<'i>,
        norms: Norms,
        level: Simd,
        terms: &'s mut [Cursor<'i>],
        row_bound: RowBound,
    ) -> Self {
        terms.sort_by_key(|term| term.postings.row.is_some());
        let lists = terms.partition_point(|term| term.postings.row.is_none());
        // Where there are no others, or few, what frequent words add is what a document has.
        let row_bound = if lists == 0 { RowBound::Most } else { row_bound };
        let mut rest = vec![0.0; terms.len() + 1];
        for (at, term) in terms.iter().enumerate().rev() {
            let share = if at < lists { 1.0 } else { row_bound.of_rows(part.max_doc()) };
            rest[at] = rest[at + 1] + share * term.bound(norms);
        }
        let rows = terms[lists..].iter().zip(&rest[lists..]);
        let row = |(term, rest): (&Cursor<'i>, &f32)| {
            Some(Row { tfs: term.postings.row?, gain: term.gain, rest: *rest })
        };
        let rows = rows.filter_map(row).collect();
        Self { part, sieve, norms, level, terms, lists, rows, rest }
    }

    /// Whether sums are the scores to the last bit: without rows each is summed up in canonical order.
    pub(super) fn is_exact(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds the part's best documents to `top`.
    pub(super) fn run(mut self, top: &mut Top) {
        let mut scratch = SCRATCH.take();
        if scratch.sums.len() < SPARSE_WINDOW {
            scratch.sums.resize(SPARSE_WINDOW, 0.0);
        }
        let max_doc = self.part.max_doc() as usize;
        let (mut start, mut essential) = (0, self.terms.len());
        let mut added = Added { hint: 0, windows: 0 };
        while start < max_doc {
            while essential > 0 && self.rest[essential - 1] < self.needed(top, self.terms.len()) {
                essential -= 1;
            }
            if essential == 0 {
                break;
            }
            let first = &self.terms[..essential];
            let postings: usize = first.iter().map(|term| term.postings.docs.len()).sum();
            let listed = postings * SPARSE_SHARE < max_doc && essential <= self.lists;
            let size = if listed { SPARSE_WINDOW } else { WINDOW };
            let end = max_doc.min(start + size);
            if listed {
                self.list(start as u32, end as u32, essential, top, &mut scratch);
            } else {
                self.add_up(start, end, essential, &mut added, top, &mut scratch);
            }
            start = end;
        }
        SCRATCH.set(scratch);
    }

    /// The sum that a document needs when only the terms from `from` on are still to come: above 0 as soon as these are
    /// not essential, so that no document without any other term has it.
    #[inline]
    fn needed(&self, top: &Top, from: usize) -> f32 {
        top.needed() - self.rest[from]
    }

    /// A window with few postings.
    fn list(&mut self, start: u32, end: u32, essential: usize, top: &mut Top, scratch: &mut Scratch) {
        let Scratch { sums, places, .. } = scratch;
        places.clear();
        for term in &mut self.terms[..essential] {
            term.scatter(start, end, self.part, self.norms, |doc, worth| {
                if let Some(sum) = sums.get_mut(doc.wrapping_sub(start) as usize) {
                    if *sum == 0.0 {
                        places.push(doc - start);
                    }
                    *sum += worth;
                }
            });
        }
        for &place in places.iter() {
            let sum = std::mem::take(&mut sums[place as usize]);
            let doc = start + place;
            if sum < self.needed(top, essential) || !self.sieve.passes(doc) {
                continue;
            }
            if essential == self.terms.len() {
                top.push(self.part.base + doc, sum);
                continue;
            }
            let norm = self.norms.of(self.part.lens[doc as usize]);
            self.complete(doc, sum, essential, top, |term| term.look_up(doc, norm));
        }
    }

    /// Adds what is left to the sum of a document, as long as it can still count.
    #[inline]
    fn complete(
        &mut self,
        doc: u32,
        mut sum: f32,
        from: usize,
        top: &mut Top,
        mut worth: impl FnMut(&mut Cursor<'i>) -> f32,
    ) {
        for at in from..self.terms.len() {
            if sum < self.needed(top, at) {
                return;
            }
            sum += worth(&mut self.terms[at]);
        }
        top.push(self.part.base + doc, sum);
    }

    /// A window that is scanned.
    fn add_up(
        &mut self,
        start: usize,
        end: usize,
        essential: usize,
        added: &mut Added,
        top: &mut Top,
        scratch: &mut Scratch,
    ) {
        let Scratch { sums, places } = scratch;
        let sums = &mut sums[..end - start];
        let mut from = essential.min(self.lists);
        for at in 0..from {
            self.add_list(at, start, sums);
        }
        if essential < self.lists {
            while from < self.lists {
                let crowded = || {
                    let count = simd::count_above(self.level, sums, self.needed(top, from));
                    count as usize > sums.len() / CROWDED_SHARE
                };
                if from >= added.hint && !crowded() {
                    break;
                }
                self.add_list(from, start, sums);
                from += 1;
            }
            added.next(from, essential);
        }
        let mut written = from > 0;
        if from == self.lists && !self.rows.is_empty() {
            written |= self.add_rows(start, sums, top);
        } else {
            for (block, first) in sums.chunks(BLOCK).zip((start as u32..).step_by(BLOCK)) {
                places.clear();
                simd::find_above(self.level, block, self.needed(top, from), places);
                for &place in places.iter() {
                    let (sum, doc) = (block[place as usize], first + place);
                    if sum >= self.needed(top, from) && self.sieve.passes(doc) {
                        let norm = self.norms.of(self.part.lens[doc as usize]);
                        self.complete(doc, sum, from, top, |term| term.look_up_next(doc, norm));
                    }
                }
            }
        }
        if written {
            sums.fill(0.0);
        }
    }

    fn add_list(&mut self, at: usize, start: usize, sums: &mut [f32]) {
        let (first, end) = (start as u32, (start + sums.len()) as u32);
        self.terms[at].scatter(first, end, self.part, self.norms, |doc, worth| {
            if let Some(sum) = sums.get_mut((doc as usize).wrapping_sub(start)) {
                *sum += worth;
            }
        });
    }

    /// Completes a window that has the sums of all lists; true when it changed them.
    fn add_rows(&self, start: usize, sums: &mut [f32], top: &mut Top) -> bool {
        let lens = &self.part.lens[start..start + sums.len()];
        let mut written = false;
        for term in &self.terms[self.lists..] {
            written |= term.add_over(start, lens, self.norms, sums);
        }
        let window = Window { start, lens, norms: self.norms };
        let mut rows = &self.rows[..];
        if top.takes_all() && self.sieve.passes_all() {
            top.raise(&mut simd::add_all_rows(self.level, window, sums, rows));
            rows = &[];
            written = true;
        }
        simd::add_rows(self.level, window, sums, rows, top.needed(), |place, sum| {
            let doc = start as u32 + place;
            if self.sieve.passes(doc) {
                top.push(self.part.base + doc, sum);
            }
            top.needed()
        });
        written
    }

    /// Looks up the allowed documents, `docs` in rising order, one by one.
    pub(super) fn look_up(mut self, docs: impl Iterator<Item = u32>, top: &mut Top) {
        for doc in docs {
            if self.sieve.passes(doc) {
                let norm = self.norms.of(self.part.lens[doc as usize]);
                self.complete(doc, 0.0, 0, top, |term| term.look_up_next(doc, norm));
            }
        }
    }
}

/// How many terms were added up in the windows before.
struct Added {
    hint: usize,
    windows: usize,
}

impl Added {
    fn next(&mut self, terms: usize, essential: usize) {
        self.windows += 1;
        let retry = self.windows.is_multiple_of(RETRY) && terms > essential;
        self.hint = terms - usize::from(retry);
    }
}
