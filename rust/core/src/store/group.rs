//! Jobs that share a write transaction.
//!
//! Full durability: what queued up while the lock was waited for runs together, and each caller hears of it after the
//! commit. Batched durability: the transaction stays open for more jobs, each caller hears of it as soon as its job
//! has run, and the commit follows within [`WINDOW`].
//!
//! A job that fails before it wrote anything (a refusal, the usual case) fails alone and the transaction goes on. After
//! a write there is no way back but to abort: then the others run again, in their order and without it.

use super::backend::in_passing;
use super::failure::{self, Context};
use super::handle::Handle;
use super::tables::OpenTables;
use super::write_view::WriteView;
use super::writer::Message;
use super::{Durability, Shared};
use crate::error::{Error, Result};
use redb::{Database, TransactionError, WriteTransaction};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, channel};
use std::time::{Duration, Instant};

/// At most this many jobs share a transaction: a bound on what has to run again when one fails.
const GROUP: usize = 256;
/// The same when they were told of their success before the commit: a bound on what a crash can take.
const BATCH: usize = 1000;
/// How long a transaction takes in jobs; what others wait for it, and with batched durability the most that a crash
/// takes. A loop that does nothing but write (8 microseconds each, measured) comes to [`BATCH`] in a fifth of it.
pub(super) const WINDOW: Duration = Duration::from_millis(50);
/// With batched durability, a transaction that hears of no job for this long is committed.
const IDLE: Duration = Duration::from_millis(5);

/// One caller's work, run on the writer thread or, when nothing is in its way, on the caller's.
pub(super) trait Job: Send {
    /// Marks it begun; `false` if its caller gave up before.
    fn begin(&self) -> bool;
    /// Runs it in a transaction. May be called again after an abort.
    fn run(&mut self, view: &mut WriteView<'_>) -> Result<()>;
    /// Tells the caller how it ended, the first time.
    fn answer(&mut self, outcome: Result<()>);
    /// Whether the caller was told.
    fn is_answered(&self) -> bool;
    /// Whether no other job may share its transaction.
    fn is_alone(&self) -> bool;
}

/// Why a transaction ended without a commit.
enum Stop {
    /// One job failed after it had written, and was told so. The others are to run again without it.
    Again,
    /// With the lock held it turned out that a compaction put another file in the place of the locked one: nothing
    /// ran, all is to be done there. So nothing is ever acknowledged that went to a file nobody reads any more.
    Moved,
    /// Nothing of it can be stored.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The jobs of one transaction, and of what has to be repeated of it.
pub(super) struct Group<'a> {
    shared: &'a Shared,
    messages: &'a Receiver<Message>,
    batched: bool,
    /// To run next, before what is in the queue.
    ahead: VecDeque<Box<dyn Job>>,
    /// Ran in the open transaction.
    done: Vec<Box<dyn Job>>,
    /// Want to hear when nothing is open any more.
    flushes: Vec<SyncSender<()>>,
    began: Instant,
    /// Whether the thread is to end.
    exit: bool,
}

impl<'a> Group<'a> {
    /// Runs `first` and what comes along; returns whether the thread is to end afterwards.
    pub(super) fn run(shared: &'a Shared, messages: &'a Receiver<Message>, first: Box<dyn Job>) -> bool {
        let mut group = Self::of(shared, messages, first);
        let outcome = catch_unwind(AssertUnwindSafe(|| group.commit()));
        // Only a bug outside the guarded parts panics here; the callers must not wait for their deadline.
        let outcome = outcome.unwrap_or_else(|panic| Err(shared.context().panicked(&*panic)));
        if let Err(error) = outcome {
            group.fail(error);
        }
        shared.unflushed.store(0, Ordering::Release);
        for flush in group.flushes {
            let _ = flush.send(());
        }
        group.exit
    }

    /// Runs `job` on the calling thread, if nothing is in its way: the file is open for writing, nobody has the lock and
    /// nobody waits for it. Handing it to the writer thread and hearing from it takes two wake-ups, a tenth of a commit.
    /// Gives the job back, which has not begun then, when it is one for the writer thread.
    pub(super) fn run_in_passing(shared: &Shared, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
        if job.is_alone() || shared.durability != Durability::Full {
            return Some(job);
        }
        let Ok(_turn) = shared.passing.try_lock() else { return Some(job) };
        let handle = shared.current().as_ref().map(Arc::clone);
        let Some(handle) = handle.filter(|_| !shared.closed.load(Ordering::Acquire)) else {
            return Some(job);
        };
        let begin = || in_passing(|| handle.writable().map(Database::try_begin_write));
        let transaction = match catch_unwind(AssertUnwindSafe(begin)) {
            Ok(Some(Ok(transaction))) => transaction,
            Ok(None | Some(Err(TransactionError::WouldBlock))) => return Some(job),
            failed => {
                // The writer thread opens the file anew, and what fails there is told.
                match failed {
                    Ok(Some(Err(error))) => drop(handle.context.fail(error)),
                    Err(panic) => drop(handle.context.panicked(&*panic)),
                    _ => {}
                }
                shared.forget_dead(&handle);
                return Some(job);
            }
        };
        let (_, no_more) = channel();
        let mut group = Group::of(shared, &no_more, job);
        let outcome = catch_unwind(AssertUnwindSafe(|| group.run_in(&handle, transaction)));
        let outcome = outcome.unwrap_or_else(|panic| Err(Stop::Failed(handle.context.panicked(&*panic))));
        shared.forget_dead(&handle);
        match outcome {
            Ok(()) => group.tell(),
            Err(Stop::Again) => {}
            Err(Stop::Moved) => {
                shared.let_go(&handle);
                return group.ahead.pop_front();
            }
            Err(Stop::Failed(error)) => group.fail(error),
        }
        None
    }

    fn of(shared: &'a Shared, messages: &'a Receiver<Message>, first: Box<dyn Job>) -> Self {
        Self {
            shared,
            messages,
            batched: shared.durability == Durability::Batched,
            ahead: VecDeque::from([first]),
            done: Vec::new(),
            flushes: Vec::new(),
            began: Instant::now(),
            exit: false,
        }
    }

    /// Tells all that ran of their success.
    fn tell(&mut self) {
        for mut job in self.done.drain(..) {
            job.answer(Ok(()));
        }
    }

    fn commit(&mut self) -> Result<()> {
        loop {
            let handle = self.shared.writable_handle()?;
            let outcome = catch_unwind(AssertUnwindSafe(|| self.transact(&handle)));
            let outcome = outcome.unwrap_or_else(|panic| Err(Stop::Failed(handle.context.panicked(&*panic))));
            self.shared.forget_dead(&handle);
            match outcome {
                Ok(()) => {
                    self.tell();
                    if self.ahead.is_empty() {
                        return Ok(());
                    }
                }
                Err(Stop::Moved) => self.shared.let_go(&handle),
                Err(Stop::Again) => {
                    for job in self.done.drain(..).rev() {
                        self.ahead.push_front(job);
                    }
                }
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
    }

    fn transact(&mut self, handle: &Arc<Handle>) -> Result<(), Stop> {
        let context = &handle.context;
        let Some(db) = handle.writable() else {
            return Err(Error::Internal("the writer thread has a read-only handle".to_owned()).into());
        };
        let transaction = db.begin_write().map_err(|e| context.fail(e))?;
        self.run_in(handle, transaction)
    }

    /// Runs what there is in `transaction`.
    fn run_in(&mut self, handle: &Arc<Handle>, transaction: WriteTransaction) -> Result<(), Stop> {
        let context = &handle.context;
        self.began = Instant::now();
        if !handle.is_in_place()? {
            return Err(Stop::Moved);
        }
        let Some(first) = self.next(handle) else { return Ok(()) };
        if let Err(error) = handle.check_writable_format() {
            self.done.push(first);
            return Err(error.into());
        }
        let changed = {
            let tables = OpenTables::open(&transaction).map_err(|e| context.fail(e));
            let view = tables.and_then(|tables| WriteView::new(tables, context));
            let mut view = match view {
                Ok(view) => view,
                Err(error) => {
                    self.done.push(first);
                    return Err(error.into());
                }
            };
            let mut job = Some(first);
            while let Some(this) = job {
                self.run_job(this, &mut view, context)?;
                job = self.next(handle);
            }
            view.finish()?
        };
        if changed {
            // Again: with batched durability time has passed, and what goes to a file that was removed or replaced
            // meanwhile is lost. A compaction does not come in between, as it needs the lock that is held.
            if !handle.is_in_place()? {
                return Err(handle.replaced().into());
            }
            transaction.commit().map_err(|e| context.fail(e))?;
        }
        Ok(())
    }

    fn run_job(
        &mut self,
        mut job: Box<dyn Job>,
        view: &mut WriteView<'_>,
        context: &Context,
    ) -> Result<(), Stop> {
        view.begin_job()?;
        let was_dead = context.is_dead();
        let outcome = catch_unwind(AssertUnwindSafe(|| job.run(view)));
        let (error, wrote) = match outcome {
            Ok(Ok(())) => {
                if self.batched && !job.is_answered() {
                    // Before the answer: who has it and reads waits for the commit.
                    self.shared.unflushed.fetch_add(1, Ordering::AcqRel);
                    job.answer(Ok(()));
                }
                self.done.push(job);
                return Ok(());
            }
            Ok(Err(error)) if context.is_dead() && !was_dead => {
                self.done.push(job);
                return Err(Stop::Failed(error));
            }
            Ok(Err(error)) => (error, view.job_wrote()?),
            Err(panic) => (context.panicked(&*panic), true),
        };
        if job.is_answered() {
            self.shared.lose(1, &error);
        } else {
            job.answer(Err(error));
        }
        if wrote { Err(Stop::Again) } else { Ok(()) }
    }

    /// The next job of this transaction, waited for where that is worth it.
    fn next(&mut self, handle: &Arc<Handle>) -> Option<Box<dyn Job>> {
        loop {
            if self.done.iter().any(|job| job.is_alone()) {
                return None;
            }
            if let Some(job) = self.ahead.pop_front() {
                if job.is_alone() && !self.done.is_empty() {
                    self.ahead.push_front(job);
                    return None;
                }
                let given_up = self.shared.abandoned.load(Ordering::Acquire) && !job.is_answered();
                if !given_up && job.begin() {
                    return Some(job);
                }
                continue;
            }
            let most = if self.batched { BATCH } else { GROUP };
            let left = WINDOW.saturating_sub(self.began.elapsed());
            if self.exit || !self.flushes.is_empty() || self.done.len() >= most || left.is_zero() {
                return None;
            }
            let message = if self.batched && !self.done.is_empty() {
                self.messages.recv_timeout(left.min(IDLE)).ok()
            } else {
                self.messages.try_recv().ok()
            };
            match message? {
                Message::Job(job) => self.ahead.push_back(job),
                Message::Open(reply) => drop(reply.send(Ok(Arc::clone(handle)))),
                Message::Flush(reply) => self.flushes.push(reply),
                Message::Exit => self.exit = true,
            }
        }
    }

    /// Tells all of them that nothing was stored.
    fn fail(&mut self, error: Error) {
        let mut waiting = Vec::new();
        let mut lost = 0;
        for job in self.done.drain(..).chain(self.ahead.drain(..)) {
            if job.is_answered() {
                lost += 1;
            } else {
                waiting.push(job);
            }
        }
        if lost > 0 {
            self.shared.lose(lost, &error);
        }
        // The error as it is goes to one of them: the only one, where it is a job's own.
        let last = waiting.pop();
        for mut job in waiting {
            job.answer(Err(failure::copy(&error)));
        }
        if let Some(mut job) = last {
            job.answer(Err(error));
        }
    }
}
