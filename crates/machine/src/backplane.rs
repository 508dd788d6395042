//! The bus between adapters and host memory, with fixed priorities.
//!
//! An adapter that moves a byte takes the bus for as long as a byte takes on it. Between its own bursts, and while the
//! memory behind the bus makes it wait, others come in. Priorities are fixed by slot: whoever is nearer goes first
//! whenever both want the bus, so that under saturation the last slots starve. An adapter that gets nothing for longer
//! than its patience counts a time-out, as the study observed from eight disks on (Section 4.4); its next try gets
//! through.
//!
//! The bus is a [`Link`] of the machine's flows; its classes are the priorities. VME's four request levels and daisy
//! chain and a UNIBUS are instances.
//!
//! # Tenures
//! On a bus with a longest *tenure*, such as a Micro Channel, whoever holds the bus gives it up after that time if
//! another waits, and the next is chosen fairly: all slots share alike, however near they are. Each tenure costs an
//! *arbitration*, in which nothing moves. Tenures are short against transfers (4 us against 205 us of 8 KiB at 40
//! MB/s), so they are a fluid, too, and a byte takes `(1 + arbitration / tenure) / rate` of the bus. Boards that move
//! data as packets do ([`crate::packet`]) stand on such a bus: for them it is a link with one direction at a time.
//!
//! # Sources
//! Micro Channel: K. D. Huynh and T. M. Khoshgoftaar 1994, Section 3.3 (rate, longest tenure, arbitration of about a
//! tenth of the data transfer time).

use std::rc::Rc;

use record::PartName;
use runtime::Runtime;
use units::{Bytes, Duration, Rate};

use crate::component::{Component, Fast, Kind, Places};
use crate::flow::{Demand, Flows, Link};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::memory::Memory;
use crate::packet::route::{self, Route};
use crate::part::{PartError, Problem, Reader};
use crate::trace::Trace;

/// Slots that can have priorities; flows of the processor come behind all of them.
pub const SLOTS: u32 = 16;

/// A bus for adapters, on memory.
pub const KIND: Kind = Kind {
    name: "backplane",
    on: &["memory"],
    fast: &[Fast { limit: "backplane", values: &["rate", "register-access"] }],
    build: |site| {
        let parameters = site.parameters(BackplaneParameters::read)?;
        Ok(Rc::new(Backplane::new(site.runtime, site.flows, site.trace, site.name, site.on(), parameters)))
    },
};

impl Component for Backplane {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.busy()));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.parameters.rate)
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "slot", count: self.parameters.slots, taken: None })
    }
    fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }
}

/// What distinguishes one backplane from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackplaneParameters {
    /// Bytes at full speed, memory not making it wait.
    pub rate: Rate,
    /// One word written to an adapter's registers by the processor.
    pub register_access: Duration,
    /// How long an adapter waits for the bus before it counts a time-out.
    pub patience: Duration,
    /// Slots.
    pub slots: u32,
    /// The longest tenure while others wait, and the arbitration that each costs; without it slots have priorities.
    pub tenure: Option<(Duration, Duration)>,
}

impl BackplaneParameters {
    /// Reads a part of kind `backplane`.
    pub fn read(reader: &Reader) -> Result<BackplaneParameters, PartError> {
        let rate: Rate = reader.get("rate")?;
        if rate.is_zero() {
            return Err(reader.fault("rate", Problem::OutOfRange { accepted: "a rate above zero".into() }));
        }
        let slots = reader.get("slots")?;
        if !(1..=SLOTS).contains(&slots) {
            return Err(reader.fault("slots", Problem::OutOfRange { accepted: format!("1 to {SLOTS}") }));
        }
        let register_access: Duration = reader.get("register-access")?;
        if register_access.is_zero() {
            return Err(reader.fault("register-access", Problem::OutOfRange { accepted: "a time above zero".into() }));
        }
        let tenure: Option<Duration> = reader.find("tenure")?;
        if tenure.is_some_and(Duration::is_zero) {
            return Err(reader.fault("tenure", Problem::OutOfRange { accepted: "a time above zero".into() }));
        }
        let tenure = tenure.map(|tenure| Ok((tenure, reader.get("arbitration")?))).transpose()?;
        Ok(BackplaneParameters { rate, register_access, patience: reader.get("patience")?, slots, tenure })
    }

    /// What a byte takes of the bus, in seconds.
    fn byte_time(&self) -> f64 {
        let arbitration = self.tenure.map_or(0.0, |(tenure, lost)| lost.as_seconds() / tenure.as_seconds());
        (1.0 + arbitration) / self.rate.get()
    }
}

/// The bus.
pub struct Backplane {
    /// What it is.
    pub parameters: BackplaneParameters,
    flows: Flows,
    link: Link,
    part: PartName,
    memory: Rc<Memory>,
    /// From what stands on it to memory, if it has tenures.
    route: Option<Route>,
}

impl Backplane {
    /// An idle bus.
    pub fn new(
        runtime: &Runtime,
        flows: &Flows,
        trace: &Trace,
        name: &str,
        memory: Rc<Memory>,
        parameters: BackplaneParameters,
    ) -> Backplane {
        let link = flows.link();
        let way = (link, parameters.byte_time());
        let leg = route::Leg { up: way, down: way, ask: 0.0, answer: 0.0, latency: Duration::ZERO };
        let route = parameters.tenure.and_then(|_| Route::at(runtime, flows, &memory).beyond(leg));
        Backplane { parameters, flows: flows.clone(), link, part: trace.part(name), memory, route }
    }
    /// Its number in spans.
    pub fn part(&self) -> PartName {
        self.part
    }
    /// For how long it was in use.
    pub fn busy(&self) -> Duration {
        self.flows.busy(self.link)
    }
}

/// How an adapter in one slot reaches memory.
#[derive(Clone)]
pub struct DmaPath {
    flows: Flows,
    class: u8,
    patience: Duration,
    cached: Leg,
    flushed: Leg,
    bus: Link,
    memory: Link,
    cache: Link,
    /// Cache time of one byte, seconds.
    cache_byte: f64,
    /// One word, seconds.
    word: f64,
}

/// Costs of one byte, in seconds.
#[derive(Clone, Copy)]
struct Leg {
    adapter: f64,
    bus: f64,
    memory: f64,
}

impl DmaPath {
    /// A path from `slot` at up to `rate`.
    pub fn new(flows: &Flows, backplane: &Backplane, slot: u32, rate: Rate) -> DmaPath {
        assert!(slot < backplane.parameters.slots, "an adapter sits in a slot");
        let memory = &backplane.memory;
        let leg = |lines| {
            let (wait, busy) = memory.dma_cost(lines);
            Leg { adapter: 1.0 / rate.get() + wait, bus: backplane.parameters.byte_time(), memory: busy }
        };
        DmaPath {
            flows: flows.clone(),
            class: if backplane.parameters.tenure.is_some() { 0 } else { slot as u8 },
            patience: backplane.parameters.patience,
            cached: leg(Lines::Cached),
            flushed: leg(Lines::Flushed),
            bus: backplane.link,
            memory: memory.link(),
            cache: memory.cache(),
            cache_byte: memory.cache_cost(Lines::Cached),
            word: backplane.parameters.register_access.as_seconds(),
        }
    }

    fn leg(&self, lines: Lines) -> &Leg {
        match lines {
            // Boards with slots of their own priority send to memory only.
            Lines::Cached | Lines::Elsewhere => &self.cached,
            Lines::Flushed => &self.flushed,
        }
    }

    /// A transfer of so much. `extra` is time that each byte takes elsewhere in between, in seconds, with the bus free.
    pub fn demand(&self, bytes: Bytes, lines: Lines, extra: f64) -> Demand {
        let leg = self.leg(lines);
        Demand::new(bytes.get() as f64, 1.0 / (leg.adapter + extra), self.class)
            .over(self.bus, leg.bus)
            .over(self.memory, leg.memory)
            .over(self.cache, self.cache_byte)
            .patience(self.patience)
    }

    /// Moves so much; gives how many time-outs it suffered.
    pub async fn move_bytes(&self, bytes: Bytes, lines: Lines) -> u64 {
        self.flows.start(self.demand(bytes, lines, 0.0)).await
    }

    /// The board reads or writes so many words of the shared registers, one bus cycle each.
    pub async fn words(&self, words: u64) {
        if words > 0 {
            let demand = Demand::new(words as f64, 1.0 / self.word, self.class)
                .over(self.bus, self.word)
                .patience(self.patience);
            self.flows.start(demand).await;
        }
    }
}
