//! Wakers that are plain numbers.
//!
//! `std::task::Waker` must be `Send + Sync`, so the usual waker is an `Arc` and pays two atomic operations for each
//! clone and drop: a fifth of the cost of a simulated event. Here the 64 bits of the data pointer *are* the waker:
//!
//! ```text
//! | runtime 12 bits | generation 24 bits | task 28 bits |
//! ```
//!
//! Waking looks at the runtime that polls on this thread (a thread-local); if it is the one meant, the task goes to its
//! ready queue. If not, the number goes through a process-wide table to that runtime's inbox, under a lock, and unparks
//! it. A task's slot changes generation when the task ends, so a late waker finds nobody; after 2^24 tasks in one slot
//! it may find the wrong one, which then sees one poll that it did not ask for, and every future must bear that anyway.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::park::Unpark;

const TASK_BITS: u32 = 28;
const GENERATION_BITS: u32 = 24;
const RUNTIME_BITS: u32 = 12;
const _: () = assert!(TASK_BITS + GENERATION_BITS + RUNTIME_BITS == usize::BITS, "a waker needs 64-bit pointers");

/// How many tasks one runtime can hold.
pub(crate) const MAX_TASKS: usize = 1 << TASK_BITS;

/// Which task of which runtime, as the number that a waker is. It stays that number in the queues, too: taken apart and
/// put together again in memory, each wake would wait for the processor's store buffer, which hands on nothing that was
/// written in smaller parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskId(usize);

impl TaskId {
    pub fn new(runtime: u16, generation: u32, slot: u32) -> TaskId {
        debug_assert!(usize::from(runtime) < 1 << RUNTIME_BITS);
        debug_assert!(generation < 1 << GENERATION_BITS);
        debug_assert!(slot < 1 << TASK_BITS);
        let runtime = usize::from(runtime) << (TASK_BITS + GENERATION_BITS);
        TaskId(runtime | (generation as usize) << TASK_BITS | slot as usize)
    }

    pub fn next_generation(generation: u32) -> u32 {
        (generation + 1) & ((1 << GENERATION_BITS) - 1)
    }

    #[inline]
    pub fn runtime(self) -> u16 {
        (self.0 >> (TASK_BITS + GENERATION_BITS)) as u16
    }

    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 >> TASK_BITS) as u32 & ((1 << GENERATION_BITS) - 1)
    }

    #[inline]
    pub fn slot(self) -> u32 {
        self.0 as u32 & ((1 << TASK_BITS) - 1)
    }

    pub fn waker(self) -> Waker {
        // SAFETY: the vtable's functions never dereference the data; they read the number that it is. Cloning copies
        // it, dropping does nothing, and waking is sound from any thread, as `wake` takes either this thread's own
        // queue or a lock.
        #[allow(unsafe_code)]
        unsafe {
            Waker::from_raw(RawWaker::new(std::ptr::without_provenance(self.0), &VTABLE))
        }
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| wake(TaskId(data.addr())),
    |data| wake(TaskId(data.addr())),
    |_| (),
);

/// What other threads may do to a runtime.
pub(crate) struct Inbox {
    pub woken: Mutex<Vec<TaskId>>,
    pub unpark: Arc<dyn Unpark>,
}

/// Slot `n` holds the inbox of the runtime number `n`.
static RUNTIMES: Mutex<Vec<Option<Arc<Inbox>>>> = Mutex::new(Vec::new());

/// The queue of the runtime that is polling on this thread, and its number.
pub(crate) struct Ready {
    pub runtime: u16,
    /// Filled by wakers, swapped out by the executor once a turn.
    pub woken: RefCell<Vec<TaskId>>,
}

thread_local! {
    /// Points to the queue of the [`Entered`] that is innermost on this thread, or nowhere. A plain pointer, because a
    /// wake is too short for reference counts; without a destructor, so that wakers dropped while the thread ends find
    /// it too.
    static POLLING: Cell<*const Ready> = const { Cell::new(std::ptr::null()) };
}

/// Makes `ready` the queue that wakers on this thread reach first, until the returned guard is dropped. Runtimes nest.
pub(crate) fn enter(ready: &Ready) -> Entered<'_> {
    Entered { outer: POLLING.replace(ready), _ready: ready }
}

pub(crate) struct Entered<'a> {
    outer: *const Ready,
    _ready: &'a Ready,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        POLLING.set(self.outer);
    }
}

fn wake(id: TaskId) {
    // SAFETY: `enter` set the pointer from a reference that outlives its guard, and the guard, which only `block_on`
    // and `run_until` make and keep on their stack, takes the pointer away again when it is dropped. Only shared
    // references are made.
    #[allow(unsafe_code)]
    let ready = unsafe { POLLING.get().as_ref() };
    match ready {
        Some(ready) if ready.runtime == id.runtime() => ready.woken.borrow_mut().push(id),
        _ => wake_from_outside(id),
    }
}

#[cold]
fn wake_from_outside(id: TaskId) {
    let inbox = RUNTIMES.lock().expect("no panic under this lock").get(usize::from(id.runtime())).cloned().flatten();
    // A runtime that has ended needs no waking.
    if let Some(inbox) = inbox {
        inbox.woken.lock().expect("no panic under this lock").push(id);
        inbox.unpark.unpark();
    }
}

/// Gives a runtime its number. Panics when 4096 runtimes live at once.
pub(crate) fn register(inbox: Arc<Inbox>) -> u16 {
    let mut runtimes = RUNTIMES.lock().expect("no panic under this lock");
    let free = runtimes.iter().position(Option::is_none).unwrap_or(runtimes.len());
    assert!(free < 1 << RUNTIME_BITS, "at most {} runtimes can live at once", 1 << RUNTIME_BITS);
    if free == runtimes.len() {
        runtimes.push(None);
    }
    runtimes[free] = Some(inbox);
    free as u16
}

pub(crate) fn unregister(runtime: u16) {
    RUNTIMES.lock().expect("no panic under this lock")[usize::from(runtime)] = None;
}
