//! What happens to open descriptors when the process forks.
//!
//! The file's locks belong to the open file description, which a forked child shares: the child would keep them
//! alive after its parent died, and using the handle on both sides destroyed files in tests. So the child's copy
//! of every store descriptor is replaced by the null device, at the fork itself where the C library tells us, and
//! at the first use otherwise.

use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// One descriptor to be replaced in children. Nodes are never freed, only used again: the fork handler may look
/// at any time and must not take a lock.
struct Node {
    descriptor: AtomicI32,
    pid: AtomicU32,
    next: *mut Node,
}

const FREE: i32 = -1;
const CLAIMED: i32 = -2;
static NODES: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

/// Keeps a descriptor registered; dropped before the descriptor is closed.
#[derive(Debug)]
pub(crate) struct Registration(&'static AtomicI32);

impl Drop for Registration {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
    }
}

/// Registers `descriptor`, which the calling process has open.
pub(crate) fn register(descriptor: i32) -> Registration {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the handler only loads atomics and calls `getpid`, `open` and `dup2`, all of which are allowed
        // between fork and exec. A failure (no memory) leaves the check at first use.
        unsafe {
            libc::pthread_atfork(None, None, Some(null_inherited_after_fork));
        }
    });
    let pid = std::process::id();
    let mut node = NODES.load(Ordering::Acquire);
    while !node.is_null() {
        // SAFETY: nodes are leaked boxes, so every pointer in the list stays valid.
        let this: &'static Node = unsafe { &*node };
        let claim = this.descriptor.compare_exchange(FREE, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        if claim.is_ok() {
            this.pid.store(pid, Ordering::Release);
            this.descriptor.store(descriptor, Ordering::Release);
            return Registration(&this.descriptor);
        }
        node = this.next;
    }
    let fresh = Box::into_raw(Box::new(Node {
        descriptor: AtomicI32::new(descriptor),
        pid: AtomicU32::new(pid),
        next: NODES.load(Ordering::Acquire),
    }));
    // SAFETY: the box was leaked just above; nobody else writes `next`, and nobody reads it before the exchange.
    unsafe {
        while let Err(head) =
            NODES.compare_exchange((*fresh).next, fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            (*fresh).next = head;
        }
        Registration(&(*fresh).descriptor)
    }
}

/// A number that is another one in every forked child: reading it costs nothing, where asking for the process id is a
/// system call.
pub fn fork_generation() -> u32 {
    #[cfg(unix)]
    {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // SAFETY: the handler changes one atomic.
            unsafe {
                libc::pthread_atfork(None, None, Some(next_generation));
            }
        });
    }
    GENERATION.load(Ordering::Relaxed)
}

static GENERATION: AtomicU32 = AtomicU32::new(0);

#[cfg(unix)]
extern "C" fn next_generation() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[cfg(unix)]
extern "C" fn null_inherited_after_fork() {
    null_inherited();
}

/// Puts the null device over every registered descriptor that another process opened.
pub(crate) fn null_inherited() {
    #[cfg(unix)]
    {
        // SAFETY: plain system calls with a constant path; descriptors in the list are open in the process that
        // registered them, hence open here until this child replaces them.
        unsafe {
            let own = libc::getpid().unsigned_abs();
            let mut null = -1;
            let mut node = NODES.load(Ordering::Acquire);
            while let Some(this) = node.as_ref() {
                let descriptor = this.descriptor.load(Ordering::Acquire);
                if descriptor >= 0 && this.pid.load(Ordering::Acquire) != own {
                    if null < 0 {
                        null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                    }
                    if null >= 0 {
                        libc::dup2(null, descriptor);
                        libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
                        this.descriptor.store(CLAIMED, Ordering::Release);
                    }
                }
                node = this.next;
            }
            if null >= 0 {
                libc::close(null);
            }
        }
    }
}
