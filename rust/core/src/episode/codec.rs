//! The JSON form of a record: what `export` writes; the store keeps the form of [`super::stored`].

use super::parsed::Parsed;
use super::{Episode, MAX_RECORD_BYTES, SCHEMA_VERSION};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Enough of a record to say which version wrote it, when the rest cannot be read.
#[derive(Deserialize)]
struct Versioned {
    schema_version: Option<u64>,
    id: Option<String>,
}

impl Episode {
    /// The record as one JSON object in UTF-8, fields in a fixed order.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when it is larger than 16 MiB.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let json =
            serde_json::to_vec(self).map_err(|error| Error::Internal(format!("episode to JSON: {error}")))?;
        if json.len() > MAX_RECORD_BYTES {
            return Err(Error::invalid(
                "episode",
                format!(
                    "is {} bytes as JSON; at most {MAX_RECORD_BYTES}. Keep long text in a file and remember its path",
                    json.len()
                ),
            ));
        }
        Ok(json)
    }

    /// Reads what [`Episode::to_json`] wrote, keeping fields it does not know.
    ///
    /// # Errors
    /// [`Error::FormatTooNew`] for a newer `schema_version`, [`Error::InvalidInput`] for anything else that is
    /// not a record.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        read(json, |_| {})
    }
}

/// Reads a record after `complete` filled in what may be missing.
pub(super) fn read(json: &[u8], complete: impl FnOnce(&mut Parsed)) -> Result<Episode> {
    let parsed =
        serde_json::from_slice::<Parsed>(json).map_err(|error| error.to_string()).and_then(|mut parsed| {
            complete(&mut parsed);
            parsed.episode().map_err(|field| format!("missing field `{field}`"))
        });
    if let Ok(episode) = &parsed
        && (1..=SCHEMA_VERSION).contains(&episode.schema_version)
    {
        return parsed.map_err(Error::Internal);
    }
    let versioned = serde_json::from_slice::<Versioned>(json);
    let what = match &versioned {
        Ok(Versioned { id: Some(id), .. }) => format!("episode {id}"),
        _ => "episode".to_owned(),
    };
    match versioned.map(|v| v.schema_version) {
        Ok(Some(found)) if found > u64::from(SCHEMA_VERSION) => {
            Err(Error::FormatTooNew { what, found, supported: u64::from(SCHEMA_VERSION) })
        }
        Ok(Some(0)) => Err(Error::invalid(what, "has schema_version 0, which no version of otolith wrote")),
        _ => match parsed {
            Err(error) => Err(Error::invalid(what, format!("is not a record: {error}"))),
            Ok(_) => Err(Error::invalid(what, "has no usable schema_version")),
        },
    }
}

impl Serialize for RecordId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RecordId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MetaValue, Origin, Outcome, Scope};
    use super::*;
    use crate::time::Moment;
    use proptest::prelude::*;

    fn episode(summary: &str) -> Episode {
        let now = Moment::utc(1_700_000_000_000_001);
        let scope: Scope = "team/app".parse().unwrap();
        let mut episode = Episode::new(RecordId::new_episode(1), now, scope, Origin::Web);
        summary.clone_into(&mut episode.summary);
        episode
    }

    #[test]
    fn unknown_fields_survive_a_rewrite() {
        let mut json: serde_json::Value = serde_json::from_slice(&episode("x").to_json().unwrap()).unwrap();
        json["mood"] = serde_json::json!({"calm": [1, 2.5, null]});
        let read = Episode::from_json(json.to_string().as_bytes()).unwrap();
        let again: serde_json::Value = serde_json::from_slice(&read.to_json().unwrap()).unwrap();
        assert_eq!(again["mood"], json["mood"]);
    }

    #[test]
    fn versions_get_clear_words() {
        let json = String::from_utf8(episode("x").to_json().unwrap()).unwrap();
        let newer = json.replace("\"schema_version\":1", "\"schema_version\":999");
        assert!(matches!(Episode::from_json(newer.as_bytes()), Err(Error::FormatTooNew { found: 999, .. })));
        let strange = r#"{"schema_version":7,"id":"a","summary":{"now":"an object"}}"#;
        assert!(matches!(Episode::from_json(strange.as_bytes()), Err(Error::FormatTooNew { found: 7, .. })));
        let zero = json.replace("\"schema_version\":1", "\"schema_version\":0");
        assert!(matches!(Episode::from_json(zero.as_bytes()), Err(Error::InvalidInput { .. })));
        for junk in ["", "[]", "null", "{", "{\"schema_version\":1}"] {
            assert!(matches!(Episode::from_json(junk.as_bytes()), Err(Error::InvalidInput { .. })), "{junk}");
        }
    }

    #[test]
    fn a_record_over_the_limit_is_refused() {
        let long = "x".repeat(MAX_RECORD_BYTES);
        assert!(matches!(episode(&long).to_json(), Err(Error::InvalidInput { .. })));
    }

    proptest! {
        #[test]
        fn any_record_round_trips(
            summary in "\\PC{1,40}",
            body in proptest::option::of(".{0,40}"),
            tags in proptest::collection::vec("\\PC{1,8}", 0..4),
            text in ".{0,10}", int in any::<i64>(), float in -1e300..1e300f64, flag in any::<bool>(),
            micros in -62_000_000_000_000_000i64..250_000_000_000_000_000, offset in -86_000..86_000i32,
        ) {
            let mut e = episode(&summary);
            e.body = body;
            e.tags = tags;
            e.outcome = Some(Outcome::Blocked);
            e.occurred_at = Moment::new(micros, offset).unwrap();
            e.metadata.insert("s".into(), MetaValue::Str(text));
            e.metadata.insert("i".into(), MetaValue::Int(int));
            e.metadata.insert("f".into(), MetaValue::Float(float));
            e.metadata.insert("b".into(), MetaValue::Bool(flag));
            e.metadata.insert("n".into(), MetaValue::Null);
            let json = e.to_json().unwrap();
            let read = Episode::from_json(&json).unwrap();
            prop_assert_eq!(read.occurred_at.offset_seconds(), offset);
            prop_assert_eq!(&read, &e);
            prop_assert_eq!(read.to_json().unwrap(), json.as_slice());
            let stored = Episode::from_stored(e.id, &e.to_stored().unwrap()).unwrap();
            prop_assert_eq!(stored.to_json().unwrap(), json);
        }
    }
}
