//! From the roots of a commit to every row, around what is damaged.

use super::super::seal::HEADER as ENVELOPE;
use super::pages::{Definition, Health, Leaf, Node, PAGE, PageRef, Pages, Root};
use super::row::{Key, Table, body};
use fixedbitset::FixedBitSet;
use std::io;

/// No tree of a real file is deeper.
const DEPTH: usize = 64;
/// How often the bytes of a page may be read as rows.
const READINGS: usize = 4;
/// After so many bytes the caller hears of it.
const TOLD_BYTES: u64 = 1 << 20;

/// A page that is not what was written.
#[derive(Debug, Clone)]
pub(super) struct BadPage {
    pub(super) at: PageRef,
    /// The tree it belongs to, in words.
    pub(super) tree: String,
    pub(super) table: Option<Table>,
    /// Whether flipping one bit back makes it whole.
    pub(super) mended: bool,
    /// Whether all pages below it were found in spite of it; always true for a page of rows.
    pub(super) passed: bool,
    /// Whether it may have held rows.
    pub(super) rows: bool,
    /// The last key before it, of those that are sure.
    pub(super) after: Option<Vec<u8>>,
}

/// A row where it was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'p> {
    pub(super) key: &'p [u8],
    pub(super) value: &'p [u8],
    /// Where the value begins in the file.
    pub(super) offset: u64,
    /// Whether the page it lies in is whole.
    pub(super) whole: bool,
    /// Whether every page from the header of the file down to it is: else it may be of an earlier commit.
    pub(super) sure: bool,
}

/// How the walk through one tree went.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TreeState {
    pub(super) rows: u64,
    /// Whether every page of it was found whole, and it is known to be the tree of the last commit.
    pub(super) whole: bool,
}

/// Rows and progress as the walk meets them.
pub(super) type OnRow<'v> = &'v mut dyn FnMut(Found<'_>) -> io::Result<()>;

/// What has been seen of a file.
pub(super) struct Walk<'p> {
    pub(super) pages: &'p mut Pages,
    pub(super) bad: Vec<BadPage>,
    /// Smallest pages that belong to a tree.
    pub(super) visited: FixedBitSet,
    pub(super) seen_bytes: u64,
    progress: &'p mut dyn FnMut(u64, u64) -> io::Result<()>,
    /// The last key of the present tree that is sure.
    last: Option<Vec<u8>>,
}

/// A table, and whether what leads to it is whole.
pub(super) type Known = (Definition, bool);

/// How to read the rows of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape<'s> {
    pub(super) tree: &'s str,
    pub(super) table: Option<Table>,
    pub(super) key: Option<usize>,
    pub(super) value: Option<usize>,
    /// Whether what leads to its root is whole.
    pub(super) sure: bool,
}

impl<'p> Walk<'p> {
    pub(super) fn new(pages: &'p mut Pages, progress: &'p mut dyn FnMut(u64, u64) -> io::Result<()>) -> Self {
        let count = pages.file_len().div_ceil(PAGE) as usize;
        let visited = FixedBitSet::with_capacity(count);
        Self { pages, bad: Vec::new(), visited, seen_bytes: 0, progress, last: None }
    }

    /// The tables that hang below a root, those of damaged pages only where their own root is found whole.
    pub(super) fn definitions(
        &mut self,
        root: Option<Root>,
        tree: &str,
    ) -> io::Result<(Vec<Known>, TreeState)> {
        let mut found = Vec::new();
        let mut garbled = false;
        let shape = Shape { tree, table: None, key: None, value: None, sure: true };
        let state = self.tree(root, shape, &mut |row| {
            match Definition::parse(row.key, row.value) {
                Some(definition) => found.push((definition, row.sure)),
                None => garbled = true,
            }
            Ok(())
        })?;
        let mut definitions = Vec::new();
        for (definition, sure) in found {
            if sure || self.root_is_whole(&definition)? {
                definitions.push((definition, sure));
            }
        }
        Ok((definitions, TreeState { whole: state.whole && !garbled, ..state }))
    }

    fn root_is_whole(&mut self, definition: &Definition) -> io::Result<bool> {
        let Some(root) = definition.root else { return Ok(false) };
        let page = self.pages.page(root.page, root.sum, definition.key_width, definition.value_width)?;
        Ok(page.health == Health::Good)
    }

    /// Visits the rows below `root`.
    pub(super) fn tree(
        &mut self,
        root: Option<Root>,
        shape: Shape<'_>,
        on_row: OnRow<'_>,
    ) -> io::Result<TreeState> {
        let mut state = TreeState { rows: 0, whole: shape.sure };
        self.last = None;
        let Some(root) = root else { return Ok(state) };
        // Depth first and in order; with each page, whether the one that leads to it is whole, and all that do.
        let mut open = vec![(root.page, root.sum, 0, true, shape.sure)];
        while let Some((at, sum, depth, trusted, sure)) = open.pop() {
            if depth > DEPTH || !self.claim(at) {
                state.whole = false;
                self.report(at, shape, false, false);
                continue;
            }
            let page = self.pages.page(at, sum, shape.key, shape.value)?;
            if page.health != Health::Good {
                if !trusted && page.health == Health::Damaged {
                    // A broken pointer leads anywhere.
                    state.whole = false;
                    self.release(at);
                    if let Some(parent) = self.bad.iter_mut().rev().find(|bad| bad.table == shape.table) {
                        parent.passed = false;
                    }
                    continue;
                }
                self.report(at, shape, page.health == Health::Mended, true);
                state.whole &= page.health == Health::Mended;
            }
            let whole = page.health != Health::Damaged;
            let sure = sure && whole;
            let salvaged = if whole { None } else { likeliest(&page.bytes, shape) };
            let node = salvaged.map(Node::Leaf).or_else(|| Node::of(&page.bytes, shape.key, shape.value));
            match node {
                Some(Node::Leaf(leaf)) => {
                    state.rows += visit(&page.bytes, leaf, (at.offset, whole, sure), on_row)?;
                    if let (true, Some((key, _))) = (sure, leaf.row(leaf.count().saturating_sub(1))) {
                        self.last = Some(page.bytes[key].to_vec());
                    }
                }
                Some(Node::Branch(branch)) => {
                    if let Some(bad) = self.bad.iter_mut().rev().find(|bad| bad.at == at) {
                        bad.rows = false;
                    }
                    let below = open.len();
                    for child in branch.children() {
                        match child {
                            Some((page, sum)) => open.push((page, sum, depth + 1, whole, sure)),
                            None => self.not_passed(at, &mut state),
                        }
                    }
                    open[below..].reverse();
                }
                None => self.not_passed(at, &mut state),
            }
            let before = self.seen_bytes / TOLD_BYTES;
            self.seen_bytes += at.len;
            if self.seen_bytes / TOLD_BYTES != before {
                (self.progress)(self.seen_bytes.min(self.pages.file_len()), self.pages.file_len())?;
            }
        }
        Ok(state)
    }

    fn report(&mut self, at: PageRef, shape: Shape<'_>, mended: bool, passed: bool) {
        self.bad.push(BadPage {
            at,
            tree: shape.tree.to_owned(),
            table: shape.table,
            mended,
            passed,
            rows: true,
            after: self.last.clone(),
        });
    }

    fn not_passed(&mut self, at: PageRef, state: &mut TreeState) {
        state.whole = false;
        if let Some(bad) = self.bad.iter_mut().rev().find(|bad| bad.at == at) {
            bad.passed = false;
        }
    }

    /// Marks the page as part of a tree; false if it was, or lies outside the file.
    fn claim(&mut self, at: PageRef) -> bool {
        let range = self.range(at);
        if range.is_empty() || self.visited.contains_any_in_range(range.clone()) {
            return false;
        }
        self.visited.insert_range(range);
        true
    }

    fn release(&mut self, at: PageRef) {
        let range = self.range(at);
        self.visited.remove_range(range);
    }

    fn range(&self, at: PageRef) -> std::ops::Range<usize> {
        let count = self.visited.len();
        let first = ((at.offset / PAGE) as usize).min(count);
        let last = (((at.offset + at.len) / PAGE) as usize).min(count);
        first..last
    }
}

/// Hands over the rows of a leaf that begins at an offset and is whole and sure as [`Found`] has it; returns how many.
pub(super) fn visit(
    bytes: &[u8],
    leaf: Leaf<'_>,
    (offset, whole, sure): (u64, bool, bool),
    on_row: OnRow<'_>,
) -> io::Result<u64> {
    let (mut rows, mut budget) = (0, READINGS * bytes.len());
    for n in 0..leaf.count() {
        if let Some((key, value)) = leaf.row(n) {
            // Only garbage has rows that overlap again and again.
            let Some(left) = budget.checked_sub(key.len() + value.len()) else { break };
            budget = left;
            rows += 1;
            let start = offset + value.start as u64;
            on_row(Found { key: &bytes[key], value: &bytes[value], offset: start, whole, sure })?;
        }
    }
    Ok(rows)
}

/// The reading of a damaged page as a leaf that finds most whole rows: by its own count of them, or by another. None
/// when it finds none.
fn likeliest<'b>(bytes: &'b [u8], shape: Shape<'_>) -> Option<Leaf<'b>> {
    let table = shape.table?;
    let own = usize::from(u16::from_le_bytes(*bytes.get(2..)?.first_chunk()?));
    // Pages that are larger hold one large row, or few.
    let most = bytes.len().min(PAGE as usize) / (ENVELOPE + 4 + shape.key.unwrap_or(5)) + 1;
    let mut best = None;
    for count in std::iter::once(own).chain(1..=most) {
        let leaf = Leaf::assumed(bytes, count, shape.key, shape.value);
        let mut whole = 0;
        visit(bytes, leaf, (0, false, false), &mut |found| {
            whole += usize::from(is_row(table, found.key, found.value));
            Ok(())
        })
        .ok()?;
        if whole > best.map_or(0, |(most, _)| most) {
            best = Some((whole, leaf));
        }
        if count == own && whole > 0 {
            break;
        }
    }
    best.map(|(_, leaf)| leaf)
}

/// Whether the value is one that was written under this key in this table.
pub(super) fn is_row(table: Table, key: &[u8], value: &[u8]) -> bool {
    value.len() >= ENVELOPE && Key::parse(table, key).is_some_and(|key| body(table, &key, value).is_ok())
}
