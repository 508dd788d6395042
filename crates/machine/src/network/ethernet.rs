//! A switched Ethernet: each port carries both directions at once, and nobody else's packets.
//!
//! # Theory
//! An adapter hands over packets of up to `packet` bytes, which it cuts into frames of `frame` bytes of data itself
//! (segmentation offload). On the wire each frame has `around` bytes more:
//!
//! ```text
//!   time of a packet = (data + frames * around) / rate         frames = data / frame, rounded up, at least one
//! ```
//!
//! A direction with `ports` ports is a queue with as many servers: the next packet takes the first port that is free.
//! `latency` is what switch, cables and the client's own adapter add; packets overlap in it.
//!
//! # Sources
//! IEEE 802.3 (preamble of 8 bytes, header of 14, check of 4, gap of 12). IETF RFC 791 and 9293 (headers of 20 each).
//!
//! # Rejected
//! Collisions, loss and retransmission: a switched network that is not overloaded has none. A port chosen by a hash of
//! the connection, as link aggregation does it: with many clients the ports are loaded alike, with few this model is
//! too kind.

use std::rc::Rc;

use runtime::Resource;
use units::{Bytes, Duration, Rate};

use super::{Direction, Line, Network, packet};
use crate::component::{Fast, Kind};
use crate::part::Problem;

/// An Ethernet, on the adapter that has ports of it.
pub const KIND: Kind = Kind {
    name: "ethernet",
    on: &["network-adapter"],
    fast: &[Fast { limit: "Ethernet", values: &["rate", "latency"] }],
    build: |site| {
        let (packet, ports, rate, frame, around, latency) = site.parameters(|reader| {
            let frame: Bytes = reader.get("frame")?;
            if frame.is_zero() {
                let accepted = "at least one byte: the data of a frame".into();
                return Err(reader.fault("frame", Problem::OutOfRange { accepted }));
            }
            let ports = reader.count("ports", 64)?;
            let rest = (reader.get("around")?, reader.get("latency")?);
            Ok((packet(reader)?, ports, reader.rate("rate")?, frame, rest.0, rest.1))
        })?;
        let (runtime, part, adapter) = (site.runtime.clone(), site.trace.part(site.name), site.on());
        let turn = || Resource::new(site.runtime, ports);
        let line = Line::Ethernet(Ethernet { turns: [turn(), turn()], rate, frame, around, latency });
        Ok(Rc::new(Network { runtime, part, adapter, packet, line }))
    },
};

/// An Ethernet.
pub(super) struct Ethernet {
    /// Of the two directions; as many places as ports.
    turns: [Resource; 2],
    rate: Rate,
    frame: Bytes,
    around: Bytes,
    pub latency: Duration,
}

impl Ethernet {
    pub fn turn(&self, direction: Direction) -> &Resource {
        &self.turns[direction as usize]
    }

    /// For how long a packet with so much data keeps a port from others.
    pub fn time(&self, data: Bytes) -> Duration {
        let frames = data.get().div_ceil(self.frame.get()).max(1);
        self.rate.time_for(data + self.around * frames)
    }

    /// Of the mean port.
    pub fn busy(&self, direction: Direction) -> Duration {
        let turn = self.turn(direction);
        turn.busy() / u64::from(turn.places())
    }
}
