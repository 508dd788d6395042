//! SCSI: the bus that disks and adapters share, phase by phase.
//!
//! ```text
//!   phase      what the analyzer sees on the control lines, and how long of it
//!   string     the bus itself: who has it, and who gets it next
//!   target     what a disk does when it is spoken to
//!   protocol   one command from arbitration to completion, with every disconnection between
//!   disk       a drive of `crate::disk`, as a target
//!   attached   such a disk where it hangs
//! ```
//!
//! # Sources
//! The phases, their order and the arbitration by address are those of the SCSI-1 standard (ANSI X3.131-1986) as the
//! RAID-I study (UCB/CSD 90/574, Section 2.3) retells them. All delays are parameters of the parts.

pub mod attached;
pub mod disk;
pub mod phase;
pub mod protocol;
pub mod string;
pub mod target;
