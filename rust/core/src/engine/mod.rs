//! The engine: the one place that knows store and index together.
//!
//! A write is one transaction of the store. The index is a copy in memory that follows the store's change feed:
//! before each answer it applies what was committed since, by whichever process.

mod catching_up;
mod census;
mod document;
mod graphs;
#[cfg(test)]
mod graphs_tests;
mod heal;
mod keeper;
#[cfg(test)]
mod keeper_tests;
#[cfg(all(test, unix))]
mod kill_tests;
mod maintenance;
mod phrases;
mod read;
mod recall;
mod reindex;
mod report;
mod served;
mod tiers;
mod upkeep;
#[cfg(test)]
mod upkeep_tests;
mod vectors;
mod verify;
mod watch;
mod write;

pub use census::Census;
pub use recall::{Legs, Recall};
pub use reindex::ReindexState;
pub use report::{Analysis, Coverage, FilterEffect, Hit, LegReport, Report};
pub use vectors::{Attached, PendingText, StoredVectors, VectorRows};
pub use verify::graph_problem;
pub use write::{Put, Written};

use crate::episode::{Origin, Scope};
use crate::error::{Error, Result};
use crate::index::disk::Directory;
use crate::store::{Durability, Mode, Network, STORE_FILE, Store, StoreOptions, Wait};
use crate::text::{Analyzer, Expansion, Synonyms};
use crate::time::{Clock, Moment, SystemClock};
use keeper::Keeper;
use served::Served;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use upkeep::Upkeep;

/// How a home is opened, and what the handle may see and write.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Every read and write stays within it.
    pub scope: Scope,
    /// Who writes through this handle, unless a record says otherwise.
    pub origin: Origin,
    /// Make the home if it is not there.
    pub create: bool,
    /// Never write a byte.
    pub read_only: bool,
    /// Fingerprint of the handle's embedder, none for keyword search and vectors given by the caller.
    pub embedder: Option<String>,
    /// Longest wait for the write lock.
    pub lock_timeout: Duration,
    /// Who may use the home at the same time.
    pub mode: Mode,
    /// When a write returns.
    pub durability: Durability,
    /// Whether a network file system will do.
    pub network: Network,
    /// How text becomes words to search.
    pub analyzer: Analyzer,
    /// Which words of a question are taken for others. Nothing that is stored depends on it.
    pub expansion: Expansion,
    /// What words are also called, for questions alone; made for the same analyzer.
    pub synonyms: Arc<Synonyms>,
    /// Where "now" comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            scope: Scope::root(),
            origin: Origin::Assistant,
            create: true,
            read_only: false,
            embedder: None,
            lock_timeout: Duration::from_secs(30),
            mode: Mode::default(),
            durability: Durability::default(),
            network: Network::default(),
            analyzer: Analyzer::default(),
            expansion: Expansion::default(),
            synonyms: Arc::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// One open handle on a home. Safe to share between threads.
#[derive(Debug)]
pub struct Engine {
    /// Before the rest: its thread shares that, and ends before the handle does.
    keeper: Keeper,
    store: Arc<Store>,
    options: EngineOptions,
    analyzer: Analyzer,
    /// Fingerprint of the handle's embedder: `options.embedder` until [`Engine::use_embedder`] says otherwise.
    embedder: Arc<RwLock<Option<String>>>,
    served: Arc<RwLock<Served>>,
    /// Held while the copy in memory is brought up to date, so that one thread does the work.
    catching_up: Arc<Mutex<()>>,
    upkeep: Arc<Upkeep>,
}

/// Facts about a handle and its home.
#[derive(Debug, Clone)]
pub struct Info {
    /// Layout version of the store file.
    pub format_version: u32,
    /// When the store was made.
    pub created: Moment,
    /// Records in the store, whatever their scope and status.
    pub records: u64,
    /// Number of the last change.
    pub last_sequence: u64,
    /// Size of the store file, 0 in memory.
    pub file_bytes: u64,
    /// Identity of the text analysis.
    pub analyzer: String,
    /// Rows that cannot be read, by id, with the reason: records, which are left out of every answer, and vectors.
    pub unreadable: BTreeMap<String, String>,
    /// Records that the store counts and nobody finds: a page of the file is damaged.
    pub missing: u64,
    /// What went wrong with the index without stopping anything, oldest first.
    pub notices: Vec<String>,
    /// The index on disk.
    pub index: IndexInfo,
}

/// The index on disk as a handle knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexInfo {
    /// Segments in files that it has mapped.
    pub segments: usize,
    /// Segments it has compared with their checksums since it was opened.
    pub checked: u64,
    /// Times it met damage and went on without what was damaged.
    pub damaged: u64,
    /// The longest that care of the index kept questions waiting, in microseconds.
    pub longest_wait_us: u64,
    /// Vectors that a question may be compared with, some of them of records that are gone.
    pub vectors: usize,
    /// Those of them that a graph leads to; the others are compared one by one.
    pub graph_vectors: usize,
}

impl Engine {
    /// Opens the home at `home`.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(home: &Path, options: EngineOptions) -> Result<Self> {
        let store_options = StoreOptions {
            create: options.create,
            read_only: options.read_only,
            lock_timeout: options.lock_timeout,
            mode: options.mode,
            durability: options.durability,
            network: options.network,
            ..StoreOptions::default()
        };
        let is_new = !home.join(STORE_FILE).exists();
        let store = Store::open(home, &store_options)?;
        if is_new {
            keep_out_of_git(home)?;
        }
        let mut engine = Self::over(store, options);
        let shape = format!("{}-{}", engine.analyzer.id(), document::WEIGHTS);
        engine.upkeep = Arc::new(Upkeep::of(Directory::new(home, &shape), !engine.options.read_only));
        Ok(engine)
    }

    /// A memory that lives in RAM and ends with the handle.
    ///
    /// # Errors
    /// As [`Store::in_memory`].
    pub fn in_memory(options: EngineOptions) -> Result<Self> {
        Ok(Self::over(Store::in_memory()?, options))
    }

    fn over(store: Store, options: EngineOptions) -> Self {
        Self {
            keeper: Keeper::default(),
            store: Arc::new(store),
            embedder: Arc::new(RwLock::new(options.embedder.clone())),
            analyzer: options.analyzer,
            options,
            served: Arc::default(),
            catching_up: Arc::default(),
            upkeep: Arc::default(),
        }
    }

    /// The same handle for its thread, which has no thread.
    fn for_keeper(&self) -> Self {
        Self {
            keeper: Keeper::default(),
            store: Arc::clone(&self.store),
            options: self.options.clone(),
            analyzer: self.analyzer,
            embedder: Arc::clone(&self.embedder),
            served: Arc::clone(&self.served),
            catching_up: Arc::clone(&self.catching_up),
            upkeep: Arc::clone(&self.upkeep),
        }
    }

    /// How the handle was opened.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Fingerprint of the handle's embedder.
    pub fn embedder(&self) -> Option<String> {
        self.embedder.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes this the handle's embedder, as if it had been opened with it: which one it is to be may follow from
    /// [`Engine::home_embedder`], which only an open handle tells.
    pub fn use_embedder(&self, fingerprint: Option<String>) {
        // Nothing is caught up meanwhile, so no copy of the old embedder's vectors comes after this one.
        let _turn = self.catching_up.lock().unwrap_or_else(PoisonError::into_inner);
        // In this order: a question holds the copy while it looks at the embedder.
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let mut own = self.embedder.write().unwrap_or_else(PoisonError::into_inner);
        if *own != fingerprint {
            *own = fingerprint;
            *served = Served::default();
        }
    }

    /// What the handle and its home are.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn info(&self) -> Result<Info> {
        let (unreadable, missing, segments, (graph_vectors, vectors)) = {
            let served = self.served()?;
            let unreadable =
                served.unreadable().map(|(id, reason)| (id.to_string(), reason.to_owned())).collect();
            let segments = served.members().filter(|member| member.file.is_some()).count();
            let vectors = served.index().map_or((0, 0), |index| index.vectors().rows_with_graph());
            (unreadable, served.missing(), segments, vectors)
        };
        let (checked, damaged) = self.upkeep.watch.counts();
        let longest_wait_us = self.upkeep.longest_wait.load(Ordering::Relaxed);
        self.store.read(|view| {
            Ok(Info {
                format_version: view.format_version()?,
                created: view.created()?,
                records: view.count()?,
                last_sequence: view.last_sequence()?,
                file_bytes: self.store.file_len()?,
                analyzer: self.analyzer.id().to_string(),
                unreadable,
                missing,
                notices: self.upkeep.notices(),
                index: IndexInfo { segments, checked, damaged, longest_wait_us, vectors, graph_vectors },
            })
        })
    }

    /// Returns when every write that was acknowledged is on disk; at once unless durability is batched.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn flush(&self, wait: &Wait<'_>) -> Result<()> {
        self.store.flush(wait)
    }

    /// Ends the handle; later calls give a store error.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close(&self) -> Result<()> {
        self.keeper.stop();
        self.store.close()
    }

    /// How many records are left out of every answer because of damage, as far as this handle has looked.
    pub fn unreadable(&self) -> usize {
        self.served.read().unwrap_or_else(PoisonError::into_inner).left_out()
    }

    /// The copy in memory, brought up to the last commit of any process.
    fn served(&self) -> Result<RwLockReadGuard<'_, Served>> {
        let (served, changed) = self.current()?;
        if changed {
            let here = served.position();
            drop(served);
            self.take_care();
            let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
            // Taking care does not move it back, but healing begins it anew, and others may be at that now.
            if here.zip(served.position()).is_some_and(|(here, now)| here.leads_to(now)) {
                return Ok(served);
            }
            drop(served);
            return Ok(self.current()?.0);
        }
        if self.upkeep.watch.wants_look() {
            self.call_keeper();
        }
        Ok(served)
    }

    /// The same without any care of the index, and whether anything had to be applied.
    fn current(&self) -> Result<(RwLockReadGuard<'_, Served>, bool)> {
        let (mut wanted, mut changed) = self.keep_up()?;
        loop {
            {
                let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
                // What was committed after the call began need not be there: while others write faster than this copy
                // follows, waiting for the last of it has no end. Unless the copy has just followed, a higher number may
                // be of a history that the file was put back from.
                let beyond = || served.position().is_some_and(|own| wanted.leads_to(own));
                if served.is_current(wanted) || (changed && beyond()) {
                    return Ok((served, changed));
                }
            }
            if changed {
                wanted = self.store.read(served::position)?;
            }
            self.catch_up(wanted)?;
            changed = true;
        }
    }

    /// The scope of a record written through this handle.
    fn scope_for(&self, wanted: Option<Scope>) -> Result<Scope> {
        let own = &self.options.scope;
        match wanted {
            None => Ok(own.clone()),
            Some(scope) if own.contains(&scope) => Ok(scope),
            Some(scope) => {
                Err(Error::invalid("scope", format!("{scope} is outside this handle's scope {own}")))
            }
        }
    }
}

/// What a project's repository may hold of a home that lies in it: the files people write, not the store.
const GITIGNORE: &str = "*\n!.gitignore\n!config.toml\n!memory/\n!memory/**\n";

/// Leaves a `.gitignore` in a new home, unless there is one.
fn keep_out_of_git(home: &Path) -> Result<()> {
    let path = home.join(".gitignore");
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&path);
    match written.and_then(|mut file| file.write_all(GITIGNORE.as_bytes())) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(Error::Store {
            message: format!(
                "cannot be written: {error}; make room or give write permission, then open again"
            ),
            path,
            source: Some(error),
        }),
        _ => Ok(()),
    }
}
