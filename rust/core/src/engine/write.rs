//! Writing: each call is one transaction, checked before it begins.

use super::Engine;
use super::read::not_found;
use super::vectors::{self, Given};
use crate::episode::{EmbeddedText, Episode, EpisodePatch, Origin, Scope, Trust};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::query::Filter;
use crate::store::{Wait, WriteView};
use crate::time::Moment;

/// A record to write.
#[derive(Debug, Clone, Default)]
pub struct Put {
    /// Its id, when it is one of ours (an update, or the import of an export).
    pub id: Option<RecordId>,
    /// Its fields.
    pub fields: EpisodePatch,
    /// Its vector, of the handle's embedder or given by the caller under none.
    pub vector: Option<Vec<f32>>,
}

/// What became of a record.
#[derive(Debug, Clone)]
pub struct Written {
    /// The record as it is stored.
    pub episode: Episode,
    /// Whether it is new; otherwise one of the same id or key was replaced.
    pub created: bool,
    /// Whether anything was written: the same record again is not.
    pub changed: bool,
    /// Why its vector is not searched.
    pub vector_refused: Option<String>,
}

/// What every write of a handle shares; goes with a job to the writer thread.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) scope: Scope,
    pub(super) origin: Origin,
    pub(super) embedder: Option<String>,
    pub(super) now: Moment,
}

/// A record that passed every check without the store.
struct Draft {
    put: Put,
    /// Its id if it turns out to be new: the same however often the job runs.
    fresh: RecordId,
}

impl Engine {
    /// Writes one record durably. The same id, or the same key within its scope, replaces what was there: its text,
    /// its directory entry and, if the text is another, its vectors. A replacement keeps the time it was created, and
    /// the time it happened unless a new one is given.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] naming the field, [`Error::Conflict`] when key and id belong to different records, store
    /// errors; nothing is written then.
    pub fn put(&self, wait: &Wait<'_>, put: Put) -> Result<Written> {
        let writer = self.writer();
        let draft = writer.check(self, put)?;
        self.store.write(wait, move |view| writer.write(view, &draft))
    }

    /// Writes many records in one transaction. One that is wrong is reported in its place, the rest is written.
    ///
    /// # Errors
    /// Store errors; nothing is written then.
    pub fn put_many(&self, wait: &Wait<'_>, puts: Vec<Put>) -> Result<Vec<Result<Written>>> {
        let writer = self.writer();
        let drafts: Vec<Result<Draft>> = puts.into_iter().map(|put| writer.check(self, put)).collect();
        let mut good = Vec::with_capacity(drafts.len());
        let mut places = Vec::with_capacity(drafts.len());
        for draft in drafts {
            match draft {
                Ok(draft) => {
                    places.push(None);
                    good.push(draft);
                }
                Err(error) => places.push(Some(error)),
            }
        }
        let mut written = if good.is_empty() {
            Vec::new()
        } else {
            self.store.write(wait, move |view| {
                let mut outcomes = Vec::with_capacity(good.len());
                for draft in &good {
                    match writer.write(view, draft) {
                        // Refused before anything of it was written.
                        Err(error @ (Error::InvalidInput { .. } | Error::Conflict { .. })) => {
                            outcomes.push(Err(error));
                        }
                        Err(other) => return Err(other),
                        Ok(done) => outcomes.push(Ok(done)),
                    }
                }
                Ok(outcomes)
            })?
        }
        .into_iter();
        let lost = || Err(Error::Internal("a record of a batch has no outcome".to_owned()));
        Ok(places
            .into_iter()
            .map(|error| error.map_or_else(|| written.next().unwrap_or_else(lost), Err))
            .collect())
    }

    /// Writes records exactly as they are, times and status included: for bringing an export back. One transaction.
    /// A record that is there and was changed later stays, and one that is not trusted does not become so.
    /// Returns how many were created, replaced and there already.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] and [`Error::Conflict`] as for [`Engine::put`]; nothing is written then.
    pub fn restore(&self, wait: &Wait<'_>, episodes: Vec<Episode>) -> Result<(usize, usize, usize)> {
        for episode in &episodes {
            episode.validate()?;
            self.scope_for(Some(episode.scope.clone()))?;
            episode.to_json()?;
        }
        let (writer, scope) = (self.writer(), self.options.scope.clone());
        self.store.write(wait, move |view| {
            let mut counts = (0, 0, 0);
            for episode in &episodes {
                let previous = visible(view, &scope, episode.id)?;
                let mut episode = episode.clone();
                writer.distrust(&mut episode);
                // A file does not make trusted what is not.
                if previous.as_ref().is_some_and(|p| p.trust == Trust::Untrusted) {
                    episode.trust = Trust::Untrusted;
                }
                match &previous {
                    None => counts.0 += 1,
                    // What was changed since the export is newer than it.
                    Some(newer) if newer.updated_at > episode.updated_at => {
                        counts.2 += 1;
                        continue;
                    }
                    Some(same) if same.updated_at == episode.updated_at && same_content(&episode, same) => {
                        counts.2 += 1;
                        continue;
                    }
                    Some(_) => counts.1 += 1,
                }
                replace(view, &episode, previous.as_ref())?;
            }
            Ok(counts)
        })
    }

    /// Changes fields of a record. With `expect`, only if the record was last changed at that moment.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Conflict`], [`Error::InvalidInput`]; nothing is written then.
    pub fn update(
        &self,
        wait: &Wait<'_>,
        id: RecordId,
        fields: EpisodePatch,
        expect: Option<Moment>,
    ) -> Result<Episode> {
        let writer = self.writer();
        if let Some(scope) = &fields.scope {
            self.scope_for(Some(scope.clone()))?;
        }
        self.store.write(wait, move |view| {
            let previous = visible(view, &writer.scope, id)?.ok_or_else(|| not_found(id))?;
            if expect.is_some_and(|expect| expect != previous.updated_at) {
                return Err(Error::Conflict {
                    what: format!("episode {id}"),
                    detail: format!(
                        "changed since it was read, last at {}; read it again and repeat the change",
                        previous.updated_at
                    ),
                });
            }
            let mut episode = previous.clone();
            fields.clone().apply(&mut episode)?;
            if same_content(&episode, &previous) {
                return Ok(previous);
            }
            // What an untrusted writer changed is no longer what was trusted.
            writer.distrust(&mut episode);
            episode.updated_at = after(writer.now, &previous);
            episode.to_json()?;
            replace(view, &episode, Some(&previous))?;
            Ok(episode)
        })
    }

    /// Makes a record trusted, whoever wrote it: somebody looked at it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; store errors.
    pub fn trust(&self, wait: &Wait<'_>, id: RecordId) -> Result<Episode> {
        let writer = self.writer();
        self.store.write(wait, move |view| {
            let previous = visible(view, &writer.scope, id)?.ok_or_else(|| not_found(id))?;
            if previous.trust == Trust::Trusted {
                return Ok(previous);
            }
            let mut episode = previous.clone();
            episode.trust = Trust::Trusted;
            episode.updated_at = after(writer.now, &previous);
            replace(view, &episode, Some(&previous))?;
            Ok(episode)
        })
    }

    /// Deletes records from all tables; returns how many there were. Unknown ids count as gone already.
    ///
    /// # Errors
    /// Store errors; nothing is deleted then.
    pub fn forget(&self, wait: &Wait<'_>, ids: Vec<RecordId>) -> Result<usize> {
        if ids.is_empty() {
            return Ok(0);
        }
        let scope = self.options.scope.clone();
        self.store.write(wait, move |view| {
            let mut gone = 0;
            for id in &ids {
                // What lies outside the scope does not exist for this handle.
                if let Some(episode) = view.episode(*id)?.filter(|e| scope.contains(&e.scope)) {
                    gone += usize::from(view.delete_episode(&episode)?);
                }
            }
            Ok(gone)
        })
    }

    /// Deletes every record that the filter leaves, in one transaction that looks at each again. With `dry_run`
    /// nothing is deleted. Returns their ids.
    ///
    /// # Errors
    /// Store errors; nothing is deleted then.
    pub fn forget_where(&self, wait: &Wait<'_>, filter: Filter, dry_run: bool) -> Result<Vec<RecordId>> {
        let ids: Vec<RecordId> = {
            let served = self.served()?;
            let allowed = served.select(&filter, &self.options.scope).docs;
            served.in_order(&allowed, false, None, usize::MAX).into_iter().map(|row| row.id).collect()
        };
        if dry_run || ids.is_empty() {
            return Ok(ids);
        }
        let scope = self.options.scope.clone();
        self.store.write(wait, move |view| {
            let mut gone = Vec::with_capacity(ids.len());
            for id in &ids {
                let Some(episode) = view.episode(*id)? else { continue };
                if scope.contains(&episode.scope)
                    && filter.matches(&episode)
                    && view.delete_episode(&episode)?
                {
                    gone.push(*id);
                }
            }
            Ok(gone)
        })
    }

    pub(super) fn writer(&self) -> Writer {
        Writer {
            scope: self.options.scope.clone(),
            origin: self.options.origin,
            embedder: self.embedder(),
            now: self.options.clock.now(),
        }
    }
}

impl Writer {
    /// Everything about a record that can be wrong without the store, before the lock is asked for.
    fn check(&self, engine: &Engine, mut put: Put) -> Result<Draft> {
        if let Some(scope) = put.fields.scope.take() {
            put.fields.scope = Some(engine.scope_for(Some(scope))?);
        }
        let fresh = put.id.unwrap_or_else(|| RecordId::new_episode(self.now.unix_micros()));
        let mut trial =
            Episode::new(fresh, self.now, self.scope.clone(), put.fields.origin.unwrap_or(self.origin));
        self.distrust(&mut trial);
        put.fields.clone().apply(&mut trial)?;
        trial.to_json()?;
        Ok(Draft { put, fresh })
    }

    /// A record is not trusted more than the handle it came through, whatever origin it names.
    fn distrust(&self, episode: &mut Episode) {
        if self.origin.default_trust() == Trust::Untrusted {
            episode.trust = Trust::Untrusted;
        }
    }

    fn write(&self, view: &mut WriteView<'_>, Draft { put, fresh }: &Draft) -> Result<Written> {
        let by_id = match put.id {
            Some(id) => visible(view, &self.scope, id)?,
            None => None,
        };
        // A record that is written again stays where it is, unless it is told to move.
        let stays = by_id.as_ref().map(|previous| previous.scope.clone());
        let scope = put.fields.scope.clone().or(stays).unwrap_or_else(|| self.scope.clone());
        let by_key = match put.fields.key.as_ref().and_then(Option::as_ref) {
            Some(key) => view.id_for_key(&scope, key)?,
            None => None,
        };
        let previous = match (by_id, by_key) {
            (Some(episode), Some(owner)) if owner != episode.id => return Err(key_taken(put, owner)),
            (Some(episode), _) => Some(episode),
            (None, Some(owner)) if put.id.is_some_and(|id| id != owner) => return Err(key_taken(put, owner)),
            (None, Some(owner)) => view.episode(owner)?,
            (None, None) => None,
        };
        let id = previous.as_ref().map_or(*fresh, |p| p.id);
        let origin = put.fields.origin.unwrap_or(self.origin);
        let mut episode = Episode::new(id, self.now, scope, origin);
        if let Some(previous) = &previous {
            episode.created_at = previous.created_at;
            episode.occurred_at = previous.occurred_at;
            episode.extra.clone_from(&previous.extra);
            episode.key.clone_from(&previous.key);
        }
        self.distrust(&mut episode);
        put.fields.clone().apply(&mut episode)?;
        let created = previous.is_none();
        // The same again is what was there, its trust included unless another was given.
        let same = previous.as_ref().filter(|previous| {
            let mut again = episode.clone();
            if put.fields.trust.is_none() {
                again.trust = previous.trust;
            }
            same_content(&again, previous)
        });
        let unchanged = same.is_some();
        if let Some(same) = same {
            episode = same.clone();
        } else {
            if let Some(previous) = &previous {
                episode.updated_at = after(self.now, previous);
            }
            replace(view, &episode, previous.as_ref())?;
        }
        let (mut vector_refused, mut vector_changed) = (None, false);
        if let Some(vector) = &put.vector {
            match vectors::store_given(view, self.embedder.as_deref(), &episode, vector)? {
                Given::Stored => vector_changed = true,
                Given::Same => {}
                Given::Refused(reason) => vector_refused = Some(reason),
            }
        }
        Ok(Written { episode, created, changed: !unchanged || vector_changed, vector_refused })
    }
}

/// The record, unless it lies outside the handle's scope: then the id is taken, and says so without showing more.
fn visible(view: &WriteView<'_>, scope: &Scope, id: RecordId) -> Result<Option<Episode>> {
    match view.episode(id)? {
        Some(episode) if !scope.contains(&episode.scope) => Err(not_found(id)),
        other => Ok(other),
    }
}

/// Puts a record in place of its previous form. Vectors of another text do not outlive it.
fn replace(view: &mut WriteView<'_>, episode: &Episode, previous: Option<&Episode>) -> Result<()> {
    view.put_episode(episode, previous)?;
    if let Some(previous) = previous
        && EmbeddedText::of(previous).hash != EmbeddedText::of(episode).hash
    {
        view.delete_embeddings(episode.id)?;
    }
    Ok(())
}

/// Whether two forms of a record differ in nothing but the time of their last change.
fn same_content(a: &Episode, b: &Episode) -> bool {
    let mut a = a.clone();
    a.updated_at = b.updated_at;
    a == *b && a.occurred_at.offset_seconds() == b.occurred_at.offset_seconds()
}

/// A time of change later than the previous one, also when the clock stands or was set back: `expect` relies on it.
fn after(now: Moment, previous: &Episode) -> Moment {
    Moment::utc(now.unix_micros().max(previous.updated_at.unix_micros() + 1))
}

fn key_taken(put: &Put, owner: RecordId) -> Error {
    let key = put.fields.key.clone().flatten().unwrap_or_default();
    Error::Conflict {
        what: format!("key {key:?}"),
        detail: format!("belongs to episode {owner}; update that one, or give another key"),
    }
}
