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
}
