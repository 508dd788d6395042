//! The bus between processors, memory and the boards that carry devices, and these boards: without priorities.
//!
//! # Theory
//! A split-transaction bus moves lines of memory for whoever asks, in turn. As a fluid, a byte takes `1 / rate` of it
//! in either direction. A board asks for its next line when it has the last, so what it moves is slowed by every other
//! transfer under way, also while the bus as a whole is far from full: each byte takes `wait` longer for each of them
//! ([`crate::flow::Law::wait`]). Which transfers share what is left of a full bus, its flows say: in equal parts of
//! what each could do alone.
//!
//! A board is a rate for all of its channels together.
//!
//! # Rejected
//! The backplane of the SCSI adapters ([`crate::backplane`]): its slots are priorities, and the last one starves first.
//! One line after the other: 16,000 events for a request of 2 MB, to the same rates.

use std::rc::Rc;

use units::{Duration, Rate};

use crate::component::{Component, Fast, Kind, Places, Site};
use crate::flow::Law;
use crate::load::{Gauges, Reading};
use crate::memory::Memory;
use crate::packet::route::{Leg, Route, Wires};
use crate::part::{PartError, Reader};

/// A bus for boards, on memory.
pub const KIND: Kind = Kind {
    name: "system-bus",
    on: &["memory"],
    fast: &[Fast { limit: "system bus", values: &["rate", "wait"] }],
    build: |site| {
        let parameters = site.parameters(SystemBusParameters::read)?;
        let memory = site.on::<Memory>();
        let route = Route::at(site.runtime, site.flows, &memory);
        let law = Law { wait: parameters.wait_of_a_byte(), loss: 0.0 };
        shared(site, route, law, parameters.rate, Places { key: "slot", count: parameters.slots, taken: None })
    },
};

/// A board for channels, on a system bus.
pub const BOARD: Kind = Kind {
    name: "io-board",
    on: &["system-bus"],
    fast: &[Fast { limit: "I/O boards", values: &["rate"] }],
    build: |site| {
        let (rate, count) = site.parameters(|reader| Ok((reader.rate("rate")?, reader.count("channels", 64)?)))?;
        let route = site.route().expect("a system bus is a way to memory").clone();
        shared(site, route, Law::default(), rate, Places { key: "channel", count, taken: None })
    },
};

/// What distinguishes one bus from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SystemBusParameters {
    /// What it moves for all together.
    rate: Rate,
    /// Boards that can be plugged in.
    slots: u32,
    /// What a line takes longer for each other transfer under way.
    wait: Duration,
    /// Bytes of a line.
    line: u32,
}

impl SystemBusParameters {
    fn read(reader: &Reader) -> Result<SystemBusParameters, PartError> {
        Ok(SystemBusParameters {
            rate: reader.rate("rate")?,
            slots: reader.count("slots", 64)?,
            wait: reader.get("wait")?,
            line: reader.count("line", 65_536)?,
        })
    }

    /// Seconds.
    fn wait_of_a_byte(&self) -> f64 {
        self.wait.as_seconds() / f64::from(self.line)
    }
}

/// One link for both directions, as a leg of the way to memory.
fn shared(site: &Site, route: Route, law: Law, rate: Rate, places: Places) -> Result<Rc<dyn Component>, PartError> {
    let half = (site.flows.link_with(law), 1.0 / rate.get());
    let leg = Leg { up: half, down: half, ask: 0.0, answer: 0.0, latency: Duration::ZERO };
    let wires = Wires::new(site.flows, leg.clone(), site.trace.part(site.name));
    let route = route.beyond(leg).ok_or_else(|| site.too_far())?;
    Ok(Rc::new(Shared { wires, route, places }))
}

/// A bus or a board in its node.
struct Shared {
    wires: Wires,
    route: Route,
    places: Places,
}

impl Component for Shared {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.wires.busy().0));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.wires.rate())
    }
    fn places(&self) -> Option<Places> {
        Some(self.places)
    }
    fn route(&self) -> Option<&Route> {
        Some(&self.route)
    }
}
