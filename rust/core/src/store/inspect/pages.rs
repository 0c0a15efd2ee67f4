//! The pages of a redb file, read without redb.
//!
//! redb panics, and in rare cases aborts, on damaged pages, and its own check says only whether there is damage.
//! To name what is damaged and to bring back what is not, the pages are read here: every offset is checked against
//! the bytes there are, so that no bytes whatever can do harm. The layout is that of redb's file format 3; a test
//! reads the same file both ways.

use super::super::backend::Backend;
use super::holes;
use redb::StorageBackend;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Size of the smallest page, and what all offsets are multiples of.
pub(super) const PAGE: u64 = 4096;
/// Pages of a region: offsets depend on it only beyond 4 GiB.
const REGION_PAGES: u32 = 1 << 20;
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";
const FORMAT: u8 = 3;
const FLAGS: usize = 9;
const SLOTS: [usize; 2] = [64, 192];
const SLOT: usize = 128;
const SLOT_SUM: usize = 112;
const HEADER: usize = 320;
const PRIMARY: u8 = 1;
const UNCLEAN: u8 = 2;
const UNFLUSHED: u8 = 8;
pub(super) const LEAF: u8 = 1;
const BRANCH: u8 = 2;
/// Bytes of a tree's root: page number, checksum, number of rows.
const ROOT: usize = 32;
/// Largest order of a page: 4 KiB times two to this.
const MAX_ORDER: u8 = 20;
/// Longest stretch in which one flipped bit is searched for: the time for it grows with the square.
const MENDABLE: usize = 32 << 10;
/// Work that may be spent on that search for one file, in hashed bytes: some ten seconds.
const MEND_BUDGET: u64 = 60 << 30;

/// Bytes read at once where pages are looked for.
const PIECE: u64 = 1 << 20;

/// Where a page is and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRef {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// A tree: its root page, what that must hash to, how many rows it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) page: PageRef,
    pub(super) sum: u128,
    pub(super) rows: u64,
}

/// One of the two commits a header tells of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) transaction: u64,
    pub(super) data: Option<Root>,
    pub(super) system: Option<Root>,
}

/// A table as the tree of tables describes it.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) root: Option<Root>,
    pub(super) rows: u64,
    pub(super) key_width: Option<usize>,
    pub(super) value_width: Option<usize>,
}

/// What the first page says.
#[derive(Debug)]
pub(super) struct Header {
    /// The commit in use; none when its slot cannot be read.
    pub(super) current: Option<Slot>,
    /// What is wrong with it.
    pub(super) faults: Vec<String>,
}

/// The file, and the bits of it that are known to be flipped.
#[derive(Debug)]
pub(super) struct Pages {
    backend: Arc<Backend>,
    len: u64,
    /// Bytes as they were before a bit flipped, by offset.
    mended: BTreeMap<u64, u8>,
    budget: u64,
    /// The same file, asked only where it has no bytes.
    holes: Option<File>,
}

/// Whether a page is what its parent says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// It is after one bit was flipped back.
    Mended,
    Damaged,
}

/// Bytes of a page, which may end early where the file does.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    pub(super) health: Health,
}

impl Pages {
    pub(super) fn new(backend: Arc<Backend>) -> io::Result<Self> {
        let len = backend.len()?;
        Ok(Self { backend, len, mended: BTreeMap::new(), budget: MEND_BUDGET, holes: None })
    }

    pub(super) fn file_len(&self) -> u64 {
        self.len
    }

    /// Bytes of the file, mended; fewer than asked for at its end.
    pub(super) fn read(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = self.read_raw(offset, len)?;
        for (at, byte) in self.mended.range(offset..offset.saturating_add(bytes.len() as u64)) {
            bytes[(at - offset) as usize] = *byte;
        }
        Ok(bytes)
    }

    /// Leaves out the holes of `file`, which is the same one, when pages are looked for.
    pub(super) fn skip_holes(&mut self, file: Option<File>) {
        self.holes = file;
    }

    /// Every page that begins as one of rows does, in order; `step` hears how far it is.
    pub(super) fn each_leaf(
        &self,
        step: &mut dyn FnMut(u64) -> io::Result<()>,
        look: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = PAGE;
        while at < self.len {
            step(at)?;
            let data =
                self.holes.as_ref().map_or(Some(at..self.len), |file| holes::data_from(file, at, self.len));
            let Some(data) = data else { break };
            let start = (data.start / PAGE * PAGE).max(at);
            let bytes = self.read(start, PIECE.min(data.end.next_multiple_of(PAGE) - start))?;
            for (page, offset) in bytes.chunks(PAGE as usize).zip((start..).step_by(PAGE as usize)) {
                if page[0] == LEAF {
                    look(offset, page)?;
                }
            }
            at = start + (bytes.len() as u64).max(PAGE).next_multiple_of(PAGE);
        }
        Ok(())
    }

    /// Bytes as they are in the file.
    pub(super) fn read_raw(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        let there = self.len.saturating_sub(offset).min(len);
        let mut bytes = vec![0; there as usize];
        match self.backend.read(offset, &mut bytes) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                // A bad place of the disk costs its page only, which then hashes to something else.
                for (piece, at) in bytes.chunks_mut(PAGE as usize).zip((offset..).step_by(PAGE as usize)) {
                    if self.backend.read(at, piece).is_err() {
                        piece.fill(0);
                    }
                }
            }
            outcome => outcome?,
        }
        Ok(bytes)
    }

    /// A page that must hash to `sum`.
    pub(super) fn page(
        &mut self,
        at: PageRef,
        sum: u128,
        key: Option<usize>,
        value: Option<usize>,
    ) -> io::Result<Page> {
        let mut bytes = self.read(at.offset, at.len)?;
        let matches = |bytes: &[u8]| {
            Node::of(bytes, key, value).and_then(Node::end).is_some_and(|end| hash(&bytes[..end]) == sum)
        };
        let health = if matches(&bytes) {
            Health::Good
        } else if let Some(at_byte) = self.mend(&mut bytes, matches) {
            self.mended.insert(at.offset + at_byte as u64, bytes[at_byte]);
            Health::Mended
        } else {
            Health::Damaged
        };
        Ok(Page { bytes, health })
    }

    /// Flips each bit in turn until `matches`; then says in which byte. 128 bits of hash leave no room for chance.
    fn mend(&mut self, bytes: &mut [u8], matches: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let cost = bytes.len() as u64 * bytes.len() as u64 * 8;
        if bytes.len() > MENDABLE || cost > self.budget || bytes.iter().all(|byte| *byte == 0) {
            return None;
        }
        self.budget -= cost;
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                if matches(bytes) {
                    return Some(at);
                }
                bytes[at] ^= 1 << bit;
            }
        }
        None
    }

    /// Leaves flipped bits as they are until [`Self::mend_again`] is told what is returned.
    pub(super) fn stop_mending(&mut self) -> u64 {
        std::mem::take(&mut self.budget)
    }

    pub(super) fn mend_again(&mut self, budget: u64) {
        self.budget = budget;
    }

    /// The first page.
    pub(super) fn header(&mut self) -> io::Result<Header> {
        let bytes = self.read(0, HEADER as u64)?;
        let mut faults = Vec::new();
        if bytes.len() < HEADER {
            faults.push(format!("the file ends after {} bytes, within its header", bytes.len()));
            return Ok(Header { current: None, faults });
        }
        if bytes[..MAGIC.len()] != MAGIC {
            faults.push("the mark at its beginning is not that of a store".to_owned());
        }
        let geometry =
            [(12, PAGE as u32, "page size"), (16, 0, "region header"), (20, REGION_PAGES, "region size")];
        for (at, expected, what) in geometry {
            let found = number32(&bytes, at).unwrap_or(0);
            if found != expected {
                faults.push(format!("its header gives {found} as the {what}, not {expected}"));
            }
        }
        let (full, partial) = (number32(&bytes, 24).unwrap_or(0), number32(&bytes, 28).unwrap_or(0));
        let flags = bytes[FLAGS];
        let unclean = flags & UNCLEAN != 0;
        let pages =
            u64::from(full).saturating_mul(u64::from(REGION_PAGES)).saturating_add(u64::from(partial));
        let expected = pages.saturating_mul(PAGE).saturating_add(PAGE);
        // While a writer has it open, or after it died, the counts may be behind: redb takes the length then.
        if self.len < expected || (!unclean && self.len != expected) || !self.len.is_multiple_of(PAGE) {
            faults.push(format!("the file has {} bytes where its header says {expected}", self.len));
        }
        let primary = usize::from(flags & PRIMARY != 0);
        let mut slots = [None, None];
        for (n, slot) in slots.iter_mut().enumerate() {
            let start = SLOTS[n];
            let mut found = Vec::new();
            *slot = self.slot(&bytes[start..start + SLOT], start, &mut found);
            // A commit that was being written when the power went leaves the other slot torn.
            if n == primary || !unclean {
                faults.append(&mut found);
            }
        }
        let [first, second] = slots;
        let (mut current, previous) = if primary == 0 { (first, second) } else { (second, first) };
        if current.is_none() {
            faults.push("the commit in use cannot be read in its header".to_owned());
        }
        if let (Some(now), Some(before)) = (current, previous)
            && before.transaction > now.transaction
            && !unclean
        {
            // Only a writer that died between two header writes leaves this, and then the file is not clean.
            faults.push(format!(
                "commit {} is in use although commit {} is in the file",
                now.transaction, before.transaction
            ));
            current = Some(before);
        }
        if flags & UNFLUSHED != 0 && !unclean {
            faults.push("its header hides the last commit from readers".to_owned());
        }
        if flags & !0x0F != 0 || bytes[10..12] != [0, 0] {
            faults.push("its header has bits set that nobody sets".to_owned());
        }
        Ok(Header { current, faults })
    }

    fn slot(&mut self, bytes: &[u8], start: usize, faults: &mut Vec<String>) -> Option<Slot> {
        let mut bytes = bytes.to_vec();
        let matches = |bytes: &[u8]| number128(bytes, SLOT_SUM) == Some(hash(&bytes[..SLOT_SUM]));
        if !matches(&bytes) {
            let mended = self.mend(&mut bytes, matches);
            let which = if start == SLOTS[0] { "first" } else { "second" };
            let word = if mended.is_some() { "has one flipped bit" } else { "is damaged" };
            faults.push(format!("the {which} commit slot of the header {word}"));
            let at = mended?;
            self.mended.insert((start + at) as u64, bytes[at]);
        }
        (bytes[0] == FORMAT).then_some(())?;
        let root =
            |flag: usize, at: usize| if bytes[flag] == 0 { None } else { Root::parse(&bytes[at..at + ROOT]) };
        Some(Slot { transaction: number64(&bytes, 104)?, data: root(1, 8), system: root(2, 40) })
    }
}

impl Root {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            page: page_ref(number64(bytes, 0)?)?,
            sum: number128(bytes, 8)?,
            rows: number64(bytes, 24)?,
        })
    }
}

impl Definition {
    /// Reads a row of the tree of tables.
    pub(super) fn parse(name: &[u8], bytes: &[u8]) -> Option<Self> {
        let width = |at: usize| match bytes.get(at)? {
            0 => Some(None),
            _ => number32(bytes, at + 1).map(|width| Some(width as usize)),
        };
        let rows = number64(bytes, 1)?;
        let root = match bytes.get(9)? {
            0 => None,
            _ => Some(Root::parse(bytes.get(10..10 + ROOT)?)?),
        };
        let (key_width, value_width) = (width(42)?, width(47)?);
        let sane = |width: Option<usize>| width.is_none_or(|width| width <= PAGE as usize);
        (bytes[0] == 3 && sane(key_width) && sane(value_width)).then_some(())?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        Some(Self { name, root, rows, key_width, value_width })
    }
}

/// One page of a tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node<'p> {
    Leaf(Leaf<'p>),
    Branch(Branch<'p>),
}

/// A page of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf<'p> {
    bytes: &'p [u8],
    count: usize,
    key: Option<usize>,
    value: Option<usize>,
}

/// A page that leads to others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch<'p> {
    bytes: &'p [u8],
    keys: usize,
    key: Option<usize>,
}

impl<'p> Node<'p> {
    /// The page, by its first byte.
    pub(super) fn of(bytes: &'p [u8], key: Option<usize>, value: Option<usize>) -> Option<Self> {
        let count = usize::from(u16::from_le_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        match bytes[0] {
            LEAF => Some(Self::Leaf(Leaf { bytes, count, key, value })),
            BRANCH => Some(Self::Branch(Branch { bytes, keys: count, key })),
            _ => None,
        }
    }

    /// Where its contents end; what follows is in no checksum.
    pub(super) fn end(self) -> Option<usize> {
        let (end, bytes) = match self {
            Self::Leaf(leaf) => (leaf.value_end(leaf.count.checked_sub(1)?)?, leaf.bytes),
            Self::Branch(branch) => (branch.end()?, branch.bytes),
        };
        (end <= bytes.len()).then_some(end)
    }
}

impl<'p> Leaf<'p> {
    /// A leaf by what the caller takes for granted, whatever the page says.
    pub(super) fn assumed(bytes: &'p [u8], count: usize, key: Option<usize>, value: Option<usize>) -> Self {
        Self { bytes, count, key, value }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn key_section(&self) -> usize {
        let columns = usize::from(self.key.is_none()) + usize::from(self.value.is_none());
        4 + 4 * self.count * columns
    }

    fn key_end(&self, n: usize) -> Option<usize> {
        match self.key {
            Some(width) => Some(self.key_section() + width * (n + 1)),
            None => number32(self.bytes, 4 + 4 * n).map(|end| end as usize),
        }
    }

    fn value_end(&self, n: usize) -> Option<usize> {
        if let Some(width) = self.value {
            return Some(self.key_end(self.count.checked_sub(1)?)? + width * (n + 1));
        }
        let ends = if self.key.is_none() { 4 + 4 * self.count } else { 4 };
        number32(self.bytes, ends + 4 * n).map(|end| end as usize)
    }

    /// Where the contents end by the page's own account.
    pub(super) fn end(&self) -> Option<usize> {
        self.value_end(self.count.checked_sub(1)?)
    }

    /// Key and value of row `n`, as places within the page, if they lie in it.
    pub(super) fn row(&self, n: usize) -> Option<(Range<usize>, Range<usize>)> {
        let key_start = if n == 0 { self.key_section() } else { self.key_end(n - 1)? };
        let value_start =
            if n == 0 { self.key_end(self.count.checked_sub(1)?)? } else { self.value_end(n - 1)? };
        let (key, value) = (key_start..self.key_end(n)?, value_start..self.value_end(n)?);
        let inside = |range: &Range<usize>| range.start <= range.end && range.end <= self.bytes.len();
        (n < self.count && inside(&key) && inside(&value)).then_some((key, value))
    }
}

impl Branch<'_> {
    fn key_section(&self) -> usize {
        8 + 24 * (self.keys + 1) + if self.key.is_none() { 4 * self.keys } else { 0 }
    }

    fn end(&self) -> Option<usize> {
        let last = self.keys.checked_sub(1)?;
        match self.key {
            Some(width) => Some(self.key_section() + width * self.keys),
            None => number32(self.bytes, 8 + 24 * (self.keys + 1) + 4 * last).map(|end| end as usize),
        }
    }

    /// Pages below, with what each must hash to; those that cannot be are None.
    pub(super) fn children(self) -> impl Iterator<Item = Option<(PageRef, u128)>> {
        let numbers = 8 + 16 * (self.keys + 1);
        (0..=self.keys).map(move |n| {
            let page = page_ref(number64(self.bytes, numbers + 8 * n)?)?;
            Some((page, number128(self.bytes, 8 + 16 * n)?))
        })
    }
}

/// Page number to place: 20 bits of index, 20 of region, 19 unused, 5 of order.
fn page_ref(number: u64) -> Option<PageRef> {
    let order = (number >> 59) as u8;
    if order > MAX_ORDER {
        return None;
    }
    let index = number & (0xF_FFFF >> order);
    let region = (number >> 20) & 0xF_FFFF;
    let len = PAGE << order;
    Some(PageRef { offset: PAGE + region * u64::from(REGION_PAGES) * PAGE + index * len, len })
}

pub(super) fn hash(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn number128(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
