//! A controller with a processor, a queue and a buffer of its own (UDA50): the host asks for logical blocks.
//!
//! # Theory
//! Commands of all drives come into one queue. The controller's processor works on one at a time, for a time between
//! two; then the drive of the command is positioned and its data pass through the buffer, while other drives may do
//! the same. The next command of a drive is taken when the drive is free, in one of three orders:
//!
//! - *arrival*;
//! - *seek*: the cylinder that is nearest to the arm, and of one cylinder the command that came first;
//! - *position*: what the heads reach first.
//!
//! A read comes into the buffer as it passes the heads and goes over the bus as fast as the bus takes it. A write
//! starts when so much of it is in the buffer that the rest comes in time over a bus that nobody else uses. What is in
//! the buffer waits for a slow bus without the loss of a turn.
//!
//! The host knows nothing of cylinders, so it cannot have a read of the allocation map go before the writes that are
//! queued.
//!
//! # Sources
//! Kridle and McKusick 1983, Sections 2.1 and 6; the 4.2BSD driver uda.c 6.1 (eight commands at a time).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::join;
use rand::RngExt;
use record::PartName;
use runtime::{Random, Resource, Runtime, Signal};
use units::{Bytes, Duration};

use crate::component::{Component, Fast, Kind, Places};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::packet::route::Route;
use crate::part::{PartError, Problem, Reader};
use crate::scsi::target::{BLOCK, Command};
use crate::trace::Ledger;
use crate::unbuffered::Medium;

/// Such a controller, on an I/O bus or a system bus.
pub const KIND: Kind = Kind {
    name: "mscp-controller",
    on: &["io-board", "system-bus"],
    fast: &[Fast { limit: "disk controllers", values: &["command", "command-most", "completion"] }],
    build: |site| {
        let parameters = site.parameters(MscpParameters::read)?;
        Ok(Rc::new(Mscp {
            runtime: site.runtime.clone(),
            part: site.trace.part(site.name),
            route: site.route().expect("what it stands on is a way to memory").clone(),
            processor: Resource::new(site.runtime, 1),
            buffer: Cell::new(parameters.buffer),
            freed: Signal::default(),
            waiting: RefCell::default(),
            arrived: Cell::default(),
            random: RefCell::new(Random::named(site.seed, &format!("{} processor", site.name))),
            parameters,
        }))
    },
};

/// Which command of a drive comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Arrival,
    Seek,
    Position,
}

/// What distinguishes one controller from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MscpParameters {
    drives: u32,
    /// Commands that it has at a time.
    commands: u32,
    /// What its processor takes for one, least and most.
    command: (Duration, Duration),
    /// From the last of the data until the interrupt.
    completion: Duration,
    /// Sectors of buffer.
    buffer: u64,
    order: Order,
}

impl MscpParameters {
    fn read(reader: &Reader) -> Result<MscpParameters, PartError> {
        let least: Duration = reader.get("command")?;
        let most = reader.find("command-most")?.unwrap_or(least);
        if most < least {
            let accepted = format!("at least {least}, the shortest (command)");
            return Err(reader.fault("command-most", Problem::OutOfRange { accepted }));
        }
        Ok(MscpParameters {
            drives: reader.count("drives", 256)?,
            commands: reader.count("commands", 4096)?,
            command: (least, most),
            completion: reader.get("completion")?,
            buffer: u64::from(reader.count("buffer-sectors", 1 << 20)?),
            order: reader.choose(
                "order",
                &[("arrival", Order::Arrival), ("seek", Order::Seek), ("position", Order::Position)],
            )?,
        })
    }
}

/// A controller in its node.
pub(crate) struct Mscp {
    parameters: MscpParameters,
    runtime: Runtime,
    part: PartName,
    route: Route,
    processor: Resource,
    /// Sectors of buffer that are free.
    buffer: Cell<u64>,
    freed: Signal,
    /// Commands that wait for their drive: which drive, their number in the order of arrival, the command.
    waiting: RefCell<Vec<(Rc<Medium>, u64, Command)>>,
    arrived: Cell<u64>,
    random: RefCell<Random>,
}

impl Mscp {
    /// Commands that it takes.
    pub fn commands(&self) -> u32 {
        self.parameters.commands
    }

    /// Carries out a command of a drive, up to the interrupt.
    pub async fn carry_out(&self, medium: &Rc<Medium>, command: Command, lines: Lines, ledger: &mut Ledger) {
        let number = self.arrived.get();
        self.arrived.set(number + 1);
        self.waiting.borrow_mut().push((Rc::clone(medium), number, command));
        self.freed.wait_until(|| !medium.taken.get() && self.next(medium) == Some(number)).await;
        medium.taken.set(true);
        self.waiting.borrow_mut().retain(|(_, waiting, _)| *waiting != number);
        ledger.until(self.runtime.now(), self.part, "queue");
        {
            let _processor = self.processor.acquire(0).await;
            let (least, most) = self.parameters.command;
            let thinks = self.random.borrow_mut().random_range(least.as_nanos()..=most.as_nanos());
            self.runtime.sleep(Duration::nanos(thinks)).await;
        }
        ledger.until(self.runtime.now(), self.part, "command");
        for piece in command.pieces(BLOCK * self.parameters.buffer) {
            self.freed.wait_until(|| self.buffer.get() >= piece.blocks).await;
            self.buffer.set(self.buffer.get() - piece.blocks);
            ledger.until(self.runtime.now(), self.part, "buffer");
            if command.write {
                // The rest comes while the first of it passes.
                let ahead = self.ahead(medium, piece, lines);
                self.route.transfer(ahead, false, lines).await;
                ledger.until(self.runtime.now(), self.part, "bus");
                let bus = self.route.transfer(piece.bytes() - ahead, false, lines);
                join(self.pass(medium, piece, ledger), bus).await;
                ledger.until(self.runtime.now(), self.part, "bus");
            } else {
                // The bus takes what has come in, at its pace or the medium's.
                let begins = medium.run(self.runtime.now(), piece.first, false).begins;
                let bus = async {
                    self.runtime.sleep_until(begins + medium.sector()).await;
                    self.route.paced(piece.bytes(), true, lines, medium.rate()).await;
                };
                join(self.pass(medium, piece, ledger), bus).await;
                ledger.until(self.runtime.now(), self.part, "bus");
            }
            self.buffer.set(self.buffer.get() + piece.blocks);
            self.freed.notify();
        }
        medium.taken.set(false);
        self.freed.notify();
        self.runtime.sleep(self.parameters.completion).await;
        ledger.until(self.runtime.now(), self.part, "completion");
    }

    /// How much of a write has to be in the buffer, so that the rest comes over the bus at the pace of the heads.
    fn ahead(&self, medium: &Medium, piece: Command, lines: Lines) -> Bytes {
        let behind = (1.0 - self.route.rate(false, lines) / medium.rate().get()).max(0.0);
        let whole = piece.bytes();
        (Bytes::new((whole.get() as f64 * behind) as u64).round_up(BLOCK) + BLOCK).min(whole)
    }

    /// The number of the command that a drive takes next.
    fn next(&self, medium: &Rc<Medium>) -> Option<u64> {
        let waiting = self.waiting.borrow();
        let own = waiting.iter().filter(|(drive, ..)| Rc::ptr_eq(drive, medium));
        match self.parameters.order {
            Order::Arrival => own.map(|(_, number, _)| *number).min(),
            Order::Seek => own
                .map(|(_, number, command)| (medium.distance(command.first), *number))
                .min()
                .map(|(_, number)| number),
            Order::Position => {
                let at = self.runtime.now() + self.parameters.command.1;
                let begins = |command: &Command| medium.run(at, command.first, command.write).begins;
                own.min_by_key(|(_, number, command)| (begins(command), *number)).map(|(_, number, _)| *number)
            }
        }
    }

    /// A piece passes under the heads.
    async fn pass(&self, medium: &Medium, piece: Command, ledger: &mut Ledger) {
        let (mut block, end) = (piece.first, piece.first + piece.blocks);
        while block < end {
            let run = medium.run(self.runtime.now(), block, piece.write);
            medium.stand(&run);
            if block == piece.first && run.rotation + medium.sector() * 16 > medium.period() {
                medium.lost.set(medium.lost.get() + 1);
            }
            self.runtime.sleep_until(run.on_track()).await;
            ledger.until(self.runtime.now(), medium.part, "seek");
            self.runtime.sleep_until(run.begins).await;
            ledger.until(self.runtime.now(), medium.part, "rotation");
            let blocks = run.blocks.min(end - block);
            let under = run.passed(blocks).since(run.begins);
            self.runtime.sleep_until(run.passed(blocks)).await;
            medium.passing.set(medium.passing.get() + under);
            ledger.until(self.runtime.now(), medium.part, "transfer");
            block += blocks;
        }
    }
}

impl Component for Mscp {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.processor.busy()));
    }
    fn places(&self) -> Option<Places> {
        Some(Places { key: "target", count: self.parameters.drives, taken: None })
    }
}
