//! A token ring: one frame at a time, whoever sends it.
//!
//! # Theory
//! Who wants to send waits for its turn, then for the token, and sends a frame of at most `packet` bytes of data:
//!
//! ```text
//!   time of a frame = token + (data + around) / rate
//!   token           = stations * station / 2       half a round: where the token is, is not known
//! ```
//!
//! Turns are in order of arrival, which is what a token that goes round among a few senders comes to. A ring that is
//! offered frames of several sizes at random is an M/G/1 queue.
//!
//! # Sources
//! IEEE 802.5 (frame, token, early release at 16 Mbit/s). K. D. Huynh and T. M. Khoshgoftaar 1994, Section 3.3 (16
//! Mbit/s, frames of 8 KB).
//!
//! # Rejected
//! Priorities of tokens and frames that are lost: no study at hand has any.

use std::cell::Cell;
use std::rc::Rc;

use runtime::Resource;
use units::{Bytes, Duration, Rate};

use super::{Line, Network, packet};
use crate::component::{Fast, Kind};

/// A token ring, on the adapter that is a station of it.
pub const KIND: Kind = Kind {
    name: "token-ring",
    on: &["network-adapter"],
    fast: &[Fast { limit: "token ring", values: &["rate", "station"] }],
    build: |site| {
        let (rate, packet, around, station) = site.parameters(|reader| {
            Ok((reader.rate("rate")?, packet(reader)?, reader.get("around")?, reader.get("station")?))
        })?;
        let (runtime, part, adapter) = (site.runtime.clone(), site.trace.part(site.name), site.on());
        let (turn, stations) = (Resource::new(site.runtime, 1), Cell::new(1));
        let line = Line::Ring(Ring { turn, rate, around, station, stations });
        Ok(Rc::new(Network { runtime, part, adapter, packet, line }))
    },
};

/// A ring.
pub(super) struct Ring {
    pub turn: Resource,
    rate: Rate,
    around: Bytes,
    station: Duration,
    stations: Cell<u32>,
}

impl Ring {
    /// More stations on it.
    pub fn join(&self, stations: u32) {
        self.stations.set(self.stations.get() + stations);
    }

    /// For how long a frame with so much data keeps the ring from others, the wait for the token included.
    pub fn time(&self, data: Bytes) -> Duration {
        self.station * u64::from(self.stations.get()) / 2 + self.rate.time_for(data + self.around)
    }

    pub fn busy(&self) -> Duration {
        self.turn.busy()
    }
}
