//! What processes tell each other of the segments they have compared with their checksums.
//!
//! A line for each: its name, when it was looked at in seconds since 1970, and `whole` or `damaged`. It saves work and
//! loses nothing: a segment of which it does not tell is looked at again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nobody maps a segment that was replaced so long ago.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes(BTreeMap<String, (u64, bool)>);

impl Notes {
    /// What can be read of it: it is written without a checksum, and whatever is no line of it is left out.
    pub(super) fn decode(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split(' ');
            let (name, at) = (words.next()?, words.next()?.parse().ok()?);
            let damaged = match (words.next()?, words.next()) {
                ("whole", None) => false,
                ("damaged", None) => true,
                _ => return None,
            };
            name.starts_with("seg-").then(|| (name.to_owned(), (at, damaged)))
        };
        Self(text.lines().filter_map(line).collect())
    }

    pub(super) fn encode(&self) -> String {
        let now = now();
        let mut text = String::new();
        for (name, (at, damaged)) in &self.0 {
            if now.saturating_sub(*at) < KEPT.as_secs() {
                let word = if *damaged { "damaged" } else { "whole" };
                let _ = writeln!(text, "{name} {at} {word}");
            }
        }
        text
    }

    /// Notes it now. A segment that was found damaged stays so.
    pub(super) fn set(&mut self, name: &str, damaged: bool) {
        let damaged = damaged || self.is_damaged(name);
        self.0.insert(name.to_owned(), (now(), damaged));
    }

    /// Whether a process found it damaged.
    pub(crate) fn is_damaged(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|(_, damaged)| *damaged)
    }

    /// How long ago somebody found it whole. A time in the future is none.
    pub(crate) fn age(&self, name: &str) -> Option<Duration> {
        let (at, _) = self.0.get(name).filter(|(_, damaged)| !damaged)?;
        now().checked_sub(*at).map(Duration::from_secs)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_anything_else_is_left_out() {
        let mut notes = Notes::default();
        notes.set("seg-a", false);
        notes.set("seg-b", true);
        notes.set("seg-b", false);
        assert_eq!(Notes::decode(&notes.encode()), notes);
        assert!(notes.is_damaged("seg-b") && !notes.is_damaged("seg-a") && notes.age("seg-b").is_none());
        assert!(notes.age("seg-a").is_some_and(|age| age < Duration::from_mins(1)));
        let strange =
            "seg-c 1 whole\nseg-d x whole\nother 1 whole\nseg-e 1 whole more\n\nseg-f 99999999999999 whole\n";
        let read = Notes::decode(strange);
        assert_eq!(read.0.keys().collect::<Vec<_>>(), ["seg-c", "seg-f"]);
        assert!(read.age("seg-c").is_some_and(|age| age > KEPT) && read.age("seg-f").is_none());
        assert_eq!(Notes::decode(&read.encode()).0.keys().collect::<Vec<_>>(), ["seg-f"], "old ones go");
    }
}
