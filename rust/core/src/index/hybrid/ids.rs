//! The names of documents.

use crate::error::Result;
use crate::ids::DocId;
use crate::lexical::{DROPPED, Names};
use crate::prefetch::prefetch;
use crate::sections::{Numbers, SectionName, SectionWriter, Sections};
use fixedbitset::FixedBitSet;
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use std::sync::Arc;

const NAMES: [SectionName; 3] =
    [SectionName::new("ids.text"), SectionName::new("ids.ends"), SectionName::new("ids.slot")];
/// Rank of each document's name.
const RANKS: SectionName = SectionName::new("ids.rank");
/// Document of each rank.
const DOCS: SectionName = SectionName::new("ids.docs");

/// Ids as they were given, and their documents. Those of the first documents may lie in a file.
#[derive(Debug, Default)]
pub(super) struct DocIds {
    saved: Option<Saved>,
    /// Documents that are not in the file.
    by_id: FxHashMap<Arc<str>, DocId>,
    /// By number, from the first that is not in the file; None is gone.
    own: Vec<Option<Arc<str>>>,
}

#[derive(Debug)]
struct Saved {
    names: Names,
    ranks: Numbers<u32>,
    docs: Numbers<u32>,
    gone: FixedBitSet,
}

impl Saved {
    fn get(&self, id: &str) -> Option<DocId> {
        let rank = self.names.rank(id.as_bytes(), Names::hash(id.as_bytes()))?;
        let doc = *self.docs.get(rank as usize)?;
        ((doc as usize) < self.ranks.len() && !self.gone.contains(doc as usize)).then_some(DocId(doc))
    }

    fn name(&self, doc: DocId) -> Option<&str> {
        let rank = *self.ranks.get(doc.index()).filter(|_| !self.gone.contains(doc.index()))?;
        std::str::from_utf8(self.names.name(rank)).ok()
    }
}

impl DocIds {
    /// Sections that [`DocIds::open`] reads.
    pub(super) const SECTIONS: [SectionName; 5] = [NAMES[0], NAMES[1], NAMES[2], RANKS, DOCS];

    /// Documents that have an id.
    pub(super) fn len(&self) -> usize {
        let saved = self.saved.as_ref().map_or(0, |saved| saved.ranks.len() - saved.gone.count_ones(..));
        saved + self.by_id.len()
    }

    /// The document of an id.
    pub(super) fn get(&self, id: &str) -> Option<DocId> {
        let own = self.by_id.get(id).copied();
        own.or_else(|| self.saved.as_ref()?.get(id))
    }

    /// The id of a document.
    pub(super) fn name(&self, doc: DocId) -> Option<&str> {
        match doc.index().checked_sub(self.first_own()) {
            Some(at) => self.own.get(at)?.as_deref(),
            None => self.saved.as_ref()?.name(doc),
        }
    }

    /// Asks for the memory of the names of some documents: each lies behind two numbers, and in an index of a hundred thousand
    /// none of them is in the cache. Waiting for one at a time took a tenth of a short question.
    pub(super) fn fetch(&self, docs: impl Iterator<Item = DocId> + Clone) {
        let Some(saved) = &self.saved else { return };
        docs.clone().for_each(|doc| prefetch(&saved.ranks, doc.index()));
        let ranks = docs.filter_map(|doc| saved.ranks.get(doc.index()));
        ranks.clone().for_each(|rank| saved.names.fetch_end(*rank));
        ranks.for_each(|rank| saved.names.fetch_name(*rank));
    }

    /// An id as it is kept here, if it is.
    pub(super) fn shared(&self, id: &str) -> Option<Arc<str>> {
        self.by_id.get_key_value(id).map(|(id, _)| Arc::clone(id))
    }

    fn shared_name(&self, doc: DocId) -> Option<Arc<str>> {
        match doc.index().checked_sub(self.first_own()) {
            Some(at) => self.own.get(at)?.clone(),
            None => self.name(doc).map(Arc::from),
        }
    }

    /// Names a document; numbers rise from call to call, and nobody else has the name.
    pub(super) fn insert(&mut self, id: Arc<str>, doc: DocId) {
        self.own.resize(doc.index() - self.first_own(), None);
        self.own.push(Some(Arc::clone(&id)));
        self.by_id.insert(id, doc);
    }

    /// Takes an id out; gives its document.
    pub(super) fn remove(&mut self, id: &str) -> Option<DocId> {
        let first = self.first_own();
        if let Some(doc) = self.by_id.remove(id) {
            self.own[doc.index() - first] = None;
            return Some(doc);
        }
        let saved = self.saved.as_mut()?;
        let doc = saved.get(id)?;
        saved.gone.insert(doc.index());
        Some(doc)
    }

    /// Takes over new numbers of all documents.
    pub(super) fn renumber(&mut self, numbers: &[u32]) {
        let mut new = Self::default();
        for (doc, number) in (0..).map(DocId).zip(numbers) {
            if let Some(id) = self.shared_name(doc).filter(|_| *number != DROPPED) {
                new.insert(id, DocId(*number));
            }
        }
        *self = new;
    }

    fn first_own(&self) -> usize {
        self.saved.as_ref().map_or(0, |saved| saved.ranks.len())
    }

    /// Writes the ids under `count` new numbers, which are dense.
    ///
    /// # Errors
    /// Those of the writer; [`io::ErrorKind::InvalidData`] when the file that ids came from is damaged.
    pub(super) fn write<W: Write>(
        &self,
        out: &mut SectionWriter<W>,
        numbers: &[u32],
        count: u32,
    ) -> io::Result<()> {
        let known = (0..).map(DocId).zip(numbers).filter(|(_, number)| **number != DROPPED);
        let mut names: Vec<(&str, u32)> =
            known.filter_map(|(doc, number)| Some((self.name(doc)?, *number))).collect();
        names.sort_unstable();
        if names.len() != count as usize {
            let message = "an id cannot be read, as the file it was loaded from is damaged";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let docs: Vec<u32> = names.iter().map(|(_, doc)| *doc).collect();
        let mut ranks = vec![0_u32; docs.len()];
        for (rank, doc) in (0..).zip(&docs) {
            ranks[*doc as usize] = rank;
        }
        Names::write(out, NAMES, &names.iter().map(|(name, _)| name.as_bytes()))?;
        out.section(RANKS, &ranks)?;
        out.section(DOCS, &docs)
    }

    /// The ids of `count` documents in a file.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when they are not what was written.
    pub(super) fn open(sections: &Sections, count: usize) -> Result<Self> {
        for name in Self::SECTIONS {
            sections.check(name)?;
        }
        let saved = Saved {
            names: Names::open(sections, NAMES)?,
            ranks: sections.array(RANKS)?,
            docs: sections.array(DOCS)?,
            gone: FixedBitSet::with_capacity(count),
        };
        if [saved.names.len(), saved.ranks.len(), saved.docs.len()] == [count; 3] {
            Ok(Self { saved: Some(saved), ..Self::default() })
        } else {
            Err(sections.corrupt("holds other ids than documents"))
        }
    }
}
