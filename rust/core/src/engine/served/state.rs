//! The copy at one moment, in segments only: what can be written to disk and read from there.

use super::delta::Copied;
use super::follow::Position;
use super::segment::{Segment, SegmentBuilder};
use crate::error::Result;
use crate::ids::RecordId;
use crate::index::disk::{EmbedderEntry, FileEntry, Loaded, Manifest, SegmentEntry};
use crate::store::EmbedderRow;
use fixedbitset::FixedBitSet;
use std::collections::BTreeMap;

/// A segment, the file it lies in if it lies in one, and which of its documents are dead.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Member {
    pub(in crate::engine) file: Option<FileEntry>,
    pub(in crate::engine) segment: Segment,
    pub(in crate::engine) dead: FixedBitSet,
}

impl Member {
    /// Documents that are not dead.
    pub(in crate::engine) fn num_docs(&self) -> usize {
        (self.segment.max_doc() as usize).saturating_sub(self.dead.count_ones(..))
    }
}

/// See the module.
#[derive(Debug)]
pub(in crate::engine) struct State {
    /// Number of the manifest that it rests on, 0 for none.
    pub(in crate::engine) number: u64,
    pub(in crate::engine) position: Position,
    /// Whose vectors the segments hold.
    pub(in crate::engine) embedder: Option<EmbedderRow>,
    pub(in crate::engine) unreadable: BTreeMap<RecordId, String>,
    pub(in crate::engine) unreadable_vectors: BTreeMap<RecordId, String>,
    pub(in crate::engine) members: Vec<Member>,
}

impl State {
    /// What a manifest tells.
    ///
    /// # Errors
    /// [`crate::Error::StoreCorrupt`] when a segment does not fit.
    pub(in crate::engine) fn from_disk(loaded: Loaded, position: Position) -> Result<Self> {
        let Loaded { manifest, segments, graphs, tombstones, .. } = loaded;
        let files = manifest.segments.into_iter().zip(segments).zip(graphs).zip(tombstones);
        let members = files.map(|(((entry, sections), graph), dead)| {
            let segment = Segment::open(sections)?.with_graph(entry.graph.zip(graph))?;
            Ok(Member { file: Some(entry.file), segment, dead })
        });
        let ids = |rows: BTreeMap<String, String>| {
            rows.into_iter().map(|(id, reason)| Ok((id.parse()?, reason))).collect::<Result<_>>()
        };
        Ok(Self {
            number: manifest.number,
            position,
            embedder: manifest.embedder.map(|e| EmbedderRow {
                number: e.number,
                fingerprint: e.fingerprint,
                dim: e.dim,
            }),
            unreadable: ids(manifest.unreadable)?,
            unreadable_vectors: ids(manifest.unreadable_vectors)?,
            members: members.collect::<Result<_>>()?,
        })
    }

    /// The manifest of this state, and the dead documents of each segment; every member must lie in a file.
    pub(in crate::engine) fn to_manifest(&self) -> (Manifest, Vec<FixedBitSet>) {
        let ids = |rows: &BTreeMap<RecordId, String>| {
            rows.iter().map(|(id, reason)| (id.to_string(), reason.clone())).collect()
        };
        let (store_id, sequence, nonce) = self.position.in_manifest();
        let filed = self.members.iter().filter_map(|member| Some((member.file.clone()?, member)));
        let (segments, dead) = filed
            .map(|(file, member)| {
                let max_doc = member.segment.max_doc();
                let graph = member.segment.graph().map(|(file, _)| file.clone());
                (SegmentEntry { file, max_doc, dead: 0, graph }, member.dead.clone())
            })
            .unzip();
        let embedder = self.embedder.as_ref().map(|e| EmbedderEntry {
            number: e.number,
            fingerprint: e.fingerprint.clone(),
            dim: e.dim,
        });
        let manifest = Manifest {
            format: 0,
            number: 0,
            store_id,
            sequence,
            nonce,
            embedder,
            unreadable: ids(&self.unreadable),
            unreadable_vectors: ids(&self.unreadable_vectors),
            segments,
            tombstones: None,
        };
        (manifest, dead)
    }
}

/// The copy at one moment, what lies in memory not yet made into a segment: that is done without any lock.
#[derive(Debug)]
pub(in crate::engine) struct Snapshot {
    pub(super) state: State,
    pub(super) dim: Option<usize>,
    pub(super) delta: Vec<Copied>,
}

impl Snapshot {
    /// Number of the manifest that it rests on, 0 for none.
    pub(in crate::engine) fn number(&self) -> u64 {
        self.state.number
    }

    /// Everything as segments.
    ///
    /// # Errors
    /// When a segment cannot hold it.
    pub(in crate::engine) fn into_state(self) -> Result<State> {
        let Self { mut state, dim, delta } = self;
        if delta.is_empty() {
            return Ok(state);
        }
        let mut builder = SegmentBuilder::new(dim);
        for Copied { fields, text, vectors, rows } in &delta {
            builder.push(fields, text, *vectors, rows)?;
        }
        let segment = Segment::in_memory(builder)?;
        let dead = FixedBitSet::with_capacity(segment.max_doc() as usize);
        state.members.push(Member { file: None, segment, dead });
        Ok(state)
    }
}
