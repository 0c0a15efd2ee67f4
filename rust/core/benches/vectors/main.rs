//! How long a search for the nearest vectors takes, by size, width, registers and filter, beside a plain loop over floats.
//!
//! ```text
//! cargo bench -p otolith-core --bench vectors -- [rows x width ...] [--only way]      for example 10000x384
//! cargo bench -p otolith-core --bench vectors -- --among [rows x width ...]           among ids, with a graph
//! ```
//!
//! Rows are random, in clusters, seeded. Recall is the share of the ten best by floats, in f64, among the ten found. One
//! thread; a question's time is its median over the passes, and ways take turns in each pass.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench")]

use fixedbitset::FixedBitSet;
use otolith_core::ids::DocId;
use otolith_core::index::{Among, HybridIndex, IndexParams, Search};
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
    let among = std::env::args().any(|arg| arg == "--among");
    for (count, width) in sizes {
        if among {
            measure_among(count, width);
        } else {
            measure(count, width);
        }
    }
}

/// A `HybridIndex` with a graph is asked among ids: those of a set, and as a list.
fn measure_among(count: usize, width: usize) {
    let data = Data::bent(count, width);
    let params = IndexParams { exact_below: Some(0), ..IndexParams::default() };
    let mut index = HybridIndex::new(Some(width), params).unwrap();
    let names: Vec<String> = (0..count).map(|doc| doc.to_string()).collect();
    for (row, name) in data.rows.chunks_exact(width).zip(&names) {
        index.insert(name, None, Some(row)).unwrap();
    }
    let start = Instant::now();
    index.compact(&|| false).unwrap();
    println!("{count} x {width}: compacted in {:.1} s", start.elapsed().as_secs_f64());
    for percent in [0.1, 1.0, 5.0, 10.0, 15.0, 20.0, 30.0, 50.0, 80.0, 100.0] {
        for near in [false, true] {
            let chosen = data.chosen(percent / 100.0, near);
            let ids: Vec<&str> = chosen.iter().map(|doc| names[*doc as usize].as_str()).collect();
            let set = index.subset(&ids);
            let best: Vec<Vec<u32>> = data
                .questions
                .iter()
                .map(|question| data.best_of(question, chosen.iter().copied()))
                .collect();
            for (way, ids) in [("a set", Among::Set(&set)), ("a list", Among::Ids(&ids))] {
                let mut times = vec![Vec::new(); QUESTIONS];
                let mut common = 0;
                for _ in 0..PASSES {
                    common = 0;
                    for (question, (vector, best)) in data.questions.iter().zip(&best).enumerate() {
                        let search =
                            Search { vector: Some(vector), k: K, ids: Some(ids), ..Search::default() };
                        let start = Instant::now();
                        let hits = black_box(index.search(&search).unwrap());
                        times[question].push(start.elapsed());
                        common += hits.iter().filter(|hit| best.contains(&hit.id.parse().unwrap())).count();
                    }
                }
                let mut medians: Vec<Duration> = times.iter_mut().map(|times| middle(times, 50)).collect();
                let micros = |time: Duration| time.as_secs_f64() * 1e6;
                let (p50, p95) = (micros(middle(&mut medians, 50)), micros(middle(&mut medians, 95)));
                let recall = common as f64 / (K * QUESTIONS) as f64;
                let label = format!("{percent} % {} by {way}", if near { "of clusters" } else { "of all" });
                println!(
                    "{:<18}  {label:<28} {p50:>8.1}  {p95:>9.1}   {recall:.4}",
                    format!("{count} x {width}")
                );
            }
        }
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
    /// By row, the cluster it is of.
    clusters: Vec<usize>,
    questions: Vec<Vec<f32>>,
}

impl Data {
    fn new(count: usize, width: usize) -> Self {
        let random = &mut Random(20_261_001);
        let centres: Vec<Vec<f32>> =
            (0..CLUSTERS).map(|_| (0..width).map(|_| random.normal()).collect()).collect();
        let mut row = || {
            let cluster = (random.next() % CLUSTERS as u64) as usize;
            let row: Vec<f32> = centres[cluster].iter().map(|x| x + 0.8 * random.normal()).collect();
            (UnitRow::new(&row, None).unwrap().into_vec(), cluster)
        };
        let questions = (0..QUESTIONS).map(|_| row().0).collect();
        let (mut rows, mut clusters) = (Vec::with_capacity(count * width), Vec::with_capacity(count));
        for _ in 0..count {
            let (row, cluster) = row();
            rows.extend(row);
            clusters.push(cluster);
        }
        Self { width, rows, clusters, questions }
    }

    /// Like texts embedded by a model: points of 64 numbers around topics, bent into more; an offset that all share, and noise.
    fn bent(count: usize, width: usize) -> Self {
        const LATENT: usize = 64;
        let random = &mut Random(20_261_002);
        let mut matrix = |rows: usize, columns: usize, scale: f32| -> Vec<Vec<f32>> {
            (0..rows).map(|_| (0..columns).map(|_| scale * random.gauss()).collect()).collect()
        };
        let (topics, offset) = (matrix(CLUSTERS, LATENT, 1.0), matrix(1, width, 0.7).remove(0));
        let (straight, inner, outer) =
            (matrix(LATENT, width, 0.125), matrix(LATENT, LATENT, 0.25), matrix(LATENT, width, 0.125));
        let times = |place: &[f32], matrix: &[Vec<f32>], out: &mut [f32]| {
            for (x, row) in place.iter().zip(matrix) {
                out.iter_mut().zip(row).for_each(|(out, y)| *out += x * y);
            }
        };
        let embed = |place: &[f32], random: &mut Random| {
            let (mut row, mut bent) = (offset.clone(), vec![0.0; LATENT]);
            times(place, &straight, &mut row);
            times(place, &inner, &mut bent);
            for x in &mut bent {
                *x = x.tanh();
            }
            times(&bent, &outer, &mut row);
            for x in &mut row {
                *x += 1.3 * random.gauss();
            }
            UnitRow::new(&row, None).unwrap().into_vec()
        };
        let (mut rows, mut clusters) = (Vec::with_capacity(count * width), Vec::with_capacity(count));
        let mut questions = Vec::new();
        for doc in 0..count {
            let cluster = (random.next() % CLUSTERS as u64) as usize;
            let mut place: Vec<f32> = topics[cluster].iter().map(|x| x + random.gauss()).collect();
            rows.extend(embed(&place, random));
            clusters.push(cluster);
            if doc < QUESTIONS {
                for x in &mut place {
                    *x += 0.5 * random.gauss();
                }
                questions.push(embed(&place, random));
            }
        }
        Self { width, rows, clusters, questions }
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
        self.best_of(question, 0..(self.rows.len() / self.width) as u32)
    }

    fn best_of(&self, question: &[f32], docs: impl Iterator<Item = u32>) -> Vec<u32> {
        let score = |row: &[f32]| row.iter().zip(question).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
        let row = |doc: u32| &self.rows[doc as usize * self.width..][..self.width];
        let mut scores: Vec<(f64, u32)> = docs.map(|doc| (score(row(doc)), doc)).collect();
        scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scores[..K].iter().map(|(_, doc)| *doc).collect()
    }

    /// A share of all rows: random ones, or whole clusters.
    fn chosen(&self, share: f64, clusters: bool) -> Vec<u32> {
        let mut random = Random(7);
        let count = self.clusters.len();
        let keys: Vec<u64> = (0..count.max(CLUSTERS)).map(|_| random.next()).collect();
        let mut order: Vec<u32> = (0..count as u32).collect();
        let key = |doc: u32| keys[if clusters { self.clusters[doc as usize] } else { doc as usize }];
        order.sort_by_key(|doc| (key(*doc), *doc));
        order.truncate(((count as f64 * share) as usize).max(K));
        order.sort_unstable();
        order
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

    fn gauss(&mut self) -> f32 {
        3.0_f32.sqrt() * self.normal()
    }

    /// Sum of four uniform numbers: near enough to normal.
    fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1_u64 << 24) as f32).sum::<f32>() - 2.0
    }
}
