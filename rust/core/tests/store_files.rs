//! What is at the store's path, and what becomes of it while it is open.
#![allow(clippy::unwrap_used)] // helpers of tests, too
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use otolith_core::episode::{Episode, Origin, Scope};
use otolith_core::error::Error;
use otolith_core::ids::RecordId;
use otolith_core::store::{FORMAT_VERSION, OLDEST_READER, Store, StoreOptions};
use otolith_core::time::{Clock, SystemClock};
use std::path::Path;
use std::sync::Arc;

fn open(home: &Path) -> Result<Store, Error> {
    Store::open(home, &StoreOptions::default())
}

fn create(home: &Path) -> Result<Store, Error> {
    Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() })
}

fn read_only(home: &Path) -> Result<Store, Error> {
    Store::open(home, &StoreOptions { read_only: true, ..StoreOptions::default() })
}

fn remember(store: &Store) -> Result<RecordId, Error> {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    let episode = Episode { summary: "x".to_owned(), ..Episode::new(id, now, Scope::root(), Origin::User) };
    store.write(&store.wait(), move |view| view.put_episode(&episode, None))?;
    Ok(id)
}

fn store_error(outcome: Result<Store, Error>, words: &[&str]) {
    let Err(error) = outcome else { panic!("it must not open") };
    assert!(matches!(error, Error::Store { .. }), "{error:?}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
}

#[test]
fn a_missing_store_is_an_error_that_says_how_to_make_one() {
    let outer = tempfile::tempdir().unwrap();
    for home in [outer.path().join("none"), outer.path().to_owned()] {
        for outcome in [open(&home), read_only(&home)] {
            store_error(outcome, &["otolith init", "episodes.redb"]);
        }
    }
    assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 0, "nothing was made");
    let home = outer.path().join("deep/er");
    let store = create(&home).unwrap();
    assert_eq!(store.path(), home.join("episodes.redb"));
    let (format, oldest, count, sequence) = store
        .read(|view| {
            Ok((view.format_version()?, view.oldest_reader()?, view.count()?, view.last_sequence()?))
        })
        .unwrap();
    assert_eq!((format, oldest, count, sequence), (FORMAT_VERSION, OLDEST_READER, 0, 0));
    let age = SystemClock.now().unix_micros() - store.read(|view| view.created()).unwrap().unix_micros();
    assert!((0..60_000_000).contains(&age), "{age}");
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("episodes.redb");
    let sqlite = [b"SQLite format 3\0".as_slice(), &[7; 5000]].concat();
    let magic_only = [b"redb\x1A\x0A\xA9\x0D\x0A".as_slice(), &[0xEE; 9000]].concat();
    for bytes in [b"hello".to_vec(), vec![0; 8192], sqlite, magic_only] {
        std::fs::write(&file, &bytes).unwrap();
        for outcome in [open(home.path()), create(home.path()), read_only(home.path())] {
            let error = outcome.expect_err("it must not open");
            assert!(matches!(&error, Error::StoreCorrupt { path, .. } if *path == file), "{error:?}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    std::fs::write(&file, b"").unwrap();
    store_error(create(home.path()), &["empty"]);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    for outcome in [open(home.path()), create(home.path()), read_only(home.path())] {
        store_error(outcome, &["directory", "episodes.redb"]);
    }
    let plain = home.path().join("plain");
    std::fs::write(&plain, b"text").unwrap();
    store_error(create(&plain), &["not a directory", "plain"]);
    store_error(create(&plain.join("below")), &["not a directory"]);
    assert_eq!(std::fs::read(&plain).unwrap(), b"text");
}

#[test]
fn a_truncated_store_is_an_error_at_every_length() {
    let home = tempfile::tempdir().unwrap();
    let store = create(home.path()).unwrap();
    for _ in 0..20 {
        remember(&store).unwrap();
    }
    drop(store);
    let file = home.path().join("episodes.redb");
    let whole = std::fs::read(&file).unwrap();
    for eighth in 1..8 {
        let part = &whole[..whole.len() * eighth / 8];
        std::fs::write(&file, part).unwrap();
        let outcome = open(home.path()).and_then(|store| {
            let rows = store.read(|view| {
                let mut rows = 0;
                view.episodes(None, false, &mut |_, row| {
                    row?;
                    rows += 1;
                    Ok(std::ops::ControlFlow::Continue(()))
                })?;
                Ok(rows)
            })?;
            assert_eq!(rows, 20, "wrong answers are not allowed, right ones are");
            remember(&store)
        });
        if let Err(error) = outcome {
            assert!(matches!(error, Error::Store { .. } | Error::StoreCorrupt { .. }), "{error:?}");
        }
    }
}

#[test]
fn read_only_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = create(home.path()).unwrap();
    let id = remember(&store).unwrap();
    drop(store);
    std::fs::remove_file(home.path().join("holder")).unwrap();
    let file = home.path().join("episodes.redb");
    let before = (std::fs::read(&file).unwrap(), std::fs::metadata(&file).unwrap().modified().unwrap());
    let store = read_only(home.path()).unwrap();
    assert!(store.read(|view| view.contains(id)).unwrap());
    assert!(matches!(remember(&store).unwrap_err(), Error::ReadOnly { .. }));
    store.close().unwrap();
    // A writable handle that only reads writes nothing either.
    let store = open(home.path()).unwrap();
    assert!(store.read(|view| view.contains(id)).unwrap());
    drop(store);
    let after = (std::fs::read(&file).unwrap(), std::fs::metadata(&file).unwrap().modified().unwrap());
    assert!(before == after);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn a_file_that_vanishes_or_is_replaced_is_noticed() {
    let home = tempfile::tempdir().unwrap();
    let store = create(home.path()).unwrap();
    remember(&store).unwrap();
    let reader = open(home.path()).unwrap();
    let (file, aside) = (home.path().join("episodes.redb"), home.path().join("aside"));
    std::fs::rename(&file, &aside).unwrap();
    for store in [&store, &reader] {
        let error = store.read(|view| view.count()).unwrap_err().to_string();
        assert!(error.contains("removed while it was open"), "{error}");
        let error = remember(store).unwrap_err();
        assert!(matches!(error, Error::Store { .. }), "{error}");
    }
    std::fs::copy(&aside, &file).unwrap();
    for store in [&store, &reader] {
        let error = store.read(|view| view.count()).unwrap_err().to_string();
        assert!(error.contains("replaced by another file"), "{error}");
        let error = remember(store).unwrap_err().to_string();
        assert!(error.contains("replaced by another file"), "{error}");
    }
    assert_eq!(open(home.path()).unwrap().read(|view| view.count()).unwrap(), 1);
    // The same file back in its place: everything goes on.
    std::fs::rename(&aside, &file).unwrap();
    for store in [&store, &reader] {
        remember(store).unwrap();
    }
    assert_eq!(store.read(|view| view.count()).unwrap(), 3);
}

#[test]
fn closed_handles_say_so() {
    let home = tempfile::tempdir().unwrap();
    for store in [create(home.path()).unwrap(), Store::in_memory().unwrap()] {
        remember(&store).unwrap();
        store.close().unwrap();
        store.close().unwrap();
        for error in [store.read(|view| view.count()).unwrap_err(), remember(&store).unwrap_err()] {
            assert!(matches!(&error, Error::Store { message, .. } if message.contains("closed")), "{error}");
        }
    }
}

#[test]
fn threads_and_handles_of_one_process_share_a_store() {
    let home = tempfile::tempdir().unwrap();
    let handles = [Arc::new(create(home.path()).unwrap()), Arc::new(create(home.path()).unwrap())];
    std::thread::scope(|scope| {
        for n in 0..16 {
            let store = Arc::clone(&handles[n % 2]);
            scope.spawn(move || {
                for _ in 0..10 {
                    let id = remember(&store).unwrap();
                    assert!(
                        store.read(|view| view.episode(id)).unwrap().is_some(),
                        "what was written is there"
                    );
                }
            });
        }
    });
    for store in &handles {
        assert_eq!(store.read(|view| Ok((view.count()?, view.last_sequence()?))).unwrap(), (160, 160));
    }
}
