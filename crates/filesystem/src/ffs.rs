//! The fast file system of 4.2BSD.
//!
//! # Theory
//! A disk is cut into *cylinder groups*, each with inodes, a map of what is free, and room for data. A file lies in the
//! group of its directory as long as it is small, so that seeks are short; a large one moves on from group to group, so
//! that there is room near its directory for others. Blocks of 4 or 8 KB make the transfers long, and *fragments* keep
//! small files from wasting them. Where a block lies within its cylinder is a matter of time: the next block of a file
//! must come under the heads when the processor is ready to ask for it, and not a moment before, since then it comes a
//! whole turn later (`allocate.rs`).
//!
//! [`Ffs`] is all of the state of the disk but the bytes of files: superblock, maps, inodes, indirect blocks, names.
//! An operation changes it and gives the blocks that the kernel touches for it, in the kernel's order: names and inodes
//! that must not be lost are written while the caller waits, maps and data are not.
//!
//! Three things are not kept: times, owners, and the generation of inodes. None of them decides where a block lies.
//!
//! # Sources
//! M. K. McKusick, W. N. Joy, S. J. Leffler and R. S. Fabry, "A Fast File System for UNIX", 1984; the 4.2BSD sources of
//! July 1983: fs.h, mkfs.c, ufs_alloc.c, ufs_bmap.c, ufs_nami.c.

mod allocate;
mod check;
mod directory;
mod file;
mod group;
mod inode;
mod layout;
mod parameters;

use std::collections::BTreeMap;

pub use self::allocate::Extent;
pub use self::check::{Fault, check};
use self::directory::Directory;
use self::group::Group;
use self::inode::Inode;
use self::layout::Layout;
pub use self::parameters::{Geometry, Parameters, ParametersError};
use crate::{How, Touch, What};

/// The number of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InodeNumber(pub u64);

/// Why an operation did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum FfsError {
    #[error("no space left on the file system (ENOSPC); remove files, or make it larger")]
    NoSpace,
    #[error("no inode left on the file system (ENOSPC); remove files, or make it with more inodes")]
    NoInodes,
    #[error("'{name}' is there already (EEXIST)")]
    Exists { name: String },
    #[error("there is no '{name}' (ENOENT)")]
    Absent { name: String },
    #[error("'{name}' is not a directory (ENOTDIR)")]
    NotDirectory { name: String },
    #[error("directory '{name}' is not empty (ENOTEMPTY)")]
    NotEmpty { name: String },
    #[error("a name of {length} bytes; names have 1 to 255 bytes and no '/' (ENAMETOOLONG)")]
    Name { length: usize },
    #[error("a file of that size has no address for block {block} (EFBIG)")]
    TooLarge { block: u64 },
}

/// A fast file system.
#[derive(Debug, Clone)]
pub struct Ffs {
    /// What it was made with.
    pub parameters: Parameters,
    layout: Layout,
    groups: Vec<Group>,
    inodes: BTreeMap<InodeNumber, Inode>,
    directories: BTreeMap<InodeNumber, Directory>,
    /// Fragments for data, free or not, when it was made.
    data: u64,
    /// Free whole blocks and free fragments besides them, of all groups together.
    free: (u64, u64),
}

/// The directory at the top. Inode 0 stands for none, inode 1 once held bad blocks.
pub const ROOT: InodeNumber = InodeNumber(2);

impl Ffs {
    /// An empty file system with a root directory, as newfs makes it.
    pub fn new(parameters: Parameters) -> Result<Ffs, ParametersError> {
        let layout = Layout::new(&parameters)?;
        let groups: Vec<Group> =
            (0..layout.groups).map(|group| Group::new(&layout, group, tables(&layout, group))).collect();
        let data = groups.iter().map(|group| group.blocks * layout.per_block + group.loose).sum();
        let (inodes, directories) = Default::default();
        let free = groups.iter().fold((0, 0), |(blocks, loose), group| (blocks + group.blocks, loose + group.loose));
        let mut ffs = Ffs { parameters, layout, groups, inodes, directories, data, free };
        for reserved in 0..ROOT.0 {
            ffs.groups[0].inodes[reserved as usize] = true;
            ffs.groups[0].free_inodes -= 1;
        }
        let root = ffs.new_directory(ROOT, &mut Vec::new()).expect("a file system has room for its root");
        assert_eq!(root, ROOT, "the root is the first inode that is given out");
        Ok(ffs)
    }

    /// Fragments of the file system.
    pub fn fragments(&self) -> u64 {
        self.layout.fragments
    }

    /// Sectors of a fragment.
    pub fn sectors(&self) -> u64 {
        self.layout.sectors
    }

    /// Bytes of a file.
    pub fn size(&self, inode: InodeNumber) -> u64 {
        self.inodes[&inode].size
    }

    fn fragment(&self) -> u64 {
        self.parameters.fragment.get()
    }

    fn block(&self) -> u64 {
        self.parameters.block.get()
    }

    fn inode_touch(&self, inode: InodeNumber, how: How) -> Touch {
        let fragments = self.layout.per_block;
        Touch { what: What::Inodes, fragment: self.layout.inode_block(inode.0), fragments, how }
    }

    /// An inode is read, changed and written.
    fn update(&self, inode: InodeNumber, how: How, touches: &mut Vec<Touch>) {
        touches.extend([self.inode_touch(inode, How::Read), self.inode_touch(inode, how)]);
    }
}

/// What a group's tables take: the boot block in the first, the copy of the superblock, the map, the inodes. They lie
/// together.
fn tables(layout: &Layout, group: u64) -> std::ops::Range<u64> {
    let base = layout.base(group);
    let from = if group == 0 { 0 } else { layout.superblock(group) - base };
    from..layout.data(group) - base
}
