//! fsck: the invariants of a fast file system, recounted from its inodes and names.
//!
//! Each fragment is free, or a table's, or in exactly one file. Each count of a map is what the map says. Each inode in
//! use has as many names as it has links, and each name stands for an inode in use.

use std::collections::BTreeMap;

use super::group::Group;
use super::inode::NONE;
use super::{Ffs, Inode, InodeNumber, ROOT, tables};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum Fault {
    #[error("fragment {fragment} is in use twice, the second time by inode {inode}")]
    Twice { fragment: u64, inode: u64 },
    #[error("fragment {fragment} is outside the file system; inode {inode} has it")]
    Outside { fragment: u64, inode: u64 },
    #[error("fragment {fragment} is marked {marked} and is not")]
    Marked { fragment: u64, marked: &'static str },
    #[error("the counts of group {group} are not those of its map")]
    Counts { group: u64 },
    #[error("free blocks and fragments are {sums:?} in all, and {counted:?} in the groups")]
    Sums { sums: (u64, u64), counted: (u64, u64) },
    #[error("inode {inode} has {links} links and {names} names")]
    Links { inode: u64, links: u64, names: u64 },
    #[error("inode {inode} is marked {marked} and is not")]
    Inode { inode: u64, marked: &'static str },
}

/// The first invariant that does not hold.
pub fn check(ffs: &Ffs) -> Result<(), Fault> {
    let mut used = vec![false; ffs.layout.fragments as usize];
    for group in 0..ffs.layout.groups {
        let base = ffs.layout.base(group);
        let range = tables(&ffs.layout, group);
        used[(base + range.start) as usize..(base + range.end) as usize].fill(true);
    }
    for (inode, file) in &ffs.inodes {
        let indirect = file.maps.keys().map(|at| (*at, ffs.layout.per_block));
        let data = ffs.blocks(*inode);
        for (from, count) in indirect.chain(data.iter().map(|extent| (extent.fragment, extent.fragments))) {
            for fragment in from..from + count {
                let mark = used.get_mut(fragment as usize);
                let mark = mark.ok_or(Fault::Outside { fragment, inode: inode.0 })?;
                if std::mem::replace(mark, true) {
                    return Err(Fault::Twice { fragment, inode: inode.0 });
                }
            }
        }
        lost(ffs, *inode, file, data.len() as u64)?;
    }
    let sums = ffs.groups.iter().fold((0, 0), |(blocks, loose), group| (blocks + group.blocks, loose + group.loose));
    if sums != ffs.free {
        return Err(Fault::Sums { sums: ffs.free, counted: sums });
    }
    for (number, group) in ffs.groups.iter().enumerate() {
        let base = ffs.layout.base(number as u64);
        for (within, free) in group.free.iter().enumerate() {
            let fragment = base + within as u64;
            if *free == used[fragment as usize] {
                return Err(Fault::Marked { fragment, marked: if *free { "free" } else { "in use" } });
            }
        }
        counts(ffs, number as u64, group)?;
    }
    names(ffs)
}

/// Addresses that the file has beyond its blocks.
fn lost(ffs: &Ffs, inode: InodeNumber, file: &Inode, blocks: u64) -> Result<(), Fault> {
    let direct = file.direct.iter().filter(|at| **at != NONE).count() as u64;
    let levels: u64 = file.indirect.iter().filter(|at| **at != NONE).count() as u64;
    let listed: u64 = file.maps.values().flatten().filter(|at| **at != NONE).count() as u64;
    // Every address in an inode or an indirect block is of data or of an indirect block.
    match direct + levels + listed == blocks + file.maps.len() as u64 {
        true => Ok(()),
        false => {
            let fragment = file.direct.iter().chain(file.maps.values().flatten()).copied().max().unwrap_or(NONE);
            assert!(fragment < ffs.layout.fragments, "addresses were looked at before");
            Err(Fault::Twice { fragment, inode: inode.0 })
        }
    }
}

fn counts(ffs: &Ffs, number: u64, group: &Group) -> Result<(), Fault> {
    let mut fresh = Group::new(&ffs.layout, number, 0..0);
    for (within, _) in group.free.iter().enumerate().filter(|(_, free)| !**free) {
        fresh.take(&ffs.layout, within as u64, 1);
    }
    let inodes = group.inodes.iter().filter(|used| !**used).count() as u64;
    let first = number * ffs.layout.inodes;
    let of_group = ffs.inodes.range(InodeNumber(first)..InodeNumber(first + ffs.layout.inodes));
    let directories = of_group.filter(|(_, inode)| inode.directory).count() as u64;
    let same = fresh.free == group.free
        && fresh.blocks == group.blocks
        && fresh.loose == group.loose
        && fresh.runs == group.runs
        && fresh.by_position == group.by_position
        && inodes == group.free_inodes
        && directories == group.directories;
    if same { Ok(()) } else { Err(Fault::Counts { group: number }) }
}

fn names(ffs: &Ffs) -> Result<(), Fault> {
    let mut names: BTreeMap<InodeNumber, u64> = BTreeMap::new();
    for (inode, directory) in &ffs.directories {
        *names.entry(*inode).or_default() += 1;
        *names.entry(directory.parent).or_default() += 1;
        for (_, _, entry) in directory.entries() {
            *names.entry(entry).or_default() += 1;
        }
    }
    for (inode, file) in &ffs.inodes {
        // The root has no name but its own two.
        let names = names.remove(inode).unwrap_or(0);
        if names != file.links {
            return Err(Fault::Links { inode: inode.0, links: file.links, names });
        }
    }
    if let Some(inode) = names.keys().next() {
        return Err(Fault::Inode { inode: inode.0, marked: "in use" });
    }
    for (number, group) in ffs.groups.iter().enumerate() {
        for (within, used) in group.inodes.iter().enumerate() {
            let inode = InodeNumber(number as u64 * ffs.layout.inodes + within as u64);
            let there = ffs.inodes.contains_key(&inode) || inode < ROOT;
            if there != *used {
                return Err(Fault::Inode { inode: inode.0, marked: if *used { "in use" } else { "free" } });
            }
        }
    }
    Ok(())
}
