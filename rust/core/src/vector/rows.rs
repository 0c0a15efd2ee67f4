//! Rows as they are searched: codes to look through, halves to score.
//!
//! Codes and length follow from the halves, so that copies of a row, in memory or in segments, are equal.

use super::codes::{CodeRows, LINE, Line, quantise, stride};
use super::half::{HalfRow, from_half, norm, to_half};
use super::row::{MAX_DIM, Refusal, UnitRow};

/// One row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredRow<'a> {
    /// [`stride`] bytes.
    pub(super) codes: &'a [u8],
    /// Of the codes, see [`CodeRows::new`].
    pub(super) scale: f32,
    /// What is scored.
    pub(crate) half: HalfRow<'a>,
}

impl PartialEq for StoredRow<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.half == other.half
    }
}

/// Rows that lie one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowsView<'a> {
    width: usize,
    codes: CodeRows<'a>,
    norms: &'a [f32],
    halves: &'a [u16],
}

impl<'a> RowsView<'a> {
    /// None when the arrays are not of equally many rows of `width` components.
    pub(super) fn new(
        width: usize,
        codes: &'a [u8],
        scales: &'a [f32],
        norms: &'a [f32],
        halves: &'a [u16],
    ) -> Option<Self> {
        let codes = CodeRows::new(width, codes, scales)?;
        let fits = norms.len() == scales.len() && scales.len().checked_mul(width) == Some(halves.len());
        fits.then_some(Self { width, codes, norms, halves })
    }

    pub(crate) fn codes(&self) -> CodeRows<'a> {
        self.codes
    }

    #[inline]
    pub(super) fn half(&self, at: usize) -> HalfRow<'a> {
        HalfRow { bits: &self.halves[at * self.width..][..self.width], norm: self.norms[at] }
    }

    pub(super) fn row(&self, at: usize) -> StoredRow<'a> {
        StoredRow { codes: self.codes.row(at), scale: self.codes.scale(at), half: self.half(at) }
    }
}

/// Rows in memory.
#[derive(Debug, Default)]
pub(super) struct Rows {
    codes: Vec<Line>,
    scales: Vec<f32>,
    norms: Vec<f32>,
    halves: Vec<u16>,
}

impl Rows {
    /// Appends a row that was checked.
    pub(super) fn push(&mut self, halves: &[u16]) {
        let row: Vec<f32> = halves.iter().map(|half| from_half(*half)).collect();
        let norm = norm(halves);
        let start = self.codes.len();
        self.codes.resize(start + stride(row.len()) / LINE, Line::ZEROS);
        let scale = quantise(&row, bytemuck::must_cast_slice_mut(&mut self.codes[start..]));
        self.scales.push(scale / norm);
        self.norms.push(norm);
        self.halves.extend_from_slice(halves);
    }

    /// Puts a row in place of an earlier one.
    pub(super) fn put(&mut self, from: usize, to: usize, width: usize) {
        let lines = stride(width) / LINE;
        self.codes.copy_within(from * lines..(from + 1) * lines, to * lines);
        self.scales[to] = self.scales[from];
        self.norms[to] = self.norms[from];
        self.halves.copy_within(from * width..(from + 1) * width, to * width);
    }

    pub(super) fn truncate(&mut self, count: usize, width: usize) {
        self.codes.truncate(count * (stride(width) / LINE));
        self.scales.truncate(count);
        self.norms.truncate(count);
        self.halves.truncate(count * width);
    }

    pub(super) fn copied_codes(&self) -> CopiedCodes {
        CopiedCodes { codes: self.codes.clone(), scales: self.scales.clone() }
    }

    pub(super) fn view(&self, width: usize) -> Option<RowsView<'_>> {
        let codes = bytemuck::must_cast_slice(&self.codes);
        RowsView::new(width, codes, &self.scales, &self.norms, &self.halves)
    }
}

/// Codes of rows, copied.
#[derive(Debug)]
pub(super) struct CopiedCodes {
    codes: Vec<Line>,
    scales: Vec<f32>,
}

impl CopiedCodes {
    /// The rows, of this width.
    pub(super) fn view(&self, width: usize) -> Option<CodeRows<'_>> {
        CodeRows::new(width, bytemuck::must_cast_slice(&self.codes), &self.scales)
    }
}

/// The halves of a row as it comes in.
pub(super) fn halves(row: &[f32], dim: Option<usize>) -> Result<Vec<u16>, Refusal> {
    Ok(UnitRow::new(row, dim)?.as_slice().iter().map(|x| to_half(*x)).collect())
}

/// Whether a row of halves can be searched.
pub(super) fn checked(row: &[u16], dim: Option<usize>) -> Result<(), Refusal> {
    let found = row.len();
    if !(1..=MAX_DIM).contains(&found) {
        return Err(Refusal::Size { found });
    }
    if let Some(expected) = dim.filter(|dim| *dim != found) {
        return Err(Refusal::Width { expected, found });
    }
    if row.iter().any(|half| half & 0x7C00 == 0x7C00) {
        return Err(Refusal::NotFinite);
    }
    if row.iter().all(|half| from_half(*half) == 0.0) {
        return Err(Refusal::Zero);
    }
    Ok(())
}
