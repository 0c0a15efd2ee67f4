//! The store shared by real processes: this test binary starts itself again in a role.
#![cfg(unix)]
#![allow(clippy::unwrap_used)] // helpers of tests, too
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use otolith_core::episode::{Episode, Origin, Scope};
use otolith_core::error::{Error, Lock};
use otolith_core::ids::RecordId;
use otolith_core::store::{Durability, Mode, Store, StoreOptions, Wait};
use otolith_core::time::{Clock, SystemClock};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "OTOLITH_TEST_ROLE";
const HOME: &str = "OTOLITH_TEST_HOME";

fn open(home: &Path) -> Store {
    Store::open(home, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap()
}

fn batched() -> StoreOptions {
    StoreOptions { create: true, durability: Durability::Batched, ..StoreOptions::default() }
}

fn exclusive() -> StoreOptions {
    StoreOptions {
        create: true,
        mode: Mode::Exclusive,
        lock_timeout: Duration::from_millis(200),
        ..StoreOptions::default()
    }
}

fn remember(store: &Store, summary: &str) -> Result<RecordId, Error> {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    let episode =
        Episode { summary: summary.to_owned(), ..Episode::new(id, now, Scope::root(), Origin::User) };
    store.write(&store.wait(), move |view| view.put_episode(&episode, None))?;
    Ok(id)
}

fn all(store: &Store) -> Vec<(RecordId, String)> {
    let mut rows = Vec::new();
    store
        .read(|view| {
            view.episodes(None, false, &mut |id, row| {
                rows.push((id, row?.summary));
                Ok(ControlFlow::Continue(()))
            })
        })
        .unwrap();
    rows
}

/// Another process in a role; it reads commands from its input and answers in lines.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(role: &str, home: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "in_a_role", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(HOME, home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next line of the role's own; what the test harness prints is skipped.
    fn hear(&mut self) -> Option<String> {
        self.output.by_ref().map_while(Result::ok).find_map(|line| line.strip_prefix("> ").map(str::to_owned))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a plain system call on a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[allow(clippy::print_stdout)] // how a role answers
fn answer(text: &str) {
    // A line of its own: the harness leaves the cursor behind the test's name.
    println!("\n> {text}");
    std::io::stdout().flush().unwrap();
}

/// Not a test of its own: what this binary does when it was started by one of the tests.
#[test]
fn in_a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let home = std::path::PathBuf::from(std::env::var(HOME).unwrap());
    let mut commands = std::io::stdin().lines().map_while(Result::ok);
    match role.as_str() {
        // Writes one episode per command, and says how many it sees afterwards.
        "alternate" => {
            let store = open(&home);
            answer("ready");
            for command in commands {
                remember(&store, &command).unwrap();
                answer(&all(&store).len().to_string());
            }
        }
        // Writes a hundred as fast as it can.
        "hundred" => {
            let store = open(&home);
            answer("ready");
            commands.next();
            let slowest = (0..100)
                .map(|n| {
                    let started = Instant::now();
                    remember(&store, &format!("{} {n}", std::process::id())).unwrap();
                    started.elapsed()
                })
                .max();
            answer(&slowest.unwrap().as_micros().to_string());
        }
        // Writes until it is killed, and says each id once it is acknowledged.
        "endless" => {
            let store = open(&home);
            for n in 0.. {
                let id = remember(&store, &format!("{} {n}", std::process::id())).unwrap();
                answer(&id.to_string());
            }
        }
        // The same with batched durability, or alone; the moment of each answer goes with the id.
        "endless_batched" | "endless_exclusive" => {
            let options = if role == "endless_batched" { batched() } else { exclusive() };
            let store = Store::open(&home, &options).unwrap();
            for n in 0.. {
                let id = remember(&store, &format!("{} {n}", std::process::id())).unwrap();
                answer(&format!("{id} {}", SystemClock.now().unix_micros()));
            }
        }
        // Opens as "hundred" does, but with batched durability, and writes five hundred.
        "batches" => {
            let store = Store::open(&home, &batched()).unwrap();
            answer("ready");
            commands.next();
            for n in 0..500 {
                remember(&store, &format!("{} {n}", std::process::id())).unwrap();
            }
            store.close().unwrap();
            answer("closed");
        }
        // Has the store to itself until it is told to go on.
        "alone" => {
            let store = Store::open(&home, &exclusive()).unwrap();
            remember(&store, "alone").unwrap();
            answer("alone");
            commands.next();
            drop(store);
            answer("closed");
            commands.next();
        }
        // Holds the writer lock until it is told to go on.
        "hold" => {
            let store = open(&home);
            store
                .write(&Wait::default(), move |_| {
                    answer("holding");
                    std::thread::sleep(Duration::from_mins(1));
                    Ok(())
                })
                .unwrap();
        }
        "fork" => fork_and_use(&home),
        "fork_and_outlive" => fork_and_outlive(&home),
        "unprivileged" => unprivileged(&home, commands),
        other => panic!("no role {other}"),
    }
}

#[test]
fn two_processes_that_write_in_turn_both_see_all() {
    let home = tempfile::tempdir().unwrap();
    let mut peers = [Peer::start("alternate", home.path()), Peer::start("alternate", home.path())];
    for peer in &mut peers {
        assert_eq!(peer.hear().unwrap(), "ready");
    }
    let own = open(home.path());
    for n in 1..=20 {
        let peer = &mut peers[n % 2];
        peer.say(&format!("number {n}"));
        assert_eq!(peer.hear().unwrap(), n.to_string());
        assert_eq!(own.read(|view| view.count()).unwrap(), n as u64, "a third process sees it at once");
    }
    let mut summaries: Vec<String> = all(&own).into_iter().map(|(_, summary)| summary).collect();
    summaries.sort();
    let mut wanted: Vec<String> = (1..=20).map(|n| format!("number {n}")).collect();
    wanted.sort();
    assert_eq!(summaries, wanted);
}

#[test]
fn four_writers_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    // All of them find no store and make it, at the same time.
    let mut peers: Vec<Peer> = (0..4).map(|_| Peer::start("hundred", home.path())).collect();
    for peer in &mut peers {
        assert_eq!(peer.hear().unwrap(), "ready");
    }
    for peer in &mut peers {
        peer.say("go");
    }
    for peer in &mut peers {
        let slowest: u64 = peer.hear().unwrap().parse().unwrap();
        assert!(slowest < 5_000_000, "a write took {slowest} microseconds");
    }
    let store = open(home.path());
    let rows = all(&store);
    assert_eq!(rows.len(), 400);
    for peer in &peers {
        let own = format!("{} ", peer.pid());
        assert_eq!(rows.iter().filter(|(_, summary)| summary.starts_with(&own)).count(), 100);
    }
    assert_eq!(store.read(|view| view.last_sequence()).unwrap(), 400);
    let leftovers: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !matches!(name.as_str(), "episodes.redb" | "holder"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn a_killed_writer_loses_nothing_it_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..20 {
        let mut peer = Peer::start("endless", home.path());
        for _ in 0..=round % 5 {
            acknowledged.push(peer.hear().unwrap());
        }
        // Somewhere within the next commit or two.
        std::thread::sleep(Duration::from_micros(137 * round));
        peer.signal(libc::SIGKILL);
        peer.child.wait().unwrap();
        while let Some(id) = peer.hear() {
            acknowledged.push(id);
        }
        let store = open(home.path());
        let rows = all(&store);
        let missing: Vec<_> = acknowledged
            .iter()
            .filter(|id| !rows.iter().any(|(found, _)| found.to_string() == **id))
            .collect();
        assert!(missing.is_empty(), "round {round}: {missing:?}");
        let changes = store.read(|view| view.changes_since(0, usize::MAX)).unwrap();
        assert_eq!(changes.len(), rows.len(), "no half write");
    }
}

#[test]
fn a_killed_batched_writer_loses_the_latest_of_a_window_and_no_half() {
    let home = tempfile::tempdir().unwrap();
    let mut longest = 0;
    for round in 0..12u64 {
        let mut peer = Peer::start("endless_batched", home.path());
        let mut told: Vec<(RecordId, i64)> = Vec::new();
        let parse = |line: String| {
            let (id, at) = line.split_once(' ').unwrap();
            (id.parse().unwrap(), at.parse().unwrap())
        };
        told.push(parse(peer.hear().unwrap()));
        std::thread::sleep(Duration::from_millis(20 + 17 * round));
        let killed = SystemClock.now().unix_micros();
        peer.signal(libc::SIGKILL);
        peer.child.wait().unwrap();
        while let Some(line) = peer.hear() {
            told.push(parse(line));
        }
        let store = open(home.path());
        let stored: BTreeSet<RecordId> = all(&store).into_iter().map(|(id, _)| id).collect();
        let kept = told.iter().take_while(|(id, _)| stored.contains(id)).count();
        let lost = &told[kept..];
        assert!(
            lost.iter().all(|(id, _)| !stored.contains(id)),
            "round {round}: a later one outlived an earlier"
        );
        if let Some((_, at)) = lost.first() {
            longest = longest.max(killed - at);
        }
        let changes = store.read(|view| view.changes_since(0, usize::MAX)).unwrap();
        assert_eq!(changes.len(), stored.len(), "no half write");
    }
    // The window of 50 ms, a commit, and the time a machine under load takes to schedule them.
    assert!(longest < 1_000_000, "a write was lost {longest} microseconds after its answer");
}

#[test]
fn batched_writers_lose_nothing_when_they_close_and_keep_nobody_waiting() {
    let home = tempfile::tempdir().unwrap();
    let mut peers: Vec<Peer> = (0..4).map(|_| Peer::start("batches", home.path())).collect();
    let mut ordinary = Peer::start("hundred", home.path());
    for peer in peers.iter_mut().chain([&mut ordinary]) {
        assert_eq!(peer.hear().unwrap(), "ready");
    }
    for peer in peers.iter_mut().chain([&mut ordinary]) {
        peer.say("go");
    }
    let slowest: u64 = ordinary.hear().unwrap().parse().unwrap();
    assert!(slowest < 5_000_000, "a write took {slowest} microseconds beside batches");
    for peer in &mut peers {
        assert_eq!(peer.hear().unwrap(), "closed");
    }
    let rows = all(&open(home.path()));
    assert_eq!(rows.len(), 4 * 500 + 100);
    for peer in &peers {
        let own = format!("{} ", peer.pid());
        assert_eq!(rows.iter().filter(|(_, summary)| summary.starts_with(&own)).count(), 500);
    }
}

#[test]
fn an_exclusive_process_is_named_to_others_and_leaves_the_way_free_when_it_closes() {
    let home = tempfile::tempdir().unwrap();
    let brief = |read_only| StoreOptions {
        read_only,
        lock_timeout: Duration::from_millis(100),
        ..StoreOptions::default()
    };
    let mut peer = Peer::start("alone", home.path());
    assert_eq!(peer.hear().unwrap(), "alone");
    for options in [brief(false), brief(true), exclusive()] {
        let error = Store::open(home.path(), &options).unwrap_err();
        let Error::StoreLocked { lock: Lock::Exclusive, holder: Some(holder), .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(holder.pid, peer.child.id());
        assert!(holder.command.contains("in_a_role") && !holder.since.is_empty(), "{holder}");
    }
    peer.say("close");
    assert_eq!(peer.hear().unwrap(), "closed");
    let store = Store::open(home.path(), &brief(false)).unwrap();
    assert_eq!(all(&store).len(), 1);
    remember(&store, "beside others again").unwrap();
    let error = Store::open(home.path(), &exclusive()).unwrap_err();
    assert!(matches!(error, Error::StoreLocked { lock: Lock::Shared, .. }), "{error:?}");
}

#[test]
fn a_killed_exclusive_process_loses_nothing_and_any_mode_opens_afterwards() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..6u64 {
        let mut peer = Peer::start("endless_exclusive", home.path());
        let mut told: Vec<RecordId> = Vec::new();
        let parse = |line: String| line.split_once(' ').unwrap().0.parse().unwrap();
        for _ in 0..=round {
            told.push(parse(peer.hear().unwrap()));
        }
        std::thread::sleep(Duration::from_micros(210 * round));
        peer.signal(libc::SIGKILL);
        peer.child.wait().unwrap();
        while let Some(line) = peer.hear() {
            told.push(parse(line));
        }
        let options = if round % 2 == 0 { StoreOptions::default() } else { exclusive() };
        let store = Store::open(home.path(), &options).unwrap();
        let rows = all(&store);
        assert!(told.iter().all(|id| rows.iter().any(|(found, _)| found == id)), "round {round}");
        let changes = store.read(|view| view.changes_since(0, usize::MAX)).unwrap();
        assert_eq!(changes.len(), rows.len(), "no half write");
        remember(&store, "it goes on").unwrap();
    }
}

#[test]
fn a_read_only_handle_goes_on_after_a_writer_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let read_only = StoreOptions { read_only: true, ..StoreOptions::default() };
    drop(open(home.path()));
    let reader = Store::open(home.path(), &read_only).unwrap();
    let mut peer = Peer::start("endless", home.path());
    let id: RecordId = peer.hear().unwrap().parse().unwrap();
    peer.signal(libc::SIGKILL);
    peer.child.wait().unwrap();
    assert!(reader.read(|view| view.contains(id)).unwrap());
    // Opened anew it needs a repair, which it must not do: not a byte is written.
    drop(reader);
    let before = std::fs::read(home.path().join("episodes.redb")).unwrap();
    let error = Store::open(home.path(), &read_only).unwrap_err();
    assert!(error.to_string().contains("open it writable once"), "{error}");
    assert_eq!(std::fs::read(home.path().join("episodes.redb")).unwrap(), before);
    assert!(open(home.path()).read(|view| view.contains(id)).unwrap());
    assert!(Store::open(home.path(), &read_only).unwrap().read(|view| view.contains(id)).unwrap());
}

#[test]
fn a_stopped_holder_is_named_at_the_deadline_while_reading_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    let kept = remember(&store, "kept").unwrap();
    let mut peer = Peer::start("hold", home.path());
    assert_eq!(peer.hear().unwrap(), "holding");
    peer.signal(libc::SIGSTOP);

    let started = Instant::now();
    let wait = Wait { deadline: Duration::from_millis(300), interrupted: None };
    let error = store.write(&wait, |view| view.set_meta("never", b"written")).unwrap_err();
    let waited = started.elapsed();
    assert!((300..2_000).contains(&waited.as_millis()), "{waited:?}");
    let Error::StoreLocked { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
    assert_eq!(holder.pid, peer.child.id());
    assert!(holder.command.contains("in_a_role"), "{holder}");

    // Signals are looked for at least every 50 ms.
    let asked = std::cell::Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() == 4
    };
    let started = Instant::now();
    let wait = Wait { deadline: Duration::from_secs(30), interrupted: Some(&interrupted) };
    let error = store.write(&wait, |view| view.set_meta("never", b"written")).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());

    // Reading goes on, on this handle and on a new one, writable or not.
    assert!(store.read(|view| view.contains(kept)).unwrap());
    for read_only in [false, true] {
        let other = Store::open(home.path(), &StoreOptions { read_only, ..StoreOptions::default() }).unwrap();
        assert!(other.read(|view| view.contains(kept)).unwrap());
        let started = Instant::now();
        drop(other);
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    }

    peer.signal(libc::SIGCONT);
    peer.signal(libc::SIGKILL);
    remember(&store, "after it was killed").unwrap();
    assert_eq!(store.read(|view| view.meta("never")).unwrap(), None, "what was given up must not run later");
}

#[test]
fn closing_does_not_wait_for_a_stopped_holder() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path());
    remember(&store, "kept").unwrap();
    let mut peer = Peer::start("hold", home.path());
    assert_eq!(peer.hear().unwrap(), "holding");
    peer.signal(libc::SIGSTOP);
    let wait = Wait { deadline: Duration::from_millis(50), interrupted: None };
    store.write(&wait, |view| view.set_meta("never", b"written")).unwrap_err();
    let started = Instant::now();
    drop(store);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    peer.signal(libc::SIGKILL);
}

// ---- forks ----

/// Forks; the child runs `work` and its success is its exit status.
fn in_forked_child(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child only runs `work`, which the store promises to survive, and leaves without unwinding.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(i32::from(!work()));
        }
        pid
    }
}

fn wait_for(pid: i32) -> bool {
    let mut status = 0;
    // SAFETY: waits for a child of ours.
    unsafe {
        libc::waitpid(pid, &raw mut status, 0) == pid
            && libc::WIFEXITED(status)
            && libc::WEXITSTATUS(status) == 0
    }
}

fn fork_and_use(home: &Path) {
    let store = open(home);
    remember(&store, "before").unwrap();
    let length = std::fs::metadata(store.path()).unwrap().len();
    for _ in 0..5 {
        let child = in_forked_child(|| {
            let says_so = |error: &Error| error.to_string().contains("before a fork");
            let read = store.read(|view| view.count()).unwrap_err();
            let write = store.write(&store.wait(), |view| view.set_meta("child", b"")).unwrap_err();
            let close = store.close().unwrap_err();
            // SAFETY: reads the value bitwise to drop it as an owner would; the child exits without a second drop.
            unsafe { drop(std::ptr::read(&raw const store)) };
            // A handle of its own works.
            let own = open(home);
            says_so(&read) && says_so(&write) && says_so(&close) && own.read(|view| view.count()).is_ok()
        });
        remember(&store, "meanwhile").unwrap();
        assert!(wait_for(child));
        remember(&store, "afterwards").unwrap();
    }
    assert!(std::fs::metadata(store.path()).unwrap().len() >= length);
    assert_eq!(store.read(|view| view.count()).unwrap(), 11);
    assert_eq!(store.read(|view| view.meta("child")).unwrap(), None);
    answer("done");
}

/// Dies while a forked child, which never touches the store, lives on.
fn fork_and_outlive(home: &Path) {
    let store = open(home);
    remember(&store, "before").unwrap();
    store
        .write(&Wait::default(), move |_| {
            let child = in_forked_child(|| {
                std::thread::sleep(Duration::from_secs(20));
                true
            });
            answer(&child.to_string());
            std::thread::sleep(Duration::from_mins(1));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_forked_child_gets_an_error_and_harms_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut peer = Peer::start("fork", home.path());
    assert_eq!(peer.hear().as_deref(), Some("done"));
    drop(peer);
    assert_eq!(all(&open(home.path())).len(), 11);
}

#[test]
fn the_lock_of_a_dead_parent_does_not_live_on_in_its_child() {
    let home = tempfile::tempdir().unwrap();
    let mut peer = Peer::start("fork_and_outlive", home.path());
    let child: i32 = peer.hear().unwrap().parse().unwrap();
    peer.signal(libc::SIGKILL);
    peer.child.wait().unwrap();
    let started = Instant::now();
    remember(&open(home.path()), "after").unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // SAFETY: a plain system call; the child still sleeps.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0, "the child was alive all the time");
}

// ---- permissions ----

/// Opens without rights, as a user who is not root.
fn unprivileged(home: &Path, commands: impl Iterator<Item = String>) {
    // SAFETY: plain system calls in a process of our own.
    unsafe {
        if libc::geteuid() == 0 {
            assert_eq!(libc::setgid(65_534), 0);
            assert_eq!(libc::setuid(65_534), 0);
        }
    }
    for line in commands {
        let read_only = line == "read-only";
        let options = StoreOptions { create: line == "create", read_only, ..StoreOptions::default() };
        let outcome = Store::open(home, &options).and_then(|store| {
            let count = store.read(|view| view.count())?;
            if !read_only {
                remember(&store, "x")?;
            }
            Ok(count)
        });
        match outcome {
            Ok(count) => answer(&format!("read {count}")),
            Err(error @ Error::Store { .. }) => answer(&error.to_string()),
            Err(error) => answer(&format!("another error: {error:?}")),
        }
    }
}

#[test]
fn missing_rights_are_said_and_nothing_is_lost() {
    use std::os::unix::fs::PermissionsExt;
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let outer = tempfile::tempdir().unwrap();
    chmod(outer.path(), 0o755);
    let home = outer.path().join("home");
    remember(&open(&home), "kept").unwrap();
    let file = home.join("episodes.redb");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home), mode(&file), mode(&home.join("holder"))), (0o700, 0o600, 0o600));

    let before = std::fs::read(&file).unwrap();
    let mut peer = Peer::start("unprivileged", &home);
    peer.say("plain");
    let words = peer.hear().unwrap();
    assert!(words.contains("permission") && words.contains("home"), "a closed home: {words}");
    chmod(&home, 0o555);
    chmod(&file, 0o444);
    peer.say("plain");
    let words = peer.hear().unwrap();
    assert!(words.contains("permission") && words.contains("episodes.redb"), "no right to write: {words}");
    peer.say("read-only");
    assert_eq!(peer.hear().unwrap(), "read 1", "reading needs no right to write");
    drop(peer);
    chmod(&home, 0o755);
    assert_eq!(std::fs::read(&file).unwrap(), before);

    let bare = outer.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    chmod(&bare, 0o555);
    let mut peer = Peer::start("unprivileged", &bare);
    peer.say("create");
    let words = peer.hear().unwrap();
    assert!(words.contains("permission"), "a read-only directory: {words}");
    assert_eq!(std::fs::read_dir(&bare).unwrap().count(), 0);
    chmod(&bare, 0o755);
}
