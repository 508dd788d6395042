//! PCI Express: the root complex and switches. A link belongs to the part at its lower end; a switch forwards behind
//! one.
//!
//! # Theory
//! A lane signals 2.5, 5, 8, 16 or 32 GT/s in generations 1 to 5, of which 8 of 10 bits carry data in the first two and
//! 128 of 130 in the others. A packet with data ("TLP") of up to `payload` bytes has a header of three or four double
//! words and two more for framing, sequence number and checksum: 20 bytes where it completes a read, 24 where it
//! writes. A device reads memory with requests of 24 bytes for `read-request` bytes each, which take the other
//! direction. Each packet is acknowledged and its credits given back, by packets of the link layer of 8 bytes each,
//! again in the other direction; how many packets one of them stands for is the part's `acknowledged-together`.
//!
//! ```text
//!   up (a drive's reads)      rate * payload / (payload + 24)
//!   down (a drive's writes)   rate * payload / (payload + 20)
//! ```
//!
//! `credits`, if given, bounds the bytes under way on a link: over its latency there and back.
//!
//! # Sources
//! Intel AN 829, "Understanding PCI Express throughput" (five to seven double words around the data; link-layer packets
//! of two); PLX PEX 8532 data book, Section 8.4.1 (an acknowledgement and a credit update for each packet at worst).
//! PCI Express Base Specification for signalling rates.

use std::rc::Rc;

use units::{Bytes, Duration, Rate};

use super::route::{Leg, Route, Wires};
use crate::component::{Component, Fast, Kind, Places, Site};
use crate::flow::Flows;
use crate::load::{Gauges, Reading};
use crate::memory::Memory;
use crate::part::{PartError, Problem, Reader};

/// Header, framing and checksum of a packet that writes, of one that completes a read, and of a request to read.
const WRITE: f64 = 24.0;
const COMPLETION: f64 = 20.0;
const REQUEST: f64 = 24.0;
/// An acknowledgement and an update of credits.
const ACKNOWLEDGEMENT: f64 = 16.0;

/// A root complex: ports on the fabric that leads to memory.
pub const ROOT: Kind = Kind {
    name: "pcie-root",
    on: &["memory"],
    fast: &[Fast { limit: "PCIe root complex", values: &["fabric", "latency"] }],
    build: |site| {
        let (fabric, latency, ports) = site
            .parameters(|reader| Ok((reader.rate("fabric")?, reader.get("latency")?, reader.count("ports", PORTS)?)))?;
        let cost = 1.0 / fabric.get();
        let (up, down) = ((site.flows.link(), cost), (site.flows.link(), cost));
        let leg = Leg { up, down, ask: 0.0, answer: 0.0, latency };
        build(site, Route::at(site.runtime, site.flows, &site.on::<Memory>()), leg, ports)
    },
};

/// A switch: ports behind an uplink.
pub const SWITCH: Kind = Kind {
    name: "pcie-switch",
    on: &["pcie-root", "pcie-switch"],
    fast: &[Fast { limit: "PCIe switches", values: &["lanes", "latency"] }],
    build: |site| {
        let (link, ports) =
            site.parameters(|reader| Ok((LinkParameters::read(reader)?, reader.count("ports", PORTS)?)))?;
        let above = site.route().expect("it stands on what carries packets").clone();
        build(site, above, link.leg(site.flows), ports)
    },
};

fn build(site: &Site, above: Route, leg: Leg, ports: u32) -> Result<Rc<dyn Component>, PartError> {
    let wires = Wires::new(site.flows, leg.clone(), site.trace.part(site.name));
    let route = above.beyond(leg).ok_or_else(|| site.too_far())?;
    Ok(Rc::new(Pcie { wires, route, ports }))
}

/// The most things that can stand on one.
const PORTS: u32 = 256;

/// A root complex or switch: what leads from it towards memory, and the ports on it.
pub struct Pcie {
    wires: Wires,
    route: Route,
    ports: u32,
}

impl Component for Pcie {
    fn gauges(&self, gauges: &mut Gauges) {
        let (up, down) = self.wires.busy();
        gauges.put("up", Reading::Busy(up));
        gauges.put("down", Reading::Busy(down));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.wires.rate())
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "port", count: self.ports, taken: None })
    }
    fn route(&self) -> Option<&Route> {
        Some(&self.route)
    }
}

/// A link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkParameters {
    /// 1 to 5.
    pub generation: u32,
    /// Lanes. Not whole where a ladder asks what twice as many would bring.
    pub lanes: f64,
    /// The most data in a packet.
    pub payload: Bytes,
    /// The most data that one request of a device asks for.
    pub read_request: Bytes,
    /// Packets that one acknowledgement and one update of credits stand for.
    pub acknowledged_together: u32,
    /// Bytes under way at most, if that bounds it.
    pub credits: Option<Bytes>,
    /// From one end to the other and through the part at the upper end.
    pub latency: Duration,
}

impl LinkParameters {
    /// Reads the values of a link.
    pub fn read(reader: &Reader) -> Result<LinkParameters, PartError> {
        let out_of_range =
            |key: &str, accepted: &str| reader.fault(key, Problem::OutOfRange { accepted: accepted.to_owned() });
        let generation: u32 = reader.get("generation")?;
        if !(1..=5).contains(&generation) {
            return Err(out_of_range("generation", "1 to 5; generation 6 has no packets of this kind"));
        }
        let lanes: f64 = reader.get("lanes")?;
        if !(1.0..=1e6).contains(&lanes) {
            return Err(out_of_range("lanes", "1 lane at least, usually 1, 2, 4, 8 or 16"));
        }
        let size = |key: &'static str| -> Result<Bytes, PartError> {
            let size: Bytes = reader.get(key)?;
            match (64..=4096).contains(&size.get()) {
                true => Ok(size),
                false => Err(out_of_range(key, "64 B to 4 KiB")),
            }
        };
        let acknowledged_together = reader.get("acknowledged-together")?;
        if acknowledged_together == 0 {
            return Err(out_of_range("acknowledged-together", "1 packet at least"));
        }
        let credits: Option<Bytes> = reader.find("credits")?;
        if credits.is_some_and(Bytes::is_zero) {
            return Err(out_of_range("credits", "a size above zero"));
        }
        Ok(LinkParameters {
            generation,
            lanes,
            payload: size("payload")?,
            read_request: size("read-request")?,
            acknowledged_together,
            credits,
            latency: reader.get("latency")?,
        })
    }

    /// Bytes a second of everything that crosses it, headers included.
    pub fn raw(&self) -> f64 {
        let lane = match self.generation {
            1 => 2.5e9 * 8.0 / 10.0,
            2 => 5e9 * 8.0 / 10.0,
            3 => 8e9 * 128.0 / 130.0,
            4 => 16e9 * 128.0 / 130.0,
            _ => 32e9 * 128.0 / 130.0,
        };
        self.lanes * lane / 8.0
    }

    /// What a byte of data takes of the link, in seconds: up, down.
    pub fn costs(&self) -> (f64, f64) {
        let payload = self.payload.get() as f64;
        let of = |header: f64| {
            let bound = self.credits.map_or(0.0, |credits| 2.0 * self.latency.as_seconds() / credits.get() as f64);
            ((payload + header) / payload / self.raw()).max(bound)
        };
        (of(WRITE), of(COMPLETION))
    }

    /// It as a leg of a way, idle.
    pub fn leg(&self, flows: &Flows) -> Leg {
        let (up, down) = self.costs();
        let acknowledged = self.payload.get() as f64 * f64::from(self.acknowledged_together);
        let answer = ACKNOWLEDGEMENT / acknowledged / self.raw();
        let ask = REQUEST / self.read_request.get() as f64 / self.raw() + answer;
        Leg { up: (flows.link(), up), down: (flows.link(), down), ask, answer, latency: self.latency }
    }
}

/// What leads from a board to what it stands on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Uplink {
    /// A link of its own.
    Pcie(LinkParameters),
    /// A bus that others use as well, over which it moves data at this rate at most.
    Master(Rate),
}

impl Uplink {
    /// Reads `[link]`: `rate` of a bus master, otherwise the values of a PCI Express link.
    pub fn read(reader: &Reader) -> Result<Uplink, PartError> {
        match reader.find::<Rate>("rate")? {
            Some(_) => Ok(Uplink::Master(reader.rate("rate")?)),
            None => Ok(Uplink::Pcie(LinkParameters::read(reader)?)),
        }
    }

    /// It as a leg of a way, idle. A bus master moves data in one direction at a time.
    pub fn leg(&self, flows: &Flows) -> Leg {
        match self {
            Uplink::Pcie(link) => link.leg(flows),
            Uplink::Master(rate) => {
                let dma = (flows.link(), 1.0 / rate.get());
                Leg { up: dma, down: dma, ask: 0.0, answer: 0.0, latency: Duration::ZERO }
            }
        }
    }
}

impl Site<'_> {
    /// The way of a board with that link to memory, its own leg included.
    pub(crate) fn board_route(&self, link: Uplink, leg: Leg) -> Result<Route, PartError> {
        match (self.route(), link, self.is_on("backplane")) {
            (None, ..) => Err(self.fault(
                "on",
                "what it stands on has slots with priorities; a board of this kind needs a bus with tenures (`tenure`)"
                    .to_owned(),
            )),
            (_, Uplink::Pcie(_), true) => {
                Err(self.fault("on", "its [link] is of PCI Express; on a bus it needs `rate`".to_owned()))
            }
            (_, Uplink::Master(_), false) => Err(self.fault(
                "on",
                "its [link] is that of a bus master; here it needs `generation`, `lanes` and so on".to_owned(),
            )),
            (Some(above), ..) => above.beyond(leg).ok_or_else(|| self.too_far()),
        }
    }

    /// Refuses what is too far from memory.
    pub(crate) fn too_far(&self) -> PartError {
        self.fault("on", "it is more links away from memory than a way may have (7)".to_owned())
    }
}
