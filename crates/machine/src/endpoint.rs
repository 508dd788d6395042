//! What carries out commands: a disk behind an adapter, a drive behind packet links, a controller with drives of its
//! own.
//!
//! The operating system knows endpoints by this interface alone, so that every kind of drive works on every kind of
//! path. An endpoint's command goes from the moment in which the driver has handed it over until the interrupt that
//! says that it is complete; all that lies in between, data included, is the endpoint's.

use std::pin::Pin;

use units::{Bytes, Duration};

use crate::lines::Lines;
use crate::scsi::protocol::Passage;
use crate::scsi::target::Command;
use crate::trace::Ledger;

/// A command under way.
pub type Executing<'a> = Pin<Box<dyn Future<Output = Passage> + 'a>>;

/// Who carries out commands.
pub trait Endpoint {
    /// How much it stores.
    fn size(&self) -> Bytes;
    /// How many commands it works on at a time; others wait.
    fn depth(&self) -> u32;
    /// Carries out a command, up to the interrupt. `lines` says what DMA finds in the host's cache.
    fn execute<'a>(&'a self, command: Command, lines: Lines, ledger: &'a mut Ledger) -> Executing<'a>;
    /// For how long the host's processor stands still while it writes a word to its registers.
    fn register_word(&self) -> Duration;
    /// For how long it had a command.
    fn busy(&self) -> Duration;
    /// Its tracks, where who asks may know them.
    fn tracks(&self) -> Option<Tracks> {
        None
    }
    /// The drive, if its driver positions it before it has data moved.
    fn positioned(&self) -> Option<&dyn Positioned> {
        None
    }
}

/// The tracks of a drive, as a file system is told of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracks {
    /// Sectors of a track.
    pub sectors: u64,
    /// Tracks of a cylinder.
    pub heads: u64,
    /// Cylinders.
    pub cylinders: u64,
    /// Whole turns a second, as the system's table of disks has them.
    pub turns: u64,
}

/// A drive that its driver positions.
pub trait Positioned {
    /// Whether the arm is on the cylinder of a block.
    fn same_cylinder(&self, block: u64) -> bool;
    /// The sector that passes now.
    fn passes(&self) -> u64;
    /// Positions the arm for a block, and ends when the sector so many before it begins to pass.
    fn search<'a>(&'a self, block: u64, lead: u64, ledger: &'a mut Ledger) -> Executing<'a>;
}
