//! The writer thread: the only place where write transactions happen.
//!
//! It blocks in the kernel for the writer lock, as long as it takes; callers wait for the thread, with a deadline
//! and an ear for signals. Jobs that queue up meanwhile share one transaction, hence one commit. If one of them
//! fails, the transaction is aborted and each runs again in one of its own, so that a failure touches nobody else.

use super::Shared;
use super::failure::{self, Context};
use super::handle::Handle;
use super::tables::OpenTables;
use super::write_view::WriteView;
use crate::error::{Error, Result};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// At most this many jobs share a transaction: a bound on what has to run again when one fails.
const GROUP: usize = 256;
/// How often a waiting caller looks for signals.
const POLL: Duration = Duration::from_millis(50);
/// How long past its deadline a caller waits for a job that has already begun.
const GRACE: Duration = Duration::from_secs(5);

const QUEUED: u8 = 0;
const BEGUN: u8 = 1;
const CANCELLED: u8 = 2;

thread_local! {
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

/// How long to wait for the lock, and for what else to look meanwhile.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// The longest wait before [`Error::StoreLocked`]; 30 s by default.
    pub deadline: Duration,
    /// Asked every 50 ms; `true` ends the wait with [`Error::Interrupted`].
    pub interrupted: Option<&'a dyn Fn() -> bool>,
}

impl Default for Wait<'_> {
    fn default() -> Self {
        Self { deadline: super::LOCK_TIMEOUT, interrupted: None }
    }
}

/// One caller's work, run on the writer thread.
trait Job: Send {
    /// Marks it begun; `false` if its caller gave up before.
    fn begin(&self) -> bool;
    /// Runs it in a transaction. May be called again after an abort.
    fn run(&mut self, view: &mut WriteView<'_>) -> Result<()>;
    /// Tells the caller how it ended.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

struct Typed<T, F> {
    work: F,
    result: Option<T>,
    state: Arc<AtomicU8>,
    reply: SyncSender<Result<T>>,
}

impl<T: Send, F: FnMut(&mut WriteView<'_>) -> Result<T> + Send> Job for Typed<T, F> {
    fn begin(&self) -> bool {
        match self.state.compare_exchange(QUEUED, BEGUN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(state) => state == BEGUN,
        }
    }

    fn run(&mut self, view: &mut WriteView<'_>) -> Result<()> {
        self.result = None;
        self.result = Some((self.work)(view)?);
        Ok(())
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { result, reply, .. } = *self;
        let missing = || Error::Internal("a write job ended without a result".to_owned());
        // The caller may be gone.
        let _ = reply.send(outcome.and_then(|()| result.ok_or_else(missing)));
    }
}

/// The jobs that share a transaction.
type Group = Vec<Box<dyn Job>>;

enum Message {
    Job(Box<dyn Job>),
    /// Open the file for writing, which repairs it.
    Open(SyncSender<Result<Arc<Handle>>>),
    Exit,
}

/// Why a transaction failed, and whether that is one job's own doing: then the others are tried without it.
struct Failure {
    error: Error,
    isolate: bool,
    /// Another file took the place of the one that was locked: nothing was done, it is to be done there.
    moved: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, isolate: false, moved: false }
    }
}

/// The caller's end of a writer thread.
pub(super) struct Writer {
    queue: Sender<Message>,
    ended: Receiver<()>,
}

impl Writer {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self> {
        let (queue, messages) = channel();
        let (end, ended) = channel();
        let shared_there = Arc::clone(shared);
        std::thread::Builder::new()
            .name("otolith-writer".to_owned())
            .spawn(move || {
                IS_WRITER.set(true);
                serve(&shared_there, &messages);
                drop(shared_there);
                let _ = end.send(());
            })
            .map_err(|error| Error::Store {
                path: shared.place.path.clone(),
                message: "cannot start a thread; end some programs, then repeat".to_owned(),
                source: Some(error),
            })?;
        Ok(Self { queue, ended })
    }

    /// Asks the thread to end after the jobs it has, and waits for that at most `bound`. Returns whether it ended: a
    /// thread that is blocked in the kernel is left behind.
    pub(super) fn stop(self, bound: Duration) -> bool {
        self.queue.send(Message::Exit).is_err() || self.ended.recv_timeout(bound).is_ok()
    }
}

/// Hands a message to the writer thread, which is started by the first.
fn send(shared: &Arc<Shared>, message: Message) -> Result<()> {
    let mut writer = shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
    shared.check_usable()?;
    let queue = match &mut *writer {
        Some(writer) => &writer.queue,
        none => &none.insert(Writer::start(shared)?).queue,
    };
    queue.send(message).map_err(|_| failure::closed(&shared.place.path))
}

/// Runs `work` on the writer thread and waits for its commit.
pub(super) fn submit<T, F>(shared: &Arc<Shared>, wait: &Wait<'_>, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnMut(&mut WriteView<'_>) -> Result<T> + Send + 'static,
{
    let state = Arc::new(AtomicU8::new(QUEUED));
    let (reply, answer) = sync_channel(1);
    let job = Typed { work, result: None, state: Arc::clone(&state), reply };
    shared.waiting.fetch_add(1, Ordering::AcqRel);
    let outcome = send(shared, Message::Job(Box::new(job))).and_then(|()| {
        await_answer(shared, wait, &answer, || {
            state.compare_exchange(QUEUED, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        })
    });
    shared.waiting.fetch_sub(1, Ordering::AcqRel);
    outcome
}

/// Has the writer thread open the file for writing.
pub(super) fn open_writable(shared: &Arc<Shared>, wait: &Wait<'_>) -> Result<Arc<Handle>> {
    let (reply, answer) = sync_channel(1);
    send(shared, Message::Open(reply))?;
    await_answer(shared, wait, &answer, || true)
}

fn await_answer<T>(
    shared: &Shared,
    wait: &Wait<'_>,
    answer: &Receiver<Result<T>>,
    cancel: impl Fn() -> bool,
) -> Result<T> {
    let started = Instant::now();
    let deadline = wait.deadline;
    loop {
        let left = deadline.saturating_sub(started.elapsed());
        let pause = left.min(POLL);
        match answer.recv_timeout(pause) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(failure::closed(&shared.place.path)),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let interrupted = wait.interrupted.is_some_and(|interrupted| interrupted());
        let abandoned = shared.abandoned.load(Ordering::Acquire);
        if abandoned && cancel() {
            return Err(failure::closed(&shared.place.path));
        }
        if !interrupted && !abandoned && started.elapsed() < deadline {
            continue;
        }
        if cancel() {
            let waited = started.elapsed().as_millis() as u64;
            return Err(if interrupted { Error::Interrupted } else { shared.context().locked(waited) });
        }
        // It has begun: its end is near unless the disk hangs.
        return match answer.recv_timeout(GRACE) {
            Ok(result) => result,
            Err(RecvTimeoutError::Disconnected) => Err(failure::closed(&shared.place.path)),
            Err(RecvTimeoutError::Timeout) => Err(Error::store(
                &shared.place.path,
                "the write had begun and did not end in time, so it may or may not be stored; look before repeating it, or repeat it with the same key",
            )),
        };
    }
}

/// Whether the calling thread is a writer thread, which must not wait for itself.
pub(super) fn on_writer_thread() -> bool {
    IS_WRITER.get()
}

fn serve(shared: &Arc<Shared>, messages: &Receiver<Message>) {
    let mut group: Group = Vec::new();
    loop {
        match messages.recv() {
            Ok(Message::Job(job)) => group.push(job),
            Ok(Message::Open(reply)) => {
                let _ = reply.send(shared.writable_handle());
                continue;
            }
            Ok(Message::Exit) | Err(_) => return,
        }
        let mut exit = false;
        let outcome = catch_unwind(AssertUnwindSafe(|| run_group(shared, messages, &mut group, &mut exit)));
        if let Err(panic) = outcome {
            // Only a bug outside the guarded parts comes here; the callers must not wait for their deadline.
            let context = shared.context();
            for job in group.drain(..) {
                job.finish(Err(context.panicked(&*panic)));
            }
        }
        if exit {
            return;
        }
    }
}

/// Opens, locks, gathers what queued up meanwhile, runs it.
fn run_group(shared: &Arc<Shared>, messages: &Receiver<Message>, group: &mut Group, exit: &mut bool) {
    let mut gather = |handle: &Arc<Handle>, group: &mut Group| {
        while group.len() < GROUP && !*exit {
            match messages.try_recv() {
                Ok(Message::Job(job)) => group.push(job),
                Ok(Message::Open(reply)) => drop(reply.send(Ok(Arc::clone(handle)))),
                Ok(Message::Exit) => *exit = true,
                Err(_) => break,
            }
        }
        let abandoned = shared.abandoned.load(Ordering::Acquire);
        group.retain(|job| !abandoned && job.begin());
    };
    let (handle, outcome) = match transact_in_place(shared, group, &mut gather) {
        Ok(outcome) => outcome,
        Err(error) => return fail_all(group, error),
    };
    match outcome {
        Ok(()) => {
            for job in group.drain(..) {
                job.finish(Ok(()));
            }
        }
        Err(failure) if group.len() == 1 || !failure.isolate => {
            shared.forget_dead(&handle);
            fail_all(group, failure.error);
        }
        Err(_) => {
            shared.forget_dead(&handle);
            for job in group.drain(..) {
                let mut alone = vec![job];
                let outcome = transact_in_place(shared, &mut alone, &mut |_, _| {});
                let outcome = outcome.and_then(|(handle, outcome)| {
                    shared.forget_dead(&handle);
                    outcome.map_err(|failure| failure.error)
                });
                if let Some(job) = alone.pop() {
                    job.finish(outcome);
                }
            }
        }
    }
}

/// Takes up what else is queued, once the lock of this handle is held.
type Gather<'a> = dyn FnMut(&Arc<Handle>, &mut Group) + 'a;

/// Opens the file, and transacts; again in the new file when it turns out, with the lock held, that a compaction put
/// another one in its place. So nothing is ever acknowledged that went to a file nobody reads any more.
fn transact_in_place(
    shared: &Arc<Shared>,
    group: &mut Group,
    gather: &mut Gather<'_>,
) -> Result<(Arc<Handle>, Result<(), Failure>)> {
    loop {
        let handle = shared.writable_handle()?;
        match transact(&handle, group, gather) {
            Err(Failure { moved: true, .. }) => shared.let_go(&handle),
            outcome => return Ok((handle, outcome)),
        }
    }
}

/// One write transaction over the jobs that are left once the lock is held.
fn transact(handle: &Arc<Handle>, group: &mut Group, gather: &mut Gather<'_>) -> Result<(), Failure> {
    let context = &handle.context;
    let guarded = catch_unwind(AssertUnwindSafe(|| {
        let Some(db) = handle.writable() else {
            return Err(Error::Internal("the writer thread has a read-only handle".to_owned()).into());
        };
        let transaction = db.begin_write().map_err(|e| context.fail(e))?;
        gather(handle, group);
        if group.is_empty() {
            return Ok(());
        }
        if !handle.is_in_place()? {
            let error = Error::Internal("a write went to a file that was replaced".to_owned());
            return Err(Failure { error, isolate: false, moved: true });
        }
        handle.check_writable_format()?;
        let changed = {
            let tables = OpenTables::open(&transaction).map_err(|e| context.fail(e))?;
            let mut view = WriteView::new(tables, context)?;
            for job in &mut *group {
                run_job(&mut **job, &mut view, context)?;
            }
            view.finish()?
        };
        if changed {
            transaction.commit().map_err(|e| context.fail(e))?;
        }
        Ok(())
    }));
    guarded.unwrap_or_else(|panic| Err(context.panicked(&*panic).into()))
}

fn run_job(job: &mut dyn Job, view: &mut WriteView<'_>, context: &Context) -> Result<(), Failure> {
    match catch_unwind(AssertUnwindSafe(|| job.run(view))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure { error, isolate: !context.is_dead(), moved: false }),
        Err(panic) => Err(Failure { error: context.panicked(&*panic), isolate: true, moved: false }),
    }
}

fn fail_all(group: &mut Group, error: Error) {
    // The error as it is goes to one of them: the only one, where it is a job's own.
    let first = group.pop();
    for job in group.drain(..) {
        job.finish(Err(failure::copy(&error)));
    }
    if let Some(job) = first {
        job.finish(Err(error));
    }
}
