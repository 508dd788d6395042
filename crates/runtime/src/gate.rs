//! A gate that many pass at a time, or that is closed by one: closing it waits until nobody is under way.
//!
//! What every write relies on, such as where a member of an array is, is changed between two writes; a write that does
//! not fit a device's blocks is alone, as it reads and writes back what others may be writing. Passing costs a count.
//! While one waits for the others to be through, those who come wait for it, so that it is not kept out for ever.

use std::cell::Cell;

use crate::Signal;

/// Open unless somebody holds [`Closed`].
#[derive(Default)]
pub struct Gate {
    passing: Cell<u32>,
    closed: Cell<bool>,
    changed: Signal,
}

/// Somebody is under way until it is dropped.
pub struct Pass<'g>(&'g Gate);

/// Nobody is under way, and nobody passes until it is dropped.
pub struct Closed<'g>(&'g Gate);

impl Gate {
    /// Waits until it is open, and passes. Where a count is all that it may cost, [try](Gate::try_pass) before: what is
    /// awaited costs more.
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

    /// Closes it, and waits for those who have passed. One at a time; whoever gives up opens it again.
    pub async fn close(&self) -> Closed<'_> {
        self.changed.wait_until(|| !self.closed.get()).await;
        self.closed.set(true);
        // Made before waiting, so that it is opened by whoever gives up.
        let closed = Closed(self);
        self.changed.wait_until(|| self.passing.get() == 0).await;
        closed
    }
}

impl Drop for Pass<'_> {
    #[inline]
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use units::Duration;

    use super::*;
    use crate::Runtime;

    /// Each comes a millisecond after the one before and stays for ten. Gives how many there are with it, at most.
    fn come(alone: &[bool]) -> Vec<u32> {
        let (runtime, gate) = (Runtime::simulated(), Rc::new(Gate::default()));
        let (inside, most) = (Rc::new(Cell::new(0u32)), Rc::new(Cell::new(0)));
        let visit = |number: usize, alone: bool| {
            let (runtime, gate, inside, most) =
                (runtime.clone(), Rc::clone(&gate), Rc::clone(&inside), Rc::clone(&most));
            async move {
                runtime.sleep(Duration::millis(number as u64)).await;
                let (_pass, _closed) = match alone {
                    true => (None, Some(gate.close().await)),
                    false => (Some(gate.pass().await), None),
                };
                inside.set(inside.get() + 1);
                runtime.sleep(Duration::millis(10)).await;
                most.set(inside.get());
                inside.set(inside.get() - 1);
                most.get()
            }
        };
        let all: Vec<_> = alone.iter().enumerate().map(|(n, alone)| runtime.spawn(visit(n, *alone))).collect();
        runtime.block_on(runtime.sleep(Duration::seconds(1)));
        assert!(gate.passing.get() == 0 && !gate.closed.get());
        all.iter().map(|one| one.take().expect("everybody has been let in")).collect()
    }

    #[test]
    fn many_pass_and_one_is_alone() {
        assert_eq!(come(&[false; 3]), [3, 2, 1]);
        let found = come(&[false, false, true, false, true, true, false, false]);
        assert_eq!([found[2], found[4], found[5]], [1, 1, 1], "{found:?}");
    }

    #[test]
    fn who_gives_up_keeps_nobody_out() {
        let (runtime, gate) = (Runtime::simulated(), Gate::default());
        runtime.block_on(async {
            let pass = gate.pass().await;
            {
                let mut waiting = std::pin::pin!(gate.close());
                assert!(futures_util::poll!(waiting.as_mut()).is_pending() && gate.try_pass().is_none());
            }
            drop(gate.try_pass().expect("it is open again"));
            drop(pass);
            drop(gate.close().await);
        });
    }
}
