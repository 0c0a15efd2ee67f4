//! Far behind the store: what changed becomes segments at once, instead of going through memory one by one.

use super::follow::{Content, PAGE, Row, Update, content, position, row, serving_in};
use super::segment::{Segment, SegmentBuilder};
use super::state::{Member, Snapshot, State};
use super::{Position, Served};
use crate::error::Result;
use crate::ids::RecordId;
use crate::store::{EmbedderRow, NO_EMBEDDER, ReadView, Store};
use crate::text::Analyzer;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashSet;

/// Documents of a segment that is made while the store is read: what is on its way takes four times the memory of what
/// is made.
pub(super) const SEGMENT: usize = 32_768;
/// Rows of the change feed that are looked at together.
const FEED: usize = 4_096;

/// Where a segment goes that is made while the store is read.
pub(in crate::engine) type Sink<'s> = dyn FnMut(SegmentBuilder) -> Result<Member> + 's;

/// A segment that is in no file.
///
/// # Errors
/// When a segment cannot hold it.
pub(in crate::engine) fn in_memory(builder: SegmentBuilder) -> Result<Member> {
    let segment = Segment::in_memory(builder)?;
    let dead = FixedBitSet::with_capacity(segment.max_doc() as usize);
    Ok(Member { file: None, segment, dead })
}

/// What a copy lacks.
pub(in crate::engine) enum Lag {
    /// The store is not the one, or not in the history, that the copy is of; or more of it changed than is left.
    Other,
    /// The present form of every record that changed.
    Few(Update),
    /// Which records changed.
    Many(Behind),
}

/// Records that changed, as many as are not to be held in memory with what is in them.
pub(in crate::engine) struct Behind {
    position: Position,
    count: u64,
    embedder: Option<EmbedderRow>,
    /// In order.
    ids: Vec<RecordId>,
}

impl Behind {
    /// How many records changed.
    pub(in crate::engine) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Records the store says it holds.
    pub(in crate::engine) fn count(&self) -> u64 {
        self.count
    }

    /// The embedder whose vectors are served.
    pub(in crate::engine) fn embedder(&self) -> Option<&EmbedderRow> {
        self.embedder.as_ref()
    }
}

/// What a copy that goes up to `from` lacks, from one snapshot; the content of at most `most` records.
///
/// # Errors
/// Store errors.
pub(in crate::engine) fn lag(
    store: &Store,
    analyzer: &Analyzer,
    handle: Option<&str>,
    from: Position,
    most: usize,
) -> Result<Lag> {
    let lacked = store.read(|view| lacked(view, handle, from, position(view)?, most))?;
    Ok(analysed(analyzer, lacked))
}

/// Where the store is now, and what a copy that goes up to `from` lacks, both from one snapshot; None when it is there.
///
/// # Errors
/// Store errors.
pub(in crate::engine) fn look(
    store: &Store,
    analyzer: &Analyzer,
    handle: Option<&str>,
    from: Position,
    most: usize,
) -> Result<(Position, Option<Lag>)> {
    let (now, lacked) = store.read(|view| {
        let now = position(view)?;
        let lacked = (now != from).then(|| lacked(view, handle, from, now, most)).transpose()?;
        Ok((now, lacked))
    })?;
    Ok((now, lacked.map(|lacked| analysed(analyzer, lacked))))
}

/// Records that changed, and the rows of them if they are few.
type Lacked = (Behind, Vec<(RecordId, Result<Option<Row>>)>);

/// What is read of a lag in the snapshot; None for [`Lag::Other`].
fn lacked(
    view: &ReadView<'_>,
    handle: Option<&str>,
    from: Position,
    now: Position,
    most: usize,
) -> Result<Option<Lacked>> {
    let count = view.count()?;
    let Some(mut ids) = changed_since(view, from, now, count, most)? else { return Ok(None) };
    let embedder = serving_in(view, handle)?;
    let mut rows = Vec::new();
    if ids.len() <= most {
        let number = embedder.as_ref().map_or(NO_EMBEDDER, |e| e.number);
        rows = std::mem::take(&mut ids).into_iter().map(|id| (id, row(view, number, id))).collect();
    }
    Ok(Some((Behind { position: now, count, embedder, ids }, rows)))
}

/// The same with what is done outside of it, so that the snapshot is short.
fn analysed(analyzer: &Analyzer, lacked: Option<Lacked>) -> Lag {
    let Some((behind, rows)) = lacked else { return Lag::Other };
    if !behind.ids.is_empty() {
        return Lag::Many(behind);
    }
    let records = rows.into_iter().map(|(id, row)| (id, content(analyzer, id, row))).collect();
    let Behind { position, count, embedder, .. } = behind;
    Lag::Few(Update { position, count, embedder, records })
}

/// The records that changed after `from`, each once: as the feed names them, or in order of their ids if they are more
/// than `most`. None when the feed does not tell, or names more than `most` and than the store has left.
fn changed_since(
    view: &ReadView<'_>,
    from: Position,
    now: Position,
    count: u64,
    most: usize,
) -> Result<Option<Vec<RecordId>>> {
    let mut last = from.sequence.saturating_sub(1);
    let mut first = from.sequence > 0;
    if from.sequence < view.feed_start()? || !from.leads_to(now) {
        return Ok(None);
    }
    let (mut seen, mut ids) = (FxHashSet::default(), Vec::new());
    loop {
        let rows = view.changes_since(last, FEED)?;
        let full = rows.len() == FEED;
        last = rows.last().map_or(last, |change| change.sequence);
        let mut rows = rows.into_iter();
        // The copy's own last change comes first.
        if std::mem::take(&mut first) && rows.next() != from.change {
            return Ok(None);
        }
        ids.extend(rows.map(|change| change.id).filter(|id| seen.insert(*id)));
        // Reading all that is left is less work then, and the set of ids stays as small as the store.
        if ids.len() > most && ids.len() as u64 > count {
            return Ok(None);
        }
        if !full {
            break;
        }
    }
    if ids.len() > most {
        ids.sort_unstable();
    }
    Ok(Some(ids))
}

/// The copy of `snapshot` with the present form of what changed, as segments that `sink` takes. It stands where the store
/// was when [`lag`] looked; what came since is known to the next look. None when it is of another embedder.
///
/// # Errors
/// Store errors, those of the sink.
pub(in crate::engine) fn bulk(
    store: &Store,
    analyzer: &Analyzer,
    snapshot: Snapshot,
    behind: &Behind,
    sink: &mut Sink<'_>,
) -> Result<Option<State>> {
    if snapshot.state.embedder != behind.embedder {
        return Ok(None);
    }
    let mut state = snapshot.into_state()?;
    for id in &behind.ids {
        state.unreadable.remove(id);
        state.unreadable_vectors.remove(id);
        for Member { segment, dead, .. } in &mut state.members {
            if let Some(doc) = segment.columns.doc_of(*id) {
                dead.insert(doc.index());
            }
        }
    }
    let number = behind.embedder.as_ref().map_or(NO_EMBEDDER, |e| e.number);
    let mut made = Making::new(behind.embedder.as_ref());
    for ids in behind.ids.chunks(PAGE) {
        let rows: Vec<_> =
            store.read(|view| Ok(ids.iter().map(|id| (*id, row(view, number, *id))).collect()))?;
        for (id, row) in rows {
            made.take(&mut state, id, content(analyzer, id, row))?;
        }
        made.hand_over(&mut state, SEGMENT, sink)?;
    }
    made.hand_over(&mut state, 1, sink)?;
    state.position = behind.position;
    Ok(Some(state))
}

impl State {
    /// The copy that serves this state, once [`bulk`] has made it of what `count` records there were.
    ///
    /// # Errors
    /// When its segments do not fit together.
    pub(in crate::engine) fn served(self, count: u64) -> Result<Served> {
        let (position, embedder) = (self.position, self.embedder.clone());
        let mut served = Served::over(self, embedder.clone())?;
        served.apply(Update { position, count, embedder, records: Vec::new() })?;
        Ok(served)
    }
}

/// Records on their way into segments.
pub(super) struct Making {
    builder: SegmentBuilder,
    dim: Option<usize>,
}

impl Making {
    pub(super) fn new(embedder: Option<&EmbedderRow>) -> Self {
        let dim = embedder.map(|e| e.dim as usize);
        Self { builder: SegmentBuilder::new(dim), dim }
    }

    /// Takes a record, in order of the ids.
    pub(super) fn take(&mut self, state: &mut State, id: RecordId, content: Content) -> Result<()> {
        match content {
            Content::Gone => {}
            Content::Unreadable(reason) => drop(state.unreadable.insert(id, reason)),
            Content::Present(mut loaded) => {
                if let Some(reason) = loaded.damage.take() {
                    state.unreadable_vectors.insert(id, reason);
                }
                self.builder.add(&loaded)?;
            }
        }
        Ok(())
    }

    /// Makes a segment of what was taken, if that is at least so many records.
    pub(super) fn hand_over(&mut self, state: &mut State, least: usize, sink: &mut Sink<'_>) -> Result<()> {
        if self.builder.num_docs() >= least {
            let whole = std::mem::replace(&mut self.builder, SegmentBuilder::new(self.dim));
            state.members.push(sink(whole)?);
        }
        Ok(())
    }
}
