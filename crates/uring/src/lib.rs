//! Real files and block devices under the live runtime.
//!
//! [`Live`] starts a runtime on this thread with a [`Ring`] to wait in; [`FileDevice`] opens a path on it and is a
//! [`Device`](device::Device) like any other. The same programs, and the same conformance suite, run on it as on the
//! memory device.
//!
//! ```no_run
//! # use device::{Buffer, Device, Request};
//! # use units::Bytes;
//! use uring::{FileDevice, FileOptions, Live, LiveOptions};
//! let live = Live::start(&LiveOptions::default());
//! let disk = FileDevice::open_read_only(&live, "/dev/sdb".as_ref(), &FileOptions::direct())?;
//! let reply = live.runtime().block_on(disk.submit(Request::read(Bytes::ZERO, Buffer::zeroed(Bytes::kib(4)))));
//! println!("{} by {}: {}", reply.stamps.service(), disk.choice().engine, disk.choice().reason);
//! # Ok::<(), uring::OpenError>(())
//! ```
//!
//! [`Listener`] and [`Socket`] are connections under the same runtime, for those who serve a device to others or use
//! theirs.
//!
//! This crate and the live half of `runtime` are the only ones that know the kernel's interface to storage. `unsafe`
//! stands in `ring` and `call`: submitting entries that point to memory, registering memory, and taking over accepted
//! connections. What the kernel may touch belongs to the ring until the kernel is done (see `slot` and `call`), and is
//! registered only for as long as the ring lives (see `region`). And in `map` and `fault`: copying from a mapped file,
//! to which no reference is ever made, and surviving it if the file cannot be read.

mod bell;
mod call;
mod commit;
mod engine;
mod fault;
mod file;
mod flight;
mod listener;
mod live;
mod look;
mod lost;
mod map;
mod options;
mod priority;
mod region;
mod ring;
mod setup;
mod slot;
mod socket;
mod sync;
mod table;
mod target;
mod threads;
mod turn;

pub use call::{Body, Parcel};
pub use engine::{Choice, Engine, UnknownEngine};
pub use file::{FileDevice, drop_cache};
pub use listener::{ListenError, Listener};
pub use live::{Live, LiveOptions};
pub use options::{Advice, FileOptions};
pub use ring::Ring;
pub use setup::{RingError, RingOptions};
pub use socket::{ConnectError, Socket};
pub use target::{Mode, OpenError};
