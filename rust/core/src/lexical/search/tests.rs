//! Every way through a search against scoring each document by itself, to the last bit.

use super::*;
use crate::error::{Error, Result};
use crate::lexical::Segment;
use crate::lexical::{Field, LexicalIndex, PreparedDoc, Simd, prepare};
use crate::sections::{SectionWriter, Sections};
use crate::text::{Analyzer, AnalyzerKind, Language, Synonyms};
use std::collections::BTreeMap;

/// Small numbers from a seed: the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(sides.max(1))) as u32
    }
}

type Terms = BTreeMap<String, u32>;

fn analyzer() -> Analyzer {
    Analyzer::new(AnalyzerKind::Plain, Language::Off)
}

/// Words of all frequencies, from one in every second document to one in all of them together; long documents at times,
/// with frequencies that no byte holds.
fn text(dice: &mut Dice) -> String {
    let mut words = Vec::new();
    for _ in 0..=dice.roll(12) {
        // The sum of bits thins out: word 0 is in most documents, word 40 in few.
        let word = (dice.roll(1 << 20)).leading_zeros() * 3 + dice.roll(3) - 36;
        words.push(format!("w{word}"));
        if dice.roll(400) == 0 {
            let times = 60 + dice.roll(30) as usize;
            words.extend(vec![format!("w{}", dice.roll(4)); times]);
        }
    }
    if dice.roll(50) == 0 {
        words.push(format!("rare{}", dice.roll(2000)));
    }
    words.join(" ")
}

fn terms_of(text: &str) -> Terms {
    let mut terms = Terms::new();
    text.split(' ').for_each(|word| *terms.entry(word.to_owned()).or_default() += 4);
    terms
}

fn prepared(text: &str) -> PreparedDoc {
    prepare(&analyzer(), &[Field { text, weight_halves: 2 }])
}

struct Case {
    index: LexicalIndex,
    model: Vec<Option<Terms>>,
    params: Bm25Params,
}

/// A history of insertions one by one and in bulk, removals, and new numbers.
fn history(dice: &mut Dice, size: u32) -> Case {
    let params = match dice.roll(4) {
        0 => Bm25Params::new(0.0, 0.5).unwrap(),
        1 => Bm25Params::new(2.0, 1.0).unwrap(),
        _ => Bm25Params::default(),
    };
    let mut case = Case { index: LexicalIndex::new(params), model: Vec::new(), params };
    while (case.model.len() as u32) < size {
        let count = 1 + dice.roll(size / 3);
        if dice.roll(2) == 0 {
            for _ in 0..count.min(700) {
                if dice.roll(40) == 0 {
                    case.model.resize(case.model.len() + dice.roll(200) as usize, None);
                }
                let text = text(dice);
                case.index.insert(DocId(case.model.len() as u32), &prepared(&text)).unwrap();
                case.model.push(Some(terms_of(&text)));
            }
        } else {
            let first = DocId(case.model.len() as u32);
            let mut builder = crate::lexical::SegmentBuilder::default();
            for _ in 0..count {
                if dice.roll(60) == 0 {
                    builder.skip();
                    case.model.push(None);
                } else {
                    let text = text(dice);
                    builder.push_fields(&analyzer(), &[Field { text: &text, weight_halves: 2 }]);
                    case.model.push(Some(terms_of(&text)));
                }
            }
            case.index.insert_all(first, crate::lexical::NewSegment::build(&builder).unwrap()).unwrap();
        }
        for _ in 0..dice.roll(count / 4) {
            let doc = dice.roll(case.model.len() as u32);
            let there = case.model[doc as usize].take().is_some();
            assert_eq!(case.index.remove(DocId(doc)), there);
        }
        if dice.roll(8) == 0 {
            let live: Vec<Option<Terms>> = case.model.iter().filter(|doc| doc.is_some()).cloned().collect();
            let mut next = 0..;
            let numbers: Vec<u32> = case
                .model
                .iter()
                .map(|doc| if doc.is_some() { next.next().unwrap() } else { crate::lexical::DROPPED })
                .collect();
            case.index.renumber(&numbers, live.len() as u32).unwrap();
            case.model = live;
        }
    }
    case
}

/// Score of every document that matches, straight from the formula.
fn naive(case: &Case, query: &Query, allowed: Option<&FixedBitSet>) -> BTreeMap<u32, f32> {
    let live = || case.model.iter().flatten();
    let num_docs = live().count() as u32;
    let total_len = live().flat_map(BTreeMap::values).map(|tf| u64::from(*tf)).sum();
    let norms = Norms::new(case.params, num_docs, total_len);
    let mut terms: Vec<(f32, &QueryTerm)> = query
        .terms
        .iter()
        .map(|term| (idf(num_docs, live().filter(|doc| doc.contains_key(&term.term)).count() as u32), term))
        .collect();
    terms.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.term.cmp(&b.1.term)));
    let mut scores = BTreeMap::new();
    for (doc, terms_of) in (0..).zip(&case.model) {
        let Some(held) = terms_of.as_ref().filter(|_| allowed.is_none_or(|a| a.contains(doc as usize)))
        else {
            continue;
        };
        let norm = norms.of(held.values().sum());
        let mut score = 0.0;
        for (idf, term) in &terms {
            if let Some(tf) = held.get(&term.term) {
                score += gain(idf * term.weight, case.params) * saturation(*tf as f32, norm);
            }
        }
        if score > 0.0 {
            scores.insert(doc, score);
        }
    }
    scores
}

fn question(dice: &mut Dice) -> Query {
    let mut words = Vec::new();
    for _ in 0..=dice.roll(7) {
        words.push(match dice.roll(6) {
            0 => format!("rare{}", dice.roll(2000)),
            1 => "unseen".to_owned(),
            2 | 3 => format!("w{}", dice.roll(8)),
            _ => format!("w{}", dice.roll(45)),
        });
    }
    let mut query = analyzer().query(&words.join(" "));
    for term in &mut query.terms {
        if dice.roll(4) == 0 {
            term.weight = 0.7;
        }
    }
    query
}

fn check(case: &Case, query: &Query, k: usize, allowed: Option<&FixedBitSet>) {
    let all = naive(case, query, allowed);
    let mut sorted: Vec<f32> = all.values().copied().collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let least = if k == 0 { f32::INFINITY } else { sorted.get(k - 1).copied().unwrap_or(0.0) };
    let expected: Vec<(u32, u32)> = all
        .iter()
        .filter(|(_, score)| **score >= least)
        .map(|(doc, score)| (*doc, score.to_bits()))
        .collect();
    let question = case.index.question(query);
    for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
        let top = question.top_at(level, k, allowed);
        let mut found: Vec<(u32, u32)> =
            top.iter().map(|found| (found.doc.0, found.score.to_bits())).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{level:?} {k} {query:?}");
    }
    for doc in (0..case.model.len() as u32).step_by(17) {
        let score = if allowed.is_none() { all.get(&doc).copied().unwrap_or(0.0) } else { continue };
        assert_eq!(question.score(DocId(doc)).to_bits(), score.to_bits());
        assert_eq!(
            question.explain(DocId(doc)).iter().fold(0.0, |sum, part| sum + part.score).to_bits(),
            score.to_bits()
        );
        assert_eq!(question.matched_terms(DocId(doc)).is_empty(), score == 0.0);
        assert_eq!(question.mass(DocId(doc)) > 0.0, score > 0.0);
    }
}

#[test]
fn every_kernel_over_any_parts_gives_the_bits_of_scoring_each_document() {
    for seed in 0..12 {
        let dice = &mut Dice(seed);
        let size = [60, 500, 3_000, 12_000][seed as usize % 4];
        let case = history(dice, size);
        for round in 0..12 {
            let query = question(dice);
            let k = [1, 3, 10, 10, 100, usize::MAX, 0][round % 7];
            let share = [0, 1, 2, 30, 1000][dice.roll(5) as usize];
            let allowed = (share > 0).then(|| {
                // Shorter and longer than the index.
                let mut allowed = FixedBitSet::with_capacity(size as usize / 2 + dice.roll(size) as usize);
                (0..allowed.len()).for_each(|doc| allowed.set(doc, dice.roll(share) == 0));
                allowed
            });
            check(&case, &query, k, allowed.as_ref());
        }
    }
}

/// All documents of an index in one segment, under the numbers they have.
fn written(case: &Case) -> Sections {
    let numbers: Vec<u32> = (0..case.model.len() as u32).collect();
    Sections::in_memory(|out| case.index.write(out, &numbers, numbers.len() as u32).unwrap()).unwrap()
}

#[test]
fn a_segment_that_was_written_is_the_index() {
    let dice = &mut Dice(7);
    let mut case = history(dice, 2_000);
    let sections = written(&case);
    let numbers: Vec<u32> = (0..case.model.len() as u32).collect();
    let mut places = FixedBitSet::with_capacity(numbers.len());
    case.model.iter().zip(0..).filter(|(doc, _)| doc.is_none()).for_each(|(_, at)| places.insert(at));
    let segment = Segment::open(&sections).unwrap();
    case.index = LexicalIndex::of_segment(case.params, segment, &places);
    for _ in 0..20 {
        let query = question(dice);
        check(&case, &query, 10, None);
    }
}

/// Everything that can be done with a segment is done, whatever is in it.
fn use_up(segment: &Segment, dice: &mut Dice) {
    let mut places = FixedBitSet::with_capacity(segment.num_docs() as usize);
    (0..dice.roll(40)).for_each(|_| places.set(dice.roll(segment.num_docs()) as usize, true));
    let mut index = LexicalIndex::of_segment(Bm25Params::default(), segment.clone(), &places);
    for _ in 0..3 {
        index.insert(DocId(index.max_doc()), &prepared(&text(dice))).unwrap();
    }
    for turn in 0..4 {
        let query = question(dice);
        let mut allowed = FixedBitSet::with_capacity(segment.num_docs() as usize);
        (0..allowed.len()).for_each(|doc| allowed.set(doc, dice.roll(1 + turn * 40) == 0));
        let question = index.question(&query);
        for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
            for found in
                [question.top_at(level, 10, None), question.top_at(level, usize::MAX, Some(&allowed))]
            {
                assert!(found.iter().all(|found| found.score > 0.0 && found.score.is_finite()));
            }
        }
        let names = ["w0", "w1 w2", "rare7"].map(ToOwned::to_owned).to_vec();
        let words = Analyzer::new(AnalyzerKind::Default, Language::Off);
        let synonyms = Synonyms::new(words, &[("unseen".to_owned(), names)]).unwrap();
        let expanded = words.query_with("unseen rares unseenwords wrarew w1", &synonyms);
        let expanded = Query { expansion: Expansion::Always, ..expanded };
        let asked = index.question(&expanded);
        for found in asked.top_at(Simd::current(), 10, None) {
            assert!(found.score.is_finite() && asked.mass(found.doc) <= 1.0);
            asked.matched_terms(found.doc);
        }
        let doc = DocId(dice.roll(segment.num_docs() + 2));
        assert!(question.score(doc) >= 0.0 && question.mass(doc) <= 1.0);
        assert!(question.explain(doc).len() >= question.matched_terms(doc).len());
        for _ in 0..10 {
            index.remove(DocId(dice.roll(index.max_doc())));
        }
    }
    segment.names().prefixed(b"w");
    let live: Vec<u32> = (0..index.max_doc())
        .map(|doc| if index.contains(DocId(doc)) { doc } else { crate::lexical::DROPPED })
        .collect();
    let count = index.max_doc();
    index.renumber(&live, count).unwrap();
    let found = index.search(&question(dice), None);
    assert_eq!(found.docs.len(), found.mass.len());
}

/// Each of thousands of damaged images gives an answer or a typed error. Half of them have right checksums all the same:
/// only what is read is checked then.
#[test]
fn no_damage_ends_in_a_panic() {
    let long = std::env::var("TESTS_LONG").is_ok_and(|long| long == "1");
    let mut opened = 0;
    let mut whole = Vec::new();
    for round in 0..if long { 10_000 } else { 600 } {
        let dice = &mut Dice(round);
        if round % 50 == 0 {
            whole = image(&written(&history(dice, 400 + round as u32 % 7 * 300)));
        }
        let sections = if round % 2 == 0 {
            let mut bytes = whole.clone();
            if dice.roll(8) == 0 {
                bytes.truncate(dice.roll(bytes.len() as u32) as usize);
            }
            spoil(&mut bytes, dice);
            Sections::from_bytes(&bytes)
        } else {
            signed(&Sections::from_bytes(&whole).unwrap(), dice)
        };
        let segment = sections.and_then(|sections| Segment::open(&sections));
        match segment {
            Ok(segment) => {
                opened += 1;
                use_up(&segment, dice);
            }
            Err(error) => {
                let typed = matches!(error, Error::StoreCorrupt { .. } | Error::FormatTooNew { .. });
                assert!(typed, "{error}");
            }
        }
    }
    assert!(opened > 100, "only {opened} were opened");
}

fn image(sections: &Sections) -> Vec<u8> {
    let mut out = SectionWriter::new(Vec::new()).unwrap();
    for (name, _) in sections.sizes() {
        out.section(name, &sections.array::<u8>(name).unwrap()).unwrap();
    }
    out.finish().unwrap()
}

fn spoil(bytes: &mut [u8], dice: &mut Dice) {
    for _ in 0..=dice.roll(4) {
        let place = dice.roll(bytes.len() as u32) as usize;
        if let Some(byte) = bytes.get_mut(place) {
            *byte = if dice.roll(3) == 0 { 255 } else { *byte ^ (1 << dice.roll(8)) };
        }
    }
}

/// The sections with some bytes of some of them changed, or cut short, under checksums of what they are now.
fn signed(sections: &Sections, dice: &mut Dice) -> Result<Sections> {
    Sections::in_memory(|out| {
        for (name, _) in sections.sizes() {
            let mut bytes = sections.array::<u8>(name).unwrap().to_vec();
            if dice.roll(3) == 0 {
                spoil(&mut bytes, dice);
            }
            if dice.roll(60) == 0 {
                bytes.truncate(dice.roll(bytes.len() as u32) as usize / 8 * 8);
            }
            out.section(name, &bytes)?;
        }
        Ok(())
    })
}
