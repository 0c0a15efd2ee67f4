//! The columns that hold at most one text for each document.

use crate::episode::{Episode, Outcome};
use crate::query::{Kind, TextField};
use crate::sections::SectionName;

/// A column of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Status,
    Outcome,
    Source,
    Origin,
    Trust,
    Kind,
    Scope,
    Key,
    UserId,
    AgentId,
    SessionId,
    TaskId,
    WorkingDir,
    Actor,
}

/// Where the parts of a column lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextSections {
    pub(super) values: SectionName,
    pub(super) ends: SectionName,
    pub(super) ordinals: SectionName,
}

macro_rules! sections {
    ($code:literal) => {
        const {
            TextSections {
                values: SectionName::new(concat!("c.", $code, ".v")),
                ends: SectionName::new(concat!("c.", $code, ".e")),
                ordinals: SectionName::new(concat!("c.", $code, ".o")),
            }
        }
    };
}

impl Field {
    /// All of them; the position of each is `self as usize`.
    pub(crate) const ALL: [Self; 14] = [
        Self::Status,
        Self::Outcome,
        Self::Source,
        Self::Origin,
        Self::Trust,
        Self::Kind,
        Self::Scope,
        Self::Key,
        Self::UserId,
        Self::AgentId,
        Self::SessionId,
        Self::TaskId,
        Self::WorkingDir,
        Self::Actor,
    ];

    pub(super) fn sections(self) -> TextSections {
        match self {
            Self::Status => sections!("stat"),
            Self::Outcome => sections!("outc"),
            Self::Source => sections!("srce"),
            Self::Origin => sections!("orig"),
            Self::Trust => sections!("trst"),
            Self::Kind => sections!("kind"),
            Self::Scope => sections!("scop"),
            Self::Key => sections!("key"),
            Self::UserId => sections!("user"),
            Self::AgentId => sections!("agnt"),
            Self::SessionId => sections!("sess"),
            Self::TaskId => sections!("task"),
            Self::WorkingDir => sections!("dir"),
            Self::Actor => sections!("actr"),
        }
    }

    /// The text of a record; the root scope is no text.
    pub(crate) fn of(self, episode: &Episode) -> Option<&str> {
        match self {
            Self::Status => Some(episode.status.as_str()),
            Self::Outcome => episode.outcome.map(Outcome::as_str),
            Self::Source => Some(episode.source.as_str()),
            Self::Origin => Some(episode.origin.as_str()),
            Self::Trust => Some(episode.trust.as_str()),
            Self::Kind => Some(Kind::Episode.as_str()),
            Self::Scope => Some(episode.scope.as_str()).filter(|scope| !scope.is_empty()),
            Self::Key => episode.key.as_deref(),
            Self::UserId => episode.user_id.as_deref(),
            Self::AgentId => episode.agent_id.as_deref(),
            Self::SessionId => episode.session_id.as_deref(),
            Self::TaskId => episode.task_id.as_deref(),
            Self::WorkingDir => episode.working_dir.as_deref(),
            Self::Actor => episode.actor.as_deref(),
        }
    }
}

impl From<TextField> for Field {
    fn from(field: TextField) -> Self {
        match field {
            TextField::Key => Self::Key,
            TextField::UserId => Self::UserId,
            TextField::AgentId => Self::AgentId,
            TextField::SessionId => Self::SessionId,
            TextField::TaskId => Self::TaskId,
            TextField::Actor => Self::Actor,
        }
    }
}
