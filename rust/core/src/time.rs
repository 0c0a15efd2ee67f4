//! Points in time, and the clock that gives them, so that tests own time.

use crate::error::{Error, Result};
use jiff::{SignedDuration, Timestamp, civil::DateTime};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering as Atomic};

/// First representable moment, 0001-01-01T00:00:00Z, in microseconds since 1970 (Python's `datetime.min`).
const MIN_MICROS: i64 = -62_135_596_800_000_000;
/// Last representable moment, 9999-12-31T23:59:59.999999Z.
const MAX_MICROS: i64 = 253_402_300_799_999_999;
/// Civil arithmetic is counted from here: jiff's own timestamps end a day early.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// Largest offset from UTC, one second less than a day, in seconds.
const MAX_OFFSET: i32 = 86_399;

/// A moment with the offset from UTC it was written down in, to the microsecond.
///
/// Order and equality look at the moment alone; the offset only matters for display and for the dates
/// that are searched, which must not depend on settings.
#[derive(Clone, Copy)]
pub struct Moment {
    micros: i64,
    offset_seconds: i32,
}

impl Moment {
    /// From microseconds since 1970 in UTC and an offset in seconds east of Greenwich.
    pub fn new(unix_micros: i64, offset_seconds: i32) -> Result<Self> {
        let local = unix_micros.saturating_add(i64::from(offset_seconds) * 1_000_000);
        let years = MIN_MICROS..=MAX_MICROS;
        if !years.contains(&unix_micros) || !years.contains(&local) || offset_seconds.abs() > MAX_OFFSET {
            return Err(Error::invalid("time", "outside the years 1 to 9999; give a time within them"));
        }
        Ok(Self { micros: unix_micros, offset_seconds })
    }

    /// In UTC; the range is the caller's promise, so out of range values are clamped.
    pub fn utc(unix_micros: i64) -> Self {
        Self { micros: unix_micros.clamp(MIN_MICROS, MAX_MICROS), offset_seconds: 0 }
    }

    /// Microseconds since 1970 in UTC.
    pub fn unix_micros(self) -> i64 {
        self.micros
    }

    /// Offset the moment was given with, in seconds east of Greenwich.
    pub fn offset_seconds(self) -> i32 {
        self.offset_seconds
    }

    /// Year, month and day in the moment's own offset.
    pub fn date(self) -> (i16, i8, i8) {
        self.civil().map_or((1970, 1, 1), |at| (at.year(), at.month(), at.day()))
    }

    fn civil(self) -> Option<DateTime> {
        let local = self.micros + i64::from(self.offset_seconds) * 1_000_000;
        EPOCH.checked_add(SignedDuration::from_micros(local)).ok()
    }
}

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.micros == other.micros
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.micros.cmp(&other.micros)
    }
}

impl std::hash::Hash for Moment {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.micros.hash(state);
    }
}

/// RFC 3339 with microseconds only when there are any; `Z` for offset zero. Offsets with seconds, which
/// Python allows, are written `+08:05:43`.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(at) = self.civil() else { return Err(fmt::Error) };
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            at.year(),
            at.month(),
            at.day(),
            at.hour(),
            at.minute(),
            at.second()
        )?;
        let micros = self.micros.rem_euclid(1_000_000);
        if micros != 0 {
            write!(f, ".{micros:06}")?;
        }
        let offset = self.offset_seconds.unsigned_abs();
        if offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset_seconds < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", offset / 3600, offset / 60 % 60)?;
        if !offset.is_multiple_of(60) {
            write!(f, ":{:02}", offset % 60)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Moment {
    type Err = Error;

    /// Accepts RFC 3339 with an offset or `Z`; a time without one is refused, since guessing shifts filters.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid(
                "time",
                format!(
                    "{text:?} is not a time with an offset; write it like 2026-04-08T09:14:00Z or 2026-04-08T09:14:00+08:00"
                ),
            )
        };
        let (civil, offset) = split_offset(text).ok_or_else(bad)?;
        let civil: DateTime = civil.parse().map_err(|_| bad())?;
        let local = civil.duration_since(EPOCH).as_micros();
        let micros = i64::try_from(local).map_err(|_| bad())? - i64::from(offset) * 1_000_000;
        Self::new(micros, offset)
    }
}

/// The civil part and the seconds of a trailing `Z`, `+HH:MM[:SS]`, `+HHMM` or `+HH`.
fn split_offset(text: &str) -> Option<(&str, i32)> {
    if let Some(civil) = text.strip_suffix(['Z', 'z']) {
        return civil.contains(['T', 't', ' ']).then_some((civil, 0));
    }
    let time = text.find(['T', 't', ' '])?;
    let at = time + text[time..].find(['+', '-'])?;
    let digits: String = text[at + 1..].chars().filter(|c| *c != ':').collect();
    if !matches!(digits.len(), 2 | 4 | 6) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize| digits.get(from..from + 2).map_or(Some(0), |d| d.parse::<i32>().ok());
    let seconds = part(0)? * 3600 + part(2)? * 60 + part(4)?;
    Some((&text[..at], if text.as_bytes()[at] == b'-' { -seconds } else { seconds }))
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// Where "now" comes from.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present moment, in UTC.
    fn now(&self) -> Moment;
}

/// The machine's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment::utc(Timestamp::now().as_microsecond())
    }
}

/// A clock that stands still until it is told to move; for tests and replays.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Starts at `moment`.
    pub fn new(moment: Moment) -> Self {
        Self(AtomicI64::new(moment.unix_micros()))
    }

    /// Moves by `micros`, backwards if negative.
    pub fn advance(&self, micros: i64) {
        self.0.fetch_add(micros, Atomic::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment::utc(self.0.load(Atomic::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips_with_every_kind_of_offset() {
        for text in [
            "2026-04-08T09:14:00Z",
            "2026-04-08T23:30:00+08:00",
            "2026-04-08T17:00:00.000001-07:00",
            "1890-01-01T00:00:00+08:05:43",
            "0001-01-02T00:00:00Z",
            "9999-12-31T23:59:59.999999Z",
            "1969-12-31T23:59:59.500000Z",
        ] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
        assert_eq!(
            "2026-04-08 09:14:00+0800".parse::<Moment>().unwrap().to_string(),
            "2026-04-08T09:14:00+08:00"
        );
    }

    #[test]
    fn the_date_is_that_of_the_offset() {
        assert_eq!("2026-04-08T23:30:00+08:00".parse::<Moment>().unwrap().date(), (2026, 4, 8));
        assert_eq!("2026-04-08T23:30:00-08:00".parse::<Moment>().unwrap().date(), (2026, 4, 8));
    }

    #[test]
    fn times_without_offset_and_out_of_range_are_refused() {
        for text in ["", "2026-04-08", "2026-04-08T09:14:00", "yesterday", "2026-13-08T09:14:00Z"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
        assert!(Moment::new(MAX_MICROS, 3600).is_err());
        assert!(Moment::new(0, 86_400).is_err());
    }
}
