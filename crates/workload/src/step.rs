//! Lock-step: no request of the next round before all of this one have completed.
//!
//! Algorithms of the parallel disk model ask that way, a request of every disk at a time (J. S. Vitter and E. A. M.
//! Shriver, "Algorithms for parallel memory I: two-level memories", 1994), and so does a striped read that must be
//! whole before the next. It makes rounds of its own, on devices that would not convoy: what it costs is to be seen
//! beside the same load without it.

use std::cell::Cell;

use runtime::Signal;

/// Where the lanes of one stream, on all of its devices, meet before each request. They must be of one runtime.
#[derive(Default)]
pub struct LockStep {
    lanes: Cell<u32>,
    arrived: Cell<u32>,
    /// How often all have met.
    rounds: Cell<u64>,
    met: Signal,
}

impl LockStep {
    /// For so many lanes.
    pub fn new(lanes: u32) -> LockStep {
        LockStep { lanes: Cell::new(lanes), ..LockStep::default() }
    }

    /// Waits for all that have not left.
    pub(crate) async fn meet(&self) {
        let round = self.rounds.get();
        self.arrived.update(|n| n + 1);
        assert!(self.arrived <= self.lanes, "no lane meets twice in one round");
        self.go_on();
        self.met.wait_until(|| self.rounds.get() != round).await;
    }

    /// One lane comes no more.
    pub(crate) fn leave(&self) {
        assert!(self.lanes.get() > 0, "a lane leaves once");
        self.lanes.update(|n| n - 1);
        self.go_on();
    }

    fn go_on(&self) {
        if self.lanes.get() > 0 && self.arrived == self.lanes {
            self.arrived.set(0);
            self.rounds.update(|n| n + 1);
            self.met.notify();
        }
    }
}
