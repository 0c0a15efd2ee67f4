//! The JSON form of a record in the store: without what its row or its other fields tell. An ordinary record is a
//! quarter smaller by it, so that a page holds more of them.

use super::parsed::{IMPORTANCE, Parsed};
use super::{Episode, MAX_RECORD_BYTES, SCHEMA_VERSION, Source, Status, codec};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::time::Moment;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// More than what is left out ever takes.
const LEFT_OUT: usize = 1024;

struct Stored<'e>(&'e Episode);

impl Serialize for Stored<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let Episode {
            // The key of the row.
            id: _,
            key,
            summary,
            body,
            title,
            outcome,
            source,
            actor,
            agent_id,
            task_id,
            session_id,
            user_id,
            working_dir,
            key_decisions,
            files_modified,
            tags,
            metadata,
            scope,
            occurred_at,
            created_at,
            updated_at,
            importance,
            origin,
            trust,
            status,
            schema_version,
            extra,
        } = self.0;
        let mut map = serializer.serialize_map(None)?;
        macro_rules! unless {
            ($left_out:expr, $field:ident) => {
                if !$left_out {
                    map.serialize_entry(stringify!($field), $field)?;
                }
            };
        }
        unless!(key.is_none(), key);
        map.serialize_entry("summary", summary)?;
        unless!(body.is_none(), body);
        unless!(title.is_none(), title);
        unless!(outcome.is_none(), outcome);
        unless!(*source == Source::default(), source);
        unless!(actor.is_none(), actor);
        unless!(agent_id.is_none(), agent_id);
        unless!(task_id.is_none(), task_id);
        unless!(session_id.is_none(), session_id);
        unless!(user_id.is_none(), user_id);
        unless!(working_dir.is_none(), working_dir);
        unless!(key_decisions.is_empty(), key_decisions);
        unless!(files_modified.is_empty(), files_modified);
        unless!(tags.is_empty(), tags);
        unless!(metadata.is_empty(), metadata);
        unless!(scope.is_root(), scope);
        unless!(same(*occurred_at, *created_at), occurred_at);
        map.serialize_entry("created_at", created_at)?;
        unless!(same(*updated_at, *created_at), updated_at);
        unless!(importance.to_bits() == IMPORTANCE.to_bits(), importance);
        map.serialize_entry("origin", origin)?;
        unless!(*trust == origin.default_trust(), trust);
        unless!(*status == Status::default(), status);
        unless!(*schema_version == SCHEMA_VERSION, schema_version);
        for (name, value) in extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Whether both are the same moment in the same offset.
fn same(one: Moment, other: Moment) -> bool {
    one == other && one.offset_seconds() == other.offset_seconds()
}

impl Episode {
    /// The record as the store keeps it under its id.
    ///
    /// # Errors
    /// Those of [`Episode::to_json`].
    pub fn to_stored(&self) -> Result<Vec<u8>> {
        let json = serde_json::to_vec(&Stored(self));
        let json = json.map_err(|error| Error::Internal(format!("episode to JSON: {error}")))?;
        if json.len() + LEFT_OUT > MAX_RECORD_BYTES {
            self.to_json()?;
        }
        Ok(json)
    }

    /// Reads what [`Episode::to_stored`] wrote for the record `id`.
    ///
    /// # Errors
    /// Those of [`Episode::from_json`].
    pub fn from_stored(id: RecordId, json: &[u8]) -> Result<Self> {
        codec::read(json, |parsed: &mut Parsed| parsed.complete(id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Origin, Scope, Trust};
    use super::*;

    fn episode() -> Episode {
        let now = Moment::utc(1_700_000_000_000_001);
        let scope: Scope = Scope::root();
        Episode { summary: "x".to_owned(), ..Episode::new(RecordId::new_episode(1), now, scope, Origin::Web) }
    }

    #[test]
    fn only_what_follows_from_the_rest_is_left_out() {
        type Change = fn(&mut Episode);
        let plain = episode();
        let expected = r#"{"summary":"x","created_at":"2023-11-14T22:13:20.000001Z","origin":"web"}"#;
        assert_eq!(String::from_utf8(plain.to_stored().unwrap()).unwrap(), expected);
        let longest = plain.to_json().unwrap().len() - plain.to_stored().unwrap().len();
        assert!(longest + 200 < LEFT_OUT, "{longest}");
        let kept: [(&str, Change); 7] = [
            ("source", |e| e.source = Source::Import),
            ("occurred_at", |e| e.occurred_at = Moment::new(e.created_at.unix_micros(), 3_600).unwrap()),
            ("updated_at", |e| e.updated_at = Moment::utc(e.created_at.unix_micros() + 1)),
            ("importance", |e| e.importance = 0.500_000_000_000_000_1),
            ("trust", |e| e.trust = Trust::Trusted),
            ("status", |e| e.status = Status::Quarantined),
            ("later", |e| drop(e.extra.insert("later".to_owned(), serde_json::json!({"importance": 1})))),
        ];
        for (field, change) in kept {
            let mut other = plain.clone();
            change(&mut other);
            let stored = other.to_stored().unwrap();
            assert!(String::from_utf8_lossy(&stored).contains(&format!("\"{field}\":")), "{field}");
            let read = Episode::from_stored(other.id, &stored).unwrap();
            assert_eq!(read.to_json().unwrap(), other.to_json().unwrap(), "{field}");
        }
    }

    #[test]
    fn what_an_export_lacks_is_not_made_up() {
        let whole: serde_json::Value = serde_json::from_slice(&episode().to_json().unwrap()).unwrap();
        for field in ["id", "occurred_at", "created_at", "updated_at", "importance", "origin", "trust"] {
            let mut json = whole.clone();
            assert!(json.as_object_mut().unwrap().remove(field).is_some());
            let error = Episode::from_json(json.to_string().as_bytes()).unwrap_err().to_string();
            assert!(error.contains(&format!("missing field `{field}`")), "{error}");
        }
        let error = Episode::from_stored(episode().id, br#"{"summary":"x","origin":"user"}"#).unwrap_err();
        assert!(error.to_string().contains("missing field `occurred_at`"), "{error}");
    }

    #[test]
    fn versions_get_clear_words() {
        let newer = br#"{"summary":"x","schema_version":9}"#;
        let error = Episode::from_stored(episode().id, newer).unwrap_err();
        assert!(matches!(error, Error::FormatTooNew { found: 9, .. }), "{error}");
        let zero =
            br#"{"summary":"x","created_at":"2023-11-14T22:13:20Z","origin":"web","schema_version":0}"#;
        let error = Episode::from_stored(episode().id, zero).unwrap_err();
        assert!(error.to_string().contains("schema_version 0"), "{error}");
    }

    #[test]
    fn a_record_over_the_limit_is_refused_as_it_would_be_exported() {
        let mut long = episode();
        let rest = long.to_json().unwrap().len() - 1;
        long.summary = "x".repeat(MAX_RECORD_BYTES - rest);
        assert!(long.to_json().is_ok() && long.to_stored().is_ok());
        long.summary.push('x');
        assert!(matches!(long.to_stored(), Err(Error::InvalidInput { .. })));
    }
}
