//! The machine in front of us.
//!
//! A measurement is a sentence about a machine, so it begins by saying which: what the path under load stands on
//! ([`topology`]) and which parts it shares with the others ([`level`]).
//!
//! Besides `uring` and the live half of `runtime`, this is the only crate that knows the kernel. It reads `/sys` and `/proc`
//! through a [`Kernel`], which may as well be the recorded tree of another machine; it runs no programs.

pub mod block;
pub mod hardware;
pub mod kernel;
pub mod level;
mod magic;
pub mod mount;
pub mod signature;
pub mod topology;

pub use kernel::Kernel;
