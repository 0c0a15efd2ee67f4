//! The terms of short words, kept so that a word is stemmed and looked up among all terms once.

use crate::ids::TermId;
use crate::prefetch::prefetch;
use crate::text::term_table::TermTable;
use crate::text::{Analyzer, ShortWord};

/// Words met so far, and those of the field that is read.
#[derive(Debug, Clone, Default)]
pub(super) struct WordMemo {
    /// Number + 1 of a word at the place that its hash gives, or the next free one; 0 is free. As long as a power of two,
    /// and less than half full.
    slots: Vec<u32>,
    /// By number, which is given in the order of their coming: frequent words lie together.
    words: Vec<Word>,
    /// Words of the field as they come, with their hashes.
    pending: Vec<(ShortWord, u32)>,
    /// Numbers of its distinct words.
    distinct: Vec<u32>,
    /// Of the field.
    mark: u32,
}

/// Half a line of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Word {
    letters: ShortWord,
    /// Its terms: the first counts two halves, the second, a surface form, one; [`NONE`] when there is no second.
    terms: [TermId; 2],
    /// The field it was last met in, and how often there.
    mark: u32,
    count: u32,
}

const _: () = assert!(size_of::<Word>() == 32);

/// No term: as many are never counted.
const NONE: TermId = TermId(u32::MAX);
/// A word is fetched when so many more have been read, as what lay at its place is known then.
const AHEAD: usize = 8;

impl WordMemo {
    /// Begins a field.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.distinct.clear();
        self.mark += 1;
    }

    /// A word of the field. It is looked up in [`Self::count`]: until then what is needed for that is fetched, as waiting
    /// for one word after the other took a third of all the time.
    #[inline]
    pub(super) fn push(&mut self, word: ShortWord) {
        let hash = word.hash();
        prefetch(&self.slots, self.place(hash));
        if let Some((_, earlier)) = self.pending.len().checked_sub(AHEAD).and_then(|at| self.pending.get(at))
        {
            let number = self.slots.get(self.place(*earlier)).copied().unwrap_or_default();
            prefetch(&self.words, (number as usize).wrapping_sub(1));
        }
        self.pending.push((word, hash));
    }

    /// Counts the words of the field. The terms of new ones go into `table`; `met` gets the terms of each word that is
    /// new to the field.
    #[inline]
    pub(super) fn count(&mut self, analyzer: Analyzer, table: &mut TermTable, mut met: impl FnMut(TermId)) {
        let pending = std::mem::take(&mut self.pending);
        self.distinct.resize(pending.len(), 0);
        let mut count = 0;
        for &(word, hash) in &pending {
            let number = match self.find(word, hash) {
                Ok(number) => number,
                Err(place) => self.add(word, hash, place, analyzer, table),
            };
            let known = &mut self.words[number as usize];
            // Without a branch: whether a word comes again is hard to foresee.
            let again = known.mark == self.mark;
            known.count = if again { known.count + 1 } else { 1 };
            known.mark = self.mark;
            self.distinct[count] = number;
            count += usize::from(!again);
            known.terms.into_iter().for_each(&mut met);
        }
        self.distinct.truncate(count);
        self.pending = pending;
    }

    /// Calls `each` with the terms of every distinct word of the field and how many halves they count in all.
    #[inline]
    pub(super) fn each_term(&self, mut each: impl FnMut(TermId, u32)) {
        for number in &self.distinct {
            let word = &self.words[*number as usize];
            let [first, second] = word.terms;
            each(first, word.count.saturating_mul(2));
            if second != NONE {
                each(second, word.count);
            }
        }
    }

    /// Out of reach while there are no places.
    #[inline]
    fn place(&self, hash: u32) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    /// The number of a word, or the place where it would go.
    #[inline]
    fn find(&self, word: ShortWord, hash: u32) -> Result<u32, usize> {
        let mut place = self.place(hash);
        while let Some(number) = self.slots.get(place).and_then(|slot| slot.checked_sub(1)) {
            if self.words[number as usize].letters == word {
                return Ok(number);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        Err(place)
    }

    /// Gives a word a number and the free place that was found for it.
    #[cold]
    fn add(
        &mut self,
        word: ShortWord,
        hash: u32,
        mut place: usize,
        analyzer: Analyzer,
        table: &mut TermTable,
    ) -> u32 {
        let number = self.words.len() as u32;
        self.words.push(Word { letters: word, terms: terms_of(word, analyzer, table), mark: 0, count: 0 });
        if self.words.len() * 2 > self.slots.len() {
            self.grow();
            place = self.free_place(hash);
        }
        self.slots[place] = number + 1;
        number
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(64);
        self.slots.clear();
        self.slots.resize(size, 0);
        // The newest has no place yet.
        for number in 1..self.words.len() as u32 {
            let place = self.free_place(self.words[number as usize - 1].letters.hash());
            self.slots[place] = number;
        }
    }

    fn free_place(&self, hash: u32) -> usize {
        let mut place = self.place(hash);
        while self.slots[place] != 0 {
            place = (place + 1) & (self.slots.len() - 1);
        }
        place
    }
}

fn terms_of(word: ShortWord, analyzer: Analyzer, table: &mut TermTable) -> [TermId; 2] {
    let mut terms = [NONE; 2];
    analyzer.word_terms(word, |term, hash, halves| {
        let place = &mut terms[usize::from(halves == 1)];
        debug_assert_eq!(*place, NONE, "two terms of {halves} halves: {word:?}");
        *place = table.intern(term, hash);
    });
    terms
}
