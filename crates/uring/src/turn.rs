//! Requests that the runtime's own thread carries out, all of one turn together.
//!
//! What tasks submit in one turn of the runtime is carried out at the beginning of the next, by the first of them to go on, one
//! after the other. So every other task has its turn meanwhile, as it would if the requests had to be waited for; and the engine
//! sees several requests at once, which it may prefetch, and between which it reads the clock once instead of twice.

use std::cell::RefCell;

use device::{Reply, Request};
use runtime::Runtime;

use crate::slot::Slots;

/// The requests on one file.
#[derive(Default)]
pub(crate) struct Turns {
    queue: RefCell<Queue>,
}

#[derive(Default)]
struct Queue {
    slots: Slots,
    /// What was submitted since the last batch.
    batch: Vec<u32>,
}

impl Turns {
    /// Carries a request out in the next turn of the runtime. `serve` is given all requests of the batch, and
    /// [serves](Slots::serve) and [stamps](Slots::stamp) each.
    pub async fn carry_out(
        &self,
        request: Request,
        runtime: &Runtime,
        serve: impl FnOnce(&mut Slots, &[u32]),
    ) -> Reply {
        let slot = {
            let mut queue = self.queue.borrow_mut();
            let slot = queue.slots.insert(request, 0);
            queue.batch.push(slot);
            slot
        };
        let mut waiting = Waiting { turns: self, slot, served: false };
        runtime.yield_now().await;
        let queue = &mut *self.queue.borrow_mut();
        if !queue.slots.is_done(slot) {
            // No waker is left behind: all of the batch are awake already.
            serve(&mut queue.slots, &queue.batch);
            queue.batch.clear();
        }
        waiting.served = true;
        queue.slots.take(slot)
    }
}

/// Leaves a request behind that nobody waits for any more.
struct Waiting<'a> {
    turns: &'a Turns,
    slot: u32,
    served: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.served {
            self.turns.queue.borrow_mut().slots.abandon(self.slot);
        }
    }
}
