//! The medium being written while the data come.
//!
//! A scan is a chain of runs that goes on until it has written all that has come, its *limit*. There it stands and has
//! lost its place: when more data come, their sector has to come round. So has the first sector, if it passes before
//! enough data are there.

use units::Instant;

use crate::disk::mechanism::{Access, Arm, Mechanism, Run};

/// The writing of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan {
    /// The run that is passing, or that the arm is on its way to.
    run: Run,
    /// One past the last block that has come.
    limit: u64,
    motion: Motion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Motion {
    /// On the way to the first block, or waiting there for data.
    Waits,
    /// Writing.
    Goes,
    /// At its limit, its place lost.
    Stands,
}

impl Scan {
    /// An arm on its way to the first block.
    pub const fn new(run: Run) -> Scan {
        Scan { run, limit: run.first, motion: Motion::Waits }
    }

    /// The run that is passing, or that the arm is on its way to.
    pub const fn run(&self) -> &Run {
        &self.run
    }

    /// One past the last block that is on the medium at `now`.
    pub fn written(&mut self, now: Instant, mechanism: &Mechanism) -> u64 {
        while self.motion == Motion::Goes {
            if self.limit <= self.run.after() {
                if self.run.passed(self.limit - self.run.first) > now {
                    return self.run.first + self.run.count_at(now);
                }
                self.motion = Motion::Stands;
            } else if self.run.ends() > now {
                return self.run.first + self.run.count_at(now);
            } else {
                self.run = next(&self.run, mechanism);
            }
        }
        if self.motion == Motion::Stands { self.limit } else { self.run.first }
    }

    /// Data up to `limit` have come by `now`. The medium is written once `enough` blocks are there, and with `all` of
    /// them from whichever passes first.
    pub fn come(&mut self, now: Instant, limit: u64, enough: u64, all: bool, mechanism: &Mechanism) {
        let at = self.written(now, mechanism);
        self.limit = limit;
        match self.motion {
            Motion::Goes => (),
            Motion::Waits if limit - at < enough => (),
            Motion::Waits => {
                // The arm's run counts if its first sector is still to come.
                if all {
                    let there = self.run.on_track().max(now);
                    self.run = mechanism.run_zero_latency(self.run.arm, there, at, limit, Access::Write);
                } else if self.run.begins < now {
                    self.run = mechanism.run(self.run.arm, now, at, Access::Write);
                }
                self.motion = Motion::Goes;
            }
            Motion::Stands => {
                self.run = mechanism.run(self.run.arm, now, at, Access::Write);
                self.motion = Motion::Goes;
            }
        }
    }

    /// When all blocks before `after` are on the medium, which have come.
    pub fn when(&self, after: u64, mechanism: &Mechanism) -> Instant {
        if after <= self.run.first || self.motion == Motion::Stands {
            return Instant::START;
        }
        self.ends(after, mechanism).0
    }

    /// The same, and where the arm is then.
    pub fn ends(&self, after: u64, mechanism: &Mechanism) -> (Instant, Arm) {
        assert!(self.motion != Motion::Waits && after <= self.limit, "what is written has come");
        let mut run = self.run;
        while run.after() < after {
            run = next(&run, mechanism);
        }
        (run.passed(after.saturating_sub(run.first)), run.arm)
    }
}

fn next(run: &Run, mechanism: &Mechanism) -> Run {
    mechanism.next(run, Access::Write).expect("a request lies within the drive")
}
