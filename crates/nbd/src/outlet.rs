//! Sending: whatever is ready, in one call.
//!
//! Replies are queued by the tasks that made them, and one task sends all that are there together. While one batch is
//! on its way the next one gathers, so that batches grow with the load and a single reply waits for nothing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use device::Pool;
use runtime::Signal;
use uring::{Body, Parcel};

use crate::wire::Wire;

/// The most parcels in a batch: a parcel has two parts, and the kernel takes 1024.
const PARCELS: usize = 256;
/// A batch is not made longer than this, so that its memory is soon free again.
const BYTES: usize = 1 << 20;

/// The sending side of a conversation. `T` goes with each parcel, and is dropped when that has been sent.
pub struct Outlet<W, T> {
    wire: Rc<W>,
    queue: RefCell<Vec<(Parcel, T)>>,
    changed: Signal,
    /// Nothing will be added.
    ended: Cell<bool>,
    /// Nothing can be sent any more.
    broken: Cell<bool>,
    /// Odd while a batch is being sent.
    turns: Rc<Cell<u64>>,
    pool: Rc<Pool>,
}

impl<W: Wire, T> Outlet<W, T> {
    /// Sends into a wire; buffers that were sent go to the pool.
    pub fn new(wire: Rc<W>, pool: Rc<Pool>) -> Outlet<W, T> {
        let (ended, broken) = (Cell::new(false), Cell::new(false));
        Outlet {
            wire,
            queue: RefCell::default(),
            changed: Signal::default(),
            ended,
            broken,
            turns: Rc::default(),
            pool,
        }
    }

    /// A number that is odd while a batch is being sent, and another one for each.
    pub fn turns(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.turns)
    }

    /// Nothing can be sent any more: the peer is gone.
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Adds a parcel to the next batch. If the peer is gone it is dropped.
    pub fn push(&self, parcel: Parcel, with: T) {
        if !self.broken.get() {
            self.queue.borrow_mut().push((parcel, with));
            self.changed.notify();
        }
    }

    /// Says that nothing will be added: [`run`](Outlet::run) ends when all has been sent.
    pub fn end(&self) {
        self.ended.set(true);
        self.changed.notify();
    }

    /// Sends until the end, or until the peer is gone; the peer is then told, and nothing more is received from it.
    pub async fn run(&self) {
        loop {
            self.changed.wait_until(|| self.ended.get() || !self.queue.borrow().is_empty()).await;
            let (parcels, with) = self.batch();
            if parcels.is_empty() {
                return self.wire.end_sending().await;
            }
            self.turns.set(self.turns.get() + 1);
            let (parcels, sent) = self.wire.send(parcels).await;
            self.turns.set(self.turns.get() + 1);
            for parcel in parcels {
                if let Body::Buffer(buffer) = parcel.body {
                    self.pool.give(buffer);
                }
            }
            drop(with);
            if sent.is_err() {
                self.broken.set(true);
                let unsent = std::mem::take(&mut *self.queue.borrow_mut());
                drop(unsent);
                return self.wire.stop_receiving();
            }
        }
    }

    fn batch(&self) -> (Vec<Parcel>, Vec<T>) {
        let mut queue = self.queue.borrow_mut();
        let mut bytes = 0;
        let count = queue.iter().take(PARCELS).take_while(|(parcel, _)| {
            let fits = bytes == 0 || bytes + parcel.length() <= BYTES;
            bytes += parcel.length();
            fits
        });
        let count = count.count();
        queue.drain(..count).unzip()
    }
}
