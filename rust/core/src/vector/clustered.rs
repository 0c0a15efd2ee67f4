//! Rows for tests: seeded, in clusters, as those of texts are.

use super::UnitRow;

/// `count` unit rows and `questions` more from the same 64 clusters.
pub(super) fn clustered(count: usize, width: usize, questions: usize) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 24) as f32
    };
    // Sum of four uniform numbers: near enough to normal.
    let mut normal = move || (0..4).map(|_| uniform()).sum::<f32>() - 2.0;
    let centres: Vec<Vec<f32>> = (0..64).map(|_| (0..width).map(|_| normal()).collect()).collect();
    let mut rows: Vec<Vec<f32>> = (0..count + questions)
        .map(|at| {
            let row: Vec<f32> = centres[at % 64].iter().map(|x| x + 0.8 * normal()).collect();
            UnitRow::new(&row, None).unwrap().into_vec()
        })
        .collect();
    let questions = rows.split_off(count);
    (rows, questions)
}
