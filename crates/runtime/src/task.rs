//! Tasks and their handles.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::waker::{MAX_TASKS, TaskId};

pub(crate) type Body = Pin<Box<dyn Future<Output = ()>>>;

/// No turn in particular: a task may be polled in it as often as it was woken.
pub(crate) const ANY_TURN: u64 = 0;

/// The tasks of one runtime, in reused slots.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    /// Absent while the task is being polled, and when the slot is free.
    body: Option<Body>,
    live: bool,
    /// The turn in which it was polled last.
    turn: u64,
}

impl Slot {
    fn vacate(&mut self) {
        self.live = false;
        self.generation = TaskId::next_generation(self.generation);
    }
}

impl Tasks {
    /// Takes a task in; returns where it is.
    #[inline]
    pub fn insert(&mut self, runtime: u16, body: Body) -> TaskId {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                assert!(self.slots.len() < MAX_TASKS, "at most {MAX_TASKS} tasks live at once");
                self.slots.push(Slot { generation: 0, body: None, live: false, turn: ANY_TURN });
                (self.slots.len() - 1) as u32
            }
        };
        let entry = &mut self.slots[slot as usize];
        entry.body = Some(body);
        entry.live = true;
        TaskId::new(runtime, entry.generation, slot)
    }

    /// The task's body, to be polled; `None` if the task has ended (a late waker) or is being polled further up the
    /// stack, or has been polled in this turn.
    ///
    /// Whoever is polled in a turn was woken before it, be it once or several times. Polled each time, a task that
    /// yields would be woken each time again: a timer that fires beside a yield would leave it with one poll more in
    /// every turn from then on, and turns would become longer and longer. Simulations are polled each time all the
    /// same: the order of their events is kept as it was.
    #[inline]
    pub fn take(&mut self, id: TaskId, turn: u64) -> Option<Body> {
        let slot = self.slots.get_mut(id.slot() as usize)?;
        if slot.generation != id.generation() || (turn != ANY_TURN && slot.turn == turn) {
            return None;
        }
        let body = slot.body.take()?;
        slot.turn = turn;
        Some(body)
    }

    /// Puts a body back that is not done. It is returned, to be dropped, if all tasks were drained while it was polled.
    #[inline]
    pub fn put_back(&mut self, id: TaskId, body: Body) -> Option<Body> {
        let slot = &mut self.slots[id.slot() as usize];
        if slot.generation != id.generation() {
            return Some(body);
        }
        assert!(slot.live && slot.body.is_none(), "a task keeps its slot while it is polled");
        slot.body = Some(body);
        None
    }

    /// Frees the slot of a task that is done; wakers that still name it find nobody.
    #[inline]
    pub fn remove(&mut self, id: TaskId) {
        let slot = &mut self.slots[id.slot() as usize];
        // Drained while it was polled.
        if slot.generation != id.generation() {
            return;
        }
        assert!(slot.live, "a task ends once");
        slot.vacate();
        self.free.push(id.slot());
    }

    /// How many tasks have not ended.
    pub fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Ends all tasks and takes their bodies out, so that they can be dropped while nothing is borrowed.
    pub fn drain(&mut self) -> Vec<Body> {
        let mut bodies = Vec::new();
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.live) {
            bodies.extend(slot.body.take());
            slot.vacate();
            self.free.push(index as u32);
        }
        bodies
    }
}

pub(crate) struct Outcome<T> {
    value: Option<T>,
    waiting: Option<Waker>,
}

/// Waits for a task's result. Dropping it lets the task run on unobserved.
///
/// The result is handed out once: after [`take`](JoinHandle::take) has given it, or a poll, waiting for it never ends.
/// Nor does it if the runtime is cleared before the task has ended.
pub struct JoinHandle<T> {
    outcome: Rc<RefCell<Outcome<T>>>,
}

impl<T: 'static> JoinHandle<T> {
    /// Wraps a future so that its result reaches the handle.
    pub(crate) fn attach(future: impl Future<Output = T> + 'static) -> (JoinHandle<T>, Body) {
        let outcome = Rc::new(RefCell::new(Outcome { value: None, waiting: None }));
        let handle = JoinHandle { outcome: Rc::clone(&outcome) };
        let body = async move {
            let value = future.await;
            let mut outcome = outcome.borrow_mut();
            outcome.value = Some(value);
            if let Some(waiting) = outcome.waiting.take() {
                waiting.wake();
            }
        };
        (handle, Box::pin(body))
    }

    /// The result, if the task has ended and nobody has taken it.
    pub fn take(&self) -> Option<T> {
        self.outcome.borrow_mut().value.take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, context: &mut Context) -> Poll<T> {
        let mut outcome = self.outcome.borrow_mut();
        match outcome.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                outcome.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
