//! Blocks of files: where they lie, how they come to be, how they go.
//!
//! # Source
//! ufs_bmap.c and ufs_inode.c (itrunc) of 4.2BSD.

use super::allocate::Extent;
use super::inode::{DIRECT, Inode, NONE, Way};
use super::{Ffs, FfsError, InodeNumber};
use crate::{How, Touch, What};

/// What an address takes in an indirect block.
const ADDRESS: u64 = 4;

/// Where a block of a file lies after a write to it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where.
    pub extent: Extent,
    /// It, or part of it, was allocated: its buffer is new and was cleared.
    pub allocated: bool,
    /// What the kernel touched on the way.
    pub touches: Vec<Touch>,
}

impl Ffs {
    /// Where a block of a file lies, and what is read to know it; nothing where the file has none.
    pub fn map(&self, inode: InodeNumber, block: u64) -> Option<(Extent, Vec<Touch>)> {
        let file = &self.inodes[&inode];
        let way = Inode::way(block, self.addresses())?;
        let (fragment, passed) = file.address(way);
        let read = |at| self.indirect_touch(at, How::Read);
        let extent = Extent { fragment, fragments: self.fragments_of(file, block) };
        (fragment != NONE).then(|| (extent, passed.into_iter().map(read).collect()))
    }

    /// Makes room for the first `bytes` of a block of a file, as a write that ends there does. The file is then at
    /// least so long. If there is no space, the file is as it was.
    pub fn place(&mut self, inode: InodeNumber, block: u64, bytes: u64) -> Result<Placed, FfsError> {
        assert!(bytes > 0 && bytes <= self.block(), "a write ends within the block");
        let way = Inode::way(block, self.addresses()).ok_or(FfsError::TooLarge { block })?;
        let mut touches = Vec::new();
        self.fill_last(inode, block, &mut touches)?;
        let (extent, allocated) = match way.levels {
            0 => self.place_direct(inode, block, bytes, &mut touches)?,
            _ => self.place_indirect(inode, block, way, &mut touches)?,
        };
        let end = block * self.block() + bytes;
        let file = self.inodes.get_mut(&inode).expect("who writes has the file open");
        file.size = file.size.max(end);
        Ok(Placed { extent, allocated, touches })
    }

    /// If the file ends with fragments in a block before this one, they become a whole block.
    fn fill_last(&mut self, inode: InodeNumber, block: u64, touches: &mut Vec<Touch>) -> Result<(), FfsError> {
        let file = &self.inodes[&inode];
        let last = file.size / self.block();
        let fragments = self.fragments_of(file, last);
        let old = file.direct.get(last as usize).copied().unwrap_or(NONE);
        if last >= DIRECT || last >= block || old == NONE || fragments == self.layout.per_block {
            return Ok(());
        }
        let direct = file.direct;
        let preference = self.preference(inode, last, last as usize, Some(&direct));
        let old = Extent { fragment: old, fragments };
        let new = self.reallocate(inode, old, preference, self.layout.per_block, touches)?;
        touches.push(Touch { what: What::Data, fragment: new.fragment, fragments: new.fragments, how: How::Delayed });
        let size = (last + 1) * self.block();
        let file = self.inodes.get_mut(&inode).expect("the file is there");
        file.direct[last as usize] = new.fragment;
        file.size = size;
        Ok(())
    }

    fn place_direct(
        &mut self,
        inode: InodeNumber,
        block: u64,
        bytes: u64,
        touches: &mut Vec<Touch>,
    ) -> Result<(Extent, bool), FfsError> {
        let file = &self.inodes[&inode];
        let (index, direct) = (block as usize, file.direct);
        let fragments = match file.size < (block + 1) * self.block() {
            true => bytes.div_ceil(self.fragment()),
            false => self.layout.per_block,
        };
        let old = Extent { fragment: direct[index], fragments: self.fragments_of(file, block) };
        if old.fragment != NONE && (file.size >= (block + 1) * self.block() || fragments <= old.fragments) {
            return Ok((old, false));
        }
        let preference = self.preference(inode, block, index, Some(&direct));
        let new = match old.fragment {
            NONE => self.allocate(inode, preference, fragments, touches)?,
            _ => self.reallocate(inode, old, preference, fragments, touches)?,
        };
        self.inodes.get_mut(&inode).expect("the file is there").direct[index] = new.fragment;
        Ok((new, true))
    }

    fn place_indirect(
        &mut self,
        inode: InodeNumber,
        block: u64,
        way: Way,
        touches: &mut Vec<Touch>,
    ) -> Result<(Extent, bool), FfsError> {
        let whole = self.layout.per_block;
        let mut preference = NONE;
        let mut at = self.inodes[&inode].indirect[way.levels - 1];
        if at == NONE {
            preference = self.preference(inode, block, 0, None);
            at = self.new_indirect(inode, preference, touches)?;
            self.inodes.get_mut(&inode).expect("the file is there").indirect[way.levels - 1] = at;
        }
        for (level, place) in way.places[..way.levels].iter().enumerate() {
            touches.push(self.indirect_touch(at, How::Read));
            let next = self.inodes[&inode].maps[&at][*place];
            if next != NONE {
                at = next;
                continue;
            }
            let last = level + 1 == way.levels;
            if preference == NONE {
                let before = last.then(|| self.inodes[&inode].maps[&at].clone());
                preference = self.preference(inode, block, if last { *place } else { 0 }, before.as_deref());
            }
            let new = match last {
                false => self.new_indirect(inode, preference, touches)?,
                true => self.allocate(inode, preference, whole, touches)?.fragment,
            };
            let file = self.inodes.get_mut(&inode).expect("the file is there");
            file.maps.get_mut(&at).expect("an indirect block says something")[*place] = new;
            touches.push(self.indirect_touch(at, How::Delayed));
            if last {
                return Ok((Extent { fragment: new, fragments: whole }, true));
            }
            at = new;
        }
        Ok((Extent { fragment: at, fragments: whole }, false))
    }

    /// A new indirect block. It is written at once: an inode never points at garbage.
    fn new_indirect(&mut self, inode: InodeNumber, preference: u64, touches: &mut Vec<Touch>) -> Result<u64, FfsError> {
        let new = self.allocate(inode, preference, self.layout.per_block, touches)?.fragment;
        let addresses = self.addresses() as usize;
        let file = self.inodes.get_mut(&inode).expect("the file is there");
        file.maps.insert(new, vec![NONE; addresses]);
        touches.push(self.indirect_touch(new, How::Synchronous));
        Ok(new)
    }

    /// Gives all blocks of a file back.
    pub(super) fn truncate(&mut self, inode: InodeNumber, touches: &mut Vec<Touch>) {
        // So that no block is free on the disk and in a file at once.
        self.update(inode, How::Synchronous, touches);
        let whole = self.layout.per_block;
        let blocks = self.blocks(inode);
        let file = self.inodes.get_mut(&inode).expect("the file is there");
        let indirect: Vec<u64> = file.maps.keys().copied().collect();
        *file = Inode { links: file.links, ..Inode::new(file.directory) };
        for at in indirect {
            touches.push(self.indirect_touch(at, How::Read));
            self.free(Extent { fragment: at, fragments: whole }, touches);
        }
        for extent in blocks {
            self.free(extent, touches);
        }
        self.update(inode, How::Delayed, touches);
    }

    /// The blocks of data of a file, in its order.
    pub fn blocks(&self, inode: InodeNumber) -> Vec<Extent> {
        let file = &self.inodes[&inode];
        let blocks = file.size.div_ceil(self.block());
        (0..blocks).filter_map(|block| self.map(inode, block)).map(|(extent, _)| extent).collect()
    }

    /// Addresses of an indirect block.
    pub(super) fn addresses(&self) -> u64 {
        self.block() / ADDRESS
    }

    /// How many fragments a block of a file has: all but behind the end of a short file.
    fn fragments_of(&self, file: &Inode, block: u64) -> u64 {
        let begins = block * self.block();
        match block >= DIRECT || file.size >= begins + self.block() {
            true => self.layout.per_block,
            false => file.size.saturating_sub(begins).div_ceil(self.fragment()),
        }
    }

    fn indirect_touch(&self, fragment: u64, how: How) -> Touch {
        Touch { what: What::Indirect, fragment, fragments: self.layout.per_block, how }
    }
}
