//! A resource with a number of places, waited for in order: a bus, a processor, a lock, a buffer pool.
//!
//! Waiters are served by priority (lower number first), then by arrival: the queueing discipline of the theory the
//! tests hold it against (M/M/1, M/M/c, Little's law). A place passes directly from the one who frees it to the first
//! in line; it cannot be stolen in between. Arbitration that is the point of a part (SCSI ids, VME levels) is that
//! part's own code and sits on top.
//!
//! Busy time is the integral of places in use over time; divided by places and elapsed time it is the utilization.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use units::{Duration, Instant};

use crate::Runtime;

/// A resource; clones name the same one.
#[derive(Clone)]
pub struct Resource {
    runtime: Runtime,
    state: Rc<RefCell<State>>,
}

struct State {
    places: u32,
    in_use: u32,
    queue: BinaryHeap<Reverse<(u32, u64, u32)>>,
    waiters: Vec<Waiter>,
    free: Vec<u32>,
    arrivals: u64,
    busy: Duration,
    changed: Instant,
}

enum Waiter {
    Free,
    Waiting(Waker),
    /// It has a place, but has not been polled since.
    Granted,
    /// Its future was dropped; its entry in the queue is passed over.
    Gone,
}

impl Resource {
    /// A resource with `places` places, all free. Panics if there are none.
    pub fn new(runtime: &Runtime, places: u32) -> Resource {
        assert!(places > 0, "a resource without places can never be had");
        let state = State {
            places,
            in_use: 0,
            queue: BinaryHeap::new(),
            waiters: Vec::new(),
            free: Vec::new(),
            arrivals: 0,
            busy: Duration::ZERO,
            changed: runtime.now(),
        };
        Resource { runtime: runtime.clone(), state: Rc::new(RefCell::new(state)) }
    }

    /// Waits for a place, behind everyone of the same or a lower `priority` number. The place is free again when the
    /// grant is dropped.
    pub fn acquire(&self, priority: u32) -> Acquire {
        Acquire { resource: self.clone(), priority, place: Place::NotAsked }
    }

    /// Takes a place if one is free and nobody waits.
    pub fn try_acquire(&self) -> Option<Grant> {
        let mut state = self.state.borrow_mut();
        // Whoever waits would have been given a free place.
        if state.in_use == state.places {
            return None;
        }
        state.take(self.runtime.now());
        Some(Grant { resource: self.clone() })
    }

    /// How many places it has.
    pub fn places(&self) -> u32 {
        self.state.borrow().places
    }

    /// Places in use.
    pub fn in_use(&self) -> u32 {
        self.state.borrow().in_use
    }

    /// Place-time used up to now: with one place, the time it was busy.
    pub fn busy(&self) -> Duration {
        let mut state = self.state.borrow_mut();
        state.account(self.runtime.now());
        state.busy
    }

    fn release(&self) {
        let now = self.runtime.now();
        let mut state = self.state.borrow_mut();
        assert!(state.in_use > 0, "a place is freed once");
        while let Some(Reverse((_, _, index))) = state.queue.pop() {
            match std::mem::replace(&mut state.waiters[index as usize], Waiter::Granted) {
                Waiter::Waiting(waker) => {
                    // The place changes hands: `in_use` stays.
                    waker.wake();
                    return;
                }
                Waiter::Gone => state.retire(index),
                Waiter::Free | Waiter::Granted => unreachable!("who is in the queue is waiting or gone"),
            }
        }
        state.account(now);
        state.in_use -= 1;
    }
}

impl State {
    fn account(&mut self, now: Instant) {
        self.busy += now.since(self.changed) * u64::from(self.in_use);
        self.changed = now;
    }

    fn take(&mut self, now: Instant) {
        self.account(now);
        self.in_use += 1;
        assert!(self.in_use <= self.places, "no more places are given than there are");
    }

    fn enqueue(&mut self, priority: u32, waker: Waker) -> u32 {
        let waiter = Waiter::Waiting(waker);
        let index = match self.free.pop() {
            Some(index) => {
                self.waiters[index as usize] = waiter;
                index
            }
            None => {
                self.waiters.push(waiter);
                (self.waiters.len() - 1) as u32
            }
        };
        self.queue.push(Reverse((priority, self.arrivals, index)));
        self.arrivals += 1;
        index
    }

    fn retire(&mut self, index: u32) {
        self.waiters[index as usize] = Waiter::Free;
        self.free.push(index);
    }
}

/// The future of a place.
pub struct Acquire {
    resource: Resource,
    priority: u32,
    place: Place,
}

enum Place {
    NotAsked,
    InLine(u32),
    Had,
}

impl Future for Acquire {
    type Output = Grant;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Grant> {
        let this = &mut *self;
        let mut state = this.resource.state.borrow_mut();
        match this.place {
            Place::NotAsked if state.in_use < state.places => state.take(this.resource.runtime.now()),
            Place::NotAsked => {
                this.place = Place::InLine(state.enqueue(this.priority, context.waker().clone()));
                return Poll::Pending;
            }
            Place::InLine(index) => match &mut state.waiters[index as usize] {
                Waiter::Granted => state.retire(index),
                Waiter::Waiting(waker) => {
                    waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                Waiter::Free | Waiter::Gone => unreachable!("a waiter's slot is its own until it has its place"),
            },
            Place::Had => panic!("an acquired place was polled for again"),
        }
        this.place = Place::Had;
        Poll::Ready(Grant { resource: this.resource.clone() })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Place::InLine(index) = self.place else { return };
        let mut state = self.resource.state.borrow_mut();
        if matches!(state.waiters[index as usize], Waiter::Granted) {
            // The place came too late: pass it on.
            state.retire(index);
            drop(state);
            self.resource.release();
        } else {
            state.waiters[index as usize] = Waiter::Gone;
        }
    }
}

/// A place; dropping it frees it.
#[must_use = "the place is free again as soon as the grant is dropped"]
pub struct Grant {
    resource: Resource,
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.resource.release();
    }
}
