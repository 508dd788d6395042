//! A disk at the end of a string.
//!
//! The drive is that of [`crate::disk`]: mechanics, segments, read-ahead, writes. Here is what it does on a bus that it
//! shares: when it lets go, when it asks again, and how long its processor takes for the steps of the protocol.
//!
//! # Theory
//! Between the medium and the bus stands the buffer. The medium fills (or empties) it at the rate at which sectors pass
//! the head, the bus empties (or fills) it several times faster; both sides work at the same time.
//!
//! When to ask for the bus: a read when the buffer full ratio of the buffer, or what is left of the request, is
//! buffered; a write that had filled the buffer when the buffer empty ratio of it is empty, or all is written. A ratio
//! of the whole buffer stops the medium before the bus is asked for, and each such stop costs most of a revolution.
//!
//! After the command a read lets go of the bus unless so much is buffered by then; a write takes data at once, while
//! the arm is on its way. A drive that *thinks off the bus* takes a read in, lets go of the bus before it has looked
//! for it at all, and so also for one that its buffer can serve: the bus is free for other commands meanwhile, and idle
//! if there are none. How much of its thinking it takes to take the command in decides how many others can be sent
//! meanwhile.
//!
//! When to let go of it: when nothing is left to send; unless the next block of a read comes within the drive's *hold*,
//! so that what follows crosses the bus at the rate of the medium (Barve et al. 1999, Section 4.3).
//!
//! While the medium fills the buffer, both sides use its memory by turns, and a drive may send more slowly for it.
//!
//! # Sources
//! UCB/CSD 90/574 Sections 2.1 to 2.3, 4.2 (ratios, read-ahead, disconnection), 4.6 (pauses). That a stopped medium
//! loses revolutions is not stated there; it follows from its turning.

use std::cell::RefCell;

use rand::RngExt;
use record::PartName;
use runtime::Random;
use units::{Duration, Instant};

use super::target::{Command, Next, Pauses, Target};
use crate::disk::drive::{Drive, Request};
use crate::disk::mechanism::Access;
use crate::disk::parameters::{Buffer, Parameters};
use crate::part::{Part, PartError, Problem};
use crate::trace::{Ledger, Trace};

/// What distinguishes one drive from another.
#[derive(Debug, Clone)]
pub struct DiskParameters {
    /// The drive.
    pub drive: Parameters,
    /// What its processor takes for the steps of the protocol.
    pub pauses: Pauses,
}

impl DiskParameters {
    /// Reads a part of kind `disk` that has what a string asks of it: a table `pause`, and buffer ratios of at least
    /// one block.
    pub fn read(part: &Part) -> Result<DiskParameters, PartError> {
        let drive = Parameters::read(part)?;
        let reader = part.reader("disk")?;
        if drive.buffer.never_disconnect {
            let problem = "is on, but a disk on a string lets go of the bus while the arm moves".to_owned();
            return Err(reader.table("buffer")?.fault("never-disconnect", Problem::Contradiction(problem)));
        }
        let buffer = reader.table("buffer")?;
        for (key, share) in [("read-fill", drive.buffer.read_fill), ("write-empty", drive.buffer.write_empty)] {
            // A whisker for shares such as 1.5625 % of 64 blocks, written in decimals.
            if drive.buffer.segment_blocks as f64 * share.get() < 1.0 - 1e-6 {
                let least = 100.0 / drive.buffer.segment_blocks as f64;
                let accepted = format!("a share of the buffer between one block of it ({least:.1} %) and the whole");
                return Err(buffer.fault(key, Problem::OutOfRange { accepted }));
            }
        }
        let pause = reader.table("pause")?;
        let range = |least, most| -> Result<(Duration, Duration), PartError> {
            let (low, high): (Duration, Duration) = (pause.get(least)?, pause.get(most)?);
            if low > high {
                return Err(
                    pause.fault(most, Problem::OutOfRange { accepted: format!("at least {low}, the shortest") })
                );
            }
            Ok((low, high))
        };
        let pauses = Pauses {
            identify: pause.get("identify")?,
            first_data: range("first-data-least", "first-data-most")?,
            save_pointer: range("save-pointer-least", "save-pointer-most")?,
            release_writing: pause.get("release-writing")?,
            block: match pause.find::<Duration>("block-most")? {
                None => (Duration::ZERO, Duration::ZERO),
                Some(_) => range("block-least", "block-most")?,
            },
            block_filling: pause.find("block-filling")?.unwrap_or(Duration::ZERO),
            status: pause.get("status")?,
            status_per_block: pause.get("status-per-block")?,
            thinks_off_bus: pause.find("thinks-off-bus")?.unwrap_or(false),
            command: pause.find("command")?.unwrap_or(Duration::ZERO),
        };
        pause.done()?;
        Ok(DiskParameters { drive, pauses })
    }
}

/// A disk on a bus.
pub struct ScsiDisk {
    id: u8,
    part: PartName,
    pauses: Pauses,
    blocks: u64,
    state: RefCell<State>,
}

struct State {
    drive: Drive,
    /// The command under way: whether it writes, and blocks that have not yet gone over the bus.
    command: Option<(bool, u64)>,
    /// Until when its processor is busy with the command, off the bus.
    thinks_until: Instant,
    random: Random,
}

impl State {
    fn under_way(&self) -> (bool, u64) {
        self.command.expect("a command is under way")
    }
    fn buffer(&self) -> &Buffer {
        &self.drive.parameters().buffer
    }
    fn finish(&mut self, now: Instant) -> Next {
        self.drive.close(now);
        self.command = None;
        Next::Status
    }
}

impl ScsiDisk {
    /// A disk with its arm at cylinder 0. Its speed is drawn within its error by `seed`, and so are its pauses.
    pub fn new(parameters: DiskParameters, id: u8, name: &str, seed: u64, trace: &Trace) -> ScsiDisk {
        let drive = parameters.drive.drawn(&mut Random::named(seed, &format!("{name} spindle")));
        let blocks = drive.mechanism.geometry.blocks();
        let state = State {
            drive: Drive::new(drive),
            command: None,
            thinks_until: Instant::START,
            random: Random::named(seed, name),
        };
        ScsiDisk { id, part: trace.part(name), pauses: parameters.pauses, blocks, state: RefCell::new(state) }
    }

    /// The drive, its speed as drawn.
    pub fn drive(&self) -> Parameters {
        self.state.borrow().drive.parameters().clone()
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
}

impl Target for ScsiDisk {
    fn id(&self) -> u8 {
        self.id
    }
    fn pauses(&self) -> &Pauses {
        &self.pauses
    }
    fn part(&self) -> PartName {
        self.part
    }
    fn draw(&self, least: Duration, most: Duration) -> Duration {
        Duration::nanos(self.state.borrow_mut().random.random_range(least.as_nanos()..=most.as_nanos()))
    }

    fn accept(&self, now: Instant, command: Command) -> (Duration, Next) {
        let state = &mut *self.state.borrow_mut();
        assert!(state.command.is_none(), "a disk has one command at a time");
        state.command = Some((command.write, command.blocks));
        let access = if command.write { Access::Write } else { Access::Read };
        let thinking = state.drive.open(now, Request::new(access, command.first, command.blocks));
        if self.pauses.thinks_off_bus && !command.write {
            state.thinks_until = now + thinking;
            return (self.pauses.command.min(thinking), Next::Disconnect);
        }
        let ready = if command.write {
            // There is room, unless what was written before has first to be on the medium.
            state.drive.transferable(now + thinking) > 0
        } else {
            let at_once = state.buffer().partial_hit_at_once;
            let enough = if at_once { 1 } else { state.buffer().fill_mark(command.blocks) };
            state.drive.transferable(now + thinking) >= enough
        };
        (thinking, if ready { Next::Data } else { Next::Disconnect })
    }

    fn transferable(&self, now: Instant) -> u64 {
        self.state.borrow_mut().drive.transferable(now)
    }

    fn fills(&self, now: Instant) -> bool {
        self.state.borrow_mut().drive.fills(now)
    }

    fn transferred(&self, now: Instant, blocks: u64) {
        let state = &mut *self.state.borrow_mut();
        state.drive.transferred(now, blocks);
        let (write, left) = state.under_way();
        state.command = Some((write, left - blocks));
    }

    fn holds_until(&self, now: Instant) -> Option<Instant> {
        let state = &mut *self.state.borrow_mut();
        let (write, left) = state.under_way();
        if write || left == 0 {
            return None;
        }
        let next_block = state.drive.transferable_at(now, 1);
        (next_block > now && next_block <= now + state.buffer().hold).then_some(next_block)
    }

    fn after_data(&self, now: Instant) -> Next {
        let state = &mut *self.state.borrow_mut();
        if state.under_way().1 > 0 || state.drive.completes_at(now) > now {
            return Next::Disconnect;
        }
        state.finish(now)
    }

    fn reconnect_at(&self, now: Instant) -> Instant {
        let state = &mut *self.state.borrow_mut();
        match state.under_way() {
            (_, 0) => state.drive.completes_at(now),
            (true, left) => state.drive.transferable_at(now, state.buffer().empty_mark(left)),
            (false, left) => state.drive.transferable_at(now, state.buffer().fill_mark(left)).max(state.thinks_until),
        }
    }

    fn after_reselection(&self, now: Instant) -> Next {
        let state = &mut *self.state.borrow_mut();
        if state.under_way().1 > 0 { Next::Data } else { state.finish(now) }
    }

    fn explain(&self, until: Instant, ledger: &mut Ledger) {
        let state = self.state.borrow();
        if state.thinks_until > ledger.at() {
            ledger.until(state.thinks_until.min(until), self.part, "command");
        }
        if let Some(run) = state.drive.run() {
            if run.on_track() > ledger.at() {
                ledger.until(run.on_track().min(until), self.part, "seek");
            }
            if run.begins > ledger.at() {
                ledger.until(run.begins.min(until), self.part, "rotation");
            }
        }
        ledger.until(until, self.part, "media");
    }
}
