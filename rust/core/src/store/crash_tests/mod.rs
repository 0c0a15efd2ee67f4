//! Crashes at every point: after each call that changes the file, the process dies or the power fails, and the file
//! that is left must hold exactly what was acknowledged.
//!
//! A workload runs on a file whose changes are recorded ([`recording`]). Then for every prefix of the record the
//! images are made that a crash there can leave: one of a killed process, two of a power cut. Each is opened as any
//! process would, compared row by row with the model ([`model`]), and written to once more.
//!
//! `OTOLITH_CRASH_WORKLOADS=500 cargo test --release -p otolith-core crash -- --nocapture` is the long form.

mod image;
mod model;
mod recording;
mod workload;

pub(in crate::store) use recording::{RecordedFile, Recorder};

use crate::ids::RecordId;
use image::{Violation, check};
use model::Rows;
use recording::Disk;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use workload::{Run, reopened, workload};

/// Workloads of the short form.
const WORKLOADS: u64 = 3;
/// Power cuts tried at every point.
const POWER_CUTS: usize = 2;
/// Crashes of a workload after which the opening that follows is recorded and crashed as well.
const SECOND_CRASHES: usize = 3;
/// One in so many images is opened read-only first and has all its pages checked by redb afterwards.
const DEEP: u64 = 8;

/// Splitmix64: a test says by its seed what it did.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `of`.
    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// An id in no order, so that rows go to all places of a table.
    fn id(&mut self) -> RecordId {
        let mut bytes = (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes();
        (bytes[6], bytes[8]) = (0x70 | bytes[6] & 0x0F, 0x80 | bytes[8] & 0x3F);
        RecordId::from_bytes(bytes).unwrap()
    }

    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}

/// A mistake of the store or the disk that the harness must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// Every second sync does nothing.
    DropsSyncs,
    /// A write returns before its last sync.
    AcknowledgesEarly,
}

#[derive(Debug, Default)]
struct Figures {
    commits: AtomicU64,
    calls: AtomicU64,
    resized: AtomicU64,
    points: AtomicU64,
    second: AtomicU64,
    killed: AtomicU64,
    power_cuts: AtomicU64,
    in_flight: AtomicU64,
    deep: AtomicU64,
    read_only: AtomicU64,
    violations: Mutex<Vec<(String, Violation)>>,
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

impl Figures {
    #[allow(clippy::print_stdout, reason = "the figures are what the long form is run for")]
    fn print(&self, workloads: u64, took: Duration) {
        let violations = self.violations.lock().unwrap();
        let errors = violations.iter().filter(|(_, v)| matches!(v, Violation::Error(_))).count();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rows = [
            ("workloads", workloads),
            ("commits", count(&self.commits)),
            ("calls that change the file or sync it", count(&self.calls)),
            ("of them, changes of its length", count(&self.resized)),
            ("crash points", count(&self.points)),
            ("of them, while it was opened, written and closed after a crash", count(&self.second)),
            ("images of killed processes", count(&self.killed)),
            ("images of power cuts", count(&self.power_cuts)),
            ("images that hold a commit that was in flight", count(&self.in_flight)),
            ("images that were opened read-only first, and checked page by page after", count(&self.deep)),
            ("of them, readable before a writer repaired them", count(&self.read_only)),
            ("errors", errors as u64),
            ("wrong states", (violations.len() - errors) as u64),
            ("seconds", took.as_secs()),
        ];
        for (what, number) in rows {
            println!("{number:>9} {what}");
        }
    }
}

/// Where images are opened: in memory if the system offers it, since nothing here depends on a disk.
fn scratch() -> tempfile::TempDir {
    let shared_memory = Path::new("/dev/shm");
    if shared_memory.is_dir() {
        tempfile::tempdir_in(shared_memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Crashes `run` after every call. Returns up to `wanted` of the crashes, for a second one: what is on the disk, and
/// the states it may be in.
fn crash_everywhere(
    run: &Run,
    name: &str,
    home: &Path,
    random: &mut Random,
    figures: &Figures,
    wanted: usize,
) -> Vec<(Disk, Vec<Rows>)> {
    let mut disk = run.disk.clone();
    let picked: Vec<usize> = (0..wanted).map(|_| random.below(run.entries.len() as u64) as usize).collect();
    let mut crashed = Vec::new();
    for done in 0..=run.entries.len() {
        if done > 0 {
            disk.apply(&run.entries[done - 1]);
        }
        let allowed = run.allowed(done);
        add(&figures.points, 1);
        for kind in 0..=POWER_CUTS {
            let killed = kind == 0;
            if !killed && disk.unsynced.is_empty() {
                break;
            }
            let image = if killed { disk.after_kill() } else { disk.after_power_cut(random) };
            let deep = random.chance(DEEP);
            add(if killed { &figures.killed } else { &figures.power_cuts }, 1);
            add(&figures.deep, usize::from(deep));
            match check(home, &image, &allowed, deep) {
                Ok(found) => {
                    add(&figures.in_flight, usize::from(found.in_flight));
                    add(&figures.read_only, usize::from(found.read_only));
                }
                Err(violation) => {
                    let what = if killed { "killed" } else { "power cut" };
                    let name = format!("{name}, {what} after call {done} of {}", run.entries.len());
                    figures.violations.lock().unwrap().push((name, violation));
                }
            }
            if kind < 2 && picked.contains(&done) && crashed.len() < wanted {
                let left = if killed { disk.clone() } else { Disk::new(image) };
                crashed.push((left, allowed.iter().map(|rows| (*rows).clone()).collect()));
            }
        }
    }
    crashed
}

/// Everything about one workload.
fn crash(seed: u64, homes: &Path, bug: Bug, figures: &Figures) {
    let mut random = Random(seed);
    let [first, images, again] = ["", "-images", "-again"].map(|part| homes.join(format!("{seed}{part}")));
    for home in [&images, &again] {
        std::fs::create_dir(home).unwrap();
    }
    let run = workload(&mut random, &first, bug);
    add(&figures.commits, run.commits.len());
    add(&figures.calls, run.entries.len());
    add(&figures.resized, run.resized());
    let name = format!("workload {seed}");
    let wanted = if bug == Bug::None { SECOND_CRASHES } else { 0 };
    for (left, before) in crash_everywhere(&run, &name, &images, &mut random, figures, wanted) {
        let run = reopened(left, before, &again, &mut random);
        add(&figures.second, run.entries.len() + 1);
        crash_everywhere(&run, &format!("{name}, second crash"), &images, &mut random, figures, 0);
    }
    for home in [first, images, again] {
        std::fs::remove_dir_all(home).unwrap();
    }
}

fn crash_all(workloads: u64, bug: Bug) -> Figures {
    let (homes, figures, next) = (scratch(), Figures::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= workloads {
                        return;
                    }
                    crash(seed, homes.path(), bug, &figures);
                }
            });
        }
    });
    figures
}

#[test]
fn crash_at_every_call_leaves_what_was_acknowledged() {
    let workloads = std::env::var("OTOLITH_CRASH_WORKLOADS").map_or(WORKLOADS, |n| n.parse().unwrap());
    let started = Instant::now();
    let mut figures = crash_all(workloads, Bug::None);
    figures.print(workloads, started.elapsed());
    let violations = figures.violations.get_mut().unwrap();
    let first = &violations[..violations.len().min(5)];
    assert!(violations.is_empty(), "{} violations, the first: {first:#?}", violations.len());
    for seen in [figures.resized, figures.second, figures.in_flight, figures.deep, figures.read_only] {
        assert!(seen.into_inner() > 0, "the workloads did not go where they should");
    }
}

/// Which of the wrong files the process of this test is to crash on.
const BUG: &str = "OTOLITH_CRASH_BUG";

/// In a process of its own: on pages that were never synced redb may end it.
#[test]
fn crash_harness_finds_a_sync_that_does_nothing_and_an_early_acknowledgement() {
    for bug in [Bug::DropsSyncs, Bug::AcknowledgesEarly] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::crash_tests::crash_on_a_wrong_file", "--nocapture"])
            .env(BUG, format!("{bug:?}"))
            .output()
            .unwrap();
        let aborted = child.status.code().is_none();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            aborted || (child.status.success() && said.contains("1 passed")),
            "{bug:?}: acknowledged records were lost and nobody saw it: {said}"
        );
    }
}

/// What the process of the test above does.
#[test]
fn crash_on_a_wrong_file() {
    let Ok(name) = std::env::var(BUG) else { return };
    let bug = [Bug::DropsSyncs, Bug::AcknowledgesEarly].into_iter().find(|bug| format!("{bug:?}") == name);
    let violations = crash_all(1, bug.unwrap()).violations.into_inner().unwrap();
    let lost = violations.iter().filter(|(_, v)| matches!(v, Violation::State(_))).count();
    assert!(lost > 0, "{name}: no wrong state was seen");
}
