//! Ids that are looked up once for many searches.

use super::HybridIndex;
use crate::error::{Error, Result};
use crate::ids::DocId;
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, TryLockError};

/// The documents that a search may find, by their ids.
#[derive(Debug, Clone, Copy)]
pub enum Among<'a> {
    /// Those of these ids; unknown ones are ignored.
    Ids(&'a [&'a str]),
    /// Those of a set that was made of this index.
    Set(&'a IdSet),
}

/// Ids of one index, looked up once, see [`HybridIndex::subset`]. It does not change; the documents it stands for are those
/// that have its ids when it is asked with.
#[derive(Debug)]
pub struct IdSet {
    /// Number of the index.
    index: u64,
    ids: FxHashSet<Arc<str>>,
    unknown: usize,
    found: RwLock<Found>,
}

/// The documents of a set, in some state of the index.
#[derive(Debug, Clone)]
struct Found {
    state: State,
    docs: Arc<FixedBitSet>,
}

/// What tells whether documents that were looked up are still those.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// How often all documents got other numbers.
    numberings: u64,
    /// How many were taken out.
    removals: u64,
    /// How many numbers are in use: a document that came since has a greater one.
    max_doc: usize,
}

/// A number that no other index of this process has.
pub(super) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl IdSet {
    /// Different ids in it.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many of them no document had when it was made.
    pub fn unknown(&self) -> usize {
        self.unknown
    }

    /// What was looked up last. Nobody is waited for: in a forked child there may be nobody who lets go of it.
    fn last(&self) -> Option<Found> {
        match self.found.try_read() {
            Ok(found) => Some(found.clone()),
            Err(TryLockError::Poisoned(found)) => Some(found.into_inner().clone()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn keep(&self, found: Found) {
        match self.found.try_write() {
            Ok(mut last) => *last = found,
            Err(TryLockError::Poisoned(last)) => *last.into_inner() = found,
            // Who asks next looks them up again.
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

impl HybridIndex {
    /// Looks ids up once, for any number of searches. Unknown ones may come later.
    pub fn subset(&self, ids: &[&str]) -> IdSet {
        let own = |id: &&str| self.ids.shared(id).unwrap_or_else(|| Arc::from(*id));
        let ids: FxHashSet<Arc<str>> = ids.iter().map(own).collect();
        let found = self.looked_up(&ids);
        let unknown = ids.len() - found.docs.count_ones(..);
        IdSet { index: self.number, ids, unknown, found: RwLock::new(found) }
    }

    /// The documents that may be found, as a bit for each.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a set of another index.
    pub(super) fn among(&self, among: Among<'_>) -> Result<Arc<FixedBitSet>> {
        let set = match among {
            Among::Ids(ids) => return Ok(Arc::new(self.docs_of(ids.iter().copied()))),
            Among::Set(set) => set,
        };
        if set.index != self.number {
            let message = "is a set of another index; make one with `subset` of the index that is searched";
            return Err(Error::invalid("ids", message));
        }
        let last = set.last();
        if let Some(last) = last.as_ref().filter(|last| last.state == self.state()) {
            return Ok(Arc::clone(&last.docs));
        }
        let found = match last {
            Some(last) if self.is_little_since(last.state, set.len()) => self.brought_up(last, &set.ids),
            _ => self.looked_up(&set.ids),
        };
        let docs = Arc::clone(&found.docs);
        set.keep(found);
        Ok(docs)
    }

    fn state(&self) -> State {
        State { numberings: self.numberings, removals: self.removals, max_doc: self.index.max_doc() }
    }

    /// Whether looking at the documents that came since is less work than looking up as many ids.
    fn is_little_since(&self, last: State, ids: usize) -> bool {
        last.numberings == self.numberings && self.index.max_doc() - last.max_doc <= ids
    }

    /// The documents that were found, without those that are gone and with those that came since.
    fn brought_up(&self, Found { state, mut docs }: Found, ids: &FxHashSet<Arc<str>>) -> Found {
        let all = Arc::make_mut(&mut docs);
        all.grow(self.index.max_doc());
        if state.removals != self.removals {
            all.intersect_with(self.index.live());
        }
        for doc in state.max_doc..self.index.max_doc() {
            let name = self.ids.name(DocId(doc as u32));
            all.set(doc, name.is_some_and(|name| ids.contains(name)));
        }
        Found { state: self.state(), docs }
    }

    fn looked_up(&self, ids: &FxHashSet<Arc<str>>) -> Found {
        Found { state: self.state(), docs: Arc::new(self.docs_of(ids.iter().map(|id| &**id))) }
    }

    fn docs_of<'s>(&self, ids: impl Iterator<Item = &'s str>) -> FixedBitSet {
        let mut docs = FixedBitSet::with_capacity(self.index.max_doc());
        docs.extend(ids.filter_map(|id| self.ids.get(id)).map(DocId::index));
        docs
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IndexParams, Search};
    use super::*;
    use proptest::prelude::*;

    const WIDTH: usize = 3;

    fn index(count: u8) -> HybridIndex {
        let mut index = HybridIndex::new(Some(WIDTH), IndexParams::default()).unwrap();
        (0..count).for_each(|id| put(&mut index, id));
        index
    }

    fn put(index: &mut HybridIndex, id: u8) {
        let doc = index.prepare(&[("text", "pool of connections")]);
        index.insert(&id.to_string(), Some(&doc), Some(&[f32::from(id), 1.0, 30.0])).unwrap();
    }

    fn found(index: &HybridIndex, among: Among<'_>) -> Vec<String> {
        let search = Search {
            query: Some("pool"),
            vector: Some(&[1.0, 2.0, 3.0]),
            k: 1_000,
            ids: Some(among),
            ..Search::default()
        };
        index.search(&search).unwrap().iter().map(|hit| hit.id.to_owned()).collect()
    }

    #[test]
    fn a_set_counts_its_ids_once_and_those_that_are_unknown() {
        let index = index(10);
        let set = index.subset(&["3", "3", "9", "nobody"]);
        assert_eq!((set.len(), set.unknown(), set.is_empty()), (3, 1, false));
        assert_eq!(found(&index, Among::Set(&set)), found(&index, Among::Ids(&["9", "3"])));
        let none = index.subset(&[]);
        assert!(none.is_empty() && found(&index, Among::Set(&none)).is_empty());
    }

    #[test]
    fn a_set_of_another_index_is_refused() {
        let (one, other) = (index(5), index(5));
        let set = one.subset(&["1"]);
        let search = Search { query: Some("pool"), ids: Some(Among::Set(&set)), ..Search::default() };
        assert!(one.search(&search).is_ok());
        let refused = other.search(&search).unwrap_err();
        assert!(matches!(&refused, Error::InvalidInput { field, .. } if field == "ids"), "{refused}");
    }

    #[test]
    fn what_did_not_change_is_not_looked_up_again() {
        let mut index = index(20);
        let set = index.subset(&["1", "2", "25"]);
        let docs = |index: &HybridIndex| index.among(Among::Set(&set)).unwrap();
        let first = docs(&index);
        assert!(Arc::ptr_eq(&first, &docs(&index)));
        put(&mut index, 25);
        let second = docs(&index);
        assert!(!Arc::ptr_eq(&first, &second) && second.contains(20) && second.count_ones(..) == 3);
        assert!(Arc::ptr_eq(&second, &docs(&index)));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Put(u8),
        Remove(u8),
        Compact,
        Ask,
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever happens to the index, and however often it is asked meanwhile.
        #[test]
        fn a_set_finds_what_its_ids_find(
            steps in prop::collection::vec(prop_oneof![
                4 => (0..60u8).prop_map(Step::Put),
                3 => (0..60u8).prop_map(Step::Remove),
                1 => Just(Step::Compact),
                3 => Just(Step::Ask),
            ], 1..60),
            ids in prop::collection::vec(0..60u8, 0..30),
        ) {
            let mut index = index(20);
            let ids: Vec<String> = ids.iter().map(u8::to_string).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let set = index.subset(&ids);
            for step in steps.into_iter().chain([Step::Ask]) {
                match step {
                    Step::Put(id) => put(&mut index, id),
                    Step::Remove(id) => drop(index.remove(&id.to_string())),
                    Step::Compact => index.compact(&|| false).unwrap(),
                    Step::Ask => {
                        prop_assert_eq!(found(&index, Among::Set(&set)), found(&index, Among::Ids(&ids)));
                        let docs = |among| index.among(among).unwrap();
                        prop_assert_eq!(docs(Among::Set(&set)), docs(Among::Ids(&ids)));
                    }
                }
            }
        }
    }
}
