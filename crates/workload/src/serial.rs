//! Requests of a stream that wait for those that they overlap with: fio's `serialize_overlap`.
//!
//! Two requests overlap where a byte belongs to both and one of them is no read. A device may carry out such a pair in
//! either order, so that what is stored is a matter of luck. Here the later one waits until the earlier one has
//! completed. fio looks at the requests of one job, and with `io_submit_mode=offload` at those of all jobs; this looks
//! at those of one stream on one device, wherever their order comes from.

use std::cell::RefCell;

use device::Operation;
use runtime::Signal;

use crate::Ask;

/// What is under way.
#[derive(Default)]
pub(crate) struct Serial {
    under_way: RefCell<Vec<Ask>>,
    completed: Signal,
}

/// A request that is under way until this is dropped.
pub(crate) struct Passage<'a> {
    of: &'a Serial,
    ask: Ask,
}

impl Serial {
    /// Waits until nothing is under way that overlaps with this request.
    pub async fn enter(&self, ask: Ask) -> Passage<'_> {
        self.completed.wait_until(|| !self.under_way.borrow().iter().any(|other| overlap(other, &ask))).await;
        self.under_way.borrow_mut().push(ask);
        Passage { of: self, ask }
    }
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        let mut under_way = self.of.under_way.borrow_mut();
        let place = under_way.iter().position(|other| *other == self.ask);
        under_way.swap_remove(place.expect("a request is under way until its passage ends"));
        drop(under_way);
        self.of.completed.notify();
    }
}

fn overlap(a: &Ask, b: &Ask) -> bool {
    let writes = a.operation != Operation::Read || b.operation != Operation::Read;
    writes && a.offset < b.offset + b.length && b.offset < a.offset + a.length
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use runtime::Runtime;
    use units::{Bytes, Duration, Instant};

    use super::*;

    /// A write of the first 8 KiB takes a millisecond. What touches it waits; what does not, and what only reads beside
    /// a read, does not.
    #[test]
    fn who_overlaps_waits() {
        let runtime = Runtime::simulated();
        let ask = |operation, kib| Ask { operation, offset: Bytes::kib(kib), length: Bytes::kib(8) };
        let waits = |first, second| {
            let (serial, began) = (Rc::new(Serial::default()), Rc::new(Cell::new(Instant::NEVER)));
            let start = runtime.now();
            let (timer, theirs) = (runtime.clone(), serial.clone());
            runtime.spawn(async move {
                let passage = theirs.enter(first).await;
                timer.sleep(Duration::millis(1)).await;
                drop(passage);
            });
            let (timer, said) = (runtime.clone(), began.clone());
            runtime.spawn(async move {
                let _passage = serial.enter(second).await;
                said.set(timer.now());
            });
            runtime.block_on({
                let timer = runtime.clone();
                async move { timer.sleep(Duration::millis(2)).await }
            });
            began.get().since(start)
        };
        let (read, write) = (Operation::Read, Operation::Write);
        assert_eq!(waits(ask(write, 0), ask(write, 4)), Duration::millis(1));
        assert_eq!(waits(ask(write, 4), ask(read, 0)), Duration::millis(1));
        assert_eq!(waits(ask(read, 0), ask(Operation::Discard, 0)), Duration::millis(1));
        assert_eq!(waits(ask(write, 0), ask(write, 8)), Duration::ZERO);
        assert_eq!(waits(ask(read, 0), ask(read, 0)), Duration::ZERO);
    }
}
