//! One segment from several: term by term over their postings, then document by document over their forward lists, so
//! that memory holds a byte of each posting, never all of them.

use super::postings::{Over, PostingsWriter, Written, byte};
use super::{DICTIONARY, Names, Segment, forward};
use crate::sections::SectionWriter;
use std::io::{self, Write};

/// In [`Source::numbers`], for a document that is left out.
pub(crate) const DROPPED: u32 = u32::MAX;

/// A segment to be merged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'s> {
    pub(crate) segment: &'s Segment,
    /// By document, its number in the new segment, or [`DROPPED`]. No number is given twice.
    pub(crate) numbers: &'s [u32],
}

/// Writes a segment of `num_docs` documents from those that `sources` number; a number that nobody gives is an empty
/// place. Terms that no document of it holds are gone.
///
/// # Errors
/// Those of the writer.
pub(crate) fn merge<W: Write>(
    out: &mut SectionWriter<W>,
    sources: &[Source<'_>],
    num_docs: u32,
) -> io::Result<()> {
    // By new number, where the document is: its source, none for the number of sources, and its number there.
    let mut origins = vec![(sources.len(), 0_u32); num_docs as usize];
    let mut lens = vec![0_u32; num_docs as usize];
    for (source, at) in sources.iter().zip(0..) {
        for ((&number, doc), &len) in source.numbers.iter().zip(0..).zip(source.segment.lens()) {
            if let Some(origin) = origins.get_mut(number as usize) {
                *origin = (at, doc);
                lens[number as usize] = len;
            }
        }
    }
    let mut ranks: Vec<Vec<u32>> =
        sources.iter().map(|source| vec![DROPPED; source.segment.names().len()]).collect();
    let mut names: Vec<(usize, u32)> = Vec::new();
    let mut writer = PostingsWriter::new(&lens);
    writer.terms(out, |term| {
        let mut heads: Vec<Head<'_>> = sources.iter().filter_map(|s| Head::new(s.segment.names())).collect();
        let at: Vec<usize> = (0..sources.len()).filter(|at| sources[*at].segment.names().len() > 0).collect();
        let mut gathered = Gathered::default();
        let mut holders: Vec<(usize, u32)> = Vec::new();
        while let Some(least) = heads.iter().filter_map(Head::name).min() {
            gathered.clear();
            holders.clear();
            for (head, &at) in heads.iter_mut().zip(&at) {
                if head.name() != Some(least) {
                    continue;
                }
                let source = &sources[at];
                source.segment.postings(head.rank).each(|doc, tf| {
                    let number = source.numbers.get(doc as usize).copied().unwrap_or(DROPPED);
                    if number < num_docs {
                        gathered.push(number, tf);
                    }
                });
                holders.push((at, head.rank));
                head.advance();
            }
            if gathered.docs.is_empty() {
                continue;
            }
            gathered.sort();
            for &(at, rank) in &holders {
                ranks[at][rank as usize] = names.len() as u32;
            }
            names.push(holders[0]);
            term(gathered.written())?;
        }
        Ok(())
    })?;
    let mut terms: Vec<(u32, u32)> = Vec::new();
    writer.finish(out, |doc, list| {
        let (at, doc) = origins[doc as usize];
        let Some(source) = sources.get(at) else { return };
        terms.clear();
        source.segment.terms_of(doc, |term, tf| {
            let rank = ranks[at].get(term as usize).copied().unwrap_or(DROPPED);
            // Both orders are that of the names; a damaged list may break it, and then loses what is out of order.
            if rank != DROPPED && terms.last().is_none_or(|(last, _)| *last < rank) {
                terms.push((rank, tf));
            }
        });
        let mut encoder = forward::Encoder::new(list, terms.len());
        for &(rank, tf) in &terms {
            encoder.put(rank, tf);
        }
    })?;
    let names = names.iter().map(|&(at, rank)| sources[at].segment.names().name(rank));
    Names::write(out, DICTIONARY, &names)
}

/// The documents of a term under their new numbers, as they come from the sources.
#[derive(Debug, Default)]
struct Gathered {
    docs: Vec<u32>,
    tfs: Vec<u8>,
    over: Vec<Over>,
    /// Whether one came after a higher one.
    disorder: bool,
    /// A document and its frequency in one number, while they are sorted: faster than a pair.
    pairs: Vec<u64>,
}

impl Gathered {
    fn clear(&mut self) {
        self.docs.clear();
        self.tfs.clear();
        self.over.clear();
        self.disorder = false;
    }

    #[inline]
    fn push(&mut self, doc: u32, tf: u32) {
        self.disorder |= self.docs.last().is_some_and(|last| *last >= doc);
        self.docs.push(doc);
        self.tfs.push(byte(tf));
        if tf > u32::from(u8::MAX) {
            self.over.push(Over { term: 0, doc, tf });
        }
    }

    /// Puts the documents into order, each once: that of the least frequency, should a damaged source name one twice.
    fn sort(&mut self) {
        if !self.disorder {
            return;
        }
        self.pairs.clear();
        let pairs = self.docs.iter().zip(&self.tfs);
        self.pairs.extend(pairs.map(|(doc, tf)| u64::from(*doc) << 8 | u64::from(*tf)));
        self.pairs.sort_unstable();
        self.pairs.dedup_by_key(|pair| *pair >> 8);
        self.docs.clear();
        self.docs.extend(self.pairs.iter().map(|pair| (pair >> 8) as u32));
        self.tfs.clear();
        self.tfs.extend(self.pairs.iter().map(|pair| *pair as u8));
        self.over.sort_unstable_by_key(|over| (over.doc, over.tf));
        self.over.dedup_by_key(|over| over.doc);
        // What is above in one place only is not above in the least.
        let (docs, tfs) = (&self.docs, &self.tfs);
        self.over.retain(|over| docs.binary_search(&over.doc).is_ok_and(|at| tfs[at] == u8::MAX));
    }

    fn written(&self) -> Written<'_> {
        Written { docs: &self.docs, tfs: &self.tfs, over: &self.over }
    }
}

/// The least name of a source that was not taken yet.
struct Head<'n> {
    names: &'n Names,
    rank: u32,
    /// None at the end.
    name: Option<&'n [u8]>,
}

impl<'n> Head<'n> {
    fn new(names: &'n Names) -> Option<Self> {
        (names.len() > 0).then(|| Self { names, rank: 0, name: Some(names.name(0)) })
    }

    fn name(&self) -> Option<&'n [u8]> {
        self.name
    }

    fn advance(&mut self) {
        self.rank += 1;
        let more = (self.rank as usize) < self.names.len();
        self.name = more.then(|| self.names.name(self.rank));
    }
}
