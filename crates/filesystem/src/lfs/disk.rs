//! What is on the disk, block by block: the contents of everything that the file system must find again, and of data
//! only whose it is and which version.
//!
//! Recovery reads nothing else. A summary stands before the blocks of each write to the log. It says whose they are,
//! and where the log continues: right behind them, or in the segment that it names.
//!
//! # Rejected
//! Checksums: in this model a write reaches the disk whole or not at all. On a real disk the summary has one, and tells
//! a write that the power cut tore.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::usage::Segment;

/// Which indirect block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pointers {
    /// The one with addresses of data, by its number; the inode has the address of number 0.
    Single(u64),
    /// The one with the addresses of all single ones but number 0.
    Double,
}

/// Whose a block of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the fields are numbers of files (that is, of inodes), and of blocks in a file or in a table
pub enum Owner {
    /// Data of a file.
    Data { file: u64, block: u64 },
    /// Names of a directory.
    Directory { file: u64, block: u64 },
    /// Addresses of a file's blocks.
    Indirect { file: u64, pointers: Pointers },
    /// Inodes of any files.
    Inodes,
    /// A block of the inode map.
    Map { index: u64 },
    /// A block of the segment usage table.
    Usage { index: u64 },
}

/// The kind of file that an inode describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// Nothing: the file has been removed, and this says so to a roll-forward.
    Removed,
}

/// An inode on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub file: u64,
    /// What it is of.
    pub kind: Kind,
    /// The first blocks of the file and their addresses.
    pub direct: Vec<(u64, u64)>,
    /// The indirect blocks that it has the addresses of.
    pub indirect: Vec<(Pointers, u64)>,
}

/// What stands before the blocks of a write to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// One more than that of the write before.
    pub serial: u64,
    /// The segment in which the log continues when this one is full.
    pub next: u64,
    /// Whether directories are consistent with it; if not, a roll-forward takes it only with the writes that follow.
    pub closed: bool,
    /// Of each block: whose it is, and when its data was written by the user (0 if it is no data).
    pub entries: Vec<(Owner, u64)>,
}

/// A checkpoint region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// How many checkpoints there were before.
    pub number: u64,
    /// The time, in blocks that the user has written.
    pub time: u64,
    /// The segment that the log is in, the next block of it to be written, and the segment where the log continues.
    pub segment: u64,
    /// See `segment`.
    pub offset: u64,
    /// See `segment`.
    pub next: u64,
    /// The number of the next write to the log.
    pub serial: u64,
    /// Where the inode map lies; a block that was never written has no address.
    pub map: Vec<Option<u64>>,
    /// Where the segment usage table lies.
    pub usage: Vec<Option<u64>>,
}

/// What a block of the disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of `Owner`, and what the block says
pub enum Content {
    /// Nothing yet.
    Empty,
    /// Data of a file; the version is the time at which the user wrote it.
    Data { file: u64, block: u64, version: u64 },
    /// Names of a directory.
    Directory { file: u64, block: u64, version: u64, names: Arc<BTreeMap<String, u64>> },
    /// The numbers of data blocks, or of single indirect blocks, and their addresses.
    Indirect { file: u64, pointers: Pointers, addresses: Arc<[(u64, u64)]> },
    /// Inodes.
    Inodes(Arc<[Inode]>),
    /// Where inodes lie.
    Map { index: u64, addresses: Arc<[Option<u64>]> },
    /// How much of each segment is live.
    Usage { index: u64, segments: Arc<[Segment]> },
    /// Before the blocks of a write.
    Summary(Arc<Summary>),
    /// The first block of a checkpoint region.
    Checkpoint(Arc<Checkpoint>),
    /// A further block of a checkpoint region.
    Continued,
}

impl Content {
    /// Whose it is, if it is a block that can be live.
    pub fn owner(&self) -> Option<Owner> {
        Some(match *self {
            Content::Data { file, block, .. } => Owner::Data { file, block },
            Content::Directory { file, block, .. } => Owner::Directory { file, block },
            Content::Indirect { file, pointers, .. } => Owner::Indirect { file, pointers },
            Content::Inodes(_) => Owner::Inodes,
            Content::Map { index, .. } => Owner::Map { index },
            Content::Usage { index, .. } => Owner::Usage { index },
            Content::Empty | Content::Summary(_) | Content::Checkpoint(_) | Content::Continued => return None,
        })
    }

    /// When the user wrote it, if it is data or names.
    pub fn version(&self) -> Option<u64> {
        match self {
            Content::Data { version, .. } | Content::Directory { version, .. } => Some(*version),
            _ => None,
        }
    }
}

/// A write that has reached the disk, or not.
#[derive(Debug, Clone)]
pub struct Written {
    /// The first block.
    pub first: u64,
    /// What the blocks hold.
    pub contents: Vec<Content>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    blocks: Vec<Content>,
}

impl Disk {
    /// A disk with nothing on it.
    pub(super) fn new(blocks: u64) -> Disk {
        Disk { blocks: vec![Content::Empty; blocks as usize] }
    }

    /// What a block holds; a block past the end holds nothing.
    pub fn get(&self, address: u64) -> &Content {
        self.blocks.get(address as usize).unwrap_or(&Content::Empty)
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// A write reaches it.
    ///
    /// # Panics
    /// If it ends past the end of the disk: then it was for another one.
    pub fn apply(&mut self, written: &Written) {
        let first = written.first as usize;
        self.blocks[first..first + written.contents.len()].clone_from_slice(&written.contents);
    }
}
