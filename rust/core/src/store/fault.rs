//! Faults for tests: the nth call of a kind fails with an error of the operating system, once or from then on.

use super::crash_tests::Recorder;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The backend calls that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Write,
    SetLen,
    Sync,
}

#[derive(Debug)]
struct Rule {
    call: Call,
    countdown: u64,
    errno: i32,
    lasting: bool,
}

/// What is to fail. Shared by every reopening of one store.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    armed: AtomicBool,
    rules: Mutex<Vec<Rule>>,
    struck: AtomicU64,
    panics: AtomicBool,
    /// What every file is recorded in.
    pub(super) recorder: Option<Arc<Recorder>>,
}

impl FaultPlan {
    /// Nothing fails, everything is recorded.
    pub(super) fn recording(recorder: &Arc<Recorder>) -> Self {
        Self { recorder: Some(Arc::clone(recorder)), ..Self::default() }
    }

    /// The call number `nth` (from 0) of kind `call` from now on fails with `errno`.
    pub(super) fn arm(&self, call: Call, nth: u64, errno: i32, lasting: bool) {
        self.rules.lock().unwrap().push(Rule { call, countdown: nth, errno, lasting });
        self.armed.store(true, Ordering::SeqCst);
    }

    /// The next call of kind read panics, as redb does on some damaged pages.
    pub(super) fn arm_panic(&self) {
        self.panics.store(true, Ordering::SeqCst);
    }

    /// No more faults.
    pub(super) fn disarm(&self) {
        self.rules.lock().unwrap().clear();
        self.armed.store(false, Ordering::SeqCst);
    }

    /// How many calls failed so far.
    pub(super) fn struck(&self) -> u64 {
        self.struck.load(Ordering::SeqCst)
    }

    pub(super) fn strike(plan: Option<&Arc<Self>>, call: Call) -> io::Result<()> {
        let Some(plan) = plan else { return Ok(()) };
        assert!(!(call == Call::Read && plan.panics.swap(false, Ordering::SeqCst)), "a damaged page");
        if !plan.armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut rules = plan.rules.lock().unwrap();
        for rule in rules.iter_mut().filter(|rule| rule.call == call) {
            if rule.countdown == 0 {
                if !rule.lasting {
                    rule.countdown = u64::MAX;
                }
                plan.struck.fetch_add(1, Ordering::SeqCst);
                return Err(io::Error::from_raw_os_error(rule.errno));
            }
            rule.countdown = rule.countdown.saturating_sub(1);
        }
        Ok(())
    }
}
