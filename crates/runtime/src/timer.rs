//! Timers: instants in order, each owned by a [`Sleep`] future.
//!
//! An entry is `(deadline, sequence, slot)`; the sequence number breaks ties and tells a live entry from one whose future was dropped.
//! Entries that come in order of their deadlines stand in a line, the others in a binary heap; the next timer is the earlier one
//! of the two fronts. Time-outs all last equally long and so come in order: most are abandoned at the front of the line, where one
//! costs a push and a pop. Elsewhere dropped entries stay until they surface or outnumber the live ones, so a `select!` that abandons
//! a time-out for each request stays linear in the number of requests. A timing wheel was rejected: it rounds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use units::Instant;

use crate::executor::Core;

type Entry = (Instant, u64, u32);

#[derive(Default)]
pub(crate) struct Timers {
    /// Those that came later than all in it when they were made, and are not due before them.
    line: VecDeque<Entry>,
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Entries whose future is gone.
    abandoned: usize,
    sequence: u64,
}

/// Who is woken by a timer, from its creation until it fires or its future is dropped.
struct Slot {
    /// Of the timer that has the slot; [`NOBODY`] if it is free.
    sequence: u64,
    waker: Option<Waker>,
}

/// The sequence number that no timer gets.
const NOBODY: u64 = u64::MAX;

/// Where a sleeping future's timer is.
#[derive(Clone, Copy)]
struct Key {
    slot: u32,
    sequence: u64,
}

/// Fewer abandoned entries are not worth sweeping.
const SWEEP_FROM: usize = 64;

impl Timers {
    fn is_live(&self, (_, sequence, slot): Entry) -> bool {
        self.slots[slot as usize].sequence == sequence
    }

    /// When the next timer is due. Drops abandoned entries from the fronts.
    pub fn next(&mut self) -> Option<Instant> {
        self.clear_line();
        while self.heap.peek().is_some_and(|Reverse(first)| !self.is_live(*first)) {
            self.heap.pop();
            self.abandoned -= 1;
        }
        self.first().map(|(deadline, ..)| deadline)
    }

    /// Drops abandoned entries from the front of the line.
    fn clear_line(&mut self) {
        while self.line.front().is_some_and(|first| !self.is_live(*first)) {
            self.line.pop_front();
            self.abandoned -= 1;
        }
    }

    /// The entry that comes first, live or not.
    fn first(&self) -> Option<Entry> {
        let (line, heap) = (self.line.front().copied(), self.heap.peek().map(|Reverse(first)| *first));
        line.into_iter().chain(heap).min()
    }

    /// Fires every timer that is due at `now`, in order of deadline, then of creation.
    pub fn fire(&mut self, now: Instant) {
        while let Some(first) = self.first().filter(|(deadline, ..)| *deadline <= now) {
            if self.line.front() == Some(&first) {
                self.line.pop_front();
            } else {
                self.heap.pop();
            }
            let (_, sequence, slot) = first;
            match self.release(Key { slot, sequence }) {
                Some(waker) => waker.wake(),
                None => self.abandoned -= 1,
            }
        }
    }

    fn insert(&mut self, deadline: Instant, waker: Waker) -> Key {
        let sequence = self.sequence;
        self.sequence += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { sequence: NOBODY, waker: None });
            u32::try_from(self.slots.len() - 1).expect("at most 2^32 timers wait at once")
        });
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.sequence, NOBODY, "a slot is one timer's until it is free");
        *slot = Slot { sequence, waker: Some(waker) };
        let entry = (deadline, sequence, index);
        match self.line.back() {
            Some(last) if *last > entry => self.heap.push(Reverse(entry)),
            _ => self.line.push_back(entry),
        }
        Key { slot: index, sequence }
    }

    /// True once the timer has fired; otherwise `waker` is the one to be woken from now on.
    fn poll(&mut self, key: Key, waker: &Waker) -> bool {
        let slot = &mut self.slots[key.slot as usize];
        if slot.sequence != key.sequence {
            return true;
        }
        slot.waker.as_mut().expect("a timer that waits has a waker").clone_from(waker);
        false
    }

    /// Frees a timer's slot and returns its waker, unless that has been done.
    fn release(&mut self, key: Key) -> Option<Waker> {
        let slot = &mut self.slots[key.slot as usize];
        if slot.sequence != key.sequence {
            return None;
        }
        slot.sequence = NOBODY;
        self.free.push(key.slot);
        slot.waker.take()
    }

    /// Takes back a timer whose future is dropped. If it has not fired, its entry stays where it is for a while.
    fn cancel(&mut self, key: Key) {
        if self.release(key).is_none() {
            return;
        }
        self.abandoned += 1;
        self.clear_line();
        if self.abandoned > SWEEP_FROM && self.abandoned > (self.heap.len() + self.line.len()) / 2 {
            let slots = &self.slots;
            let is_live = |(_, sequence, slot): &Entry| slots[*slot as usize].sequence == *sequence;
            self.heap.retain(|Reverse(entry)| is_live(entry));
            self.line.retain(is_live);
            self.abandoned = 0;
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

    /// Waits on, until another instant, once the one that it waited for has come.
    ///
    /// A time-out that is moved on with every step of a piece of work need not be made anew for each: if it ends, which it rarely does,
    /// its owner looks whether the last step is late, and if not, has it wait for the rest.
    pub fn wait_on(&mut self, deadline: Instant) {
        assert!(self.key.is_none(), "a sleep that has not ended is not moved");
        self.deadline = deadline;
    }
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<()> {
        let this = &mut *self;
        let mut timers = this.core.timers.borrow_mut();
        let done = match this.key {
            Some(key) => timers.poll(key, context.waker()),
            None if this.deadline <= this.core.now() => true,
            None => {
                this.key = Some(timers.insert(this.deadline, context.waker().clone()));
                false
            }
        };
        if done {
            this.key = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.core.timers.borrow_mut().cancel(key);
        }
    }
}
