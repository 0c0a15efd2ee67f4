//! Reading: a map of a file, or bytes in memory.

use super::{ALIGN, FOOT, HEAD, LAYOUT, ROW, SectionName, SectionWriter, checksum};
use crate::error::{Error, Result};
use bytemuck::{AnyBitPattern, NoUninit};
use memmap2::Mmap;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use twox_hash::XxHash3_64;

/// An open file of sections. Cheap to clone; the map lives as long as the last array taken from it.
#[derive(Debug, Clone)]
pub(crate) struct Sections {
    inner: Arc<Inner>,
}

/// Bytes that are compared without a pause.
const PIECE: usize = 1 << 20;

#[derive(Debug)]
struct Inner {
    /// Empty for bytes in memory.
    path: PathBuf,
    bytes: Bytes,
    table: Vec<Row>,
}

#[derive(Debug)]
enum Bytes {
    Map(Mmap),
    /// Lines, so that everything is aligned; and how many bytes of them count.
    Memory(Vec<Line>, usize),
}

#[derive(Debug, Clone, Copy, AnyBitPattern, NoUninit)]
#[repr(C, align(64))]
struct Line([u8; ALIGN]);

/// A file that grows in memory, aligned as a map is.
#[derive(Debug, Default)]
pub(crate) struct Image {
    lines: Vec<Line>,
    len: usize,
}

impl Image {
    /// With room for so many bytes: growing copies what is there, as memory for whole lines cannot be extended in place.
    fn with_capacity(bytes: usize) -> Self {
        Self { lines: Vec::with_capacity(bytes.div_ceil(ALIGN)), len: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = self.len % ALIGN;
        self.len += bytes.len();
        let mut rest = bytes;
        if at > 0
            && let Some(last) = self.lines.last_mut()
        {
            let fits = rest.len().min(ALIGN - at);
            let (head, more) = rest.split_at(fits);
            last.0[at..at + fits].copy_from_slice(head);
            rest = more;
        }
        let (whole, rest) = rest.as_chunks::<ALIGN>();
        self.lines.extend(whole.iter().map(|line| Line(*line)));
        if !rest.is_empty() {
            let mut line = Line([0; ALIGN]);
            line.0[..rest.len()].copy_from_slice(rest);
            self.lines.push(line);
        }
    }
}

impl Write for Image {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bytes {
    /// Has the system begin to read what will be used: faults of pages one after the other wait for the disk each.
    fn will_need(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Self::Map(map) = self
            && !range.is_empty()
        {
            // Without it everything is there all the same, later.
            let _ = map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    fn all(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Memory(lines, len) => &bytemuck::must_cast_slice(lines)[..*len],
        }
    }
}

#[derive(Debug)]
struct Row {
    name: SectionName,
    range: Range<usize>,
    checksum: u64,
}

impl Sections {
    /// Maps a file. Checks head, foot and table, not the sections: see [`Sections::check`].
    ///
    /// # Errors
    /// [`Error::Store`] when it cannot be read (its source tells whether it is not there), [`Error::FormatTooNew`],
    /// [`Error::StoreCorrupt`] when it is not what was written.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| Error::Store {
            path: path.to_owned(),
            message: format!(
                "cannot be read: {error}; nothing is lost, the index is built anew from the store"
            ),
            source: Some(error),
        };
        // Opening a pipe would wait for somebody to write into it.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(corrupt(path, "is not a file"));
        }
        let file = File::open(path).map_err(failed)?;
        // SAFETY: index files are written beside, renamed into place and never changed or cut short afterwards; whoever
        // does so by hand gets wrong numbers or a signal, which is said in docs/index.md. Every number read from a map
        // is checked against the bounds of what it points into.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Self::over(path.to_owned(), Bytes::Map(map))
    }

    /// The same in memory: what `write` writes.
    pub(crate) fn in_memory(
        write: impl FnOnce(&mut SectionWriter<&mut Image>) -> io::Result<()>,
    ) -> Result<Self> {
        Self::in_memory_of(0, write)
    }

    /// The same of about `bytes` bytes: any number is right, that of what is written is the fastest.
    pub(crate) fn in_memory_of(
        bytes: usize,
        write: impl FnOnce(&mut SectionWriter<&mut Image>) -> io::Result<()>,
    ) -> Result<Self> {
        let mut image = Image::with_capacity(bytes);
        let written = SectionWriter::new(&mut image).and_then(|mut writer| {
            write(&mut writer)?;
            writer.finish().map(drop)
        });
        written.map_err(|error| Error::Internal(format!("an index in memory: {error}")))?;
        Self::over(PathBuf::new(), Bytes::Memory(image.lines, image.len))
    }

    /// The content of a file.
    #[cfg(test)]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut image = Image::default();
        image.put(bytes);
        Self::over(PathBuf::new(), Bytes::Memory(image.lines, image.len))
    }

    fn over(path: PathBuf, bytes: Bytes) -> Result<Self> {
        let table = table(&path, bytes.all())?;
        Ok(Self { inner: Arc::new(Inner { path, bytes, table }) })
    }

    /// The file, empty for one in memory.
    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Size of the file in bytes.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.inner.bytes.all().len()
    }

    /// Checksum of the table, which holds those of the sections: tells this file from every other.
    pub(crate) fn fingerprint(&self) -> u64 {
        let bytes = self.inner.bytes.all();
        number(&bytes[bytes.len() - ALIGN..], 24)
    }

    /// Names and sizes of the sections, as they lie.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (SectionName, usize)> {
        self.inner.table.iter().map(|row| (row.name, row.range.len()))
    }

    /// A section as an array.
    ///
    /// # Errors
    /// [`Error::StoreCorrupt`] when there is none of this name or its size is not whole.
    pub(crate) fn array<T: AnyBitPattern>(&self, name: SectionName) -> Result<Numbers<T>> {
        let row = self.row(name)?;
        if !row.range.len().is_multiple_of(size_of::<T>()) {
            return Err(self.corrupt(&format!("section {name} of {} bytes", row.range.len())));
        }
        const { assert!(align_of::<T>() <= ALIGN && size_of::<T>() > 0) }
        Ok(Numbers { range: row.range.clone(), sections: self.clone(), kind: PhantomData })
    }

    /// Whether there is a section of this name: what later versions add is absent in files of earlier ones.
    pub(crate) fn has(&self, name: SectionName) -> bool {
        self.inner.table.iter().any(|row| row.name == name)
    }

    /// Says that these sections will be read, those of them that there are.
    pub(crate) fn will_need(&self, names: impl IntoIterator<Item = SectionName>) {
        for name in names {
            if let Ok(row) = self.row(name) {
                self.inner.bytes.will_need(row.range.clone());
            }
        }
    }

    /// Whether it is a file, parts of which may not be in memory.
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(self.inner.bytes, Bytes::Map(_))
    }

    /// Compares the checksum of one section.
    ///
    /// # Errors
    /// [`Error::StoreCorrupt`] when it differs.
    pub(crate) fn check(&self, name: SectionName) -> Result<()> {
        let row = self.row(name)?;
        if checksum(&self.inner.bytes.all()[row.range.clone()]) == row.checksum {
            Ok(())
        } else {
            Err(self.corrupt(&format!("section {name} is not what was written")))
        }
    }

    /// Compares the checksums of all sections.
    ///
    /// # Errors
    /// As [`Sections::check`], for the first that differs.
    pub(crate) fn check_all(&self) -> Result<()> {
        self.inner.table.iter().try_for_each(|row| self.check(row.name))
    }

    /// The same, piece by piece: `goes_on` is called after each with its size. False when it said no.
    ///
    /// # Errors
    /// As [`Sections::check`], for the first that differs.
    pub(crate) fn check_in_pieces(&self, mut goes_on: impl FnMut(usize) -> bool) -> Result<bool> {
        for row in &self.inner.table {
            let mut found = XxHash3_64::new();
            for piece in self.inner.bytes.all()[row.range.clone()].chunks(PIECE) {
                found.write(piece);
                if !goes_on(piece.len()) {
                    return Ok(false);
                }
            }
            if found.finish() != row.checksum {
                return Err(self.corrupt(&format!("section {} is not what was written", row.name)));
            }
        }
        Ok(true)
    }

    /// Writes the same sections once more, each compared with its checksum before.
    ///
    /// # Errors
    /// Those of the sink; [`io::ErrorKind::InvalidData`] for a section that is not what was written.
    pub(crate) fn copy_to<W: io::Write>(&self, out: &mut SectionWriter<W>) -> io::Result<()> {
        for row in &self.inner.table {
            self.check(row.name)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            out.section(row.name, &self.inner.bytes.all()[row.range.clone()])?;
        }
        Ok(())
    }

    /// An error about what is in this file.
    pub(crate) fn corrupt(&self, detail: &str) -> Error {
        corrupt(&self.inner.path, detail)
    }

    fn row(&self, name: SectionName) -> Result<&Row> {
        let row = self.inner.table.iter().find(|row| row.name == name);
        row.ok_or_else(|| self.corrupt(&format!("no section {name}")))
    }
}

/// An array in a file of sections. Dereferences to a slice.
#[derive(Debug)]
pub(crate) struct Numbers<T> {
    sections: Sections,
    range: Range<usize>,
    kind: PhantomData<T>,
}

impl<T> Clone for Numbers<T> {
    fn clone(&self) -> Self {
        Self { sections: self.sections.clone(), range: self.range.clone(), kind: PhantomData }
    }
}

impl<T: AnyBitPattern> Numbers<T> {
    /// Says that a part of it will be read.
    pub(crate) fn will_need(&self, part: Range<usize>) {
        let [start, end] = [part.start, part.end]
            .map(|at| self.range.start.saturating_add(at.saturating_mul(size_of::<T>())).min(self.range.end));
        self.sections.inner.bytes.will_need(start..end.max(start));
    }
}

impl<T: AnyBitPattern> Deref for Numbers<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // Aligned and whole: checked when the file was opened and when the array was taken.
        bytemuck::cast_slice(&self.sections.inner.bytes.all()[self.range.clone()])
    }
}

fn corrupt(path: &Path, detail: &str) -> Error {
    Error::StoreCorrupt { path: path.to_owned(), detail: detail.to_owned() }
}

fn table(path: &Path, bytes: &[u8]) -> Result<Vec<Row>> {
    let is_index = bytes.len() >= 2 * ALIGN && bytes.starts_with(HEAD);
    if !is_index || !bytes.len().is_multiple_of(ALIGN) {
        return Err(corrupt(path, "not a file of the index, or cut short"));
    }
    let layout = number(bytes, 8) as u32;
    if layout > LAYOUT {
        let what = path.display().to_string();
        return Err(Error::FormatTooNew { what, found: u64::from(layout), supported: u64::from(LAYOUT) });
    }
    let foot = &bytes[bytes.len() - ALIGN..];
    let (count, start) = ((number(foot, 8) >> 32) as usize, number(foot, 16) as usize);
    let rows = count.checked_mul(ROW).and_then(|len| bytes[..bytes.len() - ALIGN].get(start..)?.get(..len));
    let rows = rows.filter(|rows| foot.starts_with(FOOT) && checksum(rows) == number(foot, 24));
    let rows = rows.ok_or_else(|| corrupt(path, "its table of sections is damaged or cut off"))?;
    let mut table = Vec::with_capacity(count);
    for row in rows.chunks_exact(ROW) {
        let mut name = [0; 8];
        name.copy_from_slice(&row[..8]);
        let (offset, len) = (number(row, 8) as usize, number(row, 16) as usize);
        let end = offset.checked_add(len).filter(|end| *end <= start && offset.is_multiple_of(ALIGN));
        let end = end.ok_or_else(|| corrupt(path, "a section lies outside of the file"))?;
        table.push(Row { name: SectionName(name), range: offset..end, checksum: number(row, 24) });
    }
    Ok(table)
}

/// The `u64` at `at`, which the caller knows to be there.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}
