//! The thread that takes care of the index of a handle which lives long enough for one.

use super::Engine;
use crate::files::fork;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The thread of a handle, once it has one. Dropping it ends the thread.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    pid: u32,
    bell: Arc<Bell>,
    thread: JoinHandle<()>,
}

/// What a thread waits for.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    ring: Condvar,
    stop: Arc<AtomicBool>,
}

impl Bell {
    fn ring(&self) {
        *lock(&self.rung) = true;
        self.ring.notify_one();
    }

    /// Waits until there is something to do; false when it is to end.
    fn wait(&self) -> bool {
        let mut rung = lock(&self.rung);
        while !*rung {
            rung = self.ring.wait(rung).unwrap_or_else(PoisonError::into_inner);
        }
        *rung = false;
        !self.stop.load(Ordering::Acquire)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// Has the thread look after the index of `engine`, a handle without a thread of its own; starts it if need be.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn call(&self, engine: impl FnOnce() -> Engine) -> std::io::Result<()> {
        let mut running = lock(&self.running);
        if let Some(Running { pid, bell, .. }) = &*running {
            if *pid == fork::process_id() {
                bell.ring();
            }
            return Ok(());
        }
        let bell = Arc::new(Bell::default());
        bell.ring();
        let (engine, heard) = (engine(), Arc::clone(&bell));
        let work = move || {
            while heard.wait() {
                engine.keep(&heard.stop);
            }
            // What lies in memory would be the next process's work.
            engine.file_backlog();
        };
        let thread = std::thread::Builder::new().name("otolith-index".to_owned()).spawn(work)?;
        *running = Some(Running { pid: fork::process_id(), bell, thread });
        Ok(())
    }

    /// Ends the thread: what it was writing is removed, what it was checking stays unchecked. In a forked child there is
    /// no such thread.
    pub(super) fn stop(&self) {
        let Some(Running { pid, bell, thread }) = lock(&self.running).take() else { return };
        if pid == fork::process_id() {
            bell.stop.store(true, Ordering::Release);
            bell.ring();
            let _ = thread.join();
        } else {
            std::mem::forget(thread);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}
