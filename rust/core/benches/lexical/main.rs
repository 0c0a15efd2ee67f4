//! How long a search by words takes, by kind of question, size of the index, registers, and division into segments.
//!
//! ```text
//! cargo bench -p otolith-core --bench lexical -- [documents ...]
//! ```
//!
//! Texts are random words: 50,000 of them after the law of Zipf and Mandelbrot, a quarter of each text from one of 400
//! topics. Questions are selective (words in few documents), common (only words in most) or natural (both, and words
//! between). One thread; each question's time is its median over the passes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

mod corpus;

use corpus::Corpus;
use otolith_core::lexical::Simd;
use otolith_core::text::AnalyzerKind;
use otolith_core::{HybridIndex, IndexParams, Search};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PASSES: usize = 7;

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 100_000] } else { sizes };
    for size in sizes {
        println!("== {size} documents");
        let corpus = Corpus::new(size);
        for kind in [AnalyzerKind::Plain, AnalyzerKind::Default] {
            let (_, cpu) = timed(|| built(&corpus, kind, size));
            println!("built in bulk, {kind:?}: {:.0} documents/s", size as f64 / cpu.as_secs_f64());
        }
        let whole = built(&corpus, AnalyzerKind::Plain, size);
        for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
            Simd::set(Some(level));
            ask(&format!("{level:?}"), &whole, &corpus);
        }
        Simd::set(None);
        changes(whole, &corpus);
        ask("5 segments, delta, 5 % dead", &divided(&corpus), &corpus);
        saved(&corpus);
    }
}

fn built(corpus: &Corpus, kind: AnalyzerKind, size: usize) -> HybridIndex {
    let mut index = HybridIndex::new(None, IndexParams { analyzer: kind, ..IndexParams::default() }).unwrap();
    insert(&mut index, corpus, 0, size);
    index
}

/// Documents `start .. end`, in bulk.
fn insert(index: &mut HybridIndex, corpus: &Corpus, start: usize, end: usize) {
    let mut batch = index.batch();
    for at in start..end {
        batch.push(&at.to_string(), Some(&[("text", &corpus.texts[at])]), None).unwrap();
        if batch.is_full() {
            let full = std::mem::replace(&mut batch, index.batch());
            index.insert_batch(full).unwrap();
        }
    }
    index.insert_batch(batch).unwrap();
}

/// The same documents in five segments and a delta, with one in twenty replaced.
fn divided(corpus: &Corpus) -> HybridIndex {
    let size = corpus.texts.len();
    let mut index =
        HybridIndex::new(None, IndexParams { analyzer: AnalyzerKind::Plain, ..IndexParams::default() })
            .unwrap();
    let (mut start, delta) = (0, 1_000.min(size / 10));
    // Falling sizes, as merging leaves them.
    for share in [40, 25, 15, 12] {
        let end = start + (size - delta) * share / 100;
        insert(&mut index, corpus, start, end);
        start = end;
    }
    insert(&mut index, corpus, start, size - delta);
    for at in (0..size - delta).step_by(20) {
        index.remove(&at.to_string());
    }
    for at in size - delta..size {
        let text = index.prepare(&[("text", &corpus.texts[at])]);
        index.insert(&at.to_string(), Some(&text), None).unwrap();
    }
    index
}

fn ask(name: &str, index: &HybridIndex, corpus: &Corpus) {
    for (kind, questions) in &corpus.questions {
        let mut times: Vec<Vec<Duration>> = vec![Vec::new(); questions.len()];
        for _ in 0..PASSES {
            for (question, times) in questions.iter().zip(&mut times) {
                let search = Search { query: Some(question), ..Search::default() };
                let (found, time) = timed(|| index.search(&search).unwrap());
                black_box(found);
                times.push(time);
            }
        }
        let medians = times.into_iter().map(|mut times| {
            times.sort_unstable();
            times[PASSES / 2]
        });
        let mut medians: Vec<Duration> = medians.collect();
        println!("{name:28} {kind:10} {}", spread(&mut medians));
    }
}

/// Insertions and removals one by one.
fn changes(mut index: HybridIndex, corpus: &Corpus) {
    let size = corpus.texts.len();
    let count = 20_000.min(size);
    let mut inserted = Vec::with_capacity(count);
    for at in 0..count {
        let ((), time) = timed(|| {
            let text = index.prepare(&[("text", &corpus.texts[at])]);
            index.insert(&format!("new {at}"), Some(&text), None).unwrap();
        });
        inserted.push(time);
    }
    let total: Duration = inserted.iter().sum();
    println!("insert one: {}, mean {:?}", spread(&mut inserted), total / count as u32);
    let mut removed = Vec::with_capacity(count);
    for at in 0..count / 2 {
        removed.push(timed(|| index.remove(&(at * 2).to_string())).1);
    }
    let total: Duration = removed.iter().sum();
    println!("remove one: {}, mean {:?}", spread(&mut removed), total / (count / 2) as u32);
}

fn saved(corpus: &Corpus) {
    let index = built(corpus, AnalyzerKind::Plain, corpus.texts.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index");
    let ((), time) = timed(|| index.save(&path).unwrap());
    let bytes = std::fs::metadata(&path).unwrap().len();
    let texts: usize = corpus.texts.iter().map(String::len).sum();
    println!("saved in {time:?}: {:.1} MB of {:.1} MB text", bytes as f64 / 1e6, texts as f64 / 1e6);
    let mut opened: Vec<Duration> = Vec::new();
    for (_, questions) in &corpus.questions {
        for question in questions.iter().take(5) {
            let search = Search { query: Some(question), ..Search::default() };
            opened.push(timed(|| HybridIndex::load(&path).unwrap().search(&search).unwrap().len()).1);
        }
    }
    println!("open and first answer: {}", spread(&mut opened));
}

fn timed<T>(job: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = job();
    (done, start.elapsed())
}

fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    format!(
        "p10 {:.2} p50 {:.2} p95 {:.2} p99 {:.2} max {:.0} µs",
        at(0.1),
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0)
    )
}
