//! Compacting and copying a store that others use.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // helpers of tests, too
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use otolith_core::episode::{Episode, Origin, Scope};
use otolith_core::error::{Error, Result};
use otolith_core::ids::RecordId;
use otolith_core::store::{
    Change, Durability, Embedded, EmbeddingRow, Mode, Operation, Store, StoreOptions, Wait,
};
use otolith_core::time::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROLE: &str = "OTOLITH_TEST_ROLE";
const HOME: &str = "OTOLITH_TEST_HOME";

fn open(home: &Path) -> Store {
    Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap()
}

fn episode(summary: &str) -> Episode {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    Episode { summary: summary.to_owned(), ..Episode::new(id, now, Scope::root(), Origin::User) }
}

fn put(store: &Store, episode: &Episode) -> Result<()> {
    let episode = episode.clone();
    store.write(&store.wait(), move |view| view.put_episode(&episode, None))
}

fn embed(store: &Store, id: RecordId, row: Vec<f32>) -> Result<()> {
    let rows = [EmbeddingRow { chunk: 0, text_hash: 7, vector: Embedded::Row(row) }];
    store.write(&store.wait(), move |view| {
        let number = view.register_embedder("given:3", 3)?;
        view.put_embeddings(number, id, &rows)
    })
}

fn forget(store: &Store, episode: &Episode) -> Result<bool> {
    let episode = episode.clone();
    store.write(&store.wait(), move |view| view.delete_episode(&episode))
}

fn compact(store: &Store) -> otolith_core::store::Compacted {
    store.compact(&store.wait(), &mut |_, _| false).unwrap()
}

/// Everything a store holds, but for the older rows of the feed.
type Everything = (BTreeMap<RecordId, Episode>, Vec<(RecordId, EmbeddingRow)>, Vec<Change>, u64, [u8; 16]);

fn everything(store: &Store) -> Everything {
    let (mut episodes, mut vectors) = (BTreeMap::new(), Vec::new());
    store
        .read(|view| {
            view.episodes(None, false, &mut |id, row| {
                episodes.insert(id, row?);
                Ok(ControlFlow::Continue(()))
            })?;
            for embedder in view.embedders()? {
                view.embeddings(embedder.number, &mut |id, row| {
                    vectors.push((id, row?));
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            for episode in episodes.values() {
                if let Some(key) = &episode.key {
                    assert_eq!(view.id_for_key(&episode.scope, key)?, Some(episode.id));
                }
                if let Some(dir) = &episode.working_dir {
                    assert!(view.ids_in_dir(dir, false)?.contains(&episode.id));
                }
            }
            let mut last = BTreeMap::new();
            for change in view.changes_since(0, usize::MAX)? {
                last.insert(change.id, change);
            }
            // Compaction forgets the rows of what is gone, but for the very last row.
            let end = view.last_sequence()?;
            let mut changes: Vec<Change> = last
                .into_values()
                .filter(|change| change.operation != Operation::Delete || change.sequence == end)
                .collect();
            changes.sort_by_key(|change| change.sequence);
            Ok((
                std::mem::take(&mut episodes),
                std::mem::take(&mut vectors),
                changes,
                view.last_sequence()?,
                view.store_id()?,
            ))
        })
        .unwrap()
}

fn bytes_of_home(home: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(home).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            all.extend(std::fs::read(path).unwrap());
        }
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_compacted_store_holds_the_same_in_less_and_nothing_of_what_was_forgotten() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let other = open(home.path());
    let reader =
        Store::open(home.path(), &StoreOptions { read_only: true, ..StoreOptions::default() }).unwrap();
    let padding = "lorem ipsum ".repeat(100);
    let mut secrets = Vec::new();
    for n in 0..120 {
        let secret = format!("SECRET-{n}-END {padding}");
        let mut one = episode(&if n % 2 == 0 { secret } else { format!("kept {n} {padding}") });
        one.key = Some(format!("key {n}"));
        one.working_dir = Some(format!("/work/{}", n % 7));
        put(&store, &one).unwrap();
        embed(&other, one.id, vec![1.0, 0.0, n as f32]).unwrap();
        if n % 2 == 0 {
            secrets.push(one);
        }
    }
    for secret in &secrets {
        assert!(forget(&store, secret).unwrap());
    }
    assert!(holds(&bytes_of_home(home.path()), "SECRET-"), "free pages still have some");
    let before = everything(&other);
    let id_before = std::fs::metadata(store.path()).unwrap();
    let done = compact(&store);
    assert_eq!(done.records, 60);
    assert!(done.after_bytes < done.before_bytes, "{done:?}");
    assert_ne!(
        std::os::unix::fs::MetadataExt::ino(&id_before),
        std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(store.path()).unwrap())
    );
    for handle in [&store, &other, &reader, &open(home.path())] {
        assert_eq!(everything(handle), before, "the same through every handle");
        assert_eq!(handle.read(|view| view.generation()).unwrap(), 1);
    }
    assert!(!holds(&bytes_of_home(home.path()), "SECRET-"), "no byte of what was forgotten is left");
    // All go on in the new file.
    for handle in [&store, &other] {
        let more = episode("after");
        put(handle, &more).unwrap();
        assert!(reader.read(|view| view.contains(more.id)).unwrap());
    }
    let feed = store.read(|view| view.changes_since(0, usize::MAX)).unwrap();
    assert_eq!(feed.len(), 63, "one row for each record that is there, and what was the last");
    assert_eq!(feed.iter().filter(|change| change.operation == Operation::Delete).count(), 1);
    assert_eq!(store.read(|view| view.feed_start()).unwrap(), before.3);
    assert_eq!(feed.last().unwrap().sequence, store.last_sequence().unwrap());
    assert_eq!(compact(&other).records, 62);
    assert_eq!(store.read(|view| view.generation()).unwrap(), 2);
    let left: Vec<_> =
        std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".new")), "{left:?}");
}

#[test]
fn a_backup_is_one_moment_and_replaces_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for n in 0..300 {
        put(&store, &episode(&format!("first {n}"))).unwrap();
    }
    let stop = Arc::new(AtomicBool::new(false));
    let there = tempfile::tempdir().unwrap();
    let dest = there.path().join("episodes.redb");
    // Each writer writes pairs in one transaction: one moment holds both or none.
    let backed = std::thread::scope(|scope| {
        for _ in 0..3 {
            let (home, stop) = (home.path(), Arc::clone(&stop));
            scope.spawn(move || {
                let store = open(home);
                while !stop.load(Ordering::Relaxed) {
                    let pair = [episode("pair"), episode("pair")];
                    store
                        .write(&store.wait(), move |view| {
                            pair.iter().try_for_each(|e| view.put_episode(e, None))
                        })
                        .unwrap();
                }
            });
        }
        std::thread::sleep(Duration::from_millis(50));
        let backed = store.backup(&dest, &mut |_, _| false);
        stop.store(true, Ordering::Relaxed);
        backed.unwrap()
    });
    let copy = Store::open(there.path(), &StoreOptions::default()).unwrap();
    let (episodes, _, changes, sequence, id) = everything(&copy);
    assert_eq!((episodes.len() as u64, sequence), (backed.records, backed.last_sequence));
    assert_eq!(changes.last().unwrap().sequence, sequence);
    assert_eq!(episodes.values().filter(|episode| episode.summary == "pair").count() % 2, 0);
    assert!(episodes.len() > 300 && id == everything(&store).4);
    for episode in episodes.values() {
        assert!(store.read(|view| view.contains(episode.id)).unwrap());
    }
    let again = store.backup(&dest, &mut |_, _| false).unwrap_err();
    assert!(again.to_string().contains("replaces nothing"), "{again}");
    let nowhere = there.path().join("none/episodes.redb");
    assert!(matches!(store.backup(&nowhere, &mut |_, _| false), Err(Error::Store { .. })));
    assert_eq!(std::fs::read_dir(there.path()).unwrap().count(), 1, "no draft");
    let stopped = there.path().join("other.redb");
    assert!(matches!(store.backup(&stopped, &mut |_, _| true), Err(Error::Interrupted)));
    assert!(!stopped.exists());
    assert_eq!(Store::in_memory().unwrap().backup(&stopped, &mut |_, _| false).unwrap().records, 0);
    assert!(Store::open(there.path(), &StoreOptions::default()).is_ok());
}

#[test]
fn only_one_compacts_at_a_time_and_a_reader_never() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    put(&store, &episode("one")).unwrap();
    let other = open(home.path());
    let mut outcome = None;
    store
        .compact(&store.wait(), &mut |_, _| {
            outcome.get_or_insert_with(|| {
                other.compact(&other.wait(), &mut |_, _| false).unwrap_err().to_string()
            });
            false
        })
        .unwrap();
    assert!(outcome.unwrap().contains("being compacted or repaired already"));
    assert!(matches!(store.compact(&store.wait(), &mut |_, _| true), Err(Error::Interrupted)));
    compact(&other);
    let reader =
        Store::open(home.path(), &StoreOptions { read_only: true, ..StoreOptions::default() }).unwrap();
    assert!(matches!(reader.compact(&reader.wait(), &mut |_, _| false), Err(Error::ReadOnly { .. })));
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 3, "store, holder, locks");
}

#[test]
fn drafts_of_killed_processes_go_and_young_ones_stay() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    put(&store, &episode("one")).unwrap();
    let name = |name: &str| home.path().join(name);
    let dead = name(".episodes.redb.2147483646-1-0.new");
    // In a container every process is number 1.
    let same = name(&format!(".episodes.redb.{}-1-0.new", std::process::id()));
    let young = name(".episodes.redb.2147483645-1-0.new");
    let foreign = name(".episodes.redb.notes.new");
    for path in [&dead, &same, &young, &foreign] {
        std::fs::write(path, "draft").unwrap();
    }
    let old = std::time::SystemTime::now() - Duration::from_hours(1);
    for path in [&dead, &same, &foreign] {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    let mut gone = vec![dead, same];
    gone.sort();
    assert_eq!(compact(&store).removed_drafts, gone);
    for path in gone {
        assert!(!path.exists(), "{}", path.display());
    }
    for path in [young, foreign] {
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn a_compaction_that_gives_up_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    put(&store, &episode("one")).unwrap();
    let other = open(home.path());
    let (locked, held) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            other.write(&other.wait(), move |_| {
                let _ = locked.send(());
                let _ = gone.lock().unwrap().recv();
                Ok(())
            })
        });
        held.recv().unwrap();
        for _ in 0..3 {
            let wait = Wait { deadline: Duration::from_millis(100), interrupted: None };
            let refused = store.compact(&wait, &mut |_, _| false).unwrap_err();
            assert!(matches!(refused, Error::StoreLocked { .. }), "{refused}");
            assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 3, "store, holder, locks");
        }
        go.send(()).unwrap();
    });
    assert_eq!(compact(&store).records, 1);
}

#[test]
fn what_changes_while_it_runs_is_told() {
    let home = tempfile::tempdir().unwrap();
    let (store, other) = (open(home.path()), open(home.path()));
    let one = episode("SECRET that is forgotten while the store is compacted");
    put(&store, &one).unwrap();
    put(&store, &episode("kept")).unwrap();
    let mut forgotten = false;
    let done = store
        .compact(&store.wait(), &mut |done, _| {
            if done > 0 && !std::mem::replace(&mut forgotten, true) {
                assert!(forget(&other, &one).unwrap());
            }
            false
        })
        .unwrap();
    assert_eq!((done.records, done.changed_meanwhile), (1, 1));
    let again = compact(&store);
    assert_eq!(again.changed_meanwhile, 0);
    assert!(!holds(&bytes_of_home(home.path()), "SECRET"));
}

/// Ends the other thread also when this one fails.
struct Stop(Arc<AtomicBool>);
impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn an_exclusive_handle_stays_exclusive_over_a_compaction() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path()));
    let options = StoreOptions { mode: Mode::Exclusive, ..StoreOptions::default() };
    let store = Store::open(home.path(), &options).unwrap();
    put(&store, &episode("one")).unwrap();
    let quick = StoreOptions { lock_timeout: Duration::ZERO, ..StoreOptions::default() };
    let stop = Stop(Arc::new(AtomicBool::new(false)));
    let got_in = std::thread::scope(|scope| {
        let stop = stop;
        let (home, there) = (home.path(), Arc::clone(&stop.0));
        let intruder = scope.spawn(move || {
            let mut got_in = 0;
            while !there.load(Ordering::Relaxed) {
                got_in += u32::from(Store::open(home, &quick).is_ok());
            }
            got_in
        });
        for _ in 0..10 {
            compact(&store);
        }
        put(&store, &episode("two")).unwrap();
        drop(stop);
        intruder.join().unwrap()
    });
    assert_eq!(got_in, 0);
    assert_eq!(store.read(|view| view.count()).unwrap(), 2);
    let (_, exclusive) = otolith_core::store::holder(home.path()).unwrap();
    assert!(exclusive, "the note still says whose it is");
    store.close().unwrap();
    assert_eq!(otolith_core::store::holder(home.path()), None);
    assert_eq!(open(home.path()).read(|view| view.count()).unwrap(), 2);
}

#[test]
fn nobody_holds_the_lock_after_closing() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    put(&store, &episode("one")).unwrap();
    store.close().unwrap();
    assert_eq!(otolith_core::store::holder(home.path()), None);
}

#[test]
fn a_batch_whose_file_is_gone_is_told_as_lost() {
    for replaced in [false, true] {
        let home = tempfile::tempdir().unwrap();
        drop(open(home.path()));
        let options = StoreOptions { durability: Durability::Batched, ..StoreOptions::default() };
        let store = Store::open(home.path(), &options).unwrap();
        let copy = tempfile::tempdir().unwrap();
        store.backup(&copy.path().join("copy"), &mut |_, _| false).unwrap();
        for n in 0..5 {
            put(&store, &episode(&format!("{n}"))).unwrap();
        }
        if replaced {
            std::fs::rename(copy.path().join("copy"), store.path()).unwrap();
        } else {
            std::fs::remove_file(store.path()).unwrap();
        }
        let lost = store.flush(&store.wait()).unwrap_err();
        assert!(lost.to_string().contains("lost"), "{lost}");
    }
}

#[test]
fn who_could_use_the_store_can_use_it_still() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    put(&store, &episode("one")).unwrap();
    std::fs::set_permissions(store.path(), std::fs::Permissions::from_mode(0o660)).unwrap();
    compact(&store);
    assert_eq!(std::fs::metadata(store.path()).unwrap().permissions().mode() & 0o777, 0o660);
}

#[test]
fn another_file_in_its_place_is_still_an_error() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    put(&store, &episode("one")).unwrap();
    let copy = tempfile::tempdir().unwrap();
    store.backup(&copy.path().join("episodes.redb"), &mut |_, _| false).unwrap();
    put(&store, &episode("two")).unwrap();
    std::fs::rename(copy.path().join("episodes.redb"), store.path()).unwrap();
    // The same store in an earlier state, of the same generation: nobody can say that nothing was lost.
    for _ in 0..2 {
        let error = store.read(|view| view.count()).unwrap_err();
        assert!(error.to_string().contains("replaced by another file"), "{error}");
        let error = put(&store, &episode("three")).unwrap_err();
        assert!(error.to_string().contains("replaced by another file"), "{error}");
    }
    assert_eq!(open(home.path()).read(|view| view.count()).unwrap(), 1);
    std::fs::write(store.path(), "no store at all").unwrap();
    let error = store.read(|view| view.count()).unwrap_err();
    assert!(error.to_string().contains("replaced by another file"), "{error}");
}

/// Not a test of its own: what this binary does when it was started by one of the tests.
#[test]
#[allow(clippy::print_stdout)]
fn in_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let home = std::path::PathBuf::from(std::env::var(HOME).unwrap());
    let store = open(&home);
    let say = |text: &str| {
        println!("\n> {text}");
        std::io::stdout().flush().unwrap();
    };
    say("ready");
    match role.as_str() {
        // Writes until its input ends; says each id once it is acknowledged, and at the end the longest wait.
        "write" => {
            let stop = Arc::new(AtomicBool::new(false));
            let there = Arc::clone(&stop);
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_line(&mut String::new());
                there.store(true, Ordering::Relaxed);
            });
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let one = episode("written");
                let started = Instant::now();
                put(&store, &one).unwrap();
                longest = longest.max(started.elapsed());
                say(&format!("ack {}", one.id));
            }
            say(&format!("longest {}", longest.as_micros()));
        }
        // Compacts until it is killed.
        "compact" => loop {
            store.compact(&store.wait(), &mut |_, _| false).unwrap();
            say("done");
        },
        _ => {}
    }
}

fn start(role: &str, home: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_role", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(HOME, home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn nothing_acknowledged_is_lost_with_four_writers_and_twenty_swaps() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    for n in 0..20 {
        put(&store, &episode(&format!("old {n}"))).unwrap();
    }
    let mut writers: Vec<_> = (0..4).map(|_| start("write", home.path())).collect();
    let readers: Vec<_> = writers
        .iter_mut()
        .map(|writer| {
            let output = BufReader::new(writer.stdout.take().unwrap());
            std::thread::spawn(move || {
                let lines = output.lines().map_while(std::result::Result::ok);
                lines.filter_map(|line| line.strip_prefix("> ").map(str::to_owned)).collect::<Vec<_>>()
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let mut blocked = Duration::ZERO;
    for _ in 0..20 {
        blocked = blocked.max(compact(&store).blocked);
        std::thread::sleep(Duration::from_millis(20));
    }
    for writer in &mut writers {
        drop(writer.stdin.take());
    }
    let said: Vec<Vec<String>> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let (episodes, ..) = everything(&store);
    let mut acks = 0;
    for line in said.iter().flatten() {
        if let Some(id) = line.strip_prefix("ack ") {
            acks += 1;
            assert!(episodes.contains_key(&id.parse().unwrap()), "{id} was acknowledged and is gone");
        } else if let Some(longest) = line.strip_prefix("longest ") {
            assert!(longest.parse::<u64>().unwrap() < 5_000_000, "a writer waited {longest} us");
        }
    }
    assert_eq!(episodes.len(), acks + 20, "acknowledged, and the old ones");
    assert_eq!(store.read(|view| view.generation()).unwrap(), 20);
    assert!(acks > 50 && blocked < Duration::from_secs(5), "{acks} acknowledged, blocked {blocked:?}");
}

#[test]
fn a_compaction_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let mut kept = BTreeMap::new();
    for n in 0..60 {
        let one = episode(&format!("kept {n} {}", "x".repeat(2_000)));
        put(&store, &one).unwrap();
        kept.insert(one.id, one);
    }
    for round in 0..12_u64 {
        let mut child = start("compact", home.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "> ready"));
        std::thread::sleep(Duration::from_micros(700 * round * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let one = episode(&format!("round {round}"));
        put(&store, &one).unwrap();
        kept.insert(one.id, one);
        assert_eq!(everything(&store).0, kept);
        assert_eq!(everything(&open(home.path())).0, kept);
    }
    compact(&store);
    assert_eq!(everything(&store).0, kept);
}

#[test]
fn vectors_of_an_embedder_whose_place_another_took_are_nobodys_and_stay_behind() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let all: Vec<Episode> = (0..40).map(|n| episode(&format!("note {n}"))).collect();
    for one in &all {
        put(&store, one).unwrap();
        let id = one.id;
        let job = move |view: &mut otolith_core::store::WriteView<'_>| {
            for (name, dim) in [("old", 400), ("new", 3)] {
                let number = view.register_embedder(name, dim)?;
                let row = Embedded::Row(vec![0.5; dim as usize]);
                view.put_embeddings(number, id, &[EmbeddingRow { chunk: 0, text_hash: 7, vector: row }])?;
            }
            view.set_home_embedder(1)
        };
        store.write(&store.wait(), job).unwrap();
    }
    embed(&store, all[0].id, vec![1.0, 2.0, 3.0]).unwrap();
    let sequence = store.last_sequence().unwrap();
    store.write(&store.wait(), |view| view.replace_home_embedder(Some(2))).unwrap();
    assert_eq!(store.last_sequence().unwrap(), sequence + 1, "whoever follows the feed hears of it");
    store.write(&store.wait(), |view| view.replace_home_embedder(Some(2))).unwrap();
    assert_eq!(store.last_sequence().unwrap(), sequence + 1);
    let count = |store: &Store, number: u32| {
        let mut count = 0;
        let mut visit = |_: RecordId, _: Result<EmbeddingRow>| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        };
        store.read(|view| view.embeddings(number, &mut visit)).unwrap();
        count
    };
    let named = |store: &Store| {
        let embedders = store.read(|view| view.embedders()).unwrap();
        embedders.into_iter().map(|one| (one.number, one.fingerprint)).collect::<Vec<_>>()
    };
    let names = [(1, "replaced:old"), (2, "new"), (3, "given:3")].map(|(n, name)| (n, name.to_owned()));
    assert_eq!((named(&store), count(&store, 1)), (names.to_vec(), 40));
    // Some of it goes at once, the rest with the next compaction.
    let purge = |store: &Store| store.write(&store.wait(), |view| view.purge_replaced(7)).unwrap();
    assert_eq!((purge(&store), count(&store, 1)), (9, 37), "three vectors of three parts");
    let verified = Store::verify(home.path(), &StoreOptions::default(), &mut |_, _| false).unwrap();
    assert_eq!(verified.problems, []);
    compact(&store);
    assert_eq!((count(&store, 1), count(&store, 2), count(&store, 3)), (0, 40, 1));
    assert_eq!((named(&store), purge(&store)), (names.to_vec(), 0));
    assert_eq!(store.read(|view| view.home_embedder()).unwrap(), Some(2));
    // Vectors that callers gave are nobody else's to make again.
    store.write(&store.wait(), |view| view.replace_home_embedder(Some(3))).unwrap();
    let back = |view: &mut otolith_core::store::WriteView<'_>| {
        let number = view.register_embedder("old", 5)?;
        view.replace_home_embedder(Some(number))?;
        Ok(number)
    };
    assert_eq!(store.write(&store.wait(), back).unwrap(), 4, "a number is never given out again");
    assert_eq!(named(&store)[2].1, "given:3");
    store.write(&store.wait(), |view| view.replace_home_embedder(None)).unwrap();
    assert_eq!(store.read(|view| view.home_embedder()).unwrap(), None);
    store.close().unwrap();
    let verified = Store::verify(home.path(), &StoreOptions::default(), &mut |_, _| false).unwrap();
    assert_eq!(verified.problems, []);
}
