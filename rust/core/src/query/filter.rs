//! Filters over records: all conditions must hold, absent ones hold always.

use crate::episode::{Episode, MetaValue, Origin, Outcome, Scope, Source, Status, Trust};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::time::Moment;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Something remembered.
    Episode,
    /// A section of a Markdown file.
    Section,
}

impl Kind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Episode => "episode",
            Self::Section => "section",
        }
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        match word {
            "episode" => Ok(Self::Episode),
            "section" => Ok(Self::Section),
            _ => Err(Error::invalid("kinds", format!("{word:?} is not one of episode, section"))),
        }
    }
}

/// Conditions on records. `Filter::default()` holds for every record that is served.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Only these records.
    pub ids: Option<Vec<RecordId>>,
    /// Never these records.
    pub not_ids: Vec<RecordId>,
    /// Only these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Exact.
    pub key: Option<String>,
    /// This scope and everything below it.
    pub scope: Option<Scope>,
    /// Exact.
    pub user_id: Option<String>,
    /// Exact.
    pub agent_id: Option<String>,
    /// Exact.
    pub session_id: Option<String>,
    /// Exact.
    pub task_id: Option<String>,
    /// This directory (normalised); with `below` also everything under it.
    pub working_dir: Option<String>,
    /// Whether `working_dir` includes what lies below.
    pub below: bool,
    /// All of these.
    pub tags: Vec<String>,
    /// Exact.
    pub outcome: Option<Outcome>,
    /// Exact.
    pub source: Option<Source>,
    /// Exact.
    pub actor: Option<String>,
    /// Exact.
    pub origin: Option<Origin>,
    /// Exact.
    pub trust: Option<Trust>,
    /// `occurred_at` at or after.
    pub since: Option<Moment>,
    /// `occurred_at` before.
    pub until: Option<Moment>,
    /// All of these pairs, by value.
    pub metadata: BTreeMap<String, MetaValue>,
    /// Exact; absent means active.
    pub status: Option<Status>,
}

/// A condition of a filter that was set. Whoever evaluates filters goes by these, so that names, order and meaning are
/// the same for records in memory and for the columns of a segment.
#[derive(Debug)]
pub(crate) enum Condition<'a> {
    /// One of these, in rising order.
    Ids(Vec<RecordId>),
    /// None of these, in rising order.
    NotIds(Vec<RecordId>),
    Kinds(&'a [Kind]),
    /// The field is there and is this text.
    Exact(TextField, &'a str),
    /// In this scope, which is not the root, or below.
    Scope(&'a Scope),
    /// In this directory, or also below it.
    WorkingDir {
        dir: &'a str,
        below: bool,
    },
    /// All of these.
    Tags(&'a [String]),
    Outcome(Outcome),
    Source(Source),
    Origin(Origin),
    Trust(Trust),
    /// `occurred_at` at or after.
    Since(Moment),
    /// `occurred_at` before.
    Until(Moment),
    /// All of these pairs, as [`MetaValue::matches`] compares.
    Metadata(&'a BTreeMap<String, MetaValue>),
}

/// An optional text of a record that is compared whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextField {
    Key,
    UserId,
    AgentId,
    SessionId,
    TaskId,
    Actor,
}

impl TextField {
    fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::UserId => "user_id",
            Self::AgentId => "agent_id",
            Self::SessionId => "session_id",
            Self::TaskId => "task_id",
            Self::Actor => "actor",
        }
    }

    fn of(self, episode: &Episode) -> Option<&str> {
        match self {
            Self::Key => episode.key.as_deref(),
            Self::UserId => episode.user_id.as_deref(),
            Self::AgentId => episode.agent_id.as_deref(),
            Self::SessionId => episode.session_id.as_deref(),
            Self::TaskId => episode.task_id.as_deref(),
            Self::Actor => episode.actor.as_deref(),
        }
    }
}

impl Condition<'_> {
    /// Name of the field of the filter.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ids(_) => "ids",
            Self::NotIds(_) => "not_ids",
            Self::Kinds(_) => "kinds",
            Self::Exact(field, _) => field.name(),
            Self::Scope(_) => "scope",
            Self::WorkingDir { .. } => "working_dir",
            Self::Tags(_) => "tags",
            Self::Outcome(_) => "outcome",
            Self::Source(_) => "source",
            Self::Origin(_) => "origin",
            Self::Trust(_) => "trust",
            Self::Since(_) => "since",
            Self::Until(_) => "until",
            Self::Metadata(_) => "metadata",
        }
    }

    /// Whether the record fulfils it.
    pub(crate) fn holds(&self, episode: &Episode) -> bool {
        match self {
            Self::Ids(ids) => ids.binary_search(&episode.id).is_ok(),
            Self::NotIds(ids) => ids.binary_search(&episode.id).is_err(),
            Self::Kinds(kinds) => kinds.contains(&Kind::Episode),
            Self::Exact(field, wanted) => field.of(episode) == Some(wanted),
            Self::Scope(scope) => scope.contains(&episode.scope),
            Self::WorkingDir { dir, below } => {
                episode.working_dir.as_deref().is_some_and(|at| in_dir(at, dir, *below))
            }
            Self::Tags(tags) => tags.iter().all(|tag| episode.tags.contains(tag)),
            Self::Outcome(wanted) => episode.outcome == Some(*wanted),
            Self::Source(wanted) => episode.source == *wanted,
            Self::Origin(wanted) => episode.origin == *wanted,
            Self::Trust(wanted) => episode.trust == *wanted,
            Self::Since(since) => episode.occurred_at >= *since,
            Self::Until(until) => episode.occurred_at < *until,
            Self::Metadata(pairs) => pairs
                .iter()
                .all(|(name, wanted)| episode.metadata.get(name).is_some_and(|v| v.matches(wanted))),
        }
    }
}

impl Filter {
    /// Whether the record fulfils every condition.
    pub fn matches(&self, episode: &Episode) -> bool {
        self.serves(episode) && self.conditions().iter().all(|condition| condition.holds(episode))
    }

    /// Whether the record has the status that is asked for.
    pub(crate) fn serves(&self, episode: &Episode) -> bool {
        episode.status == self.wanted_status()
    }

    /// The status that is asked for, active unless said otherwise.
    pub(crate) fn wanted_status(&self) -> Status {
        self.status.unwrap_or(Status::Active)
    }

    /// Whether no condition is set.
    pub fn is_empty(&self) -> bool {
        self.status.is_none() && self.conditions().is_empty()
    }

    /// The conditions that are set, in the order of the fields.
    pub(crate) fn conditions(&self) -> Vec<Condition<'_>> {
        let set = [
            self.ids.as_deref().map(|ids| Condition::Ids(sorted(ids))),
            (!self.not_ids.is_empty()).then(|| Condition::NotIds(sorted(&self.not_ids))),
            self.kinds.as_deref().map(Condition::Kinds),
            exact(TextField::Key, self.key.as_ref()),
            self.scope.as_ref().filter(|scope| !scope.is_root()).map(Condition::Scope),
            exact(TextField::UserId, self.user_id.as_ref()),
            exact(TextField::AgentId, self.agent_id.as_ref()),
            exact(TextField::SessionId, self.session_id.as_ref()),
            exact(TextField::TaskId, self.task_id.as_ref()),
            self.working_dir.as_deref().map(|dir| Condition::WorkingDir { dir, below: self.below }),
            (!self.tags.is_empty()).then_some(Condition::Tags(&self.tags)),
            self.outcome.map(Condition::Outcome),
            self.source.map(Condition::Source),
            exact(TextField::Actor, self.actor.as_ref()),
            self.origin.map(Condition::Origin),
            self.trust.map(Condition::Trust),
            self.since.map(Condition::Since),
            self.until.map(Condition::Until),
            (!self.metadata.is_empty()).then_some(Condition::Metadata(&self.metadata)),
        ];
        set.into_iter().flatten().collect()
    }
}

/// A condition that a field is this text, when it is set.
fn exact(field: TextField, wanted: Option<&String>) -> Option<Condition<'_>> {
    wanted.map(|wanted| Condition::Exact(field, wanted))
}

fn sorted(ids: &[RecordId]) -> Vec<RecordId> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

/// Whether the directory `at` is `dir`, or with `below` lies under it.
fn in_dir(at: &str, dir: &str, below: bool) -> bool {
    if at == dir {
        return true;
    }
    let Some(rest) = at.strip_prefix(dir) else { return false };
    // The root directory already ends in the separator.
    below && (rest.starts_with('/') || dir.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn episode() -> Episode {
        let at: Moment = "2026-04-08T09:14:00Z".parse().unwrap();
        let mut e = Episode::new(RecordId::new_episode(1), at, "a/b".parse().unwrap(), Origin::User);
        e.summary = "x".into();
        e.working_dir = Some("/srv/app".into());
        e.tags = vec!["rust".into(), "db".into()];
        e.user_id = Some("ada".into());
        e.key = Some("k1".into());
        e.metadata.insert("run".into(), MetaValue::Int(7));
        e
    }

    #[test]
    fn conditions_have_the_names_and_the_order_of_the_fields() {
        let text = || Some("x".to_owned());
        let now = Moment::utc(1);
        let filter = Filter {
            ids: Some(vec![]),
            not_ids: vec![RecordId::new_episode(1)],
            kinds: Some(vec![]),
            key: text(),
            scope: Some("a".parse().unwrap()),
            user_id: text(),
            agent_id: text(),
            session_id: text(),
            task_id: text(),
            working_dir: text(),
            below: true,
            tags: vec!["x".into()],
            outcome: Some(Outcome::Success),
            source: Some(Source::Task),
            actor: text(),
            origin: Some(Origin::User),
            trust: Some(Trust::Trusted),
            since: Some(now),
            until: Some(now),
            metadata: [("x".into(), MetaValue::Null)].into(),
            status: Some(Status::Active),
        };
        let names: Vec<&str> = filter.conditions().iter().map(Condition::name).collect();
        let wanted = "ids not_ids kinds key scope user_id agent_id session_id task_id working_dir tags outcome \
            source actor origin trust since until metadata";
        assert_eq!(names.join(" "), wanted);
        let root = Filter { scope: Some(Scope::root()), status: None, ..Filter::default() };
        assert!(root.is_empty() && !Filter { status: Some(Status::Active), ..Filter::default() }.is_empty());
    }

    #[test]
    fn every_condition_includes_and_excludes() {
        let e = episode();
        let other = RecordId::new_episode(1);
        let s = |text: &str| Some(text.to_owned());
        let cases: Vec<(Filter, Filter)> = vec![
            (
                Filter { ids: Some(vec![other, e.id]), ..Filter::default() },
                Filter { ids: Some(vec![]), ..Filter::default() },
            ),
            (
                Filter { not_ids: vec![other], ..Filter::default() },
                Filter { not_ids: vec![e.id], ..Filter::default() },
            ),
            (
                Filter { kinds: Some(vec![Kind::Episode]), ..Filter::default() },
                Filter { kinds: Some(vec![Kind::Section]), ..Filter::default() },
            ),
            (
                Filter { scope: Some("a".parse().unwrap()), ..Filter::default() },
                Filter { scope: Some("a/b/c".parse().unwrap()), ..Filter::default() },
            ),
            (Filter { key: s("k1"), ..Filter::default() }, Filter { key: s("k"), ..Filter::default() }),
            (
                Filter { user_id: s("ada"), ..Filter::default() },
                Filter { user_id: s("Ada"), ..Filter::default() },
            ),
            (
                Filter { working_dir: s("/srv"), below: true, ..Filter::default() },
                Filter { working_dir: s("/srv"), ..Filter::default() },
            ),
            (
                Filter { working_dir: s("/"), below: true, ..Filter::default() },
                Filter { working_dir: s("/sr"), below: true, ..Filter::default() },
            ),
            (
                Filter { tags: vec!["db".into(), "rust".into()], ..Filter::default() },
                Filter { tags: vec!["db".into(), "go".into()], ..Filter::default() },
            ),
            (
                Filter { since: Some(e.occurred_at), ..Filter::default() },
                Filter { until: Some(e.occurred_at), ..Filter::default() },
            ),
            (
                Filter { metadata: [("run".into(), MetaValue::Float(7.0))].into(), ..Filter::default() },
                Filter { metadata: [("run".into(), MetaValue::Str("7".into()))].into(), ..Filter::default() },
            ),
            (
                Filter { status: Some(Status::Active), ..Filter::default() },
                Filter { status: Some(Status::Quarantined), ..Filter::default() },
            ),
            (
                Filter { trust: Some(Trust::Trusted), origin: Some(Origin::User), ..Filter::default() },
                Filter { outcome: Some(Outcome::Success), ..Filter::default() },
            ),
        ];
        for (yes, no) in cases {
            assert!(yes.matches(&e), "{yes:?}");
            assert!(!no.matches(&e), "{no:?}");
        }
        let mut hidden = e;
        hidden.status = Status::Quarantined;
        assert!(!Filter::default().matches(&hidden));
    }
}
