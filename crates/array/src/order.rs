//! Writes that overlap are carried out in the order in which they came.
//!
//! The locks of rows keep two writes from mixing, but not in order: one that waits until the members say that
//! redundancy may not fit, until its region is marked, or until a twin has taken over would be overtaken by a later one
//! that need not wait. Where there are no copies there are no locks at all, and a device may do what it has been sent
//! in any order. So whatever changes data is in a list from its arrival to its end, and begins when nothing earlier
//! there overlaps it. A disk promises less; but who sends two writes of one block at once to a file finds the later one
//! there, and an array served in its place is to do no worse.
//!
//! Reads are in no list: beside a write that is not answered either value is right. But a value that was read may not
//! go back. One copy may have the new value already, and the next read is of another that has it not; nor may a server
//! that is killed meanwhile find the old one on what is left. So where there is redundancy a read that finds a write
//! under way when it is done is answered after that write. It need not wait before: whatever it has read, no other read
//! was answered with something newer.
//!
//! Rejected: a tree of ranges, or a table by region. Both cost every write more than looking through the list of what
//! is under way, which is as long as the queue is deep: in one place, 24 bytes each.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use runtime::Signal;
use units::Bytes;

/// What is being changed, and who waits for it.
#[derive(Default)]
pub(crate) struct Order {
    under_way: RefCell<Vec<Change>>,
    arrived: Cell<u64>,
    /// By the number of the change whose end somebody waits for.
    awaited: RefCell<BTreeMap<u64, Signal>>,
}

/// A change that has not ended.
struct Change {
    number: u64,
    range: Range<Bytes>,
}

impl Change {
    fn overlaps(&self, range: &Range<Bytes>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }
}

/// Its turn has come, and lasts until it is dropped.
pub(crate) struct Turn<'a> {
    order: &'a Order,
    number: u64,
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut under_way = self.order.under_way.borrow_mut();
        let place = under_way.iter().position(|change| change.number == self.number);
        under_way.swap_remove(place.expect("whoever is under way is in the list"));
        let mut awaited = self.order.awaited.borrow_mut();
        if !awaited.is_empty()
            && let Some(over) = awaited.remove(&self.number)
        {
            over.notify();
        }
    }
}

impl Order {
    /// The turn of a change that nothing overlaps.
    #[inline]
    pub fn try_take(&self, range: &Range<Bytes>) -> Option<Turn<'_>> {
        if self.under_way.borrow().iter().any(|change| change.overlaps(range)) {
            return None;
        }
        Some(self.arrive(range.clone()))
    }

    /// Waits for the turn of a change.
    pub async fn take(&self, range: Range<Bytes>) -> Turn<'_> {
        let turn = self.arrive(range.clone());
        // Of several the newest: when it is over, those that it waited for are.
        while let Some((before, over)) = self.newest_before(turn.number, &range) {
            over.wait_until(|| !self.is_under_way(before)).await;
        }
        turn
    }

    /// Whether something is being changed there.
    #[inline]
    pub fn is_changing(&self, range: &Range<Bytes>) -> bool {
        self.under_way.borrow().iter().any(|change| change.overlaps(range))
    }

    /// Waits for all that is being changed there now.
    pub async fn quiet(&self, range: Range<Bytes>) {
        let next = self.arrived.get();
        while let Some((before, over)) = self.newest_before(next, &range) {
            over.wait_until(|| !self.is_under_way(before)).await;
        }
    }

    fn arrive(&self, range: Range<Bytes>) -> Turn<'_> {
        let number = self.arrived.get();
        self.arrived.set(number + 1);
        self.under_way.borrow_mut().push(Change { number, range });
        Turn { order: self, number }
    }

    fn newest_before(&self, number: u64, range: &Range<Bytes>) -> Option<(u64, Signal)> {
        let under_way = self.under_way.borrow();
        let before = under_way.iter().filter(|change| change.number < number && change.overlaps(range));
        let newest = before.map(|change| change.number).max()?;
        Some((newest, self.awaited.borrow_mut().entry(newest).or_default().clone()))
    }

    fn is_under_way(&self, number: u64) -> bool {
        self.under_way.borrow().iter().any(|change| change.number == number)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use runtime::Runtime;
    use units::{Duration, Instant};

    use super::*;

    fn range(start: u64, end: u64) -> Range<Bytes> {
        Bytes::new(start)..Bytes::new(end)
    }

    #[test]
    fn who_overlaps_waits_for_those_before_it_and_nobody_else_does() {
        let (runtime, order) = (Runtime::simulated(), Order::default());
        let ended = RefCell::new(Vec::new());
        let change = async |name: &'static str, start: u64, end: u64, lasts: u64| {
            let turn = order.take(range(start, end)).await;
            runtime.sleep(Duration::micros(lasts)).await;
            drop(turn);
            ended.borrow_mut().push((name, runtime.now().since(Instant::START).as_nanos() / 1000));
        };
        runtime.block_on(async {
            futures_util::join!(
                change("left", 0, 10, 100),
                change("right", 10, 20, 40),
                change("both", 5, 15, 10),
                change("right again", 15, 16, 10),
                change("beside", 20, 30, 5),
                change("left again", 0, 6, 1),
                change("all", 0, 100, 1),
            )
        });
        let expected = [
            ("beside", 5),
            ("right", 40),
            ("right again", 50),
            ("left", 100),
            ("both", 110),
            ("left again", 111),
            ("all", 112),
        ];
        assert_eq!(*ended.borrow(), expected);
        assert!(order.under_way.borrow().is_empty());
    }

    #[test]
    fn who_gives_up_waiting_is_in_nobodys_way() {
        let order = Order::default();
        Runtime::simulated().block_on(async {
            let first = order.try_take(&range(0, 10)).expect("it is alone");
            assert!(order.try_take(&range(9, 11)).is_none());
            let mut third = {
                let mut second = pin!(order.take(range(5, 15)));
                assert!(poll!(second.as_mut()).is_pending());
                let mut third = Box::pin(order.take(range(12, 20)));
                assert!(poll!(&mut third).is_pending(), "it is behind the second");
                third
            };
            let third = poll!(&mut third);
            assert!(third.is_ready(), "the second is gone, and the first does not overlap it");
            drop((first, third));
        });
        assert!(order.under_way.borrow().is_empty());
    }
}
