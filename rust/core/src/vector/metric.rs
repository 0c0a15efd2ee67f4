//! Inner products, bit-equal on every machine.

/// Lanes of the sum. Fixed, so that the order of additions is the same whatever the instruction set.
const LANES: usize = 16;

/// Inner product of two rows of equal width (the shorter one counts).
///
/// Sixteen partial sums in f32, added up pairwise at the end, no fused multiply-add: the result is the same bits
/// with SSE2, AVX2, AVX-512 or none of them.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected.
            return unsafe { dot_avx512(a, b) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was just detected.
            return unsafe { dot_avx2(a, b) };
        }
    }
    dot_lanes(a, b)
}

/// The one definition; compiled three times for wider registers.
#[inline(always)]
#[allow(clippy::inline_always, reason = "must be compiled inside the functions with target features")]
fn dot_lanes(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a_blocks, a_tail) = a.as_chunks::<LANES>();
    let (b_blocks, b_tail) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let done = a_blocks.len().min(b_blocks.len());
    let (a_rest, b_rest) = if a_blocks.len() == b_blocks.len() {
        (a_tail, b_tail)
    } else {
        (&a[done * LANES..], &b[done * LANES..])
    };
    for (lane, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
        sums[lane % LANES] += x * y;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_avx2(a: &[f32], b: &[f32]) -> f32 {
    dot_lanes(a, b)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn dot_avx512(a: &[f32], b: &[f32]) -> f32 {
    dot_lanes(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_path_gives_the_same_bits_and_agrees_with_f64(
            rows in proptest::collection::vec((-1.0..1.0f32, -1.0..1.0f32), 0..400)
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = rows.into_iter().unzip();
            let exact: f64 = a.iter().zip(&b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            let ours = dot(&a, &b);
            prop_assert_eq!(ours.to_bits(), dot_lanes(&a, &b).to_bits());
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the feature was just detected.
                prop_assert_eq!(ours.to_bits(), unsafe { dot_avx2(&a, &b) }.to_bits());
            }
            prop_assert!((f64::from(ours) - exact).abs() < 1e-4, "{} {}", ours, exact);
        }
    }

    #[test]
    fn extremes_stay_finite_for_unit_rows() {
        let tiny = vec![f32::MIN_POSITIVE; 100];
        assert!(dot(&tiny, &tiny) >= 0.0);
        assert!((dot(&[1.0, 0.0], &[-1.0, 0.0]) + 1.0).abs() < f32::EPSILON);
    }
}
