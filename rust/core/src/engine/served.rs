//! The copy of the store that questions are asked of: index, filter fields, state of the vectors.

use super::document;
use crate::episode::{EmbeddedText, Episode, Status};
use crate::error::Result;
use crate::ids::{DocId, RecordId};
use crate::index::Index;
use crate::lexical::PreparedDoc;
use crate::store::{Change, Embedded, EmbedderRow, EmbeddingRow, NO_EMBEDDER, ReadView, Store};
use crate::text::Analyzer;
use crate::vector::Refusal;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Records read in one transaction while building: a long one would keep the file from reusing space.
const PAGE: usize = 2_000;

/// State of a record's vectors under the embedder that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VectorState {
    /// None yet.
    Pending,
    /// At least one row of the present text.
    Current,
    /// Rows of an earlier text only; not searched.
    Stale,
    /// What the embedder gave cannot be searched.
    Refused,
    /// What was given has another width.
    Mismatch,
}

/// What is kept of a record for filters and order: everything but its texts.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) fields: Episode,
    pub(super) vectors: VectorState,
}

/// A record as it comes from the store, analysed.
pub(super) struct Loaded {
    fields: Episode,
    text: PreparedDoc,
    rows: Vec<Vec<f32>>,
    vectors: VectorState,
    /// Why its vectors cannot be read.
    damage: Option<String>,
}

/// Up to which change of which store a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    store: [u8; 16],
    sequence: u64,
    /// The change of that number. Another one there means that the file was put back to an earlier state and went on
    /// from it: the copy is then of a history that never was.
    change: Option<Change>,
}

/// What the copy lacks: the present form of every record that changed.
pub(super) struct Update {
    position: Position,
    /// Records the store says it holds.
    count: u64,
    embedder: Option<EmbedderRow>,
    records: Vec<(RecordId, Content)>,
}

enum Content {
    Present(Box<Loaded>),
    Gone,
    Unreadable(String),
}

/// The copy. Empty and not built until the first question.
#[derive(Debug, Default)]
pub(super) struct Served {
    built: Option<Built>,
}

#[derive(Debug)]
struct Built {
    position: Position,
    embedder: Option<EmbedderRow>,
    index: Index,
    /// By document number; None where the document is gone.
    records: Vec<Option<Record>>,
    by_id: BTreeMap<RecordId, DocId>,
    /// Records that cannot be read, and so are in no answer.
    unreadable: BTreeMap<RecordId, String>,
    /// Records whose vectors cannot be read; their text is served.
    unreadable_vectors: BTreeMap<RecordId, String>,
    /// Records that the store counts and nobody finds: a page of the file is damaged.
    missing: u64,
    /// Active records by state of their vectors, so that an answer need not count them.
    active: [usize; VectorState::COUNT],
}

impl VectorState {
    pub(super) const COUNT: usize = 5;
}

impl Served {
    /// Up to where changes are applied.
    pub(super) fn position(&self) -> Option<Position> {
        self.built.as_ref().map(|b| b.position)
    }

    /// Whether exactly the changes up to `position` are applied.
    pub(super) fn is_current(&self, position: Position) -> bool {
        self.built.as_ref().is_some_and(|b| b.position == position)
    }

    /// Whether most document numbers are dead.
    pub(super) fn is_wasteful(&self) -> bool {
        self.built.as_ref().is_some_and(|b| b.records.len() > 2 * b.by_id.len() + 1_000)
    }

    /// The index, once built.
    pub(super) fn index(&self) -> Option<&Index> {
        self.built.as_ref().map(|b| &b.index)
    }

    /// The embedder whose vectors are searched.
    pub(super) fn embedder(&self) -> Option<&EmbedderRow> {
        self.built.as_ref()?.embedder.as_ref()
    }

    pub(super) fn record(&self, doc: DocId) -> Option<&Record> {
        self.built.as_ref()?.records.get(doc.index())?.as_ref()
    }

    /// Records in order of their ids, after `after` when given.
    pub(super) fn records(
        &self,
        after: Option<RecordId>,
    ) -> impl DoubleEndedIterator<Item = (DocId, &Record)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let low = after.map_or(Unbounded, Excluded);
        let ids = self.built.iter().flat_map(move |b| b.by_id.range((low, Unbounded)));
        ids.filter_map(|(_, doc)| self.record(*doc).map(|record| (*doc, record)))
    }

    /// Records with smaller ids than `before`, in order.
    pub(super) fn records_before(
        &self,
        before: RecordId,
    ) -> impl DoubleEndedIterator<Item = (DocId, &Record)> {
        let ids = self.built.iter().flat_map(move |b| b.by_id.range(..before));
        ids.filter_map(|(_, doc)| self.record(*doc).map(|record| (*doc, record)))
    }

    /// All records, in order of their document numbers.
    pub(super) fn by_doc(&self) -> impl Iterator<Item = (DocId, &Record)> {
        let records = self.built.iter().flat_map(|b| b.records.iter().zip(0..));
        records.filter_map(|(record, doc)| record.as_ref().map(|record| (DocId(doc), record)))
    }

    /// Active records by state of their vectors, indexed by `VectorState as usize`.
    pub(super) fn active(&self) -> [usize; VectorState::COUNT] {
        self.built.as_ref().map_or([0; VectorState::COUNT], |b| b.active)
    }

    /// Whether every record is active.
    pub(super) fn all_active(&self) -> bool {
        self.built.as_ref().is_none_or(|b| b.active.iter().sum::<usize>() == b.by_id.len())
    }

    /// Rows that cannot be read, with the reason: records, then vectors.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = (RecordId, &str)> {
        let rows = self.built.iter().flat_map(|b| b.unreadable.iter().chain(&b.unreadable_vectors));
        rows.map(|(id, reason)| (*id, reason.as_str()))
    }

    /// Records that the store counts and nobody finds.
    pub(super) fn missing(&self) -> u64 {
        self.built.as_ref().map_or(0, |b| b.missing)
    }

    /// How many records are in no answer because of damage.
    pub(super) fn left_out(&self) -> usize {
        self.built.as_ref().map_or(0, |b| b.unreadable.len() + b.missing as usize)
    }

    /// Applies an update; applying it twice is the same as once. `false`, and nothing is applied, when the store's
    /// embedder is not the copy's any more: nothing of its rows can stay, so the copy has to be built anew.
    pub(super) fn apply(&mut self, update: Update) -> Result<bool> {
        let Some(built) = &mut self.built else { return Ok(true) };
        if built.embedder != update.embedder {
            return Ok(false);
        }
        for (id, content) in update.records {
            built.put(id, content)?;
        }
        built.position = update.position;
        built.missing = update.count.saturating_sub((built.by_id.len() + built.unreadable.len()) as u64);
        Ok(true)
    }
}

impl Built {
    fn put(&mut self, id: RecordId, content: Content) -> Result<()> {
        self.unreadable.remove(&id);
        self.unreadable_vectors.remove(&id);
        if let Some(doc) = self.by_id.remove(&id) {
            self.index.remove(doc);
            if let Some(old) = self.records[doc.index()].take()
                && old.fields.status == Status::Active
            {
                self.active[old.vectors as usize] -= 1;
            }
        }
        match content {
            Content::Gone => {}
            Content::Unreadable(reason) => drop(self.unreadable.insert(id, reason)),
            Content::Present(loaded) => {
                let doc = self.index.add(Some(&loaded.text))?;
                let mut vectors = loaded.vectors;
                if vectors == VectorState::Current {
                    let rows: Vec<&[f32]> = loaded.rows.iter().map(Vec::as_slice).collect();
                    match self.index.set_vectors(doc, &rows) {
                        Ok(()) => {}
                        Err(Refusal::Width { .. }) => vectors = VectorState::Mismatch,
                        Err(_) => vectors = VectorState::Refused,
                    }
                }
                if loaded.fields.status == Status::Active {
                    self.active[vectors as usize] += 1;
                }
                if let Some(reason) = loaded.damage {
                    self.unreadable_vectors.insert(id, reason);
                }
                self.records.push(Some(Record { fields: loaded.fields, vectors }));
                self.by_id.insert(id, doc);
            }
        }
        Ok(())
    }
}

/// Reads and analyses the whole store, in pages, then what changed meanwhile.
pub(super) fn build(store: &Store, analyzer: &Analyzer, handle: Option<&str>) -> Result<Served> {
    let mut served = scan(store, analyzer, handle)?;
    if let Some(from) = served.position()
        && let Some(update) = changes(store, analyzer, handle, from)?
    {
        // Another process may have given the home its embedder meanwhile. Then the copy stays where it began, which
        // the next look at the store finds out.
        served.apply(update)?;
    }
    Ok(served)
}

/// Reads and analyses the whole store, page by page. The copy stands where the store was at the beginning.
fn scan(store: &Store, analyzer: &Analyzer, handle: Option<&str>) -> Result<Served> {
    let (position, embedder) = store.read(|view| Ok((position(view)?, serving(view, handle)?)))?;
    let dim = embedder.as_ref().map(|e| e.dim as usize);
    let number = embedder.as_ref().map_or(NO_EMBEDDER, |e| e.number);
    let mut built = Built {
        position,
        embedder,
        index: Index::new(document::bm25(), dim),
        records: Vec::new(),
        by_id: BTreeMap::new(),
        unreadable: BTreeMap::new(),
        unreadable_vectors: BTreeMap::new(),
        missing: 0,
        active: [0; VectorState::COUNT],
    };
    let mut after = None;
    loop {
        let page = store.read(|view| page(view, after, number))?;
        let (full, last) = (page.len() >= PAGE, page.last().map(|(id, _)| *id));
        for (id, row) in page {
            built.put(id, content(analyzer, id, row.map(Some)))?;
        }
        if !full {
            break;
        }
        after = last;
    }
    Ok(Served { built: Some(built) })
}

/// A record as it is stored, with its vectors or why those cannot be read.
type Row = (Episode, Result<Vec<EmbeddingRow>>);

/// The next records with their vectors; each that cannot be read as an error in its place.
fn page(view: &ReadView<'_>, after: Option<RecordId>, number: u32) -> Result<Vec<(RecordId, Result<Row>)>> {
    let mut episodes = Vec::new();
    view.episodes(after, false, &mut |id, row| {
        episodes.push((id, row));
        Ok(if episodes.len() < PAGE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let with_rows = |(id, row): (RecordId, Result<Episode>)| {
        (id, row.map(|episode| (episode, view.embeddings_of(number, id))))
    };
    Ok(episodes.into_iter().map(with_rows).collect())
}

/// The present form of every record that changed after `from`, from one snapshot. None when the store is not the
/// one, or not in the history, that `from` tells of.
pub(super) fn changes(
    store: &Store,
    analyzer: &Analyzer,
    handle: Option<&str>,
    from: Position,
) -> Result<Option<Update>> {
    let read = store.read(|view| {
        let now = position(view)?;
        let mut feed = view.changes_since(from.sequence.saturating_sub(1), usize::MAX)?.into_iter();
        let known = if from.sequence == 0 { None } else { feed.next() };
        let told = from.sequence >= view.feed_start()?;
        if !told || now.store != from.store || now.sequence < from.sequence || known != from.change {
            return Ok(None);
        }
        let embedder = serving(view, handle)?;
        let number = embedder.as_ref().map_or(NO_EMBEDDER, |e| e.number);
        let mut seen = FxHashSet::default();
        let mut rows: Vec<(RecordId, Result<Option<Row>>)> = Vec::new();
        for Change { id, .. } in feed {
            if seen.insert(id) {
                let row = view.episode(id);
                rows.push((id, row.map(|e| e.map(|episode| (episode, view.embeddings_of(number, id))))));
            }
        }
        Ok(Some((now, view.count()?, embedder, rows)))
    })?;
    let Some((position, count, embedder, rows)) = read else { return Ok(None) };
    let records = rows.into_iter().map(|(id, row)| (id, content(analyzer, id, row))).collect();
    Ok(Some(Update { position, count, embedder, records }))
}

/// Where the store is now: three look-ups, some microseconds.
pub(super) fn position(view: &ReadView<'_>) -> Result<Position> {
    let sequence = view.last_sequence()?;
    let change = match sequence.checked_sub(1) {
        Some(before) => view.changes_since(before, 1)?.pop(),
        None => None,
    };
    Ok(Position { store: view.store_id()?, sequence, change })
}

fn content(analyzer: &Analyzer, id: RecordId, row: Result<Option<Row>>) -> Content {
    match row {
        Ok(Some((episode, Ok(rows)))) => Content::Present(Box::new(load(analyzer, episode, rows, None))),
        Ok(Some((episode, Err(error)))) => {
            let damage = format!("the vectors of {id}: {error}");
            Content::Present(Box::new(load(analyzer, episode, Vec::new(), Some(damage))))
        }
        Ok(None) => Content::Gone,
        Err(error) => Content::Unreadable(error.to_string()),
    }
}

/// The embedder whose vectors are served: the handle's, if the store knows it, else the home's.
///
/// A handle with an embedder of its own never serves another model's vectors.
fn serving(view: &ReadView<'_>, handle: Option<&str>) -> Result<Option<EmbedderRow>> {
    match (handle, view.home_embedder()?) {
        (Some(fingerprint), _) => Ok(view.embedders()?.into_iter().find(|e| e.fingerprint == fingerprint)),
        (None, Some(number)) => view.embedder(number),
        (None, None) => Ok(None),
    }
}

/// Analyses a record and judges its vectors.
fn load(
    analyzer: &Analyzer,
    mut episode: Episode,
    rows: Vec<EmbeddingRow>,
    damage: Option<String>,
) -> Loaded {
    let text = document::prepared(analyzer, &episode);
    let mut vectors = VectorState::Pending;
    let mut unit_rows = Vec::new();
    if !rows.is_empty() {
        let hash = EmbeddedText::of(&episode).hash;
        vectors = VectorState::Stale;
        for row in rows.into_iter().filter(|row| row.text_hash == hash) {
            match row.vector {
                Embedded::Row(row) => {
                    vectors = VectorState::Current;
                    unit_rows.push(row);
                }
                Embedded::Refused(_) if vectors == VectorState::Current => {}
                Embedded::Refused(reason) if Refusal::is_width(&reason) => vectors = VectorState::Mismatch,
                Embedded::Refused(_) => vectors = VectorState::Refused,
            }
        }
    }
    // Texts are searched through the index and shown from the store.
    episode.summary = String::new();
    episode.body = None;
    episode.title = None;
    episode.key_decisions = Vec::new();
    episode.files_modified = Vec::new();
    episode.extra = serde_json::Map::new();
    Loaded { fields: episode, text, rows: unit_rows, vectors, damage }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, EngineOptions, Put};
    use crate::episode::EpisodePatch;
    use crate::store::{StoreOptions, Wait};
    use crate::text::{AnalyzerKind, Language};

    /// Kill tests of several processes met this: a home's first vector, written by one process while another read
    /// the store for the first time, ended that one's question in an internal error.
    #[test]
    fn a_first_vector_that_comes_while_the_copy_is_built_is_no_error() {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(home.path(), EngineOptions::default()).unwrap();
        let put = |summary: &str, vector: Option<Vec<f32>>| {
            let fields = EpisodePatch { summary: Some(summary.to_owned()), ..EpisodePatch::default() };
            engine.put(&Wait::default(), Put { fields, vector, ..Put::default() }).unwrap();
        };
        put("before", None);
        let store = Store::open(home.path(), &StoreOptions::default()).unwrap();
        let analyzer = Analyzer::new(AnalyzerKind::Default, Language::English);
        let mut copy = scan(&store, &analyzer, None).unwrap();
        let began = copy.position().unwrap();
        put("after", Some(vec![0.6, 0.8]));
        let update = changes(&store, &analyzer, None, began).unwrap().unwrap();
        assert!(!copy.apply(update).unwrap());
        assert_eq!((copy.position(), copy.records(None).count()), (Some(began), 1));
        let fresh = build(&store, &analyzer, None).unwrap();
        assert_eq!((fresh.records(None).count(), fresh.embedder().map(|e| e.dim)), (2, Some(2)));
    }
}
