//! Scoring documents against a question, over all parts of an index with the statistics of their live documents.

mod expand;
mod near;
mod part;
mod top;
mod windows;

pub use expand::Likeness;
pub(crate) use part::Part;
pub use top::ScoredDoc;

use super::bm25::{Norms, QUARTERS, TermExplanation, gain, idf, saturation};
use super::params::Bm25Params;
use super::segment::Postings;
use super::simd::Simd;
use crate::ids::DocId;
use crate::text::{Expansion, Query, QueryTerm, QueryWord};
use expand::Tier;
use fixedbitset::FixedBitSet;
use part::{Sieve, Term};
use top::Top;
use windows::{Cursor, Listed, RowBound, Scan};

/// With fewer allowed documents than one in so many (and than postings), they are looked up one by one instead of
/// scanning windows: at 1 % allowed eight times faster, at 10 % slower.
const LOOK_UP_SHARE: usize = 32;

/// Weights of query terms beyond these are ignored: products stay far from zero and infinity.
const MIN_WEIGHT: f32 = 1e-6;
const MAX_WEIGHT: f32 = 1e6;

/// What a term of the plan is.
#[derive(Debug, Clone, Copy)]
enum Source<'q> {
    /// A term of the query, and its row in [`Question::postings`].
    Term(&'q QueryTerm, usize),
    /// A word of the query as others, and its place in [`Question::tiers`].
    Tier(&'q QueryWord, usize),
}

/// A query term with its statistics.
#[derive(Debug)]
struct Planned<'q> {
    source: Source<'q>,
    /// Live documents.
    doc_freq: u32,
    idf: f32,
    /// idf x weight.
    mass: f32,
    /// What it adds to a score at most.
    gain: f32,
}

impl Planned<'_> {
    /// Decides the order of terms with one idf: by text, then the word before what it stands for.
    fn name(&self) -> (&str, usize) {
        match self.source {
            Source::Term(term, _) => (&term.term, 0),
            Source::Tier(word, tier) => (&word.surface, tier + 1),
        }
    }
}

/// A question over the parts of an index: everything that is looked up once.
///
/// A document's score is the sum over its terms in falling order of idf, equal ones by their text: no history, no
/// filter, no division into parts and no kernel changes a bit of it. Terms with a weight outside 1e-6..=1e6 are ignored.
/// Words that stand for others are in the sum as a term each, see [`expand`].
#[derive(Debug)]
pub struct Question<'i, 'q> {
    parts: Vec<Part<'i>>,
    query: &'q Query,
    /// In canonical order.
    terms: Vec<Planned<'q>>,
    /// By term as it was asked, then by part.
    postings: Vec<Postings<'i>>,
    /// In the order of the query's words.
    tiers: Vec<Tier<'i>>,
    norms: Norms,
    /// Postings of live documents.
    doc_freqs: usize,
}

impl<'i, 'q> Question<'i, 'q> {
    /// Parts are in the order of their numbers and do not overlap. Words stand for others that documents in `allowed`
    /// hold, where they do not hold the word: what others wrote neither shows nor counts. Statistics are over all.
    pub(crate) fn new(
        parts: Vec<Part<'i>>,
        params: Bm25Params,
        query: &'q Query,
        allowed: Option<&FixedBitSet>,
    ) -> Self {
        let num_docs: u32 = parts.iter().map(Part::num_docs).sum();
        let total_len = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.total_len()));
        let mut terms: Vec<Planned<'q>> = Vec::with_capacity(query.terms.len());
        let mut postings = Vec::with_capacity(query.terms.len() * parts.len());
        let mut doc_freqs = 0;
        let all = query.terms.iter().filter(|term| (MIN_WEIGHT..=MAX_WEIGHT).contains(&term.weight));
        let all: Vec<_> = all.map(|asked| (asked, Term::new(&asked.term))).collect();
        for (_, term) in &all {
            for part in &parts {
                part.fetch(term);
            }
        }
        for (asked, term) in all {
            let mut doc_freq = 0;
            for part in &parts {
                let (list, live) = part.find(&term).unwrap_or_default();
                postings.push(list);
                doc_freq = live.saturating_add(doc_freq);
            }
            // Only damage counts more.
            let doc_freq = doc_freq.min(num_docs);
            doc_freqs += doc_freq as usize;
            let idf = idf(num_docs, doc_freq);
            let mass = idf * asked.weight;
            let source = Source::Term(asked, terms.len());
            terms.push(Planned { source, doc_freq, idf, mass, gain: gain(mass, params) });
        }
        let mut tiers = Vec::new();
        let is_held = |row: usize| {
            let lists = postings[row * parts.len()..].iter();
            allowed.is_none() || parts.iter().zip(lists).any(|(part, list)| part.holds(list, allowed))
        };
        for (word, present) in words_to_expand(query, &terms, is_held) {
            for tier in expand::tiers(&parts, query, word, present, allowed) {
                doc_freqs += tier.doc_freq as usize;
                let idf = idf(num_docs, tier.reach.min(num_docs));
                let mass = idf * tier.likeness.weight();
                let source = Source::Tier(word, tiers.len());
                terms.push(Planned { source, doc_freq: tier.reach, idf, mass, gain: gain(mass, params) });
                tiers.push(tier);
            }
        }
        terms.sort_unstable_by(|a, b| b.idf.total_cmp(&a.idf).then_with(|| a.name().cmp(&b.name())));
        Self {
            parts,
            query,
            terms,
            postings,
            tiers,
            norms: Norms::new(params, num_docs, total_len),
            doc_freqs,
        }
    }

    /// The documents of a term in a part.
    fn list(&self, term: &Planned<'q>, part: usize) -> Postings<'_> {
        match term.source {
            Source::Term(_, row) => self.postings[row * self.parts.len() + part],
            Source::Tier(_, tier) => self.tiers[tier].postings(part),
        }
    }

    /// The words of the query that stand for others that live documents hold, each with these, best first.
    pub fn expansions(&self) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        let mut planned: Vec<(usize, &QueryWord)> = Vec::new();
        planned.extend(self.terms.iter().filter_map(|term| match term.source {
            Source::Tier(word, tier) if self.tiers[tier].doc_freq > 0 => Some((tier, word)),
            _ => None,
        }));
        planned.sort_unstable_by_key(|(tier, _)| *tier);
        for (tier, word) in planned {
            let words = self.tiers[tier].words.iter().cloned();
            match found.iter_mut().find(|(surface, _)| *surface == word.surface) {
                Some((_, known)) => known.extend(words),
                None => found.push((word.surface.clone(), words.collect())),
            }
        }
        found
    }

    /// The best `k` documents in `allowed` (indexed by number; None allows all) that hold a term of the query, and every
    /// one that is tied with the last of them. In no order.
    pub fn top(&self, k: usize, allowed: Option<&FixedBitSet>) -> Vec<ScoredDoc> {
        self.top_at(Simd::current(), k, allowed)
    }

    fn top_at(&self, level: Simd, k: usize, allowed: Option<&FixedBitSet>) -> Vec<ScoredDoc> {
        let Some((top, error)) = self.best(level, k, allowed, 0.0, RowBound::Most) else { return Vec::new() };
        top.finish(|found| {
            if error > 0.0 {
                self.score_all(found);
            }
        })
    }

    /// The same, and more, of those that score `least` or more, nearly: with sums that may be off from the scores by that
    /// share of these which is given beside them. A document that is made of the most frequent words alone may be missing.
    pub(crate) fn nearly_above(
        &self,
        least: f32,
        k: usize,
        allowed: Option<&FixedBitSet>,
    ) -> (Vec<ScoredDoc>, f32) {
        let best = self.best(Simd::current(), k, allowed, least, RowBound::Likely);
        best.map_or_else(Default::default, |(top, error)| (top.close(), error))
    }

    /// What parts hold of the best, and how far sums may be off, as a share of the scores.
    fn best(
        &self,
        level: Simd,
        k: usize,
        allowed: Option<&FixedBitSet>,
        least: f32,
        row_bound: RowBound,
    ) -> Option<(Top, f32)> {
        let most = self.parts.iter().map(|part| part.num_docs() as usize).sum::<usize>().min(self.doc_freqs);
        if k == 0 || most == 0 {
            return None;
        }
        // What rounding does to sums in any order, and to sums of bounds.
        let rounding = f32::EPSILON * (self.terms.len() + 8) as f32;
        let error = level.error() + rounding;
        let mut top = Top::new(k, most, error, least);
        let mut exact = true;
        let max_doc: usize = self.parts.iter().map(|part| part.max_doc() as usize).sum();
        let few = allowed.filter(|allowed| {
            let count = allowed.count_ones(..);
            count < max_doc / LOOK_UP_SHARE && count < self.doc_freqs
        });
        for (part, at) in self.parts.iter().zip(0..) {
            let mut terms = self.cursors(at);
            if terms.is_empty() {
                continue;
            }
            let scan = Scan::new(part, Sieve::new(part, allowed), self.norms, level, &mut terms, row_bound);
            exact &= scan.is_exact();
            match few {
                Some(few) => scan.look_up(ones_within(few, part.base, part.max_doc()), &mut top),
                None => scan.run(&mut top),
            }
        }
        Some((top, if exact { 0.0 } else { error }))
    }

    /// The terms that a part holds, in canonical order.
    fn cursors(&self, part: usize) -> Vec<Cursor<'_>> {
        let held = self.terms.iter().map(|term| (term.gain, self.list(term, part)));
        held.filter(|(_, list)| list.doc_freq > 0).map(|(gain, list)| Cursor::new(gain, list)).collect()
    }

    /// Gives documents their scores, each summed up in canonical order; puts them in order of their numbers.
    pub(crate) fn score_all(&self, found: &mut [ScoredDoc]) {
        found.sort_unstable_by_key(|found| found.doc);
        let mut rest = found;
        for (part, at) in self.parts.iter().zip(0..) {
            let end = part.base.saturating_add(part.max_doc());
            let (found, later) = rest.split_at_mut(rest.partition_point(|found| found.doc.0 < end));
            rest = later;
            if found.is_empty() {
                continue;
            }
            let docs: Vec<u32> = found.iter().filter_map(|found| part.local(found.doc.0)).collect();
            let norms = part.lens_of(&docs).map(|len| self.norms.of(len)).collect::<Vec<f32>>();
            let mut sums = vec![0.0; docs.len()];
            Listed::with(&docs, part.max_doc() as usize, |listed| {
                for mut term in self.cursors(at) {
                    term.add_to(&listed, &norms, &mut sums);
                }
            });
            let mut sums = sums.into_iter();
            for found in found {
                found.score = part.local(found.doc.0).and_then(|_| sums.next()).unwrap_or(0.0);
            }
        }
    }

    /// Live documents that hold the term at this place of the query.
    pub(super) fn doc_freq(&self, row: usize) -> u32 {
        let at = |term: &&Planned<'_>| matches!(term.source, Source::Term(_, own) if own == row);
        self.terms.iter().find(at).map_or(0, |term| term.doc_freq)
    }

    /// Share of the query's idf x weight that a document matches, 0..=1. Terms no document holds count in the whole.
    pub fn mass(&self, doc: DocId) -> f32 {
        // Summed in the same order, so that the share of a document that holds every term is exactly 1.
        // What a word stands for is worth less than the word, which is in the whole.
        let own = self.terms.iter().filter(|term| matches!(term.source, Source::Term(..)));
        let total = own.fold(0.0, |sum, term| sum + term.mass);
        let matched = self.matched(doc).fold(0.0, |sum, (term, ..)| sum + term.mass);
        if total > 0.0 { (matched / total).min(1.0) } else { 0.0 }
    }

    /// Score of a document; 0 when it is not there or holds no term.
    pub fn score(&self, doc: DocId) -> f32 {
        self.matched(doc).fold(0.0, |sum, (term, tf, norm)| sum + term.gain * saturation(tf as f32, norm))
    }

    /// How each query term that occurs in a document scored, in the order of summation; their scores add up to the
    /// document's. Empty for a document that is not there.
    pub fn explain(&self, doc: DocId) -> Vec<TermExplanation> {
        let part = self.parts.partition_point(|part| part.base <= doc.0).saturating_sub(1);
        let explained = self.matched(doc).map(|(term, tf, norm)| {
            let (name, surface, weight, likeness) = match term.source {
                Source::Term(query, _) => (query.term.as_str(), &query.surface, query.weight, None),
                Source::Tier(word, tier) => {
                    let tier = &self.tiers[tier];
                    let held = tier.word_in(part, doc.0 - self.parts[part].base);
                    (held, &word.surface, tier.likeness.weight(), Some(tier.likeness))
                }
            };
            TermExplanation {
                term: name.to_owned(),
                surface: surface.clone(),
                likeness,
                tf: tf as f32 / QUARTERS,
                doc_freq: term.doc_freq,
                idf: term.idf,
                weight,
                score: term.gain * saturation(tf as f32, norm),
            }
        });
        explained.collect()
    }

    /// What the user typed that occurs in a document, each once, in the order of the query; then what occurs in its place,
    /// as `typed → found`.
    pub fn matched_terms(&self, doc: DocId) -> Vec<String> {
        let held: Vec<&Planned<'_>> = self.matched(doc).map(|(term, ..)| term).collect();
        let mut matched: Vec<String> = Vec::with_capacity(held.len());
        for term in &self.query.terms {
            let is_held =
                |held: &&Planned<'_>| matches!(held.source, Source::Term(own, _) if own.term == term.term);
            if held.iter().any(is_held) && !matched.contains(&term.surface) {
                matched.push(term.surface.clone());
            }
        }
        // Most documents hold the words themselves.
        if held.iter().all(|held| matches!(held.source, Source::Term(..))) {
            return matched;
        }
        let explained = self.explain(doc);
        for word in &self.query.words {
            let other = explained.iter().find(|held| held.likeness.is_some() && held.surface == word.surface);
            matched.extend(other.map(|other| format!("{} → {}", word.surface, other.term)));
        }
        matched
    }

    /// The terms that a live document holds, in canonical order, with frequency and norm.
    fn matched(&self, doc: DocId) -> impl Iterator<Item = (&Planned<'q>, u32, f32)> {
        let at = self.parts.partition_point(|part| part.base <= doc.0).checked_sub(1);
        let found = at.and_then(|at| Some((at, &self.parts[at], self.parts[at].local(doc.0)?)));
        found.into_iter().flat_map(move |(at, part, local)| {
            let norm = self.norms.of(part.lens[local as usize]);
            let held = self.terms.iter().map(move |term| (term, self.list(term, at).tf(local), norm));
            held.filter(|(_, tf, _)| *tf > 0)
        })
    }
}

/// The documents in `allowed` that hold all of these terms; None when there is no term.
pub(super) fn holding_all(
    parts: &[Part<'_>],
    terms: &[String],
    allowed: &FixedBitSet,
) -> Option<FixedBitSet> {
    let terms: Vec<Term<'_>> = terms.iter().map(|term| Term::new(term)).collect();
    if terms.is_empty() {
        return None;
    }
    let mut holding = FixedBitSet::with_capacity(allowed.len());
    for part in parts {
        let lists: Vec<Postings<'_>> =
            terms.iter().map(|term| part.find(term).unwrap_or_default().0).collect();
        let Some(rarest) = lists.iter().min_by_key(|list| list.doc_freq) else { continue };
        rarest.each(|doc, _| {
            let number = part.base as usize + doc as usize;
            if allowed.contains(number) && lists.iter().all(|list| list.tf(doc) > 0) {
                holding.insert(number);
            }
        });
    }
    Some(holding)
}

/// The words of a query that may stand for others, and whether each is held; `is_held` tells it of a row of postings.
fn words_to_expand<'q>(
    query: &'q Query,
    terms: &[Planned<'q>],
    is_held: impl Fn(usize) -> bool,
) -> Vec<(&'q QueryWord, bool)> {
    let mut words = Vec::new();
    if query.words.is_empty() {
        return words;
    }
    // By place in the query; terms of weights that are ignored have none.
    let mut live = vec![None; query.terms.len()];
    let mut rest = query.terms.iter().zip(&mut live);
    for term in terms {
        if let Source::Term(asked, row) = term.source
            && let Some((_, place)) = rest.find(|(own, _)| std::ptr::eq(*own, asked))
        {
            *place = (term.doc_freq > 0).then_some(row);
        }
    }
    for word in &query.words {
        let held = |form: &usize| live.get(*form).copied().flatten().is_some_and(&is_held);
        // What is written without spaces is looked for by its exact terms.
        let present = word.forms.is_empty() || word.forms.iter().any(held);
        let grows = match query.expansion {
            Expansion::Off => false,
            Expansion::Missing => !present && word.key.is_some(),
            Expansion::Always => word.key.is_some(),
        };
        if grows || !word.synonyms.is_empty() {
            words.push((word, present));
        }
    }
    words
}

/// The bits of `set` among the `count` from `base` on, as numbers from 0.
fn ones_within(set: &FixedBitSet, base: u32, count: u32) -> impl Iterator<Item = u32> {
    const BITS: usize = usize::BITS as usize;
    let (start, end) = (base as usize, (base as usize + count as usize).min(set.len()));
    let blocks = set.as_slice();
    (start / BITS..end.div_ceil(BITS)).flat_map(move |block| {
        let mut bits = blocks.get(block).copied().unwrap_or(0);
        std::iter::from_fn(move || {
            while bits != 0 {
                let at = block * BITS + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if (start..end).contains(&at) {
                    return Some((at - start) as u32);
                }
            }
            None
        })
    })
}

#[cfg(test)]
mod expand_tests;
#[cfg(test)]
mod tests;
