//! What filters, order and paging ask of the records of a segment, as columns in a file of sections.
//!
//! Documents are numbered in rising order of their record ids. A condition is evaluated on the sorted distinct values of
//! its column first, which gives one or two ranges of ordinals, then in one pass over the packed ordinals, 64 documents
//! at a time; the meaning is that of [`crate::query::Condition::holds`], bit for bit. Opening compares lengths and the
//! ends of the distinct values and passes over no document: bodies are not checked, every number is checked against what
//! it points into where it is used, so that damage gives wrong answers at worst.
//!
//! With `n` documents, `d` distinct values and little-endian numbers:
//!
//! ```text
//! c.ids      n x 16 B    record ids, big-endian as they are stored, rising
//! c.time     n x i64     occurred_at in microseconds since 1970
//! c.zone     2 x i64     for each 64 documents: least and greatest of their times
//! c.active   8 x u32     active documents in each state of their vectors
//! c.vect     n x u8      state of the vectors, 0 to 7, as the caller numbers them     absent: 0 everywhere
//! c.impo.v   d x f64     distinct importances, rising                                absent: no documents
//! c.impo.o   n x 1|2|4   ordinals                                                    absent: the one value everywhere
//!
//! A column of texts, with one of the codes stat outc srce orig trst kind scop key user agnt sess task dir actr:
//! c.CODE.v   bytes       distinct values in UTF-8, in byte order, end to end         absent: no document has a value
//! c.CODE.e   d x u32     where each value ends
//! c.CODE.o   n x 1|2|4   ordinals: 0 for no value, else 1 + rank of the value        absent: the one value everywhere
//!
//! A column of several values each, with the code tags or meta:
//! c.CODE.v   bytes       distinct values as above                                    absent: no document has a value
//! c.CODE.e   d x u32     where each value ends
//! c.CODE.s   d x u32     where the list of each value ends in c.CODE.l
//! c.CODE.l   u32         lists: documents, rising, while they are fewer than ceil(n/32); else that many words with a bit
//!                        for each document
//! ```
//!
//! Ordinals are as wide as `d` needs; which width it is follows from the length of the section. Words of closed
//! vocabularies (status, outcome, source, origin, trust, kind) are texts like others: one code for all, and no number
//! that has to stay what it is. A value of `meta` is the length of the name as LEB128, the name, and the value:
//! `n`, `f`, `t`, `i` and 8 bytes, `d` and the 8 bytes of the float, `s` and the text.
//!
//! Kept free for what comes: `c.path` (file of a Markdown section) and `c.spos` (position in the session); the ordinal
//! of the session is `c.sess.o`. A section that is absent means that there is nothing yet.

mod bits;
mod build;
mod dictionary;
mod field;
mod lists;
mod merge;
mod ordinals;
mod pairs;
mod select;
mod times;

pub(crate) use build::ColumnsBuilder;
pub(crate) use field::Field;
pub(crate) use merge::merge;
pub(crate) use select::{Effect, Selection};

use crate::error::Result;
use crate::ids::{DocId, RecordId};
use crate::sections::{Numbers, SectionName, Sections};
use crate::time::Moment;
use dictionary::Dictionary;
use fixedbitset::FixedBitSet;
use lists::Lists;
use ordinals::Ordinals;
use times::Times;

/// States of vectors that can be told apart.
pub(crate) const VECTOR_STATES: usize = 8;

const IDS: SectionName = SectionName::new("c.ids");
const ACTIVE: SectionName = SectionName::new("c.active");
const VECTORS: SectionName = SectionName::new("c.vect");
const IMPORTANCE: SectionName = SectionName::new("c.impo.v");
const IMPORTANCE_ORDINALS: SectionName = SectionName::new("c.impo.o");

/// The columns of a segment.
#[derive(Debug)]
pub(crate) struct Columns {
    sections: Sections,
    ids: Numbers<[u8; 16]>,
    times: Times,
    active: Numbers<u32>,
    vectors: Option<Numbers<u8>>,
    /// None where there is no document.
    importance: Option<(Numbers<f64>, Ordinals)>,
    /// Indexed by `Field as usize`; None where no document has a value.
    fields: [Option<TextColumn>; Field::ALL.len()],
    tags: Option<Lists>,
    metadata: Option<Lists>,
}

/// At most one text for each document.
#[derive(Debug)]
struct TextColumn {
    values: Dictionary,
    ordinals: Ordinals,
}

impl Columns {
    /// The columns in a file of sections.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when sections are missing or do not fit each other.
    pub(crate) fn open(sections: &Sections) -> Result<Self> {
        let ids = sections.array::<[u8; 16]>(IDS)?;
        let num_docs = ids.len();
        let active = sections.array::<u32>(ACTIVE)?;
        let vectors = sections.has(VECTORS).then(|| sections.array::<u8>(VECTORS)).transpose()?;
        let whole = vectors.as_ref().is_none_or(|states| states.len() == num_docs);
        if u32::try_from(num_docs).is_err() || active.len() != VECTOR_STATES || !whole {
            return Err(sections.corrupt("the columns of the index do not fit each other"));
        }
        let importance = if num_docs == 0 {
            None
        } else {
            let values = sections.array::<f64>(IMPORTANCE)?;
            let ordinals = Ordinals::open(sections, IMPORTANCE_ORDINALS, num_docs, values.len())?;
            Some((values, ordinals))
        };
        let mut fields = [const { None }; Field::ALL.len()];
        for field in Field::ALL {
            let names = field.sections();
            if let Some(values) = Dictionary::open(sections, names.values, names.ends)? {
                let ordinals = Ordinals::open(sections, names.ordinals, num_docs, values.len())?;
                fields[field as usize] = Some(TextColumn { values, ordinals });
            }
        }
        Ok(Self {
            times: Times::open(sections, num_docs)?,
            tags: Lists::open(sections, &lists::TAGS, num_docs)?,
            metadata: Lists::open(sections, &lists::METADATA, num_docs)?,
            sections: sections.clone(),
            ids,
            active,
            vectors,
            importance,
            fields,
        })
    }

    /// Compares the checksums of all columns.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] for the first that differs.
    pub(crate) fn check(&self) -> Result<()> {
        let own = |name: &SectionName| name.to_string().starts_with("c.");
        let names = self.sections.sizes().map(|(name, _)| name);
        names.filter(own).try_for_each(|name| self.sections.check(name))
    }

    /// Documents of the segment.
    pub(crate) fn num_docs(&self) -> usize {
        self.ids.len()
    }

    /// Record id of a document; None beyond the last, and where damage left no id.
    pub(crate) fn id(&self, doc: DocId) -> Option<RecordId> {
        RecordId::from_bytes(*self.ids.get(doc.index())?).ok()
    }

    /// The document of a record.
    pub(crate) fn doc_of(&self, id: RecordId) -> Option<DocId> {
        self.ids.binary_search(id.as_bytes()).ok().map(|doc| DocId(doc as u32))
    }

    /// When it happened, as an instant: the offset it was given with is only in the store.
    pub(crate) fn occurred_at(&self, doc: DocId) -> Option<Moment> {
        self.times.at(doc).map(Moment::utc)
    }

    /// Importance, 0 to 1.
    pub(crate) fn importance(&self, doc: DocId) -> Option<f64> {
        let (values, ordinals) = self.importance.as_ref()?;
        values.get(ordinals.index(doc)?).copied()
    }

    /// State of its vectors, as it was given.
    pub(crate) fn vector_state(&self, doc: DocId) -> u8 {
        let state = self.vectors.as_ref().and_then(|states| states.get(doc.index()).copied());
        state.filter(|state| usize::from(*state) < VECTOR_STATES).unwrap_or(0)
    }

    /// A text of a document.
    pub(crate) fn text(&self, field: Field, doc: DocId) -> Option<&str> {
        let rank = self.ordinal(field, doc)?;
        std::str::from_utf8(self.fields[field as usize].as_ref()?.values.get(rank)).ok()
    }

    /// Rank of a document's text among the distinct values, the same number for the same text; None without a text.
    pub(crate) fn ordinal(&self, field: Field, doc: DocId) -> Option<usize> {
        let column = self.fields[field as usize].as_ref()?;
        column.ordinals.index(doc).filter(|rank| *rank < column.values.len())
    }

    /// The documents of `within` whose record ids lie between the two, both excluded, in order of the ids.
    pub(crate) fn between<'a>(
        &self,
        after: Option<RecordId>,
        before: Option<RecordId>,
        within: &'a FixedBitSet,
    ) -> impl DoubleEndedIterator<Item = DocId> + use<'a> {
        let start = after.map_or(0, |id| self.ids.partition_point(|own| own <= id.as_bytes()));
        let end = before.map_or(self.ids.len(), |id| self.ids.partition_point(|own| own < id.as_bytes()));
        bits::ones(within, start..end)
    }

    /// The `k` newest documents of `within`, newest first, equally old ones in order of their ids.
    pub(crate) fn newest(&self, within: &FixedBitSet, k: usize) -> Vec<DocId> {
        self.times.newest(within, k)
    }

    /// Whether every document has exactly this text.
    fn is_everywhere(&self, field: Field, text: &str) -> bool {
        let column = self.fields[field as usize].as_ref();
        column.is_some_and(|c| c.ordinals.is_everywhere() && c.values.get(0) == text.as_bytes())
            || self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests;
