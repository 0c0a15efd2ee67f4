//! Numbers that look drawn, from a place alone: what is stored depends on them, so they must not change.

/// The `at`th number of the generator that begins with `seed` (Steele, Lea, Flood 2014).
pub(super) fn mixed(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_add((at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
