//! Ways that carry packets: point-to-point links and what joins them, as in machines of today.
//!
//! ```text
//!   route     the links from a node to memory, and a transfer over all of them
//!   pcie      a root complex, and a switch with its uplink
//!   sas       a host bus adapter, and an expander behind a wide port
//!   drive     a drive at the end of such a way: command, medium, data, completion
//!   medium    what is in the drive: a disk with its queue, flash, or a disk whose times are drawn (`drawn`)
//! ```
//!
//! # Theory
//! A link has a rate in each direction. A packet of `p` bytes of data carries `h` bytes besides, so that data pass at
//! `rate * p / (p + h)`: an efficiency of 0.91 for 256 bytes behind 24, and 0.73 for 64. A link also lets only so many
//! bytes be under way that nobody has acknowledged (credits, buffers): over a way of latency `l` there and back that
//! bounds it to `credits / l`, whichever is less.
//!
//! Transfers are flows over all links between drive and memory at once ([`crate::flow`]): each link's share of time is
//! what it is used for, and who shares a full one gets a max-min fair part of it, as round-robin arbitration of packets
//! gives in the long run. What one packet does is not simulated.
//!
//! # Rejected
//! Packets as events: a request of 1 MiB would cost 4096 of them on each link, for the same rates. Store and forward of
//! whole transfers, link by link: a switch forwards a packet when its header is there.

pub mod drawn;
pub mod drive;
pub mod medium;
pub mod pcie;
pub mod route;
pub mod sas;
