//! A segment of the copy: words, vectors and columns of records, in one file of sections. Documents are in order of the
//! record ids.

use super::delta::VectorState;
use super::follow::Loaded;
use super::state::Member;
use crate::columns::{self, Columns, ColumnsBuilder};
use crate::episode::Episode;
use crate::error::Result;
use crate::ids::DocId;
use crate::index::disk::FileEntry;
use crate::lexical::PreparedDoc;
use crate::lexical::segment as words;
use crate::sections::{SectionWriter, Sections};
use crate::vector::{Graph, StoredRow, VectorSegment, VectorSet};
use std::io::{self, Write};
use std::sync::Arc;

/// An open segment. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Segment {
    pub(super) sections: Sections,
    pub(super) words: words::Segment,
    pub(super) columns: Arc<Columns>,
    pub(super) vectors: Option<VectorSegment>,
    /// The file of the graph over the vectors.
    graph: Option<(FileEntry, Sections)>,
}

impl Segment {
    /// The segment in a file of sections.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when its parts do not fit each other.
    pub(in crate::engine) fn open(sections: Sections) -> Result<Self> {
        let words = words::Segment::open(&sections)?;
        let columns = Arc::new(Columns::open(&sections)?);
        let vectors = VectorSegment::open(&sections)?;
        if columns.num_docs() != words.num_docs() as usize {
            return Err(sections.corrupt("its words and its columns are of different records"));
        }
        Ok(Self { sections, words, columns, vectors, graph: None })
    }

    /// The same with the graph over its vectors that lies in this file.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when its arrays do not fit each other.
    pub(super) fn with_graph(mut self, file: Option<(FileEntry, Sections)>) -> Result<Self> {
        let Some((entry, sections)) = file else { return Ok(self) };
        let graph = Graph::open(&sections)?;
        self.vectors = self.vectors.map(|vectors| vectors.with_graph(graph));
        self.graph = Some((entry, sections));
        Ok(self)
    }

    /// Goes on without the graph.
    pub(in crate::engine) fn drop_graph(&mut self) {
        self.graph = None;
        self.vectors = self.vectors.take().map(|vectors| vectors.with_graph(None));
    }

    /// The file of the graph over its vectors and what is in it, if it has one.
    pub(in crate::engine) fn graph(&self) -> Option<(&FileEntry, &Sections)> {
        self.graph.as_ref().map(|(file, sections)| (file, sections))
    }

    /// A segment that is in no file.
    ///
    /// # Errors
    /// When there are more documents than a segment can hold.
    pub(super) fn in_memory(builder: SegmentBuilder) -> Result<Self> {
        Self::open(Sections::in_memory(|out| builder.write(out))?)
    }

    /// Documents, dead ones included.
    pub(in crate::engine) fn max_doc(&self) -> u32 {
        self.words.num_docs()
    }

    /// The file it lies in, or its bytes in memory.
    pub(in crate::engine) fn sections(&self) -> &Sections {
        &self.sections
    }

    /// Compares all checksums.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] for the first section that is not what was written.
    pub(in crate::engine) fn check(&self) -> Result<()> {
        self.sections.check_all()
    }

    /// Writes the same once more.
    ///
    /// # Errors
    /// Those of the sink, and damage as [`io::ErrorKind::InvalidData`].
    pub(in crate::engine) fn write<W: Write>(&self, out: &mut SectionWriter<W>) -> io::Result<()> {
        self.sections.copy_to(out)
    }

    fn rows_of(&self, doc: DocId) -> impl Iterator<Item = StoredRow<'_>> {
        self.vectors.iter().flat_map(move |vectors| vectors.rows_of(doc))
    }
}

/// Records on their way into a segment, in order of their ids.
#[derive(Debug)]
pub(in crate::engine) struct SegmentBuilder {
    words: words::SegmentBuilder,
    columns: ColumnsBuilder,
    vectors: VectorSet,
}

impl SegmentBuilder {
    pub(super) fn new(dim: Option<usize>) -> Self {
        let words = words::SegmentBuilder::default();
        Self { words, columns: ColumnsBuilder::default(), vectors: VectorSet::new(dim) }
    }

    /// Records so far.
    pub(super) fn num_docs(&self) -> usize {
        self.words.num_docs() as usize
    }

    /// Adds a record with rows of half precision that are searched.
    ///
    /// # Errors
    /// When a segment can hold no more.
    pub(super) fn push(
        &mut self,
        fields: &Episode,
        text: &PreparedDoc,
        vectors: VectorState,
        rows: &[Vec<u16>],
    ) -> Result<()> {
        let doc = DocId(self.words.num_docs());
        self.columns.push(fields, vectors as u8)?;
        self.words.push(text);
        if !rows.is_empty() {
            // They were searched before, so none is refused.
            let _ = self.vectors.insert_halves(doc, rows);
        }
        Ok(())
    }

    /// Adds a record as it comes from the store.
    ///
    /// # Errors
    /// When a segment can hold no more.
    pub(super) fn add(&mut self, loaded: &Loaded) -> Result<()> {
        let doc = DocId(self.words.num_docs());
        let state = loaded.settle(|rows| self.vectors.insert(doc, rows));
        self.columns.push(&loaded.fields, state as u8)?;
        self.words.push(&loaded.text);
        Ok(())
    }

    /// Writes the segment.
    ///
    /// # Errors
    /// Those of the sink.
    pub(in crate::engine) fn write<W: Write>(self, out: &mut SectionWriter<W>) -> io::Result<()> {
        let max_doc = self.words.num_docs();
        self.words.write(out, |_| true)?;
        self.columns.write(out)?;
        VectorSegment::write(out, self.vectors.dim(), max_doc, |doc| self.vectors.rows_of(doc))
    }
}

/// The live documents of several segments as one.
pub(in crate::engine) struct Merge<'m> {
    members: &'m [&'m Member],
    columns: ColumnsBuilder,
    /// By new number, the member and the number there.
    order: Vec<(usize, DocId)>,
    /// By member and number there, the new number.
    numbers: Vec<Vec<u32>>,
}

impl<'m> Merge<'m> {
    /// Finds out the new order.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when a part is damaged: what is copied from it would bear a good checksum.
    pub(in crate::engine) fn new(members: &'m [&'m Member]) -> Result<Self> {
        members.iter().try_for_each(|member| member.segment.check())?;
        let mut order = Vec::new();
        for (at, member) in members.iter().enumerate() {
            let docs =
                (0..member.segment.max_doc()).map(DocId).filter(|doc| !member.dead.contains(doc.index()));
            order.extend(docs.filter_map(|doc| Some((member.segment.columns.id(doc)?, at, doc))));
        }
        // Rising within each member already.
        order.sort();
        let order: Vec<(usize, DocId)> = order.into_iter().map(|(_, at, doc)| (at, doc)).collect();
        let mut numbers: Vec<Vec<u32>> =
            members.iter().map(|member| vec![words::DROPPED; member.segment.max_doc() as usize]).collect();
        for ((at, doc), number) in order.iter().zip(0..) {
            numbers[*at][doc.index()] = number;
        }
        let parts: Vec<&Columns> = members.iter().map(|member| &*member.segment.columns).collect();
        let columns = columns::merge(&parts, &order)?;
        Ok(Self { members, columns, order, numbers })
    }

    /// How many documents it has.
    pub(in crate::engine) fn max_doc(&self) -> u32 {
        self.order.len() as u32
    }

    /// Writes the segment.
    ///
    /// # Errors
    /// Those of the sink.
    pub(in crate::engine) fn write<W: Write>(self, out: &mut SectionWriter<W>) -> io::Result<()> {
        let sources: Vec<words::Source<'_>> = self
            .members
            .iter()
            .zip(&self.numbers)
            .map(|(member, numbers)| words::Source { segment: &member.segment.words, numbers })
            .collect();
        let max_doc = self.max_doc();
        words::merge(out, &sources, max_doc)?;
        self.columns.write(out)?;
        let dim = self.members.iter().find_map(|m| m.segment.vectors.as_ref().map(VectorSegment::dim));
        VectorSegment::write(out, dim, max_doc, |doc| {
            let (at, doc) = self.order[doc.index()];
            self.members[at].segment.rows_of(doc)
        })
    }
}
