//! Devices that stand in front of devices.
//!
//! Each filter changes one thing and is itself a [`Device`](crate::Device), so they stack in any order and in front of
//! anything:
//!
//! ```
//! # use device::{Device, MemoryDevice, Request, Shape, filter::{Delay, Latency, Link, Limited, Arbitration}};
//! # use runtime::Runtime;
//! # use units::{Bytes, Duration, Rate};
//! # let runtime = Runtime::simulated();
//! // Two disks of 8 ms that share a bus of 5 MB/s.
//! let bus = Link::new(&runtime, Rate::bytes_per_second(5e6), Arbitration::FirstCome);
//! let disk = |name, seed| {
//!     let disk = MemoryDevice::new(&runtime, Shape::new(name, Bytes::mib(1)));
//!     Limited::new(Delay::new(&runtime, disk, Latency::Fixed(Duration::millis(8)), seed), &bus)
//! };
//! let disks = [disk("a", 1), disk("b", 2)];
//! # runtime.block_on(async { disks[0].submit(Request::flush()).await.result.unwrap(); });
//! ```
//!
//! The order says what is modelled: a delay behind a limit is a disk behind a bus, a fault in front of a write cache is
//! a bad cable, a fault behind it a bad medium. All filters work under either clock; none keeps payload that it does
//! not need.
//!
//! A filter's reply carries the filter's own stamps: the time of everything behind it and its own.

mod backed;
mod crash;
mod delay;
mod fault;
mod limit;
mod link;
mod medium;
mod overlay;
mod record;
mod slice;
mod slow;
mod thin;

pub use backed::Backed;
pub use crash::{Unflushed, WriteCache};
pub use delay::{Delay, Latency};
pub use fault::{Effect, Faulty, Rule};
pub use limit::Limited;
pub use link::{Arbitration, Link};
pub use medium::{Damage, Medium};
pub use overlay::Overlay;
pub use record::{Event, Recorder};
pub use slice::{Slice, SliceError};
pub use slow::{Pace, Slow};
pub use thin::{Share, Store, Thin};
