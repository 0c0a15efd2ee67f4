//! The copy of the store that questions are asked of: words, vectors and filter fields of every record.
//!
//! Most of it lies in segments, which never change and may be shared with other processes; what was written since lies
//! in memory. A record that changed is dead in its segment and comes again.

mod bulk;
mod delta;
mod follow;
mod recent;
mod segment;
mod state;

pub(super) use bulk::{Behind, Lag, bulk, in_memory, lag, look};
pub(super) use delta::{Record, VectorState};
pub(super) use follow::{Position, build, position, scan, serving};
pub(super) use recent::Recent;
pub(super) use segment::{Merge, Segment, SegmentBuilder};
pub(super) use state::{Member, Snapshot, State};

use crate::columns::{Effect, Field, Selection};
use crate::episode::{Scope, Status};
use crate::error::Result;
use crate::ids::{DocId, RecordId};
use crate::index::Index;
use crate::query::Filter;
use crate::store::EmbedderRow;
use crate::time::Moment;
use delta::Delta;
use fixedbitset::FixedBitSet;
use follow::{Content, Update};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The copy. Empty and not built until the first question.
#[derive(Debug, Default)]
pub(super) struct Served {
    built: Option<Built>,
}

#[derive(Debug)]
struct Built {
    /// Number of the manifest that the segments are from, 0 for none.
    number: u64,
    position: Position,
    embedder: Option<EmbedderRow>,
    index: Index,
    parts: Vec<Part>,
    delta: Delta,
    /// Records that cannot be read, and so are in no answer.
    unreadable: BTreeMap<RecordId, String>,
    /// Records whose vectors cannot be read; their text is served.
    unreadable_vectors: BTreeMap<RecordId, String>,
    /// Records that the store counts and nobody finds: a page of the file is damaged.
    missing: u64,
    /// Active records by state of their vectors, so that an answer need not count them.
    active: [usize; VectorState::COUNT],
    recent: Recent,
}

/// A segment and what became of its records.
#[derive(Debug)]
struct Part {
    /// Number of its first document.
    base: u32,
    member: Member,
    /// Whether its vectors are those of the embedder that is served; if not, every record counts as having none.
    with_vectors: bool,
}

impl Part {
    fn dead(&self) -> &FixedBitSet {
        &self.member.dead
    }

    fn live_doc(&self, id: RecordId) -> Option<DocId> {
        self.member.segment.columns.doc_of(id).filter(|doc| !self.dead().contains(doc.index()))
    }

    fn global(&self, doc: DocId) -> DocId {
        DocId(self.base + doc.0)
    }

    fn state_of(&self, doc: DocId) -> VectorState {
        if !self.with_vectors {
            return VectorState::Pending;
        }
        VectorState::numbered(self.member.segment.columns.vector_state(doc))
    }

    fn is_active(&self, doc: DocId) -> bool {
        self.member.segment.columns.text(Field::Status, doc) == Some(Status::Active.as_str())
    }

    /// Active records of a scope by state of their vectors.
    fn states(&self, scope: &Scope) -> [usize; VectorState::COUNT] {
        let counts = self.member.segment.columns.vector_states(scope, Some(self.dead()));
        let mut states = [0; VectorState::COUNT];
        for (number, count) in (0..).zip(counts) {
            let state = if self.with_vectors { VectorState::numbered(number) } else { VectorState::Pending };
            states[state as usize] += count;
        }
        states
    }
}

/// See [`Served::fields`].
#[derive(Debug, PartialEq)]
pub(super) struct Fields<'s> {
    texts: [Option<&'s str>; Field::ALL.len()],
    importance: Option<f64>,
    occurred_at: Option<Moment>,
}

/// A record's row in the copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) doc: DocId,
    pub(super) id: RecordId,
    pub(super) vectors: VectorState,
}

impl Served {
    /// A copy of `state` alone: nothing of what was written since.
    ///
    /// # Errors
    /// When its segments do not fit together.
    pub(super) fn over(state: State, embedder: Option<EmbedderRow>) -> Result<Self> {
        let with_vectors = state.embedder == embedder || state.embedder.is_none();
        let dim = embedder.as_ref().map(|e| e.dim as usize);
        let members = state.members.iter().map(|member| {
            let segment = &member.segment;
            let vectors = segment.vectors.clone().filter(|_| with_vectors);
            (segment.words.clone(), vectors, &member.dead)
        });
        let index = Index::over(super::document::bm25(), dim, members)?;
        let mut parts = Vec::with_capacity(state.members.len());
        let mut active = [0; VectorState::COUNT];
        let mut base = 0;
        for member in state.members {
            let max_doc = member.segment.max_doc();
            let part = Part { base, member, with_vectors };
            active.iter_mut().zip(part.states(&Scope::root())).for_each(|(sum, count)| *sum += count);
            parts.push(part);
            base += max_doc;
        }
        let built = Built {
            number: state.number,
            position: state.position,
            embedder,
            index,
            parts,
            delta: Delta::after(base),
            unreadable: state.unreadable,
            unreadable_vectors: state.unreadable_vectors,
            missing: 0,
            active,
            recent: Recent::default(),
        };
        Ok(Self { built: Some(built) })
    }

    /// Up to where changes are applied.
    pub(super) fn position(&self) -> Option<Position> {
        self.built.as_ref().map(|b| b.position)
    }

    /// Whether exactly the changes up to `position` are applied.
    pub(super) fn is_current(&self, position: Position) -> bool {
        self.built.as_ref().is_some_and(|b| b.position == position)
    }

    /// Number of the manifest that it rests on, 0 for none.
    pub(super) fn number(&self) -> u64 {
        self.built.as_ref().map_or(0, |b| b.number)
    }

    /// The index, once built.
    pub(super) fn index(&self) -> Option<&Index> {
        self.built.as_ref().map(|b| &b.index)
    }

    /// Records as they are at the position of the copy, once built.
    pub(super) fn recent(&self) -> Option<&Recent> {
        self.built.as_ref().map(|b| &b.recent)
    }

    /// The embedder whose vectors are searched.
    pub(super) fn embedder(&self) -> Option<&EmbedderRow> {
        self.built.as_ref()?.embedder.as_ref()
    }

    /// How many documents lie in memory, dead ones included, and how many are dead in segments.
    pub(super) fn backlog(&self) -> (usize, usize) {
        let Some(built) = &self.built else { return (0, 0) };
        let dead = built.parts.iter().map(|part| part.dead().count_ones(..)).sum();
        (built.delta.max_doc(), dead)
    }

    /// The segments.
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.built.iter().flat_map(|b| b.parts.iter().map(|part| &part.member))
    }

    /// Whether its segments hold the vectors of an embedder that it does not serve.
    pub(super) fn is_foreign(&self) -> bool {
        self.built.as_ref().is_some_and(|built| built.parts.iter().any(|part| !part.with_vectors))
    }

    /// Everything there is at this moment, copied as far as it may change. None when nothing was built, or when it
    /// [is foreign](Self::is_foreign): segments do not say whose vectors they hold.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        let built = self.built.as_ref().filter(|_| !self.is_foreign())?;
        let state = State {
            number: built.number,
            position: built.position,
            embedder: built.embedder.clone(),
            unreadable: built.unreadable.clone(),
            unreadable_vectors: built.unreadable_vectors.clone(),
            members: built.parts.iter().map(|part| part.member.clone()).collect(),
        };
        Some(Snapshot { state, dim: built.index.vectors().dim(), delta: built.delta.copies(&built.index) })
    }

    /// The id of a document.
    pub(super) fn id(&self, doc: DocId) -> Option<RecordId> {
        let built = self.built.as_ref()?;
        match built.part(doc) {
            Some((part, own)) => part.member.segment.columns.id(own),
            None => built.delta.record(doc).map(|record| record.fields.id),
        }
    }

    /// When the record of a document occurred, as an instant.
    pub(super) fn occurred_at(&self, doc: DocId) -> Option<Moment> {
        let built = self.built.as_ref()?;
        match built.part(doc) {
            Some((part, own)) => part.member.segment.columns.occurred_at(own),
            None => {
                built.delta.record(doc).map(|record| Moment::utc(record.fields.occurred_at.unix_micros()))
            }
        }
    }

    /// What filters and order know of a document, to be compared with that of another copy.
    pub(super) fn fields(&self, doc: DocId) -> Option<Fields<'_>> {
        let built = self.built.as_ref()?;
        let (texts, importance) = if let Some((part, own)) = built.part(doc) {
            let columns = &part.member.segment.columns;
            (Field::ALL.map(|field| columns.text(field, own)), columns.importance(own))
        } else {
            let fields = &built.delta.record(doc)?.fields;
            (Field::ALL.map(|field| field.of(fields)), Some(fields.importance))
        };
        Some(Fields { texts, importance, occurred_at: self.occurred_at(doc) })
    }

    /// The record of a document that lies in memory.
    pub(super) fn record(&self, doc: DocId) -> Option<&Record> {
        self.built.as_ref()?.delta.record(doc)
    }

    /// What a filter leaves of the records of a scope.
    pub(super) fn select(&self, filter: &Filter, scope: &Scope) -> Selection<'_> {
        let conditions = filter.conditions();
        let effects = conditions.iter().map(|c| Effect { name: c.name(), left: 0 }).collect();
        let mut whole = Selection { docs: Cow::Owned(FixedBitSet::new()), total: 0, effects, all: true };
        let Some(built) = &self.built else { return whole };
        if scope.is_root() && filter.status.is_none() && built.all_active() && conditions.is_empty() {
            whole.docs = Cow::Borrowed(built.index.live());
            whole.total = built.index.num_docs();
            return whole;
        }
        let docs = whole.docs.to_mut();
        docs.grow(built.index.max_doc());
        for part in &built.parts {
            let own = part.member.segment.columns.select(filter, scope, Some(part.dead()));
            whole.total += own.total;
            whole.effects.iter_mut().zip(&own.effects).for_each(|(sum, own)| sum.left += own.left);
            whole.all &= own.all;
            copy_bits(&own.docs, part.base as usize, docs);
        }
        for (doc, record) in built.delta.records() {
            let fields = &record.fields;
            if !filter.serves(fields) || !scope.contains(&fields.scope) {
                whole.all = false;
                continue;
            }
            whole.total += 1;
            let mut all = true;
            for (condition, effect) in conditions.iter().zip(&mut whole.effects) {
                let holds = condition.holds(fields);
                effect.left += usize::from(holds);
                all &= holds;
            }
            docs.set(doc.index(), all);
            whole.all &= all;
        }
        whole
    }

    /// Up to `limit` records of `within` beyond `edge`, in order of their ids.
    pub(super) fn in_order(
        &self,
        within: &FixedBitSet,
        newest_first: bool,
        edge: Option<RecordId>,
        limit: usize,
    ) -> Vec<Row> {
        self.in_order_where(within, newest_first, edge, limit, |_| true)
    }

    /// The same of those that are `wanted`.
    pub(super) fn in_order_where(
        &self,
        within: &FixedBitSet,
        newest_first: bool,
        edge: Option<RecordId>,
        limit: usize,
        wanted: impl Fn(VectorState) -> bool,
    ) -> Vec<Row> {
        let Some(built) = &self.built else { return Vec::new() };
        let (after, before) = if newest_first { (None, edge) } else { (edge, None) };
        let mut rows = Vec::new();
        for part in &built.parts {
            let own = slice_bits(within, part.base as usize, part.member.segment.max_doc() as usize);
            let row = |doc: DocId| {
                let id = part.member.segment.columns.id(doc)?;
                Some(Row { doc: part.global(doc), id, vectors: part.state_of(doc) })
                    .filter(|r| wanted(r.vectors))
            };
            let docs = part.member.segment.columns.between(after, before, &own);
            if newest_first {
                rows.extend(docs.rev().filter_map(row).take(limit));
            } else {
                rows.extend(docs.filter_map(row).take(limit));
            }
        }
        let row = |(id, doc): (RecordId, DocId)| {
            let record = built.delta.record(doc).filter(|_| within.contains(doc.index()))?;
            Some(Row { doc, id, vectors: record.vectors }).filter(|r| wanted(r.vectors))
        };
        let own = built.delta.between(after, before);
        if newest_first {
            rows.extend(own.rev().filter_map(row).take(limit));
            rows.sort_unstable_by_key(|row| Reverse(row.id));
        } else {
            rows.extend(own.filter_map(row).take(limit));
            rows.sort_unstable_by_key(|row| row.id);
        }
        rows.truncate(limit);
        rows
    }

    /// The `k` records of `within` that occurred last, newest first.
    pub(super) fn newest(&self, within: &FixedBitSet, k: usize) -> Vec<DocId> {
        let Some(built) = &self.built else { return Vec::new() };
        let mut docs = Vec::new();
        for part in &built.parts {
            let own = slice_bits(within, part.base as usize, part.member.segment.max_doc() as usize);
            docs.extend(part.member.segment.columns.newest(&own, k).into_iter().map(|doc| part.global(doc)));
        }
        docs.extend(built.delta.records().map(|(doc, _)| doc).filter(|doc| within.contains(doc.index())));
        docs.sort_by_key(|doc| (Reverse(self.occurred_at(*doc)), self.id(*doc)));
        docs.truncate(k);
        docs
    }

    /// Active records of a scope by state of their vectors, indexed by `VectorState as usize`.
    pub(super) fn states(&self, scope: &Scope) -> [usize; VectorState::COUNT] {
        let Some(built) = &self.built else { return [0; VectorState::COUNT] };
        if scope.is_root() {
            return built.active;
        }
        let mut states = built.delta.states(scope);
        for part in &built.parts {
            states.iter_mut().zip(part.states(scope)).for_each(|(sum, count)| *sum += count);
        }
        states
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
        built.missing = update.count.saturating_sub((built.index.num_docs() + built.unreadable.len()) as u64);
        Ok(true)
    }
}

impl Built {
    /// The part of a document and its number there; None for one that lies in memory.
    fn part(&self, doc: DocId) -> Option<(&Part, DocId)> {
        let at = self.parts.partition_point(|part| part.base <= doc.0).checked_sub(1)?;
        let part = &self.parts[at];
        let own = doc.0 - part.base;
        (own < part.member.segment.max_doc()).then_some((part, DocId(own)))
    }

    fn all_active(&self) -> bool {
        self.active.iter().sum::<usize>() == self.index.num_docs()
    }

    fn put(&mut self, id: RecordId, content: Content) -> Result<()> {
        self.unreadable.remove(&id);
        self.unreadable_vectors.remove(&id);
        self.recent.forget(id);
        self.kill(id);
        match content {
            Content::Gone => {}
            Content::Unreadable(reason) => drop(self.unreadable.insert(id, reason)),
            Content::Present(mut loaded) => {
                if let Some(reason) = loaded.damage.take() {
                    self.unreadable_vectors.insert(id, reason);
                }
                let doc = self.index.add(Some(&loaded.text))?;
                let vectors = loaded.settle(|rows| self.index.set_vectors(doc, rows));
                if loaded.fields.status == Status::Active {
                    self.active[vectors as usize] += 1;
                }
                self.delta.push(doc, Record { fields: loaded.fields, vectors });
            }
        }
        Ok(())
    }

    /// Takes the record out, if it is there.
    fn kill(&mut self, id: RecordId) {
        if let Some((doc, record)) = self.delta.remove(id) {
            self.index.remove(doc);
            if record.fields.status == Status::Active {
                self.active[record.vectors as usize] -= 1;
            }
            return;
        }
        for part in &mut self.parts {
            if let Some(doc) = part.live_doc(id) {
                if part.is_active(doc) {
                    let state = &mut self.active[part.state_of(doc) as usize];
                    *state = state.saturating_sub(1);
                }
                self.index.remove(part.global(doc));
                part.member.dead.insert(doc.index());
            }
        }
    }
}

/// Copies all bits of `from` to `to`, from bit `base` of it on.
fn copy_bits(from: &FixedBitSet, base: usize, to: &mut FixedBitSet) {
    const BITS: usize = usize::BITS as usize;
    let (word, shift) = (base / BITS, base % BITS);
    let blocks = to.as_mut_slice();
    for (at, block) in from.as_slice().iter().enumerate() {
        if *block == 0 {
            continue;
        }
        blocks[word + at] |= block << shift;
        if shift > 0 && block >> (BITS - shift) != 0 {
            blocks[word + at + 1] |= block >> (BITS - shift);
        }
    }
}

/// `len` bits of `from`, from bit `base` on.
fn slice_bits(from: &FixedBitSet, base: usize, len: usize) -> FixedBitSet {
    const BITS: usize = usize::BITS as usize;
    let (word, shift) = (base / BITS, base % BITS);
    let blocks = from.as_slice();
    let block = |at: usize| blocks.get(at).copied().unwrap_or(0);
    let mut slice = FixedBitSet::with_capacity(len);
    for (at, own) in slice.as_mut_slice().iter_mut().enumerate() {
        let low = block(word + at) >> shift;
        let high = if shift > 0 { block(word + at + 1) << (BITS - shift) } else { 0 };
        *own = low | high;
    }
    // What lies behind the last bit belongs to the next segment.
    if let Some(last) = slice.as_mut_slice().last_mut()
        && !len.is_multiple_of(BITS)
    {
        *last &= (1 << (len % BITS)) - 1;
    }
    slice
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_copied_to_any_place_and_back(
            own in proptest::collection::vec(any::<bool>(), 0..200),
            before in proptest::collection::vec(any::<bool>(), 0..150),
            behind in proptest::collection::vec(any::<bool>(), 0..150),
        ) {
            let set = |bits: &[bool]| {
                let mut set = FixedBitSet::with_capacity(bits.len());
                bits.iter().enumerate().for_each(|(at, bit)| set.set(at, *bit));
                set
            };
            let all: Vec<bool> = before.iter().chain(&own).chain(&behind).copied().collect();
            let mut whole = FixedBitSet::with_capacity(all.len());
            copy_bits(&set(&before), 0, &mut whole);
            copy_bits(&set(&own), before.len(), &mut whole);
            copy_bits(&set(&behind), before.len() + own.len(), &mut whole);
            prop_assert_eq!(&whole, &set(&all));
            prop_assert_eq!(slice_bits(&whole, before.len(), own.len()), set(&own));
        }
    }
}
