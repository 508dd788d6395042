//! For how long there was something to do.

use std::cell::Cell;

use runtime::Runtime;
use units::{Duration, Instant};

/// For how long a part had commands, however many at a time.
#[derive(Default)]
pub(crate) struct Attendance {
    present: Cell<u32>,
    since: Cell<Instant>,
    sum: Cell<Duration>,
}

/// A command that is there.
pub(crate) struct Present<'a>(&'a Attendance, &'a Runtime);

impl Attendance {
    /// A command comes, and stays until what this gives is dropped.
    pub fn enter<'a>(&'a self, runtime: &'a Runtime) -> Present<'a> {
        if self.present.get() == 0 {
            self.since.set(runtime.now());
        }
        self.present.set(self.present.get() + 1);
        Present(self, runtime)
    }

    /// For how long there was one, up to now.
    pub fn sum(&self, now: Instant) -> Duration {
        let present = if self.present.get() == 0 { Duration::ZERO } else { now.since(self.since.get()) };
        self.sum.get() + present
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let (attendance, now) = (self.0, self.1.now());
        let left = attendance.present.get().checked_sub(1).expect("who leaves has entered");
        if left == 0 {
            attendance.sum.set(attendance.sum(now));
        }
        attendance.present.set(left);
    }
}
