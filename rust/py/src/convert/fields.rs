//! Fields of a record.

use super::{mapping, number, text, time};
use crate::errors;
use otolith_core::episode::EpisodePatch;
use otolith_core::ids::RecordId;
use pyo3::prelude::*;

/// Fields a caller may set, in their order.
pub(crate) const FIELDS: &str = "key, summary, body, title, outcome, source, actor, agent_id, task_id, session_id, \
    user_id, working_dir, key_decisions, files_modified, tags, metadata, scope, occurred_at, importance, origin, trust";

/// Sets one field of `patch`; false when there is none of this name. None empties a field that may be empty.
pub(crate) fn set(patch: &mut EpisodePatch, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let owned = || text::optional(name, value).map(|text| Some(text.map(ToOwned::to_owned)));
    let list = || if value.is_none() { Ok(Vec::new()) } else { text::texts(name, value) };
    match name {
        "key" => patch.key = owned()?,
        "summary" => patch.summary = Some(text::text(name, value)?.to_owned()),
        "body" => patch.body = owned()?,
        "title" => patch.title = owned()?,
        "outcome" => patch.outcome = Some(text::parsed_optional(name, value)?),
        "source" => patch.source = Some(text::parsed(name, value)?),
        "actor" => patch.actor = owned()?,
        "agent_id" => patch.agent_id = owned()?,
        "task_id" => patch.task_id = owned()?,
        "session_id" => patch.session_id = owned()?,
        "user_id" => patch.user_id = owned()?,
        "working_dir" => patch.working_dir = owned()?,
        "key_decisions" => patch.key_decisions = Some(list()?),
        "files_modified" => patch.files_modified = Some(list()?),
        "tags" => patch.tags = Some(list()?),
        "metadata" if value.is_none() => patch.metadata = Some(std::collections::BTreeMap::new()),
        "metadata" => patch.metadata = Some(mapping::metadata(name, value)?),
        "scope" => patch.scope = Some(text::parsed(name, value)?),
        "occurred_at" => patch.occurred_at = Some(time::moment(name, value)?),
        "importance" => patch.importance = Some(number::real(name, value)?),
        "origin" => patch.origin = Some(text::parsed(name, value)?),
        "trust" => patch.trust = Some(text::parsed(name, value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// The fields of a change to a record.
pub(crate) fn patch(value: &Bound<'_, PyAny>) -> PyResult<EpisodePatch> {
    let mut patch = EpisodePatch::default();
    for (name, value) in mapping::entries("fields", value)? {
        let name = text::text("fields", &name)?;
        if !set(&mut patch, name, &value)? {
            return Err(unknown(value.py(), name));
        }
    }
    Ok(patch)
}

/// The fields of a record to write, which may hold its `id`.
pub(crate) fn record(value: &Bound<'_, PyAny>) -> PyResult<(Option<RecordId>, EpisodePatch)> {
    let (mut id, mut patch) = (None, EpisodePatch::default());
    for (name, value) in mapping::entries("record", value)? {
        let name = text::text("record", &name)?;
        if name == "id" {
            id = text::parsed_optional(name, &value)?;
        } else if !set(&mut patch, name, &value)? {
            return Err(unknown(value.py(), name));
        }
    }
    Ok((id, patch))
}

fn unknown(py: Python<'_>, name: &str) -> PyErr {
    let message = match name {
        "created_at" | "updated_at" | "status" | "schema_version" => {
            "is set by the store; leave it out".to_owned()
        }
        "id" => "cannot be changed; leave it out".to_owned(),
        _ => format!("is not a field; there are {FIELDS}"),
    };
    errors::invalid(py, name, message)
}
