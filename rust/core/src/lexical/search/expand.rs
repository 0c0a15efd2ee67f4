//! Words of a question that stand for others: by what they begin, by a typo, by what the user says.
//!
//! A word has tiers: itself, its synonyms, the words that begin with it or, without any of these, the words that differ by
//! a typo. In a document
//! it counts by the first tier that the document holds a word of, and by the most frequent word of that tier: never by
//! their sum. So a tier is a list of documents with one frequency each, and is searched as any term is.

use super::Part;
use super::near::{Look, Near};
use super::part::Term;
use crate::lexical::segment::{Bounds, Over, Postings};
use crate::text::{Alternative, Expansion, Query, QueryWord, letters, surface_mark, word_of};
use fixedbitset::FixedBitSet;
use std::cmp::Reverse;

/// From so many letters on a word is taken for those that begin with it.
const PREFIX_LETTERS: usize = 4;
/// From so many letters on a word that nothing begins with is taken for those one edit away; and, if there are none, for
/// those two away.
const TYPO_LETTERS: usize = 5;
const TYPOS_LETTERS: usize = 9;
/// A word is taken for so many others at most, those in most documents.
const MOST: usize = 32;
/// A list that is shorter than one in so many documents of the part is sorted, a longer one is read from a table.
const TABLE_SHARE: usize = 16;
/// A list of fewer documents has no bounds, as in a segment.
const FREQUENT: usize = 128;

/// How a word of the question is taken for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// The user says so.
    Synonym,
    /// The other begins with it.
    Prefix,
    /// The other differs by a typo.
    Typo,
}

impl Likeness {
    /// What such a word counts, where the word itself counts 1.
    pub(super) fn weight(self) -> f32 {
        match self {
            Self::Synonym => 0.7,
            Self::Prefix => 0.5,
            Self::Typo => 0.4,
        }
    }
}

/// The documents of a tier in one part, ascending, with the frequency of their best word.
#[derive(Debug, Default)]
struct List {
    docs: Vec<u32>,
    tfs: Vec<u8>,
    over: Vec<Over>,
    bounds: Option<Bounds>,
}

/// A word that a tier looks for, in one part.
#[derive(Debug)]
struct Held<'i> {
    /// All of them must hold a document.
    postings: Vec<Postings<'i>>,
}

/// A word of the question as another.
#[derive(Debug)]
pub(super) struct Tier<'i> {
    pub(super) likeness: Likeness,
    /// The words it is taken for, each at its place in the order of ties.
    pub(super) words: Vec<String>,
    /// By word, then by part.
    held: Vec<Held<'i>>,
    /// By part.
    lists: Vec<List>,
    /// Live documents.
    pub(super) doc_freq: u32,
    /// Live documents of this tier and of those before it.
    pub(super) reach: u32,
}

impl Tier<'_> {
    /// Its documents in a part.
    pub(super) fn postings(&self, part: usize) -> Postings<'_> {
        let Some(list) = self.lists.get(part) else { return Postings::default() };
        Postings {
            docs: &list.docs,
            tfs: &list.tfs,
            row: None,
            over: &list.over,
            doc_freq: list.docs.len() as u32,
            bounds: list.bounds.as_ref(),
        }
    }

    /// The word that a document of a part holds: the most frequent, the first of equal ones.
    pub(super) fn word_in(&self, part: usize, local: u32) -> &str {
        let parts = self.lists.len();
        let mut best = ("", 0);
        for (word, at) in self.words.iter().zip(0..) {
            let tf = self.held.get(at * parts + part).map_or(0, |held| held.tf(local));
            if tf > best.1 {
                best = (word, tf);
            }
        }
        best.0
    }
}

impl Held<'_> {
    fn tf(&self, doc: u32) -> u32 {
        self.postings.iter().map(|postings| postings.tf(doc)).min().unwrap_or(0)
    }

    /// No more documents than these.
    fn doc_freq(&self) -> usize {
        self.postings.iter().map(|postings| postings.doc_freq as usize).min().unwrap_or(0)
    }

    fn each(&self, mut each: impl FnMut(u32, u32)) {
        let Some((at, rarest)) = self.postings.iter().enumerate().min_by_key(|(_, list)| list.doc_freq)
        else {
            return;
        };
        rarest.each(|doc, tf| {
            let others = self.postings.iter().enumerate().filter(|(other, _)| *other != at);
            let tf = others.map(|(_, list)| list.tf(doc)).min().unwrap_or(u32::MAX).min(tf);
            if tf > 0 {
                each(doc, tf);
            }
        });
    }
}

/// The tiers of a word beyond itself, of words that live documents in `allowed` hold. `present` says that one of these
/// holds the word.
pub(super) fn tiers<'i>(
    parts: &[Part<'i>],
    query: &Query,
    word: &QueryWord,
    present: bool,
    allowed: Option<&FixedBitSet>,
) -> Vec<Tier<'i>> {
    let among = Among { parts, allowed };
    let mut wanted: Vec<(Likeness, Vec<Alternative>)> = Vec::new();
    if !word.synonyms.is_empty() {
        wanted.push((Likeness::Synonym, word.synonyms.clone()));
    }
    let expands = match query.expansion {
        Expansion::Off => false,
        Expansion::Missing => !present,
        Expansion::Always => true,
    };
    if let Some(key) = word.key.as_deref().filter(|_| expands) {
        if word.letters >= PREFIX_LETTERS {
            wanted.push((Likeness::Prefix, among.beginning_with(key)));
        }
        // A word with synonyms, or that known words begin with, is no typo.
        if !present && wanted.iter().all(|(_, words)| words.is_empty()) {
            let mut like = Vec::new();
            if word.letters >= TYPO_LETTERS {
                like = among.one_edit_away(key);
            }
            if like.is_empty() && word.letters >= TYPOS_LETTERS {
                like = among.two_edits_away(key);
            }
            wanted.push((Likeness::Typo, like));
        }
    }
    wanted.retain(|(_, words)| !words.is_empty());
    if wanted.is_empty() {
        return Vec::new();
    }
    let marked = word.key.as_deref().is_some_and(|key| !surface_mark(key).is_empty());
    let mut taken = Taken::new(parts, &query.exact(word), present);
    wanted.into_iter().map(|(likeness, words)| taken.tier(likeness, words, marked)).collect()
}

/// Documents that a word counts in already.
struct Taken<'p, 'i> {
    parts: &'p [Part<'i>],
    /// By part, ascending.
    docs: Vec<Vec<u32>>,
    /// Live ones.
    count: u32,
}

impl<'p, 'i> Taken<'p, 'i> {
    fn new(parts: &'p [Part<'i>], exact: &[Alternative], present: bool) -> Self {
        let mut taken = Self { parts, docs: vec![Vec::new(); parts.len()], count: 0 };
        if present {
            let held = held(parts, exact);
            for ((at, part), docs) in parts.iter().enumerate().zip(&mut taken.docs) {
                let own = held.iter().skip(at).step_by(parts.len());
                docs.extend(gathered(part, own).into_iter().map(|(doc, _)| doc));
                taken.count += live(part, docs);
            }
        }
        taken
    }

    fn tier(&mut self, likeness: Likeness, words: Vec<Alternative>, marked: bool) -> Tier<'i> {
        let held = held(self.parts, &words);
        // A surface form has half the weight of a word in a document, and stands for the word here.
        let twice = marked && likeness != Likeness::Synonym;
        let mut lists = Vec::with_capacity(self.parts.len());
        let mut doc_freq = 0;
        for ((at, part), taken) in self.parts.iter().enumerate().zip(&mut self.docs) {
            let own = held.iter().skip(at).step_by(self.parts.len());
            let mut found = gathered(part, own);
            if !taken.is_empty() {
                found.retain(|(doc, _)| taken.binary_search(doc).is_err());
            }
            let mut list = List::default();
            let mut bounds = Bounds::NONE;
            for &(doc, tf) in &found {
                let tf = if twice { tf.saturating_mul(2) } else { tf };
                let byte = u8::try_from(tf).unwrap_or(u8::MAX);
                if byte == u8::MAX {
                    list.over.push(Over { term: 0, doc, tf });
                }
                list.docs.push(doc);
                list.tfs.push(byte);
                bounds.cover(tf, part.doc_len(doc));
            }
            list.bounds = (found.len() >= FREQUENT).then_some(bounds);
            doc_freq += live(part, &list.docs);
            if taken.is_empty() {
                taken.clone_from(&list.docs);
            } else {
                taken.extend(&list.docs);
                taken.sort_unstable();
            }
            lists.push(list);
        }
        self.count += doc_freq;
        let words = words.into_iter().map(|word| word.word).collect();
        Tier { likeness, words, held, lists, doc_freq, reach: self.count }
    }
}

/// The words in each part: by word, then by part.
fn held<'i>(parts: &[Part<'i>], words: &[Alternative]) -> Vec<Held<'i>> {
    let mut all = Vec::with_capacity(words.len() * parts.len());
    for word in words {
        let terms: Vec<Term<'_>> = word.terms.iter().map(|term| Term::new(term)).collect();
        for part in parts {
            let found = terms.iter().map(|term| part.find(term).unwrap_or_default().0);
            all.push(Held { postings: found.collect() });
        }
    }
    all
}

/// The documents of any of these words, ascending, with the frequency of the most frequent.
fn gathered<'h, 'i: 'h>(
    part: &Part<'_>,
    held: impl Iterator<Item = &'h Held<'i>> + Clone,
) -> Vec<(u32, u32)> {
    let max_doc = part.max_doc() as usize;
    let total: usize = held.clone().map(Held::doc_freq).sum();
    let mut found: Vec<(u32, u32)> = Vec::new();
    if total * TABLE_SHARE < max_doc {
        held.for_each(|held| held.each(|doc, tf| found.push((doc, tf))));
        // Only damage names documents that are not there.
        found.retain(|(doc, _)| (*doc as usize) < max_doc);
        found.sort_unstable_by_key(|(doc, tf)| (*doc, u32::MAX - tf));
        found.dedup_by_key(|(doc, _)| *doc);
        return found;
    }
    let mut table = vec![0_u32; max_doc];
    held.for_each(|held| {
        held.each(|doc, tf| {
            if let Some(best) = table.get_mut(doc as usize) {
                *best = tf.max(*best);
            }
        });
    });
    found.extend((0..).zip(table).filter(|(_, tf)| *tf > 0));
    found
}

fn live(part: &Part<'_>, docs: &[u32]) -> u32 {
    let Some(dead) = part.dead else { return docs.len() as u32 };
    docs.iter().filter(|doc| !dead.contains(**doc as usize)).count() as u32
}

/// Where the words are looked for that one is taken for.
struct Among<'a, 'i> {
    parts: &'a [Part<'i>],
    allowed: Option<&'a FixedBitSet>,
}

impl Among<'_, '_> {
    /// The words that begin with this one.
    fn beginning_with(&self, key: &str) -> Vec<Alternative> {
        let mut found = Vec::new();
        for part in self.parts {
            part.prefixed(key.as_bytes(), |term, doc_freq| found.push((term, doc_freq)));
        }
        self.chosen(found, key)
    }

    /// The words that one edit makes this one.
    fn one_edit_away(&self, key: &str) -> Vec<Alternative> {
        self.chosen(like(self.parts, key, surface_mark(key), 1), key)
    }

    /// The words that two edits make this one, and that begin as it does. This, the band of [`Near`] and looking for one
    /// edit first took misspelt questions over 100,000 documents from 8 ms (p95) to 1, together.
    fn two_edits_away(&self, key: &str) -> Vec<Alternative> {
        let mark = surface_mark(key).len();
        let first = key[mark..].chars().next().map_or(0, char::len_utf8);
        self.chosen(like(self.parts, key, &key[..mark + first], 2), key)
    }

    /// Of terms with their live documents in each part those that make words of letters and are in most documents, of
    /// which one at least is allowed.
    fn chosen(&self, mut found: Vec<(&[u8], u32)>, key: &str) -> Vec<Alternative> {
        found.sort_unstable_by(|a, b| a.0.cmp(b.0));
        let mut terms: Vec<(&[u8], u32)> = Vec::with_capacity(found.len());
        for (term, doc_freq) in found {
            match terms.last_mut() {
                Some((last, sum)) if *last == term => *sum = sum.saturating_add(doc_freq),
                _ => terms.push((term, doc_freq)),
            }
        }
        terms.retain(|(_, doc_freq)| *doc_freq > 0);
        terms.sort_by_key(|(_, doc_freq)| Reverse(*doc_freq));
        let words =
            terms.iter().filter_map(|(term, _)| std::str::from_utf8(term).ok()).filter(|term| *term != key);
        let words =
            words.filter_map(|term| Some((term, word_of(term, key).filter(|word| letters(word).is_some())?)));
        words
            .filter(|(term, _)| self.allows(term))
            .take(MOST)
            .map(|(term, word)| Alternative { word: word.to_owned(), terms: vec![term.to_owned()] })
            .collect()
    }

    fn allows(&self, term: &str) -> bool {
        let term = Term::new(term);
        let held = |part: &Part<'_>| {
            part.find(&term).is_some_and(|(list, live)| live > 0 && part.holds(&list, self.allowed))
        };
        self.allowed.is_none() || self.parts.iter().any(held)
    }
}

/// The words with this beginning that are `most` edits away or fewer.
fn like<'i>(parts: &[Part<'i>], key: &str, beginning: &str, most: usize) -> Vec<(&'i [u8], u32)> {
    let mark = surface_mark(key).len();
    let mut near = Near::new(&key[mark..], most);
    let mut last: &[u8] = &[];
    let mut found = Vec::new();
    for part in parts {
        part.walk(beginning.as_bytes(), |term, doc_freq| {
            let Ok(name) = std::str::from_utf8(&term[mark..]) else { return None };
            let shared = last.iter().zip(name.as_bytes()).take_while(|(a, b)| a == b).count();
            last = name.as_bytes();
            match near.look(name, shared) {
                Look::Near => {
                    found.push((term, doc_freq()));
                    None
                }
                Look::Far(bytes) => Some(mark + bytes),
            }
        });
    }
    found
}
