//! Everything that makes one drive differ from another, as its part file says it.

mod read;

use rand::RngExt;
use runtime::Random;
use units::{Bytes, Duration, Frequency, Rate, Ratio};

use super::mechanism::Mechanism;
use super::rotation::Spindle;

/// The parameters of a drive.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Maker and model.
    pub name: String,
    /// The moving parts, at nominal speed.
    pub mechanism: Mechanism,
    /// Nominal speed.
    pub speed: Frequency,
    /// How far a drive's speed may be off the nominal, either way.
    pub speed_error: Ratio,
    /// The bus.
    pub bus: Bus,
    /// The buffer and its segments.
    pub buffer: Buffer,
    /// Reading on after a request.
    pub read_ahead: ReadAhead,
    /// How writes are done.
    pub write: Write,
    /// What the controller takes its time for.
    pub overhead: Overhead,
    /// The command queue.
    pub queue: Queue,
}

/// Time of one 512-byte block on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bus {
    /// From the drive.
    pub read_block: Duration,
    /// To the drive.
    pub write_block: Duration,
}

impl Bus {
    /// Bytes a second of the slower direction, if the bus takes any time.
    pub fn rate(&self) -> Option<Rate> {
        let block = self.read_block.max(self.write_block);
        (!block.is_zero()).then(|| Rate::bytes_per_second(Bytes::SECTOR.get() as f64 / block.as_seconds()))
    }
}

/// The buffer: segments of one size, each holding consecutive blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Buffer {
    /// How many segments.
    pub segments: u32,
    /// Blocks of a segment.
    pub segment_blocks: u64,
    /// Segments that may hold written data at one time.
    pub write_segments: u32,
    /// One segment is kept for writes.
    pub separate_write_segment: bool,
    /// Segments keep their blocks after the transfer.
    pub caching: bool,
    /// Reads may hit written blocks.
    pub read_hits_on_written: bool,
    /// A read whose first block is the one that the read-ahead is reading counts as a hit.
    pub hit_on_block_being_read: bool,
    /// A read asks for the bus when this share is in the buffer.
    pub read_fill: Ratio,
    /// It does not before so many blocks, or what is left of the request, are there; nor again when the buffer has run
    /// dry.
    pub piece: u64,
    /// A write that had filled the buffer asks for the bus again when this share is empty. Only on a bus that others
    /// share (`scsi`): alone, the bus brings each block as soon as there is room.
    pub write_empty: Ratio,
    /// A read that has sent all there is keeps the bus if its next block comes within so long. Only on a bus that
    /// others share.
    pub hold: Duration,
    /// The shares are of the request (but at most the segment), not of the segment.
    pub marks_by_request: bool,
    /// The bus is held from command to completion.
    pub never_disconnect: bool,
    /// A read with its first blocks in the buffer transfers them at once.
    pub partial_hit_at_once: bool,
}

impl Buffer {
    /// Blocks of a read that must be in the buffer before the drive asks for the bus: the smaller of the mark and what
    /// is left.
    pub fn fill_mark(&self, left: u64) -> u64 {
        let whole = if self.marks_by_request { left.min(self.segment_blocks) } else { self.segment_blocks };
        // DiskSim rounds the share of a request down and that of a segment up.
        let mark = whole as f64 * self.read_fill.get();
        let mark = if self.marks_by_request { mark.floor() } else { mark.ceil() };
        (mark as u64).max(self.piece).min(left)
    }

    /// Blocks of the buffer that a write which had filled it finds empty when the drive asks for the bus again: at
    /// least one, and no more than are left.
    pub fn empty_mark(&self, left: u64) -> u64 {
        ((self.segment_blocks as f64 * self.write_empty.get()).round() as u64).max(1).min(left)
    }

    /// Blocks that the bus takes last when it is faster than the medium: those that it waited for after it had emptied
    /// the buffer.
    pub fn last_piece(&self, blocks: u64) -> u64 {
        match blocks - self.fill_mark(blocks) {
            0 => blocks,
            more => (more - 1) % self.piece + 1,
        }
    }
}

/// How far a drive reads on after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Nothing,
    /// To the end of the request's last track.
    Track,
    /// To the end of the request's last cylinder.
    Cylinder,
    /// The same after a request for other blocks than those behind the one before; after one that went on, until the
    /// segment is full.
    CylinderAtFirst,
    /// Until the segment is full.
    Segment,
    /// To the end of the track; to the end of the next one if the segment shows that the track before was read.
    NextTrack,
}

/// Blocks of the request itself, once they have been given to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requested {
    /// They stay; the read-ahead stops before it would overwrite them.
    Kept,
    /// The read-ahead overwrites them when the segment is full.
    Overwritten,
    /// They leave the segment at once.
    Dropped,
}

/// Reading on after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAhead {
    /// How far.
    pub until: Until,
    /// Blocks that are read on before another request is served.
    pub least: u64,
    /// Blocks that are read on at most; 0 for no limit but the segment.
    pub most: u64,
    /// What becomes of the request's own blocks.
    pub requested: Requested,
    /// A full hit starts it again.
    pub on_hit: bool,
    /// Blocks of the track that pass before the request's first are kept too.
    pub any_free_blocks: bool,
    /// Blocks are taken in the order in which they pass.
    pub zero_latency: bool,
    /// It stops within a sector; otherwise at the next sector's start.
    pub stops_in_sector: bool,
    /// The arm goes to cylinder 0 and from there to the blocks of a read that goes on beyond the cylinder where the
    /// read-ahead stopped.
    pub recalibrates: bool,
}

/// When a write is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBack {
    /// When it is on the medium.
    Never,
    /// When it is in the buffer; another request waits until it is on the medium, unless it is a write that goes on
    /// behind it.
    Appending,
    /// When it is in the buffer, also between other requests.
    Always,
}

/// When the arm may leave for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preseek {
    /// When the host has the completion.
    AfterCompletion,
    /// When the completion is on its way.
    DuringCompletion,
    /// When the last block has been read or written.
    BeforeCompletion,
}

/// How writes are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// When they are complete.
    pub back: WriteBack,
    /// Blocks that must be in the buffer before the medium is written; nothing for all of the request, or as many as
    /// fit.
    pub first: Option<u64>,
    /// A write that goes on behind another shares its segment.
    pub combine: bool,
    /// Blocks are written in the order in which they pass.
    pub zero_latency: bool,
    /// The bus is released between command and data.
    pub extra_disconnect: bool,
    /// A write that does not go on behind another waits at least so long before it reaches the medium.
    pub least_seek: Duration,
    /// When the arm may leave.
    pub preseek: Preseek,
}

/// What the controller takes its time for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is the time of what its name says, after a request of the named kind
pub struct Overhead {
    pub request: Duration,
    pub stop_read_ahead: Duration,
    pub read_hit_after_read: Duration,
    pub read_hit_after_write: Duration,
    pub read_miss_after_read: Duration,
    pub read_miss_after_write: Duration,
    pub write_hit_after_read: Duration,
    pub write_hit_after_write: Duration,
    pub write_miss_after_read: Duration,
    pub write_miss_after_write: Duration,
    pub read_completion: Duration,
    pub write_completion: Duration,
    pub data_preparation: Duration,
    pub first_reselect: Duration,
    pub other_reselect: Duration,
    pub read_disconnect_after_read: Duration,
    pub read_disconnect_after_write: Duration,
    pub write_disconnect: Duration,
    pub extra_command: Duration,
    pub extra_disconnect: Duration,
    pub extra_between: Duration,
    pub extra_second_disconnect: Duration,
    pub extra_seek: Duration,
}

/// Which waiting request comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The oldest.
    Fcfs,
    /// The nearest cylinder.
    Sstf,
    /// Up to the last, down to the first, and so on.
    Scan,
    /// Up to the last, then back to the first.
    CLook,
    /// The one whose first sector can be reached soonest.
    Sptf,
}

/// The command queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Requests that the drive takes at a time.
    pub depth: u32,
    /// The order in which it serves them.
    pub policy: Policy,
    /// A request that has waited for longer is served next, whatever the policy says.
    pub age_limit: Option<Duration>,
}

impl Parameters {
    /// The parameters of one specimen: its speed differs from the nominal by a share drawn evenly within the speed
    /// error.
    #[must_use]
    pub fn drawn(mut self, random: &mut Random) -> Parameters {
        let error = self.speed_error.get();
        let factor = 1.0 + random.random_range(-error..=error);
        self.mechanism.spindle = Spindle::new(Frequency::per_second(self.speed.get() * factor));
        self
    }
}
