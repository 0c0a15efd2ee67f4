//! What the modes and durabilities of the store cost. Figures, not checks: `cargo test --release -p otolith-core --test
//! store_modes -- --ignored --nocapture`.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers of tests, too; it prints figures
#![allow(clippy::redundant_closure_for_method_calls)] // the path of the method is not general enough to compile

use otolith_core::episode::{Episode, Origin, Scope};
use otolith_core::ids::RecordId;
use otolith_core::store::{Durability, Mode, STORE_FILE, Store, StoreOptions, file_system};
use otolith_core::time::{Clock, SystemClock};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const BASE: usize = 100_000;
const WRITES: usize = 2_000;

fn episode(n: usize) -> Episode {
    let now = SystemClock.now();
    let id = RecordId::new_episode(now.unix_micros());
    Episode {
        summary: format!("number {n}: the pool of connections ran dry because a worker held one for an hour"),
        body: Some("It was found by counting. ".repeat(12)),
        ..Episode::new(id, now, Scope::root(), Origin::User)
    }
}

fn fill(store: &Store, count: usize) {
    for start in (0..count).step_by(1000) {
        let part: Vec<Episode> = (start..start + 1000).map(episode).collect();
        let job = move |view: &mut otolith_core::store::WriteView<'_>| {
            part.iter().try_for_each(|episode| view.put_episode(episode, None))
        };
        store.write(&store.wait(), job).unwrap();
    }
}

fn told(name: &str, times: &mut [Duration], all: Duration) {
    let count = times.len();
    times.sort_unstable();
    println!(
        "{name:<22} p50 {:>8.1} us  p95 {:>8.1} us  {:>8.0}/s",
        times[count / 2].as_secs_f64() * 1e6,
        times[count * 95 / 100].as_secs_f64() * 1e6,
        count as f64 / all.as_secs_f64()
    );
}

/// Appends of 4 KiB with a sync each: what the disk allows.
fn floor(dir: &Path) {
    let mut file = std::fs::File::create(dir.join("floor")).unwrap();
    let page = [7; 4096];
    let started = Instant::now();
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let one = Instant::now();
            file.write_all(&page).unwrap();
            file.sync_data().unwrap();
            one.elapsed()
        })
        .collect();
    told("floor", &mut times, started.elapsed());
}

#[test]
#[ignore = "prints figures"]
fn figures_of_modes_and_durabilities() {
    let dir = tempfile::tempdir().unwrap();
    let filled = dir.path().join("filled");
    fill(&Store::open(&filled, &StoreOptions { create: true, ..StoreOptions::default() }).unwrap(), BASE);
    for round in 0..2 {
        for mode in [Mode::Shared, Mode::Exclusive] {
            for durability in [Durability::Full, Durability::Batched] {
                let home = dir.path().join(format!("{round} {mode:?} {durability:?}"));
                std::fs::create_dir(&home).unwrap();
                std::fs::copy(filled.join(STORE_FILE), home.join(STORE_FILE)).unwrap();
                floor(dir.path());
                let options = StoreOptions { mode, durability, ..StoreOptions::default() };
                let store = Store::open(&home, &options).unwrap();
                let started = Instant::now();
                let mut times: Vec<Duration> = (0..WRITES)
                    .map(|n| {
                        let episode = episode(n);
                        let one = Instant::now();
                        store.write(&store.wait(), move |view| view.put_episode(&episode, None)).unwrap();
                        one.elapsed()
                    })
                    .collect();
                store.flush(&store.wait()).unwrap();
                told(&format!("{mode:?} {durability:?}"), &mut times, started.elapsed());
                // As it stands on the disk now: what a process that was killed leaves.
                let killed = dir.path().join("killed");
                std::fs::create_dir_all(&killed).unwrap();
                std::fs::copy(home.join(STORE_FILE), killed.join(STORE_FILE)).unwrap();
                let started = Instant::now();
                let count = Store::open(&killed, &StoreOptions::default())
                    .unwrap()
                    .read(|view| view.count())
                    .unwrap();
                println!("{:<22} {:?} for {count}", "  open after a kill", started.elapsed());
                drop(store);
                std::fs::remove_dir_all(&home).unwrap();
            }
        }
    }
    let started = Instant::now();
    for _ in 0..10_000 {
        file_system(dir.path()).unwrap();
    }
    println!("{:<22} {:?}", "file system", started.elapsed() / 10_000);
}
