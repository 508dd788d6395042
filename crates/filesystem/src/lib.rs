//! File systems of modelled machines: what lies where on the disk, and what each operation reads and writes.
//!
//! Pure: no clock, no device, no cache. A file system here is the state of its disk. An operation changes that state
//! at once and gives the [`Touch`]es that a machine makes for it, in order: which blocks are read, and which are
//! written and how soon. A layer of a modelled operating system (crate `machine`) takes them through a buffer cache to
//! a disk.
//!
//! # Rejected
//! Stored bytes: a model of timing asks where a block lies and never what it says. The state is complete all the same:
//! [`ffs::check`] is fsck over it.

pub mod ffs;
pub mod lfs;

/// A block of a file system's own, as an operation meets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Touch {
    /// What it holds.
    pub what: What,
    /// Its first fragment.
    pub fragment: u64,
    /// How many fragments.
    pub fragments: u64,
    /// What is done with it.
    pub how: How,
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The map of a cylinder group.
    Group,
    /// Inodes.
    Inodes,
    /// Addresses of a file's blocks.
    Indirect,
    /// Names.
    Directory,
    /// A file's data.
    Data,
}

/// What is done with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// It is read, and not changed.
    Read,
    /// It is changed in the cache and written when its buffer is needed, or by the update daemon.
    Delayed,
    /// Its write is started, and nobody waits.
    Started,
    /// It is written, and the caller waits.
    Synchronous,
}
