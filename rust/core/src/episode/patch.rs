//! Changes to a record, used alike for new ones and for updates.

use super::{Episode, MetaValue, Origin, Outcome, Scope, Source, Trust, normalize_dir};
use crate::error::{Error, Result};
use crate::time::Moment;
use std::collections::BTreeMap;

/// The fields to set. An absent field stays as it is; `Some(None)` empties a field that may be empty.
#[derive(Debug, Clone, Default, PartialEq)]
#[allow(missing_docs, reason = "the fields are those of `Episode`, documented there")]
pub struct EpisodePatch {
    pub key: Option<Option<String>>,
    pub summary: Option<String>,
    pub body: Option<Option<String>>,
    pub title: Option<Option<String>>,
    pub outcome: Option<Option<Outcome>>,
    pub source: Option<Source>,
    pub actor: Option<Option<String>>,
    pub agent_id: Option<Option<String>>,
    pub task_id: Option<Option<String>>,
    pub session_id: Option<Option<String>>,
    pub user_id: Option<Option<String>>,
    pub working_dir: Option<Option<String>>,
    pub key_decisions: Option<Vec<String>>,
    pub files_modified: Option<Vec<String>>,
    pub tags: Option<Vec<String>>,
    pub metadata: Option<BTreeMap<String, MetaValue>>,
    pub scope: Option<Scope>,
    pub occurred_at: Option<Moment>,
    pub importance: Option<f64>,
    pub origin: Option<Origin>,
    pub trust: Option<Trust>,
}

impl EpisodePatch {
    /// Sets the fields on `episode` and checks the result.
    ///
    /// Trust can be lowered here and follows an origin that is not trusted; it is never raised.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] naming the field; `episode` is then in no defined state and must be dropped.
    pub fn apply(self, episode: &mut Episode) -> Result<()> {
        fn set<T>(slot: &mut T, value: Option<T>) {
            if let Some(value) = value {
                *slot = value;
            }
        }
        set(&mut episode.key, self.key);
        set(&mut episode.summary, self.summary);
        set(&mut episode.body, self.body);
        set(&mut episode.title, self.title);
        set(&mut episode.outcome, self.outcome);
        set(&mut episode.source, self.source);
        set(&mut episode.actor, self.actor);
        set(&mut episode.agent_id, self.agent_id);
        set(&mut episode.task_id, self.task_id);
        set(&mut episode.session_id, self.session_id);
        set(&mut episode.user_id, self.user_id);
        if let Some(dir) = self.working_dir {
            episode.working_dir = dir.as_deref().map(normalize_dir).transpose()?;
        }
        set(&mut episode.key_decisions, self.key_decisions);
        set(&mut episode.files_modified, self.files_modified);
        set(&mut episode.tags, self.tags);
        set(&mut episode.metadata, self.metadata);
        set(&mut episode.scope, self.scope);
        set(&mut episode.occurred_at, self.occurred_at);
        set(&mut episode.importance, self.importance);
        if let Some(origin) = self.origin {
            episode.origin = origin;
            if origin.default_trust() == Trust::Untrusted {
                episode.trust = Trust::Untrusted;
            }
        }
        match self.trust {
            Some(Trust::Trusted) if episode.trust == Trust::Untrusted => {
                return Err(Error::invalid(
                    "trust",
                    format!(
                        "cannot be raised by a write of origin {}; look at the record, then use Memory.trust(id)",
                        episode.origin
                    ),
                ));
            }
            trust => set(&mut episode.trust, trust),
        }
        episode.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RecordId;

    fn blank(origin: Origin) -> Episode {
        Episode::new(RecordId::new_episode(1), Moment::utc(0), Scope::root(), origin)
    }

    #[test]
    fn trust_is_lowered_but_never_raised() {
        let say =
            |trust| EpisodePatch { summary: Some("x".into()), trust: Some(trust), ..EpisodePatch::default() };
        let mut own = blank(Origin::User);
        say(Trust::Untrusted).apply(&mut own).unwrap();
        assert_eq!(own.trust, Trust::Untrusted);
        assert!(say(Trust::Trusted).apply(&mut own).is_err());
        assert!(say(Trust::Trusted).apply(&mut blank(Origin::Web)).is_err());
        let mut moved = blank(Origin::User);
        let to_web =
            EpisodePatch { summary: Some("x".into()), origin: Some(Origin::Web), ..EpisodePatch::default() };
        to_web.apply(&mut moved).unwrap();
        assert_eq!(moved.trust, Trust::Untrusted);
    }

    #[test]
    fn absent_fields_stay_and_given_ones_change() {
        let mut episode = blank(Origin::User);
        let first = EpisodePatch {
            summary: Some("x".into()),
            title: Some(Some("t".into())),
            working_dir: Some(Some("/a/./b/".into())),
            ..EpisodePatch::default()
        };
        first.apply(&mut episode).unwrap();
        let second = EpisodePatch { title: Some(None), ..EpisodePatch::default() };
        second.apply(&mut episode).unwrap();
        assert_eq!(
            (episode.summary.as_str(), &episode.title, episode.working_dir.as_deref()),
            ("x", &None, Some("/a/b"))
        );
    }
}
