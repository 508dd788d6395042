//! Waking a thread that sleeps in `io_uring_enter` from another thread.
//!
//! The ring keeps a read of an eventfd under way; writing the eventfd completes it. The write is a system call, so it
//! is made only when the other side may be asleep: both sides set their own flag first and then look at the other's, in
//! sequentially consistent order, so at least one of them sees the other. `IORING_OP_MSG_RING` was rejected: it needs a
//! ring on the other thread.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use runtime::Unpark;

/// One ring's bell; other threads hold it through [`Unpark`].
pub(crate) struct Bell {
    event: OwnedFd,
    /// Somebody has something to say.
    rung: AtomicBool,
    /// The ring's thread may be waiting in the kernel.
    asleep: AtomicBool,
}

impl Bell {
    pub fn new() -> std::io::Result<Bell> {
        // Blocking, as far as the kernel is concerned: a non-blocking one would answer the ring's read with EAGAIN.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        Ok(Bell { event, rung: AtomicBool::new(false), asleep: AtomicBool::new(false) })
    }

    /// What the ring reads, eight bytes at a time.
    pub fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// True if somebody has rung who was not heard yet.
    pub fn has_rung(&self) -> bool {
        self.rung.load(SeqCst)
    }

    /// To be called when there was no need to wait, before looking at what the others left: a thread that is always
    /// busy hears them, too.
    pub fn hear(&self) {
        if self.has_rung() {
            self.wake_up();
        }
    }

    /// To be called before waiting; false if there is no need to wait, as somebody has rung.
    pub fn fall_asleep(&self) -> bool {
        self.asleep.store(true, SeqCst);
        !self.rung.load(SeqCst)
    }

    /// To be called after waiting, before looking at what the others left.
    pub fn wake_up(&self) {
        self.asleep.store(false, SeqCst);
        // A swap, not a store: it reads the other thread's flag, and so everything that this thread did before it rang.
        self.rung.swap(false, SeqCst);
    }

    /// Completes the ring's read, asleep or not.
    pub fn strike(&self) {
        // The counter would have to reach 2^64 before this could block or fail.
        let written = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        assert_eq!(written, Ok(8), "an eventfd takes eight bytes");
    }
}

impl Unpark for Bell {
    fn unpark(&self) {
        let rung_before = self.rung.swap(true, SeqCst);
        if !rung_before && self.asleep.load(SeqCst) {
            self.strike();
        }
    }
}
