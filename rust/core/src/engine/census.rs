//! A walk over every row of a store: that each can be read, and how much there is.

use super::Engine;
use crate::error::{Error, Result};
use crate::store::{Embedded, EmbedderRow, NO_EMBEDDER};
use std::ops::ControlFlow;

/// Changes that are looked at in one piece.
const CHANGES_AT_ONCE: usize = 10_000;

/// What a walk over every row found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Records that can be read, of every scope and status.
    pub records: u64,
    /// Rows of vectors, refusals left out.
    pub vectors: u64,
    /// Bytes of those records as JSON and of those vectors, about: what a file without holes would hold at least.
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
                        census.payload_bytes += episode.to_json()?.len() as u64;
                    }
                    Err(damage) => census.unreadable.push(reason(damage)?),
                }
                Ok(ControlFlow::Continue(()))
            })?;
            let none = EmbedderRow { number: NO_EMBEDDER, fingerprint: String::new(), dim: 0 };
            for embedder in view.embedders()?.into_iter().chain([none]) {
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
            let mut after = 0;
            while after < census.last_sequence {
                match view.changes_since(after, CHANGES_AT_ONCE) {
                    Ok(changes) => match changes.last() {
                        Some(last) => after = last.sequence,
                        None => {
                            let lost = census.last_sequence;
                            census
                                .unreadable
                                .push(format!("the change feed ends at {after} and not at {lost}"));
                            break;
                        }
                    },
                    Err(damage) => {
                        census.unreadable.push(reason(damage)?);
                        break;
                    }
                }
            }
            Ok(census)
        })
    }
}

/// What is wrong with a row; any other error ends the walk.
fn reason(damage: Error) -> Result<String> {
    match damage {
        Error::StoreCorrupt { .. } | Error::FormatTooNew { .. } => Ok(damage.to_string()),
        other => Err(other),
    }
}
