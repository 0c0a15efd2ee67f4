//! Rows of one byte a component, to compare a question with many rows at little cost.
//!
//! A row is cut into 255 steps of its own: the largest component by magnitude is 127 of them (per-row max-abs, no centring:
//! nothing is trained, and a row's codes depend on that row alone). Stored is `code + 128` as `u8`, since the instruction
//! that multiplies bytes takes one operand without sign; the question has signed codes. Inner products of codes are whole
//! numbers, the same with every kernel: at most 255 x 127 x 8192 in magnitude, which fits 32 bits.

mod pairs;

pub(super) use pairs::Pairs;

use super::kernel::{Kernel, prefetch};
use super::signs::turned;
use super::table::SPREAD;
use bytemuck::{AnyBitPattern, NoUninit};
use std::cell::OnceCell;

/// Rows begin at multiples of it: a line of the cache, the widest register.
pub(crate) const LINE: usize = 64;

/// What a code of zero is stored as; also what lies behind the last component of a row.
pub(crate) const ZERO: u8 = 128;

/// Rows ahead that memory is asked for: two steps of four.
const AHEAD: usize = 8;

/// Bytes from one row to the next, for rows of `width` components.
pub(crate) fn stride(width: usize) -> usize {
    width.next_multiple_of(LINE)
}

/// A line of codes: a vector of them is aligned.
#[derive(Debug, Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; LINE]);

impl Line {
    /// A line of zero codes.
    pub(crate) const ZEROS: Self = Self([ZERO; LINE]);
}

/// Writes the codes of a row into `out`, which may be longer, and gives the width of a step.
pub(crate) fn quantise(row: &[f32], out: &mut [u8]) -> f32 {
    let most = row.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    // In f64, where the reciprocal of the least float is finite.
    let steps = if most > 0.0 { 127.0 / f64::from(most) } else { 0.0 };
    for (code, x) in out.iter_mut().zip(row) {
        // Adding it and taking it away rounds to the nearest whole number, ties to even, without a call for each component.
        const TO_WHOLE: f64 = 1.5 * (1_u64 << 52) as f64;
        *code = ((f64::from(*x) * steps + TO_WHOLE - TO_WHOLE) as i8).cast_unsigned() ^ ZERO;
    }
    (f64::from(most) / 127.0) as f32
}

/// Rows of codes that lie one after the other, each with its scale.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeRows<'a> {
    stride: usize,
    codes: &'a [u8],
    scales: &'a [f32],
}

impl<'a> CodeRows<'a> {
    /// `codes` holds [`stride`] bytes for each of the `scales`; None when it does not.
    ///
    /// A scale is the width of the row's step over the row's length: what an inner product of codes is to be multiplied by,
    /// beside the question's, to be a cosine.
    pub(crate) fn new(width: usize, codes: &'a [u8], scales: &'a [f32]) -> Option<Self> {
        let stride = stride(width);
        (scales.len().checked_mul(stride) == Some(codes.len())).then_some(Self { stride, codes, scales })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.scales.len()
    }

    /// Bytes from one row to the next.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// The codes of a row, with what lies behind the last component.
    #[inline]
    pub(crate) fn row(&self, at: usize) -> &'a [u8] {
        &self.codes[at * self.stride..][..self.stride]
    }

    /// The scale of a row.
    #[inline]
    pub(crate) fn scale(&self, at: usize) -> f32 {
        self.scales[at]
    }

    /// The scales of all rows.
    pub(crate) fn scales(&self) -> &'a [f32] {
        self.scales
    }

    /// Asks for the memory of a row that will be compared.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        prefetch(self.row(at));
        prefetch(&self.scales[at..=at]);
    }
}

/// Inner products with rows, and the scales of these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) dots: &'a [i32],
    pub(crate) scales: &'a [f32],
}

/// A question, or a row in its place, to be compared with rows of codes.
#[derive(Debug, Clone)]
pub(crate) struct Query8 {
    kernel: Kernel,
    /// Signed codes, zeros behind the last one.
    codes: Vec<i8>,
    /// The same for the kernels that multiply numbers of 16 bits.
    wide: Vec<i16>,
    /// What the products come to that rows have for being stored 128 higher.
    excess: i32,
    scale: f32,
    turned: OnceCell<Vec<f32>>,
}

impl Query8 {
    /// Of a unit row.
    pub(crate) fn new(row: &[f32]) -> Self {
        let mut codes = vec![ZERO; stride(row.len())];
        let scale = quantise(row, &mut codes);
        Self::of_row(&codes, scale)
    }

    /// Of a row of codes with its scale, to compare rows with each other.
    pub(crate) fn of_row(codes: &[u8], scale: f32) -> Self {
        Self::with(Kernel::current(), codes, scale)
    }

    fn with(kernel: Kernel, codes: &[u8], scale: f32) -> Self {
        let codes: Vec<i8> = codes.iter().map(|code| (code ^ ZERO).cast_signed()).collect();
        let wide: Vec<i16> = codes.iter().map(|code| i16::from(*code)).collect();
        let excess = i32::from(ZERO) * wide.iter().map(|code| i32::from(*code)).sum::<i32>();
        Self { kernel, codes, wide, excess, scale, turned: OnceCell::new() }
    }

    /// Inner product of codes with a row of as many bytes.
    ///
    /// # Panics
    /// When the row has another stride.
    #[inline]
    pub(crate) fn dot(&self, row: &[u8]) -> i32 {
        assert_eq!(row.len(), self.codes.len(), "rows have the stride of the question");
        self.excess_off(match self.kernel {
            Kernel::Portable => portable::dot(row, self),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::dot(row, self) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::dot(row, self) },
        })
    }

    /// Inner products with the rows `first ..`, as many as `out` has places.
    ///
    /// # Panics
    /// When there are not so many rows, or of another stride.
    pub(crate) fn dots(&self, rows: CodeRows<'_>, first: usize, out: &mut [i32]) {
        assert_eq!(rows.stride, self.codes.len(), "rows have the stride of the question");
        let codes = &rows.codes[first * rows.stride..][..out.len() * rows.stride];
        match self.kernel {
            Kernel::Portable => portable::dots(codes, self, out),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::dots(codes, self, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::dots(codes, self, out) },
        }
    }

    /// Inner products with the rows of these numbers, in their order. Memory is asked for [`AHEAD`] rows before it is read.
    ///
    /// # Panics
    /// When there is no such row, or one of another stride.
    pub(crate) fn dots_at(&self, rows: CodeRows<'_>, at: &[u32], out: &mut [i32]) {
        at.iter().take(AHEAD).for_each(|at| rows.prefetch(*at as usize));
        assert_eq!(rows.stride, self.codes.len(), "rows have the stride of the question");
        match self.kernel {
            Kernel::Portable => portable::dots_at(rows, at, self, out),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::dots_at(rows, at, self, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::dots_at(rows, at, self, out) },
        }
    }

    /// The cosine that an inner product with a row of this scale is near to.
    #[inline]
    pub(crate) fn cosine(&self, dot: i32, scale: f32) -> f32 {
        dot as f32 * (self.scale * scale)
    }

    /// How far a cosine can be expected to be from that of the codes of a row of this scale.
    #[inline]
    pub(crate) fn spread(&self, scale: f32) -> f32 {
        SPREAD * (self.scale + scale)
    }

    /// What it runs on.
    pub(super) fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// What the codes stand for, turned as the rows are that signs are kept of.
    pub(super) fn turned(&self) -> &[f32] {
        let components = || self.codes.iter().map(|code| f32::from(*code) * self.scale).collect();
        self.turned.get_or_init(|| turned(components()))
    }

    /// Width of the question's step.
    #[cfg(test)]
    pub(crate) fn scale(&self) -> f32 {
        self.scale
    }

    /// Of up to 64 rows, the cosines that their inner products are near to, each with `spread` times the steps of row and
    /// question on top; and by bit, which of them are above `least`.
    pub(crate) fn bounds(&self, rows: Block<'_>, spread: f32, least: f32, out: &mut [f32; 64]) -> u64 {
        match self.kernel {
            Kernel::Portable => portable::bounds(rows, self.scale, spread, least, out),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::bounds(rows, self.scale, spread, least, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::bounds(rows, self.scale, spread, least, out) },
        }
    }

    #[inline]
    fn excess_off(&self, dot: i32) -> i32 {
        dot - self.excess
    }
}

/// Loops over several rows, for a module that has `dot` and `dot4`.
macro_rules! loops {
    ($(#[$attribute:meta])*) => {
        $(#[$attribute])*
        pub(super) fn dots(codes: &[u8], query: &Query8, out: &mut [i32]) {
            let stride = query.codes.len();
            let (fours, rest) = out.as_chunks_mut::<4>();
            let (codes, codes_rest) = codes.split_at(4 * stride * fours.len());
            for (block, out) in codes.chunks_exact(4 * stride).zip(fours) {
                let ((a, b), (c, d)) = {
                    let (low, high) = block.split_at(2 * stride);
                    (low.split_at(stride), high.split_at(stride))
                };
                // Not `map`: a closure does not have the registers of the loop, and is not inlined.
                let [a, b, c, d] = dot4([a, b, c, d], query);
                let excess = query.excess;
                *out = [a - excess, b - excess, c - excess, d - excess];
            }
            for (row, out) in codes_rest.chunks_exact(stride).zip(rest) {
                *out = query.excess_off(dot(row, query));
            }
        }

        $(#[$attribute])*
        pub(super) fn bounds(rows: Block<'_>, step: f32, spread: f32, least: f32, out: &mut [f32; 64]) -> u64 {
            let mut bits = 0;
            let dots = rows.dots.chunks(WIDTH).zip(rows.scales.chunks(WIDTH));
            for ((out, (dots, scales)), at) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(dots).zip(0..) {
                for ((out, dot), scale) in out.iter_mut().zip(dots).zip(scales) {
                    *out = *dot as f32 * (step * scale) + spread * (scale + step);
                }
                let there = u64::MAX >> (64 - dots.len().min(scales.len()));
                bits |= (above(out, least) & there) << (WIDTH * at);
            }
            bits
        }

        $(#[$attribute])*
        pub(super) fn dots_at(
            rows: CodeRows<'_>,
            at: &[u32],
            query: &Query8,
            out: &mut [i32],
        ) {
            let (fours, rest) = at.as_chunks::<4>();
            let (out, out_rest) = out.as_chunks_mut::<4>();
            for (step, (four, out)) in fours.iter().zip(out).enumerate() {
                let ahead = at.iter().skip(4 * step + AHEAD).take(4);
                ahead.for_each(|at| rows.prefetch(*at as usize));
                let [a, b, c, d] = *four;
                let four = [rows.row(a as usize), rows.row(b as usize), rows.row(c as usize), rows.row(d as usize)];
                let [a, b, c, d] = dot4(four, query);
                *out = [query.excess_off(a), query.excess_off(b), query.excess_off(c), query.excess_off(d)];
            }
            for (at, out) in rest.iter().zip(out_rest) {
                *out = query.excess_off(dot(rows.row(*at as usize), query));
            }
        }
    };
}

mod portable {
    use super::{AHEAD, Block, CodeRows, LINE, Query8};

    const WIDTH: usize = 16;

    fn above(bounds: &[f32; WIDTH], least: f32) -> u64 {
        bounds.iter().rev().fold(0, |bits, bound| 2 * bits + u64::from(*bound > least))
    }

    pub(super) fn dot(row: &[u8], query: &Query8) -> i32 {
        let mut sum = 0;
        for (x, y) in row.as_chunks::<LINE>().0.iter().zip(query.wide.as_chunks::<LINE>().0) {
            for (x, y) in x.iter().zip(y) {
                // As numbers of 16 bits, for which there is an instruction that multiplies and adds pairs.
                sum += i32::from(i16::from(*x)) * i32::from(*y);
            }
        }
        sum
    }

    fn dot4(rows: [&[u8]; 4], query: &Query8) -> [i32; 4] {
        rows.map(|row| dot(row, query))
    }

    loops!();
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use super::{AHEAD, Block, CodeRows, Query8};
    use std::arch::x86_64::{
        __m256i, _CMP_GT_OQ, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_shuffle_epi32,
        _mm256_add_epi32, _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cvtepu8_epi16,
        _mm256_extracti128_si256, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_movemask_ps,
        _mm256_set1_ps, _mm256_setzero_si256,
    };

    const WIDTH: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn above(bounds: &[f32; WIDTH], least: f32) -> u64 {
        // SAFETY: eight numbers are read from an array of eight.
        let bounds = unsafe { _mm256_loadu_ps(bounds.as_ptr()) };
        let above = _mm256_cmp_ps::<_CMP_GT_OQ>(bounds, _mm256_set1_ps(least));
        u64::from(_mm256_movemask_ps(above).cast_unsigned())
    }

    /// Adds the products of 16 components. Exact: `maddubs` would cut sums off at 16 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(sum: &mut __m256i, x: &[u8; 16], y: __m256i) {
        // SAFETY: sixteen bytes are read from an array of sixteen.
        let x = unsafe { _mm_loadu_si128(x.as_ptr().cast()) };
        *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_cvtepu8_epi16(x), y));
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(y: &[i16; 16]) -> __m256i {
        // SAFETY: sixteen numbers are read from an array of sixteen.
        unsafe { _mm256_loadu_si256(y.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(in super::super) fn add_up(sum: __m256i) -> i32 {
        let four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
        let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
        _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn dot(row: &[u8], query: &Query8) -> i32 {
        let mut sums = [_mm256_setzero_si256(); 2];
        let (rows, wide) = (row.as_chunks::<16>().0, query.wide.as_chunks::<16>().0);
        for (x, y) in rows.as_chunks::<2>().0.iter().zip(wide.as_chunks::<2>().0) {
            add(&mut sums[0], &x[0], load(&y[0]));
            add(&mut sums[1], &x[1], load(&y[1]));
        }
        add_up(_mm256_add_epi32(sums[0], sums[1]))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn dot4(rows: [&[u8]; 4], query: &Query8) -> [i32; 4] {
        let mut sums = [_mm256_setzero_si256(); 4];
        let [a, b, c, d] = rows;
        let (a, b, c, d) =
            (a.as_chunks::<16>().0, b.as_chunks::<16>().0, c.as_chunks::<16>().0, d.as_chunks::<16>().0);
        for ((((asked, a), b), c), d) in query.wide.as_chunks::<16>().0.iter().zip(a).zip(b).zip(c).zip(d) {
            let asked = load(asked);
            add(&mut sums[0], a, asked);
            add(&mut sums[1], b, asked);
            add(&mut sums[2], c, asked);
            add(&mut sums[3], d, asked);
        }
        [add_up(sums[0]), add_up(sums[1]), add_up(sums[2]), add_up(sums[3])]
    }

    loops!(#[target_feature(enable = "avx2")]);
}

#[cfg(target_arch = "x86_64")]
pub(super) mod vnni {
    use super::{AHEAD, Block, CodeRows, LINE, Query8};
    use std::arch::x86_64::{
        __m512i, _CMP_GT_OQ, _mm_add_epi32, _mm_storeu_si128, _mm256_add_epi32, _mm256_castsi256_si128,
        _mm256_extracti128_si256, _mm512_add_epi32, _mm512_castsi512_si256, _mm512_cmp_ps_mask,
        _mm512_dpbusd_epi32, _mm512_extracti64x4_epi64, _mm512_loadu_ps, _mm512_loadu_si512,
        _mm512_reduce_add_epi32, _mm512_set1_ps, _mm512_setzero_si512, _mm512_unpackhi_epi32,
        _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    const WIDTH: usize = 16;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn above(bounds: &[f32; WIDTH], least: f32) -> u64 {
        // SAFETY: sixteen numbers are read from an array of sixteen.
        let bounds = unsafe { _mm512_loadu_ps(bounds.as_ptr()) };
        u64::from(_mm512_cmp_ps_mask::<_CMP_GT_OQ>(bounds, _mm512_set1_ps(least)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(in super::super) fn load<T>(line: &[T; LINE]) -> __m512i {
        const { assert!(size_of::<T>() == 1) };
        // SAFETY: 64 bytes are read from an array of 64.
        unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn dot(row: &[u8], query: &Query8) -> i32 {
        let mut sum = _mm512_setzero_si512();
        for (x, y) in row.as_chunks::<LINE>().0.iter().zip(query.codes.as_chunks::<LINE>().0) {
            sum = _mm512_dpbusd_epi32(sum, load(x), load(y));
        }
        _mm512_reduce_add_epi32(sum)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn dot4(rows: [&[u8]; 4], query: &Query8) -> [i32; 4] {
        let mut sums = [_mm512_setzero_si512(); 4];
        let [a, b, c, d] = rows;
        let (a, b, c, d) = (
            a.as_chunks::<LINE>().0,
            b.as_chunks::<LINE>().0,
            c.as_chunks::<LINE>().0,
            d.as_chunks::<LINE>().0,
        );
        for ((((asked, a), b), c), d) in query.codes.as_chunks::<LINE>().0.iter().zip(a).zip(b).zip(c).zip(d)
        {
            let asked = load(asked);
            sums[0] = _mm512_dpbusd_epi32(sums[0], load(a), asked);
            sums[1] = _mm512_dpbusd_epi32(sums[1], load(b), asked);
            sums[2] = _mm512_dpbusd_epi32(sums[2], load(c), asked);
            sums[3] = _mm512_dpbusd_epi32(sums[3], load(d), asked);
        }
        add_up4(sums)
    }

    /// Four sums of sixteen become one register of four, added up on the way.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(in super::super) fn add_up4(sums: [__m512i; 4]) -> [i32; 4] {
        let pair = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (low, high) = (pair(sums[0], sums[1]), pair(sums[2], sums[3]));
        let all = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
        let half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
        let quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        let mut out = [0; 4];
        // SAFETY: four numbers are written to an array of four.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), quarter) };
        out
    }

    loops!(#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whole numbers below 2^53 are exact in f64.
    fn exact(row: &[u8], query: &[u8]) -> i32 {
        let signed = |code: &u8| f64::from(*code) - 128.0;
        row.iter().zip(query).map(|(x, y)| signed(x) * signed(y)).sum::<f64>() as i32
    }

    /// Rows of a width against a question, by every kernel and every door.
    fn check(width: usize, codes: &[u8], question: &[u8]) {
        let stride = stride(width);
        let scales = vec![1.0; codes.len() / stride];
        let rows = CodeRows::new(width, codes, &scales).unwrap();
        let expected: Vec<i32> = (0..rows.len()).map(|at| exact(rows.row(at), question)).collect();
        let at: Vec<u32> = (0..rows.len() as u32).rev().collect();
        for kernel in Kernel::all() {
            let query = Query8::with(kernel, question, 1.0);
            let one: Vec<i32> = (0..rows.len()).map(|at| query.dot(rows.row(at))).collect();
            let mut all = vec![0; rows.len()];
            query.dots(rows, 0, &mut all);
            let mut reversed = vec![0; rows.len()];
            query.dots_at(rows, &at, &mut reversed);
            reversed.reverse();
            assert!(one == expected && all == expected && reversed == expected, "{kernel:?} {width}");
            if rows.len() >= 4 {
                query.dots(rows, 2, &mut all[2..]);
                assert_eq!(all, expected);
            }
        }
    }

    #[test]
    fn every_width_and_extreme_is_exact_with_every_kernel() {
        let mut state = 3_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        for width in (1..=200).chain([383, 384, 385, 1536, 1537, 4095, 8191, 8192]) {
            let stride = stride(width);
            let mut row = |width: usize| {
                let mut row: Vec<u8> = (0..width).map(|_| next()).collect();
                row.resize(stride, ZERO);
                row
            };
            let question = row(width);
            let codes: Vec<u8> = (0..7).flat_map(|_| row(width)).collect();
            check(width, &codes, &question);
            for (code, asked) in [(0, 1), (255, 1), (0, 255), (255, 255), (128, 255), (255, 128)] {
                check(width, &vec![code; 5 * stride], &vec![asked; stride]);
            }
        }
    }

    proptest! {
        #[test]
        fn a_code_is_off_by_half_a_step_at_most(
            row in prop::collection::vec(-1.0..1.0f32, 1..300),
            power in -126..120i32,
        ) {
            let row: Vec<f32> = row.iter().map(|x| x * 2.0_f32.powi(power)).collect();
            let mut codes = vec![ZERO; stride(row.len())];
            let scale = f64::from(quantise(&row, &mut codes));
            // A step may be a denormal float, which has few digits: each code is off by as much as the step is.
            let room = 0.5 * scale + 127.0 * f64::from(f32::from_bits(1)).max(scale * 1e-7);
            for (code, x) in codes.iter().zip(&row) {
                let value = (f64::from(*code) - 128.0) * scale;
                prop_assert!(*code > 0 && (value - f64::from(*x)).abs() <= room, "{} {} {}", value, x, scale);
            }
            prop_assert!(codes[row.len()..].iter().all(|code| *code == ZERO));
        }
    }

    #[test]
    fn extreme_rows_have_codes() {
        for (row, expected) in [
            ([f32::MAX, f32::MIN, 0.0], [255, 1, 128]),
            ([1e-45, -1e-45, 0.0], [255, 1, 128]),
            ([f32::MIN_POSITIVE, 1e-45, -0.0], [255, 128, 128]),
            ([0.0, -0.0, 0.0], [128, 128, 128]),
        ] {
            let mut codes = [ZERO; LINE];
            let scale = quantise(&row, &mut codes);
            assert!(scale.is_finite() && codes[..3] == expected, "{row:?} {:?}", &codes[..3]);
        }
    }

    #[test]
    fn bounds_and_bits_are_the_same_with_every_kernel() {
        let dots: Vec<i32> = (0..64).map(|n| (n * 7_919) % 2_001 - 1_000).collect();
        let scales: Vec<f32> = (0..64_u8).map(|n| f32::from(n) / 1e4).collect();
        for count in 0..=64 {
            let rows = Block { dots: &dots[..count], scales: &scales[..count] };
            for least in [f32::NEG_INFINITY, -0.1, 0.01, f32::INFINITY] {
                let expected: Vec<f32> = dots
                    .iter()
                    .zip(rows.scales)
                    .map(|(d, s)| *d as f32 * (0.5 * s) + 2.0 * (s + 0.5))
                    .collect();
                let bits =
                    (0..count).filter(|at| expected[*at] > least).fold(0_u64, |bits, at| bits | 1 << at);
                for kernel in Kernel::all() {
                    let mut bounds = [0.0; 64];
                    let query = Query8::with(kernel, &[ZERO; LINE], 0.5);
                    assert_eq!(
                        query.bounds(rows, 2.0, least, &mut bounds),
                        bits,
                        "{kernel:?} {count} {least}"
                    );
                    assert_eq!(bounds[..count], expected[..count]);
                }
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_no_rows() {
        assert!(CodeRows::new(65, &[0; 256], &[1.0; 2]).is_some());
        assert!(CodeRows::new(65, &[0; 255], &[1.0; 2]).is_none());
        assert!(CodeRows::new(64, &[0; 64], &[1.0; 2]).is_none());
    }
}
