//! Tests of batched durability, of jobs that fail among others, of exclusive handles and of refused file systems.
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use super::fault::{Call, FaultPlan};
use super::tests::{EIO, ENOSPC, episode, faulty, get, put};
use super::*;
use crate::error::Lock;
use crate::ids::RecordId;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

type Work = Box<dyn FnMut(&mut WriteView<'_>) -> Result<()> + Send>;

fn options(mode: Mode, durability: Durability) -> StoreOptions {
    StoreOptions { create: true, mode, durability, ..StoreOptions::default() }
}

fn batched(home: &Path) -> Store {
    Store::open(home, &options(Mode::Shared, Durability::Batched)).unwrap()
}

fn exclusive(home: &Path) -> Result<Store> {
    let brief = Duration::from_millis(80);
    Store::open(home, &StoreOptions { lock_timeout: brief, ..options(Mode::Exclusive, Durability::Full) })
}

fn shared(home: &Path, read_only: bool) -> Result<Store> {
    let brief = Duration::from_millis(80);
    Store::open(home, &StoreOptions { lock_timeout: brief, read_only, ..StoreOptions::default() })
}

/// What another handle sees, which flushes nothing.
fn count_on_disk(home: &Path) -> u64 {
    shared(home, true).unwrap().read(|view| view.count()).unwrap()
}

/// In how many transactions the changes of the store were made.
fn transactions(store: &Store) -> usize {
    let changes = store.read(|view| view.changes_since(0, usize::MAX)).unwrap();
    changes.iter().map(|change| change.nonce).collect::<BTreeSet<_>>().len()
}

/// Runs jobs in this order in one transaction: they queue up behind one that holds the writer thread.
fn together(store: &Store, jobs: Vec<Work>) -> Vec<Result<()>> {
    let gate = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        let there = Arc::clone(&gate);
        scope.spawn(move || {
            let mut waited = false;
            let block = move |_: &mut WriteView<'_>| {
                if !std::mem::replace(&mut waited, true) {
                    there.wait();
                    there.wait();
                }
                Ok(())
            };
            store.write(&Wait::default(), block).unwrap();
        });
        gate.wait();
        let running: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let before = store.shared.waiting.load(Ordering::SeqCst);
                let running = scope.spawn(move || store.write(&Wait::default(), job));
                while store.shared.waiting.load(Ordering::SeqCst) == before {
                    std::thread::yield_now();
                }
                // It is counted right before it is sent.
                std::thread::sleep(Duration::from_millis(5));
                running
            })
            .collect();
        gate.wait();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    })
}

/// A job that sets a name, and how often it ran.
fn counted(name: &'static str) -> (Arc<AtomicU32>, Work) {
    let runs = Arc::new(AtomicU32::new(0));
    let own = Arc::clone(&runs);
    let job = move |view: &mut WriteView<'_>| {
        own.fetch_add(1, Ordering::SeqCst);
        view.set_meta(name, name.as_bytes())
    };
    (runs, Box::new(job))
}

#[test]
fn a_refusal_costs_the_others_nothing_and_a_failure_after_a_write_one_more_run() {
    for durability in [Durability::Full, Durability::Batched] {
        for (wrote, wanted) in [(false, [1, 1]), (true, [2, 1])] {
            let home = tempfile::tempdir().unwrap();
            let store = Store::open(home.path(), &options(Mode::Shared, durability)).unwrap();
            let (first, one) = counted("first");
            let (last, two) = counted("last");
            let failing = move |view: &mut WriteView<'_>| {
                if wrote {
                    view.set_meta("half", b"written")?;
                }
                Err(Error::invalid("job", "fails"))
            };
            let outcomes = together(&store, vec![one, Box::new(failing), two]);
            assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
            assert!(matches!(outcomes[1], Err(Error::InvalidInput { .. })), "{outcomes:?}");
            let runs = [first.load(Ordering::SeqCst), last.load(Ordering::SeqCst)];
            assert_eq!(runs, wanted, "{durability:?}, wrote {wrote}");
            for (name, there) in [("first", true), ("half", false), ("last", true)] {
                assert_eq!(store.read(|view| view.meta(name)).unwrap().is_some(), there, "{name}");
            }
            store.close().unwrap();
        }
    }
}

#[test]
fn a_job_that_panics_takes_nothing_acknowledged_with_it() {
    let home = tempfile::tempdir().unwrap();
    let store = batched(home.path());
    let (runs, one) = counted("kept");
    let outcomes = together(&store, vec![one, Box::new(|_| panic!("in the job"))]);
    assert!(outcomes[1].as_ref().unwrap_err().to_string().contains("in the job"), "{outcomes:?}");
    store.flush(&store.wait()).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert!(store.read(|view| view.meta("kept")).unwrap().is_some());
}

#[test]
fn an_acknowledged_job_that_fails_when_it_is_repeated_is_told_as_lost_once() {
    let home = tempfile::tempdir().unwrap();
    let store = batched(home.path());
    let mut runs = 0;
    let fickle = move |view: &mut WriteView<'_>| {
        runs += 1;
        if runs > 1 {
            return Err(Error::invalid("job", "is fickle"));
        }
        view.set_meta("fickle", b"")
    };
    let (_, kept) = counted("kept");
    let failing = |view: &mut WriteView<'_>| {
        view.set_meta("half", b"written")?;
        Err(Error::invalid("job", "fails"))
    };
    let outcomes = together(&store, vec![kept, Box::new(fickle), Box::new(failing)]);
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok() && outcomes[2].is_err(), "{outcomes:?}");
    let error = store.read(|view| view.count()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 write that had been acknowledged") && text.contains("is fickle"), "{text}");
    store.flush(&store.wait()).unwrap();
    assert!(store.read(|view| view.meta("kept")).unwrap().is_some());
    assert!(store.read(|view| view.meta("fickle")).unwrap().is_none());
}

#[test]
fn batched_writes_share_commits_and_own_reads_see_them() {
    for mode in [Mode::Shared, Mode::Exclusive] {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), &options(mode, Durability::Batched)).unwrap();
        let episodes: Vec<_> = (0..200).map(|n| episode(&format!("number {n}"))).collect();
        for episode in &episodes {
            put(&store, episode).unwrap();
        }
        assert_eq!(get(&store, episodes[199].id).unwrap().as_ref(), Some(&episodes[199]), "{mode:?}");
        let commits = transactions(&store);
        assert!(commits < 100, "{commits} commits for 200 writes, {mode:?}");
        // With full durability each of them is one of its own.
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path(), &options(mode, Durability::Full)).unwrap();
        episodes.iter().take(20).for_each(|episode| put(&store, episode).unwrap());
        assert_eq!(transactions(&store), 20);
    }
}

#[test]
fn what_was_acknowledged_is_on_disk_after_a_flush_a_read_a_close_and_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let store = batched(home.path());
    put(&store, &episode("flushed")).unwrap();
    store.flush(&store.wait()).unwrap();
    assert_eq!(count_on_disk(home.path()), 1);
    put(&store, &episode("read")).unwrap();
    store.read(|_| Ok(())).unwrap();
    assert_eq!(count_on_disk(home.path()), 2);
    put(&store, &episode("left alone")).unwrap();
    let started = Instant::now();
    while count_on_disk(home.path()) < 3 {
        assert!(started.elapsed() < Duration::from_secs(5), "it commits without being asked");
    }
    put(&store, &episode("closed")).unwrap();
    store.close().unwrap();
    assert_eq!(count_on_disk(home.path()), 4);
    let store = batched(home.path());
    put(&store, &episode("dropped")).unwrap();
    drop(store);
    assert_eq!(count_on_disk(home.path()), 5);
}

#[test]
fn a_commit_that_fails_after_the_answers_is_told_by_the_next_call_once() {
    type Next = fn(&Store) -> Result<()>;
    let calls: [(&str, Next); 4] = [
        ("flush", |store| store.flush(&store.wait())),
        ("read", |store| store.read(|_| Ok(()))),
        ("close", Store::close),
        ("write", |store| {
            while store.shared.unflushed.load(Ordering::SeqCst) > 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            put(store, &episode("refused with the news"))
        }),
    ];
    for mode in [Mode::Shared, Mode::Exclusive] {
        for (name, call) in calls {
            let mut told = 0;
            for nth in 0..3 {
                let home = tempfile::tempdir().unwrap();
                let plan = Arc::new(FaultPlan::default());
                let store = faulty(home.path(), &plan, &options(mode, Durability::Batched));
                let kept = episode("kept");
                put(&store, &kept).unwrap();
                store.flush(&store.wait()).unwrap();
                plan.arm(Call::Sync, nth, ENOSPC, true);
                let doomed = episode("doomed");
                let acknowledged = put(&store, &doomed).is_ok();
                let outcome = call(&store);
                plan.disarm();
                let was_told = outcome.is_err_and(|error| {
                    let text = error.to_string();
                    matches!(error, Error::Store { source: Some(_), .. })
                        && text.contains("1 write that had been acknowledged")
                        && text.contains("no space")
                });
                told += u32::from(was_told);
                if name == "close" {
                    store.close().unwrap();
                    // A fault of closing itself, after the commit, is nobody's loss.
                    let found = get(&batched(home.path()), doomed.id).unwrap();
                    assert!(was_told || !acknowledged || found.is_some(), "{nth}");
                    continue;
                }
                assert!(
                    was_told || !acknowledged || get(&store, doomed.id).unwrap().is_some(),
                    "{name} {nth}"
                );
                store.flush(&store.wait()).unwrap();
                let after = episode("after");
                put(&store, &after).unwrap();
                assert!(get(&store, kept.id).unwrap().is_some() && get(&store, after.id).unwrap().is_some());
                if was_told {
                    let mut seen = BTreeSet::new();
                    store
                        .read(|view| {
                            view.episodes(None, false, &mut |_, row| {
                                seen.insert(row?.summary);
                                Ok(ControlFlow::Continue(()))
                            })
                        })
                        .unwrap();
                    assert!(!seen.contains("refused with the news"), "{name}");
                }
            }
            assert!(told > 0, "{mode:?} {name}: no fault met a commit of what was acknowledged");
        }
    }
}

#[test]
fn an_exclusive_handle_keeps_all_others_out_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    let store = exclusive(home.path()).unwrap();
    let kept = episode("kept");
    put(&store, &kept).unwrap();
    let started = Instant::now();
    for refused in [exclusive(home.path()), shared(home.path(), false), shared(home.path(), true)] {
        let error = refused.unwrap_err();
        let Error::StoreLocked { lock: Lock::Exclusive, holder: Some(holder), waited_ms, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(holder.pid, std::process::id());
        assert!(*waited_ms >= 80, "a handover is waited for: {waited_ms}");
        assert!(error.to_string().contains("store.mode = exclusive"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    put(&store, &episode("still works")).unwrap();
    drop(store);
    assert_eq!(get(&shared(home.path(), true).unwrap(), kept.id).unwrap(), Some(kept));
}

#[test]
fn an_exclusive_open_beside_shared_handles_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path(), &options(Mode::Shared, Durability::Full)).unwrap();
    let refused = || {
        let error = exclusive(home.path()).unwrap_err();
        assert!(matches!(error, Error::StoreLocked { lock: Lock::Shared, holder: None, .. }), "{error:?}");
        assert!(error.to_string().contains("store.mode = shared"), "{error}");
    };
    refused();
    put(&store, &episode("it is writable now")).unwrap();
    refused();
    put(&store, &episode("and not disturbed")).unwrap();
    // A read-only handle keeps nobody's place: it is the same whatever its mode.
    let reader =
        StoreOptions { read_only: true, create: false, ..options(Mode::Exclusive, Durability::Full) };
    let reader = Store::open(home.path(), &reader).unwrap();
    assert_eq!(reader.read(|view| view.count()).unwrap(), 2);
    drop(store);
    refused();
    drop(reader);
    exclusive(home.path()).unwrap();
}

#[test]
fn an_open_waits_for_an_exclusive_handle_that_is_about_to_close() {
    let home = tempfile::tempdir().unwrap();
    let long =
        |mode| StoreOptions { lock_timeout: Duration::from_secs(10), ..options(mode, Durability::Full) };
    for (held, wanted) in [(Mode::Exclusive, Mode::Shared), (Mode::Shared, Mode::Exclusive)] {
        let store = Store::open(home.path(), &long(held)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                drop(store);
            });
            Store::open(home.path(), &long(wanted)).unwrap();
        });
    }
}

#[test]
fn threads_share_an_exclusive_handle_and_it_comes_back_after_a_fault() {
    let home = tempfile::tempdir().unwrap();
    let plan = Arc::new(FaultPlan::default());
    let store = faulty(home.path(), &plan, &options(Mode::Exclusive, Durability::Full));
    let ids: Vec<RecordId> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let store = &store;
                scope.spawn(move || {
                    let one = |n| {
                        let episode = episode(&format!("{thread} {n}"));
                        put(store, &episode).unwrap();
                        assert!(get(store, episode.id).unwrap().is_some());
                        episode.id
                    };
                    (0..25).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(store.read(|view| view.count()).unwrap(), 100);
    // While others read from the dead handle, too.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for id in &ids {
                    // The fault may strike it as well, never a wrong answer.
                    if let Ok(found) = get(&store, *id) {
                        assert!(found.is_some());
                    }
                }
            });
        }
        plan.arm(Call::Sync, 0, EIO, false);
        put(&store, &episode("struck")).unwrap_err();
        put(&store, &episode("after")).unwrap();
    });
    // The one that was struck may have reached the file.
    let count = store.read(|view| view.count()).unwrap();
    assert!((101..=102).contains(&count), "{count}");
    for id in ids {
        assert!(get(&store, id).unwrap().is_some());
    }
    drop(store);
    assert_eq!(count_on_disk(home.path()), count);
}

#[test]
fn a_network_file_system_is_refused_before_anything_is_touched() {
    let above = tempfile::tempdir().unwrap();
    let home = above.path().join("home");
    let open = |network, answer: FileSystem, read_only| {
        let options = StoreOptions { network, read_only, create: !read_only, ..StoreOptions::default() };
        let place = Place {
            home: home.clone(),
            path: home.join(STORE_FILE),
            cache_bytes: options.cache_bytes,
            lock_timeout: options.lock_timeout,
            mode: options.mode,
            faults: None,
            file_system: Some(answer),
        };
        Store::open_place(place, &options)
    };
    let nfs = || FileSystem { name: "nfs".to_owned(), network: true };
    for read_only in [false, true] {
        let error = open(Network::Refuse, nfs(), read_only).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Store { .. }), "{error:?}");
        assert!(text.contains("(nfs)") && text.contains("store.network = allow"), "{text}");
        assert!(!home.exists(), "not a byte is written");
    }
    let store = open(Network::Allow, nfs(), false).unwrap();
    put(&store, &episode("forced")).unwrap();
    drop(store);
    assert!(open(Network::Refuse, nfs(), false).is_err(), "one that is there already as well");
    open(Network::Refuse, FileSystem { name: "ext4".to_owned(), network: false }, false).unwrap();
}
