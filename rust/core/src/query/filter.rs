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

/// A condition of a filter that was set: its name and whether a record fulfils it.
pub(crate) struct Condition<'a> {
    pub(crate) name: &'static str,
    holds: Box<dyn Fn(&Episode) -> bool + 'a>,
}

impl Condition<'_> {
    pub(crate) fn holds(&self, episode: &Episode) -> bool {
        (self.holds)(episode)
    }
}

impl Filter {
    /// Whether the record fulfils every condition.
    pub fn matches(&self, episode: &Episode) -> bool {
        self.serves(episode) && self.conditions().iter().all(|condition| condition.holds(episode))
    }

    /// Whether the record has the status that is asked for, active unless said otherwise.
    pub(crate) fn serves(&self, episode: &Episode) -> bool {
        episode.status == self.status.unwrap_or(Status::Active)
    }

    /// Whether no condition is set.
    pub fn is_empty(&self) -> bool {
        self.status.is_none() && self.conditions().is_empty()
    }

    /// The conditions that are set, in the order of the fields.
    pub(crate) fn conditions(&self) -> Vec<Condition<'_>> {
        type Field = fn(&Episode) -> &Option<String>;
        fn exact<'a>(
            list: &mut Vec<Condition<'a>>,
            name: &'static str,
            wanted: Option<&'a String>,
            field: Field,
        ) {
            if let Some(wanted) = wanted {
                list.push(Condition { name, holds: Box::new(move |e| field(e).as_ref() == Some(wanted)) });
            }
        }
        let mut list: Vec<Condition<'_>> = Vec::new();
        if let Some(ids) = &self.ids {
            let ids = sorted(ids);
            list.push(Condition { name: "ids", holds: Box::new(move |e| ids.binary_search(&e.id).is_ok()) });
        }
        if !self.not_ids.is_empty() {
            let ids = sorted(&self.not_ids);
            list.push(Condition {
                name: "not_ids",
                holds: Box::new(move |e| ids.binary_search(&e.id).is_err()),
            });
        }
        if let Some(kinds) = &self.kinds {
            list.push(Condition { name: "kinds", holds: Box::new(|_| kinds.contains(&Kind::Episode)) });
        }
        exact(&mut list, "key", self.key.as_ref(), |e| &e.key);
        if let Some(scope) = self.scope.as_ref().filter(|scope| !scope.is_root()) {
            list.push(Condition { name: "scope", holds: Box::new(move |e| scope.contains(&e.scope)) });
        }
        exact(&mut list, "user_id", self.user_id.as_ref(), |e| &e.user_id);
        exact(&mut list, "agent_id", self.agent_id.as_ref(), |e| &e.agent_id);
        exact(&mut list, "session_id", self.session_id.as_ref(), |e| &e.session_id);
        exact(&mut list, "task_id", self.task_id.as_ref(), |e| &e.task_id);
        if let Some(dir) = &self.working_dir {
            let below = self.below;
            let holds = move |e: &Episode| e.working_dir.as_deref().is_some_and(|at| in_dir(at, dir, below));
            list.push(Condition { name: "working_dir", holds: Box::new(holds) });
        }
        if !self.tags.is_empty() {
            list.push(Condition {
                name: "tags",
                holds: Box::new(|e| self.tags.iter().all(|tag| e.tags.contains(tag))),
            });
        }
        if let Some(wanted) = self.outcome {
            list.push(Condition { name: "outcome", holds: Box::new(move |e| e.outcome == Some(wanted)) });
        }
        if let Some(wanted) = self.source {
            list.push(Condition { name: "source", holds: Box::new(move |e| e.source == wanted) });
        }
        exact(&mut list, "actor", self.actor.as_ref(), |e| &e.actor);
        if let Some(wanted) = self.origin {
            list.push(Condition { name: "origin", holds: Box::new(move |e| e.origin == wanted) });
        }
        if let Some(wanted) = self.trust {
            list.push(Condition { name: "trust", holds: Box::new(move |e| e.trust == wanted) });
        }
        if let Some(since) = self.since {
            list.push(Condition { name: "since", holds: Box::new(move |e| e.occurred_at >= since) });
        }
        if let Some(until) = self.until {
            list.push(Condition { name: "until", holds: Box::new(move |e| e.occurred_at < until) });
        }
        if !self.metadata.is_empty() {
            let holds = |e: &Episode| {
                self.metadata
                    .iter()
                    .all(|(name, wanted)| e.metadata.get(name).is_some_and(|v| v.matches(wanted)))
            };
            list.push(Condition { name: "metadata", holds: Box::new(holds) });
        }
        list
    }
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
