//! What a handle has found out about the segments it has mapped, and when it looks again.

use crate::error::Result;
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
/// Work that failed is not tried again for so many times as long as it took: what cannot be done (the disk is full) takes a
/// thirtieth of a processor at most, not a third of one for a graph of 30,000 vectors every ten seconds.
const REST: u32 = 30;

/// What the thread of a handle does that takes long, and may fail after all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// What lies in memory becomes a segment.
    Segment,
    /// Segments are merged.
    Merge,
    /// Segments are looked at, damaged ones built anew.
    Look,
    /// What an error of one of the others says is damaged is built anew.
    Heal,
    /// Graphs over vectors are built.
    Graphs,
}

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
    /// By [`Work`], when it may be tried again, in milliseconds.
    rests: [AtomicU64; 5],
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
            rests: Default::default(),
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

    /// Does work unless it rests after a failure; None when it does. A failure, a panic too, makes it rest for [`REST`] times
    /// as long as it took; success ends that.
    pub(super) fn attempt<T>(&self, work: Work, job: impl FnOnce() -> Result<T>) -> Result<Option<T>> {
        if self.rests(work) {
            return Ok(None);
        }
        let mut attempt = Attempt { watch: self, work, start: Instant::now(), failed: true };
        let done = job();
        attempt.failed = done.is_err();
        done.map(Some)
    }

    /// Whether work that failed is not to be tried again yet.
    pub(super) fn rests(&self, work: Work) -> bool {
        millis(self.opened.elapsed()) < self.rests[work as usize].load(Ordering::Relaxed)
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

/// Work on its way; however it ends, it is noted.
struct Attempt<'w> {
    watch: &'w Watch,
    work: Work,
    start: Instant,
    failed: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let rest = self.start.elapsed() * REST;
        let until = if self.failed { millis(self.watch.opened.elapsed() + rest) } else { 0 };
        self.watch.rests[self.work as usize].store(until, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn what_failed_rests_for_a_multiple_of_the_time_it_took_and_nothing_else_does() {
        let watch = Watch::default();
        let spent = Duration::from_millis(20);
        let fail = || {
            std::thread::sleep(spent);
            Err::<(), _>(Error::Interrupted)
        };
        let start = Instant::now();
        assert!(watch.attempt(Work::Graphs, fail).is_err());
        let mut tries = 0;
        // Counted rather than timed once: it is about how often.
        let done = loop {
            tries += 1;
            match watch.attempt(Work::Graphs, || Ok(7)).unwrap() {
                Some(done) => break done,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(done == 7 && tries > 1 && start.elapsed() >= spent * (REST + 1));
        assert!(!watch.rests(Work::Graphs), "success ends it");
        let panicking = || {
            watch.attempt(Work::Merge, || -> Result<()> {
                std::thread::sleep(spent);
                panic!("a defect")
            })
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
        assert!(watch.rests(Work::Merge) && !watch.rests(Work::Segment) && !watch.rests(Work::Graphs));
    }
}
