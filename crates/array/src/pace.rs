//! The pace of an upkeep: who watches it, how fast it may be, and when it is to end.

use std::cell::Cell;
use std::rc::Rc;

use device::Device;
use units::{Bytes, Duration, Instant, Rate};

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

/// How long an upkeep that went too fast waits before it asks again whether to go on.
const ASKS_EVERY: Duration = Duration::seconds(1);
/// How much of what it fell behind its rate it makes up for: what timers are late by, and no more. Or it would go as
/// fast as it can after others kept it waiting.
const MADE_UP: Duration = Duration::seconds(1);

/// An upkeep that has begun.
pub(crate) struct Walk {
    of: Bytes,
    /// What has been reckoned with, and when it is due at its rate.
    reckoned: Cell<Bytes>,
    due: Cell<Instant>,
    /// What it passed over since: that takes no time, and nobody has to wait for it.
    spared: Cell<Bytes>,
}

impl Walk {
    /// Passes over so much.
    pub fn spare(&self, length: Bytes) {
        self.spared.set(self.spared.get() + length);
    }

    /// When it may be so far, at the rate of now: what lies behind went at the rates of its time.
    fn due(&self, upto: Bytes, now: Instant, rate: Option<Rate>) -> Instant {
        let length = upto.saturating_sub(self.reckoned.get());
        self.reckoned.set(self.reckoned.get() + length);
        let spared = self.spared.get().min(length);
        self.spared.set(self.spared.get() - spared);
        let before = self.due.get();
        let begins = if before + MADE_UP < now { now } else { before };
        let due = rate.map_or(now, |rate| begins + rate.time_for(length - spared));
        self.due.set(due);
        due
    }
}

impl<D: Device> Array<D> {
    /// Has `watcher` told after every unit of an upkeep how far it is. If it answers false, the upkeep ends there: a
    /// rebuild records its mark and can be resumed, a resync too, and a scrub says where it ended.
    pub fn watch(&self, watcher: impl Fn(Progress) -> bool + 'static) {
        *self.watcher.borrow_mut() = Some(Rc::new(watcher));
    }

    /// No upkeep goes faster than this (bytes of the array for a scrub, of the member for a rebuild); without a rate,
    /// as fast as it can.
    pub fn limit(&self, rate: Option<Rate>) {
        self.rate.set(rate);
    }

    pub(crate) fn walk(&self, from: Bytes, of: Bytes) -> Walk {
        Walk { of, reckoned: Cell::new(from), due: Cell::new(self.runtime.now()), spared: Cell::new(Bytes::ZERO) }
    }

    /// A unit is done. Waits where it went too fast; says whether to go on.
    pub(crate) async fn advance(&self, walk: &Walk, done: Bytes) -> bool {
        self.goes_on(walk, done) && self.pace(walk, done, done).await
    }

    /// Waits until an upkeep that is `done` so far may be so far; says whether to go on.
    pub(crate) async fn pace(&self, walk: &Walk, upto: Bytes, done: Bytes) -> bool {
        let rate = self.rate.get().filter(|rate| !rate.is_zero());
        let due = walk.due(upto, self.runtime.now(), rate);
        loop {
            let now = self.runtime.now();
            if due <= now {
                return true;
            }
            self.runtime.sleep_until(due.min(now + ASKS_EVERY)).await;
            if due > now + ASKS_EVERY && !self.goes_on(walk, done) {
                return false;
            }
        }
    }

    /// Tells whoever watches how far it is; says whether to go on. While another server uses the members it does not.
    pub(crate) fn goes_on(&self, walk: &Walk, done: Bytes) -> bool {
        self.state.iter().for_each(|state| state.stirred.set(true));
        let watcher = self.watcher.borrow().clone();
        self.rival().is_none() && watcher.is_none_or(|watcher| watcher(Progress { done, of: walk.of }))
    }
}
