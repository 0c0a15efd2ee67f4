//! Rows of half precision (IEEE 754 binary16): what scores are made of.
//!
//! A row is rounded once, when it comes in; what it scores with a question is a function of these halves alone, so that
//! neither the way of a row through memory and segments nor the machine shows in a score. Rounding costs the order little:
//! of the 10 best by f32, the halves have .9995 among their 10 best (200 questions to 4,000 clustered rows of 384; all of them with
//! 20,000 and 100,000 rows), and no cosine changes by more than 5.5e-5.

use super::kernel::Kernel;

/// Lanes of the sum. Fixed, so that the order of additions is the same whatever the instructions.
pub(super) const LANES: usize = 32;

/// The nearest half, ties to even; what is too large becomes infinite, NaN stays NaN.
pub(crate) fn to_half(x: f32) -> u16 {
    const INFINITY: u16 = 0x7C00;
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let bits = x.to_bits() & 0x7FFF_FFFF;
    let magnitude = if bits > 0x7F80_0000 {
        INFINITY | 0x200
    } else if bits >= 0x477F_F000 {
        // From 65520 on, half way between the largest half and the next one there would be.
        INFINITY
    } else if bits < 0x3880_0000 {
        // Below 2^-14 halves are multiples of 2^-24, which is the step of floats between 1/2 and 1: adding 1/2 rounds.
        ((f32::from_bits(bits) + 0.5).to_bits() - 0.5_f32.to_bits()) as u16
    } else {
        let odd = bits >> 13 & 1;
        (((bits + 0xFFF + odd) >> 13) - (112 << 10)) as u16
    };
    sign | magnitude
}

/// The value of a half, exact.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be compiled inside the functions with target features")]
pub(crate) fn from_half(half: u16) -> f32 {
    /// 2^-14, the least normal half.
    const LEAST: u32 = 113 << 23;
    let bits = u32::from(half & 0x7FFF) << 13;
    let exponent = bits & (0x1F << 23);
    let magnitude = if exponent == 0 {
        // Exact, and no denormal float on the way, which a machine may be set to take for zero.
        (f32::from_bits(LEAST | bits) - f32::from_bits(LEAST)).to_bits()
    } else if exponent == 0x1F << 23 {
        bits + (224 << 23)
    } else {
        bits + (112 << 23)
    };
    f32::from_bits(magnitude | u32::from(half & 0x8000) << 16)
}

/// A row of halves and its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HalfRow<'a> {
    /// The components.
    pub(crate) bits: &'a [u16],
    /// Euclidean length of the halves: near 1, as the row had length 1 before it was rounded.
    pub(crate) norm: f32,
}

impl PartialEq for HalfRow<'_> {
    /// The length follows from the components.
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl HalfRow<'_> {
    /// The components as floats, exact.
    pub(crate) fn to_f32(self) -> Vec<f32> {
        self.bits.iter().map(|half| from_half(*half)).collect()
    }

    /// Cosine with a unit row, given by its [lanes].
    pub(super) fn cosine(self, kernel: Kernel, lanes: &[f32]) -> f32 {
        // Adding zero makes one zero of both.
        (dot(kernel, self.bits, lanes) / self.norm).clamp(-1.0, 1.0) + 0.0
    }
}

/// Euclidean length of a row of halves.
pub(super) fn norm(bits: &[u16]) -> f32 {
    let square: f64 = bits.iter().map(|half| f64::from(from_half(*half)).powi(2)).sum();
    square.sqrt() as f32
}

/// The components of a question, with zeros up to a whole number of [`LANES`].
pub(super) fn lanes(row: &[f32]) -> Vec<f32> {
    let mut lanes = row.to_vec();
    lanes.resize(row.len().next_multiple_of(LANES), 0.0);
    lanes
}

/// Inner product of a row with the [lanes] of a question.
///
/// Thirty-two partial sums in f32, added up pairwise at the end, no fused multiply-add: the result is the same bits with
/// every kernel.
pub(super) fn dot(kernel: Kernel, row: &[u16], lanes: &[f32]) -> f32 {
    assert_eq!(row.len().next_multiple_of(LANES), lanes.len(), "the question is as wide as the row");
    match kernel {
        Kernel::Portable => dot_portable(row, lanes),
        // SAFETY: a kernel is only made on a machine that has it.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { dot_avx2(row, lanes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kernel::Vnni => unsafe { dot_avx512(row, lanes) },
    }
}

/// The last components of a row, with zeros behind them.
fn padded(tail: &[u16]) -> [u16; LANES] {
    let mut block = [0; LANES];
    block[..tail.len()].copy_from_slice(tail);
    block
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "must be compiled inside the functions with target features")]
fn add_up(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

fn dot_portable(row: &[u16], lanes: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let mut add = |x: &[u16; LANES], y: &[f32; LANES]| {
        for lane in 0..LANES {
            sums[lane] += from_half(x[lane]) * y[lane];
        }
    };
    let ((blocks, tail), (lanes, _)) = (row.as_chunks(), lanes.as_chunks());
    blocks.iter().zip(lanes).for_each(|(x, y)| add(x, y));
    if let Some(last) = lanes.get(blocks.len()) {
        add(&padded(tail), last);
    }
    add_up(sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn dot_avx2(row: &[u16], lanes: &[f32]) -> f32 {
    use std::arch::x86_64::{
        __m256, _mm_loadu_si128, _mm256_add_ps, _mm256_cvtph_ps, _mm256_loadu_ps, _mm256_mul_ps,
        _mm256_setzero_ps, _mm256_storeu_ps,
    };
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn add(sums: &mut [__m256; 4], x: &[u16; LANES], y: &[f32; LANES]) {
        for ((sum, x), y) in sums.iter_mut().zip(x.as_chunks::<8>().0).zip(y.as_chunks::<8>().0) {
            // SAFETY: eight numbers are read from arrays of eight.
            let (x, y) = unsafe { (_mm_loadu_si128(x.as_ptr().cast()), _mm256_loadu_ps(y.as_ptr())) };
            *sum = _mm256_add_ps(*sum, _mm256_mul_ps(_mm256_cvtph_ps(x), y));
        }
    }
    let mut sums = [_mm256_setzero_ps(); 4];
    let ((blocks, tail), (lanes, _)) = (row.as_chunks(), lanes.as_chunks());
    for (x, y) in blocks.iter().zip(lanes) {
        add(&mut sums, x, y);
    }
    if let Some(last) = lanes.get(blocks.len()) {
        add(&mut sums, &padded(tail), last);
    }
    let mut out = [0.0; LANES];
    for (out, sum) in out.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        // SAFETY: eight numbers are written to an array of eight.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sum) };
    }
    add_up(out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn dot_avx512(row: &[u16], lanes: &[f32]) -> f32 {
    use std::arch::x86_64::{
        __m512, _mm256_loadu_si256, _mm512_add_ps, _mm512_cvtph_ps, _mm512_loadu_ps, _mm512_mul_ps,
        _mm512_setzero_ps, _mm512_storeu_ps,
    };
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(sums: &mut [__m512; 2], x: &[u16; LANES], y: &[f32; LANES]) {
        for ((sum, x), y) in sums.iter_mut().zip(x.as_chunks::<16>().0).zip(y.as_chunks::<16>().0) {
            // SAFETY: sixteen numbers are read from arrays of sixteen.
            let (x, y) = unsafe { (_mm256_loadu_si256(x.as_ptr().cast()), _mm512_loadu_ps(y.as_ptr())) };
            *sum = _mm512_add_ps(*sum, _mm512_mul_ps(_mm512_cvtph_ps(x), y));
        }
    }
    let mut sums = [_mm512_setzero_ps(); 2];
    let ((blocks, tail), (lanes, _)) = (row.as_chunks(), lanes.as_chunks());
    for (x, y) in blocks.iter().zip(lanes) {
        add(&mut sums, x, y);
    }
    if let Some(last) = lanes.get(blocks.len()) {
        add(&mut sums, &padded(tail), last);
    }
    let mut out = [0.0; LANES];
    for (out, sum) in out.as_chunks_mut::<16>().0.iter_mut().zip(sums) {
        // SAFETY: sixteen numbers are written to an array of sixteen.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sum) };
    }
    add_up(out)
}

#[cfg(test)]
mod tests {
    use super::super::clustered::clustered;
    use super::*;
    use proptest::prelude::*;

    /// From the definition: sign, exponent of 5 bits, 10 bits of mantissa.
    fn value(half: u16) -> f64 {
        let (exponent, mantissa) = (i32::from(half >> 10 & 0x1F), f64::from(half & 0x3FF));
        let magnitude = match exponent {
            0 => mantissa * 2_f64.powi(-24),
            0x1F if mantissa == 0.0 => f64::INFINITY,
            0x1F => f64::NAN,
            _ => (1024.0 + mantissa) * 2_f64.powi(exponent - 25),
        };
        if half >> 15 == 0 { magnitude } else { -magnitude }
    }

    #[test]
    fn all_halves_are_read_exactly_and_written_back() {
        for half in 0..=u16::MAX {
            let (x, expected) = (from_half(half), value(half));
            if expected.is_nan() {
                assert!(x.is_nan() && from_half(to_half(x)).is_nan());
                continue;
            }
            assert_eq!(f64::from(x).to_bits(), expected.to_bits(), "{half:#x}");
            assert_eq!(to_half(x), half);
        }
    }

    #[test]
    fn floats_become_the_nearest_half_and_ties_the_even_one() {
        for half in (0..0x7BFF_u16).chain(0x8000..0xFBFF) {
            let (low, high) = (from_half(half), from_half(half + 1));
            // Exact: halves have 11 bits, floats 24.
            let middle = f32::midpoint(low, high);
            assert_eq!(to_half(middle), half + (half & 1), "{half:#x}");
            let (inner, outer) = (middle.abs().next_down(), middle.abs().next_up());
            assert_eq!(to_half(inner.copysign(low)), half);
            assert_eq!(to_half(outer.copysign(low)), half + 1);
        }
        for (x, half) in [
            (65504.0, 0x7BFF),
            (65519.996, 0x7BFF),
            (65520.0, 0x7C00),
            (f32::MAX, 0x7C00),
            (f32::INFINITY, 0x7C00),
            (f32::MIN_POSITIVE, 0),
            (1e-45, 0),
            (2_f32.powi(-25), 0),
            (2_f32.powi(-25).next_up(), 1),
        ] {
            assert_eq!((to_half(x), to_half(-x)), (half, half | 0x8000), "{x}");
        }
    }

    fn check(row: &[u16], query: &[f32]) {
        let lanes = lanes(query);
        let expected: f64 = row.iter().zip(query).map(|(x, y)| value(*x) * f64::from(*y)).sum();
        let room: f64 = row.iter().zip(query).map(|(x, y)| (value(*x) * f64::from(*y)).abs()).sum();
        let portable = dot(Kernel::Portable, row, &lanes);
        for kernel in Kernel::all() {
            assert_eq!(dot(kernel, row, &lanes).to_bits(), portable.to_bits(), "{kernel:?} {}", row.len());
        }
        let steps = row.len().div_ceil(LANES) as f64 + 6.0;
        // Each step rounds once; a product below the least float may vanish.
        let error = room * steps * f64::from(f32::EPSILON) + row.len() as f64 * f64::from(f32::MIN_POSITIVE);
        assert!((f64::from(portable) - expected).abs() <= error, "{portable} {expected} {}", row.len());
    }

    #[test]
    fn every_width_and_extreme_sums_alike() {
        let mut state = 7_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        for width in (1..=130).chain([255, 384, 385, 1023, 1536, 1537, 4097, 8191, 8192]) {
            let row: Vec<u16> = (0..width).map(|_| to_half(next())).collect();
            let query: Vec<f32> = (0..width).map(|_| next()).collect();
            check(&row, &query);
        }
        let halves = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x3C00];
        let floats = [0.0, -0.0, 1e-45, f32::MIN_POSITIVE, -1e-20, 1.0, -1.0, 1e20];
        let row: Vec<u16> = halves.iter().cycle().take(777).copied().collect();
        check(&row, &floats.iter().cycle().take(777).copied().collect::<Vec<f32>>());
    }

    proptest! {
        #[test]
        fn every_kernel_gives_the_same_bits_and_agrees_with_f64(
            rows in prop::collection::vec((-1.0..1.0f32, -1.0..1.0f32), 1..400)
        ) {
            let row: Vec<u16> = rows.iter().map(|(x, _)| to_half(*x)).collect();
            check(&row, &rows.iter().map(|(_, y)| *y).collect::<Vec<f32>>());
        }
    }

    #[test]
    fn the_ten_best_by_halves_are_those_by_floats() {
        let (rows, questions) = clustered(4_000, 384, 200);
        let halves: Vec<Vec<u16>> =
            rows.iter().map(|row| row.iter().map(|x| to_half(*x)).collect()).collect();
        let mut common = 0;
        for question in &questions {
            let lanes = lanes(question);
            let best = |score: &dyn Fn(usize) -> f64| {
                let mut order: Vec<(f64, usize)> = (0..rows.len()).map(|row| (score(row), row)).collect();
                order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                order[..10].iter().map(|(_, row)| *row).collect::<Vec<usize>>()
            };
            let floats =
                best(&|row| rows[row].iter().zip(question).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum());
            let own = best(&|row| {
                let row = HalfRow { bits: &halves[row], norm: norm(&halves[row]) };
                row.cosine(Kernel::current(), &lanes).into()
            });
            common += own.iter().filter(|row| floats.contains(row)).count();
        }
        assert!(common >= 1_990, "recall@10 of f16 against f32: {}", common as f64 / 2_000.0);
    }
}
