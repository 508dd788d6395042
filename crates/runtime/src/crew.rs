//! Tasks that borrow.
//!
//! A task lives as long as its runtime, so it owns what it works with. The load generators of a pass borrow theirs:
//! devices, the observer, the control. One future that holds them all would do (`FuturesUnordered`), but then each
//! wake-up passes through a second layer of wakers, which are reference-counted and atomic: on a modelled machine that
//! was an eighth of the time. Here such futures are tasks for as long as a call lasts, as [`std::thread::scope`] does
//! it with threads.

use std::future::Future;
use std::pin::Pin;

use crate::Runtime;
use crate::task::Body;
use crate::waker::TaskId;

impl Runtime {
    /// Runs `main` as [`block_on`](Runtime::block_on) does, and beside it a crew of futures, each a task of its own.
    /// Those that have not ended when `main` has are dropped.
    ///
    /// # Panics
    /// If the simulation stalls.
    pub fn block_on_with<'a, T, F>(&self, crew: impl IntoIterator<Item = F>, main: impl Future<Output = T>) -> T
    where
        F: Future<Output = ()> + 'a,
    {
        let mut aboard = Crew { runtime: self, members: Vec::new() };
        for future in crew {
            let body: Pin<Box<dyn Future<Output = ()> + 'a>> = Box::pin(future);
            // SAFETY: only the lifetime changes, and what the body borrows outlives this call. The body does not: it is
            // dropped when it ends, or by the runtime's `clear`, or by `aboard`, which this function drops whether it
            // returns or panics. A body that is being polled when there is a panic is owned by a call above this one,
            // which drops it first.
            #[allow(unsafe_code)]
            let body = unsafe { std::mem::transmute::<Pin<Box<dyn Future<Output = ()> + 'a>>, Body>(body) };
            aboard.members.push(self.start(body));
        }
        self.block_on(main)
    }
}

/// The tasks of one call.
struct Crew<'r> {
    runtime: &'r Runtime,
    members: Vec<TaskId>,
}

impl Drop for Crew<'_> {
    fn drop(&mut self) {
        // All are out before the first is dropped: none stays behind if dropping one panics.
        let bodies: Vec<Body> = self.members.iter().filter_map(|member| self.runtime.end(*member)).collect();
        drop(bodies);
    }
}
