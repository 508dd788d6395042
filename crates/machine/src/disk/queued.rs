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
    /// By tag; tags are used again.
    asked: RefCell<Vec<Asked>>,
    free: RefCell<Vec<usize>>,
    /// A task turns the controller.
    turning: Cell<bool>,
    /// For how long it worked on requests, one or several at a time, up to `until`.
    worked: Cell<Duration>,
    until: Cell<Instant>,
}

/// A request that waits for its turn.
#[derive(Default)]
struct Asked {
    /// How it is served; known from its turn on.
    service: Option<Service>,
    /// Wakes the one who asked, and nobody else.
    known: Signal,
}

impl Queued {
    /// With nobody waiting.
    pub fn new(controller: Controller) -> Queued {
        Queued {
            controller: RefCell::new(controller),
            asked: RefCell::default(),
            free: RefCell::default(),
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
            self.asked.borrow_mut().push(Asked::default());
            self.asked.borrow().len() - 1
        });
        self.controller.borrow_mut().submit(runtime.now(), tag as u64, request);
        if !self.turning.replace(true) {
            runtime.spawn_detached(Rc::clone(self).turn(runtime.clone()));
        }
        let known = self.asked.borrow()[tag].known.clone();
        known.wait_until(|| self.asked.borrow()[tag].service.is_some()).await;
        let service = self.asked.borrow_mut()[tag].service.take().expect("it was waited for");
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
            let asked = &mut self.asked.borrow_mut()[turn.tag as usize];
            asked.service = Some(turn.service);
            asked.known.notify();
        }
        self.turning.set(false);
    }
}
