//! Adding up dense rows, a group of documents at a time.
//!
//! Dividing takes most of the time of exact scores, so the wide levels multiply by an estimate of the reciprocal: sums are
//! off by [`Simd::error`] at most, and what they let through is scored again. A group none of whose documents can count
//! any more is left.

#![allow(clippy::inline_always, reason = "must be compiled inside the functions with target features")]

use super::Simd;
use crate::lexical::bm25::Norms;

/// Documents of a group: one word of bits, and in the widest registers four sums whose additions do not wait for each other.
const GROUP: usize = 64;
/// After so many groups in a row that went on to a row, whether they have to is not looked at any more: a jump that is
/// foreseen wrongly costs as much as adding the row.
const STREAK: u32 = 8;

/// A term's frequencies by document, in quarters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) tfs: &'a [u8],
    pub(crate) gain: f32,
    /// What this row and those after it add at most.
    pub(crate) rest: f32,
}

/// Documents that follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'a> {
    /// Place of the first in the rows.
    pub(crate) start: usize,
    pub(crate) lens: &'a [u32],
    pub(crate) norms: Norms,
}

/// Calls `found` with the place in the window and the sum of each document whose sum is at least `least`, which is above
/// 0, in rising order; `found` gives the `least` from there on.
pub(crate) fn add_rows(
    level: Simd,
    window: Window<'_>,
    sums: &[f32],
    rows: &[Row<'_>],
    least: f32,
    found: impl FnMut(u32, f32) -> f32,
) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
    fn avx2(
        window: Window<'_>,
        sums: &[f32],
        rows: &[Row<'_>],
        least: f32,
        found: impl FnMut(u32, f32) -> f32,
    ) {
        run::<x86::Avx2>(window, sums, rows, least, found);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt,lzcnt")]
    fn avx512(
        window: Window<'_>,
        sums: &[f32],
        rows: &[Row<'_>],
        least: f32,
        found: impl FnMut(u32, f32) -> f32,
    ) {
        run::<x86::Avx512>(window, sums, rows, least, found);
    }

    match level {
        // SAFETY: a level is only ever used on a machine that has it; see `Simd::set`.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => unsafe { avx2(window, sums, rows, least, found) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { avx512(window, sums, rows, least, found) },
        _ => run::<[f32; GROUP]>(window, sums, rows, least, found),
    }
}

/// Adds all rows to the sums of a window. Gives, of the documents that are first in their group, the largest sum, and so
/// on: so many sums of different documents, and together with high probability most of the best.
pub(crate) fn add_all_rows(
    level: Simd,
    window: Window<'_>,
    sums: &mut [f32],
    rows: &[Row<'_>],
) -> [f32; GROUP] {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
    fn avx2(window: Window<'_>, sums: &mut [f32], rows: &[Row<'_>]) -> [f32; GROUP] {
        run_all::<x86::Avx2>(window, sums, rows)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi1,bmi2,popcnt,lzcnt")]
    fn avx512(window: Window<'_>, sums: &mut [f32], rows: &[Row<'_>]) -> [f32; GROUP] {
        run_all::<x86::Avx512>(window, sums, rows)
    }

    match level {
        // SAFETY: a level is only ever used on a machine that has it; see `Simd::set`.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => unsafe { avx2(window, sums, rows) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { avx512(window, sums, rows) },
        _ => run_all::<[f32; GROUP]>(window, sums, rows),
    }
}

/// The sums of a group, in the registers of a level.
trait Sums: Copy {
    fn load(from: &[f32; GROUP]) -> Self;
    fn store(&self, to: &mut [f32; GROUP]);
    /// Adds what a term is worth.
    fn add(&mut self, tfs: &[u8; GROUP], norms: &[f32; GROUP], gain: f32);
    /// Puts those of another group in place of lower ones.
    fn raise(&mut self, other: &Self);
    /// Whether one of them is at least so high.
    fn any(&self, least: f32) -> bool;
    /// A bit for each that is.
    fn above(&self, least: f32) -> u64;
}

#[inline(always)]
fn run<S: Sums>(
    window: Window<'_>,
    sums: &[f32],
    rows: &[Row<'_>],
    mut least: f32,
    mut found: impl FnMut(u32, f32) -> f32,
) {
    let Window { start, lens, norms } = window;
    // So many rows are added without asking: those that are worth it for a document without anything before them.
    let mut sure = rows.iter().take_while(|row| row.rest >= least).count();
    let mut streak = 0;
    let mut spare = Spare::default();
    'groups: for at in (0..lens.len()).step_by(GROUP) {
        let mut group = S::load(take(sums, at, &mut spare.sums));
        if sure == 0 && !group.any(rows.first().map_or(least, |row| least - row.rest)) {
            continue;
        }
        let of_group = norms_of(norms, take(lens, at, &mut spare.lens));
        for (place, row) in rows.iter().enumerate() {
            if place >= sure {
                if !group.any(least - row.rest) {
                    streak = if place == sure { 0 } else { streak };
                    continue 'groups;
                }
                streak += u32::from(place == sure);
            }
            group.add(take(row.tfs, start + at, &mut spare.tfs), &of_group, row.gain);
        }
        if streak == STREAK {
            (sure, streak) = (sure + 1, 0);
        }
        if !group.any(least) {
            continue;
        }
        let mut stored = [0.0; GROUP];
        group.store(&mut stored);
        let mut bits = group.above(least);
        while bits != 0 {
            let place = bits.trailing_zeros();
            bits &= bits - 1;
            let sum = stored[place as usize % GROUP];
            if sum >= least {
                least = found(at as u32 + place, sum);
            }
        }
    }
}

#[inline(always)]
fn run_all<S: Sums>(window: Window<'_>, sums: &mut [f32], rows: &[Row<'_>]) -> [f32; GROUP] {
    let Window { start, lens, norms } = window;
    let mut most = S::load(&[0.0; GROUP]);
    let mut spare = Spare::default();
    for (at, sums) in (0..lens.len()).step_by(GROUP).zip(sums.chunks_mut(GROUP)) {
        let mut group = S::load(take(sums, 0, &mut spare.sums));
        let of_group = norms_of(norms, take(lens, at, &mut spare.lens));
        for row in rows {
            group.add(take(row.tfs, start + at, &mut spare.tfs), &of_group, row.gain);
        }
        most.raise(&group);
        if let Ok(whole) = sums.try_into() {
            group.store(whole);
        } else {
            group.store(&mut spare.sums);
            sums.copy_from_slice(&spare.sums[..sums.len()]);
        }
    }
    let mut stored = [0.0; GROUP];
    most.store(&mut stored);
    stored
}

#[inline(always)]
fn norms_of(norms: Norms, lens: &[u32; GROUP]) -> [f32; GROUP] {
    let mut of_group = [0.0; GROUP];
    for (norm, len) in of_group.iter_mut().zip(lens) {
        *norm = norms.of(*len);
    }
    of_group
}

/// Room for the last group of a part, filled up with nothing.
struct Spare {
    sums: [f32; GROUP],
    lens: [u32; GROUP],
    tfs: [u8; GROUP],
}

impl Default for Spare {
    fn default() -> Self {
        Self { sums: [0.0; GROUP], lens: [0; GROUP], tfs: [0; GROUP] }
    }
}

/// The group that begins at a place; the last one, which is shorter, in `spare`.
#[inline(always)]
fn take<'a, T: Copy>(all: &'a [T], at: usize, spare: &'a mut [T; GROUP]) -> &'a [T; GROUP] {
    let left = all.get(at..).unwrap_or_default();
    left.first_chunk().unwrap_or_else(|| {
        spare[..left.len()].copy_from_slice(left);
        spare
    })
}

impl Sums for [f32; GROUP] {
    #[inline(always)]
    fn load(from: &[f32; GROUP]) -> Self {
        *from
    }

    #[inline(always)]
    fn store(&self, to: &mut [f32; GROUP]) {
        *to = *self;
    }

    #[inline(always)]
    fn add(&mut self, tfs: &[u8; GROUP], norms: &[f32; GROUP], gain: f32) {
        for ((sum, tf), norm) in self.iter_mut().zip(tfs).zip(norms) {
            let tf = f32::from(*tf);
            *sum += gain * tf / (tf + norm);
        }
    }

    #[inline(always)]
    fn raise(&mut self, other: &Self) {
        for (sum, other) in self.iter_mut().zip(other) {
            *sum = if *other > *sum { *other } else { *sum };
        }
    }

    #[inline(always)]
    fn any(&self, least: f32) -> bool {
        self.iter().fold(0, |any, sum| any | u8::from(*sum >= least)) != 0
    }

    #[inline(always)]
    fn above(&self, least: f32) -> u64 {
        self.iter().zip(0..).fold(0, |bits, (sum, place)| bits | (u64::from(*sum >= least) << place))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    // Called from `run` alone, in functions that are compiled for the level: only there are the instructions there.
    use super::{GROUP, Sums};
    #[allow(clippy::wildcard_imports, reason = "names of instructions")]
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(super) struct Avx512([__m512; 4]);

    #[derive(Clone, Copy)]
    pub(super) struct Avx2([__m256; 8]);

    impl Sums for Avx512 {
        #[inline(always)]
        fn load(from: &[f32; GROUP]) -> Self {
            let from = from.as_ptr();
            // SAFETY: four times sixteen numbers are read from an array of 64.
            unsafe {
                Self([
                    _mm512_loadu_ps(from),
                    _mm512_loadu_ps(from.add(16)),
                    _mm512_loadu_ps(from.add(32)),
                    _mm512_loadu_ps(from.add(48)),
                ])
            }
        }

        #[inline(always)]
        fn store(&self, to: &mut [f32; GROUP]) {
            for (sums, to) in self.0.iter().zip(to.as_chunks_mut::<16>().0) {
                // SAFETY: sixteen numbers are written to an array of sixteen.
                unsafe { _mm512_storeu_ps(to.as_mut_ptr(), *sums) };
            }
        }

        #[inline(always)]
        fn add(&mut self, tfs: &[u8; GROUP], norms: &[f32; GROUP], gain: f32) {
            let of_sixteen = tfs.as_chunks::<16>().0.iter().zip(norms.as_chunks::<16>().0);
            for (sums, (tfs, norms)) in self.0.iter_mut().zip(of_sixteen) {
                // SAFETY: sixteen are read from arrays of sixteen.
                unsafe {
                    let tf = _mm512_cvtepu8_epi32(_mm_loadu_si128(tfs.as_ptr().cast()));
                    let tf = _mm512_cvtepi32_ps(tf);
                    let reciprocal = _mm512_rcp14_ps(_mm512_add_ps(tf, _mm512_loadu_ps(norms.as_ptr())));
                    *sums = _mm512_fmadd_ps(_mm512_mul_ps(tf, _mm512_set1_ps(gain)), reciprocal, *sums);
                }
            }
        }

        #[inline(always)]
        fn raise(&mut self, other: &Self) {
            for (sums, other) in self.0.iter_mut().zip(&other.0) {
                // SAFETY: as for the module.
                *sums = unsafe { _mm512_max_ps(*sums, *other) };
            }
        }

        #[inline(always)]
        fn any(&self, least: f32) -> bool {
            let [a, b, c, d] = self.0;
            // SAFETY: as for the module.
            unsafe {
                let most = _mm512_max_ps(_mm512_max_ps(a, b), _mm512_max_ps(c, d));
                _mm512_cmp_ps_mask::<_CMP_GE_OQ>(most, _mm512_set1_ps(least)) != 0
            }
        }

        #[inline(always)]
        fn above(&self, least: f32) -> u64 {
            let mut bits = 0;
            for (sums, shift) in self.0.iter().zip((0..).step_by(16)) {
                // SAFETY: as for the module.
                let above = unsafe { _mm512_cmp_ps_mask::<_CMP_GE_OQ>(*sums, _mm512_set1_ps(least)) };
                bits |= u64::from(above) << shift;
            }
            bits
        }
    }

    impl Sums for Avx2 {
        #[inline(always)]
        fn load(from: &[f32; GROUP]) -> Self {
            // SAFETY: eight times eight numbers are read from an array of 64.
            Self(std::array::from_fn(|at| unsafe { _mm256_loadu_ps(from.as_ptr().add(8 * at)) }))
        }

        #[inline(always)]
        fn store(&self, to: &mut [f32; GROUP]) {
            for (sums, to) in self.0.iter().zip(to.as_chunks_mut::<8>().0) {
                // SAFETY: eight numbers are written to an array of eight.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr(), *sums) };
            }
        }

        #[inline(always)]
        fn add(&mut self, tfs: &[u8; GROUP], norms: &[f32; GROUP], gain: f32) {
            let of_eight = tfs.as_chunks::<8>().0.iter().zip(norms.as_chunks::<8>().0);
            for (sums, (tfs, norms)) in self.0.iter_mut().zip(of_eight) {
                // SAFETY: eight are read from arrays of eight.
                unsafe {
                    let tf = _mm256_cvtepu8_epi32(_mm_loadl_epi64(tfs.as_ptr().cast()));
                    let tf = _mm256_cvtepi32_ps(tf);
                    let reciprocal = _mm256_rcp_ps(_mm256_add_ps(tf, _mm256_loadu_ps(norms.as_ptr())));
                    *sums = _mm256_fmadd_ps(_mm256_mul_ps(tf, _mm256_set1_ps(gain)), reciprocal, *sums);
                }
            }
        }

        #[inline(always)]
        fn raise(&mut self, other: &Self) {
            for (sums, other) in self.0.iter_mut().zip(&other.0) {
                // SAFETY: as for the module.
                *sums = unsafe { _mm256_max_ps(*sums, *other) };
            }
        }

        #[inline(always)]
        fn any(&self, least: f32) -> bool {
            // SAFETY: as for the module.
            unsafe {
                let [a, b, c, d] = std::array::from_fn(|at| _mm256_max_ps(self.0[at], self.0[at + 4]));
                let most = _mm256_max_ps(_mm256_max_ps(a, b), _mm256_max_ps(c, d));
                _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(most, _mm256_set1_ps(least))) != 0
            }
        }

        #[inline(always)]
        fn above(&self, least: f32) -> u64 {
            let mut bits = 0;
            for (sums, shift) in self.0.iter().zip((0..).step_by(8)) {
                // SAFETY: as for the module.
                let above =
                    unsafe { _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(*sums, _mm256_set1_ps(least))) };
                bits |= u64::from(above as u32) << shift;
            }
            bits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::Bm25Params;
    use crate::lexical::bm25::saturation;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_levels_find_what_dividing_finds(
            docs in prop::collection::vec((any::<[u8; 3]>(), prop_oneof![0..500u32, any::<u32>()], 0..100u32), 0..300),
            gains in prop::array::uniform3(1e-6..50.0f32), k1 in 0.0..4.0f32, b in 0.0..=1.0f32,
            count in 0..=3usize, rises in any::<bool>(), at in 0..300usize,
        ) {
            let norms = Norms::new(Bm25Params::new(k1, b).unwrap(), 10, 1500);
            let lens: Vec<u32> = docs.iter().map(|doc| doc.1).collect();
            let sums: Vec<f32> = docs.iter().map(|doc| doc.2 as f32 / 16.0).collect();
            let start = 7;
            let tfs = |row: usize| -> Vec<u8> {
                std::iter::repeat_n(9, start).chain(docs.iter().map(|doc| doc.0[row])).collect()
            };
            let tfs = [tfs(0), tfs(1), tfs(2)];
            let rows: Vec<Row<'_>> = (0..count).map(|row| {
                let rest = gains[row..count].iter().sum::<f32>() * 1.001;
                Row { tfs: &tfs[row], gain: gains[row], rest }
            }).collect();
            let exact: Vec<f64> = (0..docs.len()).map(|doc| rows.iter().fold(f64::from(sums[doc]), |sum, row| {
                sum + f64::from(row.gain * saturation(f32::from(row.tfs[start + doc]), norms.of(lens[doc])))
            })).collect();
            let least = exact.get(at).map_or(1.0, |sum| *sum as f32).max(f32::MIN_POSITIVE);
            for level in Simd::ALL.into_iter().filter(|level| level.is_available()) {
                let error = f64::from(level.error() + 8.0 * f32::EPSILON);
                let (mut need, mut seen, mut next) = (least, Vec::new(), 0);
                let window = Window { start, lens: &lens, norms };
                add_rows(level, window, &sums, &rows, least, |place, sum| {
                    seen.push((place as usize, sum, need));
                    if rises {
                        need = need.max(sum);
                    }
                    need
                });
                for &(place, sum, need) in &seen {
                    // What was passed over since the last was too low.
                    for sum in &exact[next..place] {
                        prop_assert!(sum * (1.0 - error) < f64::from(need), "{:?}: {} {}", level, sum, need);
                    }
                    prop_assert!(sum >= need && (f64::from(sum) / exact[place] - 1.0).abs() <= error);
                    next = place + 1;
                }
                for sum in &exact[next..] {
                    prop_assert!(sum * (1.0 - error) < f64::from(need), "{:?}: {} {}", level, sum, need);
                }
                let mut all = sums.clone();
                let most = add_all_rows(level, window, &mut all, &rows);
                for (sum, exact) in all.iter().zip(&exact) {
                    prop_assert!((f64::from(*sum) - exact).abs() <= error * exact);
                }
                for (lane, most) in most.iter().enumerate() {
                    let of_lane = all.iter().skip(lane).step_by(GROUP).copied().fold(0.0, f32::max);
                    prop_assert_eq!(most.to_bits(), of_lane.to_bits());
                }
            }
        }
    }
}
