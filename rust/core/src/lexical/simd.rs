//! The loops over blocks of documents, each in the widest registers the machine has.
//!
//! Every level gives the same bits: each document's numbers are computed alone, by the same operations in the same
//! order.

use super::bm25::{Norms, saturation};
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
            Self::Avx2 => is_x86_feature_detected!("avx2"),
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

/// Compiles a loop for each level and calls the one that is asked for.
macro_rules! levels {
    ($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        pub(super) fn $name(level: Simd, $($arg: $kind),*) $(-> $out)? {
            #[inline(always)]
            fn body($($arg: $kind),*) $(-> $out)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
            fn avx2($($arg: $kind),*) $(-> $out)? { body($($arg),*) }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt,lzcnt")]
            fn avx512($($arg: $kind),*) $(-> $out)? { body($($arg),*) }

            match level {
                // SAFETY: a level is only ever used on a machine that has it; see `Simd::set`.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Simd::Avx512 => unsafe { avx512($($arg),*) },
                _ => body($($arg),*),
            }
        }
    };
}

levels! {
    /// The norm of each length.
    fn norms_of(lens: &[u32], norms: Norms, out: &mut [f32]) {
        for (norm, len) in out.iter_mut().zip(lens) {
            *norm = norms.of(*len);
        }
    }
}

levels! {
    /// Adds to each sum what a term is worth there.
    fn add_row(sums: &mut [f32], row: &[u8], norms: &[f32], gain: f32) {
        for ((sum, tf), norm) in sums.iter_mut().zip(row).zip(norms) {
            *sum += gain * saturation(f32::from(*tf), *norm);
        }
    }
}

levels! {
    /// How many sums are at least so high.
    fn count_above(sums: &[f32], least: f32) -> u32 {
        let mut count = 0;
        for sum in sums {
            count += u32::from(*sum >= least);
        }
        count
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
    use crate::lexical::Bm25Params;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_levels_give_the_same_bits(
            docs in prop::collection::vec((any::<u8>(), prop_oneof![0..500u32, any::<u32>()], 0..100u32), 0..300),
            gain in 1e-6..50.0f32, k1 in 0.0..4.0f32, b in 0.0..=1.0f32,
        ) {
            let row: Vec<u8> = docs.iter().map(|doc| doc.0).collect();
            let lens: Vec<u32> = docs.iter().map(|doc| doc.1).collect();
            let before: Vec<f32> = docs.iter().map(|doc| doc.2 as f32 / 16.0).collect();
            let norms = Norms::new(Bm25Params::new(k1, b).unwrap(), 10, 1500);
            let run = |level: Simd| {
                let mut out = vec![0.0; docs.len()];
                norms_of(level, &lens, norms, &mut out);
                let mut sums = before.clone();
                add_row(level, &mut sums, &row, &out, gain);
                let least = sums.get(docs.len() / 2).copied().unwrap_or(1.0);
                let mut found = Vec::new();
                find_above(level, &sums, least, &mut found);
                let bits: Vec<u32> = out.iter().chain(&sums).map(|x| x.to_bits()).collect();
                (bits, count_above(level, &sums, least), found)
            };
            let (bits, count, found) = run(Simd::Portable);
            prop_assert_eq!(found.len(), count as usize);
            for (at, (doc, before)) in docs.iter().zip(&before).enumerate() {
                let sum = before + gain * saturation(f32::from(doc.0), norms.of(doc.1));
                prop_assert_eq!(bits[docs.len() + at], sum.to_bits());
            }
            for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
                prop_assert_eq!(&run(level), &(bits.clone(), count, found.clone()), "{:?}", level);
            }
        }
    }
}
