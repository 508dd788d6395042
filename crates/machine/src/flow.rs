//! Things that go on at the same time and share what carries them: transfers over buses, copies and flushes over a
//! memory bus, instructions on a processor.
//!
//! # Theory
//! A *flow* moves an amount (bytes, instructions) at a rate of its own at most, and while it does so it takes a share
//! of each *link* it crosses: rate times the link time that one unit of the amount costs. Shares of a link add up to
//! one at most. Between two instants at which a flow starts or ends, all rates are constant, so an event is needed only
//! there, however many bytes pass: a transfer of 32 KB costs as many events as one of 512 B. While no link is full, a
//! flow that starts or ends changes nothing for the others, and only its own links are looked at.
//!
//! Rates are given class by class, the lowest class number first: a class takes what it can use, the next gets what is
//! left. This is the fluid limit of a bus with fixed priorities and bursts that are short against the transfers. Within
//! a class all flows run at the same fraction of their own rates until a link is full; those that do not cross that
//! link go on rising (max-min fairness). A flow that gets nothing is *starved*. One with [`Demand::patience`] counts a
//! time-out when that has lasted too long, and from then on goes in class 0: who is refused for ever would otherwise
//! never finish.
//!
//! # Links that lose
//! A link may have a [`Law`]. *Wait*: each unit of a flow takes so much longer for every other flow on the link, as the
//! transactions of one requester wait for those of others. *Loss*: when `W` is what all flows would take at their own
//! rates, and is more than one, only `1 / (1 + loss (W - 1))` of the link carries anything; the rest goes into
//! conflicts and repeats. With a loss of 0 a full link stays full however many want it; with 1 it gives `1 / W`, with
//! more it collapses: those who are held up ask on meanwhile.
//!
//! # Rejected
//! Bursts as single events: a VME block transfer of 256 bytes would cost 128 events per 32 KB and give the same rates.
//! First come, first served per transfer: a 2 ms transfer of one string would stand before a 100 us transfer of the
//! other.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use runtime::{Runtime, Sleep};
use units::{Duration, Instant};

/// How many links one flow can cross.
pub const MOST_LINKS: usize = 16;

/// All links and flows of one machine; clones name the same ones.
#[derive(Clone)]
pub struct Flows {
    runtime: Runtime,
    state: Rc<RefCell<State>>,
}

/// One thing that is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(u16);

/// What a flow wants.
#[derive(Debug, Clone, Copy)]
pub struct Demand {
    amount: f64,
    rate: f64,
    class: u8,
    uses: [(Link, f64); MOST_LINKS],
    links: usize,
    patience: Duration,
}

#[derive(Default)]
struct State {
    links: Links,
    flows: Vec<FlowState>,
    free: Vec<u32>,
    /// Live flows in order of class, then of arrival.
    order: Vec<u32>,
    updated: Instant,
    /// Every flow runs at its own rate.
    at_ease: bool,
}

/// The share of a link that must be free for it to count as not full. It is larger than all rounding errors.
const SPARE: f64 = 1e-9;

/// The links' states, each in a column: a change of rates goes over all that flows use.
#[derive(Default)]
struct Links {
    /// How many uses flows make of each.
    uses: Vec<u32>,
    /// Those with any, in order.
    live: Vec<usize>,
    /// Share in use now.
    used: Vec<f64>,
    /// Share not given to a flow yet, while rates are given.
    left: Vec<f64>,
    /// Share that the flows of a class want in all, while rates are given.
    wanted: Vec<f64>,
    /// Integral of the share in use, seconds.
    busy: Vec<f64>,
    /// Those that are watched.
    watched: Vec<Link>,
    /// Integral of the share not in use while watched, seconds.
    spare: Vec<f64>,
    /// What is peculiar to each.
    laws: Vec<Law>,
    /// One of them has a law.
    lawful: bool,
}

/// How a link serves several flows worse than one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Law {
    /// Of its capacity, for each unit of demand beyond it.
    pub loss: f64,
    /// Seconds that each unit of a flow takes longer for every other flow.
    pub wait: f64,
}

struct FlowState {
    remaining: f64,
    /// Its rate if no link were full: that of its demand, less what it waits for others.
    own: f64,
    rate: f64,
    demand: Demand,
    deadline: Instant,
    /// When its future looks at it again by itself: at its end as it was then, or before it, if it was slowed down
    /// since.
    armed: Instant,
    waker: Option<Waker>,
    /// Since when it gets nothing.
    starving: Option<Instant>,
    /// For how long it got nothing in earlier spells.
    starved: Duration,
    time_outs: u64,
    level: f64,
    frozen: bool,
}

impl Demand {
    /// `amount` units at up to `rate` a second. Panics unless both are finite and the rate is positive.
    pub fn new(amount: f64, rate: f64, class: u8) -> Demand {
        assert!(
            amount >= 0.0 && amount.is_finite() && rate > 0.0 && rate.is_finite(),
            "a flow of {amount} at {rate}/s"
        );
        Demand { amount, rate, class, uses: [(Link(0), 0.0); MOST_LINKS], links: 0, patience: Duration::MAX }
    }

    /// Each unit takes `cost` seconds of `link`. Costs of nothing are left out.
    #[must_use]
    pub fn over(mut self, link: Link, cost: f64) -> Demand {
        assert!(cost >= 0.0 && cost.is_finite(), "a unit costs {cost} s of a link");
        if cost > 0.0 {
            self.uses[self.links] = (link, cost);
            self.links += 1;
        }
        self
    }

    /// For how long it bears to get nothing, all spells together. Without this, for ever.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Demand {
        self.patience = patience;
        self
    }

    fn uses(&self) -> &[(Link, f64)] {
        &self.uses[..self.links]
    }
}

impl Flows {
    /// No links yet.
    pub fn new(runtime: &Runtime) -> Flows {
        Flows {
            runtime: runtime.clone(),
            state: Rc::new(RefCell::new(State { updated: runtime.now(), ..State::default() })),
        }
    }

    /// A new link.
    pub fn link(&self) -> Link {
        self.link_with(Law::default())
    }

    /// A new link with a law. Panics unless its numbers are finite and not negative.
    pub fn link_with(&self, law: Law) -> Link {
        assert!(law.loss >= 0.0 && law.loss.is_finite() && law.wait >= 0.0 && law.wait.is_finite(), "a law: {law:?}");
        let mut state = self.state.borrow_mut();
        let links = &mut state.links;
        links.uses.push(0);
        for column in [&mut links.used, &mut links.left, &mut links.wanted, &mut links.busy, &mut links.spare] {
            column.push(0.0);
        }
        links.laws.push(law);
        links.lawful |= law != Law::default();
        Link((links.used.len() - 1) as u16)
    }

    /// Starts a flow; the future ends when all of it has passed and gives how many time-outs it counted.
    pub fn start(&self, demand: Demand) -> Flow {
        let mut state = self.state.borrow_mut();
        let now = self.runtime.now();
        state.advance(now);
        let index = state.join(demand, now);
        Flow { flows: self.clone(), index, sleep: None, done: false }
    }

    /// For how long a link was in use up to now, partial use counted by its share.
    pub fn busy(&self, link: Link) -> Duration {
        let mut state = self.state.borrow_mut();
        state.advance(self.runtime.now());
        Duration::from_seconds(state.links.busy[link.index()])
    }

    /// Starts or stops adding up what of a link nobody uses.
    pub fn watch(&self, link: Link, on: bool) {
        let mut state = self.state.borrow_mut();
        state.advance(self.runtime.now());
        let watched = &mut state.links.watched;
        watched.retain(|other| *other != link);
        if on {
            watched.push(link);
        }
    }

    /// What nobody used of a link while it was watched.
    pub fn spare(&self, link: Link) -> Duration {
        let mut state = self.state.borrow_mut();
        state.advance(self.runtime.now());
        Duration::from_seconds(state.links.spare[link.index()])
    }
}

impl State {
    /// One more flow.
    fn join(&mut self, demand: Demand, now: Instant) -> u32 {
        let index = self.insert(demand);
        let has_room = |(link, cost): &(Link, f64)| {
            self.links.used[link.index()] + demand.rate * cost <= 1.0 - SPARE
                && self.links.laws[link.index()].wait == 0.0
        };
        if self.at_ease && demand.uses().iter().all(has_room) {
            demand.uses().iter().for_each(|(link, cost)| self.links.used[link.index()] += demand.rate * cost);
            let flow = &mut self.flows[index as usize];
            flow.level = 1.0;
            flow.run_at(demand.rate, now);
        } else {
            self.share(now);
        }
        index
    }

    /// One flow less.
    fn leave(&mut self, index: u32, now: Instant) {
        let FlowState { demand, rate, .. } = self.flows[index as usize];
        self.remove(index);
        let waits = |(link, _): &(Link, f64)| self.links.laws[link.index()].wait > 0.0;
        if !self.at_ease || demand.uses().iter().any(waits) {
            return self.share(now);
        }
        for (link, cost) in demand.uses() {
            if self.links.uses[link.index()] > 0 {
                let left = self.links.used[link.index()] - rate * cost;
                assert!(left > -SPARE, "a link is used by its flows and by nobody else, not {left}");
                self.links.used[link.index()] = left.max(0.0);
            }
        }
    }

    fn insert(&mut self, demand: Demand) -> u32 {
        let flow = FlowState {
            remaining: demand.amount,
            own: demand.rate,
            rate: 0.0,
            demand,
            deadline: Instant::NEVER,
            armed: Instant::NEVER,
            waker: None,
            starving: None,
            starved: Duration::ZERO,
            time_outs: 0,
            level: 0.0,
            frozen: false,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.flows[index as usize] = flow;
                index
            }
            None => {
                self.flows.push(flow);
                (self.flows.len() - 1) as u32
            }
        };
        let place = self.order.partition_point(|other| self.flows[*other as usize].demand.class <= demand.class);
        self.order.insert(place, index);
        self.links.occupy(&demand);
        index
    }

    fn remove(&mut self, index: u32) {
        let place = self.order.iter().position(|other| *other == index).expect("a flow is removed once");
        self.order.remove(place);
        let flow = &mut self.flows[index as usize];
        flow.waker = None;
        self.links.vacate(&flow.demand);
        self.free.push(index);
    }

    /// Its patience is at an end: it goes first from now on.
    fn promote(&mut self, index: u32, now: Instant) {
        self.advance(now);
        let place = self.order.iter().position(|other| *other == index).expect("who starves is under way");
        self.order.remove(place);
        let flow = &mut self.flows[index as usize];
        flow.time_outs += 1;
        flow.demand.class = 0;
        flow.starving = None;
        flow.deadline = Instant::NEVER;
        let place = self.order.partition_point(|other| self.flows[*other as usize].demand.class == 0);
        self.order.insert(place, index);
        self.share(now);
    }

    /// Lets the present rates act up to now.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.since(self.updated).as_seconds();
        if elapsed == 0.0 {
            return;
        }
        self.updated = now;
        for index in &self.order {
            let flow = &mut self.flows[*index as usize];
            flow.remaining = (flow.remaining - flow.rate * elapsed).max(0.0);
        }
        for link in &self.links.live {
            self.links.busy[*link] += self.links.used[*link] * elapsed;
        }
        for link in &self.links.watched {
            self.links.spare[link.index()] += (1.0 - self.links.used[link.index()]) * elapsed;
        }
    }

    /// Gives every flow its rate.
    fn share(&mut self, now: Instant) {
        let Links { live, left, .. } = &mut self.links;
        live.iter().for_each(|link| left[*link] = 1.0);
        if self.links.lawful {
            self.apply_laws();
        }
        let mut start = 0;
        while start < self.order.len() {
            let class = self.flows[self.order[start] as usize].demand.class;
            let mut end = start + 1;
            while end < self.order.len() && self.flows[self.order[end] as usize].demand.class == class {
                end += 1;
            }
            if end == start + 1 {
                self.fill_one(self.order[start])
            } else {
                self.fill_class(start, end)
            }
            start = end;
        }
        for link in &self.links.live {
            self.links.used[*link] = 1.0 - self.links.left[*link];
        }
        self.at_ease = true;
        for index in &self.order {
            let flow = &mut self.flows[*index as usize];
            self.at_ease &= flow.level == 1.0;
            flow.run_at(flow.own * flow.level, now);
        }
    }

    /// What flows lose to each other: in their own rates, and of the links that more is asked of than they have.
    fn apply_laws(&mut self) {
        let State { links, flows, order, .. } = self;
        links.want_nothing();
        for index in order.iter() {
            flows[*index as usize].demand.uses().iter().for_each(|(link, _)| links.wanted[link.index()] += 1.0);
        }
        for index in order.iter() {
            let flow = &mut flows[*index as usize];
            let others = |(link, _): &(Link, f64)| links.laws[link.index()].wait * (links.wanted[link.index()] - 1.0);
            let wait: f64 = flow.demand.uses().iter().map(others).sum();
            flow.own = if wait > 0.0 { 1.0 / (1.0 / flow.demand.rate + wait) } else { flow.demand.rate };
        }
        links.want_nothing();
        for index in order.iter() {
            let flow = &flows[*index as usize];
            flow.demand.uses().iter().for_each(|(link, cost)| links.wanted[link.index()] += flow.own * cost);
        }
        for link in &links.live {
            links.left[*link] = 1.0 / (1.0 + links.laws[*link].loss * (links.wanted[*link] - 1.0).max(0.0));
        }
    }

    /// A class of one: it takes what it can.
    fn fill_one(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        let mut level: f64 = 1.0;
        for (link, cost) in flow.demand.uses() {
            level = level.min(self.links.left[link.index()] / (flow.own * cost));
        }
        // What rounding leaves of a full link is nothing.
        flow.level = if level < 1e-6 { 0.0 } else { level };
        self.links.take(&flow.demand, flow.own * flow.level);
    }

    fn fill_class(&mut self, start: usize, end: usize) {
        for at in start..end {
            let flow = &mut self.flows[self.order[at] as usize];
            (flow.level, flow.frozen) = (0.0, false);
        }
        let mut level = 0.0;
        loop {
            // How far everyone who is not frozen can rise together.
            self.links.want_nothing();
            for index in &self.order[start..end] {
                let flow = &self.flows[*index as usize];
                if !flow.frozen {
                    for (link, cost) in flow.demand.uses() {
                        self.links.wanted[link.index()] += flow.own * cost;
                    }
                }
            }
            let mut rise = 1.0 - level;
            let mut full = None;
            for link in &self.links.live {
                let (left, wanted) = (self.links.left[*link], self.links.wanted[*link]);
                if left < rise * wanted {
                    rise = left / wanted;
                    full = Some(*link);
                }
            }
            level += rise;
            let mut anyone = false;
            for at in start..end {
                let flow = &mut self.flows[self.order[at] as usize];
                if flow.frozen {
                    continue;
                }
                flow.level = if level < 1e-6 { 0.0 } else { level };
                self.links.take(&flow.demand, flow.own * rise);
                flow.frozen = full.is_some_and(|full| flow.demand.uses().iter().any(|(link, _)| link.index() == full));
                anyone |= !flow.frozen;
            }
            if full.is_none() || !anyone {
                return;
            }
        }
    }
}

impl FlowState {
    /// Goes on at another rate, and is woken if it now ends before it would look.
    fn run_at(&mut self, rate: f64, now: Instant) {
        if rate == self.rate && (rate > 0.0 || self.starving.is_some()) {
            return;
        }
        if rate > 0.0 {
            if let Some(since) = self.starving.take() {
                self.starved += now.since(since);
            }
        } else if self.starving.is_none() {
            self.starving = Some(now);
        }
        self.rate = rate;
        self.deadline = if self.remaining <= 0.0 {
            now
        } else if rate > 0.0 {
            now + Duration::nanos((self.remaining / rate * 1e9).ceil() as u64)
        } else {
            // When its patience ends.
            let left = self.demand.patience.saturating_sub(self.starved);
            Instant::from_nanos(now.as_nanos().saturating_add(left.as_nanos()))
        };
        // Who ends later than it thought finds that out when it looks: most of those who are slowed down by another are
        // on their own again by then.
        if self.deadline < self.armed
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}

impl Link {
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Links {
    /// One more flow uses those of a demand.
    fn occupy(&mut self, demand: &Demand) {
        for (link, _) in demand.uses() {
            self.uses[link.index()] += 1;
            if let Err(place) = self.live.binary_search(&link.index()) {
                self.live.insert(place, link.index());
            }
        }
    }

    /// One flow less uses them.
    fn vacate(&mut self, demand: &Demand) {
        for (link, _) in demand.uses() {
            self.uses[link.index()] -= 1;
            if self.uses[link.index()] == 0 {
                let place = self.live.binary_search(&link.index()).expect("it was in use");
                self.live.remove(place);
                self.used[link.index()] = 0.0;
            }
        }
    }

    fn want_nothing(&mut self) {
        self.live.iter().for_each(|link| self.wanted[*link] = 0.0);
    }

    /// Gives a flow so much more of a rate.
    fn take(&mut self, demand: &Demand, rate: f64) {
        for (link, cost) in demand.uses() {
            let left = &mut self.left[link.index()];
            *left = (*left - rate * cost).max(0.0);
        }
    }
}

/// A flow under way. Dropping it ends it where it is.
#[must_use = "a flow that is dropped has ended"]
pub struct Flow {
    flows: Flows,
    index: u32,
    sleep: Option<Sleep>,
    done: bool,
}

impl Future for Flow {
    type Output = u64;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<u64> {
        let this = &mut *self;
        let now = this.flows.runtime.now();
        loop {
            {
                let mut state = this.flows.state.borrow_mut();
                let flow = &mut state.flows[this.index as usize];
                if flow.deadline > now {
                    flow.waker = Some(context.waker().clone());
                    if flow.armed != flow.deadline {
                        flow.armed = flow.deadline;
                        this.sleep = (flow.armed != Instant::NEVER).then(|| this.flows.runtime.sleep_until(flow.armed));
                    }
                } else if flow.starving.is_some() && flow.remaining > 0.0 {
                    state.promote(this.index, now);
                    continue;
                } else {
                    let time_outs = flow.time_outs;
                    state.advance(now);
                    state.leave(this.index, now);
                    this.done = true;
                    return Poll::Ready(time_outs);
                }
            }
            let Some(sleep) = &mut this.sleep else { return Poll::Pending };
            if Pin::new(sleep).poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.flows.state.borrow_mut();
            let now = self.flows.runtime.now();
            state.advance(now);
            state.leave(self.index, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs flows that start together over one link; gives when each ended, in microseconds.
    fn ends(demands: &[(f64, f64, u8)]) -> Vec<u64> {
        let runtime = Runtime::simulated();
        let flows = Flows::new(&runtime);
        let link = flows.link();
        // A unit costs a microsecond of the link: its capacity is a million a second.
        let handles: Vec<_> = demands
            .iter()
            .map(|(amount, rate, class)| {
                let flow = flows.start(Demand::new(*amount, *rate, *class).over(link, 1e-6));
                let runtime = runtime.clone();
                runtime.clone().spawn(async move {
                    flow.await;
                    runtime.now().as_nanos().div_ceil(1000)
                })
            })
            .collect();
        let ends = runtime.block_on(async {
            let mut ends = Vec::new();
            for handle in handles {
                ends.push(handle.await);
            }
            ends
        });
        let moved: f64 = demands.iter().map(|(amount, ..)| amount).sum();
        assert!((flows.busy(link).as_seconds() * 1e6 - moved).abs() < 1.0, "what moved is what the link was busy with");
        ends
    }

    #[test]
    fn alone_it_runs_at_its_own_rate() {
        assert_eq!(ends(&[(500.0, 0.5e6, 0)]), [1000]);
    }

    #[test]
    fn equals_share() {
        // Both want the whole link: half each until the small one is through, then all of it.
        assert_eq!(ends(&[(1000.0, 1e6, 0), (500.0, 1e6, 0)]), [1500, 1000]);
    }

    #[test]
    fn a_higher_class_goes_first() {
        assert_eq!(ends(&[(1000.0, 1e6, 1), (500.0, 1e6, 0)]), [1500, 500]);
        // The higher class cannot use it all: the lower gets the rest meanwhile.
        assert_eq!(ends(&[(1000.0, 1e6, 1), (600.0, 0.6e6, 0)]), [1600, 1000]);
    }

    /// When flows of 1000 units at a unit a microsecond end that start together over a link of a law.
    fn end_under(law: Law, flows_at_once: usize) -> u64 {
        let runtime = Runtime::simulated();
        let flows = Flows::new(&runtime);
        let link = flows.link_with(law);
        let all: Vec<_> =
            (0..flows_at_once).map(|_| flows.start(Demand::new(1000.0, 1e6, 0).over(link, 0.4e-6))).collect();
        let all: Vec<_> = all.into_iter().map(|flow| runtime.spawn(flow)).collect();
        runtime.block_on(async {
            for flow in all {
                flow.await;
            }
        });
        runtime.now().as_nanos().div_ceil(1000)
    }

    #[test]
    fn a_link_may_lose_what_is_asked_beyond_it() {
        let law = Law { loss: 0.5, wait: 0.0 };
        assert_eq!(end_under(law, 2), 1000, "0.8 of the link is no more than it has");
        // Five want twice the link: 1 / 1.5 of it carries 5000 units that cost 0.4 us each.
        assert_eq!(end_under(law, 5), 3000);
        assert_eq!(end_under(Law::default(), 5), 2000, "without a loss it stays full");
    }

    #[test]
    fn flows_may_wait_for_each_other_on_a_link_that_is_not_full() {
        let law = Law { loss: 0.0, wait: 0.25e-6 };
        assert_eq!(end_under(law, 1), 1000);
        assert_eq!(end_under(law, 2), 1250, "a quarter of a microsecond for the other one");
        assert_eq!(end_under(law, 3), 1500);
    }

    #[test]
    fn patience_ends() {
        let runtime = Runtime::simulated();
        let flows = Flows::new(&runtime);
        let link = flows.link();
        let low = flows.start(Demand::new(10.0, 1e6, 5).over(link, 1e-6).patience(Duration::micros(200)));
        let high = flows.start(Demand::new(300.0, 1e6, 0).over(link, 1e-6));
        runtime.spawn(high);
        assert_eq!(runtime.block_on(low), 1, "it gives up once");
        // Then it shares class 0 with the other: ten units at half speed.
        assert_eq!(runtime.now(), Instant::from_nanos(220_000));
    }

    #[test]
    fn who_does_not_cross_the_full_link_goes_on_rising() {
        let runtime = Runtime::simulated();
        let flows = Flows::new(&runtime);
        let (narrow, wide) = (flows.link(), flows.link());
        let both = flows.start(Demand::new(1000.0, 1e6, 0).over(narrow, 4e-6).over(wide, 0.5e-6));
        let one = flows.start(Demand::new(875.0, 1e6, 0).over(wide, 1e-6));
        runtime.spawn(both);
        // The narrow link gives the first a quarter of its rate; an eighth of the wide one; the second takes the other
        // 7/8.
        runtime.block_on(one);
        assert_eq!(runtime.now(), Instant::from_nanos(1_000_000));
    }

    /// Some links, the last of which loses and the one before it makes wait, and no flows.
    fn idle() -> State {
        let runtime = Runtime::simulated();
        let flows = Flows::new(&runtime);
        let laws = [(0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 1e-7), (0.5, 0.0)];
        laws.into_iter().for_each(|(loss, wait)| assert!(flows.link_with(Law { loss, wait }).0 < 5));
        Rc::into_inner(flows.state).unwrap().into_inner()
    }

    proptest! {
        /// Whether only the links of a flow are looked at or all flows anew: each has the same rate and the same end.
        #[test]
        fn a_flow_that_disturbs_nobody_changes_nothing(
            steps in proptest::collection::vec(
                (1u64..5, 1.0f64..1e4, 0.01f64..0.6, 0u8..3, proptest::bits::u8::between(0, 5), any::<bool>(), any::<u32>()),
                1..80,
            ),
        ) {
            let (mut quick, mut whole) = (idle(), idle());
            let mut now = Instant::START;
            let mut under_way = Vec::new();
            for (pause, amount, share, class, links, starts, chosen) in steps {
                now += Duration::micros(pause);
                quick.advance(now);
                whole.advance(now);
                if starts || under_way.is_empty() {
                    let mut demand = Demand::new(amount, 1e6, class);
                    for link in (0..5).filter(|link| links & (1 << link) != 0) {
                        demand = demand.over(Link(link), share * 1e-6);
                    }
                    under_way.push(quick.join(demand, now));
                    prop_assert_eq!(whole.insert(demand), *under_way.last().unwrap());
                } else {
                    let index = under_way.swap_remove(chosen as usize % under_way.len());
                    quick.leave(index, now);
                    whole.remove(index);
                }
                whole.share(now);
                for index in &under_way {
                    let [one, other] = [&quick, &whole].map(|state| &state.flows[*index as usize]);
                    prop_assert_eq!((one.rate, one.deadline), (other.rate, other.deadline));
                }
                for (one, other) in quick.links.used.iter().zip(&whole.links.used) {
                    prop_assert!((one - other).abs() < SPARE, "{} and {}", one, other);
                }
            }
        }
    }
}
