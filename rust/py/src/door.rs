//! The one door between Python and the engine. Behind it the interpreter is released, a panic is an
//! [`InternalError`](crate::errors), an error of core is an exception, and a wait has an ear for signals.

use crate::errors;
use otolith_core::error::{Error, Result};
use otolith_core::store::{Progress, Wait};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    /// Where the last panic of this thread happened.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `job` without the interpreter.
pub(crate) fn run<T: Send>(py: Python<'_>, job: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| caught(job)).map_err(|error| errors::to_py(py, &error))
}

/// Runs `job` without the interpreter, for as long as `deadline` if it has to wait for the write lock. Signals are
/// looked for meanwhile; an exception of a signal handler ends the wait and is what the caller gets.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    deadline: Duration,
    job: impl FnOnce(&Wait<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let outcome = py.detach(|| {
        // Off the main thread there are never signals to see; without an interpreter there is nobody to answer.
        #[allow(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is not general in its lifetime"
        )]
        let interrupted = || {
            Python::try_attach(|py| py.check_signals()).is_none_or(|signals| match signals {
                Ok(()) => false,
                Err(error) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    true
                }
            })
        };
        caught(|| job(&Wait { deadline, interrupted: Some(&interrupted) }))
    });
    finished(py, raised, outcome)
}

fn finished<T>(py: Python<'_>, raised: Mutex<Option<PyErr>>, outcome: Result<T>) -> PyResult<T> {
    // Also when the job ended well: a handler's exception must not be lost.
    if let Some(error) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    match outcome {
        Err(Error::Interrupted) => Err(PyKeyboardInterrupt::new_err(())),
        outcome => outcome.map_err(|error| errors::to_py(py, &error)),
    }
}

/// How often the caller of long work hears of it.
const TELL: Duration = Duration::from_millis(100);

/// As [`wait`], for work that tells how far it is: `told(done, total)` is called now and then on this thread. An
/// exception of it, or of a signal handler, ends the work and is what the caller gets.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    deadline: Duration,
    told: Option<&Bound<'_, PyAny>>,
    job: impl FnOnce(&Wait<'_>, &mut Progress<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    let told = told.map(|told| told.clone().unbind());
    let raised: Mutex<Option<PyErr>> = Mutex::new(None);
    let outcome = py.detach(|| {
        let ask = |done: Option<(u64, u64)>| {
            let answer = Python::try_attach(|py| {
                py.check_signals()?;
                match (&told, done) {
                    (Some(told), Some(done)) => told.call1(py, done).map(drop),
                    _ => Ok(()),
                }
            });
            match answer {
                Some(Ok(())) => false,
                Some(Err(error)) => {
                    *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    true
                }
                None => true,
            }
        };
        let interrupted = || ask(None);
        let mut last: Option<Instant> = None;
        let mut progress = |done, total| {
            let now = Instant::now();
            if done < total && last.is_some_and(|last| now - last < TELL) {
                return false;
            }
            last = Some(now);
            ask(Some((done, total)))
        };
        caught(|| job(&Wait { deadline, interrupted: Some(&interrupted) }, &mut progress))
    });
    finished(py, raised, outcome)
}

/// Runs a job that is too short to release the interpreter for.
pub(crate) fn quick<T>(py: Python<'_>, job: impl FnOnce() -> Result<T>) -> PyResult<T> {
    caught(job).map_err(|error| errors::to_py(py, &error))
}

fn caught<T>(job: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|panic| Err(Error::Internal(told(&*panic))))
}

fn told(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<&str>().map(ToString::to_string);
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
    let said = said.unwrap_or_else(|| "panic".to_owned());
    match PLACE.with_borrow_mut(Option::take) {
        Some(place) => format!("{said} (at {place})"),
        None => said,
    }
}

/// Panics of this module are not written to stderr: all of them are caught, here or in the store, and become errors
/// that say the same.
pub(crate) fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string);
            // A panic while the thread's locals are being dropped has nowhere to put it.
            let _ = PLACE.try_with(|slot| slot.replace(place));
        }));
    });
}
