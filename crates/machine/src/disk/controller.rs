//! A drive with a queue: whose turn it is, and when.
//!
//! Requests are submitted at any time. Whenever the drive is free to turn to one, it takes the one that its policy
//! prefers among those that have entered it; from then on its completion is known. The drive turns to the next when the
//! host has the completion of the last, or earlier, if it lets the arm leave before (the drive files' "preseeking
//! level").
//!
//! There is no clock in here. Whoever owns a controller turns it at the instants that [`Controller::next_turn`] names,
//! in the order of time with the submissions: a loop over a list of arrivals, or a task under the virtual clock.

use runtime::Random;
use units::{Duration, Instant};

use super::drive::{Command, Drive, Request, Service};
use super::parameters::{Parameters, Preseek};
use super::queue::Queue;
use crate::disk::mechanism::Access;

/// A drive with its queue.
#[derive(Debug, Clone)]
pub struct Controller {
    drive: Drive,
    queue: Queue,
    /// From when on the drive may turn to the next request.
    free: Instant,
}

/// A request that the drive has turned to: what is going to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The caller's name for it.
    pub tag: u64,
    /// How long it waited in the queue.
    pub queued: Duration,
    /// What becomes of it.
    pub service: Service,
}

impl Controller {
    /// A drive at rest, turning at its nominal speed.
    pub fn new(parameters: Parameters) -> Controller {
        let queue = Queue::new(parameters.queue.policy, parameters.queue.depth, parameters.queue.age_limit);
        Controller { drive: Drive::new(parameters), queue, free: Instant::START }
    }

    /// One specimen of many: its speed is off the nominal by a share that is drawn within the speed error.
    pub fn drawn(parameters: Parameters, random: &mut Random) -> Controller {
        Controller::new(parameters.drawn(random))
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }
    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Adds a request that is issued at `now`. Panics if its blocks do not exist.
    pub fn submit(&mut self, now: Instant, tag: u64, request: Request) {
        self.queue.push(now, tag, request, &self.drive);
    }

    /// When the drive turns to the next of the requests that wait, if any does.
    pub fn next_turn(&self) -> Option<Instant> {
        self.queue.first_entered().map(|entered| entered.max(self.free))
    }

    /// Turns to the next request, at the instant that [`next_turn`](Controller::next_turn) named or later.
    pub fn turn(&mut self, now: Instant) -> Turn {
        assert!(now >= self.free, "a drive turns to a request when it is free");
        self.drive.catch_up_with(now);
        let next = self.queue.take(now, &self.drive);
        let service = self.drive.take(Command { request: next.request, arrived: next.entered, taken: now });
        let overhead = &self.drive.parameters().overhead;
        self.free = match self.drive.parameters().write.preseek {
            Preseek::AfterCompletion => service.completes,
            Preseek::DuringCompletion => {
                let completion = match next.request.access {
                    Access::Read => overhead.read_completion,
                    Access::Write => overhead.write_completion,
                };
                Instant::from_nanos(service.completes.as_nanos() - completion.as_nanos())
            }
            Preseek::BeforeCompletion => service.arm_free,
        };
        self.free = self.free.max(now);
        self.queue.admit(service.completes);
        Turn { tag: next.tag, queued: now.since(next.issued), service }
    }

    /// Writes to the medium all that the drive has said to be written: when that is done, and the drive free again.
    pub fn flush(&mut self, now: Instant) -> Instant {
        let now = now.max(self.free);
        self.free = self.drive.flush(now).max(now);
        self.free
    }
}
