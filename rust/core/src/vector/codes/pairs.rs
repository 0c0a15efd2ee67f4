//! Inner products of rows with each other.
//!
//! Building a graph compares a row with a few others and then never again: making a question of it, see [`Query8`],
//! would take longer than the products. The same whole numbers come of it.
//!
//! [`Query8`]: super::Query8

use super::{CodeRows, Kernel};

/// Rows that are compared with each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pairs<'a> {
    kernel: Kernel,
    rows: CodeRows<'a>,
}

impl<'a> Pairs<'a> {
    pub(crate) fn new(rows: CodeRows<'a>) -> Self {
        Self { kernel: Kernel::current(), rows }
    }

    #[cfg(test)]
    pub(super) fn with(kernel: Kernel, rows: CodeRows<'a>) -> Self {
        Self { kernel, rows }
    }

    /// The cosine that two rows' codes have: the bits that [`super::Query8::cosine`] gives for one as the question.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub(crate) fn cosine(&self, a: u32, b: u32) -> f32 {
        self.times_scales(a, b, self.dot(a, b))
    }

    /// The cosines of a row with four others.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub(crate) fn cosines(&self, a: u32, others: [u32; 4]) -> [f32; 4] {
        let dots = self.dot4(a, others);
        std::array::from_fn(|at| self.times_scales(a, others[at], dots[at]))
    }

    #[inline]
    fn times_scales(&self, a: u32, b: u32, dot: i32) -> f32 {
        dot as f32 * (self.rows.scale(a as usize) * self.rows.scale(b as usize))
    }

    #[inline]
    fn dot(&self, a: u32, b: u32) -> i32 {
        let (a, b) = (self.rows.row(a as usize), self.rows.row(b as usize));
        match self.kernel {
            Kernel::Portable => portable(a, b),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::dot(a, b) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::dot(a, b) },
        }
    }

    #[inline]
    fn dot4(&self, a: u32, others: [u32; 4]) -> [i32; 4] {
        let (a, others) = (self.rows.row(a as usize), others.map(|row| self.rows.row(row as usize)));
        match self.kernel {
            Kernel::Portable => others.map(|b| portable(a, b)),
            // SAFETY: a kernel is only made on a machine that has it.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => others.map(|b| unsafe { avx2::dot(a, b) }),
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Vnni => unsafe { vnni::dot4(a, others) },
        }
    }
}

fn portable(a: &[u8], b: &[u8]) -> i32 {
    use super::{LINE, ZERO};
    let signed = |code: u8| i32::from(i16::from(code) - i16::from(ZERO));
    let mut sum = 0;
    for (a, b) in a.as_chunks::<LINE>().0.iter().zip(b.as_chunks::<LINE>().0) {
        for (a, b) in a.iter().zip(b) {
            sum += signed(*a) * signed(*b);
        }
    }
    sum
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::avx2::add_up;
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_add_epi32, _mm256_cvtepu8_epi16, _mm256_madd_epi16,
        _mm256_set1_epi16, _mm256_setzero_si256, _mm256_sub_epi16,
    };

    #[inline]
    #[target_feature(enable = "avx2")]
    fn signed(codes: &[u8; 16]) -> __m256i {
        // SAFETY: sixteen bytes are read from an array of sixteen.
        let codes = unsafe { _mm_loadu_si128(codes.as_ptr().cast()) };
        _mm256_sub_epi16(_mm256_cvtepu8_epi16(codes), _mm256_set1_epi16(128))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn dot(a: &[u8], b: &[u8]) -> i32 {
        let mut sums = [_mm256_setzero_si256(); 2];
        let (a, b) = (a.as_chunks::<32>().0, b.as_chunks::<32>().0);
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(signed(a), signed(b)));
            }
        }
        add_up(_mm256_add_epi32(sums[0], sums[1]))
    }
}

#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::super::vnni::{add_up4, load};
    use super::super::{LINE, ZERO};
    use std::arch::x86_64::{
        __m512i, _mm512_dpbusd_epi32, _mm512_reduce_add_epi32, _mm512_set1_epi8, _mm512_setzero_si512,
        _mm512_sub_epi32, _mm512_xor_si512,
    };

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn zeros() -> __m512i {
        _mm512_set1_epi8(ZERO.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn dot(a: &[u8], b: &[u8]) -> i32 {
        // What comes of the other row's codes being stored 128 higher is added up beside.
        let (mut sum, mut excess) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (a, b) in a.as_chunks::<LINE>().0.iter().zip(b.as_chunks::<LINE>().0) {
            let signed = _mm512_xor_si512(load(a), zeros());
            sum = _mm512_dpbusd_epi32(sum, load(b), signed);
            excess = _mm512_dpbusd_epi32(excess, zeros(), signed);
        }
        _mm512_reduce_add_epi32(_mm512_sub_epi32(sum, excess))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn dot4(row: &[u8], others: [&[u8]; 4]) -> [i32; 4] {
        let (mut sums, mut excess) = ([_mm512_setzero_si512(); 4], _mm512_setzero_si512());
        let [a, b, c, d] = others.map(|row| row.as_chunks::<LINE>().0);
        for ((((row, a), b), c), d) in row.as_chunks::<LINE>().0.iter().zip(a).zip(b).zip(c).zip(d) {
            let signed = _mm512_xor_si512(load(row), zeros());
            excess = _mm512_dpbusd_epi32(excess, zeros(), signed);
            sums[0] = _mm512_dpbusd_epi32(sums[0], load(a), signed);
            sums[1] = _mm512_dpbusd_epi32(sums[1], load(b), signed);
            sums[2] = _mm512_dpbusd_epi32(sums[2], load(c), signed);
            sums[3] = _mm512_dpbusd_epi32(sums[3], load(d), signed);
        }
        add_up4([
            _mm512_sub_epi32(sums[0], excess),
            _mm512_sub_epi32(sums[1], excess),
            _mm512_sub_epi32(sums[2], excess),
            _mm512_sub_epi32(sums[3], excess),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Query8, stride};
    use super::*;

    #[test]
    fn products_of_rows_are_those_of_a_question_with_every_kernel() {
        let mut state = 5_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        for width in [1, 3, 63, 64, 65, 384, 1537, 8192] {
            let mut codes: Vec<u8> = (0..4 * stride(width)).map(|_| next()).collect();
            for extreme in [0, 255] {
                codes.resize(codes.len() + stride(width), extreme);
            }
            let scales = [1.0, 0.5, 0.3, 1e-3, 1.0, 7.0];
            let rows = CodeRows::new(width, &codes, &scales).unwrap();
            for kernel in Kernel::all() {
                let pairs = Pairs::with(kernel, rows);
                for a in 0..6 {
                    let query = Query8::of_row(rows.row(a), rows.scale(a));
                    let expected: Vec<f32> =
                        (0..6).map(|b| query.cosine(query.dot(rows.row(b)), rows.scale(b))).collect();
                    let one: Vec<f32> = (0..6).map(|b| pairs.cosine(a as u32, b)).collect();
                    assert_eq!(one, expected, "{kernel:?} {width}");
                    assert_eq!(pairs.cosines(a as u32, [5, 4, 1, 0])[..], [5, 4, 1, 0].map(|b| expected[b]));
                }
            }
        }
    }
}
