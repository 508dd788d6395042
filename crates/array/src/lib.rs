//! RAID, written once: the same code on real devices, on modelled ones and under simulated faults.
//!
//! The crate names no clock, no file and no thread. [`Array`] is generic over [`device::Device`] and is one itself; it
//! asks its runtime for nothing but tasks and timers, and so cannot tell a disk from a simulation of one. [`geometry`]
//! says where things lie, [`md`] what Linux keeps on the members about it.
//!
//! # What holds
//! - Data that were acknowledged can be read as long as no more members are lost than the level survives.
//! - Two writes to one unit never mix: the second begins when the first has reached all members. Those that overlap are
//!   carried out in the order in which they came.
//! - A member that did not take a write is used no more, unless it had no room: then the write fails, and is taken
//!   back. A sector that could not be read is computed, and written again.
//! - Nothing is ever read from a member whose contents may be stale.
//! - With checksums: nothing is given that is not what was written, be the member sure of it or not.

pub mod areas;
mod array;
mod bad;
mod copies;
mod count;
pub mod creation;
mod few;
pub mod force;
mod format;
mod gather;
pub mod geometry;
mod grow;
mod integrity;
mod intent;
mod joint;
mod journal;
mod lock;
pub mod md;
mod member;
mod misfit;
mod open;
mod order;
mod pace;
mod place;
mod ppl;
mod ranges;
mod rarely;
mod read;
mod readd;
mod recover;
mod resync;
mod rival;
mod room;
mod roster;
mod settings;
mod small;
mod spare;
pub mod standing;
mod state;
mod stripe;
mod tend;
mod timeout;
mod toll;
mod twin;
mod unreadable;
mod unsynced;
mod upkeep;
mod walk;
mod zero;

pub use array::{Array, AssembleError};
pub use format::format;
pub use grow::GrowError;
pub use integrity::area::checksum_room;
pub use integrity::grow::checksum_area;
pub use integrity::{ChecksumReport, add_checksums, checksums_of};
pub use member::{MemberCounts, MemberState};
pub use misfit::Misfit;
pub use open::{OpenError, OpenOptions, geometry_of};
pub use pace::Progress;
pub use place::MemberLayout;
pub use settings::{SetError, Settings};
pub use toll::ParityWork;
pub use upkeep::{Repair, Scrubbed};
pub use zero::{Mark, erase, marks};
