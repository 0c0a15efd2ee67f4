//! What calls of the engine tell, as mappings.

use crate::convert::time;
use otolith_core::engine::{Census, Info, ReindexState};
use otolith_core::store::{BackedUp, Compacted};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::Path;

type Facts<'py> = PyResult<Bound<'py, PyDict>>;

pub(crate) fn info<'py>(py: Python<'py>, info: &Info) -> Facts<'py> {
    let notice = |(id, reason): (&String, &String)| format!("record {id} cannot be read: {reason}");
    let mut notices: Vec<String> = info.unreadable.iter().map(notice).collect();
    notices.extend(info.notices.iter().cloned());
    if info.missing > 0 {
        let lost = info.missing;
        notices
            .push(format!("{lost} more records are counted and cannot be found: the store file is damaged"));
    }
    let dict = PyDict::new(py);
    dict.set_item("format_version", info.format_version)?;
    dict.set_item("created", time::datetime(py, info.created)?)?;
    dict.set_item("records", info.records)?;
    dict.set_item("last_sequence", info.last_sequence)?;
    dict.set_item("file_bytes", info.file_bytes)?;
    dict.set_item("analyzer", &info.analyzer)?;
    dict.set_item("unreadable", info.unreadable.len() as u64 + info.missing)?;
    dict.set_item("notices", notices)?;
    let index = PyDict::new(py);
    index.set_item("segments", info.index.segments)?;
    index.set_item("checked", info.index.checked)?;
    index.set_item("damaged", info.index.damaged)?;
    index.set_item("longest_wait_us", info.index.longest_wait_us)?;
    index.set_item("vectors", info.index.vectors)?;
    index.set_item("graph_vectors", info.index.graph_vectors)?;
    dict.set_item("index", index)?;
    Ok(dict)
}

pub(crate) fn compacted<'py>(py: Python<'py>, done: &Compacted, index: Option<&Path>) -> Facts<'py> {
    let drafts: Vec<_> = done.removed_drafts.iter().map(|path| path.as_os_str()).collect();
    let dict = PyDict::new(py);
    dict.set_item("before_bytes", done.before_bytes)?;
    dict.set_item("after_bytes", done.after_bytes)?;
    dict.set_item("records", done.records)?;
    dict.set_item("blocked_us", done.blocked.as_micros())?;
    dict.set_item("changed_meanwhile", done.changed_meanwhile)?;
    dict.set_item("removed_drafts", drafts)?;
    dict.set_item("index", index.map(Path::as_os_str))?;
    Ok(dict)
}

pub(crate) fn backed_up<'py>(py: Python<'py>, done: &BackedUp) -> Facts<'py> {
    let dict = PyDict::new(py);
    dict.set_item("bytes", done.bytes)?;
    dict.set_item("records", done.records)?;
    dict.set_item("last_sequence", done.last_sequence)?;
    Ok(dict)
}

pub(crate) fn census<'py>(py: Python<'py>, census: &Census) -> Facts<'py> {
    let dict = PyDict::new(py);
    dict.set_item("records", census.records)?;
    dict.set_item("vectors", census.vectors)?;
    dict.set_item("payload_bytes", census.payload_bytes)?;
    dict.set_item("last_sequence", census.last_sequence)?;
    dict.set_item("unreadable", &census.unreadable)?;
    Ok(dict)
}

pub(crate) fn reindex<'py>(py: Python<'py>, state: &ReindexState) -> Facts<'py> {
    let dict = PyDict::new(py);
    dict.set_item("total", state.total)?;
    dict.set_item("vectorized", state.vectorized)?;
    dict.set_item("pending", state.pending())?;
    dict.set_item("refused", state.refused)?;
    dict.set_item("dimension_mismatches", state.mismatched)?;
    dict.set_item("dim", state.dim)?;
    dict.set_item("home", &state.home)?;
    dict.set_item("home_vectorized", state.home_vectorized)?;
    Ok(dict)
}
