//! Writing, front to back.

use super::{ALIGN, FOOT, HEAD, LAYOUT, SectionName, checksum};
use bytemuck::NoUninit;
use std::hash::Hasher;
use std::io::{Result, Write};
use std::marker::PhantomData;
use twox_hash::XxHash3_64;

/// Writes sections to a sink; the file is whole once [`SectionWriter::finish`] has returned.
#[derive(Debug)]
pub(crate) struct SectionWriter<W> {
    sink: W,
    at: u64,
    table: Vec<u8>,
    names: Vec<SectionName>,
}

impl<W: Write> SectionWriter<W> {
    pub(crate) fn new(sink: W) -> Result<Self> {
        let mut writer = Self { sink, at: 0, table: Vec::new(), names: Vec::new() };
        writer.mark(HEAD, &LAYOUT.to_le_bytes())?;
        Ok(writer)
    }

    /// Writes an array as the section `name`.
    ///
    /// # Panics
    /// When there is such a section: that is a bug in the caller.
    pub(crate) fn section<T: NoUninit>(&mut self, name: SectionName, array: &[T]) -> Result<()> {
        self.pieces(name, |out| out.put(array))
    }

    /// Writes the section `name` piece by piece: what is larger than memory should hold at once.
    ///
    /// # Panics
    /// As [`SectionWriter::section`].
    pub(crate) fn pieces<T: NoUninit>(
        &mut self,
        name: SectionName,
        write: impl FnOnce(&mut Pieces<'_, W, T>) -> Result<()>,
    ) -> Result<()> {
        assert!(!self.names.contains(&name), "section {name} written twice");
        self.names.push(name);
        let start = self.at;
        let mut pieces =
            Pieces { writer: self, checksum: XxHash3_64::new(), waiting: Vec::new(), kind: PhantomData };
        write(&mut pieces)?;
        let checksum = pieces.end()?;
        self.table.extend_from_slice(&name.0);
        for number in [start, self.at - start, checksum] {
            self.table.extend_from_slice(&number.to_le_bytes());
        }
        self.pad()
    }

    /// Writes table and foot, and gives back the sink, which the caller syncs.
    pub(crate) fn finish(mut self) -> Result<W> {
        let (table, at) = (std::mem::take(&mut self.table), self.at);
        self.put(&table)?;
        self.pad()?;
        let mut foot = LAYOUT.to_le_bytes().to_vec();
        foot.extend_from_slice(&(self.names.len() as u32).to_le_bytes());
        foot.extend_from_slice(&at.to_le_bytes());
        foot.extend_from_slice(&checksum(&table).to_le_bytes());
        self.mark(FOOT, &foot)?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    fn mark(&mut self, magic: &[u8; 8], rest: &[u8]) -> Result<()> {
        self.put(magic)?;
        self.put(rest)?;
        self.pad()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn pad(&mut self) -> Result<()> {
        let over = (self.at % ALIGN as u64) as usize;
        if over > 0 {
            self.put(&[0; ALIGN][over..])?;
        }
        Ok(())
    }
}

/// Pieces smaller than this wait for others: to hash and write a few bytes takes as long as a hundred.
const SMALL: usize = 1 << 12;
/// So many bytes of them at most.
const WAITING: usize = 1 << 16;

/// A section on its way.
pub(crate) struct Pieces<'w, W, T> {
    writer: &'w mut SectionWriter<W>,
    checksum: XxHash3_64,
    /// Small pieces that are not written yet.
    waiting: Vec<u8>,
    kind: PhantomData<T>,
}

impl<W: Write, T: NoUninit> Pieces<'_, W, T> {
    /// Appends to the section.
    pub(crate) fn put(&mut self, piece: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::must_cast_slice(piece);
        if bytes.len() < SMALL {
            self.waiting.extend_from_slice(bytes);
            return if self.waiting.len() < WAITING { Ok(()) } else { self.pass_on() };
        }
        self.pass_on()?;
        self.checksum.write(bytes);
        self.writer.put(bytes)
    }

    fn pass_on(&mut self) -> Result<()> {
        self.checksum.write(&self.waiting);
        self.writer.put(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }

    fn end(mut self) -> Result<u64> {
        self.pass_on()?;
        Ok(self.checksum.finish())
    }
}
