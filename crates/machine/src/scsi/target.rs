//! What a device does when it is spoken to.
//!
//! A target is passive: the protocol asks it what it wants next and tells it what has happened. It never waits; it says
//! until when. So any kind of device (a disk with a buffer, one without, a diskless array) can hang on any bus.

use record::PartName;
use units::{Bytes, Duration, Instant};

use crate::trace::Ledger;

/// The transfer unit between target and initiator.
pub const BLOCK: Bytes = Bytes::SECTOR;

/// What the initiator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Data out.
    pub write: bool,
    /// Address of the first block.
    pub first: u64,
    /// How many blocks. Not zero.
    pub blocks: u64,
}

impl Command {
    /// How much it moves.
    pub fn bytes(&self) -> Bytes {
        BLOCK * self.blocks
    }

    /// It in pieces of at most `most`, which is not less than a block.
    pub fn pieces(self, most: Bytes) -> impl Iterator<Item = Command> {
        let (most, end) = (most / BLOCK, self.first + self.blocks);
        (0..self.blocks.div_ceil(most)).map(move |index| {
            let first = self.first + index * most;
            Command { first, blocks: most.min(end - first), ..self }
        })
    }
}

/// What the target wants next while it has the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// To move data now.
    Data,
    /// To let go of the bus until [`Target::reconnect_at`].
    Disconnect,
    /// To report that all is done.
    Status,
}

/// How long the target's own processor takes for the steps of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pauses {
    /// Before it asks for the identify message.
    pub identify: Duration,
    /// Before it asks for the first data byte of a tenure, least and most.
    pub first_data: (Duration, Duration),
    /// Before it asks to save the pointer, least and most.
    pub save_pointer: (Duration, Duration),
    /// Before it lets go of the lines when it disconnects with data to be written.
    pub release_writing: Duration,
    /// After each block of data, least and most; drawn once for each command.
    pub block: (Duration, Duration),
    /// And so much more while its medium fills the buffer ([`Target::fills`]).
    pub block_filling: Duration,
    /// Before the status phase, and more for each block of the request.
    pub status: Duration,
    /// See [`Pauses::status`].
    pub status_per_block: Duration,
    /// It lets go of the bus before it thinks about a read.
    pub thinks_off_bus: bool,
    /// What it keeps the bus for then, as the first part of its thinking.
    pub command: Duration,
}

/// A device at the other end of the bus.
pub trait Target {
    /// Its address.
    fn id(&self) -> u8;
    /// How long its processor takes.
    fn pauses(&self) -> &Pauses;
    /// A pause between `least` and `most`.
    fn draw(&self, least: Duration, most: Duration) -> Duration;
    /// A command has arrived. Gives how long the target thinks about it, and what it wants then.
    fn accept(&self, now: Instant, command: Command) -> (Duration, Next);
    /// How many blocks it can move at this instant.
    fn transferable(&self, now: Instant) -> u64;
    /// At this instant its medium fills the buffer that it sends from.
    fn fills(&self, _now: Instant) -> bool {
        false
    }
    /// So many blocks have moved.
    fn transferred(&self, now: Instant, blocks: u64);
    /// It can move nothing at this instant, but keeps the bus until it can, at the instant given; nothing if it lets
    /// go.
    fn holds_until(&self, _now: Instant) -> Option<Instant> {
        None
    }
    /// What it wants when it can move no more at this instant.
    fn after_data(&self, now: Instant) -> Next;
    /// When it wants the bus back.
    fn reconnect_at(&self, now: Instant) -> Instant;
    /// What it wants when it has the bus back.
    fn after_reselection(&self, now: Instant) -> Next;
    /// Accounts for the time up to `until`, in which it was disconnected.
    fn explain(&self, until: Instant, ledger: &mut Ledger);
    /// Its number in spans.
    fn part(&self) -> PartName;
}
