//! Words that stand for others, against the rules of the module read word for word over the documents.

use super::expand::Likeness;
use crate::ids::DocId;
use crate::lexical::{Bm25Params, Field, LexicalIndex, PreparedDoc, Simd, prepare};
use crate::text::{Analyzer, AnalyzerKind, Expansion, Language, Query, Synonyms};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn prepared(text: &str) -> PreparedDoc {
    prepare(&Analyzer::default(), &[Field { text, weight_halves: 2 }])
}

fn index_of(texts: &[&str]) -> LexicalIndex {
    let mut index = LexicalIndex::new(Bm25Params::default());
    for (text, id) in texts.iter().zip(0..) {
        index.insert(DocId(id), &prepared(text)).unwrap();
    }
    index
}

fn query(text: &str, expansion: Expansion) -> Query {
    Query { expansion, ..Analyzer::default().query(text) }
}

fn table(entries: &[(&str, &[&str])]) -> Synonyms {
    let entries: Vec<(String, Vec<String>)> = entries
        .iter()
        .map(|(word, names)| ((*word).to_owned(), names.iter().map(|name| (*name).to_owned()).collect()))
        .collect();
    Synonyms::new(Analyzer::default(), &entries).unwrap()
}

/// Best first.
fn ranked(index: &LexicalIndex, query: &Query) -> Vec<u32> {
    let found = index.search(query, None);
    let mut order: Vec<usize> = (0..found.docs.len()).collect();
    order.sort_by(|a, b| found.scores[*b].total_cmp(&found.scores[*a]));
    order.into_iter().map(|at| found.docs[at].0).collect()
}

const WORDS: [&str; 22] = [
    "author",
    "authors",
    "authorize",
    "authorization",
    "authority",
    "connect",
    "connection",
    "conection",
    "pool",
    "pooling",
    "poolside",
    "spool",
    "receive",
    "recieve",
    "receiver",
    "kubernetes",
    "container",
    "réseau",
    "réseaux",
    "cat",
    "cats",
    "err-4471",
];
const ASKED: [&str; 16] = [
    "auth",
    "author",
    "authr",
    "authorizaton",
    "conn",
    "connections",
    "pool",
    "poool",
    "recieve",
    "reciever",
    "ca",
    "cat",
    "k8s",
    "résea",
    "the",
    "err-4472",
];

fn words(list: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(list), 1..most).prop_map(|words| words.join(" "))
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32, String),
    Remove(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0_u32..4, words(&WORDS, 8)).prop_map(|(gap, text)| Step::Insert(gap, text)),
        1 => any::<prop::sample::Index>().prop_map(Step::Remove),
    ];
    // More documents than a delta takes, so that there are segments and tombstones.
    prop::collection::vec(step, 1..220)
}

fn play(steps: &[Step]) -> (LexicalIndex, BTreeMap<u32, String>) {
    let mut index = LexicalIndex::new(Bm25Params::default());
    let mut docs = BTreeMap::new();
    for step in steps {
        match step {
            Step::Insert(gap, text) => {
                let id = index.max_doc() + gap;
                index.insert(DocId(id), &prepared(text)).unwrap();
                docs.insert(id, text.clone());
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

fn expansion() -> impl Strategy<Value = Expansion> {
    prop::sample::select(vec![Expansion::Off, Expansion::Missing, Expansion::Always])
}

type Terms = BTreeMap<String, f64>;

fn terms_of(text: &str) -> Terms {
    let mut terms = Terms::new();
    Analyzer::default().document(text, &mut |term, halves| {
        *terms.entry(term.to_owned()).or_default() += f64::from(halves) / 2.0;
    });
    terms
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            rows[i][j] = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                rows[i][j] = rows[i][j].min(rows[i - 2][j - 2] + 1);
            }
        }
    }
    rows[a.len()][b.len()]
}

/// Score of every document that matches, by the rules.
fn naive(docs: &BTreeMap<u32, String>, query: &Query) -> BTreeMap<u32, f64> {
    let docs: BTreeMap<u32, Terms> = docs.iter().map(|(id, text)| (*id, terms_of(text))).collect();
    let n = docs.len() as f64;
    let avg = docs.values().map(|terms| terms.values().sum::<f64>()).sum::<f64>() / n;
    let idf = |df: usize| (1.0 + (n - df as f64 + 0.5) / (df as f64 + 0.5)).ln();
    let worth =
        |terms: &Terms, tf: f64| tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * terms.values().sum::<f64>() / avg));
    let mut scores: BTreeMap<u32, f64> = BTreeMap::new();
    for term in &query.terms {
        let df = docs.values().filter(|terms| terms.contains_key(&term.term)).count();
        for (id, terms) in &docs {
            if let Some(tf) = terms.get(&term.term) {
                *scores.entry(*id).or_default() += idf(df) * f64::from(term.weight) * worth(terms, *tf);
            }
        }
    }
    let dictionary: BTreeSet<&str> = docs.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
    for word in &query.words {
        let exact = query.exact(word);
        let is_exact =
            |terms: &Terms| exact.iter().any(|one| one.terms.iter().all(|term| terms.contains_key(term)));
        let mut taken: BTreeSet<u32> =
            docs.iter().filter(|(_, terms)| is_exact(terms)).map(|(id, _)| *id).collect();
        let present = !taken.is_empty();
        let mut tiers: Vec<(f64, f64, Vec<Vec<String>>)> =
            vec![(0.7, 1.0, word.synonyms.iter().map(|one| one.terms.clone()).collect())];
        let expands = match query.expansion {
            Expansion::Off => false,
            Expansion::Missing => !present,
            Expansion::Always => true,
        };
        if let Some(key) = word.key.as_deref().filter(|_| expands) {
            let marked = key.starts_with('=');
            let bare = key.trim_start_matches('=');
            let others = dictionary.iter().filter(|term| term.starts_with('=') == marked && **term != key);
            let others: Vec<&str> = others
                .map(|term| term.trim_start_matches('='))
                .filter(|word| word.chars().all(char::is_alphabetic))
                .collect();
            let named = |words: Vec<&str>| -> Vec<Vec<String>> {
                let mark = if marked { "=" } else { "" };
                words.iter().map(|word| vec![format!("{mark}{word}")]).collect()
            };
            let times = if marked { 2.0 } else { 1.0 };
            if word.letters >= 4 {
                let words = others.iter().copied().filter(|word| word.starts_with(bare)).collect();
                tiers.push((0.5, times, named(words)));
            }
            if !present && tiers.iter().all(|(.., words)| words.is_empty()) {
                let like = |most: usize| -> Vec<&str> {
                    let near = others.iter().copied().filter(|word| distance(bare, word) <= most);
                    near.filter(|word| most < 2 || word.chars().next() == bare.chars().next()).collect()
                };
                let mut words = if word.letters >= 5 { like(1) } else { Vec::new() };
                if words.is_empty() && word.letters >= 9 {
                    words = like(2);
                }
                tiers.push((0.4, times, named(words)));
            }
        }
        for (weight, times, words) in tiers {
            let mut found: BTreeMap<u32, f64> = BTreeMap::new();
            for (id, terms) in docs.iter().filter(|(id, _)| !taken.contains(id)) {
                let tf = |word: &Vec<String>| {
                    word.iter()
                        .map(|term| terms.get(term).copied().unwrap_or(0.0))
                        .fold(f64::INFINITY, f64::min)
                };
                let best = words.iter().map(tf).fold(0.0, f64::max);
                if best > 0.0 {
                    found.insert(*id, best * times);
                }
            }
            taken.extend(found.keys());
            for (id, tf) in found {
                *scores.entry(id).or_default() += weight * idf(taken.len()) * worth(&docs[&id], tf);
            }
        }
    }
    scores
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn scores_are_those_of_the_rules(steps in steps(), text in words(&ASKED, 5), expansion in expansion()) {
        let (index, docs) = play(&steps);
        let synonyms = table(&[("k8s", &["kubernetes", "container pool"]), ("cat", &["author"])]);
        let query = Query { expansion, ..Analyzer::default().query_with(&text, &synonyms) };
        let expected = naive(&docs, &query);
        let found = index.search(&query, None);
        let ids: Vec<u32> = found.docs.iter().map(|doc| doc.0).collect();
        prop_assert_eq!(&ids, &expected.keys().copied().collect::<Vec<_>>());
        let question = index.question(&query);
        for ((doc, score), mass) in found.docs.iter().zip(&found.scores).zip(&found.mass) {
            let wanted = expected[&doc.0];
            prop_assert!((f64::from(*score) - wanted).abs() <= 1e-5 * wanted.max(1e-3), "{} {}", score, wanted);
            let explained = question.explain(*doc);
            let sum = explained.iter().fold(0.0, |sum, term| sum + term.score);
            prop_assert_eq!(sum.to_bits(), score.to_bits());
            for term in explained.iter().filter(|term| term.likeness.is_some()) {
                prop_assert!(docs[&doc.0].contains(term.term.split(' ').next().unwrap()), "{:?}", term);
            }
            prop_assert!(*mass > 0.0 && *mass <= 1.0);
            prop_assert!(!question.matched_terms(*doc).is_empty());
        }
        for k in [1, 3] {
            let mut sorted: Vec<f32> = found.scores.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let least = sorted.get(k - 1).copied().unwrap_or(0.0);
            for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
                let mut top = question.top_at(level, k, None);
                top.sort_unstable_by_key(|found| found.doc);
                let best = found.docs.iter().zip(&found.scores).filter(|(_, score)| **score >= least);
                let best: Vec<(u32, u32)> = best.map(|(doc, score)| (doc.0, score.to_bits())).collect();
                prop_assert_eq!(top.iter().map(|f| (f.doc.0, f.score.to_bits())).collect::<Vec<_>>(), best);
            }
        }
    }

    #[test]
    fn no_division_into_parts_changes_what_a_word_stands_for(
        steps in steps(), text in words(&ASKED, 6), expansion in expansion(),
    ) {
        let (index, docs) = play(&steps);
        let mut fresh = LexicalIndex::new(Bm25Params::default());
        for (&id, text) in &docs {
            fresh.insert(DocId(id), &prepared(text)).unwrap();
        }
        let synonyms = table(&[("k8s", &["kubernetes", "container"]), ("pool", &["connection"])]);
        let query = Query { expansion, ..Analyzer::default().query_with(&text, &synonyms) };
        let (a, b) = (index.search(&query, None), fresh.search(&query, None));
        prop_assert_eq!(&a.docs, &b.docs);
        prop_assert!(a.scores.iter().zip(&b.scores).all(|(a, b)| a.to_bits() == b.to_bits()));
        prop_assert!(a.mass.iter().zip(&b.mass).all(|(a, b)| a.to_bits() == b.to_bits()));
        let (a, b) = (index.question(&query), fresh.question(&query));
        prop_assert_eq!(a.expansions(), b.expansions());
        for &doc in docs.keys() {
            prop_assert_eq!(a.explain(DocId(doc)), b.explain(DocId(doc)));
        }
    }
}

#[test]
fn a_word_is_taken_for_others_by_its_beginning_and_by_typos() {
    let index =
        index_of(&["authorization failed", "the connection pool", "receive buffers", "error ERR-4471"]);
    for (asked, found) in [
        ("authoriz", vec![0]),
        ("conn", vec![1]),
        ("con", vec![]),
        ("recieve", vec![2]),
        ("recv", vec![]),
        ("authroizaton", vec![0]),
        ("poll", vec![]),
        ("ERR-4472", vec![3]),
        ("4472", vec![]),
        ("utf8", vec![]),
    ] {
        assert_eq!(ranked(&index, &query(asked, Expansion::Missing)), found, "{asked}");
    }
    // By its letters alone: the number is no other number.
    let asked = query("ERR-4472", Expansion::Always);
    assert!(index.question(&asked).expansions().is_empty());
    assert_eq!(index.question(&asked).matched_terms(DocId(3)), ["ERR"]);
    assert!(ranked(&index, &query("authoriz", Expansion::Off)).is_empty());
    let plain = Analyzer::new(AnalyzerKind::Plain, Language::Off);
    assert!(ranked(&index, &plain.query("authoriz recieve")).is_empty());
}

#[test]
fn a_word_that_is_there_is_not_taken_for_a_misspelt_one() {
    let index = index_of(&["house rules", "mouse traps", "a horse"]);
    for expansion in [Expansion::Missing, Expansion::Always] {
        assert_eq!(ranked(&index, &query("house", expansion)), [0]);
    }
    let mut index = index;
    assert!(index.remove(DocId(0)));
    let found: BTreeSet<u32> = ranked(&index, &query("house", Expansion::Missing)).into_iter().collect();
    assert_eq!(found, BTreeSet::from([1, 2]), "only live documents make a word known");
}

#[test]
fn authorization_finds_itself_before_authors() {
    let index = index_of(&[
        "the author wrote",
        "the author wrote more",
        "authorization is needed here",
        "authorizations",
        "authority",
        "authors and an author and the author's author",
    ]);
    for expansion in [Expansion::Off, Expansion::Missing, Expansion::Always] {
        assert_eq!(ranked(&index, &query("authorization", expansion))[0], 2, "{expansion:?}");
        let best = ranked(&index, &query("auth", expansion));
        assert_eq!(best.is_empty(), expansion == Expansion::Off);
    }
}

#[test]
fn the_best_of_many_words_counts_and_never_their_sum() {
    let index =
        index_of(&["config", "config configs configure configuration", "configuration", "other", "more"]);
    let asked = query("confi", Expansion::Missing);
    let question = index.question(&asked);
    for doc in [0, 1, 2] {
        let explained = question.explain(DocId(doc));
        assert_eq!(explained.len(), 1);
        assert_eq!((explained[0].likeness, explained[0].doc_freq), (Some(Likeness::Prefix), 3));
        assert!((explained[0].tf - 1.0).abs() < 1e-6, "as a word that is written once");
    }
    assert!(question.score(DocId(1)) < question.score(DocId(0)), "longer, and no better");
    assert_eq!(question.matched_terms(DocId(2)), ["confi → configuration"]);
    assert_eq!(question.expansions()[0].1, ["config", "configuration", "configs", "configure"]);
}

#[test]
fn no_more_than_the_commonest_words_are_taken() {
    let mut texts: Vec<String> = Vec::new();
    for first in 'a'..='z' {
        for second in ['x', 'y'] {
            texts.push(format!("prefix{first}{second}"));
        }
    }
    texts.extend(vec!["prefixzz".to_owned(); 2]);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let index = index_of(&texts);
    let asked = query("prefix", Expansion::Missing);
    let words = index.question(&asked).expansions().remove(0).1;
    assert_eq!(words.len(), 32);
    assert_eq!(words[..3], ["prefixzz", "prefixax", "prefixay"], "by documents, then by name");
    assert_eq!(ranked(&index, &asked).len(), 33);
}

#[test]
fn synonyms_count_seven_tenths_and_never_beside_the_word() {
    let index = index_of(&[
        "k8s cluster",
        "kubernetes cluster",
        "kubernetes k8s",
        "容器编排系统",
        "电脑坏了",
        "other",
    ]);
    let synonyms = table(&[("K8S", &["Kubernetes", "容器编排"]), ("计算机", &["电脑"])]);
    let ask = |text: &str| Analyzer::default().query_with(text, &synonyms);
    let asked = ask("k8s");
    let question = index.question(&asked);
    assert_eq!(question.matched_terms(DocId(1)), ["k8s → Kubernetes"]);
    assert_eq!(question.matched_terms(DocId(3)), ["k8s → 容器编排"]);
    assert!(question.explain(DocId(2)).iter().all(|term| term.likeness.is_none()));
    assert!(question.score(DocId(1)) < question.score(DocId(0)));
    let explained = question.explain(DocId(1));
    assert_eq!((explained[0].weight.to_bits(), explained[0].doc_freq), (0.7_f32.to_bits(), 4));
    let asked = ask("我的计算机");
    assert_eq!(index.question(&asked).matched_terms(DocId(4)), ["计算机 → 电脑"]);
    // A synonym is not itself taken for longer words, nor a known word for a misspelt one.
    assert!(ranked(&index_of(&["kubernetesbased tools"]), &ask("k8s")).is_empty());
    // Off is about guesses; what the user says stays.
    assert_eq!(ranked(&index, &Query { expansion: Expansion::Off, ..ask("k8s") }).len(), 4);
}

#[test]
fn words_in_hyphens_are_words_and_parts_of_identifiers_are_not() {
    let index = index_of(&["high throughput", "the retry counter", "connection handler"]);
    assert_eq!(ranked(&index, &query("high-througput", Expansion::Missing)), [0]);
    for asked in ["max_retr_count", "getConnecton", "src/connec/x.rs", "connec.rs"] {
        assert!(ranked(&index, &query(asked, Expansion::Missing)).is_empty(), "{asked}");
    }
}
