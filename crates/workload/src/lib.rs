//! What is asked of storage.
//!
//! A [`Stream`] says which requests one source of load makes on one device: where ([`Pattern`], [`Skew`]), how large
//! ([`Sizes`]), reads or writes ([`Mix`]), and when ([`Load`]). A [`Generator`] turns it into a sequence of requests,
//! the same for the same seed. A [`Drive`] issues that sequence on a [`device::Device`] and hands a [`record::Row`] for
//! each request to an [`Observer`]; a [`Replay`] does so with the requests of a trace.
//!
//! This crate names no clock, no file and no thread: the same code loads a disk in real time and a modelled disk in
//! virtual time. Everything that decides *what* is asked is pure and can be tested without a device.
//!
//! # Closed and open loops
//!
//! A closed loop keeps a number of requests under way (`depth`) and asks for the next when one completes and the think
//! time is over; a slow device slows the asking down. An open loop asks at times that do not depend on the device; if
//! it falls behind, requests wait, *and their wait counts*, because response times are measured from the intended
//! arrival. Measuring from submission instead hides the queue ("coordinated omission"): fio reports 102 ms where the
//! backlog reaches seconds.

mod arrival;
mod behind;
mod content;
mod context;
mod control;
mod cover;
mod cursor;
mod drive;
mod generator;
mod lanes;
mod ledger;
mod mismatch;
mod pattern;
mod permutation;
mod priority;
mod replay;
mod rules;
mod search;
mod serial;
mod size;
mod skew;
mod stamp;
mod step;
mod stream;
mod sweep;
mod tables;
mod throttle;

pub use arrival::{Arrivals, Clockwork, Distances};
pub use behind::ReadBehind;
pub use content::Content;
pub use context::{Context, Heap, Memory, Observer, OnError, Phantoms, Tally};
pub use control::{Control, Limits};
pub use drive::Drive;
pub use generator::{Ask, Generator, Next};
pub use ledger::{Extent, Ledger, Written};
pub use mismatch::{Findings, Kind, Mismatch};
pub use pattern::{Jump, Pattern, Zoned};
pub use permutation::Permutation;
pub use priority::{Drawn, Priorities};
pub use replay::{Due, Replay, Script};
pub use rules::{Figure, Flow, Least, Limit, Rules, Settling};
pub use search::{Search, Searched};
pub use size::Sizes;
pub use skew::{Law, Skew, Space, Zone};
pub use stamp::{Filling, Stamp, Version};
pub use step::LockStep;
pub use stream::{Discards, Fill, Flushes, Known, Load, Mix, Region, Share, Stream, StreamError, Verify};
pub use sweep::sweep;
pub use throttle::{RateLimit, Throttle};
