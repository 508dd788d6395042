//! A whole drive: mechanism, buffer and controller.
//!
//! # What is modelled
//! A command is processed for its overhead, which depends on what it is, what it finds in the buffer, and what the
//! command before was. A read that is not in the buffer stops whatever the arm did, positions, and fills a segment from
//! the medium while the bus empties it; then the drive reads on by itself. A write goes into the buffer over the bus
//! and from there to the medium; it is complete at the one or at the other. Bus and medium work at the same time, and
//! both are straight lines in time, so a transfer costs a few operations for each track it touches and none for each
//! sector.
//!
//! On a string, whose bus others want as well, the same drive is asked step by step (`steps.rs`).
//!
//! # Where the rules come from
//! The parameters are those of DiskSim's drive files, and their meaning is that of its manual (CMU-PDL-08-101,
//! "Disks"). Where the six measured drives of the validation contradict the way in which DiskSim 4.0 reads them, and a
//! mechanism explains it, the mechanism is modelled, for all drives alike:
//!
//! - **A full segment is a pause, not an end** (`read.rs`). Blocks that the host has taken make room, so the read-ahead
//!   goes on after each hit until another command needs the arm; where "Read-ahead on idle hit" is set, a hit also
//!   calls the arm back. DiskSim ends a read-ahead for good unless it is set, and then finds blocks in the buffer that
//!   the real drives had overwritten.
//! - **Data first** (`write.rs`). A write does not start on the medium before its data are in the buffer. DiskSim
//!   starts as soon as the first sector is there, and then hits sectors that the real drives, still waiting for the
//!   host, had to let pass for a revolution.
//! - **A track that is read is read whole** (`ahead.rs`), in drives that keep what passes before the requested blocks.
//! - **A stream is read on to the end of the next track** (`ahead.rs`), in drives whose read-ahead ends with the track.
//!
//! What was found and not used, because the drive files say otherwise or nothing: the overheads and bus times of the
//! three SCSI drives that were extracted automatically are off by up to 0.4 ms; dec_rz26 takes 4 to 6 ms longer for
//! writes after seeks of 150 to 750 cylinders, but not for reads and not after longer seeks; barracuda's head switch
//! takes as long as its skews say (1.3 ms), not the 0.1 ms of the file. Reads of barracuda, cheetah4LP
//! and dec_rz26 end later than if each sector went on its way as it comes: with pieces of 4 KiB (`buffer.piece`, which
//! a part file may say) their demerits are 0.229, 0.232 and 0.266 ms. No value of a drive file says which drives do so.
//! The 4 KiB were in use once, chosen by those scores, and made three of five drives worse that nobody had looked at.

mod ahead;
mod destage;
mod read;
mod scan;
mod steps;
mod write;

use units::{Duration, Instant};

use super::cache::Segments;
use super::geometry::Extent;
use super::mechanism::{Access, Arm, Mechanism, Run};
use super::parameters::Parameters;
use ahead::Background;
use destage::Dirty;
use steps::Open;

/// What the host asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Read or write.
    pub access: Access,
    /// The first block.
    pub block: u64,
    /// How many; at least one.
    pub blocks: u64,
    /// A write that is complete when it is on the medium, whatever the drive does otherwise ("force unit access").
    pub through: bool,
}

impl Request {
    /// Of `blocks` from `block` on.
    pub const fn new(access: Access, block: u64, blocks: u64) -> Request {
        Request { access, block, blocks, through: false }
    }
    /// One past the last block.
    pub const fn after(&self) -> u64 {
        self.block + self.blocks
    }
}

/// What became of a request in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A read whose blocks were all in the buffer.
    Hit,
    /// A read whose first blocks were in the buffer.
    PartialHit,
    /// A read from the medium.
    Miss,
    /// A write that was complete when it was in the buffer.
    Buffered,
    /// A write that was complete when it was on the medium.
    Through,
}

impl Outcome {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Hit => "hit",
            Outcome::PartialHit => "partial hit",
            Outcome::Miss => "miss",
            Outcome::Buffered => "buffered",
            Outcome::Through => "through",
        }
    }
}

/// What the model thinks happened to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// When the host has the completion.
    pub completes: Instant,
    /// What the buffer made of it.
    pub outcome: Outcome,
    /// Command processing.
    pub command: Duration,
    /// Waiting, after that, for the arm or the buffer to be free.
    pub waiting: Duration,
    /// Cylinders crossed to the first block.
    pub cylinders: u32,
    /// The positioning to the first block.
    pub seek: Duration,
    /// The first sector coming round.
    pub rotation: Duration,
    /// From then until the last block is over the bus or on the medium; for hits the transfer over the bus.
    pub transfer: Duration,
    /// When the mechanism has done what the request wants of it before it is complete.
    pub arm_free: Instant,
}

/// A drive: on a bus of its own a request is served at once ([`Drive::serve`]), on one that others share in steps
/// ([`Drive::open`]).
#[derive(Debug, Clone)]
pub struct Drive {
    parameters: Parameters,
    segments: Segments,
    /// The segment that only writes use, if one is set apart.
    write_segment: Option<usize>,
    arm: Arm,
    background: Background,
    /// What has been written and waits for the arm.
    dirty: Vec<Dirty>,
    /// Up to when it has been decided whether the idle arm destages.
    looked: Instant,
    /// Since when the arm is free, if it waits for data that are on their way.
    held: Option<Instant>,
    /// A command whose data move in steps.
    open: Option<Open>,
    /// One past what the request before asked to read.
    asked: Option<u64>,
    /// The last request read on where the one before it had ended.
    streams: bool,
    /// The request before.
    last: Access,
    /// When the bus is free of what was transferred before.
    bus_free: Instant,
}

/// A command that the controller turns to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub request: Request,
    /// When the drive received it.
    pub arrived: Instant,
    /// When the controller turned to it: at once, or after what was queued before.
    pub taken: Instant,
}

impl Command {
    /// When it has been processed, which may have gone on while it was queued.
    fn processed(&self, overhead: Duration) -> Instant {
        (self.arrived + overhead).max(self.taken)
    }

    /// The same, once the drive has received it, which takes `overhead`.
    fn received(&self, overhead: Duration) -> Command {
        Command { arrived: self.arrived + overhead, taken: self.processed(overhead), ..*self }
    }
}

impl Drive {
    /// A drive at rest on cylinder 0 with an empty buffer.
    pub fn new(parameters: Parameters) -> Drive {
        let buffer = &parameters.buffer;
        let segments = Segments::new(buffer.segments, buffer.segment_blocks);
        let write_segment = (buffer.separate_write_segment && buffer.segments > 1).then_some(0);
        let arm = Arm { cylinder: 0, head: 0 };
        let (background, last, bus_free) = (Background::Nothing, Access::Read, Instant::START);
        Drive {
            parameters,
            segments,
            write_segment,
            arm,
            background,
            dirty: Vec::new(),
            looked: Instant::START,
            held: None,
            open: None,
            asked: None,
            streams: false,
            last,
            bus_free,
        }
    }

    /// Its parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Serves a request that arrives at `now`, with no other under way. Instants must not go backwards.
    ///
    /// Panics if blocks do not exist.
    pub fn serve(&mut self, now: Instant, request: Request) -> Service {
        self.take(Command { request, arrived: now, taken: now })
    }

    /// Serves a request that arrived before the drive turns to it. Neither instant must go backwards.
    pub(super) fn take(&mut self, command: Command) -> Service {
        let request = command.request;
        assert!(self.open.is_none(), "a drive whose command is open serves no other");
        self.check(&request);
        let command = command.received(self.parameters.overhead.request);
        self.catch_up(command.taken);
        self.follow(&request);
        let service = match request.access {
            Access::Read => self.read(command),
            Access::Write if self.destages(&request) => self.write_to_buffer(command),
            Access::Write => self.write(command),
        };
        self.last = request.access;
        self.bus_free = service.completes;
        service
    }

    /// Notes whether a request reads on.
    fn follow(&mut self, request: &Request) {
        let reads = request.access == Access::Read;
        self.streams = reads && self.asked == Some(request.block);
        self.asked = reads.then_some(request.after());
    }

    fn check(&self, request: &Request) {
        assert!(request.blocks > 0, "a request asks for at least one block");
        assert!(request.after() <= self.mechanism().geometry.blocks(), "a request lies within the drive");
    }

    /// Brings what the drive does by itself up to `now`.
    pub(super) fn catch_up_with(&mut self, now: Instant) {
        self.catch_up(now);
    }

    /// Writes to the medium all that it has said to be written: when that is done.
    pub fn flush(&mut self, now: Instant) -> Instant {
        self.catch_up(now);
        match self.background {
            _ if !self.dirty.is_empty() => self.destage_all(now),
            Background::Writing { until } => until.max(now),
            Background::Nothing | Background::Reading(_) => now,
        }
    }

    /// Where the arm is, or will be when it has done what it must.
    pub fn arm(&self) -> Arm {
        match &self.background {
            Background::Reading(ahead) => ahead.run.arm,
            Background::Nothing | Background::Writing { .. } => self.arm,
        }
    }

    /// How long from now, `command.taken`, until the first sector of a waiting request can be read or written, if the
    /// arm may set out at `free` ([`Drive::free_for_another`]); nothing if the buffer will do. A sector that passes
    /// before the data to be written are there does not count: the drive would lose a revolution.
    ///
    /// `extent` must be that of the request's first block.
    pub(super) fn reach(&self, command: &Command, free: Instant, extent: &Extent) -> Duration {
        let (request, now) = (&command.request, command.taken);
        let command = command.received(self.parameters.overhead.request);
        let at = match request.access {
            Access::Read if self.find(request).is_some() => now,
            Access::Read => {
                let (positioning, rotation) = self.mechanism().reach(extent, self.arm(), free, request.access);
                free + positioning + rotation
            }
            Access::Write if self.destages(request) && self.has_room() => now,
            Access::Write if self.destages(request) => {
                self.could_destage(command.processed(self.write_overhead(true)), request, free, *extent)
            }
            Access::Write => self.could_write(&command, free, extent),
        };
        at.since(now)
    }

    fn mechanism(&self) -> &Mechanism {
        &self.parameters.mechanism
    }

    /// A run whose first sector may pass from `free` on, and each further one a `pace` later, because the bus has to
    /// bring its data or take those away whose room it needs. It comes whole revolutions later if it must, and is cut
    /// off where the heads would overtake the bus.
    fn paced(&self, run: Run, free: Instant, pace: Duration) -> Run {
        let late = free.saturating_since(run.begins);
        let period = self.mechanism().spindle.period();
        let mut run =
            if late.is_zero() { run } else { run.later(period * late.as_nanos().div_ceil(period.as_nanos())) };
        let pace = pace.as_nanos() << 20;
        if pace > run.step {
            let lead = run.begins.since(free).as_nanos() << 20;
            let most = lead / (pace - run.step) + 1;
            if most < run.blocks {
                (run.blocks, run.passed_before) = (most, 0);
            }
        }
        run
    }
}
