//! Which engine carries requests out, and why.
//!
//! The cheapest one that does not change what is measured. A device that takes time must see the depth of the load: a
//! ring, or threads where there is none. Memory gains nothing from depth, and each detour costs: there the caller's own
//! thread does it.

use std::fmt;
use std::str::FromStr;

use units::Ratio;

use crate::RingError;
use crate::map::Mapping;
use crate::target::{Mode, Store, Target};

/// A way to carry requests out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Queued in the kernel, with registered files and buffers.
    IoUring,
    /// System calls in the task's thread, one at a time.
    Sync,
    /// Copied from the page cache and to it. Chosen for files that are there and are not written.
    Mapped,
    /// System calls in worker threads.
    Threads,
}

/// An engine and the reason for it, in a sentence fit for a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The engine.
    pub engine: Engine,
    /// Why this one.
    pub reason: String,
}

impl Engine {
    /// All of them, under the names that [`FromStr`] accepts.
    pub const ALL: [(&str, Engine); 4] =
        [("io-uring", Engine::IoUring), ("sync", Engine::Sync), ("mmap", Engine::Mapped), ("threads", Engine::Threads)];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (name, _) = Engine::ALL.into_iter().find(|(_, engine)| engine == self).expect("every engine has a name");
        f.pad(name)
    }
}

/// A name that no engine has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no engine `{0}`; choose io-uring, sync, mmap or threads")]
pub struct UnknownEngine(String);

impl FromStr for Engine {
    type Err = UnknownEngine;
    fn from_str(name: &str) -> Result<Engine, UnknownEngine> {
        let found = Engine::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, engine)| engine).ok_or_else(|| UnknownEngine(name.into()))
    }
}

/// From this share of its pages on, a file counts as being in the page cache.
pub(crate) const IN_MEMORY: f64 = 0.99;

/// The engine for a target. `ring` is the error if there is no ring.
pub(crate) fn choose(target: &Target, ring: Result<(), &RingError>) -> Choice {
    let choice = |engine, reason: &str| Choice { engine, reason: reason.into() };
    let file = matches!(target.store, Store::File | Store::MemoryFile);
    if file && target.mode == Mode::Buffered && target.exclusive.is_none() {
        let resident = Mapping::new(&target.file, target.shape.size).map_or(0.0, |mapping| mapping.resident());
        if resident >= IN_MEMORY {
            let share = Ratio::new(resident);
            return choice(
                Engine::Mapped,
                &format!("{share} of the file is in the page cache, where a read is a copy"),
            );
        }
    }
    match (target.store, target.mode) {
        (Store::MemoryDevice, _) => choice(
            Engine::Sync,
            "the device is memory and copies while it is asked; io_uring would hand each request to a kernel worker",
        ),
        (Store::MemoryFile, _) => choice(
            Engine::Sync,
            "the file is in memory only; io_uring would hand each request to a kernel worker, as its file system cannot promise not to wait",
        ),
        (Store::File | Store::Device, mode) => match (ring, mode) {
            (Ok(()), Mode::Direct) => choice(
                Engine::IoUring,
                "the device takes time, and a ring keeps as many requests waiting there as are asked for",
            ),
            (Ok(()), Mode::Buffered) => choice(
                Engine::IoUring,
                "what is not in the page cache must be waited for, and a ring waits for many at once",
            ),
            (Err(error), _) => choice(Engine::Threads, &format!("{error}; threads are used instead")),
        },
    }
}
