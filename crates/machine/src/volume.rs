//! A logical volume's striping driver, as a layer of an operating system: what keeps the volume below the sum of its
//! disks.
//!
//! The array of this project cuts a request into one piece for each disk and sends all of them (`[array]` of level 0,
//! its stripe unit the step). A driver's own work on the pieces may not go on side by side, though. Which work it is
//! that does not, the study of the M.A.X. machine does not say: its volume of 30 arrays gave 237 MB/s, the same arrays
//! 497 each on its own. So it is a switch ([`HoldsBack`]); `docs/max.md` judges its positions by the printed rows.
//!
//! # Theory
//! `n` pieces that each take `s` where only one goes on at a time, and `t` where all do, take `n s + t` together if the
//! work comes before the disk (piece by piece they start) and between `n s + t` and `max(n s, t)` if it comes behind.
//! What tells the two apart is how many disks are at work at a time: `t / s`, or all. With `k` processors that do such
//! work (`at-once`) it is `n s / k + t`: what a driver that splits in parallel would bring.
//!
//! # Sources
//! Ruwart and O'Keefe, "A 500 MegaByte/Second Disk Array", 1994, Logical Volume Read and Write Tests.

use std::cell::Cell;
use std::rc::Rc;

use record::PartName;
use runtime::{Resource, Runtime, Signal};
use units::{Bytes, Duration, Rate};

use crate::component::{Component, Kind};
use crate::load::{Gauges, Reading};
use crate::os::Os;
use crate::part::{PartError, Reader};
use crate::scsi::target::Command;
use crate::system::Machine;
use crate::trace::Ledger;

/// A striping driver, on an operating system.
pub const KIND: Kind = Kind {
    name: "volume",
    on: &["operating-system"],
    fast: &[crate::component::Fast { limit: "volume driver", values: &["piece", "page", "copy"] }],
    build: |site| {
        let parameters = site.parameters(VolumeParameters::read)?;
        let runtime = site.runtime.clone();
        Ok(Rc::new(Volume {
            parameters,
            os: site.on(),
            one: Resource::new(&runtime, parameters.at_once),
            part: site.trace.part(site.name),
            begun: Cell::new(0),
            ended: Cell::new(0),
            next: Signal::default(),
            runtime,
        }))
    },
};

/// What goes on for one piece at a time only, or for few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldsBack {
    /// Nothing.
    Nothing,
    /// The caller's process splits the request and maps the pages of each piece before it sends the next.
    Splitting,
    /// One processor takes the interrupts of all pieces, and unmaps their pages.
    Interrupts,
    /// Data are copied between a buffer of the driver and the caller's, by one process.
    Copy,
    /// Pieces are completed in the order in which they were sent.
    Order,
}

/// Names in files.
const WAYS: [(&str, HoldsBack); 5] = [
    ("nothing", HoldsBack::Nothing),
    ("splitting", HoldsBack::Splitting),
    ("interrupts", HoldsBack::Interrupts),
    ("copy", HoldsBack::Copy),
    ("order", HoldsBack::Order),
];

/// What distinguishes one driver from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct VolumeParameters {
    holds_back: HoldsBack,
    /// For how many pieces at a time it goes on.
    at_once: u32,
    /// Instructions for a piece, and for each page of it.
    piece: u64,
    page: u64,
    /// A copy by one process.
    copy: Rate,
}

impl VolumeParameters {
    fn read(reader: &Reader) -> Result<VolumeParameters, PartError> {
        Ok(VolumeParameters {
            holds_back: reader.choose("holds-back", &WAYS)?,
            at_once: reader.count("at-once", 1024)?,
            piece: reader.get("piece")?,
            page: reader.get("page")?,
            copy: reader.rate("copy")?,
        })
    }
}

/// A striping driver.
pub struct Volume {
    parameters: VolumeParameters,
    runtime: Runtime,
    os: Rc<Os>,
    part: PartName,
    /// What goes on for one piece at a time, or for a few.
    one: Resource,
    /// Pieces sent and completed, and a signal for whose turn it is now.
    begun: Cell<u64>,
    ended: Cell<u64>,
    next: Signal,
}

impl Component for Volume {
    fn gauges(&self, gauges: &mut Gauges) {
        // Of several places: the share of all.
        gauges.put("", Reading::Busy(self.one.busy() / u64::from(self.parameters.at_once)));
    }
}

impl Volume {
    /// The driver on an operating system of a machine, if there is one.
    pub fn of(machine: &Machine, os: &Rc<Os>) -> Option<Rc<Volume>> {
        machine.parts::<Volume>().find(|volume| Rc::ptr_eq(&volume.os, os))
    }

    /// Before a piece goes to its disk; what it gives is its place in the order of pieces.
    pub async fn before(&self, piece: Command, ledger: &mut Ledger) -> u64 {
        match self.parameters.holds_back {
            HoldsBack::Splitting => self.alone(self.work(piece.bytes()), ledger, "split").await,
            HoldsBack::Copy if piece.write => self.alone(self.copying(piece.bytes()), ledger, "copy").await,
            _ => {}
        }
        self.begun.replace(self.begun.get() + 1)
    }

    /// After its interrupt.
    pub async fn after(&self, piece: Command, number: u64, ledger: &mut Ledger) {
        match self.parameters.holds_back {
            HoldsBack::Interrupts => self.alone(self.work(piece.bytes()), ledger, "interrupt").await,
            HoldsBack::Copy if !piece.write => self.alone(self.copying(piece.bytes()), ledger, "copy").await,
            HoldsBack::Order => {
                self.next.wait_until(|| self.ended.get() == number).await;
                ledger.until(self.runtime.now(), self.part, "order");
            }
            _ => {}
        }
        self.ended.set(self.ended.get() + 1);
        self.next.notify();
    }

    fn work(&self, bytes: Bytes) -> Duration {
        let pages = bytes.get().div_ceil(self.os.parameters.page.get());
        let instructions = self.parameters.piece + self.parameters.page * pages;
        Duration::from_seconds(instructions as f64 / self.os.cpu.parameters.instructions.get())
    }

    fn copying(&self, bytes: Bytes) -> Duration {
        self.parameters.copy.time_for(bytes)
    }

    async fn alone(&self, time: Duration, ledger: &mut Ledger, phase: &'static str) {
        let _turn = self.one.acquire(0).await;
        ledger.until(self.runtime.now(), self.part, "queue");
        self.runtime.sleep(time).await;
        ledger.until(self.runtime.now(), self.part, phase);
    }
}
