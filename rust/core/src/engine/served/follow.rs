//! From the store to the copy: all of it page by page, or what changed.

use super::Served;
use super::bulk::{Lag, Making, SEGMENT, Sink, in_memory, lag};
use super::delta::VectorState;
use super::state::State;
use crate::engine::document;
use crate::engine::vectors::home_embedder;
use crate::episode::{EmbeddedText, Episode};
use crate::error::Result;
use crate::ids::RecordId;
use crate::index::disk::Manifest;
use crate::lexical::PreparedDoc;
use crate::store::{Change, Embedded, EmbedderRow, EmbeddingRow, NO_EMBEDDER, ReadView, Store};
use crate::text::Analyzer;
use crate::vector::Refusal;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Records read in one transaction while building: a long one would keep the file from reusing space.
pub(super) const PAGE: usize = 2_000;

/// A record as it comes from the store, analysed.
pub(super) struct Loaded {
    pub(super) fields: Episode,
    pub(super) text: PreparedDoc,
    rows: Vec<Vec<f32>>,
    vectors: VectorState,
    /// Why its vectors cannot be read.
    pub(super) damage: Option<String>,
}

impl Loaded {
    /// The state of its vectors once `take` was offered the rows.
    pub(super) fn settle(&self, take: impl FnOnce(&[&[f32]]) -> Result<(), Refusal>) -> VectorState {
        if self.vectors != VectorState::Current {
            return self.vectors;
        }
        let rows: Vec<&[f32]> = self.rows.iter().map(Vec::as_slice).collect();
        match take(&rows) {
            Ok(()) => VectorState::Current,
            Err(Refusal::Width { .. }) => VectorState::Mismatch,
            Err(_) => VectorState::Refused,
        }
    }
}

/// Up to which change of which store a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Position {
    store: [u8; 16],
    pub(super) sequence: u64,
    /// The change of that number. Another one there means that the file was put back to an earlier state and went on
    /// from it: the copy is then of a history that never was.
    pub(super) change: Option<Change>,
}

impl Position {
    /// Whether the store can have gone from here to `now`, as far as ids and numbers tell.
    pub(in crate::engine) fn leads_to(self, now: Self) -> bool {
        self.store == now.store && self.sequence <= now.sequence
    }

    /// Store id, number and random number of the last change: what a manifest says.
    pub(super) fn in_manifest(&self) -> ([u8; 16], u64, u64) {
        (self.store, self.sequence, self.change.map_or(0, |change| change.nonce))
    }

    /// What is said of a manifest, if the store went through that state. Whether all that changed since can still be
    /// told is for [`changes`] to say.
    ///
    /// # Errors
    /// Store errors.
    pub(in crate::engine) fn of_manifest(store: &Store, manifest: &Manifest) -> Result<Option<Self>> {
        let change = match manifest.sequence.checked_sub(1) {
            Some(before) => store.read(|view| view.changes_since(before, 1))?.pop(),
            None => None,
        };
        // The number itself may be missing: compaction drops the rows of records that changed again.
        let change = change.filter(|change| change.sequence == manifest.sequence);
        let position = Self { store: manifest.store_id, sequence: manifest.sequence, change };
        Ok((position.in_manifest().2 == manifest.nonce).then_some(position))
    }
}

/// What the copy lacks: the present form of every record that changed.
pub(in crate::engine) struct Update {
    pub(super) position: Position,
    /// Records the store says it holds.
    pub(super) count: u64,
    pub(super) embedder: Option<EmbedderRow>,
    pub(super) records: Vec<(RecordId, Content)>,
}

pub(super) enum Content {
    Present(Box<Loaded>),
    Gone,
    Unreadable(String),
}

/// Reads and analyses the whole store, in pages, then what changed meanwhile. Segments stay in memory.
pub(in crate::engine) fn build(store: &Store, analyzer: &Analyzer, handle: Option<&str>) -> Result<Served> {
    let mut served = scan(store, analyzer, handle, &mut in_memory)?;
    if let Some(from) = served.position()
        && let Some(update) = changes(store, analyzer, handle, from)?
    {
        // Another process may have given the home its embedder meanwhile. Then the copy stays where it began, which
        // the next look at the store finds out.
        served.apply(update)?;
    }
    Ok(served)
}

/// Reads and analyses the whole store, page by page. The copy stands where the store was at the beginning. A small
/// store stays in memory as it is, a large one becomes segments.
pub(in crate::engine) fn scan(
    store: &Store,
    analyzer: &Analyzer,
    handle: Option<&str>,
    sink: &mut Sink<'_>,
) -> Result<Served> {
    let begin = |view: &ReadView<'_>| Ok((position(view)?, serving_in(view, handle)?, view.count()?));
    let (position, embedder, count) = store.read(begin)?;
    let number = embedder.as_ref().map_or(NO_EMBEDDER, |e| e.number);
    let mut state = State {
        number: 0,
        position,
        embedder: embedder.clone(),
        unreadable: BTreeMap::new(),
        unreadable_vectors: BTreeMap::new(),
        members: Vec::new(),
    };
    let small = count < crate::engine::upkeep::FLUSH as u64;
    let mut few = Vec::new();
    let mut made = Making::new(embedder.as_ref());
    let mut after = None;
    loop {
        let page = store.read(|view| page(view, after, number))?;
        let (full, last) = (page.len() >= PAGE, page.last().map(|(id, _)| *id));
        for (id, row) in page {
            let content = content(analyzer, id, row.map(Some));
            if small {
                few.push((id, content));
            } else {
                made.take(&mut state, id, content)?;
            }
        }
        made.hand_over(&mut state, if full { SEGMENT } else { 1 }, sink)?;
        if !full {
            break;
        }
        after = last;
    }
    let mut served = Served::over(state, embedder.clone())?;
    served.apply(Update { position, count, embedder, records: few })?;
    Ok(served)
}

/// A record as it is stored, with its vectors or why those cannot be read.
pub(super) type Row = (Episode, Result<Vec<EmbeddingRow>>);

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
pub(in crate::engine) fn changes(
    store: &Store,
    analyzer: &Analyzer,
    handle: Option<&str>,
    from: Position,
) -> Result<Option<Update>> {
    match lag(store, analyzer, handle, from, usize::MAX)? {
        Lag::Few(update) => Ok(Some(update)),
        _ => Ok(None),
    }
}

/// A record as it is stored; None when it is gone.
pub(super) fn row(view: &ReadView<'_>, number: u32, id: RecordId) -> Result<Option<Row>> {
    Ok(view.episode(id)?.map(|episode| (episode, view.embeddings_of(number, id))))
}

/// Where the store is now: three look-ups, some microseconds.
pub(in crate::engine) fn position(view: &ReadView<'_>) -> Result<Position> {
    let sequence = view.last_sequence()?;
    let change = match sequence.checked_sub(1) {
        Some(before) => view.changes_since(before, 1)?.pop(),
        None => None,
    };
    Ok(Position { store: view.store_id()?, sequence, change })
}

pub(super) fn content(analyzer: &Analyzer, id: RecordId, row: Result<Option<Row>>) -> Content {
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
pub(super) fn serving_in(view: &ReadView<'_>, handle: Option<&str>) -> Result<Option<EmbedderRow>> {
    match handle {
        Some(fingerprint) => Ok(view.embedders()?.into_iter().find(|e| e.fingerprint == fingerprint)),
        None => home_embedder(view),
    }
}

/// The embedder whose vectors a handle with this one of its own serves.
///
/// # Errors
/// Store errors.
pub(in crate::engine) fn serving(store: &Store, handle: Option<&str>) -> Result<Option<EmbedderRow>> {
    store.read(|view| serving_in(view, handle))
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
        let mut copy = scan(&store, &analyzer, None, &mut in_memory).unwrap();
        let began = copy.position().unwrap();
        put("after", Some(vec![0.6, 0.8]));
        let update = changes(&store, &analyzer, None, began).unwrap().unwrap();
        assert!(!copy.apply(update).unwrap());
        assert_eq!((copy.position(), copy.index().unwrap().num_docs()), (Some(began), 1));
        let fresh = build(&store, &analyzer, None).unwrap();
        assert_eq!((fresh.index().unwrap().num_docs(), fresh.embedder().map(|e| e.dim)), (2, Some(2)));
    }
}
