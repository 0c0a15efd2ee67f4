//! Writing the columns of a segment.

use super::field::Field;
use super::lists::{self, ListSections, bit_words};
use super::ordinals::Ordinals;
use super::times::Times;
use super::{ACTIVE, IDS, IMPORTANCE, IMPORTANCE_ORDINALS, VECTOR_STATES, VECTORS, pairs};
use crate::episode::{Episode, Status};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use crate::sections::{SectionName, SectionWriter};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Gathers columns, document by document in rising order of the record ids.
#[derive(Debug, Default)]
pub(crate) struct ColumnsBuilder {
    ids: Vec<[u8; 16]>,
    times: Vec<i64>,
    vectors: Vec<u8>,
    importance: Vec<f64>,
    active: [u32; VECTOR_STATES],
    pub(super) fields: [TextBuilder; Field::ALL.len()],
    pub(super) tags: ListsBuilder,
    pub(super) metadata: ListsBuilder,
}

/// What a document has that is not text.
pub(super) struct Row {
    pub(super) id: RecordId,
    pub(super) micros: i64,
    pub(super) importance: f64,
    pub(super) vector_state: u8,
    pub(super) active: bool,
}

impl ColumnsBuilder {
    /// Adds a record as the next document. `vector_state` is the caller's number for the state of its vectors.
    ///
    /// # Errors
    /// [`Error::Internal`] when its id is not greater than the one before, or the state is 8 or more;
    /// [`Error::InvalidInput`] when a column would be larger than 4 GiB. The builder must then be dropped.
    pub(crate) fn push(&mut self, episode: &Episode, vector_state: u8) -> Result<()> {
        let doc = self.add(&Row {
            id: episode.id,
            micros: episode.occurred_at.unix_micros(),
            importance: episode.importance,
            vector_state,
            active: episode.status == Status::Active,
        })?;
        for field in Field::ALL {
            let column = &mut self.fields[field as usize];
            let value = field.of(episode).map(|text| column.values.intern(text.as_bytes())).transpose()?;
            column.ordinals.push(value.unwrap_or(0));
        }
        for tag in &episode.tags {
            self.tags.push(tag.as_bytes(), doc)?;
        }
        for (name, value) in &episode.metadata {
            self.metadata.push(&pairs::encoded(name, value), doc)?;
        }
        Ok(())
    }

    /// Adds what is not text, and tells the number of the document.
    pub(super) fn add(&mut self, row: &Row) -> Result<u32> {
        let Row { id, micros, importance, vector_state, active } = *row;
        let id = *id.as_bytes();
        let doc = u32::try_from(self.ids.len()).ok().filter(|doc| *doc < u32::MAX).ok_or_else(too_large)?;
        let state = self.active.get_mut(usize::from(vector_state));
        let Some(state) = state.filter(|_| self.ids.last().is_none_or(|last| *last < id)) else {
            return Err(Error::Internal(format!(
                "document {doc} of a segment with state {vector_state} is out of order or range"
            )));
        };
        *state += u32::from(active);
        self.ids.push(id);
        self.times.push(micros);
        self.vectors.push(vector_state);
        self.importance.push(importance);
        Ok(doc)
    }

    /// Writes all sections.
    ///
    /// # Errors
    /// Those of the sink.
    pub(crate) fn write<W: Write>(self, writer: &mut SectionWriter<W>) -> io::Result<()> {
        writer.section(IDS, &self.ids)?;
        Times::write(writer, &self.times)?;
        writer.section(ACTIVE, &self.active)?;
        if self.vectors.iter().any(|state| *state != 0) {
            writer.section(VECTORS, &self.vectors)?;
        }
        let mut importances = self.importance.clone();
        importances.sort_unstable_by(f64::total_cmp);
        importances.dedup_by_key(|value| value.to_bits());
        if !importances.is_empty() {
            let rank = |value: &f64| importances.partition_point(|own| own.total_cmp(value).is_lt());
            let ordinals: Vec<u32> = self.importance.iter().map(|value| rank(value) as u32 + 1).collect();
            writer.section(IMPORTANCE, &importances)?;
            Ordinals::write(writer, IMPORTANCE_ORDINALS, &ordinals, importances.len())?;
        }
        for (field, column) in Field::ALL.into_iter().zip(self.fields) {
            column.write(writer, field)?;
        }
        self.tags.write(writer, &lists::TAGS, self.ids.len())?;
        self.metadata.write(writer, &lists::METADATA, self.ids.len())
    }
}

/// Distinct values, numbered from 1 as they come.
#[derive(Debug, Default)]
pub(super) struct Values {
    numbers: FxHashMap<Box<[u8]>, u32>,
    bytes: usize,
}

impl Values {
    /// The number of a value.
    pub(super) fn intern(&mut self, value: &[u8]) -> Result<u32> {
        if let Some(number) = self.numbers.get(value) {
            return Ok(*number);
        }
        self.bytes += value.len();
        let number = u32::try_from(self.numbers.len() + 1).map_err(|_| too_large())?;
        u32::try_from(self.bytes).map_err(|_| too_large())?;
        self.numbers.insert(value.into(), number);
        Ok(number)
    }

    /// Writes the values in their order; gives the rank of each number, counted from 1, with 0 for 0.
    fn write<W: Write>(
        self,
        writer: &mut SectionWriter<W>,
        values: SectionName,
        ends: SectionName,
    ) -> io::Result<Vec<u32>> {
        let mut sorted: Vec<(Box<[u8]>, u32)> = self.numbers.into_iter().collect();
        sorted.sort_unstable();
        let mut ranks = vec![0; sorted.len() + 1];
        let mut bytes = Vec::with_capacity(self.bytes);
        let mut stops = Vec::with_capacity(sorted.len());
        for ((value, number), rank) in sorted.iter().zip(1..) {
            ranks[*number as usize] = rank;
            bytes.extend_from_slice(value);
            stops.push(bytes.len() as u32);
        }
        writer.section(values, &bytes)?;
        writer.section(ends, &stops)?;
        Ok(ranks)
    }
}

/// A column of texts.
#[derive(Debug, Default)]
pub(super) struct TextBuilder {
    pub(super) values: Values,
    /// Number of each document's value, 0 for none.
    pub(super) ordinals: Vec<u32>,
}

impl TextBuilder {
    fn write<W: Write>(mut self, writer: &mut SectionWriter<W>, field: Field) -> io::Result<()> {
        if self.values.numbers.is_empty() {
            return Ok(());
        }
        let names = field.sections();
        let ranks = self.values.write(writer, names.values, names.ends)?;
        for ordinal in &mut self.ordinals {
            *ordinal = ranks[*ordinal as usize];
        }
        Ordinals::write(writer, names.ordinals, &self.ordinals, ranks.len() - 1)
    }
}

/// A column of several values for each document.
#[derive(Debug, Default)]
pub(super) struct ListsBuilder {
    pub(super) values: Values,
    /// Number of a value and a document that has it.
    pub(super) entries: Vec<(u32, u32)>,
}

impl ListsBuilder {
    fn push(&mut self, value: &[u8], doc: u32) -> Result<()> {
        let number = self.values.intern(value)?;
        self.add(number, doc)
    }

    /// Gives a document the value of this number.
    pub(super) fn add(&mut self, number: u32, doc: u32) -> Result<()> {
        // No list takes more numbers than it has documents.
        u32::try_from(self.entries.len() + 1).map_err(|_| too_large())?;
        self.entries.push((number, doc));
        Ok(())
    }

    fn write<W: Write>(
        mut self,
        writer: &mut SectionWriter<W>,
        names: &ListSections,
        num_docs: usize,
    ) -> io::Result<()> {
        if self.values.numbers.is_empty() {
            return Ok(());
        }
        let ranks = self.values.write(writer, names.values, names.ends)?;
        for (number, _) in &mut self.entries {
            *number = ranks[*number as usize];
        }
        self.entries.sort_unstable();
        // A record may have a tag twice.
        self.entries.dedup();
        let words = bit_words(num_docs);
        let (mut stops, mut items) = (Vec::with_capacity(ranks.len() - 1), Vec::new());
        for list in self.entries.chunk_by(|(a, _), (b, _)| a == b) {
            if list.len() < words {
                items.extend(list.iter().map(|(_, doc)| *doc));
            } else {
                let start = items.len();
                items.resize(start + words, 0);
                for (_, doc) in list {
                    items[start + *doc as usize / 32] |= 1 << (doc % 32);
                }
            }
            stops.push(items.len() as u32);
        }
        writer.section(names.stops, &stops)?;
        writer.section(names.lists, &items)
    }
}

fn too_large() -> Error {
    Error::invalid("index", "a segment holds more than its columns can number; make it of fewer records")
}
