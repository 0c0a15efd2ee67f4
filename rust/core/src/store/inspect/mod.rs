//! Looking at a store file for damage, and making a whole one from what is left.
//!
//! Everything works on the file itself ([`pages`]), with the writer lock held and never through a database that could
//! write to it. First the trees are walked from the roots of the last commit: every page must hash to what its parent
//! says, every row must decode, every table must agree with every other. A file that passed is given to redb's own
//! check as well, over an [`overlay`]. So redb never sees a page that was not verified, and what it would do with a
//! damaged one, which is to panic or to end the process, is not met.

mod adrift;
mod check;
mod decide;
mod held;
mod held_back;
mod holes;
mod lost_found;
mod overlay;
mod pages;
mod recover;
mod repair;
#[cfg(test)]
mod repair_tests;
mod report;
mod row;
mod salvage;
mod still;
#[cfg(test)]
mod tests;
mod walk;

pub use report::{Loss, Problem, ProblemKind, Repaired, Verified};

use super::copy::Progress;
use super::failure::Context;
use super::handle::Place;
use super::{Store, StoreOptions};
use crate::error::{Error, Result};
use crate::ids::RecordId;
use check::Checker;
use fixedbitset::FixedBitSet;
use overlay::Overlay;
use pages::{Header, Pages};
use redb::{Builder, ConcurrencyMode};
use row::{Key, Table, decode};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use still::Still;
use walk::{BadPage, Found, Shape, Walk};

impl Store {
    /// Checks the store file of `home` for damage; it is not written to and need not be in a state that can be opened.
    ///
    /// Writers wait while it runs, readers do not. `progress` gets bytes done and bytes in all; `true` ends the work.
    ///
    /// # Errors
    /// [`Error::Store`] when there is no file or it cannot be read, [`Error::StoreLocked`] when a writer does not end
    /// in time, [`Error::FormatTooNew`] for a file of a newer version.
    pub fn verify(home: &Path, options: &StoreOptions, progress: &mut Progress<'_>) -> Result<Verified> {
        let place = Place::of(home, options);
        let context = place.context();
        let still = Still::open(&place, &context, true)?;
        let mut pages = Pages::new(Arc::clone(&still.backend)).map_err(|error| context.io(error))?;
        let mut inspection = Inspection::default();
        inspection.run(&mut pages, &context, progress, &mut |_| {})?;
        inspection.checker.check_format(&place.path, false)?;
        Ok(inspection.finish(&still, pages.file_len(), true))
    }
}

/// One look at a file.
#[derive(Default)]
struct Inspection {
    checker: Checker,
    bad: Vec<BadPage>,
    /// Smallest pages that a tree leads to.
    visited: FixedBitSet,
    /// Whether the last commit is looked for among the pages when the header does not lead to it.
    search: bool,
    /// Whether it was.
    adrift: bool,
    /// Rows of `embeddings` by its own count, where that is sure.
    embeddings: Option<u64>,
}

/// A row, and whether it can be used.
struct Judged<'r> {
    table: Table,
    key: Option<&'r Key>,
    found: Found<'r>,
    row: std::result::Result<&'r row::Row, &'r row::RowFault>,
}

impl Inspection {
    fn run(
        &mut self,
        pages: &mut Pages,
        context: &Context,
        progress: &mut Progress<'_>,
        on_row: &mut dyn FnMut(&Judged<'_>),
    ) -> Result<()> {
        let mut stopped = false;
        let mut report = |done, all| {
            stopped = progress(done, all);
            // It goes around the walk, which knows only errors of files.
            if stopped { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
        };
        let outcome = self.walk(pages, &mut report, on_row);
        if stopped || progress(pages.file_len(), pages.file_len()) {
            return Err(Error::Interrupted);
        }
        outcome.map_err(|error| context.io(error))
    }

    fn walk(
        &mut self,
        pages: &mut Pages,
        progress: &mut dyn FnMut(u64, u64) -> io::Result<()>,
        on_row: &mut dyn FnMut(&Judged<'_>),
    ) -> io::Result<()> {
        let Header { current, faults } = pages.header()?;
        for fault in faults {
            self.checker.problem(ProblemKind::File, "", "header", fault);
        }
        self.adrift = current.is_none();
        let (data, system) = match current {
            Some(commit) => (commit.data, commit.system),
            None if self.search => (adrift::last_commit(pages, progress)?, None),
            None => return Ok(()),
        };
        let mut walk = Walk::new(pages, progress);
        let (system, _) = walk.definitions(system, "the tree of redb's own tables")?;
        for (table, sure) in system {
            let tree = format!("redb's own table {}", table.name);
            let (key, value) = (table.key_width, table.value_width);
            let shape = Shape { tree: &tree, table: None, key, value, sure };
            walk.tree(table.root, shape, &mut |_| Ok(()))?;
        }
        let (found, state) = walk.definitions(data, "the tree of tables")?;
        for table in Table::ALL {
            let name = table.name();
            let Some((definition, sure)) = found.iter().find(|(found, _)| found.name == name) else {
                if state.whole {
                    self.checker.problem(ProblemKind::Missing, name, "", "there is no such table");
                }
                continue;
            };
            if definition.key_width != table.key_width() || definition.value_width.is_some() {
                self.checker.problem(ProblemKind::File, name, "", "the table has keys of another kind");
                continue;
            }
            let (key, sure) = (table.key_width(), *sure);
            let shape = Shape { tree: name, table: Some(table), key, value: None, sure };
            if table == Table::Embeddings && sure {
                self.embeddings = Some(definition.rows);
            }
            let checker = &mut self.checker;
            let state = walk.tree(definition.root, shape, &mut |found| {
                judge(table, found, checker, on_row);
                Ok(())
            })?;
            self.checker.table(table, definition.rows, state);
        }
        self.bad = walk.bad;
        self.visited = walk.visited;
        self.tell_bad_pages();
        Ok(())
    }

    /// What was found; redb is asked only about a file that has no fault so far.
    fn finish(&mut self, still: &Still, bytes: u64, ask: bool) -> Verified {
        let records = self.checker.finish();
        if ask && self.checker.problems.is_empty() {
            self.ask_redb(still);
        }
        let problems = std::mem::take(&mut self.checker.problems);
        Verified { records, vectors: self.checker.vectors, problems, bytes, held_ms: still.held_ms() }
    }

    /// Whether rows of records may have been in pages that are lost.
    fn content_lost(&self) -> bool {
        let of_records = |bad: &&BadPage| bad.table.is_none_or(|table| table == Table::Episodes);
        self.bad.iter().filter(of_records).any(|bad| !bad.mended && (bad.rows || !bad.passed))
    }

    /// Where rows of `embeddings` are missing: the last key before each place.
    fn gaps(&self) -> Vec<Option<Vec<u8>>> {
        let of_vectors = |bad: &&BadPage| bad.table == Some(Table::Embeddings) && !bad.mended;
        self.bad.iter().filter(of_vectors).map(|bad| bad.after.clone()).collect()
    }

    fn tell_bad_pages(&mut self) {
        let mut problems = Vec::new();
        for bad in &self.bad {
            let (tree, len) = (&bad.tree, bad.at.len);
            let detail = if bad.mended {
                format!("a page of {len} bytes of {tree} has one flipped bit")
            } else if bad.passed {
                format!("a page of {len} bytes of {tree} is not what was written")
            } else {
                format!("a page of {len} bytes of {tree} cannot be read, nor what hangs below it")
            };
            let table = bad.table.map_or("", Table::name).to_owned();
            let id = format!("byte {}", bad.at.offset);
            problems.push(Problem { kind: ProblemKind::File, table, id, detail });
        }
        // What is wrong with the file comes before what follows from it.
        let rest = std::mem::take(&mut self.checker.problems);
        let (file, rest): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| p.kind == ProblemKind::File);
        self.checker.problems = file.into_iter().chain(problems).chain(rest).collect();
    }

    /// Gives a file in which every page and row was found good to redb's check, which knows what pages are in use.
    fn ask_redb(&mut self, still: &Still) {
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let overlay = Overlay::over(Arc::clone(&still.backend)).map_err(redb::StorageError::from)?;
            let mut builder = Builder::new();
            builder.set_concurrency_mode(ConcurrencyMode::ExclusiveWriter).set_cache_size(CHECK_CACHE);
            let mut db = builder.create_with_backend(overlay)?;
            db.check_integrity()
        }));
        let detail = match asked {
            Ok(Ok(true)) => return,
            Ok(Ok(false)) => {
                "its account of pages in use is wrong; it was right after redb's own repair".to_owned()
            }
            Ok(Err(error)) => format!("redb's own check ends with: {error}"),
            Err(_) => "redb's own check failed in an unforeseen way".to_owned(),
        };
        self.checker.problem(ProblemKind::File, "", "", detail);
    }
}

/// Memory for pages in redb's check.
const CHECK_CACHE: usize = 64 << 20;

fn judge(table: Table, found: Found<'_>, checker: &mut Checker, on_row: &mut dyn FnMut(&Judged<'_>)) {
    let key = Key::parse(table, found.key);
    // Of a damaged page, what has no id any more is not a row to tell of: the page is told of, and kept.
    let named = key.as_ref().and_then(Key::record).is_some_and(|id| RecordId::from_bytes(id).is_ok());
    let told = found.whole || named;
    let Some(key) = key else {
        if !told {
            return;
        }
        let fault = row::RowFault::Foreign(format!("its key is none of the table {}", table.name()));
        checker.bad_row(table, None, &row::hex(found.key), &fault);
        on_row(&Judged { table, key: None, found, row: Err(&fault) });
        return;
    };
    match decode(table, &key, found.value) {
        Ok(row) => {
            on_row(&Judged { table, key: Some(&key), found, row: Ok(&row) });
            checker.row(key, &row);
        }
        Err(_) if !told => {}
        Err(fault) => {
            on_row(&Judged { table, key: Some(&key), found, row: Err(&fault) });
            checker.bad_row(table, Some(&key), "", &fault);
        }
    }
}
