//! What the loops over rows are compiled for.

// The level of keyword search is the level of the process: one switch for tests, benches and `OTOLITH_SIMD`.
use crate::lexical::Simd;

/// The instructions a loop uses. Results are the same bits with each.
///
/// A kernel is only made by the functions here, which ask the machine first: that makes it safe to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// What every machine of the target has.
    Portable,
    /// AVX2 with F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with VNNI.
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Kernel {
    /// The best that the level of this process allows.
    pub(crate) fn current() -> Self {
        Self::within(Simd::current())
    }

    fn within(level: Simd) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let vnni = || is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512bw");
            if level >= Simd::Avx512 && Simd::Avx512.is_available() && vnni() {
                return Self::Vnni;
            }
            if level >= Simd::Avx2 && Simd::Avx2.is_available() && is_x86_feature_detected!("f16c") {
                return Self::Avx2;
            }
        }
        let _ = level;
        Self::Portable
    }

    /// All that this machine has.
    #[cfg(test)]
    pub(super) fn all() -> Vec<Self> {
        let mut all: Vec<Self> = Simd::ALL.into_iter().map(Self::within).collect();
        all.dedup();
        all
    }
}

/// Asks for memory that will be read: rows that do not follow each other are waited for one by one otherwise.
#[inline]
pub(super) fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of_val(row).div_ceil(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see, and the address lies in the row.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(row.as_ptr().cast::<i8>().wrapping_add(64 * line)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}
