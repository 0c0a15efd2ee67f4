//! Which documents a filter leaves.

use super::{Columns, Field, Lists, VECTOR_STATES, bits, pairs};
use crate::episode::{Scope, Status};
use crate::ids::RecordId;
use crate::query::{Condition, Filter};
use fixedbitset::FixedBitSet;
use std::borrow::Cow;

/// What a filter leaves of the documents of a segment, or of several.
#[derive(Debug)]
pub(crate) struct Selection<'s> {
    /// Those that all conditions leave.
    pub(crate) docs: Cow<'s, FixedBitSet>,
    /// Documents of the scope that have the status, before the filter.
    pub(crate) total: usize,
    /// Each condition, in the order of [`Filter::conditions`].
    pub(crate) effects: Vec<Effect>,
    /// Whether `docs` are all documents but the tombstones.
    pub(crate) all: bool,
}

impl Selection<'_> {
    /// How many documents are left. Counting the bits of 100,000 takes longer than a search for rare words.
    pub(crate) fn count(&self) -> usize {
        if self.all { self.total } else { self.docs.count_ones(..) }
    }
}

/// One condition of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    /// Name of the field.
    pub(crate) name: &'static str,
    /// How many of the `total` it alone leaves.
    pub(crate) left: usize,
}

impl Columns {
    /// Evaluates a filter under the scope of a handle. Documents in `tombstones` are not there.
    pub(crate) fn select(
        &self,
        filter: &Filter,
        scope: &Scope,
        tombstones: Option<&FixedBitSet>,
    ) -> Selection<'static> {
        let live = self.live(tombstones);
        let num_docs = live.count_ones(..);
        let served = self.served(live, filter.wanted_status(), scope);
        let total = served.count_ones(..);
        let mut docs = served.clone();
        let effect = |condition: &Condition<'_>| {
            let holding = self.holding(condition);
            docs.intersect_with(&holding);
            Effect { name: condition.name(), left: holding.intersection_count(&served) }
        };
        let effects = filter.conditions().iter().map(effect).collect();
        let all = docs.count_ones(..) == num_docs;
        Selection { docs: Cow::Owned(docs), total, effects, all }
    }

    /// Active documents of a scope in each state of their vectors.
    pub(crate) fn vector_states(
        &self,
        scope: &Scope,
        tombstones: Option<&FixedBitSet>,
    ) -> [usize; VECTOR_STATES] {
        let mut states = [0; VECTOR_STATES];
        if scope.is_root() {
            for (state, count) in states.iter_mut().zip(self.active.iter()) {
                *state = *count as usize;
            }
            let gone = tombstones.iter().flat_map(|tombstones| bits::ones(tombstones, 0..self.num_docs()));
            for doc in gone.filter(|doc| self.text(Field::Status, *doc) == Some(Status::Active.as_str())) {
                let state = &mut states[usize::from(self.vector_state(doc))];
                *state = state.saturating_sub(1);
            }
            return states;
        }
        let served = self.served(self.live(tombstones), Status::Active, scope);
        // What is in no other state is in state 0, as `vector_state` says of damage too.
        states[0] = served.count_ones(..);
        for state in 1..VECTOR_STATES {
            let anywhere = self.active.get(state).is_some_and(|count| *count > 0);
            if let Some(vectors) = self.vectors.as_ref().filter(|_| anywhere) {
                let mut having = self.nothing();
                bits::add_where(&mut having, vectors, |own| usize::from(own) == state);
                states[state] = having.intersection_count(&served);
                states[0] -= states[state];
            }
        }
        states
    }

    fn live(&self, tombstones: Option<&FixedBitSet>) -> FixedBitSet {
        let mut live = self.nothing();
        live.insert_range(..);
        if let Some(tombstones) = tombstones {
            live.difference_with(tombstones);
        }
        live
    }

    /// The documents of `live` in the scope that have the status.
    fn served(&self, mut live: FixedBitSet, status: Status, scope: &Scope) -> FixedBitSet {
        if !self.is_everywhere(Field::Status, status.as_str()) {
            let mut having = self.nothing();
            self.add_equal(&mut having, Field::Status, status.as_str());
            live.intersect_with(&having);
        }
        if !scope.is_root() {
            live.intersect_with(&self.holding(&Condition::Scope(scope)));
        }
        live
    }

    /// The documents that fulfil a condition.
    fn holding(&self, condition: &Condition<'_>) -> FixedBitSet {
        let mut set = self.nothing();
        match condition {
            Condition::Ids(ids) => self.add_ids(&mut set, ids),
            Condition::NotIds(ids) => {
                self.add_ids(&mut set, ids);
                set.toggle_range(..);
            }
            Condition::Kinds(kinds) => {
                for kind in *kinds {
                    self.add_equal(&mut set, Field::Kind, kind.as_str());
                }
            }
            Condition::Exact(field, text) => self.add_equal(&mut set, Field::from(*field), text),
            Condition::Scope(scope) => {
                self.add_equal(&mut set, Field::Scope, scope.as_str());
                self.add_beginning_with(&mut set, Field::Scope, &format!("{scope}/"));
            }
            Condition::WorkingDir { dir, below } => {
                self.add_equal(&mut set, Field::WorkingDir, dir);
                if *below {
                    // The root directory already ends in the separator.
                    let inside = if dir.ends_with('/') { (*dir).to_owned() } else { format!("{dir}/") };
                    self.add_beginning_with(&mut set, Field::WorkingDir, &inside);
                }
            }
            Condition::Tags(tags) => {
                let wanted = tags.iter().map(|tag| vec![tag.as_bytes().to_vec()]);
                set = self.having_each(self.tags.as_ref(), wanted);
            }
            Condition::Outcome(wanted) => self.add_equal(&mut set, Field::Outcome, wanted.as_str()),
            Condition::Source(wanted) => self.add_equal(&mut set, Field::Source, wanted.as_str()),
            Condition::Origin(wanted) => self.add_equal(&mut set, Field::Origin, wanted.as_str()),
            Condition::Trust(wanted) => self.add_equal(&mut set, Field::Trust, wanted.as_str()),
            Condition::Since(since) => {
                let since = since.unix_micros();
                self.times.add(&mut set, |micros| micros >= since);
            }
            Condition::Until(until) => {
                let until = until.unix_micros();
                self.times.add(&mut set, |micros| micros < until);
            }
            Condition::Metadata(wanted) => {
                let wanted = wanted.iter().map(|(name, value)| pairs::matching(name, value));
                set = self.having_each(self.metadata.as_ref(), wanted);
            }
        }
        set
    }

    fn nothing(&self) -> FixedBitSet {
        FixedBitSet::with_capacity(self.num_docs())
    }

    fn add_ids(&self, set: &mut FixedBitSet, ids: &[RecordId]) {
        for doc in ids.iter().filter_map(|id| self.doc_of(*id)) {
            set.insert(doc.index());
        }
    }

    fn add_equal(&self, set: &mut FixedBitSet, field: Field, text: &str) {
        let Some(column) = &self.fields[field as usize] else { return };
        if let Some(rank) = column.values.find(text.as_bytes()) {
            column.ordinals.add(set, &(rank..rank + 1));
        }
    }

    fn add_beginning_with(&self, set: &mut FixedBitSet, field: Field, prefix: &str) {
        let Some(column) = &self.fields[field as usize] else { return };
        column.ordinals.add(set, &column.values.beginning_with(prefix.as_bytes()));
    }

    /// The documents that have each of the wanted, any of whose spellings will do.
    fn having_each(&self, column: Option<&Lists>, wanted: impl Iterator<Item = Vec<Vec<u8>>>) -> FixedBitSet {
        let mut set = self.nothing();
        set.insert_range(..);
        for spellings in wanted {
            let mut having = self.nothing();
            for value in spellings {
                if let Some((column, rank)) = column.and_then(|c| Some((c, c.values().find(&value)?))) {
                    column.add(&mut having, rank);
                }
            }
            set.intersect_with(&having);
        }
        set
    }
}
