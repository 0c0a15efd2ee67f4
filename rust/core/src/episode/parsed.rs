//! A record as it is read from JSON, before what is missing is filled in or refused.

use super::{Episode, MetaValue, Origin, Outcome, SCHEMA_VERSION, Scope, Source, Status, Trust};
use crate::ids::RecordId;
use crate::time::Moment;
use serde::Deserialize;
use std::collections::BTreeMap;

/// [`Episode`] with all that may be missing.
#[derive(Deserialize)]
pub(super) struct Parsed {
    id: Option<RecordId>,
    key: Option<String>,
    summary: String,
    body: Option<String>,
    title: Option<String>,
    outcome: Option<Outcome>,
    #[serde(default)]
    source: Source,
    actor: Option<String>,
    agent_id: Option<String>,
    task_id: Option<String>,
    session_id: Option<String>,
    user_id: Option<String>,
    working_dir: Option<String>,
    #[serde(default)]
    key_decisions: Vec<String>,
    #[serde(default)]
    files_modified: Vec<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    metadata: BTreeMap<String, MetaValue>,
    #[serde(default)]
    scope: Scope,
    occurred_at: Option<Moment>,
    created_at: Option<Moment>,
    updated_at: Option<Moment>,
    importance: Option<f64>,
    origin: Option<Origin>,
    trust: Option<Trust>,
    #[serde(default)]
    status: Status,
    schema_version: Option<u32>,
    #[serde(flatten)]
    extra: serde_json::Map<String, serde_json::Value>,
}

/// What a record has that does not say it.
pub(super) const IMPORTANCE: f64 = 0.5;

impl Parsed {
    /// Fills in what [`super::stored`] leaves out, for the row of `id`.
    pub(super) fn complete(&mut self, id: RecordId) {
        let Self { occurred_at, created_at, updated_at, importance, origin, trust, schema_version, .. } =
            self;
        self.id = self.id.or(Some(id));
        *occurred_at = occurred_at.or(*created_at);
        *updated_at = updated_at.or(*created_at);
        *importance = importance.or(Some(IMPORTANCE));
        *trust = trust.or(origin.map(Origin::default_trust));
        *schema_version = schema_version.or(Some(SCHEMA_VERSION));
    }

    /// The record.
    ///
    /// # Errors
    /// The name of a field that is missing.
    pub(super) fn episode(self) -> Result<Episode, &'static str> {
        Ok(Episode {
            id: self.id.ok_or("id")?,
            key: self.key,
            summary: self.summary,
            body: self.body,
            title: self.title,
            outcome: self.outcome,
            source: self.source,
            actor: self.actor,
            agent_id: self.agent_id,
            task_id: self.task_id,
            session_id: self.session_id,
            user_id: self.user_id,
            working_dir: self.working_dir,
            key_decisions: self.key_decisions,
            files_modified: self.files_modified,
            tags: self.tags,
            metadata: self.metadata,
            scope: self.scope,
            occurred_at: self.occurred_at.ok_or("occurred_at")?,
            created_at: self.created_at.ok_or("created_at")?,
            updated_at: self.updated_at.ok_or("updated_at")?,
            importance: self.importance.ok_or("importance")?,
            origin: self.origin.ok_or("origin")?,
            trust: self.trust.ok_or("trust")?,
            status: self.status,
            schema_version: self.schema_version.ok_or("schema_version")?,
            extra: self.extra,
        })
    }
}
