//! A gate that writes pass: closing it waits until none is under way.
//!
//! Something that every write relies on, such as where a member is, can only be changed between two writes. Reads need no gate: each
//! holds the device that it began with.

use std::cell::Cell;

use runtime::Signal;

/// Open unless somebody holds [`Closed`].
#[derive(Default)]
pub(crate) struct Gate {
    passing: Cell<u32>,
    closed: Cell<bool>,
    changed: Signal,
}

/// A write is under way until it is dropped.
pub(crate) struct Pass<'g>(&'g Gate);

/// No write is under way, and none begins until it is dropped.
pub(crate) struct Closed<'g>(&'g Gate);

impl Gate {
    /// Waits until it is open, and passes. For who has [tried](Gate::try_pass): what is awaited costs a write more than the count.
    pub async fn pass(&self) -> Pass<'_> {
        self.changed.wait_until(|| !self.closed.get()).await;
        self.try_pass().expect("it is open, and nobody went on in between")
    }

    /// Passes, if it is open.
    #[inline]
    pub fn try_pass(&self) -> Option<Pass<'_>> {
        if self.closed.get() {
            return None;
        }
        self.passing.set(self.passing.get() + 1);
        Some(Pass(self))
    }

    /// Closes it, and waits for those who have passed. One at a time.
    pub async fn close(&self) -> Closed<'_> {
        self.changed.wait_until(|| !self.closed.get()).await;
        self.closed.set(true);
        // Made before waiting: whoever gives up while waiting opens it again.
        let closed = Closed(self);
        self.changed.wait_until(|| self.passing.get() == 0).await;
        closed
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        assert!(self.0.passing.get() > 0, "who passed was counted");
        self.0.passing.set(self.0.passing.get() - 1);
        // Only who closes it waits for those who pass.
        if self.0.closed.get() {
            self.0.changed.notify();
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.set(false);
        self.0.changed.notify();
    }
}
