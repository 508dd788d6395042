//! A disk array with a controller of its own, at the end of a SCSI string: one target for the host.
//!
//! # A command's way
//! The host takes the string, sends the command, and the array lets go of the string. Its processor works on the
//! command for a time that is drawn between two. Then it takes the string again and moves the data, at the pace of its
//! data path or of whatever is slower between it and memory; they cross string, board and bus as they come
//! ([`crate::packet::route`]). One command at a time is under way, up to `queue` are with it.
//!
//! Data go between drives and string through a buffer, a piece at a time: the drives work on one piece while another is
//! on the string. A read takes the string when its first piece is there; a write is complete when its last piece is
//! with the drives.
//!
//! Drives are those of the node's own, as an array of this project (`raid::inside`); each gets one command for
//! its share of a piece (`joined`). Of *synchronized* spindles all are driven by one oscillator: they turn at one
//! speed and stand at the same angle.
//!
//! # Diskless
//! An array without drives that makes believe, as M.A.X. used 23 of: sequential commands find their data in the buffer;
//! any other waits for a seek in proportion to the distance, and half a turn. Reads give zeroes and writes are thrown
//! away: what is stored is nobody's business here, as of all modelled drives.
//!
//! # Rejected
//! The protocol of [`crate::scsi::protocol`]: its targets say at once until when they are not ready, which an array
//! that waits for drives cannot know.
//!
//! # Sources
//! Ruwart and O'Keefe, "A 500 MegaByte/Second Disk Array", 1994, Experimental Setup.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use array::geometry::Level;
use futures_util::future::join;
use rand::RngExt;
use record::PartName;
use runtime::{Random, Resource, Runtime};
use units::{Bytes, Duration, Rate};

use crate::attendance::Attendance;
use crate::component::{Component, Fast, Kind, Owner, Places, Site};
use crate::endpoint::{Endpoint, Executing};
use crate::joined::Joined;
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::packet::route::{Leg, Route, Wires};
use crate::packet::sas::{Board, Port};
use crate::part::{PartError, Problem, Reader};
use crate::raid::inside::{Behind, Drives, Engine};
use crate::raid::parameters::layout;
use crate::scsi::phase::Phase;
use crate::scsi::protocol::Passage;
use crate::scsi::string::{Cable, Claim, ScsiString, Tenure};
use crate::scsi::target::{BLOCK, Command};
use crate::trace::{Ledger, Trace};

/// An array on a string of an I/O board.
pub const KIND: Kind = Kind {
    name: "disk-array",
    on: &["scsi-string"],
    fast: &[Fast { limit: "disk arrays", values: &["command", "command-most", "data-path", "parity"] }],
    build: |site| Ok(DiskArray::build(site)?),
};

/// What distinguishes one array from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ArrayParameters {
    /// Its processor works on a command, least and most.
    command: (Duration, Duration),
    /// What it sends or takes over the string.
    data_path: Rate,
    /// A piece.
    buffer: Bytes,
    /// Commands that it has at a time.
    queue: u32,
    inside: Within,
}

/// What it has for drives.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Within {
    /// Real ones.
    Drives { layout: (Level, Bytes), parity: Rate, drives: u32, channel: Rate, synchronized: bool },
    /// None.
    Diskless { capacity: Bytes, full_seek: Duration, half_turn: Duration },
}

impl ArrayParameters {
    fn read(reader: &Reader) -> Result<ArrayParameters, PartError> {
        let least: Duration = reader.get("command")?;
        let most = reader.find("command-most")?.unwrap_or(least);
        if most < least {
            let accepted = format!("at least {least}, the shortest (command)");
            return Err(reader.fault("command-most", Problem::OutOfRange { accepted }));
        }
        let buffer: Bytes = reader.get("buffer")?;
        if buffer.is_zero() || !buffer.is_multiple_of(BLOCK) {
            let accepted = "whole 512-byte blocks, at least one".into();
            return Err(reader.fault("buffer", Problem::OutOfRange { accepted }));
        }
        let inside = match reader.find_table("diskless")? {
            Some(table) => {
                let capacity: Bytes = table.get("capacity")?;
                if capacity.is_zero() || !capacity.is_multiple_of(BLOCK) {
                    let accepted = "whole 512-byte blocks, at least one".into();
                    return Err(table.fault("capacity", Problem::OutOfRange { accepted }));
                }
                let (full_seek, half_turn) = (table.get("full-seek")?, table.get("half-turn")?);
                table.done()?;
                Within::Diskless { capacity, full_seek, half_turn }
            }
            None => {
                let table = reader.table("array")?;
                let layout = layout(&table)?;
                table.done()?;
                let (parity, drives) = (reader.rate("parity")?, reader.count("drives", 1024)?);
                let (channel, synchronized) = (reader.rate("drive-channel")?, reader.get("synchronized")?);
                Within::Drives { layout, parity, drives, channel, synchronized }
            }
        };
        let (data_path, queue) = (reader.rate("data-path")?, reader.count("queue", 65_536)?);
        Ok(ArrayParameters { command: (least, most), data_path, buffer, queue, inside })
    }
}

/// An array.
struct DiskArray {
    parameters: ArrayParameters,
    runtime: Runtime,
    trace: Trace,
    part: PartName,
    string: ScsiString,
    /// Its address on the string.
    id: u8,
    /// From its buffer to memory, the string included.
    route: Route,
    wires: Wires,
    /// Its side towards its drives.
    port: Option<Port>,
    /// Commands that it has, and the one that it works on.
    places: Resource,
    turn: Resource,
    random: RefCell<Random>,
    /// The block behind the last command's.
    next: Cell<u64>,
    behind: OnceCell<Behind>,
    attendance: Attendance,
}

impl DiskArray {
    fn build(site: &Site) -> Result<Rc<DiskArray>, PartError> {
        let parameters = site.parameters(ArrayParameters::read)?;
        let cable = site.find::<Cable>().ok_or_else(|| {
            let message = "a disk array needs a string of an I/O board; the board of this string takes disks only";
            site.fault("on", message.to_owned())
        })?;
        let (runtime, part) = (site.runtime, site.trace.part(site.name));
        let half = (site.flows.link(), 1.0 / parameters.data_path.get());
        let leg = Leg { up: half, down: half, ask: 0.0, answer: 0.0, latency: Duration::ZERO };
        let wires = Wires::new(site.flows, leg.clone(), part);
        let route = site.route().and_then(|route| route.beyond(leg)).ok_or_else(|| site.too_far())?;
        let port = match parameters.inside {
            Within::Diskless { .. } => None,
            Within::Drives { channel, synchronized, .. } => Some(Port {
                route: Route::within(runtime, site.flows),
                lane: channel,
                around: 1.0,
                latency: Duration::ZERO,
                board: Rc::new(Board {
                    command: Duration::ZERO,
                    completion: Duration::ZERO,
                    register_word: Duration::ZERO,
                    runtime: runtime.clone(),
                    part,
                    processor: Resource::new(runtime, 1),
                    queue: Resource::new(runtime, u32::MAX),
                }),
                spindles: synchronized.then(|| site.name.clone()),
            }),
        };
        Ok(Rc::new(DiskArray {
            runtime: runtime.clone(),
            trace: site.trace.clone(),
            part,
            string: cable.string.clone(),
            id: site.place as u8,
            route,
            wires,
            port,
            places: Resource::new(runtime, parameters.queue),
            turn: Resource::new(runtime, 1),
            random: RefCell::new(Random::named(site.seed, &format!("{} processor", site.name))),
            next: Cell::new(0),
            behind: OnceCell::new(),
            attendance: Attendance::default(),
            parameters,
        }))
    }

    fn note(&self, ledger: &mut Ledger, phase: &'static str) {
        ledger.until(self.runtime.now(), self.part, phase);
    }

    async fn carry_out(&self, command: Command, lines: Lines, ledger: &mut Ledger) {
        let _present = self.attendance.enter(&self.runtime);
        let place = self.places.acquire(0).await;
        let turn = self.turn.acquire(0).await;
        self.note(ledger, "queue");
        let bus = *self.string.parameters();
        // The host's adapter has the highest address, behind those of the devices.
        let mut tenure = self.string.acquire(Claim::at_once(bus.devices as u8 - 1, bus.arbitration), ledger).await;
        tenure.spend(Phase::Selection, bus.selection, ledger);
        self.let_go(tenure, ledger).await;

        let (least, most) = self.parameters.command;
        let thinks = self.random.borrow_mut().random_range(least.as_nanos()..=most.as_nanos());
        self.runtime.sleep(Duration::nanos(thinks)).await;
        self.note(ledger, "command");
        if let Within::Diskless { capacity, full_seek, half_turn } = self.parameters.inside
            && self.next.get() != command.first
        {
            let share = self.next.get().abs_diff(command.first) as f64 / (capacity / BLOCK) as f64;
            self.runtime.sleep(full_seek.scale(share)).await;
            self.note(ledger, "seek");
            self.runtime.sleep(half_turn).await;
            self.note(ledger, "rotation");
        }
        self.next.set(command.first + command.blocks);

        match (self.behind.get(), command.write) {
            (None, _) => {
                let mut tenure = self.come_back(ledger).await;
                self.route.transfer(command.bytes(), !command.write, lines).await;
                tenure.until_now(Phase::DataTransfer, ledger);
                self.let_go(tenure, ledger).await;
            }
            (Some(behind), false) => self.read(behind, command, lines, ledger).await,
            (Some(behind), true) => self.write(behind, command, lines, ledger).await,
        }
        drop((turn, place));
    }

    async fn read(&self, behind: &Behind, command: Command, lines: Lines, ledger: &mut Ledger) {
        let mut pieces = command.pieces(self.parameters.buffer);
        let mut here = pieces.next().expect("a command moves something");
        behind.through(here, ledger).await;
        let mut tenure = self.come_back(ledger).await;
        loop {
            let next = pieces.next();
            join(self.route.transfer(here.bytes(), true, lines), self.aside(behind, next)).await;
            let Some(next) = next else { break };
            here = next;
        }
        tenure.until_now(Phase::DataTransfer, ledger);
        self.let_go(tenure, ledger).await;
    }

    async fn write(&self, behind: &Behind, command: Command, lines: Lines, ledger: &mut Ledger) {
        let mut tenure = self.come_back(ledger).await;
        let mut before = None;
        for piece in command.pieces(self.parameters.buffer) {
            join(self.route.transfer(piece.bytes(), false, lines), self.aside(behind, before)).await;
            before = Some(piece);
        }
        tenure.until_now(Phase::DataTransfer, ledger);
        self.let_go(tenure, ledger).await;
        behind.through(before.expect("a command moves something"), ledger).await;
        let tenure = self.come_back(ledger).await;
        self.let_go(tenure, ledger).await;
    }

    /// A piece between buffer and drives, while the string is at work.
    async fn aside(&self, behind: &Behind, piece: Option<Command>) {
        if let Some(piece) = piece {
            let mut ledger = self.trace.aside(self.runtime.now());
            behind.through(piece, &mut ledger).await;
            ledger.close(self.runtime.now());
        }
    }

    /// It takes the string.
    async fn come_back(&self, ledger: &mut Ledger) -> Tenure {
        let bus = self.string.parameters();
        let mut tenure = self.string.acquire(Claim::at_once(self.id, bus.rearbitration), ledger).await;
        tenure.spend(Phase::Reselection, bus.reselection, ledger);
        tenure.catch_up().await;
        tenure
    }

    async fn let_go(&self, mut tenure: Tenure, ledger: &mut Ledger) {
        tenure.spend(Phase::Release, self.string.parameters().release, ledger);
        tenure.catch_up().await;
    }
}

impl Component for DiskArray {
    fn gauges(&self, gauges: &mut Gauges) {
        gauges.put("", Reading::Present(self.attendance.sum(self.runtime.now())));
        gauges.put("data path", Reading::Busy(self.wires.busy().0));
    }
    fn rate(&self) -> Option<Rate> {
        Some(self.parameters.data_path)
    }
    fn places(&self) -> Option<Places> {
        let count = match self.parameters.inside {
            Within::Drives { drives, .. } => drives,
            Within::Diskless { .. } => 0,
        };
        Some(Places { key: "port", count, taken: None })
    }
    fn port(&self) -> Option<&Port> {
        self.port.as_ref()
    }
    fn endpoint(self: Rc<Self>) -> Option<Rc<dyn Endpoint>> {
        Some(self)
    }
    fn owner(self: Rc<Self>) -> Option<Rc<dyn Owner>> {
        Some(self)
    }
}

impl Owner for DiskArray {
    fn adopt(self: Rc<Self>, drives: Drives) -> Result<(), String> {
        let Within::Drives { layout, parity, .. } = self.parameters.inside else { return Ok(()) };
        let joined = |(name, drive)| {
            let drive = Joined::new(&self.runtime, &self.trace, self.part, drive);
            (name, Rc::new(drive) as Rc<dyn Endpoint>)
        };
        let engine = Engine { turn: Resource::new(&self.runtime, 1), rate: parity };
        let drives = drives.into_iter().map(joined).collect();
        let behind = Behind::assemble((&self.runtime, &self.trace, self.part), engine, None, layout, drives)?;
        let adopted = self.behind.set(behind);
        assert!(adopted.is_ok(), "an array is given its drives once");
        Ok(())
    }
}

impl Endpoint for DiskArray {
    fn size(&self) -> Bytes {
        match (self.parameters.inside, self.behind.get()) {
            (Within::Diskless { capacity, .. }, _) => capacity,
            (_, behind) => behind.expect("a machine gives arrays their drives when it is built").size(),
        }
    }
    fn depth(&self) -> u32 {
        self.parameters.queue
    }
    fn execute<'a>(&'a self, command: Command, lines: Lines, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(async move {
            self.carry_out(command, lines, ledger).await;
            Passage::default()
        })
    }
    /// The board fetches commands from memory; the processor waits for none of it.
    fn register_word(&self) -> Duration {
        Duration::ZERO
    }
    fn busy(&self) -> Duration {
        self.attendance.sum(self.runtime.now())
    }
}
