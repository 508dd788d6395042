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
