//! Serial Attached SCSI: a host bus adapter, and expanders behind wide ports. And the parallel SCSI bus of an adapter
//! that takes commands as they do.
//!
//! # Theory
//! A *wide port* is several lanes between the same two ends. A connection between adapter and drive uses one lane of
//! each link on its way, so no drive gets more than a lane's rate, while all drives together get the lanes' sum. As a
//! fluid: a byte takes
//! `1 / (lanes * rate)` of the wide port, and `1 / rate` of the drive's own lane.
//!
//! Of 12 Gbit/s, 8 of 10 bits carry data. A frame has up to 1024 bytes of data behind a header of 24, with a checksum
//! of 4 and a word to begin and one to end it: an efficiency of 1024 / 1060. Opening a connection takes time at each
//! expander, which is a part of its latency.
//!
//! The adapter is a device on PCI Express, with a processor that takes each command in and completes it, and only so
//! many commands at a time.
//!
//! A *parallel bus* in place of the lanes is one link for all drives, at its rate and with one direction at a time,
//! without frames. What a bus does phase by phase is [`crate::scsi`]; this is for adapters of which only the rates are
//! known.
//!
//! # Sources
//! Fujitsu C141-C013, "SAS Interface", Tables 1.32 and 1.33 (frames of up to 1024 bytes, their header and checksum);
//! the same document for connections.

use std::rc::Rc;
use std::sync::Arc;

use record::PartName;
use runtime::{Resource, Runtime};
use units::{Duration, Rate};

use super::pcie::Uplink;
use super::route::{Leg, Route, Wires};
use crate::component::{Component, Fast, Kind, Places, Site};
use crate::flow::Flows;
use crate::load::{Gauges, Reading};
use crate::part::{PartError, Problem, Reader};
use crate::trace::Ledger;

/// Data in a frame, and what is around it.
const FRAME: f64 = 1024.0;
const AROUND: f64 = 24.0 + 4.0 + 2.0 * 4.0;

/// The adapter.
pub const HBA: Kind = Kind {
    name: "sas-hba",
    on: &["pcie-root", "pcie-switch"],
    fast: &[
        Fast { limit: "host bus adapters", values: &["command", "completion", "link.lanes", "link.latency"] },
        Fast { limit: "SAS lanes", values: &["lane"] },
    ],
    build,
};

/// An adapter for a parallel SCSI bus, on the bus of the host.
pub const SCSI: Kind = Kind {
    name: "scsi-adapter",
    on: &["backplane"],
    fast: &[Fast { limit: "host bus adapters", values: &["command", "completion", "link.rate", "bus"] }],
    build,
};

fn build(site: &Site) -> Result<Rc<dyn Component>, PartError> {
    let parameters = site.parameters(HbaParameters::read)?;
    let leg = parameters.link.leg(site.flows);
    let wires = Wires::new(site.flows, leg.clone(), site.trace.part(site.name));
    let route = site.board_route(parameters.link, leg)?;
    let (processor, runtime) = (Resource::new(site.runtime, 1), site.runtime.clone());
    let board = Board {
        command: parameters.command,
        completion: parameters.completion,
        register_word: site.register_word(),
        runtime,
        part: wires.part,
        processor,
        queue: Resource::new(site.runtime, parameters.queue),
    };
    let port = Port::new(route, parameters.drives, site.flows, board).ok_or_else(|| site.too_far())?;
    Ok(Rc::new(Hba { wires, ports: parameters.ports, port }))
}

/// An expander.
pub const EXPANDER: Kind = Kind {
    name: "sas-expander",
    on: &["sas-hba", "sas-expander", "raid-controller"],
    fast: &[Fast { limit: "SAS wide ports", values: &["lanes", "lane", "latency"] }],
    build: |site| {
        let parameters = site.parameters(ExpanderParameters::read)?;
        let above = site.sas_port();
        let lane = parameters.lane.get().min(above.lane.get());
        let cost = byte_time(lane * parameters.lanes);
        let leg = Leg {
            up: (site.flows.link(), cost),
            down: (site.flows.link(), cost),
            ask: 0.0,
            answer: 0.0,
            latency: parameters.latency,
        };
        let wires = Wires::new(site.flows, leg.clone(), site.trace.part(site.name));
        let route = above.route.beyond(leg).ok_or_else(|| site.too_far())?;
        let lane = Rate::bytes_per_second(lane);
        let (latency, board) = (above.latency + parameters.latency, Rc::clone(&above.board));
        let port = Port { route, lane, latency, board, ..above.clone() };
        Ok(Rc::new(Expander { wires, port, ports: parameters.ports }))
    },
};

/// Seconds of a byte of data on lanes of that rate together.
fn byte_time(rate: f64) -> f64 {
    (FRAME + AROUND) / FRAME / rate
}

/// What a drive is plugged into.
#[derive(Clone)]
pub struct Port {
    /// From there to memory.
    pub route: Route,
    /// Of one lane, in data and frames, after 8b/10b; or of the bus.
    pub lane: Rate,
    /// Bytes that it carries for a byte of data.
    pub around: f64,
    /// Of all expanders on the way.
    pub latency: Duration,
    /// The adapter.
    pub board: Rc<Board>,
    /// What synchronizes the spindles of the drives, if something does: its name decides on their speed.
    pub spindles: Option<Arc<str>>,
}

impl Port {
    /// Of an adapter; nothing if a way of so many legs cannot be computed.
    pub fn new(route: Route, drives: Drives, flows: &Flows, board: Board) -> Option<Port> {
        let (latency, board) = (Duration::ZERO, Rc::new(board));
        match drives {
            Drives::Lanes(lane) => {
                Some(Port { route, lane, around: (FRAME + AROUND) / FRAME, latency, board, spindles: None })
            }
            Drives::Bus(lane) => {
                let bus = (flows.link(), 1.0 / lane.get());
                let route = route.beyond(Leg { up: bus, down: bus, ask: 0.0, answer: 0.0, latency })?;
                Some(Port { route, lane, around: 1.0, latency, board, spindles: None })
            }
        }
    }

    /// The leg of a drive's own lane; `most` is what the drive's interface does.
    pub fn leg(&self, flows: &Flows, most: Option<Rate>) -> Leg {
        let lane = self.around / self.lane.get();
        let cost = most.map_or(lane, |most| lane.max(1.0 / most.get()));
        Leg { up: (flows.link(), cost), down: (flows.link(), cost), ask: 0.0, answer: 0.0, latency: Duration::ZERO }
    }
}

/// The adapter's processor and queue.
pub struct Board {
    /// Its processor takes a command in.
    pub command: Duration,
    /// Its processor completes one.
    pub completion: Duration,
    /// The host's processor writes a word to its registers.
    pub register_word: Duration,
    /// The machine's clock.
    pub runtime: Runtime,
    /// Its number in spans.
    pub part: PartName,
    /// One processor.
    pub processor: Resource,
    /// Commands that it has at a time.
    pub queue: Resource,
}

impl Board {
    /// Takes a command in; what it gives back is the command's place in the adapter.
    pub async fn take(&self, ledger: &mut Ledger) -> runtime::Grant {
        let place = self.queue.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "queue");
        self.think(self.command).await;
        ledger.until(self.runtime.now(), self.part, "command");
        place
    }

    /// Completes a command.
    pub async fn complete(&self, ledger: &mut Ledger) {
        self.think(self.completion).await;
        ledger.until(self.runtime.now(), self.part, "completion");
    }

    /// Its processor works for so long.
    pub async fn think(&self, time: Duration) {
        let _turn = self.processor.acquire(0).await;
        self.runtime.sleep(time).await;
    }
}

/// The adapter in its node.
pub struct Hba {
    wires: Wires,
    ports: u32,
    /// What is plugged in directly is plugged in here.
    pub port: Port,
}

impl Component for Hba {
    fn gauges(&self, gauges: &mut Gauges) {
        let (up, down) = self.wires.busy();
        gauges.put("processor", Reading::Busy(self.port.board.processor.busy()));
        gauges.put("up", Reading::Busy(up));
        gauges.put("down", Reading::Busy(down));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.wires.rate())
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "port", count: self.ports, taken: None })
    }
    fn port(&self) -> Option<&Port> {
        Some(&self.port)
    }
}

/// An expander in its node.
pub struct Expander {
    wires: Wires,
    /// What is plugged into it.
    pub port: Port,
    ports: u32,
}

impl Component for Expander {
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
    fn port(&self) -> Option<&Port> {
        Some(&self.port)
    }
}

/// What leads from an adapter to its drives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drives {
    /// A lane each, of this rate after 8b/10b.
    Lanes(Rate),
    /// One parallel bus of this rate for all.
    Bus(Rate),
}

/// What distinguishes one adapter from another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HbaParameters {
    /// Its way up.
    pub link: Uplink,
    /// Its way to the drives.
    pub drives: Drives,
    /// Wide ports and drives that can be plugged in.
    pub ports: u32,
    /// Commands that it has at a time.
    pub queue: u32,
    /// Its processor takes a command in.
    pub command: Duration,
    /// Its processor completes one.
    pub completion: Duration,
}

impl HbaParameters {
    /// Reads a part of kind `sas-hba` or `scsi-adapter`.
    pub fn read(reader: &Reader) -> Result<HbaParameters, PartError> {
        let link = reader.table("link")?;
        let parameters = HbaParameters {
            link: Uplink::read(&link)?,
            drives: match reader.find::<Rate>("bus")? {
                Some(_) => Drives::Bus(reader.rate("bus")?),
                None => Drives::Lanes(reader.rate("lane")?),
            },
            ports: reader.count("ports", 1024)?,
            queue: reader.count("queue", 1 << 20)?,
            command: reader.get("command")?,
            completion: reader.get("completion")?,
        };
        link.done()?;
        Ok(parameters)
    }
}

/// What distinguishes one expander from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ExpanderParameters {
    /// Lanes of its wide port towards the adapter.
    lanes: f64,
    /// Of one lane, after 8b/10b.
    lane: Rate,
    /// Drives and expanders that can be plugged in.
    ports: u32,
    /// To open a connection, and through it.
    latency: Duration,
}

impl ExpanderParameters {
    fn read(reader: &Reader) -> Result<ExpanderParameters, PartError> {
        let lanes: f64 = reader.get("lanes")?;
        if !(1.0..=1e6).contains(&lanes) {
            return Err(
                reader.fault("lanes", Problem::OutOfRange { accepted: "1 lane at least, usually 4 or 8".into() })
            );
        }
        let (lane, ports) = (reader.rate("lane")?, reader.count("ports", 1024)?);
        Ok(ExpanderParameters { lanes, lane, ports, latency: reader.get("latency")? })
    }
}
