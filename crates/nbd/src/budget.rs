//! Limits on what clients may have under way: each connection, and all of them together.
//!
//! A request takes its share before its payload is received, and gives it back when its reply has been sent. While
//! there is none left no further request of that connection is read, and the client's sends wait in the kernel.
//!
//! # Fairness
//! All connections together hold at most [`Limits::total`]. A part of that is set aside: each place has a reserve of
//! some 1 MiB that nobody else can take, so a client that reads its replies is always served. The rest is common, and
//! is given in the order in which connections ask for it: first to those that have taken a reply since they were slow,
//! then to others, who may be about to take none. A client that does not read would keep what it holds for ever, so:
//!
//! - A connection is *slow* if a batch of replies, or a payload, has been under way since the last look, a second ago,
//!   and fewer than [`PACE`] bytes moved since. It gets nothing of what is common, and stands in nobody's way there.
//! - If somebody has waited for common memory for [`WAITED`] looks, the connection that has been slow for longest,
//!   [`SLOW`] looks at least, and holds some of it, is closed. So is one that has been slow for as long after its
//!   client had ended its sending: nobody can tell it to go.
//!
//! Rejected: a limit for each connection only (64 clients that did not read held 4.1 GiB); equal parts of all (64 MiB
//! for one client is what makes large requests fast, and few servers have 64 clients); closing every slow connection: a
//! virtual machine that is paused reads nothing, and is to find its disk afterwards.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use runtime::Signal;
use units::{Bytes, Duration};

/// What clients may have under way, and how many they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests of a connection.
    pub requests: u32,
    /// Memory for a connection's payloads and replies. One request is always let in, however large, as far as the total
    /// allows.
    pub memory: Bytes,
    /// Memory for those of all connections. One request is let in while none of the common part is in use, however
    /// large.
    pub total: Bytes,
    /// Connections by Unix sockets that have an export, and as many by TCP, of which one address has at most half.
    pub places: u32,
    /// A connection without an export after this long is closed.
    pub negotiation: Duration,
}

impl Default for Limits {
    /// 256 requests and 68 MiB, which is twice the largest payload and some more; 256 MiB in all; 64 places; 10 s.
    fn default() -> Limits {
        Limits {
            requests: 256,
            memory: Bytes::mib(68),
            total: Bytes::mib(256),
            places: 64,
            negotiation: Duration::seconds(10),
        }
    }
}

/// What a place has of its own: a request of 1 MiB with its reply. Less where that would be more than [`SET_ASIDE`] of
/// all.
const RESERVE: Bytes = Bytes::kib(1088);
/// The share of the total that reserves may be, in percent.
const SET_ASIDE: u64 = 60;
/// What a request takes beside its payload: its task, and the head of its reply with the sentence of an error.
const REQUEST: Bytes = Bytes::kib(2);
/// How often it is looked at who is slow.
pub const LOOK: Duration = Duration::seconds(1);
/// Fewer bytes between two looks are slow.
const PACE: u64 = 32 << 10;
/// Looks for which a connection waits for common memory before a slow one is closed.
const WAITED: u32 = 10;
/// Looks for which a connection has been slow before it may be closed.
const SLOW: u32 = 30;

/// The memory of all connections.
pub struct Commons {
    limits: Limits,
    reserve: Bytes,
    /// What is not set aside, and how much of it is in use.
    common: Bytes,
    used: Cell<Bytes>,
    held: Cell<Bytes>,
    accounts: RefCell<Vec<Weak<Account>>>,
    /// Those that wait for common memory.
    line: RefCell<VecDeque<Rc<Account>>>,
}

/// One connection's part.
struct Account {
    commons: Rc<Commons>,
    requests: Cell<u32>,
    memory: Cell<Bytes>,
    changed: Signal,
    wire: Box<dyn Line>,
    /// Odd while replies are being sent, or a payload received.
    sending: Rc<Cell<u64>>,
    receiving: Cell<u64>,
    /// The client sends nothing more.
    ended: Cell<bool>,
    /// What the last look found: bytes moved, and the two above.
    seen: Cell<(u64, u64, u64)>,
    /// Looks for which it has been slow, and has waited.
    slow: Cell<u32>,
    waited: Cell<u32>,
    /// What it waits for.
    wanted: Cell<Bytes>,
    /// A reply was taken since it was slow last.
    proved: Cell<bool>,
    /// Nothing more is to be done for it.
    closed: Cell<bool>,
}

/// What is to be known of a connection's wire, and done to it.
pub trait Line {
    /// Bytes moved so far, in both directions.
    fn moved(&self) -> u64;
    /// Ends both directions; called when the connection was too slow, and held this much.
    fn close(&self, held: Bytes);
}

/// What a connection may have under way; clones name the same.
#[derive(Clone)]
pub struct Budget(Rc<Account>);

/// A part of the budget, given back when it is dropped.
pub struct Share {
    account: Rc<Account>,
    memory: Bytes,
}

impl Commons {
    /// All of it.
    pub fn new(limits: Limits) -> Rc<Commons> {
        // Unix sockets have their places, and TCP has its own.
        let places = u64::from(limits.places.max(1)) * 2;
        let reserve = RESERVE.min(Bytes::new(limits.total.get() / 100 * SET_ASIDE / places));
        Rc::new(Commons {
            limits,
            reserve,
            common: limits.total.saturating_sub(reserve * places),
            used: Cell::new(Bytes::ZERO),
            held: Cell::new(Bytes::ZERO),
            accounts: RefCell::default(),
            line: RefCell::default(),
        })
    }

    /// What all connections hold.
    pub fn held(&self) -> Bytes {
        self.held.get()
    }

    /// What a connection with this much has of the common memory.
    fn beyond(&self, memory: Bytes) -> Bytes {
        memory.saturating_sub(self.reserve)
    }

    /// Whose turn it is for common memory.
    fn next(&self) -> Option<Rc<Account>> {
        let line = self.line.borrow();
        let mut ready = line.iter().filter(|account| account.slow.get() == 0 && account.may(account.wanted.get()));
        ready.clone().find(|account| account.proved.get()).or_else(|| ready.next()).cloned()
    }

    fn call_next(&self) {
        if let Some(next) = self.next() {
            next.changed.notify();
        }
    }

    /// Closes all connections: whoever waits for a share has it, and finds that.
    pub fn close(&self) {
        let accounts: Vec<Rc<Account>> = self.accounts.borrow().iter().filter_map(Weak::upgrade).collect();
        for account in accounts {
            account.closed.set(true);
            account.changed.notify();
        }
    }

    /// Looks who is slow, and closes one connection that keeps memory from others for too long. To be called each
    /// [`LOOK`].
    pub fn look(&self) {
        let accounts: Vec<Rc<Account>> = {
            let mut accounts = self.accounts.borrow_mut();
            accounts.retain(|account| account.strong_count() > 0);
            accounts.iter().filter_map(Weak::upgrade).collect()
        };
        accounts.iter().for_each(|account| account.look());
        let next = self.next();
        for account in self.line.borrow().iter() {
            let waits = next.as_ref().is_some_and(|next| Rc::ptr_eq(next, account));
            account.waited.set(if waits { account.waited.get() + 1 } else { 0 });
        }
        let is_late = next.is_some_and(|next| next.waited.get() >= WAITED);
        let keeps = |account: &&Rc<Account>| is_late && !self.beyond(account.memory.get()).is_zero();
        let slow = || accounts.iter().filter(|account| account.slow.get() >= SLOW);
        let closed = slow().filter(|account| account.ended.get());
        let longest = slow().filter(keeps).max_by_key(|account| account.slow.get());
        closed.chain(longest).for_each(|account| account.close());
        // Who is slow no more, or is not in the way any more.
        self.call_next();
    }
}

impl Account {
    /// Whether the connection's own limits allow so much more.
    fn may(&self, memory: Bytes) -> bool {
        let (limits, requests) = (&self.commons.limits, self.requests.get());
        requests == 0 || (requests < limits.requests && self.memory.get() + memory <= limits.memory)
    }

    fn close(&self) {
        if !self.closed.replace(true) {
            self.wire.close(self.memory.get());
            self.changed.notify();
        }
    }

    fn fits(&self, memory: Bytes) -> bool {
        if self.closed.get() {
            return true;
        }
        if !self.may(memory) {
            return false;
        }
        let commons = &self.commons;
        let more = commons.beyond(self.memory.get() + memory) - commons.beyond(self.memory.get());
        if more.is_zero() {
            return true;
        }
        let there = commons.used.get().is_zero() || commons.used.get() + more <= commons.common;
        let others = || commons.next().is_some_and(|next| !std::ptr::eq(&*next, self));
        there && self.slow.get() == 0 && (commons.line.borrow().is_empty() || !others())
    }

    fn hold(&self, requests: u32, memory: Bytes) {
        let commons = &self.commons;
        let before = self.memory.replace(memory);
        self.requests.set(requests);
        commons.held.set(commons.held.get() + memory - before);
        commons.used.set(commons.used.get() + commons.beyond(memory) - commons.beyond(before));
    }

    fn look(&self) {
        let now = (self.wire.moved(), self.sending.get(), self.receiving.get());
        let (moved, sending, receiving) = self.seen.replace(now);
        let same = |was: u64, is: u64| was == is && is % 2 == 1;
        let under_way = same(sending, now.1) || same(receiving, now.2);
        let is_slow = under_way && now.0 - moved < PACE;
        self.slow.set(if is_slow { self.slow.get() + 1 } else { 0 });
        self.proved.set(self.proved.get() && !is_slow);
    }

    async fn wait(self: &Rc<Self>, memory: Bytes) {
        /// Leaves the line, however the waiting ends.
        struct InLine<'a>(&'a Rc<Account>);
        impl Drop for InLine<'_> {
            fn drop(&mut self) {
                let commons = &self.0.commons;
                commons.line.borrow_mut().retain(|account| !Rc::ptr_eq(account, self.0));
                commons.call_next();
            }
        }
        self.wanted.set(memory);
        self.waited.set(0);
        self.commons.line.borrow_mut().push_back(Rc::clone(self));
        let _in_line = InLine(self);
        self.changed.wait_until(|| self.fits(memory)).await;
        // Taken before the next in line looks.
        self.hold(self.requests.get() + 1, self.memory.get() + memory);
    }
}

impl Budget {
    /// Of a connection by this wire; `sending` is odd while replies are being sent.
    pub fn new(commons: &Rc<Commons>, wire: impl Line + 'static, sending: Rc<Cell<u64>>) -> Budget {
        let account = Rc::new(Account {
            commons: Rc::clone(commons),
            requests: Cell::new(0),
            memory: Cell::new(Bytes::ZERO),
            changed: Signal::default(),
            wire: Box::new(wire),
            sending,
            receiving: Cell::new(0),
            ended: Cell::new(false),
            seen: Cell::new((0, 0, 0)),
            slow: Cell::new(0),
            waited: Cell::new(0),
            wanted: Cell::new(Bytes::ZERO),
            proved: Cell::new(false),
            closed: Cell::new(false),
        });
        commons.accounts.borrow_mut().push(Rc::downgrade(&account));
        Budget(account)
    }

    /// Waits for a share for one request with this much memory.
    pub async fn take(&self, memory: Bytes) -> Share {
        let (account, memory) = (&self.0, memory + REQUEST);
        if account.fits(memory) {
            account.hold(account.requests.get() + 1, account.memory.get() + memory);
        } else {
            Box::pin(account.wait(memory)).await;
        }
        Share { account: Rc::clone(account), memory }
    }

    /// Nothing more is to be done for the connection.
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// A payload begins to be received, or has been.
    pub fn receives(&self) {
        self.0.receiving.set(self.0.receiving.get() + 1);
    }

    /// Waits until nothing is under way; the client sends nothing more.
    pub async fn all_back(&self) {
        self.0.ended.set(true);
        self.0.changed.wait_until(|| self.0.requests.get() == 0).await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let account = &self.account;
        assert!(account.requests.get() > 0, "a share is given back once");
        account.hold(account.requests.get() - 1, account.memory.get() - self.memory);
        account.proved.set(true);
        account.changed.notify();
        if !account.commons.line.borrow().is_empty() {
            account.commons.call_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use runtime::Runtime;

    use super::*;

    /// A wire that moves nothing, and is not closed but noted.
    #[derive(Clone, Default)]
    struct Still {
        moved: Rc<Cell<u64>>,
        closed: Rc<Cell<bool>>,
    }

    impl Line for Still {
        fn moved(&self) -> u64 {
            self.moved.get()
        }
        fn close(&self, _held: Bytes) {
            self.closed.set(true);
        }
    }

    /// A connection that sends without end, if it is to.
    fn connection(commons: &Rc<Commons>, sends: u64) -> (Budget, Still) {
        let still = Still::default();
        (Budget::new(commons, still.clone(), Rc::new(Cell::new(sends))), still)
    }

    /// Whether a share is there at once.
    fn now(budget: &Budget, memory: Bytes) -> Option<Share> {
        use futures_util::FutureExt;
        budget.take(memory).now_or_never()
    }

    #[test]
    fn all_together_hold_no_more_than_the_total_and_each_has_its_reserve() {
        let commons = Commons::new(Limits::default());
        let greedy: Vec<_> = (0..128).map(|_| connection(&commons, 1)).collect();
        let mut shares = Vec::new();
        for round in 0..400 {
            for (budget, _) in &greedy {
                shares.extend(now(budget, if round == 0 { Bytes::mib(32) } else { Bytes::kib(128) }));
            }
        }
        let total = Limits::default().total;
        assert!(commons.held() <= total && commons.held() > Bytes::mib(200), "{}", commons.held());
        assert!(greedy.iter().all(|(budget, _)| budget.0.requests.get() > 0), "each has something");
        drop(shares);
        assert_eq!((commons.held(), commons.used.get()), (Bytes::ZERO, Bytes::ZERO));
    }

    #[test]
    fn a_request_that_is_larger_than_everything_is_let_in_alone() {
        let commons = Commons::new(Limits { total: Bytes::mib(1), ..Limits::default() });
        let (one, other) = (connection(&commons, 0).0, connection(&commons, 0).0);
        let first = now(&one, Bytes::mib(32)).expect("nobody has any");
        assert!(now(&other, Bytes::mib(32)).is_none());
        assert!(now(&other, Bytes::kib(2)).is_some(), "of its reserve");
        drop(first);
        assert!(now(&other, Bytes::mib(32)).is_some());
    }

    #[test]
    fn who_asked_first_has_it_first_and_who_is_slow_stands_in_nobodys_way() {
        let runtime = Runtime::simulated();
        let commons = Commons::new(Limits::default());
        let (holds, large, small, slow) = (
            connection(&commons, 0).0,
            connection(&commons, 0).0,
            connection(&commons, 0).0,
            connection(&commons, 1).0,
        );
        let held: Vec<Share> = (0..2).map(|_| now(&holds, Bytes::mib(32)).unwrap()).collect();
        let more = now(&connection(&commons, 0).0, Bytes::mib(32)).unwrap();
        let order: Rc<RefCell<Vec<&str>>> = Rc::default();
        let ask = |name: &'static str, budget: &Budget, memory: Bytes| {
            let (budget, order) = (budget.clone(), Rc::clone(&order));
            runtime.spawn_detached(async move {
                let share = budget.take(memory).await;
                order.borrow_mut().push(name);
                std::mem::forget(share);
            });
        };
        runtime.block_on(async {
            commons.look();
            commons.look();
            ask("slow", &slow, Bytes::mib(32));
            ask("large", &large, Bytes::mib(32));
            runtime.sleep(LOOK).await;
            ask("small", &small, Bytes::mib(4));
            runtime.sleep(LOOK).await;
            assert!(order.borrow().is_empty(), "it would fit, but is behind: {:?}", order.borrow());
            drop(more);
            runtime.sleep(LOOK).await;
            assert_eq!(*order.borrow(), ["large", "small"]);
            drop(held);
            runtime.sleep(LOOK).await;
            assert_eq!(*order.borrow(), ["large", "small"], "the slow one still is");
            slow.0.slow.set(0);
            commons.call_next();
            runtime.sleep(LOOK).await;
            assert_eq!(*order.borrow(), ["large", "small", "slow"]);
        });
    }

    #[test]
    fn the_slowest_is_closed_only_where_somebody_waits_for_what_it_keeps() {
        let runtime = Runtime::simulated();
        let commons = Commons::new(Limits::default());
        let ((slow, slows), (idle, idles)) = (connection(&commons, 1), connection(&commons, 0));
        let mut held: Vec<Share> = (0..2).map(|_| now(&slow, Bytes::mib(32)).unwrap()).collect();
        held.push(now(&idle, Bytes::mib(32)).unwrap());
        (0..100).for_each(|_| commons.look());
        assert!(!slows.closed.get(), "nobody waits");
        let waiting = connection(&commons, 0).0;
        runtime.spawn_detached(async move { std::mem::forget(waiting.take(Bytes::mib(32)).await) });
        runtime.block_on(async {
            runtime.sleep(LOOK).await;
            (0..WAITED - 1).for_each(|_| commons.look());
            assert!(!slows.closed.get(), "not at once");
            commons.look();
            assert!(slows.closed.get() && !idles.closed.get());
        });
    }

    #[test]
    fn a_client_that_takes_a_little_at_a_time_is_slow_and_one_that_takes_much_is_not() {
        let commons = Commons::new(Limits::default());
        let (budget, wire) = connection(&commons, 1);
        commons.look();
        for (bytes, slow) in [(1000, true), (PACE, false), (PACE - 1, true)] {
            wire.moved.set(wire.moved.get() + bytes);
            commons.look();
            assert_eq!(budget.0.slow.get() > 0, slow, "{bytes} bytes in a second");
        }
    }
}
