//! Whether a log is consistent, as fsck asks it of a file system.
//!
//! Checked are: each block that a file, the inode map or the tables point to holds what they say, has no other owner,
//! and lies in a segment that is not clean; the segment usage table is a recount of them; the inode map points to
//! inodes, and each file that is in the log has one; each name names a file, each file but the root has one name; and
//! what a recovery would find on the disk now is what is in memory, without dirty blocks.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::{Content, Owner};
use super::inode::File;
use super::parameters::INODE;
use super::{Log, ROOT};

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum Fault {
    #[error("block {address} holds {there:?}, and {owner:?} is said to lie there")]
    Content { address: u64, owner: Owner, there: Option<Owner> },
    #[error("block {address} belongs to {first:?} and to {second:?}")]
    TwoOwners { address: u64, first: Owner, second: Owner },
    #[error("block {address} of {owner:?} lies in segment {segment}, which is clean")]
    Clean { address: u64, owner: Owner, segment: u64 },
    #[error("segment {segment} has {counted} live bytes, and the usage table says {said}")]
    Usage { segment: u64, counted: u64, said: u64 },
    #[error("segment {segment} is in the list of clean segments or says that it is clean, but not both")]
    CleanList { segment: u64 },
    #[error("the inode map says that inode {file} lies in block {address}; it does not")]
    Inode { file: u64, address: u64 },
    #[error("inode {file} is not in the inode map, but has blocks in the log or is not dirty")]
    Unmapped { file: u64 },
    #[error("the inode map has inode {file}, and there is no such file")]
    Mapped { file: u64 },
    #[error("'{name}' names inode {file}, which is no file or was removed")]
    Name { name: String, file: u64 },
    #[error("inode {file} has {names} names instead of one")]
    Names { file: u64, names: u64 },
    #[error("block {block} of inode {file} is dirty, and there is no such block")]
    Dirty { file: u64, block: u64 },
    #[error("{said} bytes count as taken, and {counted} are")]
    Claimed { said: u64, counted: u64 },
    #[error("recovery fails: {error}")]
    Recover { error: super::RecoverError },
    #[error("recovery finds another {what} than there is in memory: {detail}")]
    Recovered { what: &'static str, detail: String },
}

/// Checks a log.
///
/// # Errors
/// The first fault that was found.
pub fn check(log: &Log) -> Result<(), Fault> {
    check_blocks(log)?;
    check_names(log)?;
    check_recovery(log)
}

fn files(log: &Log) -> impl Iterator<Item = (u64, &File)> {
    (0..).zip(&log.files).filter_map(|(number, file)| Some((number, file.as_ref()?)))
}

fn check_blocks(log: &Log) -> Result<(), Fault> {
    let layout = &log.layout;
    let mut owners: BTreeMap<u64, Owner> = BTreeMap::new();
    let mut live = vec![0; layout.segments as usize];
    let mut claim = |address: u64, owner: Owner, bytes: u64| {
        let there = log.disk.get(address).owner();
        if there != Some(owner) {
            return Err(Fault::Content { address, owner, there });
        }
        let segment = layout.segment_of(address);
        if log.usage.segments[segment as usize].clean {
            return Err(Fault::Clean { address, owner, segment });
        }
        live[segment as usize] += bytes;
        match owners.insert(address, owner) {
            // Inodes share a block.
            Some(first) if first != Owner::Inodes || owner != Owner::Inodes => {
                Err(Fault::TwoOwners { address, first, second: owner })
            }
            _ => Ok(()),
        }
    };
    for (number, file) in files(log) {
        let is_directory = file.directory.is_some();
        for (block, address) in file.blocks.iter().filter_map(|(block, address)| Some((*block, (*address)?))) {
            let directory = Owner::Directory { file: number, block };
            claim(address, if is_directory { directory } else { Owner::Data { file: number, block } }, layout.block)?;
        }
        for (pointers, address) in file.indirect.iter().filter_map(|(pointers, at)| Some((*pointers, (*at)?))) {
            claim(address, Owner::Indirect { file: number, pointers }, layout.block)?;
        }
        match log.map.get(number) {
            Some(address) => {
                claim(address, Owner::Inodes, INODE)?;
                let Content::Inodes(inodes) = log.disk.get(address) else { unreachable!("inodes are there") };
                if !inodes.iter().any(|inode| *inode == file.inode(number)) {
                    return Err(Fault::Inode { file: number, address });
                }
            }
            None if file.addresses().next().is_none() && log.created.contains(&number) => {}
            None => return Err(Fault::Unmapped { file: number }),
        }
    }
    let mapped = (0..).zip(&log.map.addresses).filter(|(_, address)| address.is_some());
    if let Some((file, _)) = mapped.into_iter().find(|(file, _)| log.file(*file).is_none()) {
        return Err(Fault::Mapped { file });
    }
    for (index, address) in (0..).zip(&log.map.places).filter_map(|(index, place)| Some((index, (*place)?))) {
        claim(address, Owner::Map { index }, layout.block)?;
    }
    for (index, address) in (0..).zip(&log.usage.places).filter_map(|(index, place)| Some((index, (*place)?))) {
        claim(address, Owner::Usage { index }, layout.block)?;
    }
    for (number, (counted, segment)) in (0..).zip(live.into_iter().zip(&log.usage.segments)) {
        if counted != segment.live {
            return Err(Fault::Usage { segment: number, counted, said: segment.live });
        }
        let in_log = number == log.head.segment || number == log.head.next;
        if segment.clean != log.usage.clean.contains(&number) || (in_log && segment.clean) {
            return Err(Fault::CleanList { segment: number });
        }
    }
    Ok(())
}

fn check_names(log: &Log) -> Result<(), Fault> {
    let mut names: BTreeMap<u64, u64> = BTreeMap::from([(ROOT, 1)]);
    let there = |file: u64| log.file(file).is_some() && !log.removed.contains(&file);
    for (_, file) in files(log).filter(|(number, _)| there(*number)) {
        for (name, file) in file.directory.iter().flat_map(|directory| directory.blocks.iter().flatten()) {
            if !there(*file) {
                return Err(Fault::Name { name: name.clone(), file: *file });
            }
            *names.entry(*file).or_default() += 1;
        }
    }
    let mut counted = (log.layout.maps + log.layout.usages) * log.layout.block;
    for (number, file) in files(log).filter(|(number, _)| there(*number)) {
        let names = names.get(&number).copied().unwrap_or(0);
        if names != 1 {
            return Err(Fault::Names { file: number, names });
        }
        counted += file.claimed() * log.layout.block + INODE;
    }
    if counted != log.claimed {
        return Err(Fault::Claimed { said: log.claimed, counted });
    }
    let known = |file: u64, block| log.file(file).is_some_and(|file| file.blocks.contains_key(&block));
    match log.dirty.keys().find(|(file, block)| !known(*file, *block) || log.removed.contains(file)) {
        Some((file, block)) => Err(Fault::Dirty { file: *file, block: *block }),
        None => Ok(()),
    }
}

/// The part of a file that is in the log: whether it is a directory, its blocks, its indirect blocks.
fn in_log(file: &File) -> (bool, Vec<(u64, u64)>, Vec<u64>) {
    let blocks = file.blocks.iter().filter_map(|(block, address)| Some((*block, (*address)?))).collect();
    (file.directory.is_some(), blocks, file.indirect.values().flatten().copied().collect())
}

fn check_recovery(log: &Log) -> Result<(), Fault> {
    let found = Log::read(log.parameters, log.disk.clone()).map_err(|error| Fault::Recover { error })?;
    let numbers: BTreeSet<u64> = files(log).chain(files(&found)).map(|(number, _)| number).collect();
    for number in numbers.into_iter().filter(|number| log.map.get(*number).is_some() || found.file(*number).is_some()) {
        let [here, there] = [log, &found].map(|log| (log.map.get(number), log.file(number).map(in_log)));
        if here != there {
            return Err(different("file", &(number, here), &(number, there)));
        }
    }
    let place = |log: &Log| (log.head.segment, log.head.offset, log.head.next);
    if place(log) != place(&found) {
        return Err(different("end of the log", &place(log), &place(&found)));
    }
    if log.usage != found.usage {
        let segments = log.usage.segments.iter().zip(&found.usage.segments).enumerate();
        let different_ones = segments.filter(|(_, (here, there))| here != there).collect::<Vec<_>>();
        return Err(different("segment usage table", &different_ones, &found.usage.clean));
    }
    match log.map.places == found.map.places {
        true => Ok(()),
        false => Err(different("inode map", &log.map.places, &found.map.places)),
    }
}

fn different(what: &'static str, here: &dyn std::fmt::Debug, there: &dyn std::fmt::Debug) -> Fault {
    Fault::Recovered { what, detail: format!("{here:?}, found {there:?}") }
}
