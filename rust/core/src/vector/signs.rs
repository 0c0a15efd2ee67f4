//! Rows of one bit a component, to see which rows are worth comparing: a line of the cache where the codes of one take six.
//!
//! Kept of a row `x` are the signs `s` of `a = R (x - m)`, where `m` is the mean of all rows and `R` turns them, see
//! [`super::turn`], and three numbers. For a question `q` and `p = R (q - m)`, `q x = q m + m (x - m) + p a`, and `p a` is near
//! to `(p s) |a|^2 / |a|_1`, which has no bias and a standard deviation of `|p| |a| sqrt((1/r^2 - 1) / (d - 1))` with
//! `r = |a|_1 / (sqrt(d) |a|)` (Gao, Long 2024: `RaBitQ`, with a turn of fewer steps). Without the turn that held for rows
//! made like embeddings, but of rows whose components vary unlike each other a walk found .74 of the ten nearest.
//!
//! All is computed in one order, in whole numbers, f32 and f64: the same bits with every kernel.

use super::codes::{CodeRows, LINE, Query8, ZERO};
use super::kernel::{Kernel, prefetch};
use super::turn::turn;
use bytemuck::must_cast_slice;

/// Components whose signs lie in a word.
const WORD: usize = 64;

/// Words of a line.
const LINE_WORDS: usize = LINE / size_of::<u64>();

/// Words for the numbers of a row: factor and offset, error.
const NUMBERS: usize = 2;

/// Words from one row to the next for rows of so many bytes of codes; None where it would not be less than these.
fn words(stride: usize) -> Option<usize> {
    let words = (stride / WORD + NUMBERS).next_multiple_of(LINE_WORDS);
    (words * size_of::<u64>() < stride).then_some(words)
}

/// Signs of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct SignRows<'a> {
    /// Words of a row: its signs, then its numbers.
    stride: usize,
    rows: &'a [u64],
    /// `R m`, as long as a row of codes.
    mean: &'a [f32],
}

impl<'a> SignRows<'a> {
    /// None when these are not the signs of `count` rows. `mean` is that which they are counted from, [`turned`].
    pub(super) fn new(rows: &'a [u64], mean: &'a [f32], count: usize) -> Option<Self> {
        let stride = words(mean.len()).filter(|_| mean.len().is_multiple_of(LINE))?;
        (stride.checked_mul(count) == Some(rows.len())).then_some(Self { stride, rows, mean })
    }

    /// How many rows there are signs of.
    pub(super) fn len(&self) -> usize {
        self.rows.len() / self.stride
    }

    #[inline]
    fn row(&self, at: u32) -> &'a [u64] {
        &self.rows[at as usize * self.stride..][..self.stride]
    }
}

/// `R row`; nothing when it has no such width.
pub(super) fn turned(mut row: Vec<f32>) -> Vec<f32> {
    if !row.len().is_multiple_of(LINE) {
        return Vec::new();
    }
    turn(&mut row, &mut Vec::new());
    row
}

/// Signs of rows in memory, as they are written.
#[derive(Debug, Default)]
pub(super) struct Signs {
    pub(super) rows: Vec<u64>,
    pub(super) mean: Vec<f32>,
}

impl Signs {
    /// None where they would take as much room as the codes.
    pub(super) fn of(rows: CodeRows<'_>) -> Option<Self> {
        let stride = words(rows.stride())?;
        let dim = rows.stride() as f64;
        let mean = mean_of(rows);
        let mut signs = Vec::with_capacity(stride * rows.len());
        let (mut apart, mut room) = (Vec::new(), Vec::new());
        for at in 0..rows.len() {
            let scale = f64::from(rows.scale(at));
            let components = rows.row(at).iter().map(|code| signed(*code) * scale);
            apart.clear();
            apart.extend(components.zip(&mean).map(|(x, mean)| (x - f64::from(*mean)) as f32));
            let offset: f64 = apart.iter().zip(&mean).map(|(a, m)| f64::from(*a) * f64::from(*m)).sum();
            turn(&mut apart, &mut room);
            let sum: f64 = apart.iter().map(|a| f64::from(a.abs())).sum();
            let square: f64 = apart.iter().map(|a| f64::from(*a) * f64::from(*a)).sum();
            // (1/r^2 - 1) |a|^2, where 1/r^2 = d |a|^2 / |a|_1^2.
            let (factor, spread) = if sum > 0.0 {
                let unlike = (dim * square / (sum * sum) - 1.0).max(0.0);
                (square / sum, (square * unlike / (dim - 1.0)).sqrt())
            } else {
                (0.0, 0.0)
            };
            signs.extend(
                apart
                    .as_chunks::<WORD>()
                    .0
                    .iter()
                    .map(|word| word.iter().rev().fold(0_u64, |bits, a| bits << 1 | u64::from(*a > 0.0))),
            );
            signs.push(pair(factor as f32, offset as f32));
            signs.push(pair(spread as f32, 0.0));
            signs.resize(stride * (at + 1), 0);
        }
        Some(Self { rows: signs, mean })
    }
}

fn pair(low: f32, high: f32) -> u64 {
    u64::from(high.to_bits()) << 32 | u64::from(low.to_bits())
}

fn signed(code: u8) -> f64 {
    f64::from(code) - f64::from(ZERO)
}

fn mean_of(rows: CodeRows<'_>) -> Vec<f32> {
    let mut sums = vec![0.0_f64; rows.stride()];
    for at in 0..rows.len() {
        let scale = f64::from(rows.scale(at));
        sums.iter_mut().zip(rows.row(at)).for_each(|(sum, code)| *sum += signed(*code) * scale);
    }
    let count = rows.len().max(1) as f64;
    sums.iter().map(|sum| (sum / count) as f32).collect()
}

/// A question, to be compared with signs.
#[derive(Debug)]
pub(super) struct SignQuery<'a> {
    kernel: Kernel,
    rows: SignRows<'a>,
    /// Codes of `R (q - m)`.
    codes: Vec<i8>,
    /// Of all codes.
    sum: i32,
    step: f32,
    /// `q m`
    base: f32,
    /// `|p|`, what the spread of a row is multiplied by.
    length: f32,
}

impl<'a> SignQuery<'a> {
    /// None when the rows have another width.
    pub(super) fn new(query: &Query8, rows: SignRows<'a>) -> Option<Self> {
        let asked = query.turned();
        if asked.len() != rows.mean.len() {
            return None;
        }
        // A turn leaves products as they are.
        let base: f64 = asked.iter().zip(rows.mean).map(|(q, m)| f64::from(*q) * f64::from(*m)).sum();
        let apart: Vec<f32> = asked.iter().zip(rows.mean).map(|(q, m)| q - m).collect();
        let length = apart.iter().map(|p| f64::from(*p) * f64::from(*p)).sum::<f64>().sqrt();
        let mut codes = vec![ZERO; asked.len()];
        let step = super::codes::quantise(&apart, &mut codes);
        let codes: Vec<i8> = codes.iter().map(|code| (code ^ ZERO).cast_signed()).collect();
        let sum = codes.iter().map(|code| i32::from(*code)).sum();
        let (base, length) = (base as f32, length as f32);
        Some(Self { kernel: query.kernel(), rows, codes, sum, step, base, length })
    }

    /// Asks for the signs of a row that will be looked at; nothing when there is no such row.
    #[inline]
    pub(super) fn prefetch(&self, at: u32) {
        let start = at as usize * self.rows.stride;
        if let Some(row) = self.rows.rows.get(start..start + self.rows.stride) {
            prefetch(row);
        }
    }

    /// What the cosines of these rows can be expected to be at most: what they are near to and so many `deviations`.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub(super) fn most(&self, deviations: f32, at: &[u32], out: &mut [f32]) {
        let spread = deviations * self.length;
        match self.kernel {
            Kernel::Portable => portable::most(self, spread, at, out),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::most(self, spread, at, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::most(self, spread, at, out) },
        }
    }

    /// The most that a row with this sum of the codes where its signs are above zero can be expected to have.
    #[inline]
    fn bound(&self, spread: f32, positive: i32, row: &[u64]) -> f32 {
        let numbers = &row[self.codes.len() / WORD..];
        let (first, second) = (numbers[0], numbers[1]);
        let [factor, offset, own_spread] =
            [first, first >> 32, second].map(|bits| f32::from_bits(bits as u32));
        let near = self.base + offset + (2 * positive - self.sum) as f32 * (self.step * factor);
        near + spread * own_spread
    }
}

/// Rows ahead that memory is asked for.
const AHEAD: usize = 32;

/// The loop over rows, for a module that has `positive` and `positive4`: sums of the codes where signs are above zero.
macro_rules! loops {
    ($(#[$attribute:meta])*) => {
        $(#[$attribute])*
        pub(super) fn most(query: &SignQuery<'_>, spread: f32, at: &[u32], out: &mut [f32]) {
            at.iter().take(AHEAD).for_each(|at| prefetch(query.rows.row(*at)));
            let (fours, rest) = at.as_chunks::<4>();
            let (out, out_rest) = out.as_chunks_mut::<4>();
            for (step, (four, out)) in fours.iter().zip(out).enumerate() {
                let ahead = at.iter().skip(4 * step + AHEAD).take(4);
                ahead.for_each(|at| prefetch(query.rows.row(*at)));
                let [a, b, c, d] = *four;
                let rows = [query.rows.row(a), query.rows.row(b), query.rows.row(c), query.rows.row(d)];
                let sums = positive4(query, rows);
                for ((out, sum), row) in out.iter_mut().zip(sums).zip(rows) {
                    *out = query.bound(spread, sum, row);
                }
            }
            for (at, out) in rest.iter().zip(out_rest) {
                let row = query.rows.row(*at);
                *out = query.bound(spread, positive(query, row), row);
            }
        }
    };
}

mod portable {
    use super::{AHEAD, SignQuery, WORD, prefetch};

    pub(super) fn positive(query: &SignQuery<'_>, row: &[u64]) -> i32 {
        let mut sum = 0;
        for (codes, word) in query.codes.as_chunks::<WORD>().0.iter().zip(row) {
            for (codes, byte) in codes.as_chunks::<8>().0.iter().zip(word.to_le_bytes()) {
                for (code, bit) in codes.iter().zip(0..8) {
                    sum += i32::from(*code) & -i32::from(byte >> bit & 1);
                }
            }
        }
        sum
    }

    fn positive4(query: &SignQuery<'_>, rows: [&[u64]; 4]) -> [i32; 4] {
        rows.map(|row| positive(query, row))
    }

    loops!();
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::codes::avx2::add_up;
    use super::{AHEAD, SignQuery, WORD, must_cast_slice, prefetch};
    use std::arch::x86_64::{
        _mm256_add_epi32, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_madd_epi16,
        _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x,
        _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    };

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn positive(query: &SignQuery<'_>, row: &[u64]) -> i32 {
        // Each byte of four to eight places, in each of which one bit is looked at.
        let spread =
            _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        let (ones, wide) = (_mm256_set1_epi8(1), _mm256_set1_epi16(1));
        let mut sum = _mm256_setzero_si256();
        for (codes, word) in query.codes.as_chunks::<WORD>().0.iter().zip(row) {
            for (codes, half) in codes.as_chunks::<32>().0.iter().zip([*word as u32, (*word >> 32) as u32]) {
                let bytes: &[u8] = must_cast_slice(codes);
                // SAFETY: 32 bytes are read from an array of 32.
                let codes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
                let signs = _mm256_shuffle_epi8(_mm256_set1_epi32(half.cast_signed()), spread);
                let there = _mm256_cmpeq_epi8(_mm256_and_si256(signs, bits), bits);
                let pairs = _mm256_maddubs_epi16(ones, _mm256_and_si256(codes, there));
                sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, wide));
            }
        }
        add_up(sum)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn positive4(query: &SignQuery<'_>, rows: [&[u64]; 4]) -> [i32; 4] {
        let [a, b, c, d] = rows;
        [positive(query, a), positive(query, b), positive(query, c), positive(query, d)]
    }

    loops!(#[target_feature(enable = "avx2")]);
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::super::codes::vnni::{add_up4, load};
    use super::{AHEAD, SignQuery, WORD, prefetch};
    use std::arch::x86_64::{
        __m512i, _mm512_dpbusd_epi32, _mm512_maskz_mov_epi8, _mm512_reduce_add_epi32, _mm512_set1_epi8,
        _mm512_setzero_si512,
    };

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn add(sum: &mut __m512i, word: u64, codes: __m512i) {
        let there = _mm512_maskz_mov_epi8(word, _mm512_set1_epi8(1));
        *sum = _mm512_dpbusd_epi32(*sum, there, codes);
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn positive(query: &SignQuery<'_>, row: &[u64]) -> i32 {
        let mut sum = _mm512_setzero_si512();
        for (codes, word) in query.codes.as_chunks::<WORD>().0.iter().zip(row) {
            add(&mut sum, *word, load(codes));
        }
        _mm512_reduce_add_epi32(sum)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn positive4(query: &SignQuery<'_>, rows: [&[u64]; 4]) -> [i32; 4] {
        let mut sums = [_mm512_setzero_si512(); 4];
        let [a, b, c, d] = rows;
        for ((((codes, a), b), c), d) in query.codes.as_chunks::<WORD>().0.iter().zip(a).zip(b).zip(c).zip(d)
        {
            let codes = load(codes);
            add(&mut sums[0], *a, codes);
            add(&mut sums[1], *b, codes);
            add(&mut sums[2], *c, codes);
            add(&mut sums[3], *d, codes);
        }
        add_up4(sums)
    }

    loops!(#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]);
}

#[cfg(test)]
mod tests {
    use super::super::clustered::clustered;
    use super::super::codes::{Line, quantise, stride};
    use super::*;
    use proptest::prelude::*;

    /// Codes of unit rows, and their scales.
    fn codes(rows: &[Vec<f32>]) -> (Vec<Line>, Vec<f32>) {
        let lines = stride(rows[0].len()) / LINE;
        let mut codes = vec![Line::ZEROS; lines * rows.len()];
        let scales = rows.iter().zip(codes.chunks_mut(lines));
        let scales = scales.map(|(row, codes)| quantise(row, bytemuck::must_cast_slice_mut(codes))).collect();
        (codes, scales)
    }

    /// What the signs of all rows tell by every kernel, which has to be the same.
    fn most(rows: CodeRows<'_>, query: &[f32], deviations: f32) -> Vec<f32> {
        let Signs { rows: signs, mean } = Signs::of(rows).unwrap();
        let mean = turned(mean);
        let signs = SignRows::new(&signs, &mean, rows.len()).unwrap();
        let all: Vec<u32> = (0..rows.len() as u32).collect();
        let told = Kernel::all().into_iter().map(|kernel| {
            let mut asked = SignQuery::new(&Query8::new(query), signs).unwrap();
            asked.kernel = kernel;
            let mut most = vec![0.0; all.len()];
            asked.most(deviations, &all, &mut most);
            most
        });
        let told: Vec<Vec<f32>> = told.collect();
        let bits = |most: &[f32]| most.iter().map(|most| most.to_bits()).collect::<Vec<_>>();
        assert!(told.windows(2).all(|two| bits(&two[0]) == bits(&two[1])));
        told[0].clone()
    }

    #[test]
    fn cosines_are_as_far_off_as_is_told_of_them() {
        for (width, uneven) in [(65, 0), (128, 0), (384, 0), (1_000, 0), (384, 1), (384, 2), (384, 3)] {
            let (mut rows, mut questions) = clustered(1_500, width, 30);
            for (row, at) in rows.iter_mut().chain(&mut questions).zip(0..) {
                for (x, place) in row.iter_mut().zip(1..) {
                    *x *= match uneven {
                        1 => 1.0 / (place as f32).sqrt(),
                        2 => 1.0 / place as f32,
                        _ => 1.0,
                    };
                }
                if uneven == 3 {
                    row[at % 40] = 3.0;
                }
                let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                for x in row {
                    *x /= length;
                }
            }
            let (lines, scales) = codes(&rows);
            let view = CodeRows::new(width, must_cast_slice(&lines), &scales).unwrap();
            let (mut squares, mut sum, mut beyond, mut count) = (0.0, 0.0, 0, 0.0);
            for question in &questions {
                let (near, one) = (most(view, question, 0.0), most(view, question, 1.0));
                for ((row, near), one) in rows.iter().zip(&near).zip(&one) {
                    let cosine: f32 = row.iter().zip(question).map(|(x, y)| x * y).sum();
                    let deviations = f64::from((cosine - near) / (one - near));
                    squares += deviations * deviations;
                    sum += deviations;
                    beyond += usize::from(deviations.abs() > 4.0);
                    count += 1.0;
                }
            }
            let (mean, deviation) = (sum / count, f64::sqrt(squares / count));
            assert!(
                mean.abs() < 0.15 && (0.7..1.2).contains(&deviation),
                "{width} {uneven}: {mean} {deviation}"
            );
            assert!(f64::from(beyond as u32) <= 5e-4 * count, "{width} {uneven}: {beyond} of {count}");
        }
    }

    #[test]
    fn equal_rows_and_rows_of_one_component_are_not_passed_by() {
        let mut rows = vec![vec![0.0; 130]; 40];
        for (row, at) in rows.iter_mut().zip(0..) {
            row[if at < 20 { 7 } else { at }] = 1.0;
        }
        let (lines, scales) = codes(&rows);
        let view = CodeRows::new(130, must_cast_slice(&lines), &scales).unwrap();
        for row in &rows {
            for (most, other) in most(view, row, 4.0).iter().zip(&rows) {
                assert!(*most >= if other == row { 0.99 } else { 0.0 }, "{most}");
            }
        }
        let same = CodeRows::new(130, must_cast_slice(&lines[..3 * 20]), &scales[..20]).unwrap();
        assert!(most(same, &rows[0], 0.0).iter().all(|most| (*most - 1.0).abs() < 1e-3));
    }

    #[test]
    fn narrow_rows_have_none_and_others_take_half_of_the_room_at_most() {
        for width in 1..=8_192 {
            let stride = stride(width);
            match words(stride) {
                None => assert!(width <= 64),
                Some(words) => assert!(words % LINE_WORDS == 0 && 16 * words <= stride, "{width}"),
            }
        }
        assert_eq!((words(384), words(1_536)), (Some(8), Some(32)));
        assert!(SignRows::new(&[0; 8], &[0.0; 384], 1).is_some());
        assert!(
            SignRows::new(&[0; 8], &[0.0; 384], 2).is_none()
                && SignRows::new(&[0; 8], &[0.0; 7], 1).is_none()
        );
    }

    proptest! {
        #[test]
        fn any_numbers_give_the_same_with_every_kernel(
            width in 65..300usize,
            count in 1..12usize,
            seed in any::<u64>(),
            damaged in any::<bool>(),
        ) {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state
            };
            let bytes: Vec<u8> = (0..stride(width) * count).map(|_| (next() >> 56) as u8).collect();
            let scales: Vec<f32> = (0..count).map(|_| f32::from_bits((next() >> 40) as u32 | 0x3A00_0000)).collect();
            let rows = CodeRows::new(width, &bytes, &scales).unwrap();
            let query: Vec<f32> = (0..width).map(|_| (next() >> 40) as f32 - 8e6).collect();
            most(rows, &query, 2.0);
            let mut signs = Signs::of(rows).unwrap();
            if damaged {
                signs.rows.iter_mut().for_each(|word| *word ^= next());
            }
            let mean = turned(signs.mean);
            let signs = SignRows::new(&signs.rows, &mean, count).unwrap();
            let asked = SignQuery::new(&Query8::new(&query), signs).unwrap();
            asked.most(1.0, &(0..count as u32).collect::<Vec<_>>(), &mut vec![0.0; count]);
        }
    }
}
