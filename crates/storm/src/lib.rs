//! Storms: the array's own code under the virtual clock, on members in memory that lose power, sectors, requests and
//! themselves, held to its word by an oracle.
//!
//! Three ways of looking for a broken promise:
//!
//! - A [`storm`] is a seed: an array, clients that write, flush and read, and what befalls the members meanwhile; then
//!   the power goes, or the array is stopped, and it is opened again from what is left, several times over.
//!   [`campaign`] runs many.
//! - [`exhaustive`] leaves nothing to chance: every short sequence of writes on an array of two stripes, and every
//!   state in which a power cut can leave its members.
//!
//! - A [`Scenario`] is one of the ways in which an array is known to break, brought about on purpose.
//!
//! The [`Oracle`] keeps for each sector the values that may be there: the newest that was made durable, and all later
//! ones. What is read must be one of them. (The method is that of CrashMonkey and of TigerBeetle's simulator; the
//! faults are those of ZFS's `zinject`.)
//!
//! A search that finds nothing must not be one that looks at nothing: a [`Bug`] breaks a promise in the array's name,
//! by a disk that cheats, and tests prove that each is caught.

mod bug;
mod campaign;
mod client;
mod disk;
pub mod exhaustive;
mod growth;
mod levels;
mod oracle;
mod outage;
mod recovery;
mod returned;
mod scenario;
mod shortage;
mod storm;
mod story;
mod world;

pub use bug::Bug;
pub use campaign::{Report, Violation, campaign};
pub use disk::Disk;
pub use levels::{Choice, UnknownLevel, levels};
pub use oracle::{Oracle, sectors_of};
pub use scenario::{SCENARIOS, Scenario};
pub use storm::{Broken, Outcome, replay, storm};
