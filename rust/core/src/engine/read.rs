//! Reading records by id and by filter.

use super::Engine;
use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::query::Filter;
use crate::store::ReadView;

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
        let ids: Vec<RecordId> = {
            let served = self.served()?;
            let allowed = self.allowed(&served, filter).docs;
            let keep = |(doc, record): (crate::ids::DocId, &super::served::Record)| {
                allowed.contains(doc.index()).then_some(record.fields.id)
            };
            match (newest_first, after) {
                (false, after) => served.records(after).filter_map(keep).take(limit + 1).collect(),
                (true, None) => served.records(None).rev().filter_map(keep).take(limit + 1).collect(),
                (true, Some(edge)) => {
                    served.records_before(edge).rev().filter_map(keep).take(limit + 1).collect()
                }
            }
        };
        let more = ids.len() > limit;
        let ids = &ids[..ids.len().min(limit)];
        let episodes = self.store.read(|view| {
            // A record that went away since is simply not there.
            let present = ids.iter().filter_map(|id| view.episode(*id).transpose());
            present.collect::<Result<Vec<_>>>()
        })?;
        Ok((episodes, ids.last().copied().filter(|_| more)))
    }

    /// How many records the filter leaves.
    ///
    /// # Errors
    /// Store errors.
    pub fn count(&self, filter: &Filter) -> Result<usize> {
        let served = self.served()?;
        Ok(self.allowed(&served, filter).docs.count_ones(..))
    }

    /// The record, if it is in the handle's scope.
    pub(super) fn require(&self, view: &ReadView<'_>, id: RecordId) -> Result<Episode> {
        view.episode(id)?.filter(|e| self.options.scope.contains(&e.scope)).ok_or_else(|| not_found(id))
    }
}

pub(super) fn not_found(id: RecordId) -> Error {
    Error::NotFound { what: "episode", id: id.to_string() }
}
