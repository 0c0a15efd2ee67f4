//! Settings of BM25.

use crate::error::{Error, Result};

/// How strongly repetition and length count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bm25Params {
    k1: f32,
    b: f32,
}

impl Bm25Params {
    /// Default saturation of the term frequency.
    pub const DEFAULT_K1: f32 = 1.2;
    /// Default strength of the length normalisation.
    pub const DEFAULT_B: f32 = 0.75;

    /// Accepts `k1` in 0..=10 and `b` in 0..=1, else [`Error::InvalidInput`].
    pub fn new(k1: f32, b: f32) -> Result<Self> {
        if !(0.0..=10.0).contains(&k1) {
            return Err(Error::invalid(
                "k1",
                format!("{k1} is not in 0..=10; the default is {}", Self::DEFAULT_K1),
            ));
        }
        if !(0.0..=1.0).contains(&b) {
            return Err(Error::invalid(
                "b",
                format!("{b} is not in 0..=1; the default is {}", Self::DEFAULT_B),
            ));
        }
        Ok(Self { k1, b })
    }

    /// Saturation of the term frequency: 0 ignores repetition.
    pub fn k1(&self) -> f32 {
        self.k1
    }

    /// Strength of the length normalisation: 0 ignores length.
    pub fn b(&self) -> f32 {
        self.b
    }
}

impl Default for Bm25Params {
    fn default() -> Self {
        Self { k1: Self::DEFAULT_K1, b: Self::DEFAULT_B }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sensible_values_are_accepted() {
        assert_eq!(Bm25Params::new(1.2, 0.75).unwrap(), Bm25Params::default());
        assert!(Bm25Params::new(0.0, 0.0).is_ok() && Bm25Params::new(10.0, 1.0).is_ok());
        for (k1, b) in [
            (-0.1, 0.5),
            (10.1, 0.5),
            (f32::NAN, 0.5),
            (f32::INFINITY, 0.5),
            (1.0, -0.1),
            (1.0, 1.1),
            (1.0, f32::NAN),
        ] {
            assert!(matches!(Bm25Params::new(k1, b), Err(Error::InvalidInput { .. })), "{k1} {b}");
        }
    }
}
