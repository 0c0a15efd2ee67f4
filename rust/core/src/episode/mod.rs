//! Plain data: what an agent wrote down, and how it is checked, changed and put into JSON.

mod codec;
mod embedded;
mod kinds;
mod parsed;
mod patch;
mod scope;
mod stored;

pub use embedded::{EMBEDDED_TEXT_VERSION, EmbeddedText};
pub use kinds::{MetaValue, Origin, Outcome, Source, Status, Trust};
pub use patch::EpisodePatch;
pub use scope::Scope;

use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::time::Moment;
use crate::unicode::is_blank;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the record layout that this build writes, and the newest that it reads.
pub const SCHEMA_VERSION: u32 = 1;
/// Largest record accepted, in bytes of its JSON form.
pub const MAX_RECORD_BYTES: usize = 16 << 20;
/// Longest key, scope, directory and other names that become part of a store key, in bytes.
pub const MAX_NAME_BYTES: usize = 4096;

/// One remembered thing: a task that was done, a decision, something that was said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Episode {
    /// Identity, also the order of creation.
    pub id: RecordId,
    /// Idempotency key, unique within the scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The memory itself, one sentence or a page; never blank.
    pub summary: String,
    /// Longer text, searched with less weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Short name, searched with more weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How the task ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What kind of event it comes from.
    pub source: Source,
    /// Who said or did it; searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Exact filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Exact filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Exact filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Exact filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Normalised absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// What was decided; searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub key_decisions: Vec<String>,
    /// Paths, searched whole and in parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// Labels; searched and filtered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Equality filters, never searched.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, MetaValue>,
    /// Path of the namespace the record lives in.
    #[serde(skip_serializing_if = "Scope::is_root")]
    pub scope: Scope,
    /// When it happened, in the offset it was given with.
    pub occurred_at: Moment,
    /// When it was first stored.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Moment,
    /// 0 to 1.
    pub importance: f64,
    /// Who wrote it.
    pub origin: Origin,
    /// Whether its text may be relied on.
    pub trust: Trust,
    /// Whether it is served.
    pub status: Status,
    /// Layout version it was written with.
    pub schema_version: u32,
    /// Fields this build does not know; kept on every rewrite.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Episode {
    /// A record with defaults: blank summary, everything else empty, times all `now`.
    ///
    /// It is not valid before a patch gives it a summary; see [`Episode::validate`].
    pub fn new(id: RecordId, now: Moment, scope: Scope, origin: Origin) -> Self {
        Self {
            id,
            key: None,
            summary: String::new(),
            body: None,
            title: None,
            outcome: None,
            source: Source::default(),
            actor: None,
            agent_id: None,
            task_id: None,
            session_id: None,
            user_id: None,
            working_dir: None,
            key_decisions: Vec::new(),
            files_modified: Vec::new(),
            tags: Vec::new(),
            metadata: BTreeMap::new(),
            scope,
            occurred_at: now,
            created_at: now,
            updated_at: now,
            importance: parsed::IMPORTANCE,
            origin,
            trust: origin.default_trust(),
            status: Status::Active,
            schema_version: SCHEMA_VERSION,
            extra: serde_json::Map::new(),
        }
    }

    /// Checks every rule a stored record keeps.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] naming the field and what would be accepted.
    pub fn validate(&self) -> Result<()> {
        if is_blank(&self.summary) {
            return Err(Error::invalid("summary", "is blank; write at least one word"));
        }
        let texts = [
            ("summary", Some(&self.summary)),
            ("body", self.body.as_ref()),
            ("title", self.title.as_ref()),
            ("actor", self.actor.as_ref()),
        ];
        for (field, text) in texts {
            check_text(field, text.map_or("", String::as_str))?;
        }
        let names = [
            ("key", &self.key),
            ("agent_id", &self.agent_id),
            ("task_id", &self.task_id),
            ("session_id", &self.session_id),
            ("user_id", &self.user_id),
            ("working_dir", &self.working_dir),
        ];
        for (field, name) in names {
            if let Some(name) = name {
                check_name(field, name)?;
            }
        }
        if let Some(dir) = &self.working_dir
            && normalize_dir(dir)? != *dir
        {
            return Err(Error::invalid("working_dir", format!("{dir:?} is not in its normal form")));
        }
        for (field, list) in [
            ("key_decisions", &self.key_decisions),
            ("files_modified", &self.files_modified),
            ("tags", &self.tags),
        ] {
            for item in list {
                check_text(field, item)?;
                if is_blank(item) {
                    return Err(Error::invalid(field, "holds a blank item; leave it out"));
                }
            }
        }
        for (name, value) in &self.metadata {
            check_name("metadata", name)?;
            value.validate(name)?;
        }
        if !(0.0..=1.0).contains(&self.importance) {
            return Err(Error::invalid("importance", format!("{} is outside 0 to 1", self.importance)));
        }
        Ok(())
    }
}

/// Text may hold anything but NUL, which ends strings in too many places to be safe.
fn check_text(field: &str, text: &str) -> Result<()> {
    if text.contains('\0') {
        return Err(Error::invalid(field, "holds a NUL character; remove it"));
    }
    Ok(())
}

fn check_name(field: &str, name: &str) -> Result<()> {
    check_text(field, name)?;
    if is_blank(name) {
        return Err(Error::invalid(field, "is blank; leave it out instead"));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(
            field,
            "holds a control character such as a line break; a name is one line",
        ));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(Error::invalid(field, format!("is {} bytes long; at most {MAX_NAME_BYTES}", name.len())));
    }
    Ok(())
}

/// Normalises an absolute path by its text alone: `.` and `..` resolved, separators single, no final one.
///
/// Drive letters and network paths are accepted and written with forward slashes (`C:/work`, `\\\\server/share`), so
/// that one directory has one spelling.
///
/// # Errors
/// [`Error::InvalidInput`] for a relative path: what it is relative to is not known here.
pub fn normalize_dir(path: &str) -> Result<String> {
    check_name("working_dir", path)?;
    let drive = matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let network = path.starts_with("\\\\");
    let slashed = if drive || network { path.replace('\\', "/") } else { path.to_owned() };
    let (root, rest) = if drive {
        let (letter, rest) = slashed.split_at(2);
        (format!("{}/", letter.to_ascii_uppercase()), rest)
    } else {
        (if network { "\\\\" } else { "/" }.to_owned(), slashed.as_str())
    };
    if !rest.starts_with('/') {
        return Err(Error::invalid("working_dir", format!("{path:?} is not an absolute path")));
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Ok(format!("{root}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode() -> Episode {
        let now = Moment::utc(1_700_000_000_000_000);
        let mut episode = Episode::new(RecordId::new_episode(1), now, Scope::root(), Origin::Assistant);
        "fixed the build".clone_into(&mut episode.summary);
        episode
    }

    #[test]
    fn each_rule_names_its_field() {
        type Spoil = fn(&mut Episode);
        let broken: [(&str, Spoil); 13] = [
            ("summary", |e| e.summary = " \n\t".into()),
            ("summary", |e| e.summary = "\u{200B}\u{FEFF} ".into()),
            ("user_id", |e| e.user_id = Some("a\nb".into())),
            ("working_dir", |e| e.working_dir = Some("/a/../b".into())),
            ("summary", |e| e.summary = "a\0b".into()),
            ("body", |e| e.body = Some("\0".into())),
            ("key", |e| e.key = Some(" ".into())),
            ("key", |e| e.key = Some("k".repeat(MAX_NAME_BYTES + 1))),
            ("tags", |e| e.tags = vec!["ok".into(), String::new()]),
            ("importance", |e| e.importance = f64::NAN),
            ("importance", |e| e.importance = 1.01),
            ("metadata", |e| drop(e.metadata.insert(String::new(), MetaValue::Null))),
            ("metadata", |e| drop(e.metadata.insert("x".into(), MetaValue::Float(f64::INFINITY)))),
        ];
        assert!(episode().validate().is_ok());
        for (field, spoil) in broken {
            let mut bad = episode();
            spoil(&mut bad);
            match bad.validate() {
                Err(Error::InvalidInput { field: named, .. }) => {
                    assert!(named.starts_with(field), "{named} for {field}");
                }
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn directories_have_one_spelling() {
        for (given, wanted) in [
            ("/a/b/", "/a/b"),
            ("//a//./b/../c", "/a/c"),
            ("/", "/"),
            ("/../..", "/"),
            ("c:\\Work\\x\\", "C:/Work/x"),
            ("/项目/记忆", "/项目/记忆"),
            ("\\\\srv\\share\\x\\..", "\\\\srv/share"),
            ("\\\\srv/share", "\\\\srv/share"),
            ("//srv/share", "/srv/share"),
        ] {
            assert_eq!(normalize_dir(given).unwrap(), wanted);
        }
        for bad in ["", "a/b", "./x", "C:x", "\0"] {
            assert!(normalize_dir(bad).is_err(), "{bad:?}");
        }
    }
}
