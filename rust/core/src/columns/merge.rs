//! The columns of a segment from those of others, without the records.

use super::build::{ColumnsBuilder, ListsBuilder, Row, Values};
use super::dictionary::Dictionary;
use super::{Columns, Field, Lists};
use crate::episode::Status;
use crate::error::{Error, Result};
use crate::ids::DocId;

/// A source document that is not taken over.
const DROPPED: u32 = u32::MAX;

/// Joins documents of several segments, given as position in `parts` and number there, in their new order.
///
/// # Errors
/// [`Error::StoreCorrupt`] when a part is not what was written: what is copied from it would bear a good checksum.
/// [`Error::Internal`] when `order` names what is not there, or is not the order of the record ids.
pub(crate) fn merge(parts: &[&Columns], order: &[(usize, DocId)]) -> Result<ColumnsBuilder> {
    parts.iter().try_for_each(|part| part.check())?;
    let mut merged = ColumnsBuilder::default();
    let mut places: Vec<Vec<u32>> = parts.iter().map(|part| vec![DROPPED; part.num_docs()]).collect();
    for &(part, doc) in order {
        let source = parts.get(part).and_then(|source| source.row(doc));
        let row = source.ok_or_else(|| Error::Internal(format!("no document {} in part {part}", doc.0)))?;
        places[part][doc.index()] = merged.add(&row)?;
    }
    for field in Field::ALL {
        let column = &mut merged.fields[field as usize];
        let mut taken: Vec<Taken<'_>> = parts.iter().map(|part| Taken::new(part.values(field))).collect();
        for &(part, doc) in order {
            let rank = parts[part].ordinal(field, doc);
            column.ordinals.push(rank.map_or(Ok(0), |rank| taken[part].number(rank, &mut column.values))?);
        }
    }
    for (part, places) in parts.iter().zip(&places) {
        take_lists(part.tags.as_ref(), places, &mut merged.tags)?;
        take_lists(part.metadata.as_ref(), places, &mut merged.metadata)?;
    }
    Ok(merged)
}

impl Columns {
    fn row(&self, doc: DocId) -> Option<Row> {
        Some(Row {
            id: self.id(doc)?,
            micros: self.times.at(doc)?,
            importance: self.importance(doc)?,
            vector_state: self.vector_state(doc),
            active: self.text(Field::Status, doc) == Some(Status::Active.as_str()),
        })
    }

    fn values(&self, field: Field) -> Option<&Dictionary> {
        self.fields[field as usize].as_ref().map(|column| &column.values)
    }
}

/// The values of a part that were taken over, each looked up once.
struct Taken<'a> {
    values: Option<&'a Dictionary>,
    /// By rank in the part; 0 for not yet.
    numbers: Vec<u32>,
}

impl<'a> Taken<'a> {
    fn new(values: Option<&'a Dictionary>) -> Self {
        Self { values, numbers: vec![0; values.map_or(0, Dictionary::len)] }
    }

    /// The number of the value of this rank in the new column; 0 when there is no such value.
    fn number(&mut self, rank: usize, values: &mut Values) -> Result<u32> {
        let (Some(number), Some(own)) = (self.numbers.get_mut(rank), self.values) else { return Ok(0) };
        if *number == 0 {
            *number = values.intern(own.get(rank))?;
        }
        Ok(*number)
    }
}

/// Takes over the values of a column of several, for the documents that have a place in the new order.
fn take_lists(lists: Option<&Lists>, places: &[u32], merged: &mut ListsBuilder) -> Result<()> {
    let Some(lists) = lists else { return Ok(()) };
    for rank in 0..lists.values().len() {
        let mut number = 0;
        lists.each(rank, |doc| {
            let Some(place) = places.get(doc).filter(|place| **place != DROPPED) else { return Ok(()) };
            if number == 0 {
                number = merged.values.intern(lists.values().get(rank))?;
            }
            merged.add(number, *place)
        })?;
    }
    Ok(())
}
