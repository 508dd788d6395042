//! A network behind the machine: an adapter on the machine's bus, the network that it is a station of, and the clients
//! on that.
//!
//! The network is a token ring (`network/ring.rs`) or a switched Ethernet (`network/ethernet.rs`). What is larger than
//! a packet goes in several, each with a turn of its own.
//!
//! The adapter moves a packet between the network and memory over the bus, as a bus master; its processor takes a time
//! for each. It stores and forwards: a packet is whole in its memory before the next stretch begins.
//!
//! # Sources
//! K. D. Huynh and T. M. Khoshgoftaar 1994, Section 3.3. IBM SG24-4576, page 47 (the 16/4 bus master has a frame
//! buffer, and stores and forwards).

mod ethernet;
mod ring;

use std::rc::Rc;

use record::PartName;
use runtime::{Resource, Runtime};
use units::{Bytes, Duration};

use crate::component::{Component, Fast, Kind, Places};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::packet::pcie::Uplink;
use crate::packet::route::Route;
use crate::part::{PartError, Problem, Reader};
use crate::trace::Ledger;

use ethernet::Ethernet;
pub use ethernet::KIND as ETHERNET;
pub use ring::KIND as TOKEN_RING;
use ring::Ring;

/// An adapter for a network.
pub const ADAPTER: Kind = Kind {
    name: "network-adapter",
    on: &["backplane", "pcie-root", "pcie-switch"],
    fast: &[Fast { limit: "network adapters", values: &["packet", "link.rate", "link.lanes", "link.latency"] }],
    build: |site| {
        let (link, packet) = site.parameters(|reader| {
            let link = reader.table("link")?;
            let uplink = Uplink::read(&link)?;
            link.done()?;
            Ok((uplink, reader.get("packet")?))
        })?;
        let crosses = matches!(link, Uplink::Pcie(_));
        let route = site.board_route(link, link.leg(site.flows))?;
        let (runtime, part) = (site.runtime.clone(), site.trace.part(site.name));
        let (processor, register_word) = (Resource::new(site.runtime, 1), site.register_word());
        Ok(Rc::new(NetworkAdapter { runtime, part, route, crosses, processor, packet, register_word }))
    },
};

/// Who asks a file server for files, on its network.
pub const CLIENTS: Kind = Kind {
    name: "clients",
    on: &["token-ring", "ethernet"],
    fast: &[],
    build: |site| {
        let (machines, message) =
            site.parameters(|reader| Ok((reader.count("machines", 10_000)?, reader.get("message")?)))?;
        let network: Rc<Network> = site.on();
        if message > network.packet {
            return Err(
                site.fault("part", format!("their messages of {message} do not fit a packet of {}", network.packet))
            );
        }
        if let Line::Ring(ring) = &network.line {
            ring.join(machines);
        }
        Ok(Rc::new(Clients { network, message }))
    },
};

/// An adapter.
pub struct NetworkAdapter {
    runtime: Runtime,
    part: PartName,
    route: Route,
    /// What comes from another board crosses a link of its own, too; on a bus one tenure moves it from board to board.
    crosses: bool,
    processor: Resource,
    packet: Duration,
    /// The host's processor writes a word to its registers.
    pub register_word: Duration,
}

impl Component for NetworkAdapter {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("processor", Reading::Busy(self.processor.busy()));
        let (up, down) = self.route.last_leg_busy();
        if self.crosses {
            gauges.put("link up", Reading::Busy(up));
            gauges.put("link down", Reading::Busy(down));
        } else {
            gauges.put("link", Reading::Busy(up));
        }
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "port", count: 1, taken: None })
    }
}

impl NetworkAdapter {
    /// Its processor works on a frame.
    pub async fn think(&self, ledger: &mut Ledger) {
        let _turn = self.processor.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "queue");
        self.runtime.sleep(self.packet).await;
        ledger.until(self.runtime.now(), self.part, "packet");
    }

    /// Moves bytes between its memory and the host's (`up`: towards the host), or a pipe wherever it lies.
    pub async fn transfer(&self, bytes: Bytes, up: bool, lines: Lines, ledger: &mut Ledger) {
        self.route.transfer(bytes, up, lines).await;
        ledger.until(self.runtime.now(), self.part, "transfer");
    }

    /// Its own part of a transfer from or to another board, past memory. It follows the other board's part, where in
    /// truth both go on at once: too long by one crossing, 10 us of 64 KiB at 7 GB/s.
    pub async fn exchange(&self, bytes: Bytes, up: bool, ledger: &mut Ledger) {
        if self.crosses {
            self.transfer(bytes, up, Lines::Elsewhere, ledger).await;
        }
    }
}

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the machine.
    In,
    /// To a client.
    Out,
}

/// A network.
pub struct Network {
    runtime: Runtime,
    part: PartName,
    /// The machine's station.
    pub adapter: Rc<NetworkAdapter>,
    /// The most data of a packet.
    pub packet: Bytes,
    line: Line,
}

/// What carries the packets.
enum Line {
    Ring(Ring),
    Ethernet(Ethernet),
}

impl Component for Network {
    fn gauges(&self, gauges: &mut Gauges) {
        match &self.line {
            Line::Ring(ring) => gauges.put("", Reading::Busy(ring.busy())),
            Line::Ethernet(ethernet) => {
                gauges.put("in", Reading::Busy(ethernet.busy(Direction::In)));
                gauges.put("out", Reading::Busy(ethernet.busy(Direction::Out)));
            }
        }
    }
}

impl Network {
    /// For how long a packet with so much data keeps the network, or one port of it, from others.
    pub fn time(&self, data: Bytes) -> Duration {
        match &self.line {
            Line::Ring(ring) => ring.time(data),
            Line::Ethernet(ethernet) => ethernet.time(data),
        }
    }

    /// Sends a packet.
    ///
    /// # Panics
    /// If it is larger than a packet may be.
    pub async fn send(&self, data: Bytes, direction: Direction, ledger: &mut Ledger) {
        assert!(data <= self.packet, "what is larger than a packet goes in several");
        let (turn, latency) = match &self.line {
            Line::Ring(ring) => (&ring.turn, Duration::ZERO),
            Line::Ethernet(ethernet) => (ethernet.turn(direction), ethernet.latency),
        };
        let turn = turn.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "queue");
        self.runtime.sleep(self.time(data)).await;
        drop(turn);
        ledger.until(self.runtime.now(), self.part, "frame");
        if latency > Duration::ZERO {
            self.runtime.sleep(latency).await;
            ledger.until(self.runtime.now(), self.part, "latency");
        }
    }

    /// So much in packets.
    pub fn packets(&self, bytes: Bytes) -> impl Iterator<Item = Bytes> {
        let packet = self.packet;
        (0..bytes.get().div_ceil(packet.get())).map(move |index| packet.min(bytes - packet * index))
    }
}

/// The most data of a packet, as a part has it.
fn packet(reader: &Reader) -> Result<Bytes, PartError> {
    let packet: Bytes = reader.get("packet")?;
    if packet.is_zero() || !packet.is_multiple_of(Bytes::SECTOR) {
        let accepted = "whole 512-byte blocks, at least one: the most data of a packet".into();
        return Err(reader.fault("packet", Problem::OutOfRange { accepted }));
    }
    Ok(packet)
}

/// Clients.
pub struct Clients {
    /// Their network.
    pub network: Rc<Network>,
    /// A request or an answer without data.
    pub message: Bytes,
}

impl Component for Clients {
    fn needs(&self) -> Option<&'static str> {
        Some(crate::server::KIND.name)
    }
}
