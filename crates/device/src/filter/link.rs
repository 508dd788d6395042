//! A link that several devices share: a bus, a cable, an expander's uplink.
//!
//! One transfer at a time; a transfer of `n` bytes holds the link for `n / rate`. There are no tokens: a link that was
//! idle has saved nothing up, as a real wire has not. A token bucket was rejected for that reason, its bursts exceed
//! the wire.
//!
//! Who is next is the arbitration, and it decides between smooth and lock-step service. A host adapter that does not
//! send a command while any device asks for the link to transfer data ([`Arbitration::DataFirst`]) makes the devices
//! behind one bus convoy (Tables 1 to 5 of the rounds study): all of them transfer, then all of them seek while the bus
//! idles. First come, first served does the same, as a command then waits behind the data of all other devices. With
//! commands first the same devices keep the bus busy; a test holds all three to it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use runtime::Runtime;
use units::{Bytes, Duration, Instant, Rate};

/// Who gets the link when several ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arbitration {
    /// Who asked first.
    FirstCome,
    /// The next port after the one that had it last; within a port, who asked first.
    RoundRobin,
    /// Any transfer of data before any command; among equals, who asked first.
    DataFirst,
    /// Any command before any transfer of data; among equals, who asked first.
    CommandFirst,
}

/// What the link is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Data,
    Command,
}

/// A link; clones name the same one.
#[derive(Clone)]
pub struct Link {
    state: Rc<State>,
}

struct State {
    runtime: Runtime,
    rate: Rate,
    command: Duration,
    arbitration: Arbitration,
    ports: Cell<u32>,
    arrivals: Cell<u64>,
    /// The port that has or had the link last.
    last: Cell<u32>,
    /// Until when the link is held; `None` while it is free.
    held_until: Cell<Option<Instant>>,
    waiting: RefCell<Vec<Rc<Waiter>>>,
    busy: Cell<Duration>,
}

struct Waiter {
    port: u32,
    purpose: Use,
    arrival: u64,
    asked: Instant,
    /// Given the link, from this instant on.
    granted: Cell<Option<Instant>>,
    waker: RefCell<Waker>,
}

impl Link {
    /// A link on which commands take no time. Panics at rate zero: nothing would ever pass.
    pub fn new(runtime: &Runtime, rate: Rate, arbitration: Arbitration) -> Link {
        Link::with_command(runtime, rate, arbitration, Duration::ZERO)
    }

    /// A link that each request holds for `command` before its device hears of it.
    pub fn with_command(runtime: &Runtime, rate: Rate, arbitration: Arbitration, command: Duration) -> Link {
        assert!(!rate.is_zero(), "a link at no rate passes nothing");
        let state = State {
            runtime: runtime.clone(),
            rate,
            command,
            arbitration,
            ports: Cell::new(0),
            arrivals: Cell::new(0),
            last: Cell::new(0),
            held_until: Cell::new(None),
            waiting: RefCell::default(),
            busy: Cell::new(Duration::ZERO),
        };
        Link { state: Rc::new(state) }
    }

    /// How long it has been held, up to now and in transfers under way to their end.
    pub fn busy(&self) -> Duration {
        self.state.busy.get()
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.state.runtime
    }

    pub(super) fn add_port(&self) -> u32 {
        let port = self.state.ports.get();
        self.state.ports.set(port + 1);
        port
    }

    /// Sends a command to the device at `port`.
    pub(super) async fn command(&self, port: u32) {
        if !self.state.command.is_zero() {
            self.hold(port, Use::Command, self.state.command).await;
        }
    }

    /// Moves `length` bytes to or from the device at `port`.
    pub(super) async fn transfer(&self, port: u32, length: Bytes) {
        if !length.is_zero() {
            self.hold(port, Use::Data, self.state.rate.time_for(length)).await;
        }
    }

    async fn hold(&self, port: u32, purpose: Use, time: Duration) {
        let (from, held) = Ask { link: self, port, purpose, waiter: None }.await;
        // Reckoned from when the link was had, not from when this task was told: late wake-ups of a live clock do not
        // add up.
        let until = from + time;
        self.state.held_until.set(Some(until));
        self.state.busy.set(self.state.busy.get() + time);
        self.state.runtime.sleep_until(until).await;
        drop(held);
    }
}

impl State {
    /// Gives the link to whoever is next, or leaves it free.
    fn pass_on(&self) {
        let now = self.runtime.now();
        let ended = self.held_until.take().map_or(now, |until| until.min(now));
        let mut waiting = self.waiting.borrow_mut();
        let ports = self.ports.get();
        let distance = |port: u32| (port + ports - self.last.get() - 1) % ports;
        let next = (0..waiting.len()).min_by_key(|&index| {
            let waiter = &waiting[index];
            match self.arbitration {
                Arbitration::FirstCome => (0, waiter.arrival),
                Arbitration::RoundRobin => (distance(waiter.port), waiter.arrival),
                Arbitration::DataFirst => (u32::from(waiter.purpose == Use::Command), waiter.arrival),
                Arbitration::CommandFirst => (u32::from(waiter.purpose == Use::Data), waiter.arrival),
            }
        });
        let Some(next) = next else { return };
        let next = waiting.remove(next);
        let from = ended.max(next.asked);
        self.held_until.set(Some(from));
        self.last.set(next.port);
        next.granted.set(Some(from));
        next.waker.borrow().wake_by_ref();
    }
}

/// Waits for the link; gives the instant from which it is had.
struct Ask<'a> {
    link: &'a Link,
    port: u32,
    purpose: Use,
    waiter: Option<Rc<Waiter>>,
}

/// The link, until dropped.
struct Held<'a>(&'a State);

impl<'a> Future for Ask<'a> {
    type Output = (Instant, Held<'a>);
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Self::Output> {
        let this = &mut *self;
        let state = &*this.link.state;
        if let Some(waiter) = &this.waiter {
            let Some(from) = waiter.granted.get() else {
                waiter.waker.borrow_mut().clone_from(context.waker());
                return Poll::Pending;
            };
            this.waiter = None;
            return Poll::Ready((from, Held(state)));
        }
        if state.held_until.get().is_none() {
            let now = state.runtime.now();
            state.held_until.set(Some(now));
            state.last.set(this.port);
            return Poll::Ready((now, Held(state)));
        }
        let arrival = state.arrivals.replace(state.arrivals.get() + 1);
        let waiter = Waiter {
            port: this.port,
            purpose: this.purpose,
            arrival,
            asked: state.runtime.now(),
            granted: Cell::new(None),
            waker: RefCell::new(context.waker().clone()),
        };
        let waiter = Rc::new(waiter);
        state.waiting.borrow_mut().push(Rc::clone(&waiter));
        this.waiter = Some(waiter);
        Poll::Pending
    }
}

impl Drop for Ask<'_> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else { return };
        let state = &*self.link.state;
        if waiter.granted.get().is_some() {
            // It came too late: pass it on.
            state.pass_on();
        } else {
            state.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &waiter));
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}
