//! `HybridIndex`: an index in memory for people who bring their own documents. Ids are any strings.

mod batch;
mod ids;
mod saved;
mod subset;

pub use batch::Batch;
pub use subset::{Among, IdSet};

use super::{Ask, Index};
use crate::error::{Error, Result};
use crate::explain::Explanation;
use crate::fusion::{self, Fusion, Weights};
use crate::ids::DocId;
use crate::lexical::{Bm25Params, DROPPED, Field, PreparedDoc, prepare};
use crate::sections::Sections;
use crate::text::{Analyzer, AnalyzerKind, Language, Query};
use crate::vector::{BuiltGraph, Effort, GraphJob, MAX_DIM, Refusal, UnitRow, graph_rows};
use fixedbitset::FixedBitSet;
use ids::DocIds;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of a [`HybridIndex`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexParams {
    /// BM25 constants, k1 1.2 and b .75 unless set.
    pub bm25: Bm25Params,
    /// How text becomes terms.
    pub analyzer: AnalyzerKind,
    /// Whose words are stemmed; nothing to the plain analyzer.
    pub language: Language,
    /// Rows that are kept on a walk over vectors, 128 unless set.
    pub ef_search: Option<usize>,
    /// Fewer vectors have no graph: each is compared. Unless set, those whose codes take 2 MiB, and by the vector alone
    /// those whose codes take 8 MiB.
    pub exact_below: Option<usize>,
}

impl Default for IndexParams {
    fn default() -> Self {
        Self {
            bm25: Bm25Params::default(),
            analyzer: AnalyzerKind::Default,
            language: Language::English,
            ef_search: None,
            exact_below: None,
        }
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
    /// Only these documents.
    pub ids: Option<Among<'a>>,
    /// How scores are joined.
    pub fusion: Fusion,
    /// What each leg weighs.
    pub weights: Weights,
    /// Rows that are kept on a walk over vectors, instead of [`IndexParams::ef_search`].
    pub ef_search: Option<usize>,
    /// Compare every vector, also where there is a graph.
    pub exact: bool,
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
            ef_search: None,
            exact: false,
            explain: false,
        }
    }
}

/// One result. It borrows its id: to copy each took a tenth of a short question's time.
#[derive(Debug, Clone, PartialEq)]
pub struct HybridHit<'i> {
    /// The id it was inserted with.
    pub id: &'i str,
    /// Orders the answer, 0 to 1.
    pub score: f64,
    /// Raw `bm25` and `cosine`, scaled `lexical` and `vector`, as far as they count.
    pub parts: Parts,
    /// The tree behind the score, when asked for.
    pub explanation: Option<Box<Explanation>>,
}

/// Raw and scaled scores of a document, as far as they count for it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// BM25.
    pub bm25: Option<f64>,
    /// Cosine.
    pub cosine: Option<f64>,
    /// BM25 over the best one.
    pub lexical: Option<f64>,
    /// Cosine above the floor over the best one.
    pub vector: Option<f64>,
}

impl Parts {
    /// Those that count, with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("bm25", self.bm25),
            ("cosine", self.cosine),
            ("lexical", self.lexical),
            ("vector", self.vector),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    pub(crate) fn of(scored: &fusion::Scored) -> Self {
        Self {
            bm25: scored.raw.bm25.filter(|_| scored.lexical.is_some()).map(f64::from),
            cosine: scored.raw.cosine.map(f64::from),
            lexical: scored.lexical,
            vector: scored.vector,
        }
    }
}

/// Fewer dead numbers than this are never worth new numbers for all.
const MIN_DEAD: usize = if cfg!(test) { 8 } else { 1024 };

/// BM25 and cosine over documents in memory. Ties go to the document inserted first.
#[derive(Debug)]
pub struct HybridIndex {
    /// No other index of this process has it.
    number: u64,
    /// How often all documents got other numbers.
    numberings: u64,
    /// How many documents were taken out.
    removals: u64,
    params: IndexParams,
    analyzer: Analyzer,
    index: Index,
    ids: DocIds,
    /// Why a document's vector is not searched.
    refused: BTreeMap<DocId, Refusal>,
    /// The file that documents lie in, as they were loaded.
    source: Option<Sections>,
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
            number: subset::next_number(),
            numberings: 0,
            removals: 0,
            params,
            analyzer: Analyzer::new(params.analyzer, params.language),
            index: Index::new(params.bm25, dim),
            ids: DocIds::default(),
            refused: BTreeMap::new(),
            source: None,
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
    pub fn prepare(&self, fields: &[(&str, &str)]) -> PreparedDoc {
        prepare(&self.analyzer, &weighted(fields))
    }

    /// An empty batch for [`HybridIndex::insert_batch`].
    pub fn batch(&self) -> Batch {
        Batch::new(self.analyzer)
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
        check(id, text.is_some() || vector.is_some())?;
        self.thin_out()?;
        let doc = self.index.add(text)?;
        Ok(self.named(doc, Arc::from(id), vector))
    }

    /// Adds the documents of a batch, in their order, as [`HybridIndex::insert`] does; tells what each did.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when four billion documents have been added; then none of them is there.
    pub fn insert_batch(&mut self, batch: Batch) -> Result<Vec<Inserted>> {
        self.thin_out()?;
        let (segment, documents) = batch.into_parts()?;
        let first = self.index.add_all(segment)?;
        let named = documents.into_iter().zip(first.0..);
        Ok(named.map(|((id, vector), doc)| self.named(DocId(doc), id, vector.as_deref())).collect())
    }

    /// Gives a document its id, which another one may have had, and its vector.
    fn named(&mut self, doc: DocId, id: Arc<str>, vector: Option<&[f32]>) -> Inserted {
        let replaced = self.remove(&id);
        let refused = vector.and_then(|vector| self.index.set_vectors(doc, &[vector]).err());
        self.refused.extend(refused.map(|refused| (doc, refused)));
        self.ids.insert(id, doc);
        Inserted { replaced, vectorized: self.index.vectors().contains(doc), refused }
    }

    /// Gives a document a vector, in place of the one it had. False, and counted, when it cannot be searched.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such document.
    pub fn add_embedding(&mut self, id: &str, vector: &[f32]) -> Result<bool> {
        let doc = self.ids.get(id).ok_or_else(|| Error::NotFound { what: "document", id: id.to_owned() })?;
        let refused = self.index.set_vectors(doc, &[vector]).err();
        match refused {
            Some(refused) => self.refused.insert(doc, refused),
            None => self.refused.remove(&doc),
        };
        Ok(refused.is_none())
    }

    /// Takes a document out; false when there was none of this id.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some(doc) = self.ids.remove(id) else { return false };
        self.refused.remove(&doc);
        self.removals += 1;
        self.index.remove(doc)
    }

    /// Makes the index one segment without the dead, and gives their numbers back; then builds the graph over its vectors,
    /// if these are many. `stop` is asked meanwhile.
    ///
    /// # Errors
    /// [`Error::Internal`] when it cannot be built, [`Error::IndexCorrupt`] when the file it was loaded from is damaged;
    /// then nothing has changed. [`Error::Interrupted`] when `stop` says so: the index is compacted then, and the next call
    /// goes on with the graph.
    pub fn compact(&mut self, stop: &dyn Fn() -> bool) -> Result<()> {
        self.give_back()?;
        let built = self.graph_job().run(stop)?;
        self.put_graph(built).map(drop)
    }

    /// What the graph is built from. That takes long and needs nothing of the index, which may be searched and changed
    /// meanwhile.
    pub fn graph_job(&self) -> GraphJob {
        let least = self.params.exact_below.or_else(|| self.dim().map(graph_rows)).unwrap_or(0);
        self.index.graph_job(least)
    }

    /// Puts a graph in place. False when it does not fit, as the vectors were given other places since its job was made.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when its job was ended before it was done: what was done is in place, and the next goes on.
    pub fn put_graph(&mut self, built: BuiltGraph) -> Result<bool> {
        let is_done = built.is_done;
        let fits = self.index.put_graph(built);
        if is_done { Ok(fits) } else { Err(Error::Interrupted) }
    }

    /// The first part of [`HybridIndex::compact`]: one segment without the dead, whose numbers are given back.
    ///
    /// # Errors
    /// The same, but [`Error::Interrupted`].
    pub fn give_back(&mut self) -> Result<()> {
        self.renumber(false)
    }

    fn renumber(&mut self, in_place: bool) -> Result<()> {
        self.check_source()?;
        let (numbers, count) = self.numbers();
        self.index.renumber(&numbers, count, in_place)?;
        self.numberings += 1;
        self.ids.renumber(&numbers);
        let new = |(doc, refused): (DocId, Refusal)| (DocId(numbers[doc.index()]), refused);
        self.refused = std::mem::take(&mut self.refused).into_iter().map(new).collect();
        self.source = None;
        Ok(())
    }

    /// Compares all of the file that documents lie in, so that damage is not written on under new checksums.
    fn check_source(&self) -> Result<()> {
        let checked = self.source.as_ref().map_or(Ok(()), Sections::check_all);
        checked.map_err(|error| match error {
            Error::StoreCorrupt { path, detail } => Error::IndexCorrupt { path, detail },
            other => other,
        })
    }

    /// Gives numbers back when most are dead. Vectors stay where they are, for the graph of them.
    fn thin_out(&mut self) -> Result<()> {
        if self.max_doc() > 2 * self.num_docs() + MIN_DEAD { self.renumber(true) } else { Ok(()) }
    }

    /// By number, the number it would have without the dead, and how many these are.
    fn numbers(&self) -> (Vec<u32>, u32) {
        let mut numbers = vec![DROPPED; self.max_doc()];
        let mut count = 0;
        for doc in self.index.live().ones() {
            numbers[doc] = count;
            count += 1;
        }
        (numbers, count)
    }

    /// The best `k` documents.
    ///
    /// # Errors
    /// [`Error::DimensionMismatch`] for a query vector of another width, [`Error::InvalidInput`] for one without a
    /// direction, or for a set of ids of another index.
    pub fn search(&self, search: &Search<'_>) -> Result<Vec<HybridHit<'_>>> {
        let query = search.query.map(|text| self.analyzer.query(text));
        let vector = search.vector.map(|row| query_row(row, self.index.vectors().dim())).transpose()?;
        let allowed = search.ids.map(|ids| self.among(ids)).transpose()?;
        let allowed = self.keep_phrases(query.as_ref(), allowed);
        let ask = Ask {
            query: query.as_ref(),
            vector: vector.as_ref(),
            allowed: allowed.as_deref(),
            k: search.k,
            fusion: search.fusion,
            weights: search.weights,
            effort: Effort {
                ef: search.ef_search.or(self.params.ef_search),
                exact: search.exact,
                exact_below: self.params.exact_below,
            },
            centred: false,
        };
        let mut ranking = self.index.rank(&ask).map_err(query_refused)?;
        let scored = std::mem::take(&mut ranking.scored);
        let best = fusion::select(scored, search.k, ranking.order(|doc| doc));
        self.ids.fetch(best.iter().map(|scored| scored.raw.doc));
        let mut hits = Vec::with_capacity(best.len());
        hits.extend(best.iter().filter_map(|scored| {
            Some(HybridHit {
                id: self.ids.name(scored.raw.doc)?,
                score: scored.score,
                parts: Parts::of(scored),
                explanation: search.explain.then(|| Box::new(ranking.explain(&ask, scored))),
            })
        }));
        Ok(hits)
    }

    /// The allowed documents that hold every word of each phrase: the texts are not here to look for their order.
    fn keep_phrases(
        &self,
        query: Option<&Query>,
        allowed: Option<Arc<FixedBitSet>>,
    ) -> Option<Arc<FixedBitSet>> {
        let phrases = query.map_or(&[][..], |query| &query.phrases[..]);
        phrases.iter().fold(allowed, |allowed, phrase| {
            let base = allowed.as_deref().unwrap_or_else(|| self.index.live());
            self.index.lexical().holding_all(&phrase.terms, base).map(Arc::new).or(allowed)
        })
    }

    /// How many documents have vectors: total, searched, without, and refused ones by reason.
    pub fn refusals(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::from([("width", 0), ("other", 0)]);
        for refused in self.refused.values() {
            let reason = if matches!(refused, Refusal::Width { .. }) { "width" } else { "other" };
            *counts.entry(reason).or_default() += 1;
        }
        counts
    }

    /// Live documents.
    pub fn num_docs(&self) -> usize {
        self.ids.len()
    }

    /// Numbers in use: those of removed and replaced documents are among them until they are given back.
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
        self.ids.get(id).is_some()
    }
}

fn check(id: &str, content: bool) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid("id", "is empty; give every document a name"));
    }
    if content {
        return Ok(());
    }
    Err(Error::invalid("text", format!("document {id:?} has neither text nor vector; give at least one")))
}

fn weighted<'t>(fields: &[(&str, &'t str)]) -> Vec<Field<'t>> {
    let weigh = HybridIndex::field_weight_halves;
    fields.iter().map(|(name, text)| Field { text, weight_halves: weigh(name) }).collect()
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
mod tests;
