//! A log-structured file system.
//!
//! # Theory
//! Memory holds what is read, so a disk mostly writes. A write to a place of its own for each block pays a seek; a log
//! pays none. Here everything is written to the log, and nowhere else: data, names, indirect blocks, inodes, and the
//! tables that say where inodes lie. What is written anew leaves a dead block behind. The disk is cut into *segments*,
//! large enough that a transfer of a whole one pays for its seek; the log goes from one clean segment to another, and
//! the cleaner makes segments clean by copying what is live in them to the end of the log.
//!
//! [`Log`] is all of the state of the disk but the bytes of files, and the dirty blocks that wait in the cache. An
//! operation changes it at once. [`Log::flush`] and [`Log::checkpoint`] give the [`Transfer`]s that a machine makes for
//! it, in their order: for new data, for cleaning ([`cost`] holds them against the published formula), for checkpoints.
//! [`Disk`] is what is on the disk by then, and [`Log::recover`] reads nothing else; [`check`] is fsck.
//!
//! The disk is full when what is live, or waits to be written, takes more than cleaning can work with: this is found
//! when a block is made dirty, as an error that changes nothing.
//!
//! # Rejected
//! - A log of directory operations, as in Sprite. Groups of writes that count only as a whole keep names and inodes
//!   consistent as well, and cost nothing (`flush.rs`).
//! - The path of a read. [`Log::address`] says where a block lies; the cache is the machine's.
//!
//! # Source
//! M. Rosenblum and J. K. Ousterhout, "The Design and Implementation of a Log-Structured File System", 1991. The groups
//! are those of M. Seltzer et al., "An Implementation of a Log-Structured File System for UNIX", 1993.

mod append;
mod check;
mod clean;
pub mod cost;
mod disk;
mod flush;
mod inode;
mod names;
mod parameters;
mod recover;
mod updates;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use units::Bytes;

pub use self::check::{Fault, check};
pub use self::cost::Cost;
pub use self::disk::{Checkpoint, Content, Disk, Inode, Kind, Owner, Pointers, Summary, Written};
use self::inode::{File, InodeMap, parent_of};
use self::names::Directory;
use self::parameters::{INODE, Layout};
pub use self::parameters::{Parameters, ParametersError, Policy};
pub use self::recover::RecoverError;
pub use self::updates::{Pattern, Updates};
pub use self::usage::Segment;
use self::usage::Usage;

/// The inode number of the directory at the top.
pub const ROOT: u64 = 0;

/// The purpose of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Dirty blocks, with the summaries, indirect blocks and inodes that go with them.
    Data,
    /// Segments that are read, and what is live in them.
    Cleaning,
    /// Tables that go to the log.
    Checkpoint,
    /// A checkpoint region, at its fixed place. It must not be written before all that was given before it.
    Region,
    /// What is read after a crash.
    Recovery,
}

/// A transfer that the machine makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Whether it writes; if not, it reads.
    pub write: bool,
    /// The first block of the disk.
    pub first: u64,
    /// How many blocks.
    pub blocks: u64,
    /// What it is made for.
    pub what: Purpose,
}

/// Why an operation did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum LogError {
    #[error("the disk is full (ENOSPC): {taken:#} of {capacity:#} are taken; remove files, or take a larger disk")]
    Full { taken: Bytes, capacity: Bytes },
    #[error("all {inodes} inodes are in use (ENOSPC); flush removals, remove files, or make it with more inodes")]
    NoInodes { inodes: u64 },
    #[error("'{path}' is there already (EEXIST)")]
    Exists { path: String },
    #[error("there is no '{path}' (ENOENT)")]
    Absent { path: String },
    #[error("a directory of '{path}' is none (ENOTDIR)")]
    NotDirectory { path: String },
    #[error("directory '{path}' is not empty (ENOTEMPTY)")]
    NotEmpty { path: String },
    #[error("the root cannot be removed (EBUSY)")]
    Root,
    #[error("a name of {length} bytes; names have 1 to 255 bytes and no '/' (ENAMETOOLONG)")]
    Name { length: usize },
    #[error("inode {file} is no file that can be written (EBADF)")]
    NoFile { file: u64 },
    #[error("block {block} of a file; files have at most {most} blocks (EFBIG)")]
    TooLarge { block: u64, most: u64 },
}

/// Where the log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    segment: u64,
    /// The next block of the segment to be written.
    offset: u64,
    /// The segment in which the log continues.
    next: u64,
    /// The number of the next write.
    serial: u64,
}

/// A log-structured file system.
#[derive(Debug, Clone)]
pub struct Log {
    parameters: Parameters,
    layout: Layout,
    disk: Disk,
    /// By inode number. Removed ones stay until their tombstone is in the log.
    files: Vec<Option<File>>,
    /// Inode numbers that may be given anew.
    free: BTreeSet<u64>,
    map: InodeMap,
    usage: Usage,
    head: Head,
    /// Blocks of files that wait in the cache, and when they were written.
    dirty: BTreeMap<(u64, u64), u64>,
    /// Files that are not in the log yet.
    created: BTreeSet<u64>,
    /// Files that are still in the log.
    removed: BTreeSet<u64>,
    /// Blocks that the user has written.
    time: u64,
    /// Bytes that are live when all has been flushed.
    claimed: u64,
    /// Checkpoints so far.
    checkpoints: u64,
    /// Whether the log has grown since the last one.
    changed: bool,
    /// Segments that were cleaned since.
    cleaned: BTreeSet<u64>,
    cost: Cost,
    transfers: Vec<Transfer>,
    recorded: Option<Vec<Written>>,
}

impl Log {
    /// An empty file system with a root directory and a checkpoint. Making it costs nothing.
    ///
    /// # Errors
    /// Those of [`Parameters::check`].
    pub fn new(parameters: Parameters) -> Result<Log, ParametersError> {
        let layout = Layout::new(&parameters)?;
        let mut log = Log::blank(parameters, layout, Disk::new(layout.blocks));
        let mut segment = || log.usage.take().expect("a new disk has clean segments");
        log.head = Head { segment: segment(), offset: 0, next: segment(), serial: 0 };
        log.files.push(Some(File { directory: Some(Directory::default()), ..File::default() }));
        log.created.insert(ROOT);
        log.claimed += INODE;
        log.checkpoint().expect("a new disk has room for a root directory");
        log.cost = Cost::default();
        Ok(log)
    }

    /// No files, and all segments clean.
    fn blank(parameters: Parameters, layout: Layout, disk: Disk) -> Log {
        Log {
            parameters,
            layout,
            disk,
            files: Vec::new(),
            free: BTreeSet::new(),
            map: InodeMap::new(&layout, parameters.inodes),
            usage: Usage::new(&layout),
            head: Head { segment: 0, offset: 0, next: 0, serial: 0 },
            dirty: BTreeMap::new(),
            created: BTreeSet::new(),
            removed: BTreeSet::new(),
            time: 0,
            claimed: (layout.maps + layout.usages) * layout.block,
            checkpoints: 0,
            changed: false,
            cleaned: BTreeSet::new(),
            cost: Cost::default(),
            transfers: Vec::new(),
            recorded: None,
        }
    }

    /// What it was made with.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The user writes a block of a file, whole. It waits in the cache.
    ///
    /// # Errors
    /// [`LogError::Full`], [`LogError::NoFile`] or [`LogError::TooLarge`]; then nothing has changed.
    pub fn write(&mut self, file: u64, block: u64) -> Result<(), LogError> {
        let known = self.file(file).filter(|known| known.directory.is_none() && !self.removed.contains(&file));
        if known.is_none() {
            return Err(LogError::NoFile { file });
        }
        let most = self.layout.file_blocks();
        if block >= most {
            return Err(LogError::TooLarge { block, most });
        }
        self.claim(file, block, 0)?;
        self.make_dirty(file, block);
        Ok(())
    }

    /// Bytes of dirty blocks, and of inodes of created and removed files.
    pub fn pending(&self) -> Bytes {
        let inodes = (self.created.len() + self.removed.len()) as u64;
        Bytes::new(self.dirty.len() as u64 * self.layout.block + inodes * INODE)
    }

    /// Where a block of a file lies on the disk. None if it was never written there; a dirty block is in the cache.
    pub fn address(&self, file: u64, block: u64) -> Option<u64> {
        self.file(file)?.blocks.get(&block).copied().flatten()
    }

    /// Where the indirect blocks lie that lead to a block of a file, the doubly indirect one first; none of those that
    /// were not written yet.
    pub fn indirect(&self, file: u64, block: u64) -> Vec<u64> {
        let single = self.layout.pointers_of(block);
        let way = single.and_then(parent_of).into_iter().chain(single);
        let address = |pointers| self.file(file)?.indirect.get(&pointers).copied().flatten();
        way.filter_map(address).collect()
    }

    /// Whether the newest version of a block of a file is in the cache.
    pub fn is_dirty(&self, file: u64, block: u64) -> bool {
        self.dirty.contains_key(&(file, block))
    }

    /// The newest version of a block of a file: the number of blocks that the user had written with it, ever.
    pub fn version(&self, file: u64, block: u64) -> Option<u64> {
        let on_disk = || self.disk.get(self.address(file, block)?).version();
        self.dirty.get(&(file, block)).copied().or_else(on_disk)
    }

    /// The disk after all transfers so far.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The segment usage table.
    pub fn segments(&self) -> &[Segment] {
        &self.usage.segments
    }

    /// Bytes that are live, or will be when all is flushed.
    pub fn taken(&self) -> Bytes {
        Bytes::new(self.claimed)
    }

    /// Bytes that may be live.
    pub fn capacity(&self) -> Bytes {
        Bytes::new(self.layout.capacity)
    }

    /// What has been moved so far.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Keeps from now on what each write puts on the disk.
    pub fn record(&mut self) {
        self.recorded.get_or_insert_default();
    }

    /// What writes have put on the disk since the last call, in their order. A power cut falls between two of them.
    pub fn take_recorded(&mut self) -> Vec<Written> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn take_transfers(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.transfers)
    }

    fn file(&self, file: u64) -> Option<&File> {
        self.files.get(file as usize)?.as_ref()
    }

    fn file_mut(&mut self, file: u64) -> &mut File {
        self.files[file as usize].as_mut().expect("whoever changes a file has found it")
    }

    /// An inode number may be given anew.
    fn forget(&mut self, file: u64) {
        self.files[file as usize] = None;
        self.free.insert(file);
    }

    /// Gives a file a block and takes other bytes, if there is room.
    fn claim(&mut self, file: u64, block: u64, other: u64) -> Result<(), LogError> {
        let layout = self.layout;
        let more = self.file(file).map_or(0, |file| file.missing(&layout, block)) * layout.block + other;
        if more > 0 && self.claimed + more > layout.capacity {
            return Err(self.full());
        }
        self.claimed += more;
        self.file_mut(file).claim(&layout, block);
        Ok(())
    }

    fn make_dirty(&mut self, file: u64, block: u64) {
        self.time += 1;
        self.dirty.insert((file, block), self.time);
    }

    fn full(&self) -> LogError {
        LogError::Full { taken: self.taken(), capacity: self.capacity() }
    }
}
