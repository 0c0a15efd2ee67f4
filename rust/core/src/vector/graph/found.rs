//! Rows that were found, in order: the nearest first, equally near ones by their numbers.

/// A row with its cosine in one number, so that comparing and moving them is cheap. The least one is the best.
///
/// The upper half holds the cosine, turned so that a higher one gives a smaller number (every value of the format has its
/// place, also those that are no number); then the row; the last bit is set once the row's neighbours were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found(u64);

impl Found {
    /// Behind every row.
    pub(super) const WORST: Self = Self(u64::MAX);

    #[inline]
    pub(super) fn new(cosine: f32, row: u32) -> Self {
        Self(u64::from(!rising(cosine.to_bits())) << 32 | u64::from(row) << 1)
    }

    #[inline]
    pub(super) fn row(self) -> u32 {
        (self.0 as u32) >> 1
    }

    pub(super) fn cosine(self) -> f32 {
        f32::from_bits(falling(!((self.0 >> 32) as u32)))
    }

    #[inline]
    fn is_expanded(self) -> bool {
        self.0 & 1 == 1
    }

    /// The same row, its neighbours looked at.
    #[inline]
    fn expanded(self) -> Self {
        Self(self.0 | 1)
    }

    /// The same row, its neighbours not looked at.
    #[inline]
    pub(super) fn fresh(self) -> Self {
        Self(self.0 & !1)
    }
}

/// The order of floats as that of whole numbers.
#[inline]
fn rising(bits: u32) -> u32 {
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

fn falling(rising: u32) -> u32 {
    if rising >> 31 == 1 { rising & !(1 << 31) } else { !rising }
}

/// The best rows so far, in order.
#[derive(Debug, Default)]
pub(super) struct Pool {
    limit: usize,
    found: Vec<Found>,
}

impl Pool {
    /// Empties it; from now on it keeps `limit` rows.
    pub(super) fn reset(&mut self, limit: usize) {
        self.limit = limit;
        self.found.clear();
    }

    pub(super) fn found(&self) -> &[Found] {
        &self.found
    }

    /// What a row has to be better than to be taken.
    #[inline]
    pub(super) fn bound(&self) -> Found {
        if self.found.len() < self.limit {
            return Found::WORST;
        }
        self.found.last().copied().unwrap_or(Found::WORST)
    }

    /// Whether it would take the row.
    #[inline]
    pub(super) fn admits(&self, found: Found) -> bool {
        found < self.bound()
    }

    /// Whether it is full of rows that are better.
    #[inline]
    pub(super) fn is_beyond(&self, found: Found) -> bool {
        self.found.len() >= self.limit && self.found.last().is_none_or(|last| *last < found)
    }

    /// Takes a row if it is among the best; gives its place.
    #[inline]
    pub(super) fn offer(&mut self, found: Found) -> Option<usize> {
        if !self.admits(found) {
            return None;
        }
        if self.found.len() == self.limit {
            self.found.pop();
        }
        let place = self.found.partition_point(|other| *other < found);
        self.found.insert(place, found);
        Some(place)
    }

    /// The first row from a place on whose neighbours were not looked at; from now on they were. The place is that of it, or
    /// behind the last one.
    #[inline]
    pub(super) fn expand_from(&mut self, place: &mut usize) -> Option<u32> {
        while *place < self.found.len() {
            if let Some(row) = self.expand(*place) {
                return Some(row);
            }
            *place += 1;
        }
        None
    }

    /// The row at a place, if its neighbours were not looked at; from now on they were.
    #[inline]
    fn expand(&mut self, place: usize) -> Option<u32> {
        let found = self.found.get_mut(place).filter(|found| !found.is_expanded())?;
        *found = found.expanded();
        Some(found.row())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_is_that_of_cosines_then_of_rows() {
        let cosines =
            [f32::INFINITY, 1.0, 0.5, f32::MIN_POSITIVE, 0.0, -0.0, -1e-30, -1.0, f32::NEG_INFINITY];
        let mut all = Vec::new();
        for cosine in cosines {
            for row in [0, 1, 77, (1 << 31) - 1] {
                let found = Found::new(cosine, row);
                assert_eq!((found.cosine().to_bits(), found.row()), (cosine.to_bits(), row));
                assert_eq!((found.expanded().row(), found.expanded().is_expanded()), (row, true));
                assert_eq!(found.expanded().fresh(), found);
                all.push(found);
            }
        }
        assert!(all.is_sorted() && !all[0].is_expanded());
    }

    proptest! {
        #[test]
        fn a_pool_keeps_the_best(
            offered in prop::collection::vec(-1.0..1.0f32, 0..80),
            limit in 1..20usize,
        ) {
            let mut pool = Pool::default();
            pool.reset(limit);
            let all: Vec<Found> = offered.iter().zip(0..).map(|(cosine, row)| Found::new(*cosine, row)).collect();
            for found in &all {
                let place = pool.offer(*found);
                prop_assert_eq!(place.map(|at| pool.found()[at]), place.map(|_| *found));
            }
            let mut best = all;
            best.sort_unstable();
            best.truncate(limit);
            prop_assert_eq!(pool.found(), &best[..]);
        }
    }
}
