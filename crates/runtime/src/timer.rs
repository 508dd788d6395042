//! Timers: instants in order, each owned by a [`Sleep`] future.
//!
//! Each timer has a number, in order of creation, which breaks ties. Timers that are made in order of their deadlines
//! stand in a line, the others in a binary heap; the next timer is the earlier one of the two fronts. Time-outs all
//! last equally long and so come in order: most are abandoned at the front of the line, where one costs a push and a
//! pop of one entry, which holds all there is of it. That is as much as a small request can bear (`benchsuite array`).
//! An entry of the heap moves, so what belongs to its timer is in a slot. Elsewhere dropped entries stay until they
//! surface or outnumber the live ones, so a `select!` that abandons a time-out for each request stays linear in the
//! number of requests. A timing wheel was rejected: it rounds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use units::Instant;

use crate::executor::Core;

#[derive(Default)]
pub(crate) struct Timers {
    /// In order of deadlines and of numbers: those that were not due before any in it when they were made.
    line: VecDeque<InLine>,
    heap: BinaryHeap<Reverse<InHeap>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Entries whose future is gone.
    abandoned: usize,
    next_number: u64,
}

/// A timer in the line; one without a waker is abandoned.
struct InLine {
    deadline: Instant,
    number: u64,
    waker: Option<Waker>,
}

/// A timer in the heap: deadline, number, slot. It is abandoned if the slot is no longer its own.
type InHeap = (Instant, u64, u32);

/// Who is woken by a timer of the heap, from its creation until it fires or its future is dropped.
struct Slot {
    /// Of the timer that has the slot; [`NOBODY`] if it is free.
    number: u64,
    waker: Option<Waker>,
}

/// The number that no timer gets.
const NOBODY: u64 = u64::MAX;

/// Where a sleeping future's timer is.
#[derive(Clone, Copy)]
struct Key {
    number: u64,
    /// Of the heap's.
    slot: Option<u32>,
}

/// Fewer abandoned entries are not worth sweeping.
const SWEEP_FROM: usize = 64;

impl Timers {
    fn has_slot(slots: &[Slot], (_, number, slot): InHeap) -> bool {
        slots[slot as usize].number == number
    }

    /// When the next timer is due. Drops abandoned entries from the fronts.
    #[inline]
    pub fn next(&mut self) -> Option<Instant> {
        self.clear_line();
        while self.heap.peek().is_some_and(|Reverse(first)| !Self::has_slot(&self.slots, *first)) {
            self.heap.pop();
            self.abandoned -= 1;
        }
        let (line, heap) = (self.line.front(), self.heap.peek());
        line.map(|first| first.deadline).into_iter().chain(heap.map(|Reverse((deadline, ..))| *deadline)).min()
    }

    /// Drops abandoned entries from the front of the line.
    #[inline]
    fn clear_line(&mut self) {
        while self.line.pop_front_if(|first| first.waker.is_none()).is_some() {
            self.abandoned -= 1;
        }
    }

    /// Fires every timer that is due at `now`, in order of deadline, then of creation.
    pub fn fire(&mut self, now: Instant) {
        loop {
            let of_line = self.line.front().map(|first| (first.deadline, first.number));
            let of_heap = self.heap.peek().map(|Reverse((deadline, number, _))| (*deadline, *number));
            let Some(first) = of_line.into_iter().chain(of_heap).min().filter(|(deadline, _)| *deadline <= now) else {
                return;
            };
            let waker = if of_line == Some(first) {
                self.line.pop_front().and_then(|first| first.waker)
            } else {
                self.heap.pop().and_then(|Reverse((_, number, slot))| self.release(number, slot))
            };
            match waker {
                Some(waker) => waker.wake(),
                None => self.abandoned -= 1,
            }
        }
    }

    #[inline]
    fn insert(&mut self, deadline: Instant, waker: Waker) -> Key {
        let number = self.next_number;
        self.next_number += 1;
        let slot = match self.line.back() {
            Some(last) if last.deadline > deadline => Some(self.insert_in_heap(deadline, number, waker)),
            _ => {
                self.line.push_back(InLine { deadline, number, waker: Some(waker) });
                None
            }
        };
        Key { number, slot }
    }

    fn insert_in_heap(&mut self, deadline: Instant, number: u64, waker: Waker) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { number: NOBODY, waker: None });
            u32::try_from(self.slots.len() - 1).expect("at most 2^32 timers wait at once")
        });
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.number, NOBODY, "a slot is one timer's until it is free");
        *slot = Slot { number, waker: Some(waker) };
        self.heap.push(Reverse((deadline, number, index)));
        index
    }

    /// The waker of a timer, unless it has fired.
    #[inline]
    fn waker(&mut self, Key { number, slot }: Key) -> Option<&mut Waker> {
        match slot {
            Some(slot) => {
                let slot = &mut self.slots[slot as usize];
                if slot.number == number { slot.waker.as_mut() } else { None }
            }
            None => self.place(number).and_then(|place| self.line[place].waker.as_mut()),
        }
    }

    /// Where in the line a timer stands, if it still does.
    #[inline]
    fn place(&self, number: u64) -> Option<usize> {
        // Whoever is asked for was most often made last.
        match self.line.back() {
            Some(last) if last.number == number => Some(self.line.len() - 1),
            _ => self.line.binary_search_by_key(&number, |entry| entry.number).ok(),
        }
    }

    /// True once the timer has fired; otherwise `waker` is the one to be woken from now on.
    #[inline]
    fn poll(&mut self, key: Key, waker: &Waker) -> bool {
        match self.waker(key) {
            Some(old) => {
                old.clone_from(waker);
                false
            }
            None => true,
        }
    }

    /// Frees the slot of a timer of the heap and returns its waker, unless that has been done.
    fn release(&mut self, number: u64, slot: u32) -> Option<Waker> {
        let freed = &mut self.slots[slot as usize];
        if freed.number != number {
            return None;
        }
        freed.number = NOBODY;
        self.free.push(slot);
        freed.waker.take()
    }

    /// Takes back a timer whose future is dropped. If it has not fired, its entry stays where it is for a while.
    #[inline]
    fn cancel(&mut self, Key { number, slot }: Key) {
        let waker = match slot {
            Some(slot) => self.release(number, slot),
            None => self.place(number).and_then(|place| self.line[place].waker.take()),
        };
        if waker.is_none() {
            return;
        }
        self.abandoned += 1;
        self.clear_line();
        if self.abandoned > SWEEP_FROM && self.abandoned > (self.heap.len() + self.line.len()) / 2 {
            self.sweep();
        }
    }

    #[cold]
    fn sweep(&mut self) {
        let slots = &self.slots;
        self.heap.retain(|Reverse(entry)| Self::has_slot(slots, *entry));
        self.line.retain(|entry| entry.waker.is_some());
        self.abandoned = 0;
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

    /// The instant that it waits for.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Waits on, until another instant, once the one that it waited for has come.
    ///
    /// A time-out that is moved on with every step of a piece of work need not be made anew for each: if it ends, which
    /// it rarely does, its owner looks whether the last step is late, and if not, has it wait for the rest.
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
