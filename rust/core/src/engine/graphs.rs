//! Graphs over the vectors of large segments: built long after the segment, in a file of their own, without any lock that a
//! question, a write or another process needs.
//!
//! One process at a time builds, another lock file says which. What is done is written beside now and then, and taken up by
//! whoever goes on, after a kill too. A graph counts once a manifest names it with its segment; until then, and where one
//! cannot be built, the segment's vectors are compared one by one.

use super::Engine;
use super::upkeep::{POLL, wait_for};
use crate::error::{Error, Result};
use crate::index::disk::{Directory, Loaded, SegmentEntry, Turn};
use crate::sections::Sections;
use crate::store::{Progress, Wait};
use crate::vector::{Builder, Effort, Graph, VectorSegment, graph_rows};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is done is written after so long: what a kill costs at most.
const CHECKPOINT: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(10) };

/// What is said when a graph is done and may not be put in place.
const KEPT_ASIDE: &str = "another process is at work in the index; the graph of its vectors is done and kept aside: repeat when that process has ended";

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Built {
    /// There is nothing to build.
    Nothing,
    /// A manifest names another graph than before, or the segment was merged meanwhile: look again.
    Again,
    /// It was to stop, or another process is at it.
    Stopped,
}

impl Engine {
    /// Builds what is missing, until `stop`; for the thread.
    ///
    /// # Errors
    /// When the directory cannot be written or a graph cannot be built.
    pub(super) fn keep_graphs(&self, stop: &Arc<AtomicBool>) -> Result<()> {
        let Some(directory) = self.graph_directory() else { return Ok(()) };
        let Some(_right) = directory.lock_graphs()? else { return Ok(()) };
        let stopped = || stop.load(Ordering::Acquire);
        while build_next(&directory, &stopped, None, &mut |_, _| false)? == Built::Again {
            self.adopt(&directory)?;
        }
        Ok(())
    }

    /// Builds all that is missing now; a graph that another process is building is waited for.
    ///
    /// # Errors
    /// The same; [`Error::Interrupted`] when `wait` or `progress` says so, and [`Error::Store`] when another process does not
    /// let go of the directory until the deadline: what is done is kept, and the next call goes on.
    pub(super) fn build_graphs(&self, wait: &Wait<'_>, progress: &mut Progress<'_>) -> Result<()> {
        let Some(directory) = self.graph_directory() else { return Ok(()) };
        let refused =
            "another process builds its graph of vectors; they are compared one by one until that is done";
        let _right = wait_for(&directory, wait, refused, Directory::lock_graphs)?;
        let interrupted = || wait.interrupted.is_some_and(|interrupted| interrupted());
        loop {
            match build_next(&directory, &interrupted, Some(wait.deadline), progress)? {
                Built::Nothing => return Ok(()),
                Built::Stopped => return Err(Error::Interrupted),
                Built::Again => self.adopt(&directory)?,
            }
        }
    }

    /// The directory, if this handle may change it and its segments hold the vectors of the home's embedder.
    fn graph_directory(&self) -> Option<Directory> {
        let directory = self.upkeep.directory.clone().filter(|directory| directory.path().is_dir());
        directory.filter(|_| {
            let served = self.served.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            self.publishes(&served)
        })
    }
}

/// Builds the graph of the first segment that should have one and has not. A process that is at work in the directory when it
/// is done is waited for, for `patience` if that is given.
fn build_next(
    directory: &Directory,
    stop: &dyn Fn() -> bool,
    patience: Option<Duration>,
    progress: &mut Progress<'_>,
) -> Result<Built> {
    let Some((entry, sections)) = next(directory)? else { return Ok(Built::Nothing) };
    let Some(vectors) = VectorSegment::open(&sections)? else { return Ok(Built::Nothing) };
    let Some(rows) = vectors.codes() else { return Ok(Built::Nothing) };
    // A graph of damaged rows would bear a good checksum.
    VectorSegment::check(&sections)?;
    let begun = directory.begun_graph(&entry.file).and_then(|begun| {
        Graph::check(&begun).ok()?;
        Graph::open(&begun).ok()?
    });
    let mut builder = Builder::begin(rows, begun.as_ref())?;
    drop(begun);
    let (told, written) = (RefCell::new(progress), Cell::new(Instant::now()));
    let ended = Cell::new(false);
    let stopped = || ended.get() || stop();
    loop {
        let done = builder.run_for(&stopped, &mut |done, all| {
            ended.set(ended.get() || (told.borrow_mut())(done as u64, all as u64));
            written.get().elapsed() < CHECKPOINT
        })?;
        if done {
            break;
        }
        directory.write_begun(&entry.file, |out| builder.write(out))?;
        written.set(Instant::now());
        if stopped() {
            return Ok(Built::Stopped);
        }
        // What it is of may have been merged meanwhile.
        if next(directory)?.is_none_or(|(now, _)| now.file != entry.file) {
            return Ok(Built::Again);
        }
    }
    let start = Instant::now();
    let turn = loop {
        if let Some(turn) = directory.lock()? {
            break turn;
        }
        let too_long = patience.is_some_and(|patience| start.elapsed() >= patience);
        if too_long || stopped() {
            directory.write_begun(&entry.file, |out| builder.write(out))?;
            return if too_long {
                Err(Error::store(directory.path(), KEPT_ASIDE))
            } else {
                Ok(Built::Stopped)
            };
        }
        std::thread::sleep(POLL);
    };
    publish(&turn, &entry, &builder)?;
    Ok(Built::Again)
}

/// The first segment that should have a graph and has not.
fn next(directory: &Directory) -> Result<Option<(SegmentEntry, Sections)>> {
    let Some(Loaded { manifest, segments, graphs, .. }) = directory.load()? else { return Ok(None) };
    for ((entry, sections), graph) in manifest.segments.into_iter().zip(segments).zip(graphs) {
        let is_large = |vectors: VectorSegment| {
            vectors.codes().is_some_and(|rows| rows.len() >= least_rows(vectors.dim()))
        };
        if graph.is_none() && VectorSegment::open(&sections)?.is_some_and(is_large) {
            return Ok(Some((entry, sections)));
        }
    }
    Ok(None)
}

/// How hard a question looks.
pub(super) fn effort() -> Effort {
    Effort { exact_below: cfg!(test).then_some(60), ..Effort::default() }
}

/// Rows from which on a segment has a graph.
fn least_rows(dim: usize) -> usize {
    if cfg!(test) { 60 } else { graph_rows(dim) }
}

/// Names the graph in a manifest, if the segment is still in one.
fn publish(turn: &Turn, entry: &SegmentEntry, builder: &Builder<'_>) -> Result<()> {
    let Some(Loaded { mut manifest, tombstones, .. }) = turn.directory().load()? else { return Ok(()) };
    if let Some(own) = manifest.segments.iter_mut().find(|own| own.file == entry.file) {
        own.graph = Some(turn.write_graph(|out| builder.write(out))?.0);
        turn.publish(manifest, &tombstones)?;
    }
    turn.directory().drop_begun(&entry.file);
    Ok(())
}
