//! What is inside a drive at the end of a packet way: a disk that orders its queue, flash, or a disk whose times are
//! drawn.
//!
//! The models are those of the drives alone ([`crate::standalone`]), without their own time on the bus: here data move
//! over the links of the way. A read's data are in the drive's buffer from `first` on, and all of them at `last`. Their
//! transfer may begin as soon as it does not overtake them, and ends no sooner than the last piece has crossed the link
//! after `last`.

use std::cell::RefCell;
use std::rc::Rc;

use runtime::{Random, Runtime};
use units::{Bytes, Duration, Instant, Rate};

use super::drawn::Drawn;
use crate::disk::controller::Controller;
use crate::disk::drive::Request;
use crate::disk::mechanism::Access;
use crate::disk::parameters::{Bus, Parameters};
use crate::disk::queued::Queued;
use crate::flash::{Flash, FlashParameters};
use crate::load::{Gauges, Reading};
use crate::scsi::target::{BLOCK, Command};

/// A block on the bus of a drive whose data move elsewhere: next to nothing, as nothing is no time in the drive's
/// formulas.
const NEXT_TO_NOTHING: Duration = Duration::nanos(1);

/// The medium and what serves it.
pub(super) enum Medium {
    Disk(Rc<Queued>),
    Flash(Box<RefCell<Flash>>),
    Drawn(Rc<Drawn>),
}

/// When the data of a read are in the drive's buffer.
pub(super) struct Ready {
    /// The first of them.
    pub first: Instant,
    /// All of them.
    pub last: Instant,
    /// What is sent at a time.
    pub piece: Bytes,
}

impl Medium {
    /// A disk; its speed is drawn within its error by `seed`.
    pub fn disk(mut parameters: Parameters, name: &str, seed: u64) -> Medium {
        parameters.bus = Bus { read_block: NEXT_TO_NOTHING, write_block: NEXT_TO_NOTHING };
        let mut random = Random::named(seed, &format!("{name} spindle"));
        Medium::Disk(Rc::new(Queued::new(Controller::drawn(parameters, &mut random))))
    }

    /// Flash.
    pub fn flash(parameters: FlashParameters) -> Medium {
        Medium::Flash(Box::new(RefCell::new(Flash::behind_a_way(parameters))))
    }

    /// Writes down what it did up to now; `present` is for how long the drive had commands. Of a disk that says nothing
    /// of its work, as commands may wait for a full way.
    pub fn gauges(&self, now: Instant, present: Duration, gauges: &mut Gauges) {
        match self {
            Medium::Disk(disk) => gauges.put("", Reading::Busy(disk.worked(now))),
            Medium::Drawn(disk) => gauges.put("", Reading::Busy(disk.worked(now))),
            Medium::Flash(flash) => {
                gauges.put("", Reading::Present(present));
                gauges.put("dies", Reading::Busy(flash.borrow().dies_busy()));
            }
        }
    }

    /// What a disk gives in sequence at its outermost tracks.
    pub fn rate(&self) -> Option<Rate> {
        match self {
            Medium::Disk(disk) => Some(disk.outer_rate()),
            Medium::Flash(_) => None,
            Medium::Drawn(disk) => Some(disk.parameters.read),
        }
    }

    /// Reads: when the data are there. Waits for the command's turn, if there is one.
    pub async fn read(&self, runtime: &Runtime, command: Command) -> Ready {
        match self {
            Medium::Disk(disk) => {
                let piece = disk.piece();
                let service = disk.serve(runtime, Request::new(Access::Read, command.first, command.blocks)).await;
                let first =
                    Instant::from_nanos(service.completes.as_nanos().saturating_sub(service.transfer.as_nanos()));
                Ready { first, last: service.completes, piece: piece.min(command.bytes()) }
            }
            Medium::Flash(flash) => {
                let mut flash = flash.borrow_mut();
                let piece = flash.parameters().page.min(command.bytes());
                let (first, last) = flash.fetch(runtime.now(), BLOCK * command.first, command.bytes());
                Ready { first, last, piece }
            }
            Medium::Drawn(disk) => {
                let (first, last) = disk.serve(runtime.now(), false, command.bytes());
                Ready { first, last, piece: BLOCK.min(command.bytes()) }
            }
        }
    }

    /// Writes what has arrived: when it is complete.
    pub async fn write(&self, runtime: &Runtime, command: Command) -> Instant {
        match self {
            Medium::Disk(disk) => {
                disk.serve(runtime, Request::new(Access::Write, command.first, command.blocks)).await.completes
            }
            Medium::Flash(flash) => {
                let (offset, length) = (BLOCK * command.first, command.bytes());
                flash.borrow_mut().serve(runtime.now(), Access::Write, offset, length)
            }
            Medium::Drawn(disk) => disk.serve(runtime.now(), true, command.bytes()).1,
        }
    }
}
