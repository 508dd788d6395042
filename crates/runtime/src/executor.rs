//! The loop: poll what is ready, fire what is due, park.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use units::{Duration, Instant};

use crate::park::{LiveClock, Park, ThreadPark};
use crate::task::{ANY_TURN, Body, JoinHandle, Tasks};
use crate::timer::{Sleep, Timers};
use crate::waker::{self, Inbox, Ready, TaskId};

/// A handle to a runtime; clones name the same one.
#[derive(Clone)]
pub struct Runtime {
    core: Rc<Core>,
}

pub(crate) struct Core {
    clock: Clock,
    tasks: RefCell<Tasks>,
    ready: Ready,
    pub(crate) timers: RefCell<Timers>,
    inbox: Arc<Inbox>,
    /// The number of the turn, counted from 1; [`ANY_TURN`] under the virtual clock.
    turn: Cell<u64>,
    /// How many were woken for this turn.
    polled: Cell<usize>,
    /// How often somebody went on in this turn instead of yielding.
    gone_on: Cell<u32>,
    /// The main future waits in no slot; its wakers carry this number, which no task has.
    main: TaskId,
}

enum Clock {
    /// Virtual time; it moves only when the loop moves it.
    Virtual(Cell<Instant>),
    /// Real time. The park is borrowed only by the loop.
    Real { clock: LiveClock, park: RefCell<Box<dyn Park>> },
}

/// So often a task may go on in one turn where it would yield. A turn then costs each time a sixteenth of what it
/// costs, which is little enough.
const IN_A_ROW: u32 = 16;

/// A simulation that cannot go on: tasks wait, and no timer is left that could wake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// When time stopped.
    pub at: Instant,
    /// How many tasks wait, the main future not counted.
    pub waiting_tasks: usize,
}

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            f,
            "the simulation stalled at {}: {} tasks wait and no timer is left to wake them",
            self.at.since(Instant::START),
            self.waiting_tasks
        )
    }
}

impl std::error::Error for Stalled {}

impl Runtime {
    /// A runtime under the virtual clock, at [`Instant::START`].
    pub fn simulated() -> Runtime {
        struct Nobody;
        impl crate::park::Unpark for Nobody {
            fn unpark(&self) {}
        }
        Runtime::new(Clock::Virtual(Cell::new(Instant::START)), Arc::new(Nobody))
    }

    /// A runtime under the real clock that waits in `park`. [`Instant::START`] is now.
    pub fn live(park: impl Park + 'static) -> Runtime {
        Runtime::live_since(std::time::Instant::now(), park)
    }

    /// As [`Runtime::live`], with [`Instant::START`] at `start`: runtimes on several threads then share one time scale.
    pub fn live_since(start: std::time::Instant, park: impl Park + 'static) -> Runtime {
        let unpark = park.unparker();
        Runtime::new(Clock::Real { clock: LiveClock::since(start), park: RefCell::new(Box::new(park)) }, unpark)
    }

    /// A runtime under the real clock, without I/O.
    pub fn live_timers() -> Runtime {
        Runtime::live(ThreadPark::default())
    }

    fn new(clock: Clock, unpark: Arc<dyn crate::park::Unpark>) -> Runtime {
        let inbox = Arc::new(Inbox { woken: Mutex::new(Vec::new()), unpark });
        let runtime = waker::register(Arc::clone(&inbox));
        let main = TaskId::new(runtime, 0, (crate::waker::MAX_TASKS - 1) as u32);
        let ready = Ready { runtime, woken: RefCell::new(Vec::new()) };
        Runtime {
            core: Rc::new(Core {
                clock,
                tasks: RefCell::default(),
                ready,
                timers: RefCell::default(),
                inbox,
                turn: Cell::new(ANY_TURN),
                polled: Cell::new(0),
                gone_on: Cell::new(0),
                main,
            }),
        }
    }

    /// The time now, since the clock's start.
    #[inline]
    pub fn now(&self) -> Instant {
        self.core.now()
    }

    /// True under the virtual clock: then payload may be left out, and nothing waits for the world.
    pub fn is_simulated(&self) -> bool {
        matches!(self.core.clock, Clock::Virtual(_))
    }

    /// Waits for `time`.
    #[inline]
    pub fn sleep(&self, time: Duration) -> Sleep {
        Sleep::new(Rc::clone(&self.core), self.now() + time)
    }

    /// Waits until `deadline`; not at all if it has passed.
    #[inline]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::new(Rc::clone(&self.core), deadline)
    }

    /// Lets every other ready task run once before the caller goes on.
    pub async fn yield_now(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// True if [`yield_now`](Runtime::yield_now) would let nobody run but the caller: no other task is ready, no timer
    /// is due at `now`, and nothing is under way outside. A caller that would yield out of courtesy may then go on, and
    /// save the turn.
    ///
    /// What waits within the caller's own task is not seen, so this is said only so many times before somebody must
    /// yield, and the caller sees to it that it has no such company.
    pub fn may_go_on(&self, now: Instant) -> bool {
        let core = &*self.core;
        let may = core.gone_on.get() < IN_A_ROW && core.is_alone(now);
        core.gone_on.update(|times| times + u32::from(may));
        may
    }

    /// Starts a task. It runs until it ends or the runtime is dropped or cleared, whether or not the handle is kept.
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
        let (handle, body) = JoinHandle::attach(future);
        self.start(body);
        handle
    }

    /// Starts a task whose result nobody wants; one allocation cheaper than [`spawn`](Runtime::spawn).
    pub fn spawn_detached(&self, future: impl Future<Output = ()> + 'static) {
        self.start(Box::pin(future));
    }

    #[inline]
    pub(crate) fn start(&self, body: Body) -> TaskId {
        let id = self.core.tasks.borrow_mut().insert(self.core.ready.runtime, body);
        self.core.ready.woken.borrow_mut().push(id);
        id
    }

    /// Ends a task where it stands, unless it has ended. What it owns may wake or spawn others as it is dropped, so the
    /// caller does that, with nothing borrowed.
    pub(crate) fn end(&self, id: TaskId) -> Option<Body> {
        let mut tasks = self.core.tasks.borrow_mut();
        let body = tasks.take(id, ANY_TURN);
        tasks.remove(id);
        body
    }

    /// Drops all tasks where they stand, as a power cut does to a machine. A task that does this to its own runtime is
    /// dropped when it waits next.
    pub fn clear(&self) {
        // A dropped task may spawn or drop others: nothing is borrowed meanwhile.
        loop {
            let bodies = self.core.tasks.borrow_mut().drain();
            // The main future is no task and goes on.
            self.core.ready.woken.borrow_mut().retain(|id| *id == self.core.main);
            if bodies.is_empty() {
                return;
            }
        }
    }

    /// Runs `main` and all tasks until `main` is done. Tasks that are not done then stay, and go on in the next
    /// `block_on`.
    ///
    /// # Panics
    /// If the simulation stalls: our code waits for something that nobody will do.
    /// [`try_block_on`](Runtime::try_block_on) returns it.
    pub fn block_on<T>(&self, main: impl Future<Output = T>) -> T {
        self.try_block_on(main).unwrap_or_else(|stalled| panic!("{stalled}"))
    }

    /// As [`block_on`](Runtime::block_on), but returns when the simulation stalls. A live runtime never stalls: it
    /// waits.
    pub fn try_block_on<T>(&self, main: impl Future<Output = T>) -> Result<T, Stalled> {
        let core = &*self.core;
        let _entered = waker::enter(&core.ready);
        let mut main = pin!(main);
        let mut poll_main = true;
        let mut batch = Vec::new();
        loop {
            if std::mem::take(&mut poll_main) {
                let waker = core.main.waker();
                if let Poll::Ready(value) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Ok(value);
                }
            }
            poll_main = core.turn(&mut batch);
            let idle = !poll_main && core.ready.woken.borrow().is_empty();
            core.advance(idle)?;
        }
    }
}

impl Runtime {
    /// Runs a simulation up to an instant and leaves it there; gives when its next timer is due, if there is one.
    /// Whoever lets simulated time follow another clock calls this again and again, also from within another runtime.
    ///
    /// # Panics
    /// If the runtime is live, or the instant has passed.
    pub fn run_until(&self, until: Instant) -> Option<Instant> {
        let core = &*self.core;
        let Clock::Virtual(now) = &core.clock else { panic!("real time is not run, it passes") };
        assert!(until >= now.get(), "time does not run backwards");
        let _entered = waker::enter(&core.ready);
        let mut batch = Vec::new();
        loop {
            // What was woken by tasks of other runtimes comes this way.
            core.ready.woken.borrow_mut().append(&mut core.inbox.woken.lock().expect("no panic under this lock"));
            if core.ready.woken.borrow().is_empty() {
                let next = core.timers.borrow_mut().next();
                match next.filter(|next| *next <= until) {
                    Some(next) => {
                        now.set(next);
                        core.timers.borrow_mut().fire(next);
                    }
                    None => {
                        now.set(until);
                        return next;
                    }
                }
            }
            core.turn(&mut batch);
        }
    }
}

impl Core {
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match &self.clock {
            Clock::Virtual(now) => now.get(),
            Clock::Real { clock, .. } => clock.now(),
        }
    }

    /// True if nobody could go on at `now` but the one that is being polled.
    fn is_alone(&self, now: Instant) -> bool {
        let quiet = || match &self.clock {
            Clock::Virtual(_) => true,
            Clock::Real { park, .. } => park.borrow().is_quiet(),
        };
        let not_due = |next| next > now;
        self.polled.get() <= 1
            && self.ready.woken.borrow().is_empty()
            && self.timers.borrow_mut().next().is_none_or(not_due)
            && quiet()
    }

    /// Polls every task that was woken, in the order in which they were; says whether the main future was among them.
    /// `batch` is room for them, empty before and after.
    #[inline]
    fn turn(&self, batch: &mut Vec<TaskId>) -> bool {
        std::mem::swap(batch, &mut *self.ready.woken.borrow_mut());
        self.polled.set(batch.len());
        self.gone_on.set(0);
        if let Clock::Real { .. } = self.clock {
            self.turn.update(|turn| turn + 1);
        }
        let mut main = false;
        for id in batch.drain(..) {
            if id == self.main {
                main = true;
            } else {
                self.poll(id);
            }
        }
        main
    }

    #[inline]
    fn poll(&self, id: TaskId) {
        let Some(mut body) = self.tasks.borrow_mut().take(id, self.turn.get()) else { return };
        let waker = id.waker();
        match body.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                let drained = self.tasks.borrow_mut().put_back(id, body);
                drop(drained);
            }
            Poll::Ready(()) => {
                self.tasks.borrow_mut().remove(id);
                // Dropped last and with nothing borrowed: what a task owned may wake or spawn others.
                drop(body);
            }
        }
    }

    /// Lets time pass: in simulation only when nothing can be done now, live always, as the world does not wait.
    #[inline]
    fn advance(&self, idle: bool) -> Result<(), Stalled> {
        match &self.clock {
            Clock::Virtual(now) => {
                if idle {
                    let mut timers = self.timers.borrow_mut();
                    let Some(next) = timers.next() else {
                        return Err(Stalled { at: now.get(), waiting_tasks: self.tasks.borrow().live() });
                    };
                    assert!(next >= now.get(), "time does not run backwards");
                    now.set(next);
                    timers.fire(next);
                }
            }
            Clock::Real { clock, park } => {
                let next = self.timers.borrow_mut().next();
                let limit = match next {
                    _ if !idle => Some(Duration::ZERO),
                    Some(next) => Some(next.saturating_since(self.now())),
                    None => None,
                };
                park.borrow_mut().park(limit, *clock);
                if next.is_some() {
                    self.timers.borrow_mut().fire(self.now());
                }
                let mut woken = self.inbox.woken.lock().expect("no panic under this lock");
                self.ready.woken.borrow_mut().append(&mut woken);
            }
        }
        Ok(())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        waker::unregister(self.ready.runtime);
    }
}
