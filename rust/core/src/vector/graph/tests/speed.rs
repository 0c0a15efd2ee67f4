//! Times of building and of walks, with recall; run with `--release -- --ignored --nocapture graph::tests::speed`.
//!
//! `GRAPH_ROWS` sets the number of rows, 100,000 unless it is there, and `GRAPH_WIDTH` their width, 384. Rows are made like
//! embeddings of texts: topics in a space of 64 dimensions, mapped to more by a matrix and a bent one, with noise and an
//! offset that all have in common.

use super::super::super::codes::Pairs;
use super::super::seed::Apart;
use super::*;
use hnsw_rs::prelude::Hnsw;
use std::io::Write;
use std::time::Instant;

const TOPICS: usize = 400;
const LATENT: usize = 64;
const QUESTIONS: usize = 500;

struct Space {
    random: Random,
    width: usize,
    centres: Vec<f32>,
    linear: Vec<f32>,
    hidden: Vec<f32>,
    lift: Vec<f32>,
    offset: Vec<f32>,
}

impl Space {
    fn new(width: usize) -> Self {
        let mut random = Random(20_240_607);
        let mut normals =
            |count: usize, scale: f32| (0..count).map(|_| scale * normal(&mut random)).collect::<Vec<_>>();
        let (centres, linear) = (normals(TOPICS * LATENT, 1.0), normals(LATENT * width, 1.0 / 8.0));
        let (hidden, lift) = (normals(LATENT * LATENT, 1.0 / 8.0), normals(LATENT * width, 1.0 / 8.0));
        let offset = normals(width, 0.7);
        Self { random, width, centres, linear, hidden, lift, offset }
    }

    fn row(&mut self) -> Vec<f32> {
        let topic = self.random.next() as usize % TOPICS;
        let latent: Vec<f32> =
            self.centres[topic * LATENT..][..LATENT].iter().map(|x| x + normal(&mut self.random)).collect();
        let mut bent = vec![0.0; LATENT];
        add_product(&latent, &self.hidden, &mut bent);
        for x in &mut bent {
            *x = (2.0 * *x).tanh();
        }
        let mut row: Vec<f32> = self.offset.iter().map(|x| x + 1.3 * normal(&mut self.random)).collect();
        add_product(&latent, &self.linear, &mut row);
        add_product(&bent, &self.lift, &mut row);
        assert_eq!(row.len(), self.width);
        UnitRow::new(&row, None).unwrap().into_vec()
    }
}

/// Sum of twelve uniform numbers: the variance is one.
fn normal(random: &mut Random) -> f32 {
    (0..12).map(|_| random.next() as f32 / (1_u64 << 31) as f32).sum::<f32>() - 6.0
}

fn add_product(row: &[f32], matrix: &[f32], out: &mut [f32]) {
    for (x, line) in row.iter().zip(matrix.chunks(out.len())) {
        out.iter_mut().zip(line).for_each(|(out, y)| *out += x * y);
    }
}

/// The ten best rows of each question, by floats.
fn best(data: &TestRows, accept: impl Fn(u32) -> bool) -> Vec<Vec<u32>> {
    let dot = |a: &[f32], b: &[f32]| -> f32 {
        let mut sums = [0.0_f32; 16];
        for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
            (0..16).for_each(|lane| sums[lane] += a[lane] * b[lane]);
        }
        sums.iter().sum()
    };
    let rows: Vec<u32> = (0..data.floats.len() as u32).filter(|row| accept(*row)).collect();
    let ten = |question: &Vec<f32>| {
        let mut all: Vec<(f32, u32)> =
            rows.iter().map(|row| (dot(&data.floats[*row as usize], question), *row)).collect();
        if all.len() > 10 {
            all.select_nth_unstable_by(9, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        all.truncate(10);
        all.into_iter().map(|(_, row)| row).collect()
    };
    data.questions.iter().map(ten).collect()
}

/// Medians of the questions' times in microseconds, each the least of three passes, and the recall of the ten best after
/// scoring from the floats.
fn measure(data: &TestRows, best: &[Vec<u32>], mut ask: impl FnMut(&Query8) -> Vec<u32>) -> (f64, f64, f64) {
    let queries: Vec<Query8> = data.questions.iter().map(|question| Query8::new(question)).collect();
    let mut least = vec![f64::INFINITY; queries.len()];
    let (mut good, mut all) = (0, 0);
    for pass in 0..3 {
        for ((query, question), (best, least)) in
            queries.iter().zip(&data.questions).zip(best.iter().zip(&mut least))
        {
            let start = Instant::now();
            let found = std::hint::black_box(ask(query));
            *least = least.min(start.elapsed().as_secs_f64() * 1e6);
            if pass == 0 {
                let mut scored: Vec<(f64, u32)> =
                    found.iter().map(|row| (data.cosine(question, *row), *row)).collect();
                scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                good += scored.iter().take(10).filter(|(_, row)| best.contains(row)).count();
                all += best.len();
            }
        }
    }
    least.sort_by(f64::total_cmp);
    (least[least.len() / 2], least[least.len() * 95 / 100], f64::from(good as u32) / f64::from(all as u32))
}

/// Seconds of the processor that this thread had: others run beside. Of the clock where the system does not tell.
fn seconds(since: Instant) -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
#[ignore = "a measurement of release builds"]
fn building_and_walking() {
    let mut out = std::io::stderr().lock();
    let (count, width) = (number("GRAPH_ROWS", 100_000), number("GRAPH_WIDTH", 384));
    let mut space = Space::new(width);
    let questions: Vec<Vec<f32>> = (0..QUESTIONS).map(|_| space.row()).collect();
    let data = TestRows::of((0..count).map(|_| space.row()).collect(), questions);
    let rows = data.rows();

    let mut builder = Builder::new(rows).unwrap();
    let start = Instant::now();
    let before = seconds(start);
    builder.step(0, &|| false).unwrap();
    let seed = seconds(start) - before;
    assert!(builder.step(usize::MAX, &|| false).unwrap());
    let all = seconds(start) - before;
    let lost = unreachable(&builder.links, &Twins::find(rows)).len();
    let left = builder.finish();
    let rate = count as f64 / all;
    let repaired = seconds(start) - before - all;
    let bytes = bytes(&builder);
    writeln!(
        out,
        "{count} x {width}: built in {all:.2} s, {rate:.0} a second; the seed of {} in {seed:.2} s; {lost} rows linked again \
         in {repaired:.3} s, {left} left; {:.1} bytes a row",
        builder.links.len().min(2_000),
        bytes.len() as f64 / count as f64
    )
    .unwrap();
    let graph = opened(&bytes);

    let mut say = |what: &str, (p50, p95, recall): (f64, f64, f64)| {
        writeln!(out, "{what:<34} p50 {p50:>8.1} µs  p95 {p95:>8.1} µs  recall@10 {recall:.4}").unwrap();
    };
    let every = best(&data, |_| true);
    let ids = |walked: Walked| walked.found.into_iter().map(|(row, _)| row).collect::<Vec<_>>();
    for ef in [16, 23, 32, 46, 64, 76, 96, 128, 145, 256] {
        say(&format!("ef {ef}"), measure(&data, &every, |query| ids(graph.walk(query, rows, ef))));
    }
    for level in Simd::ALL {
        Simd::set(Some(level));
        let taken = measure(&data, &every, |query| ids(graph.walk(query, rows, 64)));
        say(&format!("ef 64, {}", level.name()), taken);
    }
    Simd::set(None);
    if number("GRAPH_FILTERED", 1) == 0 {
        return;
    }
    let mut random = Random(9);
    let drawn: Vec<u64> = (0..count).map(|_| random.next() % 1_000).collect();
    for (what, per_mille) in [
        ("0.1 % allowed", 1),
        ("1 % allowed", 10),
        ("10 % allowed", 100),
        ("50 % allowed", 500),
        ("30 % dead", 700),
    ] {
        let mut allowed = fixedbitset::FixedBitSet::with_capacity(count);
        (0..count).filter(|row| drawn[*row] < per_mille).for_each(|row| allowed.insert(row));
        let accept = |row: u32| allowed.contains(row as usize);
        let best = best(&data, accept);
        for ef in [64, 128] {
            let walk =
                |query: &Query8| ids(graph.walk_among(query, rows, (ef, usize::MAX), (ef, 0.01), accept));
            say(&format!("ef {ef}, {what}"), measure(&data, &best, walk));
        }
    }
}

/// What the crate does alone: building with the same distance and its own search.
#[test]
#[ignore = "a measurement of release builds"]
fn the_crate_alone() {
    let mut out = std::io::stderr().lock();
    let (count, width) = (number("GRAPH_ROWS", 10_000), number("GRAPH_WIDTH", 384));
    let mut space = Space::new(width);
    let questions: Vec<Vec<f32>> = (0..QUESTIONS).map(|_| space.row()).collect();
    let mut floats: Vec<Vec<f32>> = (0..count).map(|_| space.row()).collect();
    let data = TestRows::of(floats.clone(), questions.clone());
    let best = best(&data, |_| true);
    // Questions are rows behind the others: its search takes what is inserted.
    floats.extend(questions);
    let with_questions = TestRows::of(floats, Vec::new());
    let pairs = Pairs::new(with_questions.rows());
    let crates = Hnsw::<u32, Apart<'_>>::new(M, count, MAX_LEVEL + 1, EF_CONSTRUCTION, Apart(pairs));
    let start = Instant::now();
    let before = seconds(start);
    (0..count).for_each(|row| crates.insert_slice((&[row as u32], row)));
    let took = seconds(start) - before;
    writeln!(out, "hnsw_rs, {count} x {width}: built in {took:.2} s, {:.0} a second", count as f64 / took)
        .unwrap();
    for ef in [16, 32, 64, 128, 256] {
        let mut at = 0;
        let (p50, p95, recall) = measure(&data, &best, |_| {
            let question = count + at % QUESTIONS;
            at += 1;
            crates.search(&[question as u32], 10, ef).iter().map(|found| found.d_id as u32).collect()
        });
        writeln!(out, "hnsw_rs, ef {ef}: p50 {p50:.1} µs  p95 {p95:.1} µs  recall@10 {recall:.4}").unwrap();
    }
}
