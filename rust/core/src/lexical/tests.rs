use super::*;
use crate::ids::DocId;
use crate::text::{Analyzer, AnalyzerKind, Language, Query, QueryTerm};
use fixedbitset::FixedBitSet;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn plain() -> Analyzer {
    Analyzer::new(AnalyzerKind::Plain, Language::Off)
}

fn doc(analyzer: Analyzer, text: &str) -> PreparedDoc {
    prepare(&analyzer, &[Field { text, weight_halves: 2 }])
}

fn index_of(texts: &[&str]) -> LexicalIndex {
    let mut index = LexicalIndex::new(Bm25Params::default());
    for (id, text) in texts.iter().enumerate() {
        index.insert(DocId(id as u32), &doc(plain(), text)).unwrap();
    }
    index
}

/// A document as the naive model sees it: the same fields, in decimal weights.
type Fields = Vec<(String, u8)>;

fn prepared(fields: &Fields) -> PreparedDoc {
    let fields: Vec<Field<'_>> = fields.iter().map(|(text, w)| Field { text, weight_halves: *w }).collect();
    prepare(&Analyzer::default(), &fields)
}

/// BM25 in f64 straight from the texts.
fn naive(docs: &BTreeMap<u32, Fields>, query: &Query, params: Bm25Params) -> BTreeMap<u32, (f64, f64)> {
    let analyzer = Analyzer::default();
    let frequencies: BTreeMap<u32, BTreeMap<String, f64>> = docs
        .iter()
        .map(|(&id, fields)| {
            let mut tf = BTreeMap::new();
            for (text, weight) in fields {
                analyzer.document(text, &mut |term, halves| {
                    *tf.entry(term.to_owned()).or_default() +=
                        f64::from(*weight) / 2.0 * f64::from(halves) / 2.0;
                });
            }
            tf.retain(|_, tf| *tf > 0.0);
            (id, tf)
        })
        .collect();
    let n = frequencies.len() as f64;
    let len = |tf: &BTreeMap<String, f64>| tf.values().sum::<f64>();
    let avg = frequencies.values().map(len).sum::<f64>() / n;
    let (k1, b) = (f64::from(params.k1()), f64::from(params.b()));
    let idf = |term: &str| {
        let df = frequencies.values().filter(|tf| tf.contains_key(term)).count() as f64;
        (1.0 + (n - df + 0.5) / (df + 0.5)).ln()
    };
    let total: f64 = query.terms.iter().map(|t| idf(&t.term) * f64::from(t.weight)).sum();
    let mut out = BTreeMap::new();
    for (&id, tfs) in &frequencies {
        let (mut score, mut mass) = (0.0, 0.0);
        for term in &query.terms {
            if let Some(tf) = tfs.get(&term.term) {
                let gain = idf(&term.term) * f64::from(term.weight);
                score += gain * tf * (k1 + 1.0) / (tf + k1 * (1.0 - b + b * len(tfs) / avg));
                mass += gain / total;
            }
        }
        if mass > 0.0 {
            out.insert(id, (score, mass));
        }
    }
    out
}

fn close(a: f32, b: f64, tolerance: f64) -> bool {
    (f64::from(a) - b).abs() <= tolerance * b.abs().max(1e-3)
}

const WORDS: &str =
    "(run|running|runs|author|authorization|café|cafe|東京|京都|err-42|err|42|fooBar|foo|the|of)";

fn fields() -> impl Strategy<Value = Fields> {
    let text = prop::collection::vec(WORDS, 0..8).prop_map(|words| words.join(" "));
    prop::collection::vec((text, 0_u8..7), 0..3)
}

fn query() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![4 => WORDS.boxed(), 1 => "(unseen|又)".boxed()], 1..6)
        .prop_map(|w| w.join(" "))
}

fn params() -> impl Strategy<Value = Bm25Params> {
    (0.0_f32..3.0, 0.0_f32..=1.0).prop_map(|(k1, b)| Bm25Params::new(k1, b).unwrap())
}

/// Insertions with gaps, and removals by rank among the live.
#[derive(Debug, Clone)]
enum Step {
    Insert(u32, Fields),
    Remove(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(
        prop_oneof![
            3 => (0_u32..4, fields()).prop_map(|(gap, fields)| Step::Insert(gap, fields)),
            2 => any::<prop::sample::Index>().prop_map(Step::Remove),
        ],
        1..40,
    )
}

fn play(steps: &[Step], params: Bm25Params) -> (LexicalIndex, BTreeMap<u32, Fields>) {
    let mut index = LexicalIndex::new(params);
    let mut docs = BTreeMap::new();
    for step in steps {
        match step {
            Step::Insert(gap, fields) => {
                let id = index.max_doc() + gap;
                index.insert(DocId(id), &prepared(fields)).unwrap();
                docs.insert(id, fields.clone());
            }
            Step::Remove(which) if !docs.is_empty() => {
                let ids: Vec<u32> = docs.keys().copied().collect();
                let id = ids[which.index(ids.len())];
                assert!(index.remove(DocId(id)));
                docs.remove(&id);
            }
            Step::Remove(_) => {}
        }
    }
    (index, docs)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn scores_are_those_of_naive_bm25(steps in steps(), text in query(), params in params()) {
        let (index, docs) = play(&steps, params);
        let query = Analyzer::default().query(&text);
        let expected = naive(&docs, &query, params);
        let found = index.search(&query, None);
        prop_assert_eq!(found.docs.iter().map(|d| d.0).collect::<Vec<_>>(), expected.keys().copied().collect::<Vec<_>>());
        for (i, (score, mass)) in expected.values().enumerate() {
            prop_assert!(close(found.scores[i], *score, 1e-5), "{} {}", found.scores[i], score);
            prop_assert!(close(found.mass[i], *mass, 1e-5) && found.mass[i] <= 1.0, "{} {}", found.mass[i], mass);
            let parts = index.question(&query).explain(found.docs[i]);
            prop_assert!(close(parts.iter().map(|p| p.score).sum(), f64::from(found.scores[i]), 1e-6));
            prop_assert!(!index.question(&query).matched_terms(found.docs[i]).is_empty());
        }
    }

    #[test]
    fn history_leaves_no_trace(steps in steps(), text in query(), params in params()) {
        let (index, docs) = play(&steps, params);
        let mut fresh = LexicalIndex::new(params);
        for (&id, fields) in &docs {
            fresh.insert(DocId(id), &prepared(fields)).unwrap();
        }
        let query = Analyzer::default().query(&text);
        let (a, b) = (index.search(&query, None), fresh.search(&query, None));
        prop_assert_eq!(&a.docs, &b.docs);
        prop_assert!(a.scores.iter().zip(&b.scores).all(|(a, b)| a.to_bits() == b.to_bits()));
        prop_assert!(a.mass.iter().zip(&b.mass).all(|(a, b)| a.to_bits() == b.to_bits()));
        prop_assert_eq!(index.avg_doc_len().to_bits(), fresh.avg_doc_len().to_bits());
    }

    #[test]
    fn filtering_first_is_filtering_after(steps in steps(), text in query(), allowed in prop::collection::vec(0_usize..90, 0..12), size in 90_usize..200) {
        let (mut index, _) = play(&steps, Bm25Params::default());
        // A high document number makes the few allowed ones few enough to be looked up one by one.
        index.insert(DocId(index.max_doc() + 600), &prepared(&vec![("author".into(), 2)])).unwrap();
        let query = Analyzer::default().query(&text);
        let all = index.search(&query, None);
        let mut few = FixedBitSet::with_capacity(size);
        few.extend(allowed.iter().copied());
        let mut many = few.clone();
        many.grow(700);
        many.insert_range(50..700);
        for set in [few, many] {
            let found = index.search(&query, Some(&set));
            let kept: Vec<usize> = (0..all.docs.len()).filter(|&i| set.contains(all.docs[i].index())).collect();
            prop_assert_eq!(&found.docs, &kept.iter().map(|&i| all.docs[i]).collect::<Vec<_>>());
            prop_assert!(kept.iter().enumerate().all(|(j, &i)| found.scores[j].to_bits() == all.scores[i].to_bits()));
            prop_assert!(kept.iter().enumerate().all(|(j, &i)| found.mass[j].to_bits() == all.mass[i].to_bits()));
        }
    }
}

#[test]
fn mass_is_one_for_all_terms_and_counts_unseen_ones_in_the_whole() {
    let index = index_of(&["red fox", "red", "blue"]);
    let found = index.search(&plain().query("red fox"), None);
    assert_eq!(found.docs, [DocId(0), DocId(1)]);
    assert_eq!(found.mass[0].to_bits(), 1.0_f32.to_bits());
    assert!(found.mass[1] < 0.5);
    let found = index.search(&plain().query("red fox unseen"), None);
    assert!(found.mass[0] < 0.7 && found.mass[0] > 0.3);
}

#[test]
fn a_search_of_a_smaller_index_after_a_larger_one_sees_none_of_its_sums() {
    let texts: Vec<String> = (0..500).map(|n| format!("red w{n}")).collect();
    let large = index_of(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let small = index_of(&["blue", "red"]);
    let query = plain().query("red");
    let alone = small.search(&query, None);
    assert_eq!(large.search(&query, None).docs.len(), 500);
    let mut none = FixedBitSet::with_capacity(500);
    none.insert_range(490..500);
    assert_eq!(large.search(&query, Some(&none)).docs.len(), 10);
    assert_eq!(small.search(&query, None), alone);
    assert_eq!(alone.docs, [DocId(1)]);
}

#[test]
fn nothing_is_found_in_nothing_or_for_nothing() {
    let empty = LexicalIndex::new(Bm25Params::default());
    assert_eq!(empty.search(&plain().query("red"), None), LexicalMatches::default());
    let mut index = index_of(&["red"]);
    assert_eq!(index.search(&Query::default(), None), LexicalMatches::default());
    assert_eq!(index.search(&plain().query("red"), Some(&FixedBitSet::new())), LexicalMatches::default());
    for weight in [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE] {
        let terms = vec![QueryTerm { term: "red".into(), surface: "red".into(), weight }];
        assert_eq!(index.search(&Query { terms, ..Query::default() }, None), LexicalMatches::default());
    }
    assert!(index.question(&plain().query("red")).explain(DocId(7)).is_empty());
    assert!(index.remove(DocId(0)));
    assert_eq!(index.search(&plain().query("red"), None), LexicalMatches::default());
    assert!(index.question(&plain().query("red")).explain(DocId(0)).is_empty());
    assert!(index.question(&plain().query("red")).matched_terms(DocId(0)).is_empty());
}

#[test]
fn explanations_name_what_was_typed() {
    let mut index = LexicalIndex::new(Bm25Params::default());
    index.insert(DocId(0), &doc(Analyzer::default(), "She runs")).unwrap();
    index.insert(DocId(1), &doc(Analyzer::default(), "other")).unwrap();
    let query = Analyzer::default().query("Who is Running or runs");
    let parts = index.question(&query).explain(DocId(0));
    let named: Vec<_> = parts.iter().map(|p| (p.term.as_str(), p.surface.as_str(), p.tf)).collect();
    assert_eq!(named, [("=runs", "runs", 0.5), ("run", "Running", 1.0)]);
    assert_eq!(index.question(&query).matched_terms(DocId(0)), ["Running", "runs"]);
}
