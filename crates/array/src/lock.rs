//! Locks on units of an array: rows, chunks, regions.
//!
//! Whoever changes more than one member of a unit holds its lock, so that two writes do not mix in the parity or leave copies that
//! differ, and whoever reconstructs holds it too, so that it does not see half a write. Waiters are served in order of arrival. A unit
//! that nobody uses costs nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use runtime::{Grant, Resource, Runtime};

/// The locks of an array.
pub(crate) struct Locks {
    runtime: Runtime,
    held: Rc<RefCell<HashMap<u64, (Resource, u32)>>>,
}

/// A held lock; dropping it frees the unit.
pub(crate) struct UnitLock {
    held: Rc<RefCell<HashMap<u64, (Resource, u32)>>>,
    unit: u64,
    grant: Option<Grant>,
}

impl Locks {
    pub fn new(runtime: &Runtime) -> Locks {
        Locks { runtime: runtime.clone(), held: Rc::default() }
    }

    /// Waits for a unit.
    pub async fn lock(&self, unit: u64) -> UnitLock {
        let resource = {
            let mut held = self.held.borrow_mut();
            let (resource, users) = held.entry(unit).or_insert_with(|| (Resource::new(&self.runtime, 1), 0));
            *users += 1;
            resource.clone()
        };
        // Made before waiting: whoever gives up while waiting is counted out as well.
        let mut lock = UnitLock { held: Rc::clone(&self.held), unit, grant: None };
        lock.grant = Some(resource.acquire(0).await);
        lock
    }
}

impl Drop for UnitLock {
    fn drop(&mut self) {
        drop(self.grant.take());
        let mut held = self.held.borrow_mut();
        let (_, users) = held.get_mut(&self.unit).expect("a lock in use has its entry");
        *users -= 1;
        if *users == 0 {
            held.remove(&self.unit);
        }
    }
}
