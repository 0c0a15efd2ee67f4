//! Many documents at once.

use super::{check, weighted};
use crate::error::Result;
use crate::lexical::{NewSegment, SegmentBuilder};
use crate::text::Analyzer;
use std::sync::Arc;

/// A batch takes at most so many documents, and terms of all documents (a document's terms each once): its arrays stay
/// within some hundred megabytes.
const MAX_DOCS: usize = 1 << 17;
const MAX_POSTINGS: usize = 1 << 24;

/// The id of a document and its vector.
type Named = (Arc<str>, Option<Vec<f32>>);

/// Documents on their way into a [`super::HybridIndex`]: analysed and made a segment before the index is locked.
#[derive(Debug)]
pub struct Batch {
    analyzer: Analyzer,
    builder: SegmentBuilder,
    documents: Vec<Named>,
    segment: Option<NewSegment>,
}

impl Batch {
    pub(super) fn new(analyzer: Analyzer) -> Self {
        Self { analyzer, builder: SegmentBuilder::default(), documents: Vec::new(), segment: None }
    }

    /// Adds a document.
    ///
    /// # Errors
    /// [`crate::Error::InvalidInput`] for an empty id, or when there is neither text nor vector.
    pub fn push(
        &mut self,
        id: &str,
        fields: Option<&[(&str, &str)]>,
        vector: Option<Vec<f32>>,
    ) -> Result<()> {
        check(id, fields.is_some() || vector.is_some())?;
        match fields {
            Some(fields) => self.builder.push_fields(&self.analyzer, &weighted(fields)),
            None => self.builder.skip(),
        }
        self.documents.push((Arc::from(id), vector));
        Ok(())
    }

    /// Documents in it.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// Whether there is none in it.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// Whether it should be inserted before the next document.
    pub fn is_full(&self) -> bool {
        self.documents.len() >= MAX_DOCS || self.builder.num_postings() >= MAX_POSTINGS
    }

    /// Does the work that needs no index.
    ///
    /// # Errors
    /// [`crate::Error::Internal`] when the segment cannot be built.
    pub fn build(&mut self) -> Result<()> {
        if self.segment.is_none() {
            self.segment = Some(NewSegment::build(&self.builder)?);
            self.builder = SegmentBuilder::default();
        }
        Ok(())
    }

    pub(super) fn into_parts(mut self) -> Result<(NewSegment, Vec<Named>)> {
        self.build()?;
        let segment =
            self.segment.ok_or_else(|| crate::Error::Internal("a batch was not built".to_owned()))?;
        Ok((segment, self.documents))
    }
}
