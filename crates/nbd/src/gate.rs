//! Who may write to an export: many at a time, or one alone.
//!
//! A write that does not fit the device's blocks is completed: the blocks at its edges are read, and written back with what is new in
//! them. Whatever another request writes to such a block in between, and has acknowledged, would be lost. So such a write is alone: it waits until
//! the writes that are under way have ended, and those that come meanwhile wait for it. All others share the gate, which costs them a
//! counter. Reads and flushes pass it by: who reads beside a write finds what was there before it or after it, as ever.
//!
//! Who waits is let in in the order of coming, so neither kind is kept out for ever by the other.
//!
//! # One export, one gate
//! All connections to an export share its gate. Exports of one device need none in common: they begin and end on its blocks, and no
//! two share one unless neither can be written (`portion` refuses both), so no block is written by way of two gates.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// What is asked of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Beside others of this kind.
    Shared,
    /// With nobody else.
    Alone,
}

/// The way to the blocks of an export, for writes.
#[derive(Default)]
pub struct Gate {
    inside: Cell<u32>,
    /// The one that is inside is alone.
    closed: Cell<bool>,
    queue: RefCell<VecDeque<(Entry, Rc<Seat>)>>,
}

/// Where somebody waits, and is given the pass.
#[derive(Default)]
struct Seat {
    pass: RefCell<Option<Pass>>,
    waker: RefCell<Option<Waker>>,
}

/// The right to write, until it is dropped.
pub struct Pass(Rc<Gate>);

impl Gate {
    /// Waits until such a write may begin.
    pub async fn enter(self: &Rc<Self>, entry: Entry) -> Pass {
        if self.queue.borrow().is_empty() && self.has_room(entry) {
            return self.let_in(entry);
        }
        // Who gives up takes the seat along, and with it a pass that was put there.
        let seat = Rc::new(Seat::default());
        self.queue.borrow_mut().push_back((entry, Rc::clone(&seat)));
        poll_fn(|context| match seat.pass.take() {
            Some(pass) => Poll::Ready(pass),
            None => {
                seat.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    fn has_room(&self, entry: Entry) -> bool {
        match entry {
            Entry::Shared => !self.closed.get(),
            Entry::Alone => self.inside.get() == 0,
        }
    }

    fn let_in(self: &Rc<Self>, entry: Entry) -> Pass {
        assert!(self.has_room(entry), "who is let in has room");
        self.inside.set(self.inside.get() + 1);
        self.closed.set(entry == Entry::Alone);
        Pass(Rc::clone(self))
    }

    /// Lets those in who are first in line, as long as there is room.
    fn admit(self: &Rc<Self>) {
        loop {
            let first = self.queue.borrow().front().map(|(entry, _)| *entry);
            if !first.is_some_and(|entry| self.has_room(entry)) {
                return;
            }
            let (entry, seat) = self.queue.borrow_mut().pop_front().expect("there is a first one");
            seat.pass.replace(Some(self.let_in(entry)));
            if let Some(waker) = seat.waker.take() {
                waker.wake();
            }
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let gate = &self.0;
        assert!(gate.inside.get() > 0, "a pass is given back once");
        gate.inside.set(gate.inside.get() - 1);
        gate.closed.set(false);
        gate.admit();
    }
}

#[cfg(test)]
mod tests {
    use runtime::Runtime;
    use units::Duration;

    use super::*;

    /// Enters a millisecond after the one before, stays for ten, and says when it came in and that nobody is where it should not be.
    fn come(runtime: &Runtime, gate: &Rc<Gate>, entries: &[Entry]) -> Vec<(usize, f64)> {
        let log = Rc::new(RefCell::new(Vec::new()));
        let writing = Rc::new(Cell::new(0));
        for (number, entry) in entries.iter().copied().enumerate() {
            let (runtime, gate, log, writing) =
                (runtime.clone(), Rc::clone(gate), Rc::clone(&log), Rc::clone(&writing));
            runtime.clone().spawn_detached(async move {
                runtime.sleep(Duration::millis(number as u64)).await;
                let pass = gate.enter(entry).await;
                assert!(entry == Entry::Shared || writing.get() == 0, "{number} is alone");
                writing.set(writing.get() + 1);
                let now = runtime.now().since(units::Instant::START).as_seconds() * 1000.0;
                log.borrow_mut().push((number, now));
                runtime.sleep(Duration::millis(10)).await;
                assert!(entry == Entry::Shared || writing.get() == 1, "{number} is alone");
                writing.set(writing.get() - 1);
                drop(pass);
            });
        }
        runtime.block_on(runtime.sleep(Duration::seconds(1)));
        log.take()
    }

    #[test]
    fn one_is_alone_and_all_come_in_as_they_came() {
        use Entry::*;
        let (runtime, gate) = (Runtime::simulated(), Rc::new(Gate::default()));
        let found = come(&runtime, &gate, &[Shared, Shared, Alone, Shared, Alone, Alone, Shared, Shared]);
        let wanted = [(0, 0.0), (1, 1.0), (2, 11.0), (3, 21.0), (4, 31.0), (5, 41.0), (6, 51.0), (7, 51.0)];
        assert_eq!(found, wanted);
        assert!(gate.inside.get() == 0 && gate.queue.borrow().is_empty());
    }

    #[test]
    fn who_gives_up_keeps_nobody_out() {
        let (runtime, gate) = (Runtime::simulated(), Rc::new(Gate::default()));
        runtime.block_on(async {
            let pass = gate.enter(Entry::Shared).await;
            {
                let mut waiting = std::pin::pin!(gate.enter(Entry::Alone));
                assert!(futures_util::poll!(waiting.as_mut()).is_pending());
            }
            drop(pass);
            drop(gate.enter(Entry::Alone).await);
        });
    }
}
