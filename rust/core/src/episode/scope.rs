//! Namespaces: `a/b/c` paths with a prefix relation on whole segments.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Path of a namespace. The root, written as the empty string, holds everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope(String);

impl Scope {
    /// The scope that holds everything.
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `other` is this scope or lies below it; never true for a sibling such as `a/bc` under `a/b`.
    pub fn contains(&self, other: &Self) -> bool {
        self.is_root()
            || other.0.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(path: &str) -> Result<Self> {
        if path.is_empty() {
            return Ok(Self::root());
        }
        let bad_segment =
            |s: &str| s.trim().is_empty() || s == "." || s == ".." || s.chars().any(char::is_control);
        if path.split('/').any(bad_segment) {
            return Err(Error::invalid(
                "scope",
                format!(
                    "{path:?} is not a path like team/project: no empty segments, no leading or final slash"
                ),
            ));
        }
        if path.len() > super::MAX_NAME_BYTES {
            return Err(Error::invalid(
                "scope",
                format!("is {} bytes long; at most {}", path.len(), super::MAX_NAME_BYTES),
            ));
        }
        Ok(Self(path.to_owned()))
    }
}

impl TryFrom<String> for Scope {
    type Error = Error;

    fn try_from(path: String) -> Result<Self> {
        path.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.0
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_sees_below_itself_and_never_a_sibling() {
        let scope = |s: &str| s.parse::<Scope>().unwrap();
        assert!(scope("a/b").contains(&scope("a/b")) && scope("a/b").contains(&scope("a/b/c")));
        assert!(!scope("a/b").contains(&scope("a/bc")) && !scope("a/b").contains(&scope("a")));
        assert!(scope("").contains(&scope("x")) && scope("").contains(&scope("")));
        for bad in ["/", "/a", "a/", "a//b", "a/../b", ".", "a/ /b", "a\n"] {
            assert!(bad.parse::<Scope>().is_err(), "{bad:?}");
        }
    }
}
