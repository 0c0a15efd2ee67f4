//! How long a search for the nearest vectors takes, by size, width, registers and filter, beside a plain loop over floats.
//!
//! ```text
//! cargo bench -p otolith-core --bench vectors -- [rows x width ...] [--only way]      for example 10000x384
//! ```
//!
//! Rows are random, in clusters, seeded. Recall is the share of the ten best by floats, in f64, among the ten found. One
//! thread; a question's time is its median over the passes, and ways take turns in each pass.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use fixedbitset::FixedBitSet;
use otolith_core::ids::DocId;
use otolith_core::lexical::Simd;
use otolith_core::vector::{UnitRow, VectorSet};
use std::hint::black_box;
use std::time::{Duration, Instant};

const PASSES: usize = 7;
const QUESTIONS: usize = 60;
const CLUSTERS: usize = 256;
const K: usize = 10;

fn main() {
    let asked: Vec<(usize, usize)> = std::env::args()
        .filter_map(|arg| arg.split_once('x').and_then(|(n, w)| Some((n.parse().ok()?, w.parse().ok()?))))
        .collect();
    let sizes = [(1_000, 384), (10_000, 384), (30_000, 384), (100_000, 384), (10_000, 1_536)];
    let sizes = if asked.is_empty() { sizes.to_vec() } else { asked };
    println!("rows x width        way              p50 µs     p95 µs   recall@10");
    for (count, width) in sizes {
        measure(count, width);
    }
}

fn measure(count: usize, width: usize) {
    let data = Data::new(count, width);
    let set = data.set();
    let questions: Vec<UnitRow> = data.questions.iter().map(|row| UnitRow::new(row, None).unwrap()).collect();
    let best: Vec<Vec<u32>> = data.questions.iter().map(|question| data.best(question)).collect();
    let name = format!("{count} x {width}");

    let nearest = |level: Simd, allowed: Option<FixedBitSet>| {
        let (set, questions) = (&set, &questions);
        move |at: usize| -> Vec<u32> {
            Simd::set(Some(level));
            set.nearest(&questions[at], K, allowed.as_ref()).unwrap().iter().map(|(doc, _)| doc.0).collect()
        }
    };
    let mut ways: Vec<(String, Way<'_>)> = Vec::new();
    for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
        ways.push((level.name().to_owned(), Box::new(nearest(level, None))));
    }
    let widest = Simd::set(None);
    for every in [2, 10, 100, 1_000] {
        let mut allowed = FixedBitSet::with_capacity(count);
        (0..count).step_by(every).for_each(|doc| allowed.insert(doc));
        ways.push((format!("1 in {every} allowed"), Box::new(nearest(widest, Some(allowed)))));
    }
    ways.push((
        "all scores".to_owned(),
        Box::new(|at| {
            Simd::set(None);
            let scores = set.cosines(&questions[at], None, count).unwrap();
            let mut best: Vec<(f32, u32)> = scores.into_iter().zip(0..).collect();
            best.select_nth_unstable_by(K, |a, b| b.0.total_cmp(&a.0));
            best[..K].iter().map(|(_, doc)| *doc).collect()
        }),
    ));
    ways.push(("plain f32 loop".to_owned(), Box::new(|at| data.plain(at))));

    if let Some(only) = std::env::args().skip_while(|arg| arg != "--only").nth(1) {
        ways.retain(|(label, _)| *label == only);
    }
    let mut times = vec![vec![Vec::new(); QUESTIONS]; ways.len()];
    let mut found: Vec<Vec<Vec<u32>>> = vec![vec![Vec::new(); QUESTIONS]; ways.len()];
    for _ in 0..PASSES {
        for (way, (_, ask)) in ways.iter().enumerate() {
            for question in 0..QUESTIONS {
                let start = Instant::now();
                let answer = black_box(ask(question));
                times[way][question].push(start.elapsed());
                found[way][question] = answer;
            }
        }
    }
    Simd::set(None);
    for (((label, _), times), found) in ways.iter().zip(&mut times).zip(&found) {
        let mut medians: Vec<Duration> = times.iter_mut().map(|times| middle(times, 50)).collect();
        let recall = if label.contains("allowed") {
            "-".to_owned()
        } else {
            let common: usize = found
                .iter()
                .zip(&best)
                .map(|(own, best)| own.iter().filter(|d| best.contains(d)).count())
                .sum();
            format!("{:.4}", common as f64 / (K * QUESTIONS) as f64)
        };
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (p50, p95) = (micros(middle(&mut medians, 50)), micros(middle(&mut medians, 95)));
        println!("{name:<18}  {label:<18} {p50:>8.1}  {p95:>9.1}   {recall}");
    }
    let scores: Vec<Vec<(DocId, f32)>> = Simd::ALL
        .into_iter()
        .map(|level| {
            Simd::set(Some(level));
            questions.iter().flat_map(|query| set.nearest(query, K, None).unwrap()).collect()
        })
        .collect();
    Simd::set(None);
    assert!(scores.iter().all(|own| *own == scores[0]), "levels differ");
}

type Way<'a> = Box<dyn Fn(usize) -> Vec<u32> + 'a>;

fn middle(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

struct Data {
    width: usize,
    rows: Vec<f32>,
    questions: Vec<Vec<f32>>,
}

impl Data {
    fn new(count: usize, width: usize) -> Self {
        let random = &mut Random(20_261_001);
        let centres: Vec<Vec<f32>> =
            (0..CLUSTERS).map(|_| (0..width).map(|_| random.normal()).collect()).collect();
        let mut row = || {
            let centre = &centres[(random.next() % CLUSTERS as u64) as usize];
            let row: Vec<f32> = centre.iter().map(|x| x + 0.8 * random.normal()).collect();
            UnitRow::new(&row, None).unwrap().into_vec()
        };
        let questions = (0..QUESTIONS).map(|_| row()).collect();
        let rows = (0..count).flat_map(|_| row()).collect();
        Self { width, rows, questions }
    }

    fn set(&self) -> VectorSet {
        let mut set = VectorSet::new(Some(self.width));
        let start = Instant::now();
        let count = self.rows.len() / self.width;
        for (row, doc) in self.rows.chunks_exact(self.width).zip(0..) {
            set.insert(DocId(doc), &[row]).unwrap();
        }
        let each = start.elapsed().as_secs_f64() * 1e6 / count as f64;
        println!("{:<18}  insert             {each:>8.2}", format!("{count} x {}", self.width));
        set
    }

    fn best(&self, question: &[f32]) -> Vec<u32> {
        let score = |row: &[f32]| row.iter().zip(question).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
        let mut scores: Vec<(f64, u32)> = self.rows.chunks_exact(self.width).map(score).zip(0..).collect();
        scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scores[..K].iter().map(|(_, doc)| *doc).collect()
    }

    /// What one would write by hand: an inner product in eight lanes for each row, then a selection.
    fn plain(&self, at: usize) -> Vec<u32> {
        let question = &self.questions[at];
        let score = |row: &[f32]| {
            let mut sums = [0.0_f32; 8];
            for (x, y) in row.as_chunks::<8>().0.iter().zip(question.as_chunks::<8>().0) {
                for lane in 0..8 {
                    sums[lane] += x[lane] * y[lane];
                }
            }
            sums.iter().sum::<f32>()
        };
        let mut scores: Vec<(f32, u32)> = self.rows.chunks_exact(self.width).map(score).zip(0..).collect();
        scores.select_nth_unstable_by(K, |a, b| b.0.total_cmp(&a.0));
        scores[..K].iter().map(|(_, doc)| *doc).collect()
    }
}

/// A generator of random numbers (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Sum of four uniform numbers: near enough to normal.
    fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1_u64 << 24) as f32).sum::<f32>() - 2.0
    }
}
