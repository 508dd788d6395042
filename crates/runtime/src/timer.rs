//! Timers: a binary heap of instants, each owned by a [`Sleep`] future.
//!
//! The heap holds `(deadline, sequence, slot)`; the sequence number breaks ties and tells a live entry from one whose
//! future was dropped. Dropped entries stay until they surface or outnumber the live ones, so a `select!` that
//! abandons a time-out for each request stays linear in the number of requests. A timing wheel was rejected: it rounds.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use units::Instant;

use crate::executor::Core;

type Entry = Reverse<(Instant, u64, u32)>;

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Entry>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Entries in the heap whose future is gone.
    abandoned: usize,
    sequence: u64,
}

struct Slot {
    sequence: u64,
    state: State,
}

enum State {
    Free,
    Waiting(Waker),
    Fired,
}

/// Where a sleeping future's timer is.
#[derive(Clone, Copy)]
struct Key {
    slot: u32,
    sequence: u64,
}

/// Below this size the heap is not worth sweeping.
const SWEEP_FROM: usize = 64;

impl Timers {
    /// When the next timer is due. Drops abandoned entries from the top.
    pub fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((deadline, sequence, slot))) = self.heap.peek() {
            if self.slots[*slot as usize].sequence == *sequence {
                return Some(*deadline);
            }
            self.heap.pop();
            self.abandoned -= 1;
        }
        None
    }

    /// Fires every timer that is due at `now`, in order of deadline, then of creation.
    pub fn fire(&mut self, now: Instant) {
        while self.next().is_some_and(|deadline| deadline <= now) {
            let Reverse((_, _, slot)) = self.heap.pop().expect("next() saw it");
            match std::mem::replace(&mut self.slots[slot as usize].state, State::Fired) {
                State::Waiting(waker) => waker.wake(),
                State::Free | State::Fired => unreachable!("a timer in the heap is waiting"),
            }
        }
    }

    fn insert(&mut self, deadline: Instant, waker: Waker) -> Key {
        let sequence = self.sequence;
        self.sequence += 1;
        let slot = Slot { sequence, state: State::Waiting(waker) };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).expect("at most 2^32 timers wait at once")
            }
        };
        self.heap.push(Reverse((deadline, sequence, index)));
        Key { slot: index, sequence }
    }

    /// True once the timer has fired; otherwise `waker` is the one to be woken from now on.
    fn poll(&mut self, key: Key, waker: &Waker) -> bool {
        let slot = &mut self.slots[key.slot as usize];
        assert_eq!(slot.sequence, key.sequence, "a timer's slot is its own until its future is dropped");
        match &mut slot.state {
            State::Fired => true,
            State::Waiting(old) => {
                old.clone_from(waker);
                false
            }
            State::Free => unreachable!("a timer's slot is its own until its future is dropped"),
        }
    }

    fn remove(&mut self, key: Key) {
        let slot = &mut self.slots[key.slot as usize];
        assert_eq!(slot.sequence, key.sequence, "a timer's slot is its own until its future is dropped");
        let waiting = matches!(std::mem::replace(&mut slot.state, State::Free), State::Waiting(_));
        // No entry of the heap carries this sequence number: the slot is recognised as abandoned.
        slot.sequence = u64::MAX;
        self.free.push(key.slot);
        if waiting {
            self.abandoned += 1;
            if self.abandoned > SWEEP_FROM && self.abandoned > self.heap.len() / 2 {
                let slots = &self.slots;
                self.heap.retain(|Reverse((_, sequence, slot))| slots[*slot as usize].sequence == *sequence);
                self.abandoned = 0;
            }
        }
    }
}

/// Waits until an instant; made by [`Runtime::sleep`](crate::Runtime::sleep) and `sleep_until`.
///
/// An instant that has passed is ready at once. Dropping the future cancels the timer.
pub struct Sleep {
    core: Rc<Core>,
    deadline: Instant,
    key: Option<Key>,
}

impl Sleep {
    pub(crate) fn new(core: Rc<Core>, deadline: Instant) -> Sleep {
        Sleep { core, deadline, key: None }
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<()> {
        let this = &mut *self;
        let mut timers: std::cell::RefMut<Timers> = RefCell::borrow_mut(&this.core.timers);
        let done = match this.key {
            Some(key) => timers.poll(key, context.waker()),
            None if this.deadline <= this.core.now() => true,
            None => {
                this.key = Some(timers.insert(this.deadline, context.waker().clone()));
                false
            }
        };
        if done { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.core.timers.borrow_mut().remove(key);
        }
    }
}
