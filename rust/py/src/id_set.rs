//! The ids a search of a `HybridIndex` is kept to.

use crate::convert::text;
use otolith_core::index as core;
use pyo3::prelude::*;

/// Ids of a `HybridIndex` that are looked up once, for any number of searches; `HybridIndex.subset` makes it.
///
/// It does not change. It stands for the documents that have its ids when it is searched with: those that are inserted later
/// are found too, those that are removed are not. `len` tells how many different ids it holds.
#[pyclass(frozen, module = "otolith")]
pub(crate) struct IdSet(pub(crate) core::IdSet);

#[pymethods]
impl IdSet {
    /// How many of its ids no document had when it was made.
    #[getter]
    fn unknown(&self) -> usize {
        self.0.unknown()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("IdSet(len={}, unknown={})", self.0.len(), self.0.unknown())
    }
}

/// What was given for `ids`. The texts stay Python's: copying them took longer than looking them up.
pub(crate) enum Given<'py> {
    All,
    Ids(Vec<Bound<'py, PyAny>>),
    Set(Bound<'py, IdSet>),
}

impl<'py> Given<'py> {
    /// None, a set, or a list or tuple of `str`.
    pub(crate) fn new(ids: Option<&Bound<'py, PyAny>>) -> PyResult<Self> {
        let Some(ids) = ids.filter(|ids| !ids.is_none()) else { return Ok(Self::All) };
        if let Ok(set) = ids.cast::<IdSet>() {
            return Ok(Self::Set(set.clone()));
        }
        text::items("ids", "a list of str or an IdSet", ids).map(Self::Ids)
    }

    /// The ids that were given, if any were.
    pub(crate) fn names(&self) -> PyResult<Vec<&str>> {
        match self {
            Self::Ids(ids) => ids.iter().map(|id| text::text("ids", id)).collect(),
            Self::All | Self::Set(_) => Ok(Vec::new()),
        }
    }

    /// What core is to search among, `names` being those of this.
    pub(crate) fn among<'a>(&'a self, names: &'a [&'a str]) -> Option<core::Among<'a>> {
        match self {
            Self::All => None,
            Self::Ids(_) => Some(core::Among::Ids(names)),
            Self::Set(set) => Some(core::Among::Set(&set.get().0)),
        }
    }
}
