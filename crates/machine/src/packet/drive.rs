//! A drive at the end of a packet way.
//!
//! # A command's way
//! The host rings; the drive fetches the command, does what it has to, moves the data itself, and writes a completion,
//! which interrupts. On PCI Express (NVMe) those are messages over the way: the doorbell, the fetch there and back, the
//! completion. On SAS the adapter takes the command in, and a frame goes there; the completion comes back through the
//! adapter. So many commands are with the drive at a time as its queue has places; others wait.
//!
//! A drive sends one command's data at a time, and so does who writes to it: its link is one. What it reads ahead of a
//! full way is bounded by the commands under way, not by its buffer.
//!
//! # Sources
//! NVM Express Base Specification 2.0, Section 3.3 (queue pairs in host memory). Fujitsu C141-C013, "SAS Interface",
//! Section 1.6 (frames of a command).

use std::rc::Rc;

use record::PartName;
use runtime::{Resource, Runtime};
use units::{Bytes, Duration, Instant, Rate};

use super::drawn::{Drawn, DrawnParameters};
use super::medium::Medium;
use super::route::{Leg, Route};
use super::sas::Board;
use crate::attendance::Attendance;
use crate::component::{Component, Kind, Site};
use crate::disk::parameters::Parameters;
use crate::endpoint::{Endpoint, Executing};
use crate::flash::FlashParameters;
use crate::lines::Lines;
use crate::load::{Gauges, Reading};
use crate::part::PartError;
use crate::scsi::protocol::Passage;
use crate::scsi::target::Command;
use crate::trace::Ledger;

/// A flash drive on PCI Express.
pub const FLASH: Kind = Kind {
    name: "flash",
    on: &["pcie-root", "pcie-switch"],
    fast: &[],
    build: |site| {
        let parameters = FlashParameters::read(site.part)?;
        let cost = 1.0 / parameters.link.get();
        let leg = Leg {
            up: (site.flows.link(), cost),
            down: (site.flows.link(), cost),
            ask: 0.0,
            answer: 0.0,
            latency: Duration::ZERO,
        };
        let route =
            site.route().expect("it stands on what carries packets").beyond(leg).ok_or_else(|| site.too_far())?;
        let (size, queue) = (parameters.capacity, parameters.queue);
        Ok(plugged(site, route, Medium::flash(parameters), (size, queue), None))
    },
};

/// A disk on SAS.
pub fn disk(site: &Site) -> Result<Rc<dyn Component>, PartError> {
    let parameters = Parameters::read(site.part)?;
    let port = site.sas_port();
    let interface = parameters.bus.rate();
    let route = port.route.beyond(port.leg(site.flows, interface)).ok_or_else(|| site.too_far())?;
    let size = Bytes::SECTOR * parameters.mechanism.geometry.blocks();
    let queue = parameters.queue.depth;
    let medium = Medium::disk(parameters, port.spindles.as_ref().unwrap_or(site.name), site.seed);
    Ok(plugged(site, route, medium, (size, queue), Some(Rc::clone(&port.board))))
}

/// A disk whose times are drawn, on an adapter.
pub fn drawn(site: &Site) -> Result<Rc<dyn Component>, PartError> {
    let parameters = site.parameters(DrawnParameters::read)?;
    let port = site.sas_port();
    let route = port.route.beyond(port.leg(site.flows, None)).ok_or_else(|| site.too_far())?;
    let medium = Medium::Drawn(Drawn::new(parameters, site.name, site.seed));
    Ok(plugged(site, route, medium, (parameters.capacity, parameters.queue), Some(Rc::clone(&port.board))))
}

fn plugged(
    site: &Site,
    route: Route,
    medium: Medium,
    (size, queue): (Bytes, u32),
    board: Option<Rc<Board>>,
) -> Rc<dyn Component> {
    let runtime = site.runtime.clone();
    let (places, up, down) = (Resource::new(&runtime, queue), Resource::new(&runtime, 1), Resource::new(&runtime, 1));
    let part = site.trace.part(site.name);
    let attendance = Attendance::default();
    let rate = medium.rate();
    let drive = PacketDrive { runtime, part, medium, board, route, places, up, down, size, queue, rate, attendance };
    Rc::new(Plugged { drive: Rc::new(drive) })
}

/// A drive in its node.
struct Plugged {
    drive: Rc<PacketDrive>,
}

impl Component for Plugged {
    fn gauges(&self, gauges: &mut Gauges) {
        self.drive.medium.gauges(self.drive.runtime.now(), self.drive.busy(), gauges);
        let (up, down) = self.drive.route.last_leg_busy();
        gauges.put("link up", Reading::Busy(up));
        gauges.put("link down", Reading::Busy(down));
    }
    fn rate(&self) -> Option<Rate> {
        let link = self.drive.route.legs().last().map(|leg| Rate::bytes_per_second(1.0 / leg.up.1));
        match (link, self.drive.rate) {
            (Some(link), Some(medium)) => Some(if medium < link { medium } else { link }),
            (link, medium) => medium.or(link),
        }
    }
    fn endpoint(self: Rc<Self>) -> Option<Rc<dyn Endpoint>> {
        Some(Rc::clone(&self.drive) as Rc<dyn Endpoint>)
    }
}

/// A drive, and the way to it.
struct PacketDrive {
    runtime: Runtime,
    part: PartName,
    medium: Medium,
    /// The adapter, where there is one.
    board: Option<Rc<Board>>,
    route: Route,
    /// Commands that it has at a time.
    places: Resource,
    /// Its link, each way.
    up: Resource,
    down: Resource,
    size: Bytes,
    queue: u32,
    /// What its medium gives in sequence, if it says.
    rate: Option<Rate>,
    attendance: Attendance,
}

impl Endpoint for PacketDrive {
    fn size(&self) -> Bytes {
        self.size
    }
    fn depth(&self) -> u32 {
        self.queue
    }
    fn execute<'a>(&'a self, command: Command, lines: Lines, ledger: &'a mut Ledger) -> Executing<'a> {
        Box::pin(self.carry_out(command, lines, ledger))
    }
    /// A doorbell is a posted write: the processor does not wait for it, but for a register of an adapter on a bus it
    /// does.
    fn register_word(&self) -> Duration {
        self.board.as_ref().map_or(Duration::ZERO, |board| board.register_word)
    }
    fn busy(&self) -> Duration {
        self.attendance.sum(self.runtime.now())
    }
}

impl PacketDrive {
    async fn carry_out(&self, command: Command, lines: Lines, ledger: &mut Ledger) -> Passage {
        let note = |ledger: &mut Ledger, phase| ledger.until(self.runtime.now(), self.part, phase);
        let _present = self.attendance.enter(&self.runtime);
        let place = self.places.acquire(0).await;
        note(ledger, "queue");
        let taken = match &self.board {
            Some(board) => Some(board.take(ledger).await),
            None => None,
        };
        // The doorbell and the fetch of the command, there and back; behind an adapter that is one frame.
        self.route.signal(if self.board.is_some() { 1 } else { 3 }).await;
        note(ledger, "command");
        match command.write {
            true => {
                let link = self.down.acquire(0).await;
                note(ledger, "link");
                // The drive asks for the data, and they come.
                self.route.signal(2).await;
                self.route.transfer(command.bytes(), false, lines).await;
                drop(link);
                note(ledger, "transfer");
                let complete = self.medium.write(&self.runtime, command).await;
                self.runtime.sleep_until(complete).await;
                note(ledger, "medium");
            }
            false => {
                let ready = self.medium.read(&self.runtime, command).await;
                let rate = self.route.rate(true, lines);
                let before = (command.bytes() - ready.piece).get() as f64 / rate;
                let begin = ready.last.as_nanos().saturating_sub(Duration::from_seconds(before).as_nanos());
                self.runtime.sleep_until(ready.first.max(Instant::from_nanos(begin))).await;
                note(ledger, "medium");
                let link = self.up.acquire(0).await;
                note(ledger, "link");
                self.route.transfer(command.bytes(), true, lines).await;
                // The last piece cannot have gone before it was there.
                let piece = Duration::from_seconds(ready.piece.get() as f64 / rate);
                self.runtime.sleep_until(ready.last + piece).await;
                drop(link);
                note(ledger, "transfer");
            }
        }
        self.route.signal(1).await;
        note(ledger, "completion");
        if let Some(board) = &self.board {
            board.complete(ledger).await;
        }
        drop((taken, place));
        Passage::default()
    }
}
