//! Which waiting request comes next.
//!
//! # The policies
//! - *FCFS*: in the order of arrival.
//! - *SSTF*, shortest seek time first: the nearest cylinder (Denning 1967). Requests far from the crowd may wait long.
//! - *SCAN*: up to the last request, then down to the first, and so on (the elevator).
//! - *C-LOOK*: up to the last request, then back to the first one: all cylinders wait about equally long.
//! - *SPTF*, shortest positioning time first: the one whose first sector can be reached soonest, seek and rotation
//!   together (Seltzer, Chen and Ousterhout 1990; Jacobson and Wilkes, HPL-CSP-91-7). Only the drive itself knows
//!   enough for it. What is in the buffer takes no time at all. A write counts from when its data can be there, as a
//!   sector that passes before costs a revolution.
//!
//! An *age limit* bounds the wait under any of them: a request that is older comes next, oldest first. Requests of the
//! same merit are served in the order of their arrival.

use units::{Duration, Instant};

use super::drive::{Command, Drive, Request};
use super::geometry::Extent;
use super::parameters::Policy;

/// A request that waits.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// The caller's name for it.
    pub tag: u64,
    /// What it asks for.
    pub request: Request,
    /// When the host issued it.
    pub issued: Instant,
    /// When it entered the drive, which takes only so many at a time.
    pub entered: Instant,
    /// Where its first block is, so that this is worked out once and not at each decision.
    extent: Extent,
}

/// The requests that wait for one drive, in the order of their arrival.
#[derive(Debug, Clone)]
pub struct Queue {
    policy: Policy,
    age_limit: Option<Duration>,
    depth: usize,
    waiting: Vec<Waiting>,
    /// SCAN goes towards higher cylinders.
    inward: bool,
}

impl Queue {
    /// An empty queue. The drive looks at the first `depth` requests; those behind them wait in the host. Panics if
    /// `depth` is zero.
    pub fn new(policy: Policy, depth: u32, age_limit: Option<Duration>) -> Queue {
        assert!(depth > 0, "a drive takes at least one request");
        Queue { policy, age_limit, depth: depth as usize, waiting: Vec::new(), inward: true }
    }

    /// Adds a request that is issued at `now`.
    pub fn push(&mut self, now: Instant, tag: u64, request: Request, drive: &Drive) {
        let extent = drive.parameters().mechanism.geometry.extent(request.block);
        self.waiting.push(Waiting { tag, request, issued: now, entered: now, extent });
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
    /// When the first of those that wait entered the drive, if any does.
    pub fn first_entered(&self) -> Option<Instant> {
        self.waiting.first().map(|waiting| waiting.entered)
    }

    /// Takes out the request that comes next. Panics if none has entered the drive by `now`.
    pub fn take(&mut self, now: Instant, drive: &Drive) -> Waiting {
        let within = self.waiting.iter().take(self.depth).take_while(|waiting| waiting.entered <= now).count();
        assert!(within > 0, "a drive takes a request that waits");
        let next = self.next(now, drive, within);
        self.waiting.remove(next)
    }

    /// The place of a request that was taken out is free from `at` on, for the first that waits in the host.
    pub fn admit(&mut self, at: Instant) {
        if let Some(waiting) = self.waiting.get_mut(self.depth - 1) {
            waiting.entered = waiting.entered.max(at);
        }
    }

    fn next(&mut self, now: Instant, drive: &Drive, within: usize) -> usize {
        let candidates = &self.waiting[..within];
        if within == 1 {
            return 0;
        }
        let oldest = now.saturating_since(candidates[0].issued);
        if self.age_limit.is_some_and(|limit| oldest > limit) {
            return 0;
        }
        let here = drive.arm().cylinder;
        let cylinder = |waiting: &Waiting| waiting.extent.location.cylinder;
        match self.policy {
            Policy::Fcfs => 0,
            Policy::Sstf => least(candidates, |waiting| Some(cylinder(waiting).abs_diff(here))),
            Policy::Sptf => {
                let free = drive.free_for_another(now);
                least(candidates, |waiting| {
                    let command = Command { request: waiting.request, arrived: waiting.entered, taken: now };
                    Some(drive.reach(&command, free, &waiting.extent))
                })
            }
            Policy::CLook => {
                // Those behind the arm come after all of those before it.
                least(candidates, |waiting| Some((cylinder(waiting) < here, cylinder(waiting), waiting.request.block)))
            }
            Policy::Scan => {
                if !candidates.iter().any(|waiting| ahead(self.inward, here, cylinder(waiting))) {
                    self.inward = !self.inward;
                }
                let inward = self.inward;
                least(candidates, |waiting| {
                    ahead(inward, here, cylinder(waiting)).then(|| cylinder(waiting).abs_diff(here))
                })
            }
        }
    }
}

fn ahead(inward: bool, here: u32, cylinder: u32) -> bool {
    if inward { cylinder >= here } else { cylinder <= here }
}

/// The first of those candidates whose cost is least; those without one do not count.
fn least<K: Ord>(candidates: &[Waiting], cost: impl Fn(&Waiting) -> Option<K>) -> usize {
    let costs = candidates.iter().enumerate().filter_map(|(index, waiting)| cost(waiting).map(|cost| (cost, index)));
    costs.min().expect("one of the candidates counts").1
}
