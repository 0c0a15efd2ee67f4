//! Rows on their way in: what can be searched is kept as a unit vector, everything else is refused by name.

use crate::error::counted;
use std::fmt;

/// Widest vector accepted.
pub const MAX_DIM: usize = 8192;

/// Why a vector cannot be searched. The text of its record stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// All components are zero, or so small that no direction is left.
    Zero,
    /// A component is NaN or infinite.
    NotFinite,
    /// Another width than the index has.
    Width {
        /// Width of the index.
        expected: usize,
        /// Width of the vector.
        found: usize,
    },
    /// Not 1 to 8192 components.
    Size {
        /// Width of the vector.
        found: usize,
    },
}

/// How the text of a [`Refusal::Width`] begins; stored refusals are counted by it.
const WRONG_WIDTH: &str = "wrong width";

impl Refusal {
    /// Whether a stored reason is that of a wrong width.
    pub fn is_width(reason: &str) -> bool {
        reason.starts_with(WRONG_WIDTH)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero vector: it has no direction"),
            Self::NotFinite => f.write_str("vector holds NaN or infinity"),
            Self::Width { expected, found } => {
                write!(f, "{WRONG_WIDTH}: {}, {expected} expected", counted(*found, "dimension"))
            }
            Self::Size { found } => write!(f, "vector has {found} dimensions, 1 to {MAX_DIM} are accepted"),
        }
    }
}

/// A row of length one, as f32.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRow(Vec<f32>);

impl UnitRow {
    /// Scales `row` to length one; sums in f64, so that tiny and huge components survive.
    ///
    /// # Errors
    /// The [`Refusal`] that applies; `dim` is the width the index has, if it has one.
    pub fn new(row: &[f32], dim: Option<usize>) -> Result<Self, Refusal> {
        if row.is_empty() || row.len() > MAX_DIM {
            return Err(Refusal::Size { found: row.len() });
        }
        if let Some(expected) = dim
            && expected != row.len()
        {
            return Err(Refusal::Width { expected, found: row.len() });
        }
        if row.iter().any(|x| !x.is_finite()) {
            return Err(Refusal::NotFinite);
        }
        let square: f64 = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
        let norm = square.sqrt();
        if norm == 0.0 {
            return Err(Refusal::Zero);
        }
        // A row that is one already stays bit for bit: saving and loading must not drift.
        if (norm - 1.0).abs() < 1e-7 {
            return Ok(Self(row.to_vec()));
        }
        Ok(Self(row.iter().map(|x| (f64::from(*x) / norm) as f32).collect()))
    }

    /// The components.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// The components, taken out.
    pub fn into_vec(self) -> Vec<f32> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_reason() {
        assert_eq!(UnitRow::new(&[], None), Err(Refusal::Size { found: 0 }));
        assert_eq!(UnitRow::new(&vec![1.0; MAX_DIM + 1], None), Err(Refusal::Size { found: MAX_DIM + 1 }));
        assert_eq!(UnitRow::new(&[1.0], Some(2)), Err(Refusal::Width { expected: 2, found: 1 }));
        assert!(Refusal::is_width(&Refusal::Width { expected: 2, found: 1 }.to_string()));
        assert!(!Refusal::is_width(&Refusal::Zero.to_string()));
        assert_eq!(UnitRow::new(&[1.0, f32::NAN], None), Err(Refusal::NotFinite));
        assert_eq!(UnitRow::new(&[f32::NEG_INFINITY], None), Err(Refusal::NotFinite));
        assert_eq!(UnitRow::new(&[0.0, -0.0], None), Err(Refusal::Zero));
    }

    #[test]
    fn length_is_one_at_every_scale_and_a_second_pass_changes_nothing() {
        for scale in [f32::MIN_POSITIVE, 1e-45, 1e-20, 1.0, 1e20, f32::MAX] {
            let row = UnitRow::new(&[scale, -scale, scale / 2.0, 0.0], None).unwrap();
            let norm: f64 = row.as_slice().iter().map(|x| f64::from(*x).powi(2)).sum();
            assert!((norm - 1.0).abs() < 1e-6, "{scale}: {norm}");
            assert_eq!(UnitRow::new(row.as_slice(), None).unwrap(), row);
        }
    }
}
