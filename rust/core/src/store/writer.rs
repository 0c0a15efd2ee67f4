//! The writer thread: where write transactions happen that have to be waited for.
//!
//! It blocks in the kernel for the writer lock, as long as it takes; callers wait for the thread, with a deadline
//! and an ear for signals. Jobs that queue up meanwhile share one transaction, hence one commit ([`super::group`]).

use super::Shared;
use super::failure;
use super::group::{Group, Job};
use super::handle::Handle;
use super::write_view::WriteView;
use crate::error::{Error, Lock, Result};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often a waiting caller looks for signals.
const POLL: Duration = Duration::from_millis(50);
/// How long past its deadline a caller waits for a job that has already begun.
const GRACE: Duration = Duration::from_secs(5);

/// Also who does not want to wait gets so long: for its thread to start and to take a lock that is free.
const FLOOR: Duration = Duration::from_millis(200);

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

struct Typed<T, F> {
    work: F,
    result: Option<T>,
    state: Arc<AtomicU8>,
    reply: Option<SyncSender<Result<T>>>,
    alone: bool,
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

    fn answer(&mut self, outcome: Result<()>) {
        let Some(reply) = self.reply.take() else { return };
        let result = self.result.take();
        let missing = || Error::Internal("a write job ended without a result".to_owned());
        // The caller may be gone.
        let _ = reply.send(outcome.and_then(|()| result.ok_or_else(missing)));
    }

    fn is_answered(&self) -> bool {
        self.reply.is_none()
    }

    fn is_alone(&self) -> bool {
        self.alone
    }
}

/// What the writer thread is asked to do.
pub(super) enum Message {
    Job(Box<dyn Job>),
    /// Open the file for writing, which repairs it.
    Open(SyncSender<Result<Arc<Handle>>>),
    /// Say when nothing is open any more that was acknowledged.
    Flush(SyncSender<()>),
    Exit,
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

/// Runs `work`, on the writer thread unless nothing is in its way here, and waits for its commit; `alone`: in a transaction that no other job shares.
pub(super) fn submit<T, F>(shared: &Arc<Shared>, wait: &Wait<'_>, alone: bool, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnMut(&mut WriteView<'_>) -> Result<T> + Send + 'static,
{
    let state = Arc::new(AtomicU8::new(QUEUED));
    let (reply, answer) = sync_channel(1);
    let job = Typed { work, result: None, state: Arc::clone(&state), reply: Some(reply), alone };
    let job: Box<dyn Job> = Box::new(job);
    let others = shared.waiting.fetch_add(1, Ordering::AcqRel);
    let queued = if others == 0 { in_passing(shared, job) } else { Some(job) };
    let sent = queued.map_or(Ok(()), |job| send(shared, Message::Job(job)));
    let outcome = sent.and_then(|()| {
        await_answer(shared, wait, &answer, || {
            state.compare_exchange(QUEUED, CANCELLED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        })
    });
    shared.waiting.fetch_sub(1, Ordering::AcqRel);
    outcome
}

/// See [`Group::run_in_passing`].
fn in_passing(shared: &Shared, job: Box<dyn Job>) -> Option<Box<dyn Job>> {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_WRITER.set(false);
        }
    }
    IS_WRITER.set(true);
    let _reset = Reset;
    Group::run_in_passing(shared, job)
}

/// Has the writer thread open the file for writing.
pub(super) fn open_writable(shared: &Arc<Shared>, wait: &Wait<'_>) -> Result<Arc<Handle>> {
    let (reply, answer) = sync_channel(1);
    send(shared, Message::Open(reply))?;
    await_answer(shared, wait, &answer, || true)
}

/// Waits until what was acknowledged before is on disk, or lost and in [`Shared::lost`].
pub(super) fn flush(shared: &Arc<Shared>, wait: &Wait<'_>) -> Result<()> {
    // A job that reads sees what was committed before it, and must not wait for its own thread.
    if shared.unflushed.load(Ordering::Acquire) == 0 || on_writer_thread() {
        return Ok(());
    }
    let (reply, answer) = sync_channel(1);
    send(shared, Message::Flush(reply))?;
    await_reply(shared, wait, &answer, || true)
}

fn await_answer<T>(
    shared: &Shared,
    wait: &Wait<'_>,
    answer: &Receiver<Result<T>>,
    cancel: impl Fn() -> bool,
) -> Result<T> {
    await_reply(shared, wait, answer, cancel)?
}

fn await_reply<T>(
    shared: &Shared,
    wait: &Wait<'_>,
    answer: &Receiver<T>,
    cancel: impl Fn() -> bool,
) -> Result<T> {
    let started = Instant::now();
    let deadline = wait.deadline.max(FLOOR);
    loop {
        let left = deadline.saturating_sub(started.elapsed());
        let pause = left.min(POLL);
        match answer.recv_timeout(pause) {
            Ok(result) => return Ok(result),
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
            return Err(if interrupted {
                Error::Interrupted
            } else {
                shared.context().locked(Lock::Write, waited)
            });
        }
        // It has begun: its end is near unless the disk hangs.
        return match answer.recv_timeout(GRACE) {
            Ok(result) => Ok(result),
            Err(RecvTimeoutError::Disconnected) => Err(failure::closed(&shared.place.path)),
            Err(RecvTimeoutError::Timeout) => Err(Error::store(
                &shared.place.path,
                "the write had begun and did not end in time, so it may or may not be stored; look before repeating it, or repeat it with the same key",
            )),
        };
    }
}

/// Whether the calling thread is in a write transaction, and must not wait for another.
pub(super) fn on_writer_thread() -> bool {
    IS_WRITER.get()
}

fn serve(shared: &Arc<Shared>, messages: &Receiver<Message>) {
    loop {
        match messages.recv() {
            Ok(Message::Job(job)) => {
                if Group::run(shared, messages, job) {
                    return;
                }
            }
            Ok(Message::Open(reply)) => drop(reply.send(shared.writable_handle())),
            Ok(Message::Flush(reply)) => drop(reply.send(())),
            Ok(Message::Exit) | Err(_) => return,
        }
    }
}
