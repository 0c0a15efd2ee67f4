//! Reading records by id and by filter.

use super::Engine;
use super::served::{self, Position};
use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::query::Filter;
use crate::store::ReadView;

/// How often an index that is not as the store says is built anew for one call.
const DISTRUSTED: usize = 2;

impl Engine {
    /// The record with this id.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none in the handle's scope.
    pub fn get(&self, id: RecordId) -> Result<Episode> {
        self.store.read(|view| self.require(view, id))
    }

    /// Ids that begin with `prefix`, hexadecimal digits with or without hyphens, smallest first, at most `limit`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the prefix holds anything else.
    pub fn find(&self, prefix: &str, limit: usize) -> Result<Vec<RecordId>> {
        self.store.read(|view| {
            let ids =
                view.ids_with_prefix(prefix, if self.options.scope.is_root() { limit } else { usize::MAX })?;
            let mut seen = Vec::new();
            for id in ids {
                if self.options.scope.is_root() || self.require(view, id).is_ok() {
                    seen.push(id);
                }
                if seen.len() == limit {
                    break;
                }
            }
            Ok(seen)
        })
    }

    /// Up to `limit` records that the filter leaves, in order of their ids, and the id to go on after.
    ///
    /// # Errors
    /// Store errors; a record that cannot be read is left out here and listed by [`Engine::info`].
    pub fn page(
        &self,
        filter: &Filter,
        newest_first: bool,
        after: Option<RecordId>,
        limit: usize,
    ) -> Result<(Vec<Episode>, Option<RecordId>)> {
        let fits = self.fits(filter);
        let mut distrusted = 0;
        let (ids, episodes, more) = loop {
            let (ids, from): (Vec<RecordId>, _) = {
                let copy = self.served()?;
                let allowed = copy.select(filter, &self.options.scope).docs;
                let rows = copy.in_order(&allowed, newest_first, after, limit.saturating_add(1));
                (rows.into_iter().map(|row| row.id).collect(), copy.position())
            };
            let more = ids.len() > limit;
            let mut ids = ids;
            ids.truncate(limit);
            match self.known(&ids, from, &fits) {
                Err(lost) if distrusted == DISTRUSTED => return Err(lost),
                Err(lost) => {
                    distrusted += 1;
                    self.distrust(lost)?;
                }
                Ok(episodes) => break (ids, episodes, more),
            }
        };
        // A record that went away since is simply not there.
        Ok((episodes.into_iter().flatten().collect(), ids.last().copied().filter(|_| more)))
    }

    /// How many records the filter leaves.
    ///
    /// # Errors
    /// Store errors.
    pub fn count(&self, filter: &Filter) -> Result<usize> {
        let served = self.served()?;
        Ok(served.select(filter, &self.options.scope).count())
    }

    /// Reads records that the copy at `from` knows; None for each that went away since. One that is not found
    /// though nothing changed is damage.
    pub(super) fn known(
        &self,
        ids: &[RecordId],
        from: Option<Position>,
        fits: impl Fn(&Episode) -> bool,
    ) -> Result<Vec<Option<Episode>>> {
        self.store.read(|view| known_in(view, ids, from, |id| Ok(view.episode(id)?.filter(&fits))))
    }

    /// Whether a record is in the scope of the handle and as the filter wants it.
    pub(super) fn fits<'f>(&'f self, filter: &'f Filter) -> impl Fn(&Episode) -> bool + 'f {
        let conditions = filter.conditions();
        move |episode| {
            self.options.scope.contains(&episode.scope)
                && filter.serves(episode)
                && conditions.iter().all(|condition| condition.holds(episode))
        }
    }

    /// The record, if it is in the handle's scope.
    pub(super) fn require(&self, view: &ReadView<'_>, id: RecordId) -> Result<Episode> {
        view.episode(id)?.filter(|e| self.options.scope.contains(&e.scope)).ok_or_else(|| not_found(id))
    }
}

/// The same in a snapshot; `read` gives a record, unless it is not as it is to be.
pub(super) fn known_in<E>(
    view: &ReadView<'_>,
    ids: &[RecordId],
    from: Option<Position>,
    mut read: impl FnMut(RecordId) -> Result<Option<E>>,
) -> Result<Vec<Option<E>>> {
    let episodes = ids.iter().map(|id| read(*id)).collect::<Result<Vec<_>>>()?;
    if let Some((id, _)) = ids.iter().zip(&episodes).find(|(_, episode)| episode.is_none())
        && Some(served::position(view)?) == from
    {
        return Err(view.lost(*id));
    }
    Ok(episodes)
}

pub(super) fn not_found(id: RecordId) -> Error {
    Error::NotFound { what: "episode", id: id.to_string() }
}
