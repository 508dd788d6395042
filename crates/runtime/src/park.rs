//! How a live runtime waits.

use std::sync::{Arc, Condvar, Mutex};

use units::{Duration, Instant};

/// Waits for the world when no task can go on.
pub trait Park {
    /// Collects what has happened outside and wakes the tasks concerned.
    ///
    /// Waits at most `limit` (for ever if `None`, not at all if zero) if nothing has happened yet. May return early.
    /// `clock` is the runtime's own: a park that stamps what it saw stamps it in the time that tasks read.
    fn park(&mut self, limit: Option<Duration>, clock: LiveClock);

    /// True if a `park` that does not wait would find nothing: nobody has called, and nothing is under way outside that
    /// it could collect.
    fn is_quiet(&self) -> bool;

    /// Ends a `park` from another thread; before one begins, makes it return at once.
    fn unparker(&self) -> Arc<dyn Unpark>;
}

/// Real time, since the start of a live runtime. Threads may share one.
#[derive(Debug, Clone, Copy)]
pub struct LiveClock {
    start: std::time::Instant,
}

impl LiveClock {
    /// The clock that reads [`Instant::START`] at `start`.
    pub fn since(start: std::time::Instant) -> LiveClock {
        LiveClock { start }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

/// The other thread's half of a [`Park`].
pub trait Unpark: Send + Sync {
    /// Ends the present or the next `park`.
    fn unpark(&self);
}

/// A park for runtimes that wait only for timers and other threads.
#[derive(Default)]
pub struct ThreadPark {
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Park for ThreadPark {
    fn park(&mut self, limit: Option<Duration>, _clock: LiveClock) {
        let mut rung = self.bell.rung.lock().expect("no panic under this lock");
        if !*rung {
            rung = match limit {
                Some(limit) if limit.is_zero() => rung,
                Some(limit) => {
                    let limit = std::time::Duration::from_nanos(limit.as_nanos());
                    self.bell.changed.wait_timeout(rung, limit).expect("no panic under this lock").0
                }
                None => self.bell.changed.wait(rung).expect("no panic under this lock"),
            };
        }
        *rung = false;
    }

    fn is_quiet(&self) -> bool {
        !*self.bell.rung.lock().expect("no panic under this lock")
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        Arc::clone(&self.bell) as Arc<dyn Unpark>
    }
}

impl Unpark for Bell {
    fn unpark(&self) {
        *self.rung.lock().expect("no panic under this lock") = true;
        self.changed.notify_one();
    }
}
