//! Files in memory, and the inode map: where each inode lies in the log.
//!
//! An inode holds the addresses of the first twelve blocks, of a single and of a doubly indirect block, as in the fast
//! file system. It has no fixed place, so the map says where it lies. Blocks of the map go to the log with a
//! checkpoint; after a crash the inodes that were written since are found through the summaries.
//!
//! # Rejected
//! Version numbers of files in the map: they save the cleaner from looking at the inode, which is in memory here.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::{Content, Disk, Inode, Kind, Pointers};
use super::names::Directory;
use super::parameters::{DIRECT, Layout};

/// A file in memory. A block or an indirect block without an address has not been written to the log yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct File {
    /// Its names, if it is a directory.
    pub directory: Option<Directory>,
    pub blocks: BTreeMap<u64, Option<u64>>,
    pub indirect: BTreeMap<Pointers, Option<u64>>,
}

impl Layout {
    /// The indirect block that has the address of a block of a file.
    pub fn pointers_of(&self, block: u64) -> Option<Pointers> {
        (block >= DIRECT).then(|| Pointers::Single((block - DIRECT) / self.addresses))
    }

    /// The blocks of a file whose addresses an indirect block has.
    fn blocks_of(&self, single: u64) -> std::ops::Range<u64> {
        DIRECT + single * self.addresses..DIRECT + (single + 1) * self.addresses
    }
}

/// The doubly indirect block, if it has the address of this one.
pub(super) fn parent_of(pointers: Pointers) -> Option<Pointers> {
    matches!(pointers, Pointers::Single(1..)).then_some(Pointers::Double)
}

impl File {
    /// Gives it a block, and gives back how many blocks the file takes more than before.
    pub fn claim(&mut self, layout: &Layout, block: u64) -> u64 {
        let missing = self.missing(layout, block);
        if missing > 0 {
            self.blocks.entry(block).or_default();
            let single = layout.pointers_of(block);
            for pointers in single.into_iter().chain(single.and_then(parent_of)) {
                self.indirect.entry(pointers).or_default();
            }
        }
        missing
    }

    /// How many blocks it would take more with this block.
    pub fn missing(&self, layout: &Layout, block: u64) -> u64 {
        if self.blocks.contains_key(&block) {
            return 0;
        }
        let single = layout.pointers_of(block);
        let pointers = single.into_iter().chain(single.and_then(parent_of));
        1 + pointers.filter(|pointers| !self.indirect.contains_key(pointers)).count() as u64
    }

    /// How many blocks it takes, in the log or not yet.
    pub fn claimed(&self) -> u64 {
        (self.blocks.len() + self.indirect.len()) as u64
    }

    /// Addresses of all that it has in the log.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.blocks.values().chain(self.indirect.values()).flatten().copied()
    }

    /// What its indirect block says.
    pub fn pointers(&self, layout: &Layout, pointers: Pointers) -> Vec<(u64, u64)> {
        let known = |(number, address): (u64, &Option<u64>)| address.map(|address| (number, address));
        match pointers {
            Pointers::Single(single) => {
                self.blocks.range(layout.blocks_of(single)).filter_map(|(block, at)| known((*block, at))).collect()
            }
            Pointers::Double => {
                let single = |(pointers, at)| match pointers {
                    &Pointers::Single(single @ 1..) => known((single, at)),
                    _ => None,
                };
                self.indirect.iter().filter_map(single).collect()
            }
        }
    }

    /// Its inode.
    pub fn inode(&self, file: u64) -> Inode {
        let kind = if self.directory.is_some() { Kind::Directory } else { Kind::File };
        let direct = self.blocks.range(..DIRECT).filter_map(|(block, at)| at.map(|at| (*block, at))).collect();
        let rooted = |(pointers, at): (&Pointers, &Option<u64>)| match parent_of(*pointers) {
            None => at.map(|at| (*pointers, at)),
            Some(_) => None,
        };
        Inode { file, kind, direct, indirect: self.indirect.iter().filter_map(rooted).collect() }
    }

    /// The file of an inode, with the indirect blocks that it points to, and how many of these were read.
    pub fn read(inode: &Inode, disk: &Disk) -> (File, u64) {
        let some = |(number, address): &(u64, u64)| (*number, Some(*address));
        let mut file = File {
            directory: (inode.kind == Kind::Directory).then(Directory::default),
            blocks: inode.direct.iter().map(some).collect(),
            indirect: BTreeMap::new(),
        };
        let mut waiting = inode.indirect.clone();
        while let Some((pointers, address)) = waiting.pop() {
            file.indirect.insert(pointers, Some(address));
            // Where something else lies, the check finds that the file has lost its blocks.
            let Content::Indirect { addresses, .. } = disk.get(address) else { continue };
            match pointers {
                Pointers::Single(_) => file.blocks.extend(addresses.iter().map(some)),
                Pointers::Double => {
                    waiting.extend(addresses.iter().map(|(single, address)| (Pointers::Single(*single), *address)));
                }
            }
        }
        let read = file.indirect.len() as u64;
        (file, read)
    }
}

/// Where inodes lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InodeMap {
    pub addresses: Vec<Option<u64>>,
    /// Blocks of the map that are not as they lie in the log.
    pub dirty: BTreeSet<u64>,
    /// Where the map's blocks lie.
    pub places: Vec<Option<u64>>,
}

impl InodeMap {
    /// No file is there.
    pub fn new(layout: &Layout, inodes: u64) -> InodeMap {
        InodeMap {
            addresses: vec![None; inodes as usize],
            dirty: BTreeSet::new(),
            places: vec![None; layout.maps as usize],
        }
    }

    /// Where an inode lies.
    pub fn get(&self, file: u64) -> Option<u64> {
        self.addresses.get(file as usize).copied().flatten()
    }

    /// An inode lies somewhere else now, or nowhere. Gives back where it lay.
    pub fn set(&mut self, layout: &Layout, file: u64, address: Option<u64>) -> Option<u64> {
        self.dirty.insert(file / layout.map_entries);
        std::mem::replace(&mut self.addresses[file as usize], address)
    }

    /// What a block of the map says.
    pub fn entries(&self, layout: &Layout, index: u64) -> &[Option<u64>] {
        let from = (index * layout.map_entries) as usize;
        &self.addresses[from..self.addresses.len().min(from + layout.map_entries as usize)]
    }
}
