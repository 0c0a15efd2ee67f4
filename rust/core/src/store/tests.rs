//! Tests that need to reach inside: faults, damage, and the comparison with a model.
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use super::fault::{Call, FaultPlan};
use super::tables::{EMBEDDINGS, EPISODES, META};
use super::*;
use crate::episode::{Episode, Origin, Scope};
use crate::ids::RecordId;
use crate::time::Moment;
use proptest::prelude::*;
use redb::{Builder, ConcurrencyMode, Database, ReadableDatabase, ReadableTable};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

pub(super) const EIO: i32 = 5;
pub(super) const ENOSPC: i32 = 28;

fn creating() -> StoreOptions {
    StoreOptions { create: true, ..StoreOptions::default() }
}

fn writable(home: &Path) -> Store {
    Store::open(home, &creating()).unwrap()
}

pub(super) fn episode(summary: &str) -> Episode {
    let now = Moment::utc(1_760_000_000_000_000);
    let id = RecordId::new_episode(now.unix_micros());
    Episode { summary: summary.to_owned(), ..Episode::new(id, now, Scope::root(), Origin::User) }
}

pub(super) fn put(store: &Store, episode: &Episode) -> Result<()> {
    let episode = episode.clone();
    store.write(&Wait::default(), move |view| view.put_episode(&episode, None))
}

pub(super) fn get(store: &Store, id: RecordId) -> Result<Option<Episode>> {
    store.read(|view| view.episode(id))
}

/// The file as redb sees it, behind the back of the store.
fn raw(home: &Path) -> Database {
    let mut builder = Builder::new();
    builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
    builder.open(home.join(STORE_FILE)).unwrap()
}

pub(super) fn faulty(home: &Path, plan: &Arc<FaultPlan>, options: &StoreOptions) -> Store {
    let place = Place {
        home: home.to_owned(),
        path: home.join(STORE_FILE),
        cache_bytes: options.cache_bytes,
        lock_timeout: options.lock_timeout,
        mode: options.mode,
        faults: Some(Arc::clone(plan)),
        file_system: None,
    };
    Store::open_place(place, options).unwrap()
}

#[test]
fn every_failing_write_call_is_a_typed_error_and_the_handle_goes_on() {
    for call in [Call::Write, Call::Sync, Call::SetLen] {
        for errno in [EIO, ENOSPC] {
            for nth in 0..6 {
                let home = tempfile::tempdir().unwrap();
                let plan = Arc::new(FaultPlan::default());
                let store = faulty(home.path(), &plan, &creating());
                let first = episode("before the fault");
                put(&store, &first).unwrap();
                plan.arm(call, nth, errno, false);
                // Large enough that the file has to grow.
                let mut second = episode("during the fault");
                second.body = Some("x".repeat(1 << 20));
                let outcome = put(&store, &second);
                plan.disarm();
                if plan.struck() == 0 {
                    outcome.unwrap();
                } else {
                    let error = outcome.unwrap_err();
                    assert!(
                        matches!(error, Error::Store { source: Some(_), .. }),
                        "{call:?} {nth}: {error:?}"
                    );
                    if errno == ENOSPC {
                        assert!(error.to_string().contains("no space"), "{error}");
                    }
                }
                assert_eq!(
                    get(&store, first.id).unwrap().unwrap(),
                    first,
                    "{call:?} {nth}: the old state is there"
                );
                let third = episode("after the fault");
                put(&store, &third).unwrap();
                drop(store);
                let store = writable(home.path());
                assert_eq!(get(&store, third.id).unwrap().unwrap(), third);
                assert_eq!(get(&store, first.id).unwrap().unwrap(), first);
            }
        }
    }
}

#[test]
fn a_failing_read_is_a_typed_error_and_the_next_one_works() {
    let home = tempfile::tempdir().unwrap();
    let kept = episode("kept");
    put(&writable(home.path()), &kept).unwrap();
    let plan = Arc::new(FaultPlan::default());
    let store = faulty(home.path(), &plan, &creating());
    plan.arm(Call::Read, 0, EIO, true);
    let failed = get(&store, kept.id).and_then(|_| store.read(|view| view.ids_in_dir("/", true).map(|_| ())));
    assert!(plan.struck() > 0, "the read must have gone to the file");
    assert!(matches!(failed.unwrap_err(), Error::Store { .. }));
    plan.disarm();
    assert_eq!(get(&store, kept.id).unwrap().unwrap(), kept);
}

#[test]
fn a_panic_below_becomes_corruption_and_the_handle_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let kept = episode("kept");
    put(&writable(home.path()), &kept).unwrap();
    let plan = Arc::new(FaultPlan::default());
    let store = faulty(home.path(), &plan, &creating());
    plan.arm_panic();
    let error = get(&store, kept.id).unwrap_err();
    assert!(
        matches!(&error, Error::StoreCorrupt { detail, .. } if detail.contains("a damaged page")),
        "{error:?}"
    );
    assert_eq!(get(&store, kept.id).unwrap().unwrap(), kept);
    // In a write: the job's own panic harms neither the store nor the next job.
    let error = store.write(&Wait::default(), |_| -> Result<()> { panic!("in the job") }).unwrap_err();
    assert!(error.to_string().contains("in the job"), "{error}");
    put(&store, &episode("after")).unwrap();
    assert_eq!(store.read(|view| view.count()).unwrap(), 2);
}

#[test]
fn a_damaged_value_is_named_and_the_others_are_read() {
    let home = tempfile::tempdir().unwrap();
    let (good, bad) = (episode("good"), episode("bad"));
    let store = writable(home.path());
    put(&store, &good).unwrap();
    put(&store, &bad).unwrap();
    let (id, rows) =
        (bad.id, vec![EmbeddingRow { chunk: 0, text_hash: 1, vector: Embedded::Row(vec![0.5; 4]) }]);
    store
        .write(&Wait::default(), move |view| {
            let number = view.register_embedder("test", 4)?;
            view.put_embeddings(number, id, &rows)
        })
        .unwrap();
    drop(store);
    let db = raw(home.path());
    let transaction = db.begin_write().unwrap();
    {
        let mut table = transaction.open_table(EPISODES).unwrap();
        let mut value = table.get(bad.id.as_bytes()).unwrap().unwrap().value().to_vec();
        let last = value.len() - 1;
        value[last] ^= 1;
        table.insert(bad.id.as_bytes(), value.as_slice()).unwrap();
        let mut table = transaction.open_table(EMBEDDINGS).unwrap();
        let (key, mut value) = {
            let (key, value) = table.first().unwrap().unwrap();
            (key.value().2, value.value().to_vec())
        };
        value[30] ^= 0x40;
        table.insert((1, bad.id.as_bytes(), key), value.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
    drop(db);

    let store = writable(home.path());
    let names_it = |error: &Error, table: &str| {
        matches!(error, Error::StoreCorrupt { detail, .. }
            if detail.contains(table) && detail.contains(&bad.id.to_string()))
    };
    let error = get(&store, bad.id).unwrap_err();
    assert!(names_it(&error, "episodes"), "{error}");
    let error = store.read(|view| view.embeddings_of(1, bad.id)).unwrap_err();
    assert!(names_it(&error, "embeddings"), "{error}");
    for newest_first in [false, true] {
        let (mut read, mut failed) = (Vec::new(), Vec::new());
        store
            .read(|view| {
                view.episodes(None, newest_first, &mut |_, row| {
                    match row {
                        Ok(episode) => read.push(episode.id),
                        Err(error) => failed.push(error),
                    }
                    Ok(ControlFlow::Continue(()))
                })
            })
            .unwrap();
        assert_eq!(read, [good.id]);
        assert_eq!(failed.len(), 1);
        assert!(names_it(&failed[0], "episodes"));
    }
    // It can still be removed.
    let gone = bad.clone();
    assert!(store.write(&Wait::default(), move |view| view.delete_episode(&gone)).unwrap());
    assert_eq!(get(&store, bad.id).unwrap(), None);
}

#[test]
fn parts_that_are_not_of_one_vector_are_an_error_and_never_a_vector() {
    type Parts = BTreeMap<u32, Vec<u8>>;
    type Spoil = fn(&mut Parts, &Parts);
    let vector = |seed: f32| EmbeddingRow {
        chunk: 0,
        text_hash: 1,
        // The numbers of the first part are the same in all of them.
        vector: Embedded::Row((0..DIM).map(|n| if n < 250 { 0.0 } else { seed }).collect()),
    };
    let spoil: [(&str, Spoil); 5] = [
        ("the first is missing", |parts, _| drop(parts.pop_first())),
        ("the last is missing", |parts, _| drop(parts.pop_last())),
        ("the last is of an earlier vector", |parts, earlier| {
            let (number, value) = earlier.last_key_value().unwrap();
            parts.insert(*number, value.clone());
        }),
        ("the first is of an earlier vector", |parts, earlier| {
            let (number, value) = earlier.first_key_value().unwrap();
            parts.insert(*number, value.clone());
        }),
        ("one is damaged", |parts, _| parts.last_entry().unwrap().get_mut()[20] ^= 1),
    ];
    for (what, spoil) in spoil {
        let home = tempfile::tempdir().unwrap();
        let store = writable(home.path());
        let (bad, good) = (episode("bad"), episode("good"));
        let parts_of = |id: RecordId| -> Parts {
            let db = raw(home.path());
            let table = db.begin_read().unwrap().open_table(EMBEDDINGS).unwrap();
            let rows = table.range((1, id.as_bytes(), 0)..=(1, id.as_bytes(), u32::MAX)).unwrap();
            rows.map(Result::unwrap).map(|(key, value)| (key.value().2, value.value().to_vec())).collect()
        };
        let embed = |id: RecordId, seed: f32| {
            let rows = [vector(seed)];
            let job = move |view: &mut WriteView<'_>| {
                let number = view.register_embedder("test", DIM)?;
                view.put_embeddings(number, id, &rows)
            };
            store.write(&Wait::default(), job).unwrap();
        };
        for one in [&bad, &good] {
            put(&store, one).unwrap();
            embed(one.id, 1.0);
        }
        let earlier = parts_of(bad.id);
        embed(bad.id, 2.0);
        let mut parts = parts_of(bad.id);
        assert!(parts.len() > 1);
        spoil(&mut parts, &earlier);
        let db = raw(home.path());
        let transaction = db.begin_write().unwrap();
        {
            let mut table = transaction.open_table(EMBEDDINGS).unwrap();
            table.retain(|(_, id, _), _| id != bad.id.as_bytes()).unwrap();
            for (number, value) in &parts {
                table.insert((1, bad.id.as_bytes(), *number), value.as_slice()).unwrap();
            }
        }
        transaction.commit().unwrap();
        drop(db);
        let error = store.read(|view| view.embeddings_of(1, bad.id)).unwrap_err();
        assert!(
            matches!(&error, Error::StoreCorrupt { detail, .. } if detail.contains(&bad.id.to_string())),
            "{what}: {error}"
        );
        let mut found = Vec::new();
        let visit = |view: &ReadView<'_>| {
            view.embeddings(1, &mut |id, row| {
                found.push((id, row.ok()));
                Ok(ControlFlow::Continue(()))
            })
        };
        store.read(visit).unwrap();
        found.sort_by_key(|(id, _)| *id == good.id);
        assert_eq!(found, [(bad.id, None), (good.id, Some(vector(1.0)))], "{what}");
        // Given again, it is there again.
        embed(bad.id, 3.0);
        assert_eq!(store.read(|view| view.embeddings_of(1, bad.id)).unwrap(), [vector(3.0)], "{what}");
    }
}

fn set_meta_number(home: &Path, name: &'static str, number: u32) {
    let db = raw(home);
    let transaction = db.begin_write().unwrap();
    {
        let value = seal::seal("meta", name.as_bytes(), &number.to_le_bytes());
        transaction.open_table(META).unwrap().insert(name, value.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn newer_formats_are_refused_or_only_read() {
    let home = tempfile::tempdir().unwrap();
    let kept = episode("kept");
    put(&writable(home.path()), &kept).unwrap();
    set_meta_number(home.path(), tables::META_FORMAT, 9);
    let store = writable(home.path());
    assert_eq!(get(&store, kept.id).unwrap().unwrap(), kept, "the newer format says that we may read it");
    assert!(matches!(
        put(&store, &episode("x")).unwrap_err(),
        Error::FormatTooNew { found: 9, supported: 2, .. }
    ));
    drop(store);
    set_meta_number(home.path(), tables::META_OLDEST_READER, 9);
    let error = Store::open(home.path(), &StoreOptions::default()).unwrap_err();
    assert!(matches!(error, Error::FormatTooNew { found: 9, supported: 2, .. }), "{error}");
    set_meta_number(home.path(), tables::META_OLDEST_READER, 1);
    set_meta_number(home.path(), tables::META_FORMAT, 0);
    let error = Store::open(home.path(), &StoreOptions::default()).unwrap_err();
    assert!(matches!(error, Error::StoreCorrupt { .. }), "{error}");
}

#[test]
fn a_redb_file_that_is_no_store_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(STORE_FILE);
    {
        let mut builder = Builder::new();
        builder.set_concurrency_mode(ConcurrencyMode::MultiWriter);
        let db = builder.create(&path).unwrap();
        let transaction = db.begin_write().unwrap();
        let table: redb::TableDefinition<'_, u64, u64> = redb::TableDefinition::new("theirs");
        transaction.open_table(table).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
    }
    let before = std::fs::read(&path).unwrap();
    for create in [false, true] {
        let error =
            Store::open(home.path(), &StoreOptions { create, ..StoreOptions::default() }).unwrap_err();
        assert!(
            matches!(&error, Error::StoreCorrupt { detail, .. } if detail.contains("not an otolith store")),
            "{error}"
        );
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_failing_job_of_a_group_harms_no_other() {
    let store = Arc::new(Store::in_memory().unwrap());
    let taken = Episode { key: Some("k".into()), ..episode("owner") };
    put(&store, &taken).unwrap();
    let gate = Arc::new(std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        // Holds the writer thread until the others are queued, so that they form a group.
        let (there, blocked) = (Arc::clone(&gate), Arc::clone(&store));
        scope.spawn(move || {
            blocked
                .write(&Wait::default(), move |_| {
                    there.wait();
                    std::thread::sleep(Duration::from_millis(100));
                    Ok(())
                })
                .unwrap();
        });
        gate.wait();
        let jobs: Vec<_> = (0..9)
            .map(|n| {
                let store = Arc::clone(&store);
                scope.spawn(move || {
                    let key = if n % 3 == 0 { "k".to_owned() } else { format!("free {n}") };
                    put(&store, &Episode { key: Some(key), ..episode("another") })
                })
            })
            .collect();
        for (n, job) in jobs.into_iter().enumerate() {
            let outcome = job.join().unwrap();
            if n % 3 == 0 {
                assert!(matches!(outcome.unwrap_err(), Error::Conflict { .. }));
            } else {
                outcome.unwrap();
            }
        }
    });
    let (count, changes) = store.read(|view| Ok((view.count()?, view.changes_since(0, 100)?))).unwrap();
    assert_eq!((count, changes.len()), (7, 7), "failed jobs leave neither rows nor changes");
    assert!(changes.iter().map(|change| change.sequence).eq(1..=7));
}

#[test]
fn an_interrupted_or_late_job_never_runs() {
    let store = Arc::new(Store::in_memory().unwrap());
    let gate = Arc::new(std::sync::Barrier::new(2));
    let (there, blocked) = (Arc::clone(&gate), Arc::clone(&store));
    let blocker = std::thread::spawn(move || {
        blocked.write(&Wait::default(), move |_| {
            there.wait();
            std::thread::sleep(Duration::from_millis(400));
            Ok(())
        })
    });
    gate.wait();
    let late = episode("late");
    let write = |wait: &Wait<'_>| {
        let late = late.clone();
        store.write(wait, move |view| view.put_episode(&late, None)).unwrap_err()
    };
    let error = write(&Wait { deadline: Duration::from_millis(20), interrupted: None });
    assert!(matches!(error, Error::StoreLocked { waited_ms: 20.., .. }), "{error}");
    let error = write(&Wait { deadline: Duration::from_secs(30), interrupted: Some(&|| true) });
    assert!(matches!(error, Error::Interrupted), "{error}");
    blocker.join().unwrap().unwrap();
    put(&store, &episode("next")).unwrap();
    assert_eq!(get(&store, late.id).unwrap(), None);
    let inner = Arc::clone(&store);
    let error = store.write(&Wait::default(), move |_| put(&inner, &episode("inside"))).unwrap_err();
    assert!(matches!(error, Error::Internal(_)), "a job must not wait for its own thread: {error}");
}

/// Holds the lock redb takes around its header, as a process that was stopped at the wrong moment would.
#[cfg(target_os = "linux")]
fn lock_header(home: &Path) -> std::fs::File {
    use std::os::fd::AsRawFd;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(home.join(STORE_FILE)).unwrap();
    // SAFETY: zero is a valid value of every field of this plain structure.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as i16;
    range.l_len = 64;
    // SAFETY: the descriptor is open and the structure lives through the call.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) }, 0);
    file
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_stopped_within_the_header_lock_is_a_typed_error_at_the_deadline() {
    let home = tempfile::tempdir().unwrap();
    let kept = episode("kept");
    let options = StoreOptions { lock_timeout: Duration::from_millis(200), ..StoreOptions::default() };
    let writer = writable(home.path());
    put(&writer, &kept).unwrap();
    let store = Store::open(home.path(), &options).unwrap();
    let held = lock_header(home.path());
    let started = std::time::Instant::now();
    let errors = [
        get(&store, kept.id).unwrap_err(),
        store.write(&store.wait(), |view| view.set_meta("name", b"body")).unwrap_err(),
        Store::open(home.path(), &options).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::StoreLocked { waited_ms: 200.., .. }), "{error:?}");
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    drop(held);
    assert_eq!(get(&store, kept.id).unwrap().unwrap(), kept);
    store.write(&store.wait(), |view| view.set_meta("name", b"body")).unwrap();
}

// ---- the store against a model ----

#[derive(Debug, Clone)]
enum Step {
    Put { slot: usize, key: Option<u8>, dir: Option<u8>, scope: u8 },
    Delete { slot: usize },
    Embed { slot: usize, embedder: u8, chunks: u8 },
    Unembed { slot: usize },
    Reopen,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Model {
    episodes: BTreeMap<RecordId, Episode>,
    vectors: BTreeMap<(u32, RecordId), Vec<EmbeddingRow>>,
    changes: Vec<(Operation, RecordId)>,
}

const DIRS: [&str; 6] = ["/", "/a", "/a/b", "/a/bc", "/a/b/c", "/ab"];
const SLOTS: usize = 6;
/// Wide enough for several parts.
const DIM: u32 = 400;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..SLOTS, prop::option::of(0..3u8), prop::option::of(0..6u8), 0..2u8)
            .prop_map(|(slot, key, dir, scope)| Step::Put { slot, key, dir, scope }),
        2 => (0..SLOTS).prop_map(|slot| Step::Delete { slot }),
        3 => (0..SLOTS, 0..2u8, 0..3u8).prop_map(|(slot, embedder, chunks)| Step::Embed { slot, embedder, chunks }),
        1 => (0..SLOTS).prop_map(|slot| Step::Unembed { slot }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

fn apply(model: &mut Model, store: &mut Store, home: &Path, ids: &[RecordId], step: &Step) {
    match step.clone() {
        Step::Reopen => {
            store.close().unwrap();
            *store = writable(home);
        }
        Step::Put { slot, key, dir, scope } => {
            let scope: Scope = ["", "team"][usize::from(scope)].parse().unwrap();
            let episode = Episode {
                id: ids[slot],
                key: key.map(|key| format!("key {key}")),
                working_dir: dir.map(|dir| DIRS[usize::from(dir)].to_owned()),
                scope,
                ..episode(&format!("version {}", model.changes.len()))
            };
            let rival = model.episodes.values().any(|other| {
                other.id != episode.id
                    && other.key.is_some()
                    && (&other.key, &other.scope) == (&episode.key, &episode.scope)
            });
            let outcome = put(store, &episode);
            if rival {
                assert!(matches!(outcome.unwrap_err(), Error::Conflict { .. }));
            } else {
                outcome.unwrap();
                model.changes.push((Operation::Put, episode.id));
                model.episodes.insert(episode.id, episode);
            }
        }
        Step::Delete { slot } => {
            let id = ids[slot];
            let known = model.episodes.remove(&id);
            model.vectors.retain(|(_, owner), _| *owner != id);
            let given = known.clone().unwrap_or_else(|| Episode { id, ..episode("not there") });
            let was_there = store.write(&Wait::default(), move |view| view.delete_episode(&given)).unwrap();
            assert_eq!(was_there, known.is_some());
            if was_there {
                model.changes.push((Operation::Delete, id));
            }
        }
        Step::Embed { slot, embedder, chunks } => {
            let id = ids[slot];
            let rows: Vec<EmbeddingRow> = (0..u32::from(chunks))
                .map(|chunk| EmbeddingRow {
                    chunk,
                    text_hash: model.changes.len() as u128,
                    vector: if chunk == 1 {
                        Embedded::Refused("NaN".into())
                    } else {
                        Embedded::Row((0..DIM).map(|n| (n * 7 + chunk) as f32 - 3.5).collect())
                    },
                })
                .collect();
            let stored = rows.clone();
            let number = store
                .write(&Wait::default(), move |view| {
                    let number = view.register_embedder(["one", "two"][usize::from(embedder)], DIM)?;
                    view.put_embeddings(number, id, &stored)?;
                    Ok(number)
                })
                .unwrap();
            model.changes.push((Operation::Embed, id));
            if rows.is_empty() {
                model.vectors.remove(&(number, id));
            } else {
                model.vectors.insert((number, id), rows);
            }
        }
        Step::Unembed { slot } => {
            let id = ids[slot];
            let had = model.vectors.keys().any(|(_, owner)| *owner == id);
            model.vectors.retain(|(_, owner), _| *owner != id);
            assert_eq!(store.write(&Wait::default(), move |view| view.delete_embeddings(id)).unwrap(), had);
            if had {
                model.changes.push((Operation::Embed, id));
            }
        }
    }
}

fn compare(model: &Model, view: &ReadView<'_>) -> Result<()> {
    let mut found = BTreeMap::new();
    view.episodes(None, false, &mut |_, row| {
        let row = row?;
        found.insert(row.id, row);
        Ok(ControlFlow::Continue(()))
    })?;
    assert_eq!(found, model.episodes);
    assert_eq!(view.count()?, model.episodes.len() as u64);
    for scope in ["", "team"] {
        let scope: Scope = scope.parse()?;
        for key in 0..3 {
            let key = format!("key {key}");
            let owner = model.episodes.values().find(|e| e.key.as_ref() == Some(&key) && e.scope == scope);
            assert_eq!(view.id_for_key(&scope, &key)?, owner.map(|e| e.id), "{key} in {scope:?}");
        }
    }
    for dir in DIRS {
        for below in [false, true] {
            let stem = format!("{}/", dir.trim_end_matches('/'));
            let wanted: Vec<RecordId> = model
                .episodes
                .values()
                .filter(|e| {
                    e.working_dir.as_ref().is_some_and(|d| d == dir || (below && d.starts_with(&stem)))
                })
                .map(|e| e.id)
                .collect();
            assert_eq!(view.ids_in_dir(dir, below)?, wanted, "{dir} below {below}");
        }
    }
    let mut vectors: BTreeMap<(u32, RecordId), Vec<EmbeddingRow>> = BTreeMap::new();
    for embedder in view.embedders()? {
        view.embeddings(embedder.number, &mut |id, row| {
            vectors.entry((embedder.number, id)).or_default().push(row?);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    assert_eq!(vectors, model.vectors);
    for ((number, id), rows) in &model.vectors {
        assert_eq!(&view.embeddings_of(*number, *id)?, rows);
    }
    assert_eq!(view.last_sequence()?, model.changes.len() as u64);
    let changes = view.changes_since(0, usize::MAX)?;
    let seen: Vec<_> = changes.iter().map(|change| (change.operation, change.id)).collect();
    assert_eq!(seen, model.changes);
    let half = model.changes.len() as u64 / 2;
    assert_eq!(
        view.changes_since(half, 3)?,
        changes.into_iter().skip(half as usize).take(3).collect::<Vec<_>>()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_writes_and_reopenings_equals_the_model(steps in steps()) {
        let home = tempfile::tempdir().unwrap();
        let mut store = writable(home.path());
        let ids: Vec<RecordId> = (0..SLOTS).map(|_| RecordId::new_episode(1)).collect();
        let mut model = Model::default();
        for step in steps {
            apply(&mut model, &mut store, home.path(), &ids, &step);
            store.read(|view| compare(&model, view)).unwrap();
        }
        // The same inside a write transaction.
        let expected = model.clone();
        store.write(&Wait::default(), move |view| compare(&expected, view)).unwrap();
    }
}
