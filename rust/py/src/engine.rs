//! `Engine`: one open handle on a home.

use crate::analyzer;
use crate::convert::{fields, filter, mapping, number, path, text, time, vector};
use crate::door;
use crate::episode::Episode;
use crate::errors;
use crate::facts;
use crate::outcome::{Attached, Outcome, PendingText, text_hash};
use crate::report::{Coverage, Report};
use numpy::PyArray1;
use otolith_core::engine::{self as core, EngineOptions, Legs, Put, Recall, VectorRows};
use otolith_core::fusion::Fusion;
use otolith_core::ids::RecordId;
use otolith_core::store::{Progress, Wait};
use otolith_core::text::Synonyms;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One open handle on a home. Safe to use from many threads; every slow call releases the interpreter, and waiting for
/// the write lock of another process can be interrupted by signals.
#[pyclass(frozen, module = "otolith._core")]
pub(crate) struct Engine {
    core: ManuallyDrop<core::Engine>,
    home: Option<PathBuf>,
}

impl Engine {
    pub(crate) fn core(&self) -> &core::Engine {
        &self.core
    }

    pub(crate) fn lock_timeout(&self) -> Duration {
        self.core.options().lock_timeout
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: taken once, here, where nothing can look at it any more.
        let core = unsafe { ManuallyDrop::take(&mut self.core) };
        // Closing waits for a write that has begun: not with the interpreter held.
        let _ = Python::try_attach(|py| {
            door::run(py, || {
                drop(core);
                Ok(())
            })
        });
    }
}

fn legs(value: Option<&Bound<'_, PyAny>>) -> PyResult<Legs> {
    let Some(value) = value else { return Ok(Legs::default()) };
    let mut legs = Legs { lexical: false, vector: false };
    for leg in text::texts("legs", value)? {
        match leg.as_str() {
            "lexical" => legs.lexical = true,
            "vector" => legs.vector = true,
            _ => {
                let message = format!("{leg:?} is not a leg; there are lexical, vector");
                return Err(errors::invalid(value.py(), "legs", message));
            }
        }
    }
    Ok(legs)
}

fn strings(ids: &[RecordId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[pymethods]
impl Engine {
    /// Opens a home.
    ///
    /// Args:
    ///     home: Its directory; None is a memory that lives in RAM and ends with the handle.
    ///     scope: Namespace that every read and write stays within.
    ///     origin: Who writes through this handle, unless a record says otherwise.
    ///     create: Whether to make the home if it is not there.
    ///     read_only: Never write a byte.
    ///     embedder: Fingerprint of the handle's embedder; None for keyword search and vectors given by the caller.
    ///     lock_timeout: Longest wait for the write lock, in seconds.
    ///     mode: `shared`, or `exclusive` to have the home to itself.
    ///     durability: `full`, or `batched` for writes that return up to 50 ms before their commit.
    ///     network: `refuse` or `allow` a network file system.
    ///     analyzer: `default`, or `plain` for case-folded words and nothing else.
    ///     language: Whose words are stemmed, by Snowball's name, or `off`; nothing to `plain`.
    ///     expand: Which words of a question are taken for those that begin with them or differ by a typo: `missing` for
    ///         those that no record holds, `always`, or `off`.
    ///     synonyms: What words are also called, a mapping from a word to a list of words.
    ///
    /// Raises:
    ///     InvalidInput: An argument is wrong.
    ///     StoreError: The home cannot be used; its subclasses say why.
    #[staticmethod]
    #[pyo3(signature = (home, *, scope=None, origin=None, create=true, read_only=false, embedder=None, lock_timeout=None,
                        mode=None, durability=None, network=None, analyzer=None, language=None, expand=None, synonyms=None),
           text_signature = "(home, *, scope='', origin='assistant', create=True, read_only=False, embedder=None, lock_timeout=30.0, mode='shared', durability='full', network='refuse', analyzer='default', language='english', expand='missing', synonyms=None)")]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn open(
        home: &Bound<'_, PyAny>,
        scope: Option<&Bound<'_, PyAny>>,
        origin: Option<&Bound<'_, PyAny>>,
        create: bool,
        read_only: bool,
        embedder: Option<&Bound<'_, PyAny>>,
        lock_timeout: Option<&Bound<'_, PyAny>>,
        mode: Option<&Bound<'_, PyAny>>,
        durability: Option<&Bound<'_, PyAny>>,
        network: Option<&Bound<'_, PyAny>>,
        analyzer: Option<&Bound<'_, PyAny>>,
        language: Option<&Bound<'_, PyAny>>,
        expand: Option<&Bound<'_, PyAny>>,
        synonyms: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = home.py();
        let mut options = EngineOptions { create, read_only, ..EngineOptions::default() };
        if let Some(scope) = scope {
            options.scope = text::parsed("scope", scope)?;
        }
        if let Some(origin) = origin {
            options.origin = text::parsed("origin", origin)?;
        }
        if let Some(embedder) = embedder {
            options.embedder = Some(text::text("embedder", embedder)?.to_owned());
        }
        if let Some(timeout) = lock_timeout {
            options.lock_timeout = number::seconds("lock_timeout", timeout)?;
        }
        if let Some(mode) = mode {
            options.mode = text::parsed("mode", mode)?;
        }
        if let Some(durability) = durability {
            options.durability = text::parsed("durability", durability)?;
        }
        if let Some(network) = network {
            options.network = text::parsed("network", network)?;
        }
        options.analyzer = analyzer::read(analyzer, language)?;
        if let Some(expand) = expand {
            options.expansion = text::parsed("expand", expand)?;
        }
        if let Some(synonyms) = synonyms {
            let table = analyzer::synonyms("synonyms", synonyms)?;
            options.synonyms = Arc::new(door::quick(py, || Synonyms::new(options.analyzer, &table))?);
        }
        let home = if home.is_none() { None } else { Some(path::absolute("home", home)?) };
        let core = door::run(py, || match &home {
            Some(home) => core::Engine::open(home, options),
            None => core::Engine::in_memory(options),
        })?;
        Ok(Self { core: ManuallyDrop::new(core), home })
    }

    /// The home as an absolute path; None for a memory in RAM.
    #[getter]
    fn home(&self) -> Option<OsString> {
        self.home.as_ref().map(|home| home.as_os_str().to_owned())
    }

    /// Whether writing is refused.
    #[getter]
    fn read_only(&self) -> bool {
        self.core.options().read_only
    }

    /// Namespace that every read and write stays within; `""` is the root.
    #[getter]
    fn scope(&self) -> &str {
        self.core.options().scope.as_str()
    }

    /// How many records are left out of every answer because of damage, as far as this handle has looked.
    #[getter]
    fn unreadable(&self, py: Python<'_>) -> PyResult<usize> {
        door::run(py, || Ok(self.core.unreadable()))
    }

    /// Fingerprint of the handle's embedder.
    #[getter]
    fn embedder(&self, py: Python<'_>) -> PyResult<Option<String>> {
        door::run(py, || Ok(self.core.embedder()))
    }

    /// Sets the handle's embedder, as `open(embedder=)` would have: `auto` knows it only after `home_embedder()`.
    ///
    /// Args:
    ///     fingerprint: What identifies the embedder; None for none.
    #[pyo3(signature = (fingerprint))]
    fn use_embedder(&self, fingerprint: &Bound<'_, PyAny>) -> PyResult<()> {
        let own = text::optional("fingerprint", fingerprint)?.map(ToOwned::to_owned);
        door::run(fingerprint.py(), || {
            self.core.use_embedder(own);
            Ok(())
        })
    }

    /// Writes one record durably; the same id, or the same key in its scope, replaces.
    ///
    /// Args:
    ///     fields: The fields of the record; `summary` is needed. None empties a field that may be empty.
    ///     id: An id of ours, for a record that is written again or comes from an export.
    ///     vector: Its vector, one row of the handle's embedder. One that cannot be searched is refused and counted; the
    ///         text is kept.
    ///
    /// Returns:
    ///     The record as it is stored.
    ///
    /// Raises:
    ///     InvalidInput: A field is wrong or unknown.
    ///     Conflict: Key and id belong to different records.
    ///     StoreError: It could not be stored; its subclasses say why.
    #[pyo3(signature = (fields, *, id=None, vector=None))]
    fn put(
        &self,
        fields: &Bound<'_, PyAny>,
        id: Option<&Bound<'_, PyAny>>,
        vector: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Outcome> {
        let put = Put {
            fields: fields::patch(fields)?,
            id: id.map(|id| text::id("id", id)).transpose()?,
            vector: vector::optional("vector", vector)?,
        };
        let py = fields.py();
        let written = door::wait(py, self.lock_timeout(), |wait| self.core.put(wait, put))?;
        Outcome::written(py, written)
    }

    /// Writes many records in one transaction. Wrong ones are reported in their place and the rest is written.
    ///
    /// Args:
    ///     records: The fields of each as for `put`; a record may hold its `id`.
    ///     vectors: A vector for each, or None; a matrix with a row for each is fine too.
    ///
    /// Returns:
    ///     What became of each, in order.
    ///
    /// Raises:
    ///     InvalidInput: There are not as many vectors as records.
    ///     StoreError: Nothing could be stored.
    #[pyo3(signature = (records, *, vectors=None))]
    fn put_many(
        &self,
        records: &Bound<'_, PyAny>,
        vectors: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Outcome>> {
        let py = records.py();
        let records = text::items("records", "a list of mappings", records)?;
        let vectors = match vectors {
            Some(vectors) => vector::vectors("vectors", vectors)?,
            None => records.iter().map(|_| Ok(None)).collect(),
        };
        if vectors.len() != records.len() {
            let message = format!("holds {} vectors for {} records", vectors.len(), records.len());
            return Err(errors::invalid(py, "vectors", message));
        }
        let mut puts = Vec::with_capacity(records.len());
        let mut failed = Vec::with_capacity(records.len());
        for (record, vector) in records.iter().zip(vectors) {
            match fields::record(record).and_then(|(id, fields)| Ok(Put { id, fields, vector: vector? })) {
                Ok(put) => {
                    puts.push(put);
                    failed.push(None);
                }
                Err(error) if errors::is_ours(py, &error) => failed.push(Some(Outcome::failed(py, error))),
                Err(error) => return Err(error),
            }
        }
        let written = door::wait(py, self.lock_timeout(), |wait| self.core.put_many(wait, puts))?;
        let mut written = written.into_iter();
        let missing =
            || otolith_core::error::Error::Internal("a record of a batch has no outcome".to_owned());
        let outcome = |failed: Option<Outcome>| match failed {
            Some(failed) => Ok(failed),
            None => Outcome::of(py, written.next().unwrap_or_else(|| Err(missing()))),
        };
        failed.into_iter().map(outcome).collect()
    }

    /// Writes records exactly as they are (times, status, ids): the import of our own export. One transaction.
    ///
    /// Args:
    ///     episodes: The records.
    ///
    /// Returns:
    ///     How many were created, replaced and already there unchanged.
    ///
    /// Raises:
    ///     InvalidInput: A record lies outside the handle's scope.
    ///     Conflict: A key belongs to another record; nothing was written.
    ///     StoreError: Nothing could be stored.
    fn restore(&self, episodes: &Bound<'_, PyAny>) -> PyResult<(usize, usize, usize)> {
        let items = text::items("episodes", "a list of Episode", episodes)?;
        let episode = |item: &Bound<'_, PyAny>| match item.cast::<Episode>() {
            Ok(episode) => Ok(episode.get().core().clone()),
            Err(_) => Err(errors::wanted("episodes", "Episode objects", item)),
        };
        let episodes_read = items.iter().map(episode).collect::<PyResult<Vec<_>>>()?;
        door::wait(episodes.py(), self.lock_timeout(), |wait| self.core.restore(wait, episodes_read))
    }

    /// Vectors, or the reason of a refusal, of an export, for records that exist; one transaction.
    ///
    /// The home's embedder becomes `fingerprint` if it has none; rows of other embedders are stored, not served.
    ///
    /// Args:
    ///     fingerprint: What identifies the embedder they are from.
    ///     dim: Its width.
    ///     rows: The record's id with its rows or the reason of its refusal.
    ///
    /// Raises:
    ///     InvalidInput: A fingerprint or width that cannot be.
    ///     StoreError: Nothing could be stored.
    fn restore_vectors(
        &self,
        fingerprint: &Bound<'_, PyAny>,
        dim: &Bound<'_, PyAny>,
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<Attached> {
        let name = text::text("fingerprint", fingerprint)?;
        let dim = u32::try_from(number::count("dim", dim)?).unwrap_or(u32::MAX);
        let read = |item: &Bound<'_, PyAny>| {
            let [id, vectors] = text::tuple("rows", item)?;
            Ok((text::id("id", &id)?, vector::rows_or_reason("rows", &vectors)?))
        };
        let rows = text::items("rows", "a list of tuples", rows)?;
        let rows = rows.iter().map(read).collect::<PyResult<Vec<_>>>()?;
        let job = |wait: &Wait<'_>| self.core.restore_vectors(wait, name, dim, rows);
        door::wait(fingerprint.py(), self.lock_timeout(), job).map(Attached::from)
    }

    /// All that is stored of a record's vectors.
    ///
    /// Args:
    ///     id: The record.
    ///
    /// Returns:
    ///     For each embedder its fingerprint, its width, and the rows as they were written (arrays of float32, one for
    ///     each part of the text) or the reason of a refusal.
    ///
    /// Raises:
    ///     NotFound: There is no such record in the handle's scope.
    fn stored_vectors<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = id.py();
        let id = text::id("id", id)?;
        let stored = door::run(py, || self.core.stored_vectors(id))?;
        let list = PyList::empty(py);
        for one in stored {
            let rows = match one.rows {
                VectorRows::Refused(reason) => PyString::new(py, &reason).into_any(),
                VectorRows::Rows(rows) => {
                    let arrays = rows.iter().map(|row| array(py, row)).collect::<Vec<_>>();
                    PyList::new(py, arrays)?.into_any()
                }
            };
            list.append((one.fingerprint, one.dim, rows))?;
        }
        Ok(list)
    }

    /// Changes fields of a record.
    ///
    /// Args:
    ///     id: The record.
    ///     fields: What to set; None empties a field that may be empty.
    ///     expect: Its `updated_at` as the caller read it; None overwrites whatever is there.
    ///
    /// Returns:
    ///     The record as it is stored now.
    ///
    /// Raises:
    ///     NotFound: There is no such record in the handle's scope.
    ///     Conflict: It changed since `expect`.
    ///     InvalidInput: A field is wrong or unknown.
    ///     StoreError: It could not be stored.
    #[pyo3(signature = (id, fields, *, expect=None))]
    fn update(
        &self,
        id: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyAny>,
        expect: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Episode> {
        let py = id.py();
        let id = text::id("id", id)?;
        let patch = fields::patch(fields)?;
        let expect = expect.map(|expect| time::moment("expect", expect)).transpose()?;
        door::wait(py, self.lock_timeout(), |wait| self.core.update(wait, id, patch, expect))
            .map(Episode::new)
    }

    /// Makes a record trusted, whoever wrote it: somebody looked at it.
    ///
    /// Args:
    ///     id: The record.
    ///
    /// Returns:
    ///     The record as it is stored now.
    ///
    /// Raises:
    ///     NotFound: There is no such record in the handle's scope.
    ///     StoreError: It could not be stored.
    fn trust(&self, id: &Bound<'_, PyAny>) -> PyResult<Episode> {
        let py = id.py();
        let id = text::id("id", id)?;
        door::wait(py, self.lock_timeout(), |wait| self.core.trust(wait, id)).map(Episode::new)
    }

    /// The record with this id as it is now.
    ///
    /// Raises:
    ///     NotFound: There is none in the handle's scope.
    ///     InvalidInput: It is not an id of ours.
    fn get(&self, id: &Bound<'_, PyAny>) -> PyResult<Episode> {
        let py = id.py();
        let id = text::id("id", id)?;
        door::run(py, || self.core.get(id)).map(Episode::new)
    }

    /// Ids that begin with `prefix`, smallest first.
    ///
    /// Args:
    ///     prefix: Hexadecimal digits, with or without hyphens.
    ///     limit: At most so many.
    ///
    /// Raises:
    ///     InvalidInput: The prefix holds anything else.
    #[pyo3(signature = (prefix, limit=None), text_signature = "($self, prefix, limit=100)")]
    fn find(&self, prefix: &Bound<'_, PyAny>, limit: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
        let limit = limit.map_or(Ok(100), |limit| number::count("limit", limit))?;
        let text = text::text("prefix", prefix)?;
        door::run(prefix.py(), || self.core.find(text, limit)).map(|ids| strings(&ids))
    }

    /// Up to `limit` matching records in the order of their ids, which is that of their creation.
    ///
    /// Args:
    ///     filter: Which; None for all.
    ///     newest_first: The order.
    ///     after: Go on after this id, itself left out.
    ///     limit: At most so many.
    ///
    /// Returns:
    ///     The records, and the id to go on after; None at the end.
    #[pyo3(signature = (filter, *, newest_first=true, after=None, limit=None),
           text_signature = "($self, filter, *, newest_first=True, after=None, limit=256)")]
    fn page(
        &self,
        filter: &Bound<'_, PyAny>,
        newest_first: bool,
        after: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(Vec<Episode>, Option<String>)> {
        let py = filter.py();
        let filter = filter::filter(Some(filter))?;
        let after = after.map(|after| text::id("after", after)).transpose()?;
        let limit = limit.map_or(Ok(256), |limit| number::count("limit", limit))?.min(usize::MAX - 1);
        let (episodes, next) = door::run(py, || self.core.page(&filter, newest_first, after, limit))?;
        Ok((episodes.into_iter().map(Episode::new).collect(), next.map(|id| id.to_string())))
    }

    /// How many records match.
    ///
    /// Args:
    ///     filter: Which; None for all.
    #[pyo3(signature = (filter=None))]
    fn count(&self, py: Python<'_>, filter: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let filter = filter::filter(filter)?;
        door::run(py, || self.core.count(&filter))
    }

    /// Deletes records everywhere; unknown ids count as gone already.
    ///
    /// Args:
    ///     ids: The records.
    ///
    /// Returns:
    ///     How many there were.
    ///
    /// Raises:
    ///     StoreError: Nothing could be deleted.
    fn forget(&self, ids: &Bound<'_, PyAny>) -> PyResult<usize> {
        let py = ids.py();
        let ids = text::ids("ids", ids)?;
        door::wait(py, self.lock_timeout(), |wait| self.core.forget(wait, ids))
    }

    /// Deletes all that match in one transaction that checks each again.
    ///
    /// Args:
    ///     filter: Which. An empty one is everything the handle sees.
    ///     dry_run: Delete nothing.
    ///
    /// Returns:
    ///     The ids that match.
    ///
    /// Raises:
    ///     StoreError: Nothing could be deleted.
    #[pyo3(signature = (filter, *, dry_run=false))]
    fn forget_where(&self, filter: &Bound<'_, PyAny>, dry_run: bool) -> PyResult<Vec<String>> {
        if filter.is_none() {
            // Only a mapping says that everything is meant.
            return Err(errors::wanted("filter", "a mapping", filter));
        }
        let py = filter.py();
        let filter = filter::filter(Some(filter))?;
        let ids = door::wait(py, self.lock_timeout(), |wait| self.core.forget_where(wait, filter, dry_run))?;
        Ok(strings(&ids))
    }

    /// Answers a question from everything committed before it began, by whichever process.
    ///
    /// Args:
    ///     query: Words in any language. Without words and vector the newest records are listed.
    ///     k: Hits wanted; 0 gives an empty report, more than there are gives all.
    ///     vector: The question's vector, one row of the handle's embedder.
    ///     vector_reason: Why no query vector was made; it becomes the reason of the vector leg.
    ///     filter: Which records may be found, applied before ranking.
    ///     explain: Whether hits carry how their score came about.
    ///     min_relevance: Hits of less relevance (0 to 1) are left out.
    ///     fusion: `weighted` or `rrf`.
    ///     weights: Weight of each leg by name; only their ratio counts.
    ///     legs: Only these legs: `lexical`, `vector`.
    ///     vector_embedder: Fingerprint of the embedder that made the vector; it is not searched with when the handle has
    ///         another one by now.
    ///
    /// Raises:
    ///     InvalidInput: An argument is wrong.
    ///     DimensionMismatch: The vector is not as wide as those of the home.
    ///     StoreError: The store cannot be read.
    #[pyo3(signature = (query, k=None, *, vector=None, vector_reason=None, filter=None, explain=false,
                        min_relevance=None, fusion=None, weights=None, legs=None, vector_embedder=None),
           text_signature = "($self, query, k=10, *, vector=None, vector_reason=None, filter=None, explain=False, \
                             min_relevance=0.0, fusion='weighted', weights=None, legs=None, vector_embedder=None)")]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn recall(
        &self,
        query: &Bound<'_, PyAny>,
        k: Option<&Bound<'_, PyAny>>,
        vector: Option<&Bound<'_, PyAny>>,
        vector_reason: Option<&Bound<'_, PyAny>>,
        filter: Option<&Bound<'_, PyAny>>,
        explain: bool,
        min_relevance: Option<&Bound<'_, PyAny>>,
        fusion: Option<&Bound<'_, PyAny>>,
        weights: Option<&Bound<'_, PyAny>>,
        legs: Option<&Bound<'_, PyAny>>,
        vector_embedder: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Report> {
        let py = query.py();
        let vector = vector::optional("vector", vector)?;
        let ask = Recall {
            query: text::optional("query", query)?,
            vector: vector.as_deref(),
            vector_embedder: vector_embedder
                .map(|embedder| text::text("vector_embedder", embedder))
                .transpose()?,
            vector_reason: vector_reason.map(|reason| text::text("vector_reason", reason)).transpose()?,
            k: k.map_or(Ok(10), |k| number::count("k", k))?,
            filter: filter::filter(filter)?,
            explain,
            min_relevance: min_relevance.map_or(Ok(0.0), |floor| number::real("min_relevance", floor))?,
            fusion: fusion.map_or_else(|| Ok(Fusion::default()), |fusion| text::parsed("fusion", fusion))?,
            weights: mapping::weights(weights)?,
            legs: self::legs(legs)?,
        };
        let report = door::run(py, || self.core.recall(&ask))?;
        Report::new(py, report)
    }

    /// None if a query vector of the handle's embedder can be searched, else why not.
    fn wants_query_vector(&self, py: Python<'_>) -> PyResult<Option<String>> {
        door::run(py, || self.core.query_vector_refused())
    }

    /// Records without a current vector of the handle's embedder, in the order of their ids.
    ///
    /// Args:
    ///     after: Go on after this id, itself left out.
    ///     limit: At most so many.
    ///     ids: Only among these; the other arguments do not count then.
    ///     refused: Also those whose vector cannot be searched, with the reason.
    ///
    /// Raises:
    ///     InvalidInput: The handle has no embedder, or the home's is another.
    #[pyo3(signature = (*, after=None, limit=None, ids=None, refused=false),
           text_signature = "($self, *, after=None, limit=64, ids=None, refused=False)")]
    fn pending(
        &self,
        py: Python<'_>,
        after: Option<&Bound<'_, PyAny>>,
        limit: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
        refused: bool,
    ) -> PyResult<Vec<PendingText>> {
        let after = after.map(|after| text::id("after", after)).transpose()?;
        let limit = limit.map_or(Ok(64), |limit| number::count("limit", limit))?;
        let ids = ids.map(|ids| text::ids("ids", ids)).transpose()?;
        let pending = door::run(py, || match &ids {
            Some(ids) => self.core.pending_of(ids),
            None if refused => self.core.pending_and_refused(after, limit),
            None => self.core.pending(after, limit),
        })?;
        Ok(pending.into_iter().map(|pending| PendingText::new(py, pending)).collect())
    }

    /// Attaches vectors to records whose text is still the one that was embedded; one transaction. The first ones make
    /// the handle's embedder the home's.
    ///
    /// Args:
    ///     rows: For each record its id, its `text_hash`, and one row for each chunk or the reason of a refusal.
    ///     embedder: Fingerprint of the embedder that made them; refused when the handle has another one by now.
    ///
    /// Returns:
    ///     How many were attached, refused, and dropped because their text changed meanwhile, and why each was refused.
    ///
    /// Raises:
    ///     InvalidInput: The handle has no embedder, the home's is another, or a row is no vector.
    ///     StoreError: Nothing could be stored.
    #[pyo3(signature = (rows, *, embedder=None))]
    fn attach(&self, rows: &Bound<'_, PyAny>, embedder: Option<&Bound<'_, PyAny>>) -> PyResult<Attached> {
        let read = attached_rows(rows)?;
        let of = embedder.map(|embedder| text::text("embedder", embedder)).transpose()?;
        let job = |wait: &Wait<'_>| match of {
            Some(of) => self.core.attach_of(wait, of, read),
            None => self.core.attach(wait, read),
        };
        door::wait(rows.py(), self.lock_timeout(), job).map(Attached::from)
    }

    /// How many records have a current vector, and why others have none.
    fn coverage(&self, py: Python<'_>) -> PyResult<Coverage> {
        door::run(py, || self.core.coverage()).map(Coverage::from)
    }

    /// Fingerprint and width of the embedder this home belongs to; None before its first vector.
    fn home_embedder(&self, py: Python<'_>) -> PyResult<Option<(String, u32)>> {
        door::run(py, || self.core.home_embedder())
    }

    /// How many records have vectors of another embedder than the handle's, by fingerprint.
    fn foreign_vectors(&self, py: Python<'_>) -> PyResult<BTreeMap<String, usize>> {
        door::run(py, || self.core.foreign_vectors())
    }

    /// Facts about the home, by name.
    ///
    /// Returns:
    ///     format_version (int), created (datetime), records (int, of every scope and status), last_sequence (int),
    ///     file_bytes (int, 0 in RAM), analyzer (str), unreadable (int: damaged rows), notices (list of str about those and the index),
    ///     index (dict of int: segments mapped from files, checked: compared with their checksums since the handle was opened,
    ///     damaged: times damage was met and built anew, longest_wait_us: the longest that care of the index kept questions
    ///     waiting, in microseconds, vectors: those there are, graph_vectors: those of them that a graph leads to).
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = door::run(py, || self.core.info())?;
        facts::info(py, &info)
    }

    /// Puts a file without holes in the place of the store file. Others read all the time, and write but for the last
    /// moment; their handles go on in the new file by themselves.
    ///
    /// Args:
    ///     progress: Called now and then with (rows done, rows to do).
    ///
    /// Returns:
    ///     before_bytes and after_bytes (int, of the file), records (int), blocked_us (int: how long nobody could write,
    ///     in microseconds), changed_meanwhile (int: records that changed or went while it ran; bytes of their old form may be
    ///     left until the next compaction), removed_drafts (list of str: unfinished files of killed processes that were
    ///     removed), index (str or None: directory of the index that is free of forgotten words as well).
    ///
    /// Raises:
    ///     StoreCorrupt: A row cannot be read; `otolith verify --repair` comes first.
    ///     StoreLocked: The write lock did not come free.
    ///     StoreError: It could not be done, and nothing was changed.
    #[pyo3(signature = (*, progress=None))]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let job = |wait: &Wait<'_>, told: &mut Progress<'_>| self.core.compact(wait, told);
        let (done, index) = door::work(py, self.lock_timeout(), progress, job)?;
        facts::compacted(py, &done, index.as_deref())
    }

    /// Writes the whole store as it is at one moment to a new file, while others read and write.
    ///
    /// Args:
    ///     dest: The file; it must not exist, its directory must.
    ///     progress: Called now and then with (rows done, rows to do).
    ///
    /// Returns:
    ///     bytes (int, of the file), records (int), last_sequence (int).
    ///
    /// Raises:
    ///     InvalidInput: The handle has a scope, so it does not see everything.
    ///     StoreCorrupt: A row cannot be read; `otolith verify --repair` comes first.
    ///     StoreError: `dest` is there already or cannot be written; there is nothing new then.
    #[pyo3(signature = (dest, *, progress=None))]
    fn backup<'py>(
        &self,
        dest: &Bound<'py, PyAny>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let py = dest.py();
        let path = path::absolute("dest", dest)?;
        let job = |_: &Wait<'_>, told: &mut Progress<'_>| self.core.backup(&path, told);
        facts::backed_up(py, &door::work(py, self.lock_timeout(), progress, job)?)
    }

    /// Reads every record, vector and change of the home, whatever the handle's scope; builds no index.
    ///
    /// Returns:
    ///     records, vectors (int: what can be read), payload_bytes (int: of their JSON and rows, about), last_sequence
    ///     (int), unreadable (list of str: what cannot be read and why).
    ///
    /// Raises:
    ///     StoreError: The store cannot be read.
    fn census<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        facts::census(py, &door::run(py, || self.core.census())?)
    }

    /// Returns when every write so far is on disk; at once unless durability is batched.
    ///
    /// Raises:
    ///     StoreError: Writes that had been acknowledged could not be committed; told once.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        door::wait(py, self.lock_timeout(), |wait| self.core.flush(wait))
    }

    /// Ends the handle; later calls raise `StoreError`. Closing twice is fine.
    ///
    /// Raises:
    ///     StoreError: In a forked child, where nothing is closed; when writes that had been acknowledged could not be
    ///         committed, after closing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        door::run(py, || self.core.close())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        crate::record::repr(slf.as_any(), &["home", "scope", "read_only", "embedder"])
    }
}

/// What `attach` takes.
pub(crate) fn attached_rows(rows: &Bound<'_, PyAny>) -> PyResult<Vec<(RecordId, u128, VectorRows)>> {
    let read = |item: &Bound<'_, PyAny>| {
        let [id, hash, vectors] = text::tuple("rows", item)?;
        Ok((text::id("id", &id)?, text_hash(&hash)?, vector::rows_or_reason("rows", &vectors)?))
    };
    text::items("rows", "a list of tuples", rows)?.iter().map(read).collect()
}

/// A row as a numpy array of its own.
fn array<'py>(py: Python<'py>, row: &[f32]) -> Bound<'py, PyAny> {
    PyArray1::from_slice(py, row).into_any()
}
