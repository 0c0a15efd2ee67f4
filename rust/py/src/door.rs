//! The one door between Python and the engine. Behind it the interpreter is released, a panic is an
//! [`InternalError`](crate::errors), an error of core is an exception, and a wait has an ear for signals.

use crate::errors;
use otolith_core::error::{Error, Result};
use otolith_core::store::Wait;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

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
    // Also when the job ended well: a handler's exception must not be lost.
    if let Some(error) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    match outcome {
        Err(Error::Interrupted) => Err(PyKeyboardInterrupt::new_err(())),
        outcome => outcome.map_err(|error| errors::to_py(py, &error)),
    }
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
