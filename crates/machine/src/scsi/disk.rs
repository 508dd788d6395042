//! A disk with an embedded buffer, as it behaves on the bus.
//!
//! # Theory
//! Between the medium and the bus stands one buffer. The medium fills (or empties) it at the rate at which sectors pass the head, the
//! bus empties (or fills) it several times faster; both sides work at the same time. What the medium does is a *scan*: a
//! chain of runs, each a straight line of blocks over time, that goes on until it reaches its limit and then loses its place.
//!
//! - Reading, the limit is one buffer beyond what has gone over the bus (without read-ahead also the end of the request). A scan
//!   that stands still because the buffer is full goes on when there is room, but the sector has to come round again.
//! - Writing, the limit is what has come over the bus; a scan that has written all there is loses a revolution, and so does
//!   the next sequential write, which arrives after its sector has passed.
//!
//! When to ask for the bus: a read when the buffer full ratio of the buffer, or what is left of the request, is buffered; a write
//! that had filled the buffer when the buffer empty ratio of it is empty, or all is written. A ratio of the whole buffer stops
//! the scan before the bus is asked for, and each such stop costs most of a revolution.
//!
//! # Sources
//! UCB/CSD 90/574 Sections 2.1 to 2.3, 4.2 (ratios, read-ahead, disconnection), 4.6 (pauses). That a stopped scan loses revolutions is
//! not stated there; it follows from a medium that turns.

use std::cell::RefCell;

use rand::RngExt;
use record::PartName;
use runtime::Random;
use units::{Duration, Instant};

use super::target::{Command, Next, Pauses, Target};
use crate::disk::mechanism::{Access, Arm, Mechanism, Run};
use crate::disk::parameters::{Parameters, Until};
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
    /// Reads a part of kind `disk` that has what a string asks of it: a table `pause`, and buffer ratios of at least one block.
    pub fn read(part: &Part) -> Result<DiskParameters, PartError> {
        let drive = Parameters::read(part)?;
        let reader = part.reader("disk")?;
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
            status: pause.get("status")?,
            status_per_block: pause.get("status-per-block")?,
        };
        pause.done()?;
        Ok(DiskParameters { drive, pauses })
    }
}

/// A disk on a bus.
pub struct ScsiDisk {
    parameters: DiskParameters,
    id: u8,
    part: PartName,
    state: RefCell<State>,
}

struct State {
    arm: Arm,
    scan: Option<Scan>,
    request: Option<Request>,
    random: Random,
}

/// The medium at work.
#[derive(Debug, Clone, Copy)]
struct Scan {
    run: Run,
    access: Access,
    /// Blocks below this have gone over the bus (read), or come over it (write).
    passed: u64,
    /// Where it stops for want of room, or of data.
    limit: u64,
    /// It stands at its limit and has lost its place.
    stopped: bool,
    /// It has ever run: a write whose seek goes on has not.
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
struct Request {
    command: Command,
    /// Blocks that have gone over the bus.
    moved: u64,
    /// A write had filled the buffer when it let go of the bus.
    filled: bool,
}

impl Request {
    fn left(&self) -> u64 {
        self.command.blocks - self.moved
    }
    fn end(&self) -> u64 {
        self.command.first + self.command.blocks
    }
}

impl Scan {
    /// One past the last block that the medium is done with.
    fn reached(&mut self, now: Instant, mechanism: &Mechanism) -> u64 {
        while !self.stopped {
            if self.limit <= self.run.after() {
                let within = self.limit.saturating_sub(self.run.first);
                if self.run.passed(within) > now {
                    break;
                }
                self.stopped = true;
                return self.limit;
            }
            if self.run.ends() > now {
                break;
            }
            match mechanism.next(&self.run, self.access) {
                Some(next) => self.run = next,
                // The end of the drive.
                None => {
                    self.limit = self.run.after();
                    self.stopped = true;
                }
            }
        }
        if self.stopped { self.limit } else { self.run.first + self.run.count_at(now) }
    }

    /// Lets it go on to a new limit.
    fn extend(&mut self, now: Instant, limit: u64, mechanism: &Mechanism) {
        let at = self.reached(now, mechanism);
        let limit = limit.min(mechanism.geometry.blocks());
        if self.stopped && limit > at {
            self.run = mechanism.run(self.run.arm, now, at, self.access);
            self.stopped = false;
        }
        self.limit = self.limit.max(limit);
    }

    /// When the medium is done with all blocks below `block`, which must not be beyond the limit.
    fn when(&self, block: u64, mechanism: &Mechanism) -> Instant {
        let mut run = self.run;
        while block > run.after() {
            run = mechanism.next(&run, self.access).expect("no one waits for blocks beyond the end of the drive");
        }
        run.passed(block.saturating_sub(run.first))
    }
}

impl ScsiDisk {
    /// A disk with its arm at cylinder 0.
    pub fn new(parameters: DiskParameters, id: u8, name: &str, seed: u64, trace: &Trace) -> ScsiDisk {
        let state =
            State { arm: Arm { cylinder: 0, head: 0 }, scan: None, request: None, random: Random::named(seed, name) };
        ScsiDisk { parameters, id, part: trace.part(name), state: RefCell::new(state) }
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u64 {
        self.parameters.drive.mechanism.geometry.blocks()
    }

    /// Its parameters.
    pub fn parameters(&self) -> &DiskParameters {
        &self.parameters
    }

    fn read_limit(&self, passed: u64, request: &Request) -> u64 {
        let room = passed + self.parameters.drive.buffer.segment_blocks;
        if self.parameters.drive.read_ahead.until != Until::Nothing { room } else { room.min(request.end()) }
    }
}

impl Target for ScsiDisk {
    fn id(&self) -> u8 {
        self.id
    }
    fn pauses(&self) -> &Pauses {
        &self.parameters.pauses
    }
    fn part(&self) -> PartName {
        self.part
    }
    fn draw(&self, least: Duration, most: Duration) -> Duration {
        Duration::nanos(self.state.borrow_mut().random.random_range(least.as_nanos()..=most.as_nanos()))
    }

    fn accept(&self, now: Instant, command: Command) -> (Duration, Next) {
        let (parameters, mechanism) = (&self.parameters, &self.parameters.drive.mechanism);
        assert!(command.first + command.blocks <= self.blocks(), "a command lies within the disk");
        let state = &mut *self.state.borrow_mut();
        assert!(state.request.is_none(), "a disk has one command at a time");
        let request = Request { command, moved: 0, filled: false };
        state.request = Some(request);
        let mut thinking = parameters.drive.overhead.request;
        // Blocks of this request that the read-ahead has, or will have without moving.
        if let Some(scan) = &mut state.scan {
            let reached = scan.reached(now, mechanism);
            let goes_on = scan.access == Access::Read && (scan.passed..=reached).contains(&command.first);
            if goes_on && !command.write {
                scan.passed = command.first;
                scan.extend(now, self.read_limit(command.first, &request), mechanism);
                let buffered = reached - command.first;
                let next = if buffered >= parameters.drive.buffer.fill_mark(command.blocks) {
                    Next::Data
                } else {
                    Next::Disconnect
                };
                return (thinking, next);
            }
            state.arm = scan.run.arm;
            if scan.access == Access::Read && !scan.stopped {
                thinking += parameters.drive.overhead.stop_read_ahead;
            }
        }
        let access = if command.write { Access::Write } else { Access::Read };
        let start = now + thinking;
        let run = mechanism.run(state.arm, start, command.first, access);
        let limit = if command.write { command.first } else { self.read_limit(command.first, &request) };
        state.scan =
            Some(Scan { run, access, passed: command.first, limit, stopped: command.write, begun: !command.write });
        (thinking, if command.write { Next::Data } else { Next::Disconnect })
    }

    fn transferable(&self, now: Instant) -> u64 {
        let state = &mut *self.state.borrow_mut();
        let (request, scan) =
            (state.request.as_ref().expect("a transfer has a request"), state.scan.as_mut().expect("and a scan"));
        if request.command.write {
            let written =
                if scan.begun { scan.reached(now, &self.parameters.drive.mechanism) } else { request.command.first };
            let held = scan.passed - written;
            request.left().min(self.parameters.drive.buffer.segment_blocks - held)
        } else {
            let buffered = scan.reached(now, &self.parameters.drive.mechanism) - scan.passed;
            request.left().min(buffered)
        }
    }

    fn transferred(&self, now: Instant, blocks: u64) {
        let mechanism = &self.parameters.drive.mechanism;
        let state = &mut *self.state.borrow_mut();
        let (request, scan) =
            (state.request.as_mut().expect("a transfer has a request"), state.scan.as_mut().expect("and a scan"));
        request.moved += blocks;
        scan.passed += blocks;
        if !request.command.write {
            scan.extend(now, self.read_limit(scan.passed, request), mechanism);
        } else if scan.begun {
            scan.extend(now, scan.passed, mechanism);
        } else {
            // The first data is here: the arm's run counts if its first sector is still to come.
            if scan.run.begins < now {
                scan.run = mechanism.run(scan.run.arm, now, request.command.first, Access::Write);
            }
            (scan.begun, scan.stopped, scan.limit) = (true, false, scan.passed);
        }
    }

    fn after_data(&self, now: Instant) -> Next {
        let state = &mut *self.state.borrow_mut();
        let request = state.request.as_mut().expect("a transfer has a request");
        if request.left() > 0 {
            request.filled = request.command.write;
            return Next::Disconnect;
        }
        if !request.command.write {
            state.request = None;
            return Next::Status;
        }
        let end = request.end();
        let scan = state.scan.as_mut().expect("a request has a scan");
        if scan.reached(now, &self.parameters.drive.mechanism) < end {
            return Next::Disconnect;
        }
        state.arm = scan.run.arm;
        (state.scan, state.request) = (None, None);
        Next::Status
    }

    fn reconnect_at(&self, now: Instant) -> Instant {
        let parameters = &self.parameters;
        let state = self.state.borrow();
        let (request, scan) = (
            state.request.as_ref().expect("a disconnected command waits"),
            state.scan.as_ref().expect("and has a scan"),
        );
        let wanted = if !request.command.write {
            scan.passed + parameters.drive.buffer.fill_mark(request.left())
        } else if request.left() == 0 {
            request.end()
        } else {
            // So many must be written that this many blocks of the buffer are empty.
            (scan.passed + parameters.drive.buffer.empty_mark(request.left()))
                .saturating_sub(parameters.drive.buffer.segment_blocks)
                .max(request.command.first)
        };
        if scan.stopped && wanted <= scan.limit {
            return now;
        }
        scan.when(wanted, &parameters.drive.mechanism).max(now)
    }

    fn after_reselection(&self, now: Instant) -> Next {
        let state = &mut *self.state.borrow_mut();
        let request = state.request.as_ref().expect("who comes back has a request");
        if request.left() > 0 {
            return Next::Data;
        }
        let scan = state.scan.as_mut().expect("a request has a scan");
        assert!(
            scan.reached(now, &self.parameters.drive.mechanism) >= request.end(),
            "a write comes back when it is on the medium"
        );
        state.arm = scan.run.arm;
        (state.scan, state.request) = (None, None);
        Next::Status
    }

    fn explain(&self, until: Instant, ledger: &mut Ledger) {
        let state = self.state.borrow();
        let Some(scan) = &state.scan else { return };
        let run = &scan.run;
        let turned = Instant::from_nanos(run.begins.as_nanos() - run.rotation.as_nanos());
        if turned > ledger.at() {
            ledger.until(turned.min(until), self.part, "seek");
        }
        if run.begins > ledger.at() {
            ledger.until(run.begins.min(until), self.part, "rotation");
        }
        ledger.until(until, self.part, "media");
    }
}
