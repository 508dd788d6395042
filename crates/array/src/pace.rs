//! The pace of an upkeep: who watches it, how fast it may be, and when it is to end.

use std::rc::Rc;

use device::Device;
use units::{Bytes, Instant, Rate};

use crate::array::Array;

/// How far an upkeep is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Done of the array (scrub, resync) or of the member (rebuild).
    pub done: Bytes,
    /// All of it.
    pub of: Bytes,
}

/// Whoever watches: told after each unit, and asked whether to go on.
pub(crate) type Watcher = Rc<dyn Fn(Progress) -> bool>;

/// An upkeep that has begun.
pub(crate) struct Walk {
    began: Instant,
    from: Bytes,
    of: Bytes,
}

impl<D: Device> Array<D> {
    /// Has `watcher` told after every unit of an upkeep how far it is. If it answers false, the upkeep ends there: a rebuild records its
    /// mark and can be resumed, a resync too, and a scrub says where it ended.
    pub fn watch(&self, watcher: impl Fn(Progress) -> bool + 'static) {
        *self.watcher.borrow_mut() = Some(Rc::new(watcher));
    }

    /// No upkeep goes faster than this (bytes of the array for a scrub, of the member for a rebuild); without a rate, as fast as it can.
    pub fn limit(&self, rate: Option<Rate>) {
        self.rate.set(rate);
    }

    pub(crate) fn walk(&self, from: Bytes, of: Bytes) -> Walk {
        Walk { began: self.runtime.now(), from, of }
    }

    /// A unit is done. Waits where it went too fast; says whether to go on.
    pub(crate) async fn advance(&self, walk: &Walk, done: Bytes) -> bool {
        self.pace(walk, done).await;
        self.goes_on(walk, done)
    }

    /// Waits until an upkeep may be so far.
    pub(crate) async fn pace(&self, walk: &Walk, done: Bytes) {
        if let Some(rate) = self.rate.get().filter(|rate| !rate.is_zero()) {
            self.runtime.sleep_until(walk.began + rate.time_for(done - walk.from)).await;
        }
    }

    /// Tells whoever watches how far it is; says whether to go on. While another server uses the members it does not.
    pub(crate) fn goes_on(&self, walk: &Walk, done: Bytes) -> bool {
        self.state.iter().for_each(|state| state.stirred.set(true));
        let watcher = self.watcher.borrow().clone();
        self.rival().is_none() && watcher.is_none_or(|watcher| watcher(Progress { done, of: walk.of }))
    }
}
