//! Group commit: durable writes to a file behind the page cache share their syncs.
//!
//! `RWF_DSYNC` makes each write wait for a flush of the disk; and as a ring hands writes of one regular file to the
//! kernel's workers one after the other, N of them wait for N flushes, however many were sent at once. So here a
//! durable write is a plain one and then a sync, and all that have been written while the last sync was under way share
//! the next: two flushes are the longest that anybody waits.
//!
//! A sync covers what its writes cover, from the first byte to the last, not the whole file: what others wrote there
//! without asking for durability stays in the cache. There is one at a time, plain flushes among them, and what becomes
//! of it is told to all that it covers: the kernel tells that writing back has failed once for each open file, and with
//! two syncs side by side it could be the other that is told.
//!
//! Rejected: durable writes past the page cache, which are not the same file to those that read through it until it is
//! invalidated. Block devices need none of this: there the kernel has no such queue, and a disk that can writes durably
//! without a flush.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use device::DeviceError;
use futures_util::future::{FutureExt, LocalBoxFuture, Shared};
use units::{Bytes, Instant};

/// What became of a sync, and when.
pub(crate) type Outcome = (Result<(), DeviceError>, Instant);

/// Makes a range durable.
type Sync = dyn Fn(Range<Bytes>) -> LocalBoxFuture<'static, Outcome>;

/// The syncs of one file.
pub(crate) struct Commit {
    sync: Rc<Sync>,
    /// The one that has not begun.
    next: Rc<RefCell<Option<Next>>>,
    /// The newest: whoever comes after it waits for its end first, even if nobody else does any more.
    newest: RefCell<Option<Shared<LocalBoxFuture<'static, Outcome>>>>,
}

struct Next {
    range: Range<Bytes>,
    over: Shared<LocalBoxFuture<'static, Outcome>>,
}

impl Commit {
    /// With this way of making a range durable.
    pub fn new(sync: impl Fn(Range<Bytes>) -> LocalBoxFuture<'static, Outcome> + 'static) -> Commit {
        Commit { sync: Rc::new(sync), next: Rc::default(), newest: RefCell::default() }
    }

    /// Makes durable what has been written to this range.
    pub async fn settle(&self, range: Range<Bytes>) -> Outcome {
        let over = match &mut *self.next.borrow_mut() {
            Some(next) => {
                next.range = next.range.start.min(range.start)..next.range.end.max(range.end);
                next.over.clone()
            }
            none => {
                let over = self.after_newest();
                *self.newest.borrow_mut() = Some(over.clone());
                none.insert(Next { range, over }).over.clone()
            }
        };
        over.await
    }

    /// A sync of all that is asked for until the newest one is over.
    fn after_newest(&self) -> Shared<LocalBoxFuture<'static, Outcome>> {
        let (before, next, sync) = (self.newest.borrow().clone(), Rc::downgrade(&self.next), Rc::clone(&self.sync));
        let over = async move {
            if let Some(before) = before {
                // Its error is for those whom it covered.
                let _ = before.await;
            }
            let next = next.upgrade().expect("who waits for a sync holds the file");
            let range = next.borrow_mut().take().expect("it begins once").range;
            sync(range).await
        };
        over.boxed_local().shared()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use futures_util::future::{Either, join_all, select};
    use runtime::Runtime;
    use units::Duration;

    use super::*;

    /// A file whose sync takes a millisecond, the syncs that it has seen, and how many of them were under way at most.
    fn file(runtime: &Runtime, fails: usize) -> (Commit, Rc<RefCell<Vec<Range<u64>>>>) {
        let (seen, under_way) = (Rc::<RefCell<Vec<Range<u64>>>>::default(), Rc::new(Cell::new(false)));
        let (runtime, syncs) = (runtime.clone(), Rc::clone(&seen));
        let sync = move |range: Range<Bytes>| {
            let (runtime, under_way) = (runtime.clone(), Rc::clone(&under_way));
            syncs.borrow_mut().push(range.start.get()..range.end.get());
            let result = if syncs.borrow().len() == fails { Err(DeviceError::NoSpace) } else { Ok(()) };
            async move {
                assert!(!under_way.replace(true), "one at a time");
                runtime.sleep(Duration::millis(1)).await;
                under_way.set(false);
                (result, runtime.now())
            }
            .boxed_local()
        };
        (Commit::new(sync), seen)
    }

    fn range(start: u64) -> Range<Bytes> {
        Bytes::new(start)..Bytes::new(start + 10)
    }

    #[test]
    fn what_comes_during_a_sync_shares_the_next_and_its_error() {
        let runtime = Runtime::simulated();
        let (commit, seen) = file(&runtime, 2);
        let all = (0..64).map(|number| {
            let (runtime, commit) = (&runtime, &commit);
            async move {
                runtime.sleep(Duration::micros(number)).await;
                (number, commit.settle(range(100 * (64 - number))).await, runtime.now())
            }
        });
        for (number, (result, at), now) in runtime.block_on(join_all(all)) {
            let (first, millis) = (number == 0, if number == 0 { 1 } else { 2 });
            assert_eq!((result.is_ok(), at), (first, now), "{number}");
            assert_eq!(now.since(Instant::START), Duration::millis(millis), "{number}");
        }
        assert_eq!(*seen.borrow(), [6400..6410, 100..6310]);
        assert_eq!(runtime.block_on(commit.settle(range(7))).0, Ok(()), "the error was told");
        assert_eq!(seen.borrow().last(), Some(&(7..17)));
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_others_their_sync() {
        let runtime = Runtime::simulated();
        let (commit, seen) = file(&runtime, 0);
        let impatient = async {
            let (sync, patience) = (pin!(commit.settle(range(0))), pin!(runtime.sleep(Duration::micros(500))));
            assert!(matches!(select(sync, patience).await, Either::Right(_)), "it takes longer");
        };
        let late = async {
            runtime.sleep(Duration::micros(100)).await;
            let (result, at) = commit.settle(range(50)).await;
            assert_eq!((result, at.since(Instant::START)), (Ok(()), Duration::millis(2)));
        };
        runtime.block_on(async { futures_util::join!(impatient, late) });
        // Nobody waits for this one at all.
        let given_up = async {
            let _ = select(pin!(commit.settle(range(70))), pin!(runtime.sleep(Duration::micros(1)))).await;
        };
        runtime.block_on(given_up);
        assert_eq!(runtime.block_on(commit.settle(range(90))).0, Ok(()));
        assert_eq!(*seen.borrow(), [0..10, 50..60, 70..80, 90..100]);
    }
}
