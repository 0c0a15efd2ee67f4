//! Runs of a store on a recorded file.

use super::image::put_sparse;
use super::model::{Model, Rows, Step, new_episode, rows_of};
use super::recording::{Disk, Entry, Recorder};
use super::{Bug, Random};
use crate::store::fault::FaultPlan;
use crate::store::{Place, STORE_FILE, Store, StoreOptions, Wait};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

/// One transaction of a workload.
pub(super) struct Commit {
    /// Length of the log when it was asked for, and when it was acknowledged.
    asked: usize,
    acknowledged: usize,
    rows: Rows,
}

/// What was done to a file, and what it may hold at each point.
pub(super) struct Run {
    pub(super) disk: Disk,
    pub(super) entries: Vec<Entry>,
    /// States the file may be in before the first of `commits`.
    before: Vec<Rows>,
    pub(super) commits: Vec<Commit>,
}

impl Run {
    /// The states that are right when the first `done` calls have happened: all that was acknowledged, and of what
    /// was asked for any beginning.
    pub(super) fn allowed(&self, done: usize) -> Vec<&Rows> {
        let acknowledged = self.commits.iter().take_while(|commit| commit.acknowledged <= done).count();
        let asked = self.commits.iter().take_while(|commit| commit.asked < done).count();
        let before = self.before.iter().filter(|_| acknowledged == 0);
        let commits = &self.commits[acknowledged.saturating_sub(1)..asked.max(acknowledged)];
        before.chain(commits.iter().map(|commit| &commit.rows)).collect()
    }

    /// How often the file grew or shrank.
    pub(super) fn resized(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry, Entry::SetLen(_))).count()
    }
}

fn recorded(home: &Path, recorder: &Arc<Recorder>, create: bool) -> Store {
    let options = StoreOptions { create, ..StoreOptions::default() };
    let place = Place {
        home: home.to_owned(),
        path: home.join(STORE_FILE),
        cache_bytes: options.cache_bytes,
        lock_timeout: options.lock_timeout,
        faults: Some(Arc::new(FaultPlan::recording(recorder))),
        mode: crate::store::Mode::Shared,
        file_system: None,
    };
    Store::open_place(place, &options).unwrap()
}

/// Writes `step` alone.
fn write_one(store: &Store, recorder: &Recorder, model: &mut Model, step: Step) -> Commit {
    let asked = recorder.len();
    model.apply(&step);
    store.write(&Wait::default(), move |view| step.run(view)).unwrap();
    Commit { asked, acknowledged: recorder.len(), rows: model.rows() }
}

/// Writes several records from as many threads while the writer thread is kept busy, so that they share a commit.
fn write_group(store: &Store, recorder: &Recorder, model: &mut Model, random: &mut Random) -> Vec<Commit> {
    let asked = recorder.len();
    let steps: Vec<Step> =
        (0..2 + random.below(4)).map(|_| Step::Put(Box::new(new_episode(model, random)))).collect();
    let (busy, free) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let mut done: Vec<(u64, usize, Step)> = std::thread::scope(|scope| {
        let (began, ends) = (Arc::clone(&busy), Arc::clone(&free));
        scope.spawn(move || {
            store.write(&Wait::default(), move |_| {
                began.wait();
                ends.wait();
                Ok(())
            })
        });
        busy.wait();
        let jobs: Vec<_> = steps
            .into_iter()
            .map(|step| {
                scope.spawn(move || {
                    let job = step.clone();
                    let sequence = store
                        .write(&Wait::default(), move |view| {
                            job.run(view)?;
                            view.last_sequence()
                        })
                        .unwrap();
                    (sequence, recorder.len(), step)
                })
            })
            .collect();
        // All have been counted, and all but perhaps the last have been queued.
        while store.shared.waiting.load(Ordering::Acquire) <= jobs.len() {
            std::thread::yield_now();
        }
        free.wait();
        jobs.into_iter().map(|job| job.join().unwrap()).collect()
    });
    done.sort_by_key(|(sequence, ..)| *sequence);
    let changes = store.read(|view| view.changes_since(done[0].0 - 1, usize::MAX)).unwrap();
    let mut commits: Vec<Commit> = Vec::new();
    for (at, (_, acknowledged, step)) in done.into_iter().enumerate() {
        model.apply(&step);
        if at > 0 && changes[at].nonce == changes[at - 1].nonce {
            // One transaction: only its end is a state.
            let commit = commits.last_mut().unwrap();
            commit.rows = model.rows();
            commit.acknowledged = commit.acknowledged.min(acknowledged);
        } else {
            commits.push(Commit { asked, acknowledged, rows: model.rows() });
        }
    }
    commits
}

/// Makes a store, writes 10 to 25 commits, closes it.
pub(super) fn workload(random: &mut Random, home: &Path, bug: Bug) -> Run {
    let recorder = Arc::new(Recorder::new(bug == Bug::DropsSyncs));
    let store = recorded(home, &recorder, true);
    let mut disk = Disk::new(Vec::new());
    recorder.take().iter().for_each(|entry| disk.apply(entry));
    assert!(disk.unsynced.is_empty() || bug == Bug::DropsSyncs, "a store gets its name when it is durable");
    let disk = Disk::new(disk.after_kill());
    let (mut model, mut commits) = (Model::default(), Vec::new());
    let before = vec![model.rows()];
    let wanted = 10 + random.below(16) as usize;
    while commits.len() < wanted {
        if random.chance(6) {
            commits.extend(write_group(&store, &recorder, &mut model, random));
        } else {
            let step = Step::draw(&model, random);
            commits.push(write_one(&store, &recorder, &mut model, step));
        }
    }
    store.close().unwrap();
    let entries = recorder.take();
    if bug == Bug::AcknowledgesEarly {
        for commit in &mut commits {
            let before = &entries[..commit.acknowledged];
            commit.acknowledged = before.iter().rposition(|entry| matches!(entry, Entry::Sync)).unwrap();
        }
    }
    Run { disk, entries, before, commits }
}

/// Records what happens when a crashed file is opened, written to and closed.
pub(super) fn reopened(left: Disk, before: Vec<Rows>, home: &Path, random: &mut Random) -> Run {
    put_sparse(&home.join(STORE_FILE), &left.after_kill());
    let recorder = Arc::new(Recorder::new(false));
    let store = recorded(home, &recorder, false);
    let mut rows = rows_of(&store).unwrap();
    let asked = recorder.len();
    let body = random.text(100).into_bytes();
    rows.insert(("meta", b"after the crash".to_vec()), body.clone());
    store.write(&Wait::default(), move |view| view.set_meta("after the crash", &body)).unwrap();
    let commit = Commit { asked, acknowledged: recorder.len(), rows };
    store.close().unwrap();
    Run { disk: left, entries: recorder.take(), before, commits: vec![commit] }
}
