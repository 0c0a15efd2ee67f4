//! What the store costs: each durable figure beside the sync floor of the disk and, for writes, a bare redb commit of
//! the same rows, all taken in turns so that they share the same seconds.
//!
//! `cargo bench -p otolith-core --bench store -- [--episodes 100000] [--rounds 500] [--dim 384] [--only writes] [--dir DIR]`
//! prints one Markdown table.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)] // a program for people at a terminal

mod bare;
mod data;
mod peers;
mod table;

use bare::{Bare, Floor};
use data::{DIM, Draw};
use otolith_core::store::{STORE_FILE, Store, StoreOptions};
use otolith_core::{Engine, EngineOptions, Put, RecordId, Wait};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use table::{Table, Times};

/// Records of one import transaction.
const BATCH: usize = 1_000;

struct Bench {
    dir: PathBuf,
    home: PathBuf,
    episodes: usize,
    rounds: usize,
    dim: usize,
    table: Table,
    /// Megabytes of what was imported as given, and of the keys and values that became of it.
    stored: (f64, f64),
}

/// One group of measurements.
type Part = fn(&mut Bench, &[RecordId]);

fn main() {
    if let Ok(role) = std::env::var(peers::ROLE) {
        peers::run(&role);
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments[at + 1].as_str())
    };
    let number = |name: &str, default: usize| argument(name).map_or(default, |n| n.parse().unwrap());
    // In the target directory unless told: a temporary directory may lie in memory, where a sync costs nothing.
    let dir = tempfile::tempdir_in(argument("--dir").unwrap_or(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let home = dir.path().join("home");
    let mut bench = Bench {
        dir: dir.path().to_owned(),
        home,
        episodes: number("--episodes", 100_000),
        rounds: number("--rounds", 500),
        dim: number("--dim", DIM),
        table: Table::default(),
        stored: (0.0, 0.0),
    };
    let only = argument("--only");
    let ids = bench.import();
    let parts: [(&str, Part); 9] = [
        ("writes", Bench::writes),
        ("forgets", Bench::forgets),
        ("gets", Bench::gets),
        ("vectors", Bench::vectors),
        ("freshness", Bench::freshness),
        ("openings", Bench::openings),
        ("after-kill", Bench::after_kill),
        ("contention", Bench::contention),
        ("care", Bench::care),
    ];
    for (name, part) in parts {
        if only.is_none_or(|only| only == name) {
            part(&mut bench, &ids);
        }
    }
    println!("{} episodes with {}-d vectors, {} rounds\n", bench.episodes, bench.dim, bench.rounds);
    print!("{}", bench.table);
}

fn open(home: &Path, read_only: bool) -> Engine {
    Engine::open(home, EngineOptions { create: !read_only, read_only, ..EngineOptions::default() }).unwrap()
}

fn timed<T>(times: &mut Times, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    times.add(started.elapsed());
    result
}

/// What a file takes on the disk: holes take nothing.
fn on_disk(found: &std::fs::Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(found) * 512;
    #[cfg(not(unix))]
    return found.len();
}

impl Bench {
    fn copy_of_home(&self, name: &str) -> PathBuf {
        let home = self.dir.join(name);
        std::fs::create_dir(&home).unwrap();
        std::fs::copy(self.home.join(STORE_FILE), home.join(STORE_FILE)).unwrap();
        home
    }

    /// Fills the home, and compares the file with what was put into it.
    fn import(&mut self) -> Vec<RecordId> {
        let (mut draw, mut ids) = (Draw::new(1).with_dim(self.dim), Vec::with_capacity(self.episodes));
        let (mut given, mut records) = (0, 0);
        let engine = open(&self.home, false);
        let started = Instant::now();
        while ids.len() < self.episodes {
            let size = BATCH.min(self.episodes - ids.len());
            let puts: Vec<Put> = (0..size).map(|at| draw.put("import", ids.len() + at, true)).collect();
            given += puts.iter().map(data::payload).sum::<usize>();
            for written in engine.put_many(&Wait::default(), puts).unwrap() {
                let episode = written.unwrap().episode;
                records += episode.to_json().unwrap().len() + self.dim * 4;
                ids.push(episode.id);
            }
        }
        let rate = self.episodes as f64 / started.elapsed().as_secs_f64();
        engine.close().unwrap();
        let found = std::fs::metadata(self.home.join(STORE_FILE)).unwrap();
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let (file, on_disk) = (mb(found.len()), mb(on_disk(&found)));
        let (given, records) = (mb(given as u64), mb(records as u64));
        let bare = Bare::open(&self.copy_of_home("composition").join(STORE_FILE));
        let stored = mb(bare.stored());
        for (what, payload) in [("texts and rows as given", given), ("keys and values of all tables", stored)]
        {
            let times = on_disk / payload;
            self.table.value(&format!("file over {what}, import"), "<= 1.4", times, "", times <= 1.4);
        }
        let sizes = format!(
            "{file:.1} MB ({on_disk:.1} on the disk) for {given:.1} MB given, {records:.1} MB of records"
        );
        self.table.fact("the file", sizes);
        self.table.fact("of it", bare.composition());
        self.stored = (given, stored);
        self.table.fact("import in batches of 1,000, drawing the data included", format!("{rate:.0}/s"));
        ids
    }

    /// Verify, backup beside three writers, compact.
    fn care(&mut self, _ids: &[RecordId]) {
        let home = self.copy_of_home("care");
        let mb_per_s = |bytes: u64, took: Duration| bytes as f64 / 1e6 / took.as_secs_f64();
        let started = Instant::now();
        let verified = Store::verify(&home, &StoreOptions::default(), &mut |_, _| false).unwrap();
        let used = on_disk(&std::fs::metadata(home.join(STORE_FILE)).unwrap());
        let rate = mb_per_s(used, started.elapsed());
        assert!(verified.problems.is_empty(), "{:?}", verified.problems);
        self.table.value("verify", ">= 100 MB/s", rate, " MB/s", rate >= 100.0);

        let stop = AtomicBool::new(false);
        let writes = AtomicU64::new(0);
        let (engine, dim) = (open(&home, false), self.dim);
        let took = std::thread::scope(|scope| {
            for seed in 0..3 {
                let (home, stop, writes) = (&home, &stop, &writes);
                scope.spawn(move || {
                    let (engine, wait) = (open(home, false), Wait::default());
                    let mut draw = Draw::new(100 + seed).with_dim(dim);
                    for at in 0.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        engine.put(&wait, draw.put(&format!("beside {seed}"), at, true)).unwrap();
                        writes.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let started = Instant::now();
            engine.backup(&self.dir.join("backup.redb"), &mut |_, _| false).unwrap();
            let took = started.elapsed();
            stop.store(true, Ordering::Relaxed);
            took
        });
        // By what there was to copy: the copy may have empty stretches that nothing was written to.
        let rate = mb_per_s(used, took);
        let copy = std::fs::metadata(self.dir.join("backup.redb")).unwrap();
        let copy = (copy.len() as f64 / 1e6, on_disk(&copy) as f64 / 1e6);
        self.table.value("backup beside 3 writers", ">= 100 MB/s", rate, " MB/s", rate >= 100.0);
        let meanwhile = writes.into_inner() as f64 / took.as_secs_f64();
        self.table.fact("the backup", format!("{:.1} MB ({:.1} on the disk)", copy.0, copy.1));
        self.table.fact("their writes meanwhile", format!("{meanwhile:.0}/s"));

        // A copy has no holes: what is measured is what compaction makes of the import.
        let engine = open(&self.home, false);
        let started = Instant::now();
        let (done, _) = engine.compact(&Wait::default(), &mut |_, _| false).unwrap();
        let seconds = started.elapsed().as_secs_f64();
        let after = done.after_bytes as f64 / 1e6;
        let (given, stored) = self.stored;
        for (what, payload) in [("texts and rows as given", given), ("keys and values of all tables", stored)]
        {
            let times = after / payload;
            self.table.value(&format!("file over {what}, compact"), "<= 1.4", times, "", times <= 1.4);
        }
        let blocked = done.blocked.as_secs_f64() * 1e3;
        self.table.fact("compact", format!("{seconds:.2} s, nobody could write for {blocked:.1} ms of it"));
    }

    /// `remember` against bare commits of the same rows.
    fn writes(&mut self, _ids: &[RecordId]) {
        let engine = open(&self.copy_of_home("writes"), false);
        let bare = Bare::open(&self.copy_of_home("bare").join(STORE_FILE));
        let floor = Floor::new(&self.dir);
        let (mut draw, wait) = (Draw::new(2).with_dim(self.dim), Wait::default());
        let mut sync = Times::default();
        let (mut bare_text, mut text) = (Times::default(), Times::default());
        let (mut bare_both, mut both) = (Times::default(), Times::default());
        // The first write of a handle opens the file for writing.
        engine.put(&wait, draw.put("warm", 0, true)).unwrap();
        bare.commit(&data::rows(&draw.put("warm", 0, true)));
        for round in 0..self.rounds {
            let (with, without) = (draw.put("both", round, true), draw.put("text", round, false));
            let (rows_both, rows_text) = (
                data::rows(&draw.put("bare both", round, true)),
                data::rows(&draw.put("bare text", round, false)),
            );
            timed(&mut sync, || floor.sync());
            let put = |times: &mut Times, put: Put| timed(times, || engine.put(&wait, put).unwrap());
            // Who goes first changes, since a commit leaves work to the next.
            if round % 2 == 0 {
                timed(&mut bare_text, || bare.commit(&rows_text));
                put(&mut text, without);
                timed(&mut bare_both, || bare.commit(&rows_both));
                put(&mut both, with);
            } else {
                put(&mut text, without);
                timed(&mut bare_text, || bare.commit(&rows_text));
                put(&mut both, with);
                timed(&mut bare_both, || bare.commit(&rows_both));
            }
        }
        self.table.times("sync floor: 4 KiB append + fdatasync", "", &sync, None);
        let floor = Some(&sync);
        self.table.times("bare redb commit, text", "", &bare_text, floor);
        self.table.times("remember, text", "", &text, floor);
        self.table.ratio("remember over bare, text", 1.2, &text, &bare_text);
        self.table.times("bare redb commit, text and vector", "", &bare_both, floor);
        self.table.times("remember, text and vector", "", &both, floor);
        self.table.ratio("remember over bare, text and vector", 1.2, &both, &bare_both);
    }

    /// `forget` against `remember`, on a file of its own: what is freed makes the commits after it cost more.
    fn forgets(&mut self, ids: &[RecordId]) {
        let engine = open(&self.copy_of_home("forgets"), false);
        let floor = Floor::new(&self.dir);
        let (mut draw, wait) = (Draw::new(7).with_dim(self.dim), Wait::default());
        let mut sync = Times::default();
        let (mut text, mut both) = (Times::default(), Times::default());
        let (mut forget, mut forget_both) = (Times::default(), Times::default());
        engine.put(&wait, draw.put("warm", 0, true)).unwrap();
        for round in 0..self.rounds {
            let (with, without) = (draw.put("both", round, true), draw.put("text", round, false));
            let old = ids[draw.below(ids.len())];
            timed(&mut sync, || floor.sync());
            let fresh = timed(&mut text, || engine.put(&wait, without).unwrap()).episode.id;
            timed(&mut forget, || engine.forget(&wait, vec![fresh]).unwrap());
            timed(&mut both, || engine.put(&wait, with).unwrap());
            timed(&mut forget_both, || engine.forget(&wait, vec![old]).unwrap());
        }
        let floor = Some(&sync);
        self.table.times("forget, text", "", &forget, floor);
        self.table.ratio("forget over remember, text", 1.2, &forget, &text);
        self.table.times("forget, old record with vector", "", &forget_both, floor);
        self.table.ratio("forget over remember, with vector", 1.2, &forget_both, &both);
    }

    fn gets(&mut self, ids: &[RecordId]) {
        let engine = open(&self.home, true);
        let store =
            Store::open(&self.home, &StoreOptions { read_only: true, ..StoreOptions::default() }).unwrap();
        let mut draw = Draw::new(3);
        let order: Vec<RecordId> = (0..20_000).map(|_| ids[draw.below(ids.len())]).collect();
        let (mut whole, mut view_only) = (Times::default(), Times::default());
        for warm in [false, true] {
            (whole, view_only) = (Times::default(), Times::default());
            for id in &order {
                timed(&mut whole, || black_box(engine.get(*id).unwrap()));
            }
            store
                .read(|view| {
                    for id in &order {
                        timed(&mut view_only, || black_box(view.episode(*id)).unwrap());
                    }
                    Ok(())
                })
                .unwrap();
            if !warm {
                self.table.times("get by id, first touch", "", &whole, None);
            }
        }
        self.table.bound("get by id, random ids, within a snapshot", 0.005, &view_only, None);
        self.table.bound("get by id, random ids, whole call", 0.005, &whole, None);
        // What an agent does: a few records again and again.
        let mut hot = Times::default();
        for at in 0..20_000 {
            timed(&mut hot, || black_box(engine.get(order[at % 100]).unwrap()));
        }
        self.table.bound("get by id, one of 100, whole call", 0.005, &hot, None);
    }

    /// Reading vectors: of records at random, and all of them in a row.
    fn vectors(&mut self, ids: &[RecordId]) {
        let store =
            Store::open(&self.home, &StoreOptions { read_only: true, ..StoreOptions::default() }).unwrap();
        let mut draw = Draw::new(8);
        let order: Vec<RecordId> = (0..20_000).map(|_| ids[draw.below(ids.len())]).collect();
        let (mut single, mut best) = (Times::default(), 0.0_f64);
        store
            .read(|view| {
                for id in &order {
                    timed(&mut single, || black_box(view.embeddings_of(1, *id)).unwrap());
                }
                for _ in 0..5 {
                    let (started, mut count) = (Instant::now(), 0);
                    view.embeddings(1, &mut |_, row| {
                        black_box(row?);
                        count += 1;
                        Ok(ControlFlow::Continue(()))
                    })?;
                    best = best.max(f64::from(count) / started.elapsed().as_secs_f64());
                }
                Ok(())
            })
            .unwrap();
        self.table.times("vector of a record, random ids, within a snapshot", "", &single, None);
        self.table.fact("vectors in a row, best of 5", format!("{best:.0}/s"));
    }

    /// What a question pays before it is answered: has anybody written?
    fn freshness(&mut self, _ids: &[RecordId]) {
        let home = self.copy_of_home("freshness");
        let (reader, writer) = (open(&home, false), open(&home, false));
        let started = Instant::now();
        reader.coverage().unwrap();
        self.table.fact(
            "first question: the copy in memory is built",
            format!("{:.0} ms", table::ms(started.elapsed())),
        );
        let mut draw = Draw::new(4).with_dim(self.dim);
        writer.put(&Wait::default(), draw.put("warm", 0, true)).unwrap();
        reader.coverage().unwrap();
        let mut unchanged = Times::default();
        for _ in 0..20_000 {
            timed(&mut unchanged, || black_box(reader.coverage().unwrap()));
        }
        self.table.bound("freshness check, nothing changed", 0.010, &unchanged, None);
        // A record is one change, with its vector two.
        for (with_vectors, records) in [(false, 1), (false, 10), (false, 100), (true, 1), (true, 10)] {
            let (mut times, who) = (Times::default(), format!("fresh {records} {with_vectors}"));
            for round in 0..(self.rounds / records.min(10)).max(20) {
                let puts = (0..records).map(|at| draw.put(&who, round * records + at, with_vectors));
                writer.put_many(&Wait::default(), puts.collect()).unwrap();
                timed(&mut times, || black_box(reader.coverage().unwrap()));
            }
            let changes = records * (1 + usize::from(with_vectors));
            let target = 0.025 + 0.080 * changes as f64;
            let what = if with_vectors { " of records with vectors" } else { "" };
            self.table.bound(
                &format!("freshness check after {changes} foreign changes{what}"),
                target,
                &times,
                None,
            );
        }
        let mut peer = peers::Peer::start("writer", &home, "fresh");
        let mut times = Times::default();
        for _ in 0..100 {
            peer.say("put");
            peer.hear();
            timed(&mut times, || black_box(reader.coverage().unwrap()));
        }
        self.table.bound("freshness check after 2 changes of another process", 0.185, &times, None);
    }

    fn openings(&mut self, ids: &[RecordId]) {
        let home = self.copy_of_home("openings");
        let (mut draw, floor) = (Draw::new(5), Floor::new(&self.dir));
        let (mut sync, mut reading, mut writing) = (Times::default(), Times::default(), Times::default());
        for round in 0..(self.rounds / 2).max(20) {
            let id = ids[draw.below(ids.len())];
            timed(&mut sync, || floor.sync());
            timed(&mut reading, || {
                let engine = open(&home, true);
                black_box(engine.get(id).unwrap());
                engine.close().unwrap();
            });
            let put = draw.put("openings", round, false);
            timed(&mut writing, || {
                let engine = open(&home, false);
                engine.put(&Wait::default(), put).unwrap();
                engine.close().unwrap();
            });
        }
        self.table.bound("open read-only, get, close", 3.0, &reading, Some(&sync));
        let target = 5.0 + 5.0 * sync.p50();
        self.table.bound("open, remember, close (target 5 ms + 5 syncs)", target, &writing, Some(&sync));
    }

    /// Opening a home whose only writer was killed in the middle of a write, against one that was closed.
    fn after_kill(&mut self, ids: &[RecordId]) {
        let home = self.copy_of_home("killed");
        let mut draw = Draw::new(6);
        let (mut clean, mut killed) = (Times::default(), Times::default());
        let first_answer = |times: &mut Times, id: RecordId| {
            let engine = timed(times, || {
                let engine = open(&home, false);
                black_box(engine.get(id).unwrap());
                engine
            });
            engine.close().unwrap();
        };
        for round in 0..30 {
            first_answer(&mut clean, ids[draw.below(ids.len())]);
            let mut peer = peers::Peer::start("busy", &home, &format!("killed {round}"));
            peer.hear();
            std::thread::sleep(Duration::from_micros(5_000 + draw.below(20_000) as u64));
            peer.kill();
            first_answer(&mut killed, ids[draw.below(ids.len())]);
        }
        self.table.times("open and get after a clean close", "", &clean, None);
        self.table.bound("open and get after kill -9 (target 20 ms more)", 20.0 + clean.p50(), &killed, None);
    }

    fn contention(&mut self, _ids: &[RecordId]) {
        const WRITERS: usize = 8;
        const EACH: usize = 200;
        let home = self.copy_of_home("contention");
        let readers: Vec<_> = (0..4).map(|n| peers::Peer::start("reader", &home, &n.to_string())).collect();
        let mut writers: Vec<_> =
            (0..WRITERS).map(|n| peers::Peer::start("writers", &home, &format!("w{n}"))).collect();
        for peer in &mut writers {
            peer.hear();
        }
        for peer in &mut writers {
            peer.say(&EACH.to_string());
        }
        let reports: Vec<(f64, f64)> = writers.iter_mut().map(|peer| peers::pair(&peer.hear())).collect();
        let longest_read = readers.into_iter().map(|peer| peers::pair(&peer.end()).1).fold(0.0, f64::max);
        drop(writers);
        let store = Store::open(&home, &StoreOptions::default()).unwrap();
        let found = store
            .read(|view| {
                let mut found = 0;
                for n in 0..WRITERS {
                    for at in 0..EACH {
                        let key = data::key(&format!("w{n}"), at);
                        found += usize::from(view.id_for_key(&otolith_core::Scope::root(), &key)?.is_some());
                    }
                }
                Ok(found)
            })
            .unwrap();
        let lost = WRITERS * EACH - found;
        let finish = |pick: fn(f64, f64) -> f64, start: f64| reports.iter().map(|r| r.0).fold(start, pick);
        let (slowest, fastest) = (finish(f64::max, 0.0), finish(f64::min, f64::INFINITY));
        let longest = reports.iter().map(|r| r.1).fold(0.0, f64::max);
        let name = "8 processes x 200 remembers, 4 readers";
        self.table.value(&format!("{name}: lost"), "0", lost as f64, "", lost == 0);
        self.table.value(
            &format!("{name}: longest wait of a writer"),
            "< 1000 ms",
            longest,
            " ms",
            longest < 1000.0,
        );
        let ratio = slowest / fastest;
        self.table.value(&format!("{name}: slowest over fastest process"), "<= 1.3", ratio, "", ratio <= 1.3);
        let rate = (WRITERS * EACH) as f64 / slowest * 1000.0;
        self.table.fact(&format!("{name}: together"), format!("{rate:.0}/s"));
        self.table.fact(&format!("{name}: longest read"), format!("{longest_read:.2} ms"));
    }
}
