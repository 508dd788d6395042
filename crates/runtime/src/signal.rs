//! A condition that tasks wait for.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Wakes everyone who waits, each time something changes. The condition itself stays with the caller:
///
/// ```
/// # use runtime::{Runtime, Signal};
/// # use std::{cell::Cell, rc::Rc};
/// # let (runtime, filled) = (Runtime::simulated(), Rc::new(Cell::new(0)));
/// # let changed = Signal::default();
/// # runtime.spawn({ let (filled, changed) = (filled.clone(), changed.clone()); async move { filled.set(8192); changed.notify(); } });
/// # runtime.block_on(async {
/// changed.wait_until(|| filled.get() >= 8192).await;
/// # });
/// ```
#[derive(Clone, Default)]
pub struct Signal {
    waiting: Rc<RefCell<Vec<Waker>>>,
}

impl Signal {
    /// Lets every waiting task look at its condition again.
    #[inline]
    pub fn notify(&self) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty() {
            waiting.drain(..).for_each(Waker::wake);
        }
    }

    /// Lets the task that has waited longest look at its condition again: for a condition that lets one go on, such as a
    /// place that is free.
    #[inline]
    pub fn notify_one(&self) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty() {
            waiting.remove(0).wake();
        }
    }

    /// Waits until `condition` holds. It is looked at now and after every [`notify`](Signal::notify).
    pub async fn wait_until(&self, mut condition: impl FnMut() -> bool) {
        std::future::poll_fn(|context| {
            if condition() {
                return Poll::Ready(());
            }
            let mut waiting = self.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Runtime;

    /// Three wait for a place that two give back one after the other: two go on, in the order in which they came.
    #[test]
    fn one_is_woken_at_a_time_and_in_turn() {
        let (runtime, signal) = (Runtime::simulated(), Signal::default());
        let (places, went) = (Rc::new(Cell::new(0u32)), Rc::new(RefCell::new(Vec::new())));
        for number in 0..3 {
            let (signal, places, went) = (signal.clone(), Rc::clone(&places), Rc::clone(&went));
            runtime.spawn_detached(async move {
                signal.wait_until(|| places.get() > 0).await;
                places.set(places.get() - 1);
                went.borrow_mut().push(number);
            });
        }
        for _ in 0..2 {
            runtime.block_on(async {});
            places.set(places.get() + 1);
            signal.notify_one();
        }
        runtime.block_on({
            let runtime = runtime.clone();
            async move { runtime.sleep(units::Duration::millis(1)).await }
        });
        assert_eq!(*went.borrow(), [0, 1]);
    }
}
