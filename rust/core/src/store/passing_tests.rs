//! Tests of writes that run on the thread of their caller.
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use super::backend::QUEUE_BYTE;
use super::tests::{episode, get, put};
use super::*;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::sync::Barrier;
use std::thread::ThreadId;

/// A store whose file is open for writing.
fn writable(home: &Path) -> Store {
    let store = Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap();
    put(&store, &episode("opens the file")).unwrap();
    store
}

/// Which thread a write runs on.
fn thread_of(store: &Store) -> ThreadId {
    store
        .write(&Wait::default(), |view| {
            view.set_meta("name", b"body")?;
            Ok(std::thread::current().id())
        })
        .unwrap()
}

fn here() -> ThreadId {
    std::thread::current().id()
}

#[test]
fn a_write_that_nothing_is_in_the_way_of_runs_here_and_may_fail_or_panic() {
    let home = tempfile::tempdir().unwrap();
    let store = writable(home.path());
    assert_eq!(thread_of(&store), here());
    let lost = episode("never acknowledged");
    let row = lost.clone();
    let refused = store.write::<(), _>(&Wait::default(), move |view| {
        view.put_episode(&row, None)?;
        Err(Error::invalid("summary", "is refused"))
    });
    assert!(matches!(refused, Err(Error::InvalidInput { .. })), "{refused:?}");
    let row = lost.clone();
    let panicked = store.write::<(), _>(&Wait::default(), move |view| {
        view.put_episode(&row, None)?;
        panic!("a bug")
    });
    assert!(panicked.is_err());
    assert_eq!(get(&store, lost.id).unwrap(), None);
    put(&store, &episode("after both")).unwrap();
}

#[test]
fn a_job_does_not_wait_for_its_own_thread() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(writable(home.path()));
    let inner = Arc::clone(&store);
    let nested = store.write(&Wait::default(), move |_| {
        assert_eq!(inner.read(|view| view.format_version())?, super::tables::FORMAT_VERSION);
        put(&inner, &episode("inside"))
    });
    assert!(matches!(nested, Err(Error::Internal(_))), "{nested:?}");
    assert_eq!(thread_of(&store), here());
}

#[test]
fn beside_another_write_of_the_handle_it_queues() {
    let home = tempfile::tempdir().unwrap();
    let store = writable(home.path());
    let gate = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        let there = Arc::clone(&gate);
        let store = &store;
        let first = scope.spawn(move || {
            store.write(&Wait::default(), move |_| {
                there.wait();
                std::thread::sleep(Duration::from_millis(50));
                Ok(())
            })
        });
        gate.wait();
        assert_ne!(thread_of(store), here());
        first.join().unwrap().unwrap();
    });
    assert_eq!(thread_of(&store), here());
}

#[cfg(target_os = "linux")]
#[test]
fn who_waits_for_the_lock_is_not_overtaken() {
    let home = tempfile::tempdir().unwrap();
    let (store, other) = (writable(home.path()), writable(home.path()));
    // Both wrote: each finds the file open and the lock free.
    assert_eq!(thread_of(&store), here());
    let waiting = {
        let file =
            std::fs::OpenOptions::new().read(true).write(true).open(home.path().join(STORE_FILE)).unwrap();
        // SAFETY: zero is a valid value of every field of this plain structure.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = libc::F_RDLCK as i16;
        range.l_start = QUEUE_BYTE.cast_signed();
        range.l_len = 1;
        // SAFETY: the descriptor is open and the structure lives through the call.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) }, 0);
        file
    };
    assert_ne!(thread_of(&store), here());
    assert_ne!(thread_of(&other), here());
    drop(waiting);
    assert_eq!(thread_of(&store), here());
    // Who really waits says so.
    let gate = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        let (there, store, other) = (Arc::clone(&gate), &store, &other);
        let holder = scope.spawn(move || {
            store.write(&Wait::default(), move |_| {
                there.wait();
                std::thread::sleep(Duration::from_millis(100));
                Ok(())
            })
        });
        gate.wait();
        let waits = scope.spawn(move || assert_ne!(thread_of(other), std::thread::current().id()));
        std::thread::sleep(Duration::from_millis(30));
        // The holder goes on writing and lets the other in between.
        assert_ne!(thread_of(store), here());
        holder.join().unwrap().unwrap();
        waits.join().unwrap();
    });
}

#[test]
fn closing_waits_for_it() {
    let home = tempfile::tempdir().unwrap();
    let store = writable(home.path());
    let row = episode("acknowledged");
    let id = row.id;
    let gate = Arc::new(Barrier::new(2));
    std::thread::scope(|scope| {
        let (there, store) = (Arc::clone(&gate), &store);
        let write = scope.spawn(move || {
            store.write(&Wait::default(), move |view| {
                there.wait();
                std::thread::sleep(Duration::from_millis(100));
                view.put_episode(&row, None)
            })
        });
        gate.wait();
        let started = Instant::now();
        store.close().unwrap();
        assert!(started.elapsed() > Duration::from_millis(50), "{:?}", started.elapsed());
        write.join().unwrap().unwrap();
    });
    let brief = StoreOptions {
        lock_timeout: Duration::from_millis(80),
        mode: Mode::Exclusive,
        ..StoreOptions::default()
    };
    let again = Store::open(home.path(), &brief).unwrap();
    assert!(get(&again, id).unwrap().is_some());
}
