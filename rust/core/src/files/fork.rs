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
    let pid = process_id();
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

/// The id of this process. The system is asked once in each process: that takes .2 microseconds, and a read of the
/// store has to know it eight times.
pub(crate) fn process_id() -> u32 {
    let Some(known) = known_id() else { return std::process::id() };
    match known.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            known.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// A place for it in a page that the kernel hands to every child, however it was made, filled with zeros. None where
/// there is no such page. Made without a lock, which a child could inherit taken.
#[cfg(target_os = "linux")]
fn known_id() -> Option<&'static AtomicU32> {
    static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    static NO_PAGE: AtomicU32 = AtomicU32::new(0);
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let made = wiped_page().unwrap_or((&raw const NO_PAGE).cast_mut());
        page = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            // Another thread was first. The page of this one stays: there are as many as threads began at once.
            Err(first) => first,
        };
    }
    // SAFETY: a static, or a page that is never given back.
    (!ptr::eq(page, &raw const NO_PAGE)).then(|| unsafe { &*page })
}

#[cfg(target_os = "linux")]
fn wiped_page() -> Option<*mut AtomicU32> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a mapping of its own, which the kernel makes as long as a page at least, aligned, of zeros.
    unsafe {
        let size = size_of::<AtomicU32>();
        let page = libc::mmap(ptr::null_mut(), size, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, size, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, size);
            return None;
        }
        Some(page.cast())
    }
}

#[cfg(not(target_os = "linux"))]
fn known_id() -> Option<&'static AtomicU32> {
    None
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_child_has_its_own_id() {
        // SAFETY: a fork with the C library's handlers.
        unsafe fn plain() -> i32 {
            unsafe { libc::fork() }
        }
        // SAFETY: a fork without them; the child only makes system calls.
        #[cfg(target_os = "linux")]
        unsafe fn unannounced() -> i32 {
            unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 }
        }
        assert_eq!(process_id(), std::process::id());
        assert_eq!(process_id(), std::process::id());
        // SAFETY: the children only compare two numbers and exit.
        let run = |fork: unsafe fn() -> i32| unsafe {
            let child = fork();
            if child == 0 {
                let right = (0..2).all(|_| process_id() == libc::getpid().unsigned_abs());
                libc::_exit(i32::from(!right));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        };
        run(plain);
        #[cfg(target_os = "linux")]
        run(unannounced);
        assert_eq!(process_id(), std::process::id());
    }
}
