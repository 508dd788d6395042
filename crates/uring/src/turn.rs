//! Requests that the runtime's own thread carries out, all of one turn together.
//!
//! What tasks submit in one turn of the runtime is carried out at the beginning of the next, by the first of them to go
//! on, one after the other. So every other task has its turn meanwhile, as it would if the requests had to be waited
//! for; and the engine sees several requests at once, which it may prefetch, and between which it reads the clock once
//! instead of twice.
//!
//! Whoever asks for one request after the other, and is alone in that, gains nothing by the turn; and it costs as much
//! as the rest of a small request's way through our code. So if the last batch was of one request, and no other task,
//! no timer and nothing outside is there to have its turn meanwhile, the next request is carried out at once
//! ([`Runtime::may_go_on`]).

use std::cell::{Cell, RefCell};

use device::{DeviceError, Reply, Request, Stamps};
use runtime::Runtime;
use units::Instant;

use crate::slot::Slots;

/// The requests on one file.
#[derive(Default)]
pub(crate) struct Turns {
    queue: RefCell<Queue>,
    /// When the last batch was done, if it was of a single request: whoever made that asks alone.
    single: Cell<Option<Instant>>,
}

#[derive(Default)]
struct Queue {
    slots: Slots,
    /// What was submitted since the last batch.
    batch: Vec<u32>,
}

impl Turns {
    /// Whether the next request need not wait for a turn. It is then to be [carried out](Turns::carry_out_now) before
    /// anything else.
    #[inline]
    pub fn may_go_on(&self, runtime: &Runtime) -> bool {
        self.single.get().is_some_and(|since| self.queue.borrow().batch.is_empty() && runtime.may_go_on(since))
    }

    /// Carries a request out without a turn. `serve` gives what became of it, and when.
    #[inline]
    pub fn carry_out_now(
        &self,
        mut request: Request,
        serve: impl FnOnce(&mut Request) -> (Result<(), DeviceError>, Stamps),
    ) -> Reply {
        let (result, stamps) = serve(&mut request);
        self.single.set(Some(stamps.completed));
        request.answer(result, stamps)
    }

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
        let leads = !queue.slots.is_done(slot);
        if leads {
            // No waker is left behind: all of the batch are awake already.
            serve(&mut queue.slots, &queue.batch);
        }
        waiting.served = true;
        let reply = queue.slots.take(slot);
        if leads {
            self.single.set((queue.batch.len() == 1).then_some(reply.stamps.completed));
            queue.batch.clear();
        }
        reply
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
