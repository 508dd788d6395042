//! The way of packets between a node and memory.

use std::rc::Rc;

use record::PartName;
use runtime::Runtime;
use units::{Bytes, Duration, Rate};

use crate::flow::{Demand, Flows, Link, MOST_LINKS};
use crate::lines::Lines;
use crate::memory::Memory;

/// Packets have no priorities among themselves.
const CLASS: u8 = 0;

/// A link with two directions, as one stretch of a way.
#[derive(Clone)]
pub struct Leg {
    /// Towards memory, and what a byte of data takes of it, in seconds.
    pub up: (Link, f64),
    /// Away from memory.
    pub down: (Link, f64),
    /// What each byte that comes down takes of the way up: to ask for it, to acknowledge it.
    pub ask: f64,
    /// What each byte that goes up takes of the way down: to acknowledge it.
    pub answer: f64,
    /// From one end to the other, and through what stands there.
    pub latency: Duration,
}

/// All legs from a node to memory.
#[derive(Clone)]
pub struct Route {
    runtime: Runtime,
    flows: Flows,
    legs: Vec<Leg>,
    /// The memory of the host. A way to the memory of a controller has that as its first leg.
    memory: Option<Rc<Memory>>,
    latency: Duration,
}

impl Route {
    /// The way from memory itself: no leg yet.
    pub fn at(runtime: &Runtime, flows: &Flows, memory: &Rc<Memory>) -> Route {
        Route { memory: Some(Rc::clone(memory)), ..Route::within(runtime, flows) }
    }

    /// A way that begins inside a controller, without its memory: no leg yet.
    pub fn within(runtime: &Runtime, flows: &Flows) -> Route {
        let (runtime, flows) = (runtime.clone(), flows.clone());
        Route { runtime, flows, legs: Vec::new(), memory: None, latency: Duration::ZERO }
    }

    /// With one more leg, away from memory. Nothing if a way of so many legs cannot be computed.
    #[must_use]
    pub fn beyond(&self, leg: Leg) -> Option<Route> {
        let mut route = self.clone();
        route.latency += leg.latency;
        route.legs.push(leg);
        // Two links a leg, memory's bus and cache.
        (2 * route.legs.len() + 2 <= MOST_LINKS).then_some(route)
    }

    /// One way, without waiting.
    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// The legs from memory on.
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }

    /// For how long the leg furthest from memory was in use, up and down. Waiting for other legs does not count.
    pub fn last_leg_busy(&self) -> (Duration, Duration) {
        match self.legs.last() {
            None => (Duration::ZERO, Duration::ZERO),
            Some(leg) => (self.flows.busy(leg.up.0), self.flows.busy(leg.down.0)),
        }
    }

    /// Bytes a second of one transfer that is alone: the slowest leg's, less what memory makes it wait.
    pub fn rate(&self, up: bool, lines: Lines) -> f64 {
        let (wait, busy) = self.memory.as_ref().map_or((0.0, 0.0), |memory| memory.dma_cost(lines));
        let costs = self.legs.iter().map(|leg| if up { leg.up.1.max(leg.answer) } else { leg.down.1.max(leg.ask) });
        1.0 / (costs.fold(busy, f64::max) + wait)
    }

    /// Moves data to memory or from it.
    pub async fn transfer(&self, bytes: Bytes, up: bool, lines: Lines) {
        self.flow(bytes, up, lines, self.rate(up, lines)).await;
    }

    /// Moves data that come or go at this pace at most, as they pass under heads.
    pub async fn paced(&self, bytes: Bytes, up: bool, lines: Lines, pace: Rate) {
        self.flow(bytes, up, lines, self.rate(up, lines).min(pace.get())).await;
    }

    async fn flow(&self, bytes: Bytes, up: bool, lines: Lines, rate: f64) {
        if bytes.is_zero() {
            return;
        }
        let mut demand = Demand::new(bytes.get() as f64, rate, CLASS);
        for leg in &self.legs {
            let (of_up, of_down) = if up { (leg.up.1, leg.answer) } else { (leg.ask, leg.down.1) };
            demand = demand.over(leg.up.0, of_up).over(leg.down.0, of_down);
        }
        if let Some(memory) = &self.memory {
            let (_, busy) = memory.dma_cost(lines);
            demand = demand.over(memory.link(), busy).over(memory.cache(), memory.cache_cost(lines));
        }
        self.flows.start(demand).await;
    }

    /// A message goes the way so many times.
    pub async fn signal(&self, times: u64) {
        self.runtime.sleep(self.latency * times).await;
    }
}

/// How long a part's links were in use.
pub struct Wires {
    /// The flows that know.
    flows: Flows,
    /// The leg to the part above.
    leg: Leg,
    /// Its number in spans.
    pub part: PartName,
}

impl Wires {
    /// Those of a leg.
    pub fn new(flows: &Flows, leg: Leg, part: PartName) -> Wires {
        Wires { flows: flows.clone(), leg, part }
    }
    /// What data pass up at most.
    pub fn rate(&self) -> Rate {
        Rate::bytes_per_second(1.0 / self.leg.up.1)
    }
    /// Up and down.
    pub fn busy(&self) -> (Duration, Duration) {
        (self.flows.busy(self.leg.up.0), self.flows.busy(self.leg.down.0))
    }
}
