//! `HybridIndex`: an index in memory for people who bring their own documents. Ids are any strings.

use super::{Ask, Index};
use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::fusion::{self, Fusion, Weights};
use crate::ids::DocId;
use crate::lexical::{Bm25Params, Field, PreparedDoc, prepare};
use crate::text::{Analyzer, AnalyzerKind, Language};
use crate::vector::{MAX_DIM, Refusal, UnitRow};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Settings of a [`HybridIndex`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexParams {
    /// BM25 constants, k1 1.2 and b .75 unless set.
    pub bm25: Bm25Params,
    /// How text becomes terms.
    pub analyzer: AnalyzerKind,
}

impl Default for IndexParams {
    fn default() -> Self {
        Self { bm25: Bm25Params::default(), analyzer: AnalyzerKind::Default }
    }
}

/// What an insertion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// Whether a document of this id was there and is gone.
    pub replaced: bool,
    /// Whether its vector is searched.
    pub vectorized: bool,
    /// Why its vector is not.
    pub refused: Option<Refusal>,
}

/// One search. `Search::default()` finds nothing; set `query`, `vector` or both.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Words, in any language.
    pub query: Option<&'a str>,
    /// Vector as wide as the index.
    pub vector: Option<&'a [f32]>,
    /// Most hits wanted.
    pub k: usize,
    /// Only these ids; unknown ones are ignored.
    pub ids: Option<&'a [&'a str]>,
    /// How scores are joined.
    pub fusion: Fusion,
    /// What each leg weighs.
    pub weights: Weights,
    /// Whether hits carry the tree behind their score.
    pub explain: bool,
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self {
            query: None,
            vector: None,
            k: 10,
            ids: None,
            fusion: Fusion::default(),
            weights: Weights::default(),
            explain: false,
        }
    }
}

/// One result.
#[derive(Debug, Clone, PartialEq)]
pub struct HybridHit {
    /// The id it was inserted with.
    pub id: String,
    /// Orders the answer, 0 to 1.
    pub score: f64,
    /// Raw `bm25` and `cosine`, scaled `lexical` and `vector`, as far as they count.
    pub parts: Vec<(&'static str, f64)>,
    /// The tree behind the score, when asked for.
    pub explanation: Option<Explanation>,
}

/// What is known of a document besides what the index holds.
#[derive(Debug)]
struct Document {
    id: String,
    refused: Option<Refusal>,
}

/// BM25 and cosine over documents in memory. Ties go to the document inserted first.
#[derive(Debug)]
pub struct HybridIndex {
    analyzer: Analyzer,
    index: Index,
    documents: Vec<Option<Document>>,
    by_id: FxHashMap<String, DocId>,
}

impl HybridIndex {
    /// An empty index. The width of vectors is `dim`, else that of the first vector.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a width outside 1 to 8192.
    pub fn new(dim: Option<usize>, params: IndexParams) -> Result<Self> {
        if dim.is_some_and(|dim| !(1..=MAX_DIM).contains(&dim)) {
            return Err(Error::invalid(
                "dim",
                format!("must be 1 to {MAX_DIM}, or left out to take the first vector's"),
            ));
        }
        Ok(Self {
            analyzer: Analyzer::new(params.analyzer, Language::English),
            index: Index::new(params.bm25, dim),
            documents: Vec::new(),
            by_id: FxHashMap::default(),
        })
    }

    /// Weight of a named field, in halves: names of the record fields weigh as they do there, others 1.
    pub fn field_weight_halves(name: &str) -> u8 {
        match name {
            "title" | "tags" | "files_modified" | "files" => 6,
            "body" | "caption" | "code" => 1,
            _ => 2,
        }
    }

    /// Text as it is indexed; pure, so that it can run before the index is locked.
    pub fn prepare(&self, fields: &[(String, String)]) -> PreparedDoc {
        let fields: Vec<Field<'_>> = fields
            .iter()
            .map(|(name, text)| Field { text, weight_halves: Self::field_weight_halves(name) })
            .collect();
        prepare(&self.analyzer, &fields)
    }

    /// Adds a document or replaces the one of the same id. A vector that cannot be searched is refused and counted,
    /// its text stays.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for an empty id, or when there is neither text nor vector.
    pub fn insert(
        &mut self,
        id: &str,
        text: Option<&PreparedDoc>,
        vector: Option<&[f32]>,
    ) -> Result<Inserted> {
        if id.is_empty() {
            return Err(Error::invalid("id", "is empty; give every document a name"));
        }
        if text.is_none() && vector.is_none() {
            return Err(Error::invalid(
                "text",
                format!("document {id:?} has neither text nor vector; give at least one"),
            ));
        }
        let replaced = self.remove(id);
        let doc = self.index.add(text)?;
        let refused = vector.and_then(|vector| self.index.set_vectors(doc, &[vector]).err());
        self.documents.push(Some(Document { id: id.to_owned(), refused }));
        self.by_id.insert(id.to_owned(), doc);
        Ok(Inserted { replaced, vectorized: self.index.vectors().contains(doc), refused })
    }

    /// Gives a document a vector, in place of the one it had. False, and counted, when it cannot be searched.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such document.
    pub fn add_embedding(&mut self, id: &str, vector: &[f32]) -> Result<bool> {
        let doc =
            *self.by_id.get(id).ok_or_else(|| Error::NotFound { what: "document", id: id.to_owned() })?;
        let refused = self.index.set_vectors(doc, &[vector]).err();
        if let Some(document) = &mut self.documents[doc.index()] {
            document.refused = refused;
        }
        Ok(refused.is_none())
    }

    /// Takes a document out; false when there was none of this id.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some(doc) = self.by_id.remove(id) else { return false };
        self.documents[doc.index()] = None;
        self.index.remove(doc)
    }

    /// The best `k` documents.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`] for a query vector of another width, [`Error::InvalidInput`] for one without a
    /// direction.
    pub fn search(&self, search: &Search<'_>) -> Result<Vec<HybridHit>> {
        let query = search.query.map(|text| self.analyzer.query(text));
        let vector = search.vector.map(|row| query_row(row, self.index.vectors().dim())).transpose()?;
        let allowed = search.ids.map(|ids| {
            let mut allowed = FixedBitSet::with_capacity(self.index.max_doc());
            allowed.extend(ids.iter().filter_map(|id| self.by_id.get(*id)).map(|doc| doc.index()));
            allowed
        });
        let ask = Ask {
            query: query.as_ref(),
            vector: vector.as_ref(),
            allowed: allowed.as_ref(),
            fusion: search.fusion,
            weights: search.weights,
            centred: false,
        };
        let mut ranking = self.index.rank(&ask).map_err(query_refused)?;
        let scored = std::mem::take(&mut ranking.scored);
        let best = fusion::select(scored, search.k, ranking.order(|doc| doc));
        let hits = best.iter().filter_map(|scored| {
            let document = self.documents[scored.raw.doc.index()].as_ref()?;
            Some(HybridHit {
                id: document.id.clone(),
                score: scored.score,
                parts: parts(scored),
                explanation: search.explain.then(|| self.index.explain(&ask, &ranking, scored)),
            })
        });
        Ok(hits.collect())
    }

    /// How many documents have vectors: total, searched, without, and refused ones by reason.
    pub fn refusals(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::from([("width", 0), ("other", 0)]);
        for document in self.documents.iter().flatten() {
            match document.refused {
                Some(Refusal::Width { .. }) => *counts.entry("width").or_default() += 1,
                Some(_) => *counts.entry("other").or_default() += 1,
                None => {}
            }
        }
        counts
    }

    /// Live documents.
    pub fn num_docs(&self) -> usize {
        self.by_id.len()
    }

    /// Numbers given so far, removed and replaced documents included.
    pub fn max_doc(&self) -> usize {
        self.index.max_doc()
    }

    /// Documents whose vector is searched.
    pub fn vectorized(&self) -> usize {
        self.index.vectors().len()
    }

    /// Width of the vectors, once known.
    pub fn dim(&self) -> Option<usize> {
        self.index.vectors().dim()
    }

    /// Whether there is a document of this id.
    pub fn contains(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }
}

/// Raw and scaled scores of a document, by name, as far as they count for it.
pub(crate) fn parts(scored: &fusion::Scored) -> Vec<(&'static str, f64)> {
    let mut parts = Vec::with_capacity(4);
    let mut add = |name, value: Option<f64>| parts.extend(value.map(|value| (name, value)));
    add("bm25", scored.raw.bm25.filter(|_| scored.lexical.is_some()).map(f64::from));
    add("cosine", scored.raw.cosine.map(f64::from));
    add("lexical", scored.lexical);
    add("vector", scored.vector);
    parts
}

/// A query vector, checked: here a wrong one is an error, since there is no text to fall back to unseen.
pub(crate) fn query_row(row: &[f32], dim: Option<usize>) -> Result<UnitRow> {
    UnitRow::new(row, dim).map_err(query_refused)
}

pub(crate) fn query_refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Width { expected, found } => {
            Error::DimensionMismatch { what: "query vector", expected, found }
        }
        other => Error::invalid("vector", format!("{other}; give a query vector with a direction")),
    }
}

#[cfg(test)]
mod tests {
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
        let doc = index.prepare(&[("text".to_owned(), text.to_owned())]);
        index.insert(id, Some(&doc), vector).unwrap()
    }

    fn found(index: &HybridIndex, search: &Search<'_>) -> Vec<String> {
        index.search(search).unwrap().into_iter().map(|hit| hit.id).collect()
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
        let search = Search {
            query: Some("redis cache"),
            vector: Some(&[0.5, 0.5]),
            explain: true,
            ..Search::default()
        };
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
                let prepared = index.prepare(&[("t".into(), doc.text.clone())]);
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
            let some = index.search(&Search { ids: Some(&ids), ..search }).unwrap();
            let order = |hits: &[HybridHit]| hits.iter().map(|h| h.id.clone()).collect::<Vec<_>>();
            let kept: Vec<&HybridHit> = all.iter().filter(|h| names.contains(&h.id)).collect();
            if mode < 2 {
                let kept: Vec<String> = kept.iter().map(|h| h.id.clone()).collect();
                prop_assert_eq!(order(&some), kept);
            } else {
                let mut naive: Vec<(f64, usize)> = naive_scores(&kept, mode == 3);
                naive.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                prop_assert_eq!(naive.len(), some.len());
                for (hit, (score, _)) in some.iter().zip(&naive) {
                    prop_assert!((hit.score - score).abs() < 1e-6, "{} {}", hit.score, score);
                }
            }
            let cut = index.search(&Search { ids: Some(&ids), k, ..search }).unwrap();
            prop_assert_eq!(order(&cut), order(&some).into_iter().take(k).collect::<Vec<_>>());
        }
    }

    /// The fusion of `fusion.rs`, written again the slow way from the raw parts of the hits.
    fn naive_scores(hits: &[&HybridHit], rrf: bool) -> Vec<(f64, usize)> {
        let part = |hit: &HybridHit, name: &str| hit.parts.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let best = |name: &str| hits.iter().filter_map(|h| part(h, name)).fold(f64::NEG_INFINITY, f64::max);
        let (bm25, cosine) = (best("bm25"), best("cosine"));
        let has = (bm25 > 0.0, cosine > f64::NEG_INFINITY);
        let rank = |name: &str, value: f64| {
            1 + hits.iter().filter_map(|h| part(h, name)).filter(|v| *v > value).count()
        };
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
}
