//! Records that answers showed lately, as they are: what is found once is often found again, and reading ten records is
//! near a third of the time of an answer (35 of 121 µs with 100,000 records, 11 of them for decoding).

use crate::episode::{Episode, MetaValue};
use crate::ids::RecordId;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of records kept, about; some seven thousand of half a kilobyte.
const BUDGET: usize = 8 << 20;
/// What a record takes beside its texts, about.
const FIXED: usize = 640;

/// See the module. Whoever changes the copy takes out what changed: [`Recent::forget`].
///
/// Two generations: when the young one takes half of the room it becomes the old one, and what nobody asked for since then
/// goes.
#[derive(Debug, Default)]
pub(in crate::engine) struct Recent(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: FxHashMap<RecordId, Arc<Episode>>,
    old: FxHashMap<RecordId, Arc<Episode>>,
    /// Bytes of the young ones.
    bytes: usize,
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record, if it is here.
    pub(in crate::engine) fn get(&self, id: RecordId) -> Option<Arc<Episode>> {
        let mut all = self.lock();
        if let Some(episode) = all.young.get(&id) {
            return Some(Arc::clone(episode));
        }
        let episode = all.old.remove(&id)?;
        all.keep(&episode);
        Some(episode)
    }

    /// Keeps a record as the store has it at the position of the copy.
    pub(in crate::engine) fn keep(&self, episode: &Arc<Episode>) {
        self.lock().keep(episode);
    }

    /// Takes a record out.
    pub(super) fn forget(&self, id: RecordId) {
        let mut all = self.lock();
        if let Some(episode) = all.young.remove(&id) {
            all.bytes -= weight(&episode);
        }
        all.old.remove(&id);
    }
}

impl Generations {
    fn keep(&mut self, episode: &Arc<Episode>) {
        let weight = weight(episode);
        // One that is as large as all of them together is read again each time.
        if weight > BUDGET / 2 {
            return;
        }
        if self.bytes + weight > BUDGET / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        if self.young.insert(episode.id, Arc::clone(episode)).is_none() {
            self.bytes += weight;
        }
    }
}

/// Bytes a record takes in memory, about.
fn weight(episode: &Arc<Episode>) -> usize {
    let texts = [&episode.body, &episode.title].into_iter().flatten();
    let lists = [&episode.key_decisions, &episode.files_modified, &episode.tags];
    let metadata = episode
        .metadata
        .iter()
        .map(|(name, value)| name.len() + 64 + if let MetaValue::Str(text) = value { text.len() } else { 0 });
    FIXED
        + episode.summary.len()
        + texts.map(String::len).sum::<usize>()
        + lists.into_iter().flatten().map(|text| text.len() + 24).sum::<usize>()
        + metadata.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::{Origin, Scope};
    use crate::time::Moment;

    fn record(bytes: usize) -> Arc<Episode> {
        let now = Moment::utc(0);
        let mut episode = Episode::new(RecordId::new_episode(0), now, Scope::root(), Origin::Web);
        episode.summary = "x".repeat(bytes);
        Arc::new(episode)
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes_within_the_budget() {
        let recent = Recent::default();
        let asked = record(10);
        recent.keep(&asked);
        for _ in 0..5_000 {
            recent.keep(&record(1_000));
            assert!(recent.get(asked.id).is_some());
            let all = recent.lock();
            let held: usize = all.young.values().chain(all.old.values()).map(weight).sum();
            assert!(held <= BUDGET);
            assert_eq!(all.bytes, all.young.values().map(weight).sum::<usize>());
        }
        // Large ones are not kept, and nothing makes room for them.
        let held = |recent: &Recent| {
            let all = recent.lock();
            (all.young.len(), all.old.len())
        };
        let before = held(&recent);
        let large = record(BUDGET);
        for _ in 0..3 {
            recent.keep(&large);
        }
        assert!(recent.get(large.id).is_none() && held(&recent) == before);
        recent.keep(&asked);
        recent.forget(asked.id);
        assert!(recent.get(asked.id).is_none());
        let all = recent.lock();
        assert_eq!(all.bytes, all.young.values().map(weight).sum::<usize>());
    }
}
