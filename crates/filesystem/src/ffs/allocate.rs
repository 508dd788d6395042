//! The allocator: which block, fragment or inode comes next.
//!
//! - **Preference** ([`Ffs::preference`]): a file's first block wants the start of its inode's group; each next block
//!   wants to lie `rotdelay` behind the one before, so that the processor has time to ask for it; after `maxbpg`
//!   blocks, and with the first indirect block, the file goes on to the next group with at least the average of free
//!   blocks.
//! - **Within a group**: the block that is wanted; else one of the same cylinder that comes round next, by the table of
//!   rotational positions; else the next free one behind the place where the last was found.
//! - **Between groups**: the one that is wanted; then 1, 2, 4, ... further on, each from the last (quadratic rehash);
//!   then all from the second on.
//! - **Fragments** come from the shortest run within a block that is long enough, or from a block that is broken up. A
//!   fragment that grows is extended where it lies if what follows is free; else it moves.
//!
//! # Source
//! ufs_alloc.c and ufs_subr.c of 4.2BSD (1983): alloc, realloccg, blkpref, hashalloc, alloccg, fragextend, alloccgblk,
//! mapsearch, free, ialloccg, dirpref.

use super::group::Group;
use super::inode::NONE;
use super::layout::{Layout, POSITIONS};
use super::{Ffs, FfsError, InodeNumber};
use crate::{How, Touch, What};

/// A stretch of fragments of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Extent {
    /// The first.
    pub fragment: u64,
    /// How many.
    pub fragments: u64,
}

impl Ffs {
    /// Where the next block of a file should lie. `index` counts within `before`, the addresses of the inode or of the
    /// indirect block that will hold it; without `before` it is the first of an indirect block, or that block itself.
    pub(super) fn preference(&mut self, inode: InodeNumber, block: u64, index: usize, before: Option<&[u64]>) -> u64 {
        let (layout, parameters) = (&self.layout, &self.parameters);
        let per_block = layout.per_block;
        let last = before.and_then(|before| index.checked_sub(1).map(|last| before[last])).filter(|last| *last != NONE);
        let Some(last) = last.filter(|_| !(index as u64).is_multiple_of(parameters.group_blocks)) else {
            let home = inode.0 / layout.inodes;
            if block < super::inode::DIRECT {
                return layout.base(home) + per_block;
            }
            let first = match last {
                None => home + block / parameters.group_blocks,
                Some(last) => layout.group_of(last) + 1,
            };
            let average = self.free_blocks() / layout.groups;
            let first = first % layout.groups;
            let mut groups = (first..layout.groups).chain(0..first);
            let group = groups.find(|group| self.groups[*group as usize].blocks >= average);
            let group = group.expect("one of them has the average");
            return layout.base(group) + per_block;
        };
        let next = last + per_block;
        let before = before.expect("there is a last block");
        let contiguous = parameters.contiguous as usize;
        let run_is_short = index > contiguous && {
            let first = before[index - contiguous];
            first + parameters.contiguous * per_block != next
        };
        if run_is_short { next } else { next + layout.gap }
    }

    /// Takes so many fragments, as near to the preference as there are.
    pub(super) fn allocate(
        &mut self,
        inode: InodeNumber,
        preference: u64,
        fragments: u64,
        touches: &mut Vec<Touch>,
    ) -> Result<Extent, FfsError> {
        let whole = fragments == self.layout.per_block;
        if whole && self.free_blocks() == 0 || self.available() < fragments {
            return Err(FfsError::NoSpace);
        }
        let preference = if preference >= self.layout.fragments { NONE } else { preference };
        let home = if preference == NONE { inode.0 / self.layout.inodes } else { self.layout.group_of(preference) };
        self.hash(home, |ffs, group, first| {
            ffs.allocate_in(group, if first { preference } else { NONE }, fragments, touches)
        })
        .ok_or(FfsError::NoSpace)
    }

    /// Tries groups by quadratic rehash, then all. Says whether the group is the one that was wanted.
    fn hash<T>(&mut self, home: u64, mut take: impl FnMut(&mut Ffs, u64, bool) -> Option<T>) -> Option<T> {
        if let Some(taken) = take(self, home, true) {
            return Some(taken);
        }
        let (groups, mut group, mut step) = (self.layout.groups, home, 1);
        while step < groups {
            group = (group + step) % groups;
            if let Some(taken) = take(self, group, false) {
                return Some(taken);
            }
            step *= 2;
        }
        (2..groups).find_map(|further| take(self, (home + further) % groups, false))
    }

    fn allocate_in(
        &mut self,
        number: u64,
        preference: u64,
        fragments: u64,
        touches: &mut Vec<Touch>,
    ) -> Option<Extent> {
        let (per_block, base) = (self.layout.per_block, self.layout.base(number));
        let group = &self.groups[number as usize];
        let whole = fragments == per_block;
        if group.blocks == 0 && whole {
            // The summary in memory says so; the map is not read.
            return None;
        }
        touches.push(self.group_touch(number, How::Read));
        let group = &self.groups[number as usize];
        let run = (fragments..per_block).find(|run| group.runs[*run as usize] > 0);
        let within = match run.filter(|_| !whole) {
            None if group.blocks == 0 => return None,
            None => self.block_in(number, preference),
            Some(run) => {
                let from = if preference == NONE { group.fragment_rotor } else { preference - base };
                let found = group.search(from, run).expect("the counts say that there is such a run");
                self.groups[number as usize].fragment_rotor = found;
                found
            }
        };
        self.change(number, |group, layout| group.take(layout, within, fragments));
        touches.push(self.group_touch(number, How::Delayed));
        Some(Extent { fragment: base + within, fragments })
    }

    /// A free block of a group that has one, from the start of the group.
    fn block_in(&mut self, number: u64, preference: u64) -> u64 {
        let (layout, group) = (&self.layout, &mut self.groups[number as usize]);
        let mut from = group.block_rotor;
        if preference != NONE {
            let wanted = preference - preference % layout.per_block - layout.base(number);
            if group.is_free(wanted) {
                return wanted;
            }
            from = wanted;
            if let Some(block) = next_round(layout, group, wanted) {
                return block;
            }
        }
        let found = group.search(from, layout.per_block).expect("the counts say that there is a block");
        group.block_rotor = found;
        found
    }

    /// Makes an extent longer: where it lies, or by moving it. Gives where it lies then.
    pub(super) fn reallocate(
        &mut self,
        inode: InodeNumber,
        old: Extent,
        preference: u64,
        fragments: u64,
        touches: &mut Vec<Touch>,
    ) -> Result<Extent, FfsError> {
        assert!(fragments > old.fragments && fragments <= self.layout.per_block, "an extent grows within a block");
        let more = fragments - old.fragments;
        if self.available() < more {
            return Err(FfsError::NoSpace);
        }
        let number = self.layout.group_of(old.fragment);
        let within = old.fragment - self.layout.base(number);
        let (layout, group) = (&self.layout, &self.groups[number as usize]);
        let after = within + old.fragments;
        let fits = within % layout.per_block + fragments <= layout.per_block
            && group.loose >= more
            && group
                .free
                .get(after as usize..(after + more) as usize)
                .is_some_and(|free| free.iter().all(|free| *free));
        if fits {
            self.change(number, |group, layout| group.take(layout, after, more));
            touches.extend([self.group_touch(number, How::Read), self.group_touch(number, How::Delayed)]);
            return Ok(Extent { fragment: old.fragment, fragments });
        }
        let new = self.allocate(inode, preference, fragments, touches)?;
        touches.push(Touch { what: What::Data, fragment: old.fragment, fragments: old.fragments, how: How::Read });
        self.free(old, touches);
        Ok(new)
    }

    /// Gives fragments back.
    pub(super) fn free(&mut self, extent: Extent, touches: &mut Vec<Touch>) {
        let number = self.layout.group_of(extent.fragment);
        let within = extent.fragment - self.layout.base(number);
        self.change(number, |group, layout| group.give(layout, within, extent.fragments));
        touches.extend([self.group_touch(number, How::Read), self.group_touch(number, How::Delayed)]);
    }

    /// Takes an inode: of a file in the group of its directory, of a directory in one with few directories.
    pub(super) fn take_inode(
        &mut self,
        near: InodeNumber,
        directory: bool,
        touches: &mut Vec<Touch>,
    ) -> Result<InodeNumber, FfsError> {
        let inodes = self.layout.inodes;
        // newfs puts the root where it belongs; the kernel chooses for all others.
        let chosen = directory && !self.inodes.is_empty();
        let preference = if chosen { self.group_for_directory() * inodes } else { near.0 };
        let taken = self.hash(preference / inodes, |ffs, number, first| {
            let group = &mut ffs.groups[number as usize];
            if group.free_inodes == 0 {
                return None;
            }
            let wanted = preference % inodes;
            let from = if first { wanted } else { group.inode_rotor };
            let free = |inode: &u64| !group.inodes[*inode as usize];
            let inode = match Some(from).filter(|inode| first && free(inode)) {
                Some(inode) => inode,
                None => {
                    let found = (1..=inodes).map(|step| (from + step) % inodes).find(free);
                    let found = found.expect("the counts say that there is an inode");
                    group.inode_rotor = found;
                    found
                }
            };
            group.inodes[inode as usize] = true;
            group.free_inodes -= 1;
            group.directories += u64::from(directory);
            touches.extend([ffs.group_touch(number, How::Read), ffs.group_touch(number, How::Delayed)]);
            Some(InodeNumber(number * inodes + inode))
        });
        taken.ok_or(FfsError::NoInodes)
    }

    /// Gives an inode back.
    pub(super) fn give_inode(&mut self, inode: InodeNumber, directory: bool, touches: &mut Vec<Touch>) {
        let number = inode.0 / self.layout.inodes;
        let group = &mut self.groups[number as usize];
        let used = std::mem::replace(&mut group.inodes[(inode.0 % self.layout.inodes) as usize], false);
        assert!(used, "an inode is given back when it is in use");
        group.free_inodes += 1;
        group.directories -= u64::from(directory);
        touches.extend([self.group_touch(number, How::Read), self.group_touch(number, How::Delayed)]);
    }

    /// Of the groups with at least the average of free inodes that with the fewest directories.
    fn group_for_directory(&self) -> u64 {
        let free: u64 = self.groups.iter().map(|group| group.free_inodes).sum();
        let average = free / self.layout.groups;
        let groups = self.groups.iter().enumerate().filter(|(_, group)| group.free_inodes >= average);
        groups.min_by_key(|(_, group)| group.directories).map_or(0, |(number, _)| number as u64)
    }

    fn group_touch(&self, group: u64, how: How) -> Touch {
        Touch { what: What::Group, fragment: self.layout.map_of(group), fragments: self.layout.map, how }
    }

    /// Changes the map of a group, and the sums over all of them.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Group, &Layout)) {
        let group = &mut self.groups[number as usize];
        let (blocks, loose) = (group.blocks, group.loose);
        change(group, &self.layout);
        self.free = (self.free.0 - blocks + group.blocks, self.free.1 - loose + group.loose);
    }

    /// Whole free blocks.
    pub fn free_blocks(&self) -> u64 {
        self.free.0
    }

    /// Fragments that a user may still take: what is free less the reserve.
    pub fn available(&self) -> u64 {
        let free = self.free.0 * self.layout.per_block + self.free.1;
        free.saturating_sub(self.data * self.parameters.reserve / 100)
    }
}

/// Of the cylinder of `wanted`, a free block at its rotational position or the next that has one.
fn next_round(layout: &Layout, group: &Group, wanted: u64) -> Option<u64> {
    let cylinder = layout.cylinder_of(wanted);
    let here = &group.by_position[cylinder];
    let from = layout.position_of(wanted);
    let position = (from..POSITIONS).chain(0..from).find(|position| here[*position] > 0)?;
    layout.at_position(cylinder, position).find(|block| group.is_free(*block))
}
