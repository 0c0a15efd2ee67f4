//! Filters.

use super::{mapping, number, text, time};
use crate::errors;
use otolith_core::episode::normalize_dir;
use otolith_core::query::Filter;
use pyo3::prelude::*;

const FILTERS: &str = "ids, not_ids, kinds, key, scope, user_id, agent_id, session_id, task_id, working_dir, below, tags, \
    outcome, source, actor, origin, trust, since, until, metadata, status";

/// A filter from a mapping; None and conditions that are None leave everything.
pub(crate) fn filter(value: Option<&Bound<'_, PyAny>>) -> PyResult<Filter> {
    let mut filter = Filter::default();
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(filter) };
    for (name, value) in mapping::entries("filter", value)? {
        set(&mut filter, text::text("filter", &name)?, &value)?;
    }
    Ok(filter)
}

fn set(filter: &mut Filter, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if value.is_none() && FILTERS.split(", ").any(|known| known == name) {
        return Ok(());
    }
    let owned = || text::text(name, value).map(|text| Some(text.to_owned()));
    match name {
        "ids" => filter.ids = Some(text::ids(name, value)?),
        "not_ids" => filter.not_ids = text::ids(name, value)?,
        "kinds" => {
            let kinds = text::items(name, "a list of kinds", value)?;
            filter.kinds = Some(kinds.iter().map(|kind| text::parsed(name, kind)).collect::<PyResult<_>>()?);
        }
        "key" => filter.key = owned()?,
        "scope" => filter.scope = Some(text::parsed(name, value)?),
        "user_id" => filter.user_id = owned()?,
        "agent_id" => filter.agent_id = owned()?,
        "session_id" => filter.session_id = owned()?,
        "task_id" => filter.task_id = owned()?,
        "working_dir" => {
            let dir = normalize_dir(text::text(name, value)?);
            filter.working_dir = Some(dir.map_err(|error| text::named(value.py(), name, error))?);
        }
        "below" => filter.below = number::flag(name, value)?,
        "tags" => filter.tags = text::texts(name, value)?,
        "outcome" => filter.outcome = Some(text::parsed(name, value)?),
        "source" => filter.source = Some(text::parsed(name, value)?),
        "actor" => filter.actor = owned()?,
        "origin" => filter.origin = Some(text::parsed(name, value)?),
        "trust" => filter.trust = Some(text::parsed(name, value)?),
        "since" => filter.since = Some(time::moment(name, value)?),
        "until" => filter.until = Some(time::moment(name, value)?),
        "metadata" => filter.metadata = mapping::metadata(name, value)?,
        "status" => filter.status = Some(text::parsed(name, value)?),
        _ => return Err(errors::invalid(value.py(), name, format!("is not a filter; there are {FILTERS}"))),
    }
    Ok(())
}
