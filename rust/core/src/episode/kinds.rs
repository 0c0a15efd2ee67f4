//! The small closed vocabularies of a record.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An enum that is one lower-case word in JSON, Python and on the command line.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $field:literal, { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every word, in order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(word: &str) -> Result<Self> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(Error::invalid($field, format!("{word:?} is not one of {}", Self::WORDS.join(", ")))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// How a task ended.
    Outcome, "outcome", {
        /// Done as asked.
        Success = "success",
        /// Tried and failed.
        Failure = "failure",
        /// Waits for something outside.
        Blocked = "blocked",
        /// Given up on purpose.
        Cancelled = "cancelled",
    }
}

words! {
    /// What kind of event a record comes from.
    #[derive(Default)]
    Source, "source", {
        /// A task an agent worked on.
        #[default]
        Task = "task",
        /// Something said.
        Conversation = "conversation",
        /// A document that was read.
        Document = "document",
        /// Brought in from another system.
        Import = "import",
    }
}

words! {
    /// Who wrote a record.
    Origin, "origin", {
        /// The person.
        User = "user",
        /// The agent itself.
        Assistant = "assistant",
        /// Output of a tool.
        Tool = "tool",
        /// Text from the web.
        Web = "web",
        /// Another system's export.
        Import = "import",
    }
}

impl Origin {
    /// User and assistant are trusted, the rest is not.
    pub fn default_trust(self) -> Trust {
        match self {
            Self::User | Self::Assistant => Trust::Trusted,
            Self::Tool | Self::Web | Self::Import => Trust::Untrusted,
        }
    }
}

words! {
    /// Whether the text of a record may be relied on.
    Trust, "trust", {
        /// Written by the user or the assistant, or approved.
        Trusted = "trusted",
        /// Everything else.
        Untrusted = "untrusted",
    }
}

words! {
    /// Whether a record is served.
    #[derive(Default)]
    Status, "status", {
        /// Recalled and rendered.
        #[default]
        Active = "active",
        /// Kept, but neither recalled nor rendered until approved.
        Quarantined = "quarantined",
    }
}

/// A metadata value: compared for equality by filters, never searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MetaValue {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// A finite number.
    Float(f64),
    /// Text.
    Str(String),
}

impl MetaValue {
    /// Equality as filters see it: `1` equals `1.0`, `true` equals nothing but `true`.
    pub fn matches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Float(b)) | (Self::Float(b), Self::Int(a)) => {
                // Only exact: from 2^53 on a float stands for more than one whole number.
                (*b - *a as f64).abs() == 0.0 && b.abs() < 9_007_199_254_740_992.0
            }
            (a, b) => a == b,
        }
    }

    pub(super) fn validate(&self, name: &str) -> Result<()> {
        match self {
            Self::Float(value) if !value.is_finite() => {
                Err(Error::invalid(format!("metadata.{name}"), "is not a finite number; JSON cannot hold it"))
            }
            Self::Str(text) => super::check_text(&format!("metadata.{name}"), text),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_and_unknown_ones_list_the_known() {
        for word in Outcome::WORDS {
            assert_eq!(word.parse::<Outcome>().unwrap().as_str(), *word);
            assert_eq!(
                serde_json::to_string(&word.parse::<Outcome>().unwrap()).unwrap(),
                format!("\"{word}\"")
            );
        }
        assert!("ok".parse::<Outcome>().unwrap_err().to_string().contains("success, failure"));
    }

    #[test]
    fn numbers_match_by_value_and_booleans_do_not() {
        assert!(MetaValue::Int(1).matches(&MetaValue::Float(1.0)));
        assert!(!MetaValue::Int(1).matches(&MetaValue::Bool(true)));
        assert!(!MetaValue::Str("1".into()).matches(&MetaValue::Int(1)));
        assert!(!MetaValue::Int(9_007_199_254_740_993).matches(&MetaValue::Float(9_007_199_254_740_992.0)));
    }
}
