//! The loops over blocks of documents, each in the widest registers the machine has.
//!
//! What is counted and found is the same on every level; what is added up is close to it, see [`rows`].

mod rows;

pub(super) use rows::{Row, Window, add_all_rows, add_rows};

use std::sync::atomic::{AtomicU8, Ordering};

/// What the loops are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Simd {
    /// What every machine of the target has.
    Portable = 1,
    /// 256 bits.
    Avx2 = 2,
    /// 512 bits.
    Avx512 = 3,
}

/// The level searches use; 0 is not known yet.
static LEVEL: AtomicU8 = AtomicU8::new(0);

impl Simd {
    /// All levels, the widest last.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// `portable`, `avx2` or `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// Whether this machine can run it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx2 | Self::Avx512 => false,
        }
    }

    /// By which share of itself a sum of [`add_rows`] may be off, beside what rounding does: that of the estimate of a
    /// reciprocal, as the makers of the processors state it.
    pub(super) fn error(self) -> f32 {
        match self {
            Self::Portable => 0.0,
            Self::Avx2 => 1.5 / 4096.0,
            Self::Avx512 => 1.0 / 16384.0,
        }
    }

    /// The level that searches of this process use.
    pub fn current() -> Self {
        match LEVEL.load(Ordering::Relaxed) {
            1 => Self::Portable,
            2 => Self::Avx2,
            3 => Self::Avx512,
            _ => Self::set(None),
        }
    }

    /// Sets the level for searches of this process, None for the best; gives the one that is set. For tests and
    /// benches: a level that the machine does not have is not set.
    pub fn set(level: Option<Self>) -> Self {
        let best = Self::ALL.into_iter().rev().find(|level| level.is_available()).unwrap_or(Self::Portable);
        let level = level.filter(|level| level.is_available()).unwrap_or(best);
        LEVEL.store(level as u8, Ordering::Relaxed);
        level
    }
}

/// How many sums are at least so high.
pub(super) fn count_above(level: Simd, sums: &[f32], least: f32) -> u32 {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "must be compiled inside the functions with target features")]
    fn count(sums: &[f32], least: f32) -> u32 {
        sums.iter().fold(0, |count, sum| count + u32::from(*sum >= least))
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
    fn avx2(sums: &[f32], least: f32) -> u32 {
        count(sums, least)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt,lzcnt")]
    fn avx512(sums: &[f32], least: f32) -> u32 {
        count(sums, least)
    }

    match level {
        // SAFETY: a level is only ever used on a machine that has it; see `Simd::set`.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => unsafe { avx2(sums, least) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { avx512(sums, least) },
        _ => count(sums, least),
    }
}

/// Appends the places of the sums that are at least so high, in rising order.
pub(super) fn find_above(level: Simd, sums: &[f32], least: f32, out: &mut Vec<u32>) {
    match level {
        // SAFETY: a level is only ever used on a machine that has it; see `Simd::set`.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => unsafe { find_above_avx2(sums, least, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { find_above_avx512(sums, least, out) },
        _ => {
            for (block, at) in sums.chunks(16).zip((0..).step_by(16)) {
                if block.iter().fold(0, |any, sum| any | u8::from(*sum >= least)) != 0 {
                    find_each(block, at, least, out);
                }
            }
        }
    }
}

fn find_each(sums: &[f32], at: u32, least: f32, out: &mut Vec<u32>) {
    out.extend(sums.iter().zip(at..).filter(|(sum, _)| **sum >= least).map(|(_, at)| at));
}

#[cfg(target_arch = "x86_64")]
fn push_bits(mut bits: u64, at: u32, out: &mut Vec<u32>) {
    while bits != 0 {
        out.push(at + bits.trailing_zeros());
        bits &= bits - 1;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,popcnt")]
fn find_above_avx2(sums: &[f32], least: f32, out: &mut Vec<u32>) {
    use std::arch::x86_64::{_CMP_GE_OQ, _mm256_cmp_ps, _mm256_loadu_ps, _mm256_movemask_ps, _mm256_set1_ps};
    let limit = _mm256_set1_ps(least);
    let (blocks, rest) = sums.as_chunks::<32>();
    let mut at = 0;
    for block in blocks {
        let mut bits = 0_u32;
        for (eight, shift) in block.as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
            // SAFETY: eight numbers are read from an array of eight.
            let eight = unsafe { _mm256_loadu_ps(eight.as_ptr()) };
            let above = _mm256_cmp_ps::<_CMP_GE_OQ>(eight, limit);
            bits |= (_mm256_movemask_ps(above) as u32) << shift;
        }
        push_bits(u64::from(bits), at, out);
        at += 32;
    }
    find_each(rest, at, least, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,bmi1,popcnt")]
fn find_above_avx512(sums: &[f32], least: f32, out: &mut Vec<u32>) {
    use std::arch::x86_64::{_CMP_GE_OQ, _mm512_cmp_ps_mask, _mm512_loadu_ps, _mm512_set1_ps};
    let limit = _mm512_set1_ps(least);
    let (blocks, rest) = sums.as_chunks::<64>();
    let mut at = 0;
    for block in blocks {
        let mut bits = 0_u64;
        for (sixteen, shift) in block.as_chunks::<16>().0.iter().zip((0..).step_by(16)) {
            // SAFETY: sixteen numbers are read from an array of sixteen.
            let sixteen = unsafe { _mm512_loadu_ps(sixteen.as_ptr()) };
            bits |= u64::from(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(sixteen, limit)) << shift;
        }
        push_bits(bits, at, out);
        at += 64;
    }
    find_each(rest, at, least, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_levels_count_and_find_the_same(sums in prop::collection::vec(0..100u32, 0..300)) {
            let sums: Vec<f32> = sums.iter().map(|sum| *sum as f32 / 16.0).collect();
            let least = sums.get(sums.len() / 2).copied().unwrap_or(1.0);
            let expected: Vec<u32> =
                (0..).zip(&sums).filter(|(_, sum)| **sum >= least).map(|(at, _)| at).collect();
            for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
                let mut found = Vec::new();
                find_above(level, &sums, least, &mut found);
                prop_assert_eq!(count_above(level, &sums, least) as usize, expected.len());
                prop_assert_eq!(&found, &expected, "{:?}", level);
            }
        }
    }
}
