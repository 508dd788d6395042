//! Time-outs of requests, used again.
//!
//! Nearly no request is late, and a timer that is made for each, and taken back, shows in what a small write costs (`benchsuite array`). So one that
//! was not needed stays where it is among the timers, and waits for a later request: it is due too early for that one, which then has it wait for the rest,
//! as [`both_within`](crate::member::both_within) does. One that nobody needs any more wakes somebody once, for nothing.

use std::cell::RefCell;

use runtime::{Runtime, Sleep};
use units::Duration;

/// Timers of an array that no request has at the moment.
#[derive(Default)]
pub(crate) struct TimeOuts(RefCell<Vec<Sleep>>);

impl TimeOuts {
    /// A timer that is due after the limit, or before.
    #[inline]
    pub fn take(&self, runtime: &Runtime, limit: Duration) -> Sleep {
        let deadline = runtime.now() + limit;
        // One that was made when more time was given would be too late.
        let kept = self.0.borrow_mut().pop().filter(|kept| kept.deadline() <= deadline);
        kept.unwrap_or_else(|| runtime.sleep_until(deadline))
    }

    /// Keeps a timer for others.
    #[inline]
    pub fn give(&self, timer: Sleep) {
        self.0.borrow_mut().push(timer);
    }
}

#[test]
fn a_timer_is_never_due_after_the_limit() {
    let runtime = Runtime::simulated();
    let time_outs = TimeOuts::default();
    let due = |limit: u64| {
        let timer = time_outs.take(&runtime, Duration::seconds(limit));
        let due = timer.deadline().since(runtime.now()).as_seconds();
        time_outs.give(timer);
        due
    };
    assert_eq!(due(30), 30.0);
    runtime.block_on(runtime.sleep(Duration::seconds(10)));
    assert_eq!(due(30), 20.0, "the same one");
    assert_eq!(due(5), 5.0, "another, as the limit is less by now");
}
