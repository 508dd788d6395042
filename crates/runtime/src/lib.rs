//! One program, two clocks.
//!
//! The RAID code, the workloads and the modelled machines are ordinary `async` code. They get a [`Runtime`] handle, ask
//! it for the time, sleep, spawn and wait for resources, and cannot tell which clock is behind it:
//!
//! - [`Runtime::simulated`]: when no task can go on, time jumps to the next timer. Nothing real is waited for, so
//!   a run is as fast as the machine allows and, for one seed, always the same.
//! - [`Runtime::live`]: when no task can go on, the thread parks until the next timer or an outside event. A [`Park`]
//!   decides how; the `uring` crate parks in `io_uring_enter`, which submits and collects I/O at the same time.
//!
//! # Shape
//!
//! One runtime per thread, no `Send`, no locks on the way: a laboratory that wants more cores starts more runtimes, as
//! an array controller would. Each turn of the loop polls the tasks that are ready in the order in which they became
//! so; then fires the timers that are due; then parks. Two timers for one instant fire in the order of their creation,
//! *and nothing else decides*: this is what makes a run repeatable.
//!
//! A waker is a number (runtime, generation, task; see `waker`), not a reference-counted object: cloning and dropping
//! one costs nothing, and a waker that outlives its task is recognised and ignored. Timers belong to futures, not to
//! tasks, so `select!` over two sleeps works, and a future may be polled more often than it asked for.
//!
//! # Cost
//! Small functions that tasks of other crates call carry `#[inline]`: without it an event of an M/M/1 queue costs 118
//! ns, with it 92 (`benchsuite executor`). Link-time optimization gains the same, for a much longer build.
//!
//! # Rejected
//!
//! - A global or thread-local simulator that code reaches without a handle: hides who depends on time.
//! - tokio with a paused clock: its timers have 1 ms resolution and its tasks cost several times as much (measured by
//!   the authors of the simulators that DESIGN.md names); compio: a large tree for the small part we need.
//! - Process-style threads (SimPy, SystemC): 40 times the cost per event.

mod alarm;
mod aside;
mod crew;
mod executor;
mod gate;
mod park;
mod random;
mod resource;
mod signal;
mod task;
mod timer;
mod waker;

pub use alarm::Alarm;
pub use aside::aside;
pub use executor::{Runtime, Stalled};
pub use gate::{Closed, Gate, Pass};
pub use park::{LiveClock, Park, ThreadPark, Unpark};
pub use random::Random;
pub use resource::{Acquire, Grant, Resource};
pub use signal::Signal;
pub use task::JoinHandle;
pub use timer::Sleep;
