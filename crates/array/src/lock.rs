//! Locks on units of an array: rows, chunks, regions.
//!
//! Whoever changes more than one member of a unit holds its lock, so that two writes do not mix in the parity or leave
//! copies that differ, and whoever reconstructs holds it too, so that it does not see half a write. Waiters are served
//! in order of arrival. A unit that nobody uses costs nothing, and one that nobody else wants an entry in a table; only
//! who must wait makes a line to wait in.

use std::cell::RefCell;
use std::collections::hash_map::Entry;

use runtime::{Grant, Resource, Runtime};
use rustc_hash::FxHashMap;

/// The locks of an array.
pub(crate) struct Locks {
    runtime: Runtime,
    /// Units that are locked, and who waits for them, if anybody had to.
    held: RefCell<FxHashMap<u64, Option<Box<Line>>>>,
}

/// Those who wait for a unit.
struct Line {
    /// Who holds it, and who waits.
    users: u32,
    resource: Resource,
    /// The place of the one who came when there was no line yet.
    first: Option<Grant>,
}

/// A held lock; dropping it frees the unit.
pub(crate) struct UnitLock<'a> {
    locks: &'a Locks,
    unit: u64,
    /// Of whoever had to wait.
    grant: Option<Grant>,
    held: bool,
}

impl Locks {
    pub fn new(runtime: &Runtime) -> Locks {
        Locks { runtime: runtime.clone(), held: RefCell::default() }
    }

    /// The lock of a unit that nobody has.
    #[inline]
    pub fn try_lock(&self, unit: u64) -> Option<UnitLock<'_>> {
        match self.held.borrow_mut().entry(unit) {
            Entry::Vacant(free) => free.insert(None),
            Entry::Occupied(_) => return None,
        };
        Some(UnitLock { locks: self, unit, grant: None, held: true })
    }

    /// Waits for a unit.
    pub async fn lock(&self, unit: u64) -> UnitLock<'_> {
        if let Some(lock) = self.try_lock(unit) {
            return lock;
        }
        let line = {
            let mut table = self.held.borrow_mut();
            let held = table.get_mut(&unit).expect("a lock in use has its entry");
            let line = held.get_or_insert_with(|| Line::behind_one(&self.runtime));
            line.users += 1;
            line.resource.clone()
        };
        // Made before waiting: whoever gives up while waiting is counted out as well.
        let mut lock = UnitLock { locks: self, unit, grant: None, held: false };
        lock.grant = Some(line.acquire(0).await);
        lock.held = true;
        lock
    }
}

impl Line {
    fn behind_one(runtime: &Runtime) -> Box<Line> {
        let resource = Resource::new(runtime, 1);
        let first = resource.try_acquire();
        assert!(first.is_some(), "a new line is empty");
        Box::new(Line { users: 1, resource, first })
    }
}

impl Drop for UnitLock<'_> {
    fn drop(&mut self) {
        let freed = {
            let mut table = self.locks.held.borrow_mut();
            let Entry::Occupied(mut held) = table.entry(self.unit) else { panic!("a lock in use has its entry") };
            match held.get_mut() {
                Some(line) if line.users > 1 => {
                    line.users -= 1;
                    if self.held && self.grant.is_none() { line.first.take() } else { None }
                }
                _ => held.remove().and_then(|line| line.first),
            }
        };
        drop((self.grant.take(), freed));
    }
}

#[test]
fn a_unit_is_held_by_one_at_a_time_in_order_of_arrival() {
    use std::rc::Rc;
    let runtime = Runtime::simulated();
    let locks = Rc::new(Locks::new(&runtime));
    let order = Rc::new(RefCell::new(Vec::new()));
    let worker = |number: u64, unit: u64| {
        let (runtime, locks, order) = (runtime.clone(), Rc::clone(&locks), Rc::clone(&order));
        async move {
            let _lock = locks.lock(unit).await;
            runtime.sleep(units::Duration::micros(10)).await;
            order.borrow_mut().push((number, runtime.now().since(units::Instant::START).as_nanos() / 1000));
        }
    };
    let workers: Vec<_> = [(0, 7), (1, 7), (2, 8), (3, 7)].map(|(number, unit)| worker(number, unit)).into();
    runtime.block_on(async {
        let mut workers = workers.into_iter();
        let first = workers.next().expect("there are four");
        let mut rest: Vec<_> = workers.map(Box::pin).collect();
        // One who gives up while it waits is in nobody's way.
        let gives_up = Box::pin(locks.lock(7));
        let (_, _, ()) = futures_util::join!(
            first,
            async {
                let given_up =
                    futures_util::future::select(gives_up, Box::pin(runtime.sleep(units::Duration::micros(5))));
                assert!(matches!(given_up.await, futures_util::future::Either::Right(_)));
            },
            async { drop(futures_util::future::join_all(rest.drain(..)).await) }
        );
    });
    assert_eq!(*order.borrow(), [(0, 10), (2, 10), (1, 20), (3, 30)]);
    assert!(locks.held.borrow().is_empty());
}

#[test]
fn what_was_granted_to_one_who_gives_up_goes_to_the_next() {
    use futures_util::poll;
    let runtime = Runtime::simulated();
    let locks = Locks::new(&runtime);
    runtime.block_on(async {
        let first = locks.lock(7).await;
        let (mut second, mut third) = (Box::pin(locks.lock(7)), Box::pin(locks.lock(7)));
        assert!(poll!(&mut second).is_pending() && poll!(&mut third).is_pending());
        drop(first);
        // It is the second's by now, who has not noticed.
        drop(second);
        drop(third.await);
    });
    assert!(locks.held.borrow().is_empty());
}
