use super::*;
use proptest::prelude::*;

fn index(docs: &[(&str, &str)]) -> HybridIndex {
    let mut index = HybridIndex::new(None, IndexParams::default()).unwrap();
    for (id, text) in docs {
        add(&mut index, id, text, None);
    }
    index
}

fn add(index: &mut HybridIndex, id: &str, text: &str, vector: Option<&[f32]>) -> Inserted {
    let doc = index.prepare(&[("text", text)]);
    index.insert(id, Some(&doc), vector).unwrap()
}

fn found(index: &HybridIndex, search: &Search<'_>) -> Vec<String> {
    index.search(search).unwrap().into_iter().map(|hit| hit.id.to_string()).collect()
}

#[test]
fn replacing_a_document_leaves_nothing_of_the_old_one() {
    let mut index = index(&[("a", "redis cache"), ("b", "postgres")]);
    assert!(add(&mut index, "a", "kafka queue", None).replaced);
    assert!(found(&index, &Search { query: Some("redis"), ..Search::default() }).is_empty());
    assert_eq!(found(&index, &Search { query: Some("kafka"), ..Search::default() }), ["a"]);
    assert_eq!((index.num_docs(), index.max_doc()), (2, 3));
}

#[test]
fn a_refused_vector_keeps_the_text_and_is_counted() {
    let mut index = HybridIndex::new(Some(2), IndexParams::default()).unwrap();
    let inserted = add(&mut index, "a", "alpha", Some(&[1.0, 0.0, 0.0]));
    assert_eq!(inserted.refused, Some(Refusal::Width { expected: 2, found: 3 }));
    add(&mut index, "b", "beta", Some(&[0.0, 0.0]));
    assert_eq!(index.refusals(), BTreeMap::from([("width", 1), ("other", 1)]));
    assert_eq!(found(&index, &Search { query: Some("alpha"), ..Search::default() }), ["a"]);
    assert!(index.add_embedding("a", &[0.0, 1.0]).unwrap());
    assert_eq!((index.refusals()["width"], index.vectorized()), (0, 1));
    assert!(matches!(index.add_embedding("zz", &[0.0, 1.0]), Err(Error::NotFound { .. })));
}

#[test]
fn the_explanation_recomputes_to_the_score() {
    let mut index = index(&[("z", "unrelated words")]);
    add(&mut index, "a", "redis cache eviction", Some(&[1.0, 0.2]));
    add(&mut index, "b", "cache of pages", Some(&[0.3, 0.9]));
    let search =
        Search { query: Some("redis cache"), vector: Some(&[0.5, 0.5]), explain: true, ..Search::default() };
    for hit in index.search(&search).unwrap() {
        let tree = hit.explanation.unwrap();
        let part = |name: &str| tree.details.iter().find(|d| d.description.starts_with(name));
        if let Some(node) = part("lexical") {
            assert!((node.details[0].value / node.details[1].value - node.value).abs() < 1e-6);
            let sum: f64 = node.details[0].details.iter().map(|d| d.value).sum();
            assert!((sum - node.details[0].value).abs() < 1e-5);
        }
        let expected = match (part("lexical"), part("vector")) {
            (Some(l), Some(v)) => 0.5 * l.value + 0.5 * v.value,
            (Some(only), None) | (None, Some(only)) => only.value,
            (None, None) => panic!("no part"),
        };
        assert!((expected - hit.score).abs() < 1e-6, "{tree}");
    }
}

#[derive(Debug, Clone)]
struct Doc {
    text: String,
    vector: Option<Vec<f32>>,
}

fn docs() -> impl Strategy<Value = Vec<Doc>> {
    let doc = ("[abcd]( [abcd]){0,5}", proptest::option::of(proptest::collection::vec(-1.0..1.0f32, 3)));
    proptest::collection::vec(doc.prop_map(|(text, vector)| Doc { text, vector }), 1..25)
}

proptest! {
    /// Each leg: filter then rank equals rank everything, then filter. Fused: equals the naive computation over
    /// the allowed documents.
    #[test]
    fn filters_apply_before_ranking(docs in docs(), bits in any::<u32>(), k in 1..30usize, mode in 0..4u8) {
        let mut index = HybridIndex::new(Some(3), IndexParams { analyzer: AnalyzerKind::Plain, ..IndexParams::default() }).unwrap();
        for (n, doc) in docs.iter().enumerate() {
            let prepared = index.prepare(&[("t", &doc.text)]);
            index.insert(&n.to_string(), Some(&prepared), doc.vector.as_deref()).unwrap();
        }
        let names: Vec<String> = (0..docs.len()).filter(|n| bits >> n & 1 == 1).map(|n| n.to_string()).collect();
        let ids: Vec<&str> = names.iter().map(String::as_str).collect();
        let vector = [0.4, -0.2, 0.9];
        let search = Search {
            // One term, so that what matches matches all of the mass and the lexical leg has its full weight.
            query: (mode != 1).then_some(if mode == 0 { "a b" } else { "a" }),
            vector: (mode != 0).then_some(&vector[..]),
            fusion: if mode == 3 { Fusion::Rrf } else { Fusion::Weighted },
            k: usize::MAX,
            ..Search::default()
        };
        let all = index.search(&search).unwrap();
        let some = index.search(&Search { ids: Some(Among::Ids(&ids)), ..search }).unwrap();
        let order = |hits: &[HybridHit]| hits.iter().map(|h| h.id.to_string()).collect::<Vec<_>>();
        let kept: Vec<&HybridHit> = all.iter().filter(|h| names.iter().any(|name| **name == *h.id)).collect();
        if mode < 2 {
            let kept: Vec<String> = kept.iter().map(|h| h.id.to_string()).collect();
            prop_assert_eq!(order(&some), kept);
        } else {
            let mut naive: Vec<(f64, usize)> = naive_scores(&kept, mode == 3);
            naive.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            prop_assert_eq!(naive.len(), some.len());
            for (hit, (score, _)) in some.iter().zip(&naive) {
                prop_assert!((hit.score - score).abs() < 1e-6, "{} {}", hit.score, score);
            }
        }
        let cut = index.search(&Search { ids: Some(Among::Ids(&ids)), k, ..search }).unwrap();
        prop_assert_eq!(order(&cut), order(&some).into_iter().take(k).collect::<Vec<_>>());
    }
}

/// The fusion of `fusion.rs`, written again the slow way from the raw parts of the hits.
fn naive_scores(hits: &[&HybridHit], rrf: bool) -> Vec<(f64, usize)> {
    let part = |hit: &HybridHit, name: &str| hit.parts.named().find(|(n, _)| *n == name).map(|(_, v)| v);
    let best = |name: &str| hits.iter().filter_map(|h| part(h, name)).fold(f64::NEG_INFINITY, f64::max);
    let (bm25, cosine) = (best("bm25"), best("cosine"));
    let has = (bm25 > 0.0, cosine > f64::NEG_INFINITY);
    let rank =
        |name: &str, value: f64| 1 + hits.iter().filter_map(|h| part(h, name)).filter(|v| *v > value).count();
    let score = |hit: &&HybridHit| {
        let (b, c) = (part(hit, "bm25"), part(hit, "cosine"));
        if rrf && has == (true, true) {
            let gain = |name, value: f64| 61.0 / (60.0 + rank(name, value) as f64);
            let l = b.map(|b| if b > 0.0 { gain("bm25", b) } else { 0.0 });
            let v = c.map(|c| gain("cosine", c));
            return match (l, v) {
                (Some(l), Some(v)) => 0.5 * l + 0.5 * v,
                (l, v) => l.or(v).unwrap_or(0.0),
            };
        }
        let l = b.filter(|_| has.0).map(|b| b / bm25);
        let v = c.map(|c| if cosine > 1e-9 { (c / cosine).clamp(0.0, 1.0) } else { 0.0 });
        match (l, v) {
            (Some(l), Some(v)) => 0.5 * l + 0.5 * v,
            (l, v) => l.or(v).unwrap_or(0.0),
        }
    };
    hits.iter().map(score).zip(0..).collect()
}

/// What happens to an index, and the documents it should have, in the order of their insertion.
#[derive(Debug, Clone)]
enum Step {
    Insert(Vec<(u8, Doc)>),
    Batch(Vec<(u8, Doc)>),
    Embed(u8, Vec<f32>),
    Remove(u8),
    Compact,
    SaveAndLoad,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let doc = || {
        let vector = prop_oneof![3 => proptest::collection::vec(-1.0..1.0f32, 3), 1 => proptest::collection::vec(0.0..0.1f32, 2)];
        let text = prop_oneof![6 => "[abcd]( [abcd]){0,5}", 1 => Just(String::new())];
        (text, proptest::option::of(vector)).prop_map(|(text, vector)| Doc { text, vector })
    };
    let docs = |most| proptest::collection::vec((0..40u8, doc()), 1..most);
    let step = prop_oneof![
        6 => docs(12).prop_map(Step::Insert),
        3 => docs(80).prop_map(Step::Batch),
        2 => (0..40u8, proptest::collection::vec(-1.0..1.0f32, 3)).prop_map(|(id, row)| Step::Embed(id, row)),
        6 => (0..40u8).prop_map(Step::Remove),
        1 => Just(Step::Compact),
        2 => Just(Step::SaveAndLoad),
    ];
    proptest::collection::vec(step, 1..14)
}

fn fields_of(doc: &Doc) -> Option<Vec<(&str, &str)>> {
    // A document that has a vector may go without text.
    let text = !doc.text.is_empty() || doc.vector.is_none();
    text.then(|| vec![("text", doc.text.as_str())])
}

fn play(steps: &[Step], folder: &std::path::Path) -> (HybridIndex, Vec<(String, Doc)>) {
    let params = IndexParams {
        bm25: Bm25Params::new(0.9, 0.4).unwrap(),
        analyzer: AnalyzerKind::Plain,
        ..IndexParams::default()
    };
    let mut index = HybridIndex::new(Some(3), params).unwrap();
    let mut model: Vec<(String, Doc)> = Vec::new();
    for step in steps {
        match step {
            Step::Insert(docs) => {
                for (id, doc) in docs {
                    let (id, fields) = (id.to_string(), fields_of(doc));
                    let prepared = fields.map(|fields| index.prepare(&fields));
                    let done = index.insert(&id, prepared.as_ref(), doc.vector.as_deref()).unwrap();
                    assert_eq!(done.replaced, model.iter().any(|(known, _)| *known == id));
                    model.retain(|(known, _)| *known != id);
                    model.push((id, doc.clone()));
                }
            }
            Step::Batch(docs) => {
                let mut batch = index.batch();
                for (id, doc) in docs {
                    batch.push(&id.to_string(), fields_of(doc).as_deref(), doc.vector.clone()).unwrap();
                }
                for (done, (id, doc)) in index.insert_batch(batch).unwrap().iter().zip(docs) {
                    let id = id.to_string();
                    assert_eq!(done.replaced, model.iter().any(|(known, _)| *known == id));
                    model.retain(|(known, _)| *known != id);
                    model.push((id, doc.clone()));
                }
            }
            Step::Embed(id, row) => {
                let id = id.to_string();
                match model.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, doc)) => {
                        assert!(index.add_embedding(&id, row).unwrap());
                        // A document without text stays one: the model tells by the text.
                        if doc.text.is_empty() && doc.vector.is_none() {
                            doc.text = " ".to_owned();
                        }
                        doc.vector = Some(row.clone());
                    }
                    None => assert!(index.add_embedding(&id, row).is_err()),
                }
            }
            Step::Remove(id) => {
                let id = id.to_string();
                assert_eq!(index.remove(&id), model.iter().any(|(known, _)| *known == id));
                model.retain(|(known, _)| *known != id);
            }
            Step::Compact => {
                index.compact(&|| false).unwrap();
                assert_eq!(index.max_doc(), model.len());
            }
            Step::SaveAndLoad => {
                let path = folder.join("saved");
                index.save(&path).unwrap();
                assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "nothing is left beside");
                index = HybridIndex::load(&path).unwrap();
                assert_eq!(index.max_doc(), model.len());
            }
        }
        assert_eq!(index.num_docs(), model.len());
        assert!(index.max_doc() <= 2 * index.num_docs() + MIN_DEAD + 80);
    }
    (index, model)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any history answers as an index built from what is left of it, to the last bit and in the same order.
    #[test]
    fn history_leaves_no_trace(steps in steps(), word in "[abcde]( [abcde]){0,3}", k in 0..30usize, mode in 0..4u8) {
        let folder = tempfile::tempdir().unwrap();
        let (index, model) = play(&steps, folder.path());
        let mut fresh = HybridIndex::new(Some(3), index.params).unwrap();
        for (id, doc) in &model {
            let prepared = fields_of(doc).map(|fields| fresh.prepare(&fields));
            fresh.insert(id, prepared.as_ref(), doc.vector.as_deref()).unwrap();
            prop_assert!(index.contains(id));
        }
        prop_assert_eq!((index.vectorized(), index.refusals()), (fresh.vectorized(), fresh.refusals()));
        let ids: Vec<&str> = model.iter().map(|(id, _)| id.as_str()).step_by(2).collect();
        let search = Search {
            query: (mode != 1).then_some(word.as_str()),
            vector: (mode > 0).then_some(&[0.4, -0.2, 0.9]),
            fusion: if mode == 3 { Fusion::Rrf } else { Fusion::Weighted },
            explain: true,
            k,
            ..Search::default()
        };
        for search in [search, Search { ids: Some(Among::Ids(&ids)), ..search }] {
            prop_assert_eq!(index.search(&search).unwrap(), fresh.search(&search).unwrap());
        }
    }
}

#[test]
fn a_file_that_is_no_saved_index_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved");
    let missing = HybridIndex::load(&path).unwrap_err();
    assert!(
        matches!(missing, Error::Store { source: Some(_), .. })
            && missing.to_string().contains("HybridIndex.save")
    );
    let mut index = index(&[("a", "red fox"), ("b", "blue fox")]);
    add(&mut index, "c", "with a vector", Some(&[0.6, 0.8]));
    index.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 1, 63, 64, whole.len() / 2, whole.len() - 64, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let error = HybridIndex::load(&path).unwrap_err();
        assert!(matches!(error, Error::IndexCorrupt { .. }), "{cut}: {error}");
        assert!(error.to_string().contains("Build the index again"), "{error}");
    }
    let place = |bytes: &[u8]| whole.windows(bytes.len()).position(|window| window == bytes).unwrap();
    let mut other = whole.clone();
    other[place(b"default-english-")] ^= 1;
    std::fs::write(&path, &other).unwrap();
    assert!(
        matches!(HybridIndex::load(&path).unwrap_err(), Error::IndexCorrupt { .. }),
        "the checksum of the analyzer"
    );
    std::fs::write(&path, &whole).unwrap();
    let loaded = HybridIndex::load(&path).unwrap();
    assert_eq!(found(&loaded, &Search { query: Some("fox"), ..Search::default() }), ["a", "b"]);
    let nowhere = folder.path().join("no such folder").join("saved");
    assert!(matches!(index.save(&nowhere), Err(Error::Store { .. })));
    assert!(matches!(index.save(std::path::Path::new("..")), Err(Error::Store { .. })));
}

#[test]
fn a_graph_of_rows_that_stay_where_they_are_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let params = IndexParams { exact_below: Some(0), ..IndexParams::default() };
    let mut index = HybridIndex::new(None, params).unwrap();
    for n in 0..50_u8 {
        index.insert(&n.to_string(), None, Some(&[f32::from(n), 1.0, 30.0 - f32::from(n)])).unwrap();
    }
    // It is asked before the first row of a graph: a graph that is there is not begun.
    let at_once = || true;
    assert!(matches!(index.compact(&at_once), Err(Error::Interrupted)));
    index.compact(&|| false).unwrap();
    index.compact(&at_once).unwrap();
    index.save(&folder.path().join("saved")).unwrap();
    let mut loaded = HybridIndex::load(&folder.path().join("saved")).unwrap();
    loaded.compact(&at_once).unwrap();
    assert!(loaded.remove("7"));
    assert!(matches!(loaded.compact(&at_once), Err(Error::Interrupted)));
}

#[test]
fn a_graph_stays_while_half_of_its_rows_live_and_one_that_is_being_built_fits() {
    let params = IndexParams { exact_below: Some(0), ef_search: Some(64), ..IndexParams::default() };
    let mut index = HybridIndex::new(None, params).unwrap();
    let row = |n: u16| [f32::from(n % 97), 1.0 + f32::from(n % 7), 60.0 - f32::from(n % 89)];
    let put = |index: &mut HybridIndex, n: u16, row: [f32; 3]| {
        index.insert(&n.to_string(), None, Some(&row)).unwrap();
    };
    let right = |index: &HybridIndex, n: u16| {
        let search = Search { vector: Some(&row(n)), k: 300, ..Search::default() };
        let exact = Search { exact: true, ..search };
        assert_eq!(found(index, &search), found(index, &exact));
        index.index.vectors().rows_with_graph()
    };
    (0..200).for_each(|n| put(&mut index, n, row(n)));
    index.give_back().unwrap();
    let job = index.graph_job();
    // Numbers are given back many times meanwhile, and rows behind those of the job are freed.
    for n in 0..2_000 {
        put(&mut index, 50 + n % 150, row(n));
    }
    assert!(index.max_doc() < 2 * index.num_docs() + MIN_DEAD + 2);
    assert!(index.put_graph(job.run(&|| false).unwrap()).unwrap());
    let (walked, rows) = right(&index, 3);
    assert!(walked == 200 && rows < 700, "{walked} of {rows}");
    // A quarter of the graph's rows live: the others are freed with it.
    for n in 0..400 {
        put(&mut index, 50 + n % 150, row(n));
    }
    assert_eq!(right(&index, 5).0, 0);
    index.compact(&|| false).unwrap();
    for n in 0..1_000 {
        put(&mut index, n % 80, row(n));
    }
    let (walked, rows) = right(&index, 7);
    assert!(walked == 200 && rows < 500, "{walked} of {rows}");
}

#[test]
fn a_graph_of_the_first_rows_is_saved_with_the_rows_behind_it() {
    let folder = tempfile::tempdir().unwrap();
    let params = IndexParams { exact_below: Some(0), ef_search: Some(12), ..IndexParams::default() };
    let mut index = HybridIndex::new(None, params).unwrap();
    let put = |index: &mut HybridIndex, n: u8| {
        let row = [f32::from(n), 1.0, 30.0 - f32::from(n)];
        index.insert(&n.to_string(), None, Some(&row)).unwrap();
    };
    (0..60).for_each(|n| put(&mut index, n));
    index.compact(&|| false).unwrap();
    (60..75).for_each(|n| put(&mut index, n));
    index.save(&folder.path().join("saved")).unwrap();
    let mut loaded = HybridIndex::load(&folder.path().join("saved")).unwrap();
    let seen = |index: &HybridIndex| {
        let query = query_row(&[7.0, 1.0, 3.0], None).unwrap();
        let near = index
            .index
            .vectors()
            .look(&query, 5, None, Effort { ef: Some(12), exact_below: Some(0), ..Effort::default() })
            .unwrap();
        (near.walked, near.compared)
    };
    let search = Search { vector: Some(&[7.0, 1.0, 3.0]), ..Search::default() };
    assert_eq!((seen(&index), seen(&loaded)), ((60, 15), (60, 15)));
    assert_eq!(loaded.search(&search).unwrap(), index.search(&search).unwrap());
    // As in memory, the next compaction has the others in it too.
    loaded.compact(&|| false).unwrap();
    assert_eq!(seen(&loaded), (75, 0));
}
