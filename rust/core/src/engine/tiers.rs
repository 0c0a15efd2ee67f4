//! Which segments are merged, and when.

use super::served::Member;
use super::upkeep::FLUSH;
use crate::index::disk::{Manifest, SegmentEntry};

/// Segments of about the same size that are merged: every document is written again log4(documents / FLUSH) times.
const FACTOR: usize = 4;
/// A segment of which more than one in so many documents is dead is merged by itself.
const DEAD_SHARE: usize = 4;

/// How large a segment is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) live: usize,
    pub(super) dead: usize,
}

pub(super) fn sizes<'m>(members: impl Iterator<Item = &'m Member>) -> Vec<Size> {
    let size = |member: &Member| Size { live: member.num_docs(), dead: member.dead.count_ones(..) };
    members.map(size).collect()
}

pub(super) fn entry_sizes(manifest: &Manifest) -> Vec<Size> {
    let size = |entry: &SegmentEntry| Size {
        live: entry.max_doc.saturating_sub(entry.dead) as usize,
        dead: entry.dead as usize,
    };
    manifest.segments.iter().map(size).collect()
}

/// Which segments are to be merged next: those with too many dead documents, else the smallest size of which there are
/// enough.
pub(super) fn plan(sizes: &[Size]) -> Option<Vec<usize>> {
    let wasteful = |size: &Size| size.dead * DEAD_SHARE > size.live + size.dead;
    if let Some(at) = sizes.iter().position(wasteful) {
        return Some(vec![at]);
    }
    let tier = |size: &Size| (size.live / FLUSH).max(1).ilog(FACTOR);
    let least = (0..u32::BITS).find(|t| sizes.iter().filter(|size| tier(size) == *t).count() >= FACTOR)?;
    Some((0..sizes.len()).filter(|at| tier(&sizes[*at]) == least).collect())
}

/// The items at other places than `chosen`.
pub(super) fn without<T>(items: Vec<T>, chosen: &[usize]) -> Vec<T> {
    let kept = items.into_iter().enumerate().filter(|(at, _)| !chosen.contains(at));
    kept.map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[(usize, usize)]) -> Vec<Size> {
        sizes.iter().map(|(live, dead)| Size { live: *live, dead: *dead }).collect()
    }

    #[test]
    fn sizes_of_which_there_are_enough_are_merged_smallest_first() {
        let f = FLUSH;
        assert_eq!(plan(&of(&[(f, 0), (f, 0), (f, 0)])), None);
        assert_eq!(
            plan(&of(&[(100 * f, 0), (f, 0), (f + 1, 0), (2 * f, 0), (f, 1)])),
            Some(vec![1, 2, 3, 4])
        );
        assert_eq!(
            plan(&of(&[(5 * f, 0), (6 * f, 0), (7 * f, 0), (4 * f, 0), (f, 0)])),
            Some(vec![0, 1, 2, 3])
        );
        assert_eq!(plan(&of(&[(30 * f, 0), (3 * f, f)])), None);
        assert_eq!(plan(&of(&[(30 * f, 0), (3 * f, f + 1)])), Some(vec![1]));
        assert_eq!(plan(&of(&[(0, 1)])), Some(vec![0]), "nothing but dead ones");
    }

    #[test]
    fn a_document_is_written_again_a_logarithmic_number_of_times() {
        let (mut sizes, mut written, flushes) = (Vec::new(), 0, 4_096);
        for _ in 0..flushes {
            sizes.push(Size { live: FLUSH, dead: 0 });
            written += FLUSH;
            while let Some(chosen) = plan(&sizes) {
                let live = chosen.iter().map(|at| sizes[*at].live).sum();
                written += live;
                sizes = without(sizes, &chosen);
                sizes.push(Size { live, dead: 0 });
            }
            assert!(sizes.len() <= 3 * 7 + 3, "{} segments", sizes.len());
        }
        assert!(written <= flushes * FLUSH * 8, "{} times", written / (flushes * FLUSH));
    }
}
