//! A walk over every row of a store: that each can be read, and how much there is.

use super::Engine;
use crate::error::{Error, Result};
use crate::store::{Embedded, EmbedderRow, NO_EMBEDDER, ReadView};
use std::ops::ControlFlow;

/// Changes that are looked at in one piece.
const CHANGES_AT_ONCE: usize = 10_000;

/// What a walk over every row found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Records that can be read, of every scope and status.
    pub records: u64,
    /// Rows of vectors, refusals left out, and those of embedders whose place another took.
    pub vectors: u64,
    /// Bytes of those records as they are stored and of those vectors, about: what a file without holes would hold at least.
    pub payload_bytes: u64,
    /// Number of the last change.
    pub last_sequence: u64,
    /// What cannot be read, each with its reason.
    pub unreadable: Vec<String>,
}

impl Engine {
    /// Reads every record, vector and change of the home in one snapshot, without building an index.
    ///
    /// # Errors
    /// Store errors; a row that cannot be read is listed.
    pub fn census(&self) -> Result<Census> {
        self.store.read(|view| {
            let mut census = Census { last_sequence: view.last_sequence()?, ..Census::default() };
            view.episodes(None, false, &mut |_, episode| {
                match episode {
                    Ok(episode) => {
                        census.records += 1;
                        census.payload_bytes += episode.to_stored()?.len() as u64;
                    }
                    Err(damage) => census.unreadable.push(reason(damage)?),
                }
                Ok(ControlFlow::Continue(()))
            })?;
            let none = EmbedderRow { number: NO_EMBEDDER, fingerprint: String::new(), dim: 0 };
            let embedders = view.embedders()?.into_iter().filter(|embedder| !embedder.is_replaced());
            for embedder in embedders.chain([none]) {
                view.embeddings(embedder.number, &mut |_, row| {
                    match row {
                        Ok(row) => {
                            if let Embedded::Row(vector) = row.vector {
                                census.vectors += 1;
                                census.payload_bytes += size_of_val(vector.as_slice()) as u64;
                            }
                        }
                        Err(damage) => census.unreadable.push(reason(damage)?),
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            let last = census.last_sequence;
            match feed_end(view, last) {
                Ok(end) if end < last => {
                    census.unreadable.push(format!("the change feed ends at {end} and not at {last}"));
                }
                Ok(_) => {}
                Err(damage) => census.unreadable.push(reason(damage)?),
            }
            Ok(census)
        })
    }
}

/// Reads every change; gives the number of the one it came to.
fn feed_end(view: &ReadView<'_>, last_sequence: u64) -> Result<u64> {
    let mut end = 0;
    while end < last_sequence {
        let changes = view.changes_since(end, CHANGES_AT_ONCE)?;
        let Some(last) = changes.last() else { break };
        end = last.sequence;
    }
    Ok(end)
}

/// What is wrong with a row; any other error ends the walk.
fn reason(damage: Error) -> Result<String> {
    match damage {
        Error::StoreCorrupt { .. } | Error::FormatTooNew { .. } => Ok(damage.to_string()),
        other => Err(other),
    }
}
