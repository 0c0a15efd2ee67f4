//! What a search runs over: segments with their tombstones, and the delta.

use crate::ids::DocId;
use crate::lexical::delta::Delta;
use crate::lexical::segment::{Names, Postings, Segment};
use crate::lexical::tombstones::Tombstones;
use crate::prefetch::prefetch;
use fixedbitset::FixedBitSet;

/// Documents ahead of the one that is looked at that memory is asked for.
pub(super) const AHEAD: usize = 16;

/// Documents that follow each other in the numbering of an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'i> {
    /// Number of its first document.
    pub(super) base: u32,
    /// Lengths by document, in quarters.
    pub(super) lens: &'i [u32],
    /// None when no document is dead.
    pub(super) dead: Option<&'i FixedBitSet>,
    num_docs: u32,
    total_len: u64,
    words: Words<'i>,
}

#[derive(Debug, Clone, Copy)]
enum Words<'i> {
    Segment(&'i Segment, &'i Tombstones),
    Delta(&'i Delta),
}

/// Where a search looks for a term.
pub(super) struct Term<'q> {
    pub(super) text: &'q str,
    hash: u64,
}

impl<'q> Term<'q> {
    pub(super) fn new(text: &'q str) -> Self {
        Self { text, hash: Names::hash(text.as_bytes()) }
    }
}

impl<'i> Part<'i> {
    /// A segment whose first document has the number `base`.
    pub(crate) fn segment(base: u32, segment: &'i Segment, tombstones: &'i Tombstones) -> Self {
        Self {
            base,
            lens: segment.lens(),
            dead: (tombstones.count() > 0).then(|| tombstones.dead()),
            num_docs: segment.num_docs().saturating_sub(tombstones.count()),
            total_len: segment.total_len().saturating_sub(tombstones.total_len()),
            words: Words::Segment(segment, tombstones),
        }
    }

    /// The delta, whose live documents have `total_len` quarters.
    pub(crate) fn delta(base: u32, delta: &'i Delta, total_len: u64) -> Self {
        Self {
            base,
            lens: delta.docs().lens(),
            dead: (delta.num_dead() > 0).then(|| delta.dead()),
            num_docs: delta.num_docs() - delta.num_dead(),
            total_len,
            words: Words::Delta(delta),
        }
    }

    /// Live documents.
    pub(crate) fn num_docs(&self) -> u32 {
        self.num_docs
    }

    /// Sum of their lengths, in quarters.
    pub(crate) fn total_len(&self) -> u64 {
        self.total_len
    }

    /// Numbers it covers.
    pub(super) fn max_doc(&self) -> u32 {
        self.lens.len() as u32
    }

    /// Whether a document is in it and live.
    pub(crate) fn contains(&self, doc: DocId) -> bool {
        self.local(doc.0).is_some()
    }

    /// Length of a document in quarters.
    pub(crate) fn doc_len(&self, local: u32) -> u32 {
        self.lens.get(local as usize).copied().unwrap_or(0)
    }

    /// Number within the part of a live document; None when it is dead or elsewhere.
    pub(crate) fn local(&self, doc: u32) -> Option<u32> {
        let local = doc.checked_sub(self.base).filter(|local| *local < self.max_doc())?;
        (!self.dead.is_some_and(|dead| dead.contains(local as usize))).then_some(local)
    }

    /// The lengths of documents, all of which there are.
    pub(super) fn lens_of(&self, docs: &[u32]) -> impl Iterator<Item = u32> {
        docs.iter().enumerate().map(|(place, doc)| {
            if let Some(later) = docs.get(place + AHEAD) {
                prefetch(self.lens, *later as usize);
            }
            self.lens[*doc as usize]
        })
    }

    /// Whether a live document in `allowed` is in a list of this part.
    pub(super) fn holds(&self, list: &Postings<'_>, allowed: Option<&FixedBitSet>) -> bool {
        let sieve = Sieve::new(self, allowed);
        list.any(|doc| sieve.passes(doc))
    }

    /// Asks for the memory that [`Part::find`] reads first.
    pub(super) fn fetch(&self, term: &Term<'_>) {
        if let Words::Segment(segment, _) = self.words {
            segment.names().fetch_slot(term.hash);
        }
    }

    /// The documents of a term, and how many of them are live. None when no document holds it.
    pub(super) fn find(&self, term: &Term<'_>) -> Option<(Postings<'i>, u32)> {
        match self.words {
            Words::Segment(segment, tombstones) => {
                let rank = segment.names().rank(term.text.as_bytes(), term.hash)?;
                let postings = segment.postings(rank);
                // They are read when all terms are found.
                prefetch(postings.docs, 0);
                prefetch(postings.tfs, 0);
                Some((postings, postings.doc_freq.saturating_sub(tombstones.doc_freq(rank))))
            }
            Words::Delta(delta) => {
                let id = delta.term(term.text)?;
                Some((delta.postings(id), delta.doc_freq(id)))
            }
        }
    }

    /// Calls `each` with every term and frequency of a document.
    pub(crate) fn terms_of(&self, local: u32, mut each: impl FnMut(&'i [u8], u32)) {
        match self.words {
            Words::Segment(segment, _) => {
                segment.terms_of(local, |term, tf| each(segment.names().name(term), tf));
            }
            Words::Delta(delta) => {
                for (id, tf) in delta.docs().terms_of(local) {
                    each(delta.docs().terms().name(id), tf);
                }
            }
        }
    }

    /// Calls `each` with every term that a live document holds, and in how many.
    pub(crate) fn doc_freqs(&self, mut each: impl FnMut(&'i [u8], u32)) {
        match self.words {
            Words::Segment(segment, tombstones) => {
                for rank in 0..segment.names().len() as u32 {
                    let doc_freq = segment.postings(rank).doc_freq.saturating_sub(tombstones.doc_freq(rank));
                    if doc_freq > 0 {
                        each(segment.names().name(rank), doc_freq);
                    }
                }
            }
            Words::Delta(delta) => {
                for (id, name, _) in delta.docs().terms().iter() {
                    if delta.doc_freq(id) > 0 {
                        each(name, delta.doc_freq(id));
                    }
                }
            }
        }
    }
}

impl<'i> Part<'i> {
    /// Calls `each` with every term that begins with these bytes, and how many live documents hold it. A term may have
    /// none.
    pub(super) fn prefixed(&self, prefix: &[u8], mut each: impl FnMut(&'i [u8], u32)) {
        match self.words {
            Words::Segment(segment, tombstones) => {
                for rank in segment.names().prefixed(prefix) {
                    each(segment.names().name(rank), live_in(segment, tombstones, rank));
                }
            }
            Words::Delta(delta) => {
                let terms = delta.docs().terms().iter().filter(|(_, name, _)| name.starts_with(prefix));
                terms.for_each(|(id, name, _)| each(name, delta.doc_freq(id)));
            }
        }
    }

    /// The same, of a segment in the order of the terms. `look` is given how to learn the live documents of a term, and may answer that
    /// it wants no more of the terms that share so many of its bytes.
    pub(super) fn walk(
        &self,
        prefix: &[u8],
        mut look: impl FnMut(&'i [u8], &dyn Fn() -> u32) -> Option<usize>,
    ) {
        match self.words {
            Words::Segment(segment, tombstones) => {
                let names = segment.names();
                let mut ranks = names.prefixed(prefix);
                while let Some(rank) = ranks.next() {
                    let name = names.name(rank);
                    let skipped = look(name, &|| live_in(segment, tombstones, rank));
                    if let Some(shared) = skipped.and_then(|bytes| name.get(..bytes)) {
                        ranks.start = names.after(shared, ranks.clone());
                    }
                }
            }
            Words::Delta(delta) => {
                let terms = delta.docs().terms().iter().filter(|(_, name, _)| name.starts_with(prefix));
                // In no order: sorting a delta's terms takes longer than looking at each.
                terms.for_each(|(id, name, _)| {
                    look(name, &|| delta.doc_freq(id));
                });
            }
        }
    }
}

fn live_in(segment: &Segment, tombstones: &Tombstones, rank: u32) -> u32 {
    segment.postings(rank).doc_freq.saturating_sub(tombstones.doc_freq(rank))
}

/// Which documents of a part may be found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sieve<'i> {
    base: usize,
    dead: Option<&'i FixedBitSet>,
    allowed: Option<&'i FixedBitSet>,
}

impl<'i> Sieve<'i> {
    pub(super) fn new(part: &Part<'i>, allowed: Option<&'i FixedBitSet>) -> Self {
        Self { base: part.base as usize, dead: part.dead, allowed }
    }

    /// Whether every document passes.
    pub(super) fn passes_all(&self) -> bool {
        self.dead.is_none() && self.allowed.is_none()
    }

    /// Whether a document of the part passes.
    #[inline]
    pub(super) fn passes(&self, local: u32) -> bool {
        let local = local as usize;
        !self.dead.is_some_and(|dead| dead.contains(local))
            && self.allowed.is_none_or(|allowed| allowed.contains(self.base + local))
    }
}
