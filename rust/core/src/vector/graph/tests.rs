//! The graph against an exact search, its own copies, interruptions and damage.

use super::super::clustered::clustered;
use super::super::codes::{CodeRows, Query8};
use super::super::half::to_half;
use super::super::rows::Rows;
use super::super::{UnitRow, kernel::Kernel};
use super::repair::unreachable;
use super::twins::Twins;
use super::*;
use crate::lexical::Simd;
use crate::sections::SectionWriter;
use proptest::prelude::*;

mod build;
mod damage;
mod search;
mod speed;

/// Rows with their codes, and questions.
pub(super) struct TestRows {
    width: usize,
    pub(super) floats: Vec<Vec<f32>>,
    rows: Rows,
    pub(super) questions: Vec<Vec<f32>>,
}

impl TestRows {
    pub(super) fn of(floats: Vec<Vec<f32>>, questions: Vec<Vec<f32>>) -> Self {
        let width = floats.first().map_or(1, Vec::len);
        let mut rows = Rows::default();
        for row in &floats {
            rows.push(&row.iter().map(|x| to_half(*x)).collect::<Vec<_>>());
        }
        Self { width, floats, rows, questions }
    }

    pub(super) fn clustered(count: usize, width: usize) -> Self {
        let (floats, questions) = clustered(count, width, 60);
        Self::of(floats, questions)
    }

    /// Directions that are equally likely.
    pub(super) fn uniform(count: usize, width: usize) -> Self {
        let random = &mut Random(11);
        let mut unit = |count: usize| -> Vec<Vec<f32>> {
            let row =
                |_| UnitRow::new(&(0..width).map(|_| random.normal()).collect::<Vec<_>>(), None).unwrap();
            (0..count).map(row).map(UnitRow::into_vec).collect()
        };
        let floats = unit(count);
        Self::of(floats, unit(60))
    }

    /// Every `every`th row is that of the same number modulo `distinct`.
    pub(super) fn with_twins(mut self, every: usize, distinct: usize) -> Self {
        for at in (0..self.floats.len()).step_by(every) {
            self.floats[at] = self.floats[at % distinct].clone();
        }
        Self::of(self.floats, self.questions)
    }

    pub(super) fn rows(&self) -> CodeRows<'_> {
        self.rows.view(self.width).unwrap().codes()
    }

    fn cosine(&self, question: &[f32], row: u32) -> f64 {
        let row = &self.floats[row as usize];
        row.iter().zip(question).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
    }

    /// The best rows by their floats.
    fn best(&self, question: &[f32], k: usize, accept: impl Fn(u32) -> bool) -> Vec<u32> {
        let rows = (0..self.floats.len() as u32).filter(|row| accept(*row));
        let mut best: Vec<(f64, u32)> = rows.map(|row| (self.cosine(question, row), row)).collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        best.into_iter().take(k).map(|(_, row)| row).collect()
    }

    /// Share of the ten best rows that are found, scored again from the floats; a row as near as the tenth counts.
    fn recall(&self, accept: impl Fn(u32) -> bool, mut walk: impl FnMut(&Query8) -> Walked) -> f64 {
        let (mut found, mut all) = (0, 0);
        for question in &self.questions {
            let best = self.best(question, 10, &accept);
            let least = best.last().map_or(1.0, |row| self.cosine(question, *row));
            let walked = walk(&Query8::new(question));
            assert!(walked.found.is_sorted_by(|a, b| (b.1, a.0) <= (a.1, b.0)), "in order, none twice");
            let good = walked.found.iter().filter(|(row, _)| self.cosine(question, *row) >= least);
            found += good.count().min(best.len());
            all += best.len();
        }
        found as f64 / all as f64
    }
}

/// A generator of random numbers.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn normal(&mut self) -> f32 {
        (0..4).map(|_| self.next() as f32 / (1_u64 << 31) as f32).sum::<f32>() - 2.0
    }
}

/// All rows, with a seed of so many.
pub(super) fn built(rows: CodeRows<'_>, seed: usize) -> Builder<'_> {
    let mut builder = Builder::new(rows).unwrap().with_seed(seed);
    assert!(builder.step(usize::MAX, &|| false).unwrap());
    assert_eq!(builder.finish(), 0, "rows that are out of reach");
    builder
}

pub(super) fn bytes(builder: &Builder<'_>) -> Vec<u8> {
    let mut out = SectionWriter::new(Vec::new()).unwrap();
    builder.write(&mut out).unwrap();
    out.finish().unwrap()
}

pub(super) fn opened(bytes: &[u8]) -> Graph {
    Graph::open(&Sections::from_bytes(bytes).unwrap()).unwrap().unwrap()
}

pub(super) fn graph(rows: CodeRows<'_>, seed: usize) -> Graph {
    opened(&bytes(&built(rows, seed)))
}
