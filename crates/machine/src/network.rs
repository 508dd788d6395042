//! A network behind the machine: an adapter on the machine's bus, the token ring that it is a station of, and the
//! clients on that.
//!
//! # Theory
//! A token ring carries one frame at a time. Who wants to send waits for its turn, then for the token, and sends a
//! frame of at most `packet` bytes of data:
//!
//! ```text
//!   time of a frame = token + (data + around) / rate
//!   token           = stations * station / 2       half a round: where the token is, is not known
//! ```
//!
//! Turns are in order of arrival, which is what a token that goes round among a few senders comes to. A ring that is
//! offered frames of several sizes at random is an M/G/1 queue. What is larger than a frame goes in several, each with
//! a turn of its own.
//!
//! The adapter moves a frame between the ring and memory over the bus, as a bus master; its processor takes a time for
//! each. It stores and forwards: a frame is whole in its memory before the next stretch begins.
//!
//! # Sources
//! IEEE 802.5 (frame, token, early release at 16 Mbit/s). K. D. Huynh and T. M. Khoshgoftaar 1994, Section 3.3 (16
//! Mbit/s, frames of 8 KB). IBM SG24-4576, page 47 (the 16/4 bus master has a frame buffer, and stores and forwards).
//!
//! # Rejected
//! Priorities of tokens and frames that are lost: no study at hand has any.

use std::cell::Cell;
use std::rc::Rc;

use record::PartName;
use runtime::{Resource, Runtime};
use units::{Bytes, Duration, Rate};

use crate::component::{Component, Fast, Kind, Places};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::packet::pcie::Uplink;
use crate::packet::route::Route;
use crate::part::Problem;
use crate::trace::Ledger;

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
        let route = site.board_route(link, link.leg(site.flows))?;
        let (runtime, part) = (site.runtime.clone(), site.trace.part(site.name));
        let (processor, register_word) = (Resource::new(site.runtime, 1), site.register_word());
        Ok(Rc::new(NetworkAdapter { runtime, part, route, processor, packet, register_word }))
    },
};

/// A token ring, on the adapter that is a station of it.
pub const TOKEN_RING: Kind = Kind {
    name: "token-ring",
    on: &["network-adapter"],
    fast: &[Fast { limit: "token ring", values: &["rate", "station"] }],
    build: |site| {
        let (rate, packet, around, station) = site.parameters(|reader| {
            let packet: Bytes = reader.get("packet")?;
            if packet.is_zero() || !packet.is_multiple_of(Bytes::SECTOR) {
                let accepted = "whole 512-byte blocks, at least one: the most data of a frame".into();
                return Err(reader.fault("packet", Problem::OutOfRange { accepted }));
            }
            Ok((reader.rate("rate")?, packet, reader.get("around")?, reader.get("station")?))
        })?;
        let (runtime, part, adapter) = (site.runtime.clone(), site.trace.part(site.name), site.on());
        let (turn, stations) = (Resource::new(site.runtime, 1), Cell::new(1));
        Ok(Rc::new(TokenRing { runtime, part, adapter, turn, rate, packet, around, station, stations }))
    },
};

/// Who asks a file server for files, on its network.
pub const CLIENTS: Kind = Kind {
    name: "clients",
    on: &["token-ring"],
    fast: &[],
    build: |site| {
        let (machines, message) =
            site.parameters(|reader| Ok((reader.count("machines", 10_000)?, reader.get("message")?)))?;
        let ring: Rc<TokenRing> = site.on();
        if message > ring.packet {
            return Err(
                site.fault("part", format!("their messages of {message} do not fit a frame of {}", ring.packet))
            );
        }
        ring.stations.set(ring.stations.get() + machines);
        Ok(Rc::new(Clients { ring, message }))
    },
};

/// An adapter.
pub struct NetworkAdapter {
    runtime: Runtime,
    part: PartName,
    route: Route,
    processor: Resource,
    packet: Duration,
    /// The host's processor writes a word to its registers.
    pub register_word: Duration,
}

impl Component for NetworkAdapter {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("processor", Reading::Busy(self.processor.busy()));
        gauges.put("link", Reading::Busy(self.route.last_leg_busy().0));
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
}

/// A ring.
pub struct TokenRing {
    runtime: Runtime,
    part: PartName,
    /// The machine's station.
    pub adapter: Rc<NetworkAdapter>,
    turn: Resource,
    rate: Rate,
    /// The most data of a frame.
    pub packet: Bytes,
    around: Bytes,
    station: Duration,
    stations: Cell<u32>,
}

impl Component for TokenRing {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.turn.busy()));
    }
}

impl TokenRing {
    /// For how long a frame with so much data keeps the ring from others, the wait for the token included.
    pub fn frame(&self, data: Bytes) -> Duration {
        self.station * u64::from(self.stations.get()) / 2 + self.rate.time_for(data + self.around)
    }

    /// Sends a frame, whoever sends it.
    ///
    /// # Panics
    /// If it is larger than a frame may be.
    pub async fn send(&self, data: Bytes, ledger: &mut Ledger) {
        assert!(data <= self.packet, "what is larger than a frame goes in several");
        let turn = self.turn.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "queue");
        self.runtime.sleep(self.frame(data)).await;
        drop(turn);
        ledger.until(self.runtime.now(), self.part, "frame");
    }

    /// So much in frames.
    pub fn packets(&self, bytes: Bytes) -> impl Iterator<Item = Bytes> {
        let packet = self.packet;
        (0..bytes.get().div_ceil(packet.get())).map(move |index| packet.min(bytes - packet * index))
    }
}

/// Clients.
pub struct Clients {
    /// Their network.
    pub ring: Rc<TokenRing>,
    /// A request or an answer without data.
    pub message: Bytes,
}

impl Component for Clients {
    fn needs(&self) -> Option<&'static str> {
        Some(crate::server::KIND.name)
    }
}
