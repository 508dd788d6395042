//! A controller under the virtual clock: requests are submitted at any time, and a task turns it as long as any wait.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use runtime::{Runtime, Signal};
use units::{Bytes, Duration, Instant, Rate};

use super::controller::Controller;
use super::drive::{Request, Service};

/// A disk and those who wait for it.
pub struct Queued {
    controller: RefCell<Controller>,
    /// Completions by tag, once they are known; tags are used again.
    known: RefCell<Vec<Option<Service>>>,
    free: RefCell<Vec<usize>>,
    /// A turn has been taken.
    turned: Signal,
    /// A task turns the controller.
    turning: Cell<bool>,
    /// For how long it worked on requests, one or several at a time, up to `until`.
    worked: Cell<Duration>,
    until: Cell<Instant>,
}

impl Queued {
    /// With nobody waiting.
    pub fn new(controller: Controller) -> Queued {
        Queued {
            controller: RefCell::new(controller),
            known: RefCell::default(),
            free: RefCell::default(),
            turned: Signal::default(),
            turning: Cell::new(false),
            worked: Cell::new(Duration::ZERO),
            until: Cell::new(Instant::START),
        }
    }

    /// For how long it was at work up to now: on each request from its turn until its data are there. Reading ahead
    /// beyond what is asked for does not count.
    pub fn worked(&self, now: Instant) -> Duration {
        let left = if self.until.get() > now { self.until.get().since(now) } else { Duration::ZERO };
        self.worked.get().saturating_sub(left)
    }

    /// What it sends at a time.
    pub fn piece(&self) -> Bytes {
        Bytes::SECTOR * self.controller.borrow().drive().parameters().buffer.piece
    }

    /// What it gives in sequence at its outermost tracks.
    pub fn outer_rate(&self) -> Rate {
        self.controller.borrow().drive().parameters().mechanism.outer_rate()
    }

    /// Writes to the medium all that it has said to be written: when that is done.
    pub fn flush(&self, now: Instant) -> Instant {
        self.controller.borrow_mut().flush(now)
    }

    /// Waits for a request's turn: what becomes of it from then on.
    pub async fn serve(self: &Rc<Queued>, runtime: &Runtime, request: Request) -> Service {
        let tag = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.known.borrow_mut().push(None);
            self.known.borrow().len() - 1
        });
        self.controller.borrow_mut().submit(runtime.now(), tag as u64, request);
        if !self.turning.replace(true) {
            runtime.spawn_detached(Rc::clone(self).turn(runtime.clone()));
        }
        self.turned.wait_until(|| self.known.borrow()[tag].is_some()).await;
        let service = self.known.borrow_mut()[tag].take().expect("it was waited for");
        self.free.borrow_mut().push(tag);
        service
    }

    /// Turns the controller until nobody waits.
    async fn turn(self: Rc<Queued>, runtime: Runtime) {
        loop {
            let next = self.controller.borrow().next_turn();
            let Some(at) = next else { break };
            // Others that are issued at this very instant are to be chosen from, too.
            runtime.sleep_until(at).await;
            runtime.yield_now().await;
            let turn = self.controller.borrow_mut().turn(runtime.now());
            // The arm may leave for a request before the one before is complete.
            let (begins, completes) = (self.until.get().max(runtime.now()), turn.service.completes);
            if completes > begins {
                self.worked.set(self.worked.get() + completes.since(begins));
                self.until.set(completes);
            }
            self.known.borrow_mut()[turn.tag as usize] = Some(turn.service);
            self.turned.notify();
        }
        self.turning.set(false);
    }
}
