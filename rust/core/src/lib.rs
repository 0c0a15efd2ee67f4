//! The engine of Otolith: long-term memory for software agents.
//!
//! An agent writes down episodes, any number of processes share one home directory, and a question gets the right
//! episodes back with an account of how they were found.
//!
//! ```
//! use otolith_core::{Engine, EngineOptions, EpisodePatch, Put, Recall, Wait};
//!
//! # fn main() -> otolith_core::Result<()> {
//! let memory = Engine::in_memory(EngineOptions::default())?;
//! let fields = EpisodePatch { summary: Some("Fixed ERR-4471 by raising the pool size".into()), ..Default::default() };
//! memory.put(&Wait::default(), Put { fields, ..Put::default() })?;
//! let report = memory.recall(&Recall { query: Some("what was err-4471?"), ..Recall::default() })?;
//! assert_eq!(report.hits[0].episode.summary, "Fixed ERR-4471 by raising the pool size");
//! # Ok(())
//! # }
//! ```
//!
//! Modules depend on each other in one direction: `error`, `ids`, `time`; then `episode`; then `text` and `lexical`,
//! `vector`, `store`, which know nothing of each other; `columns` evaluates what `query` asks over `sections`; `index`
//! joins words and vectors; `engine` joins index and store.

mod columns;
pub mod engine;
pub mod episode;
pub mod error;
pub mod explain;
mod files;
pub mod fusion;
pub mod ids;
pub mod index;
pub mod lexical;
mod prefetch;
pub mod query;
pub mod relevance;
mod sections;
pub mod store;
pub mod text;
pub mod time;
mod unicode;
pub mod vector;

pub use engine::{
    Analysis, Attached, Census, Coverage, Engine, EngineOptions, FilterEffect, Hit, IndexInfo, Info,
    LegReport, Legs, PendingText, Put, Recall, Report, StoredVectors, VectorRows, Written,
};
pub use episode::{Episode, EpisodePatch, MetaValue, Origin, Outcome, Scope, Source, Status, Trust};
pub use error::{Error, Holder, Result};
pub use explain::Explanation;
pub use files::fork_generation;
pub use fusion::{Fusion, Weights};
pub use ids::RecordId;
pub use index::{Among, HybridHit, HybridIndex, IdSet, IndexParams, Inserted, Search};
pub use query::{Filter, Kind};
pub use store::Wait;
pub use time::{Clock, ManualClock, Moment, SystemClock};
