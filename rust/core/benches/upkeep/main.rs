//! The care of the index on disk: how long a process takes to catch up that fell behind, and what others wait meanwhile.
//!
//! ```text
//! cargo bench -p otolith-core --bench upkeep -- [catch-up] [locks] [--records 100000] [--changes 50000]
//! ```
//!
//! Records are texts of 40 to 120 words with a vector of 64 numbers. Everything lies in the target directory: a
//! temporary directory may lie in memory, where a sync costs nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

#[path = "../lexical/corpus.rs"]
mod corpus;

use corpus::Corpus;
use otolith_core::engine::{Engine, EngineOptions, Put, Recall};
use otolith_core::episode::EpisodePatch;
use otolith_core::store::Wait;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Records of one transaction.
const BATCH: usize = 1_000;
const DIM: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let at = arguments.iter().position(|argument| argument == name);
        at.map_or(default, |at| arguments[at + 1].parse().unwrap())
    };
    let (records, changes) = (number("--records", 100_000), number("--changes", 50_000));
    let given: Vec<&str> =
        ["catch-up", "locks"].into_iter().filter(|part| arguments.iter().any(|a| a == part)).collect();
    let wanted = |part| given.is_empty() || given.contains(&part);
    let corpus = Corpus::new(10_000);
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let home = dir.path().join("home");
    {
        let engine = open(&home);
        write(&engine, &corpus, 0, records, BATCH);
        let start = Instant::now();
        ask(&engine, &corpus, 0);
        println!("{records} records, first index built in {:.2} s", start.elapsed().as_secs_f64());
        engine.compact(&Wait::default(), &mut |_, _| false).unwrap();
    }
    if wanted("catch-up") {
        println!(
            "\n| changes | open handle, s | opened anew, s | opened once more, ms | peak memory of the two, MB |"
        );
        println!("|---|---|---|---|---|");
        for changes in [1_000, 2_000, 4_000, 8_000, 16_000, changes] {
            catch_up(dir.path(), &home, &corpus, records, changes);
        }
    }
    if wanted("locks") {
        locks(&home, &corpus, records);
    }
}

fn open(home: &Path) -> Engine {
    Engine::open(home, EngineOptions::default()).unwrap()
}

/// Records `start .. end`, each under the key of its number.
fn write(engine: &Engine, corpus: &Corpus, start: usize, end: usize, batch: usize) {
    let mut at = start;
    while at < end {
        let until = end.min(at + batch);
        let put = |number: usize| {
            let text = &corpus.texts[number.wrapping_mul(7) % corpus.texts.len()];
            let fields = EpisodePatch {
                summary: Some(format!("number{number} {text}")),
                key: Some(Some(format!("key-{number}"))),
                ..EpisodePatch::default()
            };
            let vector = (0..DIM).map(|k| ((number * 31 + k * k * 7) % 101) as f32 - 50.0).collect();
            Put { fields, vector: Some(vector), ..Put::default() }
        };
        let written = engine.put_many(&Wait::default(), (at..until).map(put).collect()).unwrap();
        assert!(written.iter().all(Result::is_ok));
        at = until;
    }
}

fn ask(engine: &Engine, corpus: &Corpus, number: usize) -> usize {
    let questions = &corpus.questions[2].1;
    let query = Some(questions[number % questions.len()].as_str());
    engine.recall(&Recall { query, ..Recall::default() }).unwrap().hits.len()
}

/// A copy of a home that nobody writes.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Largest resident memory since the last call, in MB; 0 where the system does not tell.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    peak.unwrap_or(0) / 1_024
}

/// Half of the changes are to records of the index, half are new.
fn catch_up(dir: &Path, home: &Path, corpus: &Corpus, records: usize, changes: usize) {
    let (running, fresh) = (dir.join("running"), dir.join("fresh"));
    copy(home, &running);
    let behind = open(&running);
    ask(&behind, corpus, 1);
    {
        let writer = open(&running);
        write(&writer, corpus, records - changes / 2, records + changes / 2, BATCH);
    }
    copy(&running, &fresh);
    peak();
    let start = Instant::now();
    ask(&behind, corpus, 2);
    let open_handle = start.elapsed();
    drop(behind);
    let start = Instant::now();
    ask(&open(&fresh), corpus, 2);
    let anew = start.elapsed();
    let start = Instant::now();
    ask(&open(&fresh), corpus, 3);
    println!(
        "| {changes} | {:.2} | {:.2} | {:.1} | {} |",
        open_handle.as_secs_f64(),
        anew.as_secs_f64(),
        start.elapsed().as_secs_f64() * 1e3,
        peak()
    );
    for copy in [running, fresh] {
        std::fs::remove_dir_all(copy).unwrap();
    }
}

/// One thread writes and compacts, another asks all the time.
fn locks(home: &Path, corpus: &Corpus, records: usize) {
    let engine = open(home);
    ask(&engine, corpus, 0);
    let done = AtomicBool::new(false);
    let mut took: Vec<Duration> = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Long enough for the care of the index to be a thread's.
            let until = Instant::now() + Duration::from_secs(11);
            let mut at = records;
            while Instant::now() < until {
                write(&engine, corpus, at, at + 10, 10);
                at += 10;
                std::thread::sleep(Duration::from_millis(20));
            }
            for _ in 0..30 {
                write(&engine, corpus, at, at + 1_000, 100);
                at += 1_000;
            }
            engine.compact(&Wait::default(), &mut |_, _| false).unwrap();
            done.store(true, Ordering::Release);
        });
        let mut number = 0;
        while !done.load(Ordering::Acquire) {
            let start = Instant::now();
            ask(&engine, corpus, number);
            took.push(start.elapsed());
            number += 1;
        }
    });
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "\n{} searches beside writes, flushes, merges and a compaction, ms: p50 {:.2}, p99 {:.2}, p99.9 {:.2}, longest {:.2}",
        took.len(),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    let longest = engine.info().unwrap().index.longest_wait_us as f64 / 1e3;
    println!("longest that the care of the index held the locks of a search, ms: {longest:.2}");
}
