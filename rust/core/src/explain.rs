//! How a number came about, as a tree.

use std::fmt;

/// A node of a score: `value` follows from the values of `details` as `description` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The number.
    pub value: f64,
    /// What it is and how it is made of its details.
    pub description: String,
    /// What it is made of.
    pub details: Vec<Explanation>,
}

impl Explanation {
    /// A node without details.
    pub fn leaf(value: f64, description: impl Into<String>) -> Self {
        Self { value, description: description.into(), details: Vec::new() }
    }

    /// A node with details.
    pub fn node(value: f64, description: impl Into<String>, details: Vec<Self>) -> Self {
        Self { value, description: description.into(), details }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let pad = "  ".repeat(depth);
        write!(f, "{pad}{:.6}  {}", self.value, self.description)?;
        for detail in &self.details {
            f.write_str("\n")?;
            detail.write(f, depth + 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
