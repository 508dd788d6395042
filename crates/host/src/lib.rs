//! The machine in front of us.
//!
//! A measurement is a sentence about a machine, so it begins by saying which: what the path under load stands on
//! ([`topology`]), how much of a file its medium stores at all ([`hollow`]), which parts it shares with the others
//! ([`level`]), who limits it ([`throttle`]), what the processors did meanwhile ([`cpu`]), what care was taken
//! ([`precaution`]), which way requests took through the kernel ([`tracefs`]) and what else a reader must know
//! ([`environment`]). And before anything is written, [`guard`] decides whether it may be: the type
//! [`guard::WritePermit`] can be made nowhere else, so code that writes to a path of the user's must have asked.
//!
//! Besides `uring` and the live half of `runtime`, this is the only crate that knows the kernel. It reads `/sys` and
//! `/proc` through a [`Kernel`], which may as well be the recorded tree of another machine; it runs no programs.

pub mod block;
mod claim;
pub mod clock;
pub mod cpu;
pub mod disks;
pub mod environment;
pub mod frequency;
pub mod group;
pub mod guard;
pub mod hardware;
pub mod hollow;
pub mod identity;
pub mod interrupts;
pub mod kernel;
pub mod level;
mod limit;
mod made;
mod magic;
pub mod memory;
pub mod mount;
pub mod neighbours;
pub mod partition;
pub mod patience;
pub mod precaution;
pub mod pressure;
pub mod processor;
mod refusal;
pub mod shell;
pub mod signature;
pub mod store;
mod task;
pub mod thread_use;
pub mod throttle;
pub mod topology;
pub mod tracefs;
pub mod usage;

pub use kernel::Kernel;
pub use refusal::Refusal;
