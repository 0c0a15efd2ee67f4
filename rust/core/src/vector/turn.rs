//! A turn of rows that has no favourite axis, so that no component tells more than another.
//!
//! Embeddings may have components that vary ten times as much as others, and one that all rows share; signs of such
//! components tell next to nothing of the rest. Turned about by random signs, butterflies of 64 and an exchange between these, three
//! times over, any row looks like one of random directions (Ailon, Chazelle 2009), and inner products stay what they were.

use super::mixed::mixed;

/// Components that one butterfly goes over.
const BLOCK: usize = 64;

/// After two a component is spread over all that there are up to 4,096; after three over more than the widest row has.
const ROUNDS: u64 = 3;

/// Of the signs: graphs hold what comes of it.
const SEED: u64 = 0x7475_726E_0000_0001;

/// Turns a row, whose length is a multiple of [`BLOCK`]; `room` is written over.
pub(super) fn turn(row: &mut Vec<f32>, room: &mut Vec<f32>) {
    let blocks = row.len() / BLOCK;
    for round in 0..ROUNDS {
        room.clear();
        room.resize(row.len(), 0.0);
        for (block, at) in row.as_chunks_mut::<BLOCK>().0.iter_mut().zip(0..) {
            let signs = mixed(SEED, round << 32 | at as u64);
            for (x, place) in block.iter_mut().zip(0..) {
                *x = f32::from_bits(x.to_bits() ^ (((signs >> place & 1) as u32) << 31));
            }
            butterfly(block);
            for (x, place) in block.iter().zip(0..) {
                // An eighth: the butterfly makes a row of 64 eight times as long.
                room[place * blocks + at] = *x * 0.125;
            }
        }
        std::mem::swap(row, room);
    }
}

/// The Hadamard transform.
fn butterfly(block: &mut [f32; BLOCK]) {
    let mut half = 1;
    while half < BLOCK {
        for pair in block.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(row: &[f32]) -> Vec<f32> {
        let (mut row, mut room) = (row.to_vec(), Vec::new());
        turn(&mut row, &mut room);
        row
    }

    #[test]
    fn products_stay_and_no_component_keeps_much_of_another() {
        for width in [128, 384, 1_536, 8_192] {
            let one = |at: usize| -> Vec<f32> { (0..width).map(|x| f32::from(u8::from(x == at))).collect() };
            let all: Vec<Vec<f32>> = [0, 1, 63, 64, width - 2, width - 1].map(|at| turned(&one(at))).into();
            for (a, at) in all.iter().zip(0..) {
                let most = a.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                assert!(most < 6.0 / (width as f32).sqrt(), "{width} {most}");
                for (b, other) in all.iter().zip(0..) {
                    let product: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    assert!((product - f32::from(u8::from(at == other))).abs() < 1e-5, "{width}");
                }
            }
        }
    }

    /// They are stored in graphs.
    #[test]
    fn signs_are_those_that_were_recorded() {
        let row: Vec<f32> = (0..128_u8).map(f32::from).collect();
        let signs = turned(&row).iter().take(64).fold(0_u64, |bits, x| bits << 1 | u64::from(*x > 0.0));
        assert_eq!(signs, 0xAAF1_0F1B_6DCE_7489, "{signs:#x}");
    }
}
