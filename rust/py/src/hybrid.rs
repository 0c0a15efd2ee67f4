//! `HybridIndex`: an index in memory for people who bring their own documents.

use crate::convert::path::absolute;
use crate::convert::{mapping, number, text, vector};
use crate::door;
use crate::errors;
use crate::hybrid_types::{Answer, IndexParams, Inserted, ef};
use crate::id_set::{Given, IdSet};
use crate::report::Coverage;
use otolith_core::engine as core_engine;
use otolith_core::error::{Error, Result};
use otolith_core::fork_generation;
use otolith_core::fusion::Fusion;
use otolith_core::index as core;
use otolith_core::lexical::PreparedDoc;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult};
use std::time::{Duration, Instant};

/// How long a forked child waits for a lock that its parent may have held.
const CHILD_PATIENCE: Duration = Duration::from_secs(1);

/// From so many documents on they make a segment of their own.
const BATCH: usize = 512;

/// How often a graph is built beside the index before it is built with the index locked.
const BESIDE: usize = 2;

/// BM25 and cosine over documents in memory. Ids are any strings; ties go to the document inserted first.
///
/// Safe to use from many threads; every call releases the interpreter, and searches run side by side.
///
/// Args:
///     dim: Width of the vectors, 1 to 8192; None takes that of the first vector.
///     params: Settings of ranking and text analysis.
///
/// Raises:
///     InvalidInput: A width that cannot be.
#[pyclass(frozen, module = "otolith")]
pub(crate) struct HybridIndex {
    index: RwLock<core::HybridIndex>,
    /// See [`fork_generation`].
    made_in: u32,
}

/// The names of fields and their texts, which stay Python's: copying the texts took a tenth of building an index.
type Fields<'t> = Vec<(&'t str, &'t str)>;

/// What [`Fields`] are read from.
enum Text<'py> {
    None,
    Plain(Bound<'py, PyAny>),
    Named(Vec<mapping::Entry<'py>>),
}

/// A document before it is indexed.
struct Document<'t> {
    id: &'t str,
    fields: Option<Fields<'t>>,
    vector: Option<Vec<f32>>,
}

impl HybridIndex {
    // A panic in the middle of a change leaves nothing that can be answered from. In a forked child the same is true of
    // an index that a thread of the parent was at: its lock is never given back here.
    fn read(&self) -> Result<RwLockReadGuard<'_, core::HybridIndex>> {
        if self.made_in != fork_generation() {
            return in_child(|| self.index.try_read());
        }
        self.index.read().map_err(|_| broken())
    }

    fn write(&self) -> Result<RwLockWriteGuard<'_, core::HybridIndex>> {
        if self.made_in != fork_generation() {
            return in_child(|| self.index.try_write());
        }
        self.index.write().map_err(|_| broken())
    }

    /// Analyses a document while others search.
    fn prepare(&self, fields: Option<&[(&str, &str)]>) -> Result<Option<PreparedDoc>> {
        let Some(fields) = fields else { return Ok(None) };
        let index = self.read()?;
        Ok(Some(index.prepare(fields)))
    }

    /// Small batches one by one; large ones are analysed and made segments while others search.
    fn insert_all(&self, documents: Vec<Document<'_>>) -> Result<Vec<core::Inserted>> {
        let mut done = Vec::with_capacity(documents.len());
        if documents.len() < BATCH {
            for document in documents {
                let text = self.prepare(document.fields.as_deref())?;
                done.push(self.write()?.insert(document.id, text.as_ref(), document.vector.as_deref())?);
            }
            return Ok(done);
        }
        let mut batch = self.read()?.batch();
        for document in documents {
            if batch.is_full() {
                let full = std::mem::replace(&mut batch, self.read()?.batch());
                done.extend(self.insert_batch(full)?);
            }
            batch.push(document.id, document.fields.as_deref(), document.vector)?;
        }
        done.extend(self.insert_batch(batch)?);
        Ok(done)
    }

    fn insert_batch(&self, mut batch: core::Batch) -> Result<Vec<core::Inserted>> {
        batch.build()?;
        self.write()?.insert_batch(batch)
    }
}

/// Takes a lock that may belong to a thread that this forked child does not have.
fn in_child<G>(mut attempt: impl FnMut() -> TryLockResult<G>) -> Result<G> {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(_)) => return Err(broken()),
            Err(TryLockError::WouldBlock) if start.elapsed() < CHILD_PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => {
                let message = "was in use when this process was forked; build it again in this process";
                return Err(Error::store("HybridIndex", message));
            }
        }
    }
}

fn broken() -> Error {
    Error::Internal(
        "this index was left half changed by an earlier internal error; build it again".to_owned(),
    )
}

impl<'py> Text<'py> {
    /// A str, named fields, or None.
    fn new(field: impl Fn() -> String, value: Bound<'py, PyAny>) -> PyResult<Self> {
        if value.is_none() {
            return Ok(Self::None);
        }
        if value.is_instance_of::<PyString>() {
            return Ok(Self::Plain(value));
        }
        mapping::entries(&field(), &value).map(Self::Named)
    }

    /// `field` names it in an error.
    fn fields(&self, field: impl Fn() -> String) -> PyResult<Option<Fields<'_>>> {
        match self {
            Self::None => Ok(None),
            Self::Plain(value) => match value.cast::<PyString>().map(|text| text.to_str()) {
                Ok(Ok(text)) => Ok(Some(vec![("text", text)])),
                _ => Ok(Some(vec![("text", text::text(&field(), value)?)])),
            },
            Self::Named(entries) => {
                let fields = entries.iter().map(|(name, value)| {
                    let name = text::text(&field(), name)?;
                    Ok((name, text::text(&format!("{}.{name}", field()), value)?))
                });
                fields.collect::<PyResult<_>>().map(Some)
            }
        }
    }
}

/// The values for a batch, or as many None.
fn column<'py>(
    field: &str,
    value: Option<&Bound<'py, PyAny>>,
    len: usize,
) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
    let Some(value) = value else { return Ok(vec![None; len]) };
    let items = text::items(field, "a list", value)?;
    same_len(value.py(), field, items.len(), len)?;
    Ok(items.into_iter().map(Some).collect())
}

fn same_len(py: Python<'_>, field: &str, found: usize, wanted: usize) -> PyResult<()> {
    if found == wanted {
        return Ok(());
    }
    Err(errors::invalid(py, field, format!("holds {found} items where {wanted} are needed")))
}

#[pymethods]
impl HybridIndex {
    #[new]
    #[pyo3(signature = (dim=None, *, params=None))]
    fn new(
        py: Python<'_>,
        dim: Option<&Bound<'_, PyAny>>,
        params: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let dim = dim.map(|dim| number::count("dim", dim)).transpose()?;
        let params = match params {
            None => core::IndexParams::default(),
            Some(params) => match params.cast::<IndexParams>() {
                Ok(params) => door::quick(py, || params.get().core())?,
                Err(_) => return Err(errors::wanted("params", "IndexParams", params)),
            },
        };
        let index = door::quick(py, || core::HybridIndex::new(dim, params))?;
        Ok(Self { index: RwLock::new(index), made_in: fork_generation() })
    }

    /// Adds a document, or replaces the one of the same id.
    ///
    /// Args:
    ///     id: Any text that is not empty.
    ///     text: Its text, or named fields: `title`, `tags` and `files` weigh 3, `body`, `caption` and `code` one half,
    ///         others 1.
    ///     vector: Its vector, one row as wide as the index. One that cannot be searched is refused and counted; the text
    ///         is kept.
    ///
    /// Raises:
    ///     InvalidInput: The id is empty, there is neither text nor vector, or an argument is of the wrong type.
    #[pyo3(signature = (id, text=None, vector=None))]
    fn insert(
        &self,
        id: &Bound<'_, PyAny>,
        text: Option<&Bound<'_, PyAny>>,
        vector: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Inserted> {
        let name = text::text("id", id)?;
        let given = text.map_or(Ok(Text::None), |text| Text::new(|| "text".to_owned(), text.clone()))?;
        let fields = given.fields(|| "text".to_owned())?;
        let vector = vector::optional("vector", vector)?;
        let job = || {
            let prepared = self.prepare(fields.as_deref())?;
            self.write()?.insert(name, prepared.as_ref(), vector.as_deref())
        };
        door::run(id.py(), job).map(Inserted::from)
    }

    /// As `insert`, for many documents. All arguments are checked before the first is inserted.
    ///
    /// Args:
    ///     ids: Their ids.
    ///     texts: A text for each, or None.
    ///     vectors: A matrix with a row for each, or a list with a vector or None for each.
    ///
    /// Returns:
    ///     What each insertion did, in order.
    ///
    /// Raises:
    ///     InvalidInput: As for `insert`, or the arguments are not equally long.
    #[pyo3(signature = (ids, texts=None, vectors=None))]
    fn insert_many(
        &self,
        ids: &Bound<'_, PyAny>,
        texts: Option<&Bound<'_, PyAny>>,
        vectors: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Inserted>> {
        let py = ids.py();
        let ids = text::items("ids", "a list of str", ids)?;
        let texts = column("texts", texts, ids.len())?;
        let vectors = match vectors {
            Some(vectors) => vector::vectors("vectors", vectors)?,
            None => ids.iter().map(|_| Ok(None)).collect(),
        };
        same_len(py, "vectors", vectors.len(), ids.len())?;
        let names = ids.iter().map(|id| text::text("ids", id)).collect::<PyResult<Vec<&str>>>()?;
        let name = |at: usize| format!("texts[{at}]");
        let given = texts.into_iter().enumerate().map(|(at, text)| match text {
            Some(text) => Text::new(|| name(at), text),
            None => Ok(Text::None),
        });
        let given = given.collect::<PyResult<Vec<_>>>()?;
        let mut documents = Vec::with_capacity(names.len());
        for (at, ((id, text), vector)) in names.into_iter().zip(&given).zip(vectors).enumerate() {
            let vector = vector?;
            let fields = text.fields(|| name(at))?;
            if id.is_empty() {
                return Err(errors::invalid(
                    py,
                    format!("ids[{at}]"),
                    "is empty; give every document a name",
                ));
            }
            if fields.is_none() && vector.is_none() {
                let message = "has neither text nor vector; give at least one";
                return Err(errors::invalid(py, format!("ids[{at}]"), message));
            }
            documents.push(Document { id, fields, vector });
        }
        let done = door::run(py, || self.insert_all(documents))?;
        Ok(done.into_iter().map(Inserted::from).collect())
    }

    /// Gives a document a vector, in place of the one it had.
    ///
    /// Args:
    ///     id: The document.
    ///     vector: One row as wide as the index.
    ///
    /// Returns:
    ///     False when it cannot be searched; it is counted then, and the document has none.
    ///
    /// Raises:
    ///     NotFound: There is no such document.
    fn add_embedding(&self, id: &Bound<'_, PyAny>, vector: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = text::text("id", id)?;
        let vector = vector::vector("vector", vector)?;
        door::run(id.py(), || self.write()?.add_embedding(name, &vector))
    }

    /// Takes a document out; False when there was none of this id.
    fn remove(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = text::text("id", id)?;
        door::run(id.py(), || Ok(self.write()?.remove(name)))
    }

    /// Writes the index to a file, in place of what is there: beside it first, synced, then renamed, so that the file is
    /// the old or the new one whatever happens.
    ///
    /// Args:
    ///     path: The file.
    ///
    /// Raises:
    ///     StoreCorrupt: The file it was loaded from is damaged.
    ///     StoreError: It cannot be written.
    fn save(&self, path: &Bound<'_, PyAny>) -> PyResult<()> {
        let place = absolute("path", path)?;
        door::run(path.py(), || self.read()?.save(&place))
    }

    /// The index in a file that `save` wrote, with its settings. Words and ids stay in the file and are read as they are
    /// searched: do not change it, save to it instead.
    ///
    /// Args:
    ///     path: The file.
    ///
    /// Raises:
    ///     FormatTooNew: A newer version wrote it.
    ///     StoreCorrupt: It is cut short, or what has to be read to open it is damaged. Damage of the rest is found by
    ///         `compact` and `save`; until then it may cost ranking.
    ///     StoreError: It cannot be read, or another version's analyzer made its words.
    #[staticmethod]
    fn load(path: &Bound<'_, PyAny>) -> PyResult<Self> {
        let place = absolute("path", path)?;
        let index = door::run(path.py(), || core::HybridIndex::load(&place))?;
        Ok(Self { index: RwLock::new(index), made_in: fork_generation() })
    }

    /// Makes the index smaller and faster after many changes: documents that were removed or replaced are gone from it
    /// for good, and `max_doc` is `num_docs`. Many vectors get a graph, which takes some twenty seconds for 100,000; what is
    /// inserted meanwhile or afterwards is compared one by one until the next time. Ctrl-C ends it, and the next call goes on.
    ///
    /// Searches and changes by other threads wait while the documents are put together, a fraction of a second for 100,000,
    /// not while the graph is built: that is done over a copy of the vectors of a byte a component. Only if other threads
    /// compact it twice in that time do they wait for the graph.
    ///
    /// Raises:
    ///     StoreCorrupt: The file it was loaded from is damaged.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        door::wait(py, Duration::ZERO, |wait| {
            let stop = || wait.interrupted.is_some_and(|interrupted| interrupted());
            self.write()?.give_back()?;
            for _ in 0..BESIDE {
                let job = self.read()?.graph_job();
                let built = job.run(&stop)?;
                if self.write()?.put_graph(built)? {
                    return Ok(());
                }
            }
            self.write()?.compact(&stop)
        })
    }

    /// Looks ids up once, for any number of searches among them: `search(..., ids=index.subset(ids))`.
    ///
    /// Args:
    ///     ids: Ids of documents; unknown ones are kept, in case they come later.
    ///
    /// Returns:
    ///     A set that is searched with in this index alone. It need not be made again after insertions, removals or
    ///     compactions.
    ///
    /// Raises:
    ///     InvalidInput: It is no list or tuple of str.
    fn subset(&self, ids: &Bound<'_, PyAny>) -> PyResult<IdSet> {
        let py = ids.py();
        let items = text::items("ids", "a list of str", ids)?;
        let names = items.iter().map(|id| text::text("ids", id)).collect::<PyResult<Vec<&str>>>()?;
        door::run(py, || Ok(IdSet(self.read()?.subset(&names))))
    }

    /// The best `k` documents, best first; without query and vector there are none.
    ///
    /// Args:
    ///     query: Words in any language.
    ///     vector: One row as wide as the index.
    ///     k: Hits wanted; more than there are gives all.
    ///     ids: Only these; unknown ones are ignored. For more than one search among many, `subset` looks them up once.
    ///     fusion: `weighted` or `rrf`.
    ///     weights: Weight of each leg by name, `lexical` and `vector`; only their ratio counts.
    ///     ef_search: Vectors that are kept on a walk over their graph, instead of that of the settings.
    ///     exact: Whether every vector is compared; None and False leave it to the size.
    ///     explain: Whether hits carry how their score came about.
    ///
    /// Raises:
    ///     DimensionMismatch: The vector is not as wide as the index.
    ///     InvalidInput: An argument is wrong, the vector has no direction, or the set is of another index.
    #[pyo3(signature = (query=None, vector=None, k=None, *, ids=None, fusion=None, weights=None, ef_search=None,
                        exact=None, explain=None),
           text_signature = "($self, query=None, vector=None, k=10, *, ids=None, fusion='weighted', weights=None, \
                             ef_search=None, exact=None, explain=False)")]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn search<'py>(
        &self,
        py: Python<'py>,
        query: Option<&Bound<'_, PyAny>>,
        vector: Option<&Bound<'_, PyAny>>,
        k: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
        fusion: Option<&Bound<'_, PyAny>>,
        weights: Option<&Bound<'_, PyAny>>,
        ef_search: Option<&Bound<'_, PyAny>>,
        exact: Option<&Bound<'_, PyAny>>,
        explain: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let vector = vector::optional("vector", vector)?;
        let ids = Given::new(ids)?;
        let names = ids.names()?;
        let search = core::Search {
            query: query.map(|query| text::text("query", query)).transpose()?,
            vector: vector.as_deref(),
            k: k.map_or(Ok(10), |k| number::count("k", k))?,
            ids: ids.among(&names),
            fusion: fusion.map_or_else(|| Ok(Fusion::default()), |fusion| text::parsed("fusion", fusion))?,
            weights: mapping::weights(weights)?,
            ef_search: ef(ef_search)?,
            exact: number::flag_or_none("exact", exact)?,
            explain: number::flag_or_none("explain", explain)?,
        };
        let answer = door::run(py, || self.read()?.search(&search).map(Answer::new))?;
        answer.into_list(py)
    }

    /// As `search`, for several questions at once.
    ///
    /// Args:
    ///     queries: Words of each question, or None.
    ///     vectors: A matrix with a row for each question, or a list with a vector or None for each.
    ///     k: Hits wanted for each.
    ///     ids: Only these, for all questions.
    ///     ef_search: As for `search`.
    ///     exact: As for `search`.
    ///
    /// Returns:
    ///     The hits of each question, in order.
    ///
    /// Raises:
    ///     DimensionMismatch: A vector is not as wide as the index.
    ///     InvalidInput: As for `search`, or the arguments are not equally long.
    #[pyo3(signature = (queries=None, vectors=None, k=None, *, ids=None, ef_search=None, exact=None),
           text_signature = "($self, queries=None, vectors=None, k=10, *, ids=None, ef_search=None, exact=None)")]
    #[allow(clippy::too_many_arguments, reason = "they are keywords")]
    fn search_many<'py>(
        &self,
        py: Python<'py>,
        queries: Option<&Bound<'_, PyAny>>,
        vectors: Option<&Bound<'_, PyAny>>,
        k: Option<&Bound<'_, PyAny>>,
        ids: Option<&Bound<'_, PyAny>>,
        ef_search: Option<&Bound<'_, PyAny>>,
        exact: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        let k = k.map_or(Ok(10), |k| number::count("k", k))?;
        let (ef_search, exact) = (ef(ef_search)?, number::flag_or_none("exact", exact)?);
        let ids = Given::new(ids)?;
        let names = ids.names()?;
        let among = ids.among(&names);
        let vectors = vectors.map(|vectors| vector::vectors("vectors", vectors)).transpose()?;
        let vectors = vectors.map(|rows| rows.into_iter().collect::<PyResult<Vec<_>>>()).transpose()?;
        let queries = queries.map(|queries| text::items("queries", "a list of str", queries)).transpose()?;
        let len = queries.as_ref().map(Vec::len).or(vectors.as_ref().map(Vec::len)).unwrap_or(0);
        let vectors = vectors.unwrap_or_else(|| vec![None; len]);
        same_len(py, "vectors", vectors.len(), len)?;
        let texts = match &queries {
            Some(queries) => {
                queries.iter().map(|query| text::optional("queries", query)).collect::<PyResult<_>>()?
            }
            None => vec![None; len],
        };
        let found = door::run(py, || {
            let index = self.read()?;
            // A list is looked up once for all.
            let listed = match among {
                Some(core::Among::Ids(names)) if len > 1 => Some(index.subset(names)),
                _ => None,
            };
            let ids = listed.as_ref().map(core::Among::Set).or(among);
            let mut found = Vec::with_capacity(len);
            for (query, vector) in texts.iter().zip(&vectors) {
                let vector = vector.as_deref();
                let search = core::Search {
                    query: *query,
                    vector,
                    k,
                    ids,
                    ef_search,
                    exact,
                    ..core::Search::default()
                };
                found.push(Answer::new(index.search(&search)?));
            }
            Ok(found)
        })?;
        found.into_iter().map(|answer| answer.into_list(py)).collect()
    }

    /// How many documents have vectors, and why others have none.
    fn vector_coverage(&self, py: Python<'_>) -> PyResult<Coverage> {
        door::run(py, || {
            let index = self.read()?;
            let refusals = index.refusals();
            let of = |reason: &str| refusals.get(reason).copied().unwrap_or(0);
            let (total, vectorized) = (index.num_docs(), index.vectorized());
            let (dimension_mismatches, refused) = (of("width"), of("other"));
            Ok(core_engine::Coverage {
                total,
                vectorized,
                pending: total - vectorized - dimension_mismatches - refused,
                stale: 0,
                dimension_mismatches,
                refused,
                dim: index.dim(),
                embedder: None,
            })
        })
        .map(Coverage::from)
    }

    /// Documents that are there.
    #[getter]
    fn num_docs(&self, py: Python<'_>) -> PyResult<usize> {
        door::run(py, || Ok(self.read()?.num_docs()))
    }

    /// Documents with those that were removed or replaced and whose place is not used again yet.
    #[getter]
    fn max_doc(&self, py: Python<'_>) -> PyResult<usize> {
        door::run(py, || Ok(self.read()?.max_doc()))
    }

    /// Width of the vectors; None before the first.
    #[getter]
    fn dim(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        door::run(py, || Ok(self.read()?.dim()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.num_docs(py)
    }

    /// Whether there is a document of this id.
    fn __contains__(&self, id: &Bound<'_, PyAny>) -> PyResult<bool> {
        let name = text::text("id", id)?;
        door::run(id.py(), || Ok(self.read()?.contains(name)))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let dim = self.dim(py)?.map_or_else(|| "None".to_owned(), |dim| dim.to_string());
        Ok(format!("HybridIndex(dim={dim}, num_docs={})", self.num_docs(py)?))
    }
}
