//! A controller of the Massbus kind (RH750, RH780 and what emulates them): the host positions a drive, then has it
//! moved data.
//!
//! # Theory
//! Positioning goes on at all drives at once and needs no controller ([`crate::endpoint::Positioned`]). Data of one
//! drive at a time pass through it, sector by sector, with one sector of buffer: a sector has to be in memory before
//! the next is complete. To move it the controller takes part in the arbitration of the system bus, whose delay is
//! exponential, and asks some time before the sector is complete (*arbitration lead*). If it gets the bus later than
//! its lead allows, the sector is overrun and passes again a turn later:
//!
//! ```text
//!   P(overrun) = exp(-lead / delay)      for each sector
//! ```
//!
//! A controller may buffer a track of each drive (*track buffer*, `crate::track_buffer`): then no sector that is read
//! is overrun, and a search for what is in the buffer ends at once.
//!
//! When the last sector has passed the controller needs a while to end the command (*completion*), and then interrupts.
//!
//! # Sources
//! Kridle and McKusick 1983, Sections 2.2, 2.3 and 5; the 4.2BSD driver hp.c 6.1.
//!
//! # Rejected
//! A second arbitration for sectors that are written, whose data memory has to return: writes would lose four times as
//! many turns as reads, where the study's second stage shows little difference. Each bus cycle as an event. An overrun
//! that depends on who else uses the bus, of which nothing is printed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::join;
use rand::RngExt;
use record::PartName;
use runtime::{Random, Resource, Runtime};
use units::{Bytes, Duration, Rate};

use crate::component::{Component, Fast, Kind, Places};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::packet::route::Route;
use crate::part::{PartError, Reader};
use crate::scsi::target::{BLOCK, Command};
use crate::trace::Ledger;
use crate::unbuffered::Medium;

/// Such a controller, on a system bus.
pub const KIND: Kind = Kind {
    name: "massbus-adapter",
    on: &["system-bus"],
    fast: &[Fast { limit: "disk controllers", values: &["start", "completion", "arbitration-delay"] }],
    build: |site| {
        let parameters = site.parameters(MassbusParameters::read)?;
        Ok(Rc::new(Massbus {
            runtime: site.runtime.clone(),
            part: site.trace.part(site.name),
            route: site.route().expect("a system bus is a way to memory").clone(),
            turn: Resource::new(site.runtime, 1),
            random: RefCell::new(Random::named(site.seed, &format!("{} arbitration", site.name))),
            overruns: Cell::default(),
            hits: Cell::default(),
            parameters,
        }))
    },
};

/// What distinguishes one controller from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MassbusParameters {
    /// Drives.
    drives: u32,
    /// From the order to move data until it can take the first sector.
    start: Duration,
    /// From the last sector until the interrupt.
    completion: Duration,
    /// How long before a sector is complete it asks for the bus, and the sector's room in its buffer.
    arbitration_lead: Duration,
    /// What the bus takes to be given, on average.
    arbitration_delay: Duration,
    /// It keeps the track that the heads of a drive are on.
    track_buffer: bool,
}

impl MassbusParameters {
    fn read(reader: &Reader) -> Result<MassbusParameters, PartError> {
        Ok(MassbusParameters {
            drives: reader.count("drives", 8)?,
            start: reader.get("start")?,
            completion: reader.get("completion")?,
            arbitration_lead: reader.get("arbitration-lead")?,
            arbitration_delay: reader.get("arbitration-delay")?,
            track_buffer: reader.find("track-buffer")?.unwrap_or(false),
        })
    }

    /// Of one sector.
    fn overrun(&self) -> f64 {
        match self.arbitration_delay.is_zero() {
            true => 0.0,
            false => (-self.arbitration_lead.as_seconds() / self.arbitration_delay.as_seconds()).exp(),
        }
    }
}

/// A controller in its node.
pub(crate) struct Massbus {
    parameters: MassbusParameters,
    runtime: Runtime,
    part: PartName,
    route: Route,
    /// One drive moves data at a time.
    turn: Resource,
    random: RefCell<Random>,
    overruns: Cell<u64>,
    /// Sectors that were in the buffer.
    hits: Cell<u64>,
}

impl Massbus {
    /// Moves the data of a command, from the moment in which the driver orders it until the interrupt.
    pub async fn transfer(&self, medium: &Medium, command: Command, lines: Lines, ledger: &mut Ledger) {
        let _turn = self.turn.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "queue");
        self.runtime.sleep(self.parameters.start).await;
        ledger.until(self.runtime.now(), self.part, "start");
        let (mut block, end) = (command.first, command.first + command.blocks);
        let (mut first, mut at) = (true, self.runtime.now());
        let buffers = self.parameters.track_buffer && !command.write;
        if self.parameters.track_buffer && command.write {
            medium.buffer.forget(block, end);
        }
        while block < end {
            let there = if buffers { medium.buffered(block, end - block, self.runtime.now()) } else { 0 };
            if there > 0 {
                self.route.transfer(BLOCK * there, true, lines).await;
                ledger.until(self.runtime.now(), self.part, "buffer");
                self.hits.set(self.hits.get() + there);
                (block, at, first) = (block + there, self.runtime.now(), false);
                continue;
            }
            let run = medium.run(at, block, command.write);
            medium.stand(&run);
            if first && run.rotation + medium.sector() * 8 > medium.period() {
                medium.lost.set(medium.lost.get() + 1);
            }
            first = false;
            if buffers {
                medium.buffer.fill(block, run.on_track());
            }
            self.runtime.sleep_until(run.begins).await;
            ledger.until(self.runtime.now(), medium.part, "rotation");
            let wanted = run.blocks.min(end - block);
            let wanted = if buffers { medium.missing(block, wanted, run.begins) } else { wanted };
            // The sector that is overrun passes, and counts as time under the heads.
            let passed = (0..wanted).find(|_| !buffers && self.overrun()).unwrap_or(wanted);
            let passes = run.passed((passed + 1).min(wanted));
            let under = passes.saturating_since(self.runtime.now());
            let moved = self.route.paced(BLOCK * passed, !command.write, lines, medium.rate());
            join(self.runtime.sleep(under), moved).await;
            medium.passing.set(medium.passing.get() + under);
            ledger.until(self.runtime.now(), medium.part, "transfer");
            if passed < wanted {
                self.overruns.set(self.overruns.get() + 1);
                medium.lost.set(medium.lost.get() + 1);
            }
            block += passed;
            // Its buffer takes a sector of the next track while the last one of this track goes to memory.
            let late = self.runtime.now().saturating_since(passes);
            at = if late < medium.sector() { passes } else { self.runtime.now() };
        }
        self.runtime.sleep(self.parameters.completion).await;
        ledger.until(self.runtime.now(), self.part, "completion");
    }

    /// From an order until it is begun.
    pub fn start(&self) -> Duration {
        self.parameters.start
    }

    /// Whether a block is in the buffer.
    pub fn has(&self, medium: &Medium, block: u64) -> bool {
        self.parameters.track_buffer && medium.buffered(block, 1, self.runtime.now()) == 1
    }

    /// A search has the heads on the track of a block: it is taken in.
    pub fn on_track(&self, medium: &Medium, block: u64) {
        if self.parameters.track_buffer {
            medium.buffer.fill(block, self.runtime.now());
        }
    }

    fn overrun(&self) -> bool {
        let chance = self.parameters.overrun();
        chance > 0.0 && self.random.borrow_mut().random_bool(chance)
    }
}

impl Component for Massbus {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.turn.busy()));
        gauges.put("overruns", Reading::Count(self.overruns.get()));
        if self.parameters.track_buffer {
            gauges.put("sectors from the buffer", Reading::Count(self.hits.get()));
        }
    }
    fn rate(&self) -> Option<Rate> {
        None
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "target", count: self.parameters.drives, taken: None })
    }
}

const _: () = assert!(BLOCK.get() == Bytes::SECTOR.get(), "a sector is a block");
