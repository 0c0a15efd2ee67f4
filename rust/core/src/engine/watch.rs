//! What a handle has found out about the segments it has mapped, and when it looks again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A handle that is so old has a thread of its own look after the index.
const SETTLED: Duration = Duration::from_secs(10);
/// While questions are asked it is looked at least this often whether a process found damage, and whether segments came
/// that nobody has checked.
const LOOK: Duration = Duration::from_secs(10);
/// Bytes a second that a check compares: so slow that nobody notices, so fast that a gigabyte takes a quarter of a
/// minute of an hour.
const RATE: usize = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    opened: Instant,
    /// When it is looked again, in milliseconds since then.
    next: AtomicU64,
    settled: AtomicU64,
    /// Segments this handle has compared.
    whole: Mutex<BTreeSet<String>>,
    checked: AtomicU64,
    damaged: AtomicU64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            opened: Instant::now(),
            next: AtomicU64::new(millis(SETTLED)),
            settled: AtomicU64::new(millis(SETTLED)),
            whole: Mutex::default(),
            checked: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Watch {
    /// Whether the handle lives long enough for a thread.
    pub(super) fn is_settled(&self) -> bool {
        millis(self.opened.elapsed()) >= self.settled.load(Ordering::Relaxed)
    }

    /// Whether it is to be looked again; then it is for the caller to do.
    pub(super) fn wants_look(&self) -> bool {
        let (now, next) = (millis(self.opened.elapsed()), self.next.load(Ordering::Relaxed));
        let then = now.saturating_add(millis(LOOK));
        now >= next && self.next.compare_exchange(next, then, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// As if the handle had been open for long.
    #[cfg(test)]
    pub(super) fn settle(&self) {
        self.settled.store(0, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
    }

    /// Has the segments checked again that were found whole.
    #[cfg(test)]
    pub(super) fn forget(&self) {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How long a check rests after so many bytes.
    pub(super) fn pause(bytes: usize) -> Duration {
        Duration::from_secs_f64(if cfg!(test) { 0.0 } else { bytes as f64 / RATE as f64 })
    }

    /// Whether this handle has compared the segment.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// Segments that were compared and are as they were written; `there` are all that are mapped now.
    pub(super) fn note_whole(&self, names: &[String], there: &[String]) {
        self.checked.fetch_add(names.len() as u64, Ordering::Relaxed);
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        whole.extend(names.iter().cloned());
        whole.retain(|name| there.contains(name));
    }

    /// So many were not.
    pub(super) fn note_damage(&self, segments: usize) {
        self.damaged.fetch_add(segments as u64, Ordering::Relaxed);
    }

    /// Segments compared since the handle was opened, and damaged ones that were met.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.checked.load(Ordering::Relaxed), self.damaged.load(Ordering::Relaxed))
    }
}
