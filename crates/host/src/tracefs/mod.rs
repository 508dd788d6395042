//! The kernel's trace points, read while a run goes on (`Documentation/trace/ftrace.rst`, `ring-buffer-map.rst` of the
//! kernel).
//!
//! tracefs keeps *instances*: buffers of their own, with events, filters and a clock of their own, which leave whatever
//! others trace alone. [`Instance`] makes one named after this process, switches on the trace points of the block layer
//! for some devices and those of io_uring for all rings, and removes it when dropped. Its [`Reader`]s take the binary
//! pages of each processor. `trace_pipe` was rejected: the kernel formats each event as text there, which costs
//! microseconds.
//!
//! The clock is `mono`, `CLOCK_MONOTONIC`, which is that of `std::time::Instant`, so that events and records of our own
//! have one time.
//!
//! [`format`](mod@format) reads how the kernel lays out its records, [`page`] takes pages apart, [`event`] says what
//! the records mean; all three are pure.

mod disk;
pub mod event;
mod extent;
pub mod format;
mod instance;
pub mod page;

pub use disk::TracedDisk;
pub use event::{BlockEvent, DeviceCode, Event, Point, RingCall, Way};
pub use extent::Extents;
pub use instance::{Instance, Reader, TraceError};
