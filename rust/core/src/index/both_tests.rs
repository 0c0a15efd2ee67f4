//! What both legs find together, against the sums of all documents.

use super::super::{Ask, Index};
use crate::fusion::{self, Candidate, Fusion, Scored, Weights};
use crate::ids::DocId;
use crate::index::ranking::best_mass;
use crate::lexical::{Bm25Params, Field, prepare};
use crate::text::{Analyzer, AnalyzerKind, Language, Query};
use crate::vector::{Effort, UnitRow};
use fixedbitset::FixedBitSet;

struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// Below `count`, small ones more often.
    fn word(&mut self, count: usize) -> usize {
        (self.next() * self.next() * self.next() * count as f32) as usize
    }

    fn text(&mut self, words: usize) -> String {
        (0..words).map(|_| format!("w{}", self.word(400))).collect::<Vec<_>>().join(" ")
    }

    fn row(&mut self, width: usize, offset: f32) -> Vec<f32> {
        let mut row: Vec<f32> = (0..width).map(|_| self.next() + self.next() - 1.0 + offset).collect();
        row[0] += 0.01;
        row
    }
}

/// Documents with words, with one or two vectors, or with both; some removed.
fn index(random: &mut Random, analyzer: &Analyzer, count: usize, width: usize, offset: f32) -> Index {
    let mut index = Index::new(Bm25Params::default(), Some(width));
    for number in 0..count {
        let kind = random.word(20);
        let words = 1 + random.word(60);
        let text = random.text(words);
        let text = (kind != 11).then(|| prepare(analyzer, &[Field { text: &text, weight_halves: 2 }]));
        let doc = index.add(text.as_ref()).unwrap();
        let rows = [random.row(width, offset), random.row(width, offset)];
        let rows: Vec<&[f32]> =
            rows.iter().take(1 + usize::from(number % 5 == 0)).map(Vec::as_slice).collect();
        if kind != 12 {
            index.set_vectors(doc, &rows).unwrap();
        }
    }
    if width > 64 {
        // With signs.
        let built = index.graph_job(1).run(&|| false).unwrap();
        assert!(index.put_graph(built));
    }
    for doc in (0..count as u32).step_by(9) {
        index.remove(DocId(doc));
    }
    index
}

/// The sums of all documents that may be found.
fn naive(
    index: &Index,
    query: &Query,
    vector: &UnitRow,
    ask: &Ask<'_>,
    order: &dyn Fn(&Scored) -> u32,
) -> Vec<Scored> {
    let question = index.lexical().question_among(query, ask.allowed);
    let cosines = index.vectors().cosines(vector, ask.allowed, index.max_doc()).unwrap();
    let mut found = question.top(10, ask.allowed);
    let mass = best_mass(&question, &mut found);
    let may_be = |doc: &usize| ask.allowed.is_none_or(|allowed| allowed.contains(*doc));
    let all: Vec<Candidate> = index
        .live()
        .ones()
        .filter(may_be)
        .map(|number| {
            let doc = DocId(number as u32);
            let bm25 = index.has_text(doc).then(|| question.score(doc));
            Candidate { doc, bm25, cosine: Some(cosines[number]).filter(|cosine| !cosine.is_nan()) }
        })
        // Neither leg has what holds no word of the question and has no vector.
        .filter(|one| one.cosine.is_some() || one.bm25.is_some_and(|score| score > 0.0))
        .collect();
    let floor = index
        .vectors()
        .mean()
        .filter(|_| ask.centred)
        .map_or(0.0, |mean| vector.as_slice().iter().zip(&mean).map(|(q, m)| f64::from(*q) * m).sum());
    let (scored, scales) = fusion::fuse(&all, ask.fusion, ask.weights, floor, mass);
    fusion::select(scored, ask.k, |a, b| fusion::compare(a, b, &scales).then_with(|| order(a).cmp(&order(b))))
}

#[test]
fn the_best_are_those_of_all_sums() {
    let random = &mut Random(7);
    let analyzer = Analyzer::new(AnalyzerKind::Plain, Language::Off);
    let (mut fewer, mut missed) = (0, 0);
    for (count, width, offset) in [
        (40, 16, 0.0),
        (700, 16, 0.0),
        (3_000, 16, 0.0),
        (3_000, 16, 1.0),
        (3_000, 16, 3.0),
        (2_500, 130, 0.0),
        (2_500, 130, 1.0),
    ] {
        let index = index(random, &analyzer, count, width, offset);
        for round in 0..60 {
            let words = 1 + round % 6;
            let query = analyzer.query(&random.text(words));
            let vector = UnitRow::new(&random.row(width, offset), None).unwrap();
            let mut some = FixedBitSet::with_capacity(count);
            some.extend((0..count).filter(|doc| doc % (1 << (round % 7)) == 0));
            let lexical = [0.5, 0.05, 0.95, 1.0, 0.0][round % 5];
            let ask = Ask {
                query: Some(&query),
                vector: Some(&vector),
                allowed: (round % 3 == 1).then_some(&some),
                k: [1, 10, 10, 50, 300][round % 5],
                fusion: Fusion::Weighted,
                weights: Weights::new(lexical, 1.0 - lexical).unwrap(),
                effort: Effort { exact: width > 64 && round % 2 == 0, ..Effort::default() },
                centred: round % 2 == 0,
            };
            let expected = naive(&index, &query, &vector, &ask, &|scored| scored.raw.doc.0);
            let mut ranking = index.rank(&ask).unwrap();
            let scored = std::mem::take(&mut ranking.scored);
            fewer += usize::from(scored.len() < count / 10);
            let found = fusion::select(scored, ask.k, ranking.order(|doc| doc));
            let told = |all: &[Scored]| -> Vec<(u32, u64)> {
                all.iter().map(|one| (one.raw.doc.0, one.score.to_bits())).collect()
            };
            if width > 64 && !ask.effort.exact {
                missed += expected.iter().filter(|one| !told(&found).contains(&told(&[**one])[0])).count();
            } else {
                assert_eq!(told(&found), told(&expected), "{count} {width} {offset} {round}");
            }
        }
    }
    assert!(fewer > 100, "{fewer} of 420 questions were answered from a tenth of the documents");
    assert!(missed < 40, "{missed} of 4,000 documents were missed");
}

#[test]
fn documents_without_text_are_found_behind_thousands_of_nearer_ones() {
    let random = &mut Random(3);
    let analyzer = Analyzer::new(AnalyzerKind::Plain, Language::Off);
    let mut index = Index::new(Bm25Params::default(), Some(16));
    for number in 0..3_200_u32 {
        let text = if number == 0 { "needle" } else { "hay" };
        let text = (number < 2_400).then(|| prepare(&analyzer, &[Field { text, weight_halves: 2 }]));
        let doc = index.add(text.as_ref()).unwrap();
        let mut row = random.row(16, 0.0).iter().map(|x| 0.2 * x).collect::<Vec<_>>();
        row[3] += if number < 2_400 { 3.0 } else { 1.0 };
        index.set_vectors(doc, &[&row]).unwrap();
    }
    let query = analyzer.query("needle");
    let mut row = vec![0.0; 16];
    row[3] = 1.0;
    let vector = UnitRow::new(&row, None).unwrap();
    let ask = Ask {
        query: Some(&query),
        vector: Some(&vector),
        allowed: None,
        k: 100,
        fusion: Fusion::Weighted,
        weights: Weights::default(),
        effort: Effort::default(),
        centred: false,
    };
    let expected = naive(&index, &query, &vector, &ask, &|scored| scored.raw.doc.0);
    let mut ranking = index.rank(&ask).unwrap();
    let scored = std::mem::take(&mut ranking.scored);
    let found = fusion::select(scored, ask.k, ranking.order(|doc| doc));
    let numbers = |all: &[Scored]| all.iter().map(|one| one.raw.doc.0).collect::<Vec<_>>();
    assert_eq!(numbers(&found), numbers(&expected));
}
