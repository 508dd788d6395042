//! The driver of disks under a file system: a queue for each drive, and what it does to have a request carried out.
//!
//! # Queues
//! - *cylinders*: two lists on one chain, this sweep of the arm and the next, in the order of cylinders; requests of
//!   one cylinder in the order of arrival (`disksort`);
//! - *reads first*: two such chains, and that of writes waits while that of reads has something, as Kridle and McKusick
//!   describe 4.2BSD; its sources have one chain;
//! - *arrival*: as they come, up to `outstanding` of them at the controller.
//!
//! # Positioning
//! A drive of a Massbus is positioned first ([`Positioned`]): a search for the sector `search-lead` before the one
//! that is wanted, an interrupt, and then the order to move data. If the interrupt and the order take longer than
//! these sectors, the wanted one has passed, and comes again a turn later. On the cylinder where the arm is, the
//! search is left out (`skip`)
//!
//! - *end-of-track*: when the sector that passes is one of the last `search-window` of its track. That test does not
//!   look at the sector that is wanted: a fault of the driver of 1983;
//! - *in-time*: when the wanted sector is `skip-least` to `skip-most` sectors ahead, as from October 1987 on;
//! - *reversed*: when it is not: from March 1984 until then, so in 4.3BSD, the test was the wrong way round.
//!
//! # Sources
//! ufs_disksubr.c, hp.c and uda.c of 4.2BSD (6.1, July 1983); hp.c 6.3 and 7.6; Kridle and McKusick 1983, Sections 5
//! and 6.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use runtime::{Resource, Runtime, Signal};
use units::{Bytes, Duration};

use crate::component::{Component, Kind};
use crate::cpu::Level;
use crate::endpoint::{Endpoint, Positioned, Tracks};
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::os::Os;
use crate::part::{PartError, Problem, Reader};
use crate::scsi::target::{BLOCK, Command};
use crate::trace::Trace;

/// A driver, on the operating system that it is a part of.
pub const KIND: Kind = Kind {
    name: "disk-driver",
    on: &["operating-system"],
    fast: &[],
    build: |site| {
        let parameters = site.parameters(DriverParameters::read)?;
        Ok(Rc::new(Driver {
            runtime: site.runtime.clone(),
            trace: site.trace.clone(),
            os: site.on(),
            slots: Resource::new(site.runtime, parameters.outstanding),
            busy: Cell::default(),
            searches: Cell::default(),
            interrupts: Cell::default(),
            parameters,
        }))
    },
};

/// In which order requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discipline {
    Cylinders,
    ReadsFirst,
    Arrival,
}

/// When the search before a transfer is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skip {
    EndOfTrack { window: u64 },
    InTime { least: u64, most: u64 },
    Reversed { least: u64, most: u64 },
}

/// What distinguishes one driver from another. Steps are in instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DriverParameters {
    queue: Discipline,
    /// Requests at a controller that keeps a queue.
    outstanding: u32,
    /// Sectors.
    search_lead: u64,
    skip: Skip,
    /// To put a request on the queue.
    strategy: u64,
    /// To send it.
    start: u64,
    /// When a search has ended.
    search_interrupt: u64,
    /// When a request is complete.
    completion: u64,
}

impl DriverParameters {
    fn read(reader: &Reader) -> Result<DriverParameters, PartError> {
        let queues = [
            ("cylinders", Discipline::Cylinders),
            ("reads-first", Discipline::ReadsFirst),
            ("arrival", Discipline::Arrival),
        ];
        let steps = reader.table("instructions")?;
        let window = reader.find("search-window")?.unwrap_or(0);
        let (least, most) = (reader.find("skip-least")?.unwrap_or(0), reader.find("skip-most")?.unwrap_or(0));
        if least > most {
            let accepted = format!("at least {least} sectors, the least (skip-least)");
            return Err(reader.fault("skip-most", Problem::OutOfRange { accepted }));
        }
        let skips = [
            ("end-of-track", Skip::EndOfTrack { window }),
            ("in-time", Skip::InTime { least, most }),
            ("reversed", Skip::Reversed { least, most }),
        ];
        let skip = match reader.find::<String>("skip")?.is_some() {
            true => reader.choose("skip", &skips)?,
            false => skips[0].1,
        };
        let parameters = DriverParameters {
            queue: reader.choose("queue", &queues)?,
            outstanding: reader.count("outstanding", 4096)?,
            search_lead: reader.find("search-lead")?.unwrap_or(0),
            skip,
            strategy: steps.get("strategy")?,
            start: steps.get("start")?,
            search_interrupt: steps.find("search-interrupt")?.unwrap_or(0),
            completion: steps.get("completion")?,
        };
        steps.done()?;
        Ok(parameters)
    }
}

/// A driver in its node.
pub(crate) struct Driver {
    parameters: DriverParameters,
    runtime: Runtime,
    trace: Trace,
    os: Rc<Os>,
    /// At the controller.
    slots: Resource,
    /// Its time on the processor.
    busy: Cell<Duration>,
    searches: Cell<u64>,
    interrupts: Cell<u64>,
}

impl Driver {
    async fn execute(&self, instructions: u64, level: Level) {
        let from = self.runtime.now();
        self.os.cpu.execute(instructions, level).await;
        self.busy.set(self.busy.get() + self.runtime.now().since(from));
    }

    async fn interrupt(&self, instructions: u64) {
        self.interrupts.set(self.interrupts.get() + 1);
        self.execute(instructions, Level::Interrupt).await;
    }
}

impl Component for Driver {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Busy(self.busy.get()));
        gauges.put("searches", Reading::Count(self.searches.get()));
        gauges.put("interrupts", Reading::Count(self.interrupts.get()));
    }
}

/// A drive under its driver.
pub(crate) struct Unit {
    driver: Rc<Driver>,
    endpoint: Rc<dyn Endpoint>,
    /// Blocks of a cylinder; 0 where nobody knows.
    cylinder: u64,
    reads: RefCell<Chain>,
    writes: RefCell<Chain>,
    /// Something came, or something is done.
    changed: Signal,
}

/// A request that waits, or is under way.
pub(crate) struct Ticket {
    command: Command,
    cylinder: u64,
    done: Cell<bool>,
}

/// Requests in the order of `disksort`: this sweep, then the next.
#[derive(Default)]
struct Chain {
    /// Ascending.
    now: VecDeque<Rc<Ticket>>,
    later: VecDeque<Rc<Ticket>>,
    /// Where the arm went last.
    at: u64,
}

impl Chain {
    fn put(&mut self, ticket: Rc<Ticket>) {
        let list = if ticket.cylinder >= self.at { &mut self.now } else { &mut self.later };
        let place = list.partition_point(|waiting| waiting.cylinder <= ticket.cylinder);
        list.insert(place, ticket);
    }

    fn take(&mut self) -> Option<Rc<Ticket>> {
        if self.now.is_empty() {
            std::mem::swap(&mut self.now, &mut self.later);
        }
        let next = self.now.pop_front()?;
        self.at = next.cylinder;
        Some(next)
    }
}

impl Unit {
    /// A drive; its driver sees to it from now on.
    pub fn new(driver: &Rc<Driver>, endpoint: &Rc<dyn Endpoint>) -> Rc<Unit> {
        let cylinder = endpoint.tracks().map_or(0, |tracks: Tracks| tracks.sectors * tracks.heads);
        let unit = Rc::new(Unit {
            driver: Rc::clone(driver),
            endpoint: Rc::clone(endpoint),
            cylinder,
            reads: RefCell::default(),
            writes: RefCell::default(),
            changed: Signal::default(),
        });
        let at_work = Rc::clone(&unit);
        driver.runtime.spawn_detached(async move { at_work.work().await });
        unit
    }

    /// How much the drive holds.
    pub fn size(&self) -> Bytes {
        self.endpoint.size()
    }

    /// Puts a request on the queue, at the expense of whoever calls.
    pub async fn strategy(&self, write: bool, offset: Bytes, bytes: Bytes) -> Rc<Ticket> {
        self.driver.execute(self.driver.parameters.strategy, Level::Process).await;
        let command = Command { write, first: offset / BLOCK, blocks: bytes / BLOCK };
        let arrival = self.driver.parameters.queue == Discipline::Arrival || self.cylinder == 0;
        let cylinder = if arrival { 0 } else { command.first / self.cylinder };
        let ticket = Rc::new(Ticket { command, cylinder, done: Cell::new(false) });
        let apart = self.driver.parameters.queue == Discipline::ReadsFirst && write;
        let chain = if apart { &self.writes } else { &self.reads };
        chain.borrow_mut().put(Rc::clone(&ticket));
        self.changed.notify();
        ticket
    }

    /// Waits until a request is complete.
    pub async fn finished(&self, ticket: &Ticket) {
        self.changed.wait_until(|| ticket.done.get()).await;
    }

    fn take(&self) -> Option<Rc<Ticket>> {
        let read = self.reads.borrow_mut().take();
        read.or_else(|| self.writes.borrow_mut().take())
    }

    fn waits(&self) -> bool {
        let any = |chain: &RefCell<Chain>| !chain.borrow().now.is_empty() || !chain.borrow().later.is_empty();
        any(&self.reads) || any(&self.writes)
    }

    async fn work(self: Rc<Unit>) {
        loop {
            self.changed.wait_until(|| self.waits()).await;
            if self.endpoint.depth() == 1 {
                let next = self.take().expect("something waits");
                self.carry_out(&next).await;
                continue;
            }
            let slot = self.driver.slots.acquire(0).await;
            let next = self.take().expect("something waits, and nobody else takes it");
            self.driver.execute(self.driver.parameters.start, Level::Interrupt).await;
            let unit = Rc::clone(&self);
            self.driver.runtime.spawn_detached(async move {
                let mut ledger = unit.driver.trace.aside(unit.driver.runtime.now());
                unit.endpoint.execute(next.command, Lines::Flushed, &mut ledger).await;
                ledger.close(unit.driver.runtime.now());
                drop(slot);
                unit.complete(&next).await;
            });
        }
    }

    /// A request to a drive that takes one at a time.
    async fn carry_out(&self, ticket: &Ticket) {
        let driver = &self.driver;
        driver.execute(driver.parameters.start, Level::Interrupt).await;
        let mut ledger = driver.trace.aside(driver.runtime.now());
        if let Some(drive) = self.endpoint.positioned().filter(|drive| self.searches(*drive, ticket)) {
            driver.searches.set(driver.searches.get() + 1);
            drive.search(ticket.command.first, driver.parameters.search_lead, &mut ledger).await;
            driver.interrupt(driver.parameters.search_interrupt).await;
            ledger.until(driver.runtime.now(), driver.os.part(), "search-interrupt");
        }
        self.endpoint.execute(ticket.command, Lines::Flushed, &mut ledger).await;
        ledger.close(driver.runtime.now());
        self.complete(ticket).await;
    }

    fn searches(&self, drive: &dyn Positioned, ticket: &Ticket) -> bool {
        let sectors = self.endpoint.tracks().map_or(1, |tracks| tracks.sectors.max(1));
        let passes = drive.passes();
        let ahead = (ticket.command.first % sectors + sectors - passes) % sectors;
        let soon = match self.driver.parameters.skip {
            Skip::EndOfTrack { window } => (passes + 1) % sectors > sectors.saturating_sub(window),
            Skip::InTime { least, most } => (least..=most).contains(&ahead),
            Skip::Reversed { least, most } => !(least..=most).contains(&ahead),
        };
        !(drive.same_cylinder(ticket.command.first) && soon)
    }

    async fn complete(&self, ticket: &Ticket) {
        self.driver.interrupt(self.driver.parameters.completion).await;
        ticket.done.set(true);
        self.changed.notify();
    }
}
