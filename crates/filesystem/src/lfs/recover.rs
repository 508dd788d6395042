//! Recovery after a crash: the newest checkpoint, and a roll-forward through the summaries of what was written since.
//!
//! # Theory
//! The checkpoint says where the tables lie and where the log ends. Writes that follow are found one after the other:
//! right behind the last, or at the start of the segment that the last one named, each with the next serial number. The
//! inodes in them are newer than those of the map. For each of them the usage table loses what the old inode points to
//! and gains what the new one does. Two kinds of writes at the end are not taken: a group of directories that is not
//! complete, and the tables of a checkpoint that is not.
//!
//! Then a file that no directory names is removed: the crash came before its name was written, or before its tombstone
//! was. A checkpoint ends the recovery. Its serial number is past all that were found, so that the rest of an
//! incomplete group is never taken for a continuation.

use std::collections::BTreeSet;

use super::disk::{Checkpoint, Content, Disk, Inode, Kind, Owner, Summary};
use super::inode::File;
use super::names::Directory;
use super::parameters::{INODE, Layout, Parameters, ParametersError};
use super::{Head, Log, Purpose, ROOT, Transfer};

/// Why a disk was not recovered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum RecoverError {
    #[error(transparent)]
    Parameters(#[from] ParametersError),
    #[error("the disk has {there} blocks, and the parameters say {said}; use those that the disk was made with")]
    Size { there: u64, said: u64 },
    #[error("no checkpoint in block 0 or {second}; the disk holds no log, or one made with other parameters")]
    NoCheckpoint { second: u64 },
    #[error("block {address} does not hold {what}, to which the checkpoint or a summary points; the disk is damaged")]
    Damaged { address: u64, what: &'static str },
    #[error("no clean segment is left for the checkpoint that ends the recovery")]
    NoRoom,
}

impl Log {
    /// The state that is found on a disk, and what is read and written to find it.
    ///
    /// # Errors
    /// If the disk does not hold a log made with these parameters.
    pub fn recover(parameters: Parameters, disk: Disk) -> Result<(Log, Vec<Transfer>), RecoverError> {
        let mut log = Log::read(parameters, disk)?;
        if log.usage.clean.len() as u64 <= log.layout.tables {
            return Err(RecoverError::NoRoom);
        }
        log.write_checkpoint();
        let transfers = log.take_transfers();
        Ok((log, transfers))
    }

    /// The state before the checkpoint that ends the recovery.
    pub(super) fn read(parameters: Parameters, disk: Disk) -> Result<Log, RecoverError> {
        let layout = Layout::new(&parameters)?;
        if disk.blocks() != layout.blocks {
            return Err(RecoverError::Size { there: disk.blocks(), said: layout.blocks });
        }
        let regions = [0, 1].map(|region| disk.get(layout.region_at(region)).clone());
        let checkpoints = regions.iter().filter_map(|content| match content {
            Content::Checkpoint(checkpoint) => Some(checkpoint.clone()),
            _ => None,
        });
        let newest = checkpoints.max_by_key(|checkpoint| checkpoint.number);
        let newest = newest.ok_or(RecoverError::NoCheckpoint { second: layout.region_at(1) })?;
        let mut log = Log::blank(parameters, layout, disk);
        for region in [0, 1] {
            log.touch(layout.region_at(region), layout.region);
        }
        log.load(&newest)?;
        log.roll_forward()?;
        log.read_directories();
        Ok(log)
    }

    /// Takes over what the checkpoint says.
    fn load(&mut self, checkpoint: &Checkpoint) -> Result<(), RecoverError> {
        let Checkpoint { number, time, segment, offset, next, serial, ref map, ref usage } = *checkpoint;
        (self.checkpoints, self.time) = (number + 1, time);
        self.head = Head { segment, offset, next, serial };
        (self.map.places, self.usage.places) = (map.clone(), usage.clone());
        let mut inodes = Vec::new();
        for address in map.iter().flatten().copied() {
            self.touch(address, 1);
            let Content::Map { index, addresses } = self.disk.get(address) else {
                return Err(RecoverError::Damaged { address, what: "a block of the inode map" });
            };
            let first = index * self.layout.map_entries;
            inodes.extend((first..).zip(addresses.iter().copied()).filter_map(|(file, at)| Some((file, at?))));
        }
        self.usage.segments.clear();
        for address in usage.iter().flatten().copied() {
            self.touch(address, 1);
            let Content::Usage { segments, .. } = self.disk.get(address) else {
                return Err(RecoverError::Damaged { address, what: "a block of the segment usage table" });
            };
            let segments = segments.clone();
            self.usage.segments.extend(segments.iter());
        }
        if self.usage.segments.len() as u64 != self.layout.segments {
            return Err(RecoverError::Damaged { address: 0, what: "the addresses of the whole segment usage table" });
        }
        let segments = (0..).zip(&self.usage.segments);
        self.usage.clean = segments.filter(|(_, segment)| segment.clean).map(|(number, _)| number).collect();
        for (file, address) in inodes {
            let Content::Inodes(some) = self.disk.get(address) else {
                return Err(RecoverError::Damaged { address, what: "inodes" });
            };
            let inode = some.iter().find(|inode| inode.file == file);
            let inode = inode.ok_or(RecoverError::Damaged { address, what: "the inode" })?.clone();
            self.enter(&inode, Some(address));
        }
        self.map.dirty.clear();
        Ok(())
    }

    /// A file is as this inode says from here on.
    fn enter(&mut self, inode: &Inode, address: Option<u64>) -> u64 {
        let (file, read) = File::read(inode, &self.disk);
        let index = inode.file as usize;
        if self.files.len() <= index {
            self.files.resize(index + 1, None);
        }
        self.files[index] = (inode.kind != Kind::Removed).then_some(file);
        self.map.set(&self.layout, inode.file, address.filter(|_| inode.kind != Kind::Removed));
        read
    }

    /// The next write to the log, if it is on the disk: its segment, its offset, and its summary.
    fn following(&self, head: &Head) -> Option<(u64, u64, Summary)> {
        [(head.segment, head.offset), (head.next, 0)].into_iter().find_map(|(segment, offset)| {
            if offset >= self.layout.segment {
                return None;
            }
            match self.disk.get(self.layout.address(segment, offset)) {
                Content::Summary(summary) if summary.serial == head.serial => {
                    Some((segment, offset, Summary::clone(summary)))
                }
                _ => None,
            }
        })
    }

    fn roll_forward(&mut self) -> Result<(), RecoverError> {
        let mut found = Vec::new();
        let mut head = self.head;
        while let Some((segment, offset, summary)) = self.following(&head) {
            self.touch(self.layout.address(segment, offset), 1);
            let end = offset + 1 + summary.entries.len() as u64;
            head = Head { segment, offset: end, next: summary.next, serial: head.serial + 1 };
            found.push((offset, summary, head));
        }
        let complete = |(_, summary, _): &(u64, Summary, Head)| {
            summary.closed && summary.entries.iter().any(|(owner, _)| *owner == Owner::Inodes)
        };
        let taken = found.iter().rposition(complete).map_or(0, |last| last + 1);
        for (offset, summary, head) in &found[..taken] {
            for segment in [head.segment, head.next] {
                self.usage.mark_taken(segment);
            }
            self.head = *head;
            let first = self.layout.address(head.segment, *offset) + 1;
            self.take_write(first, summary)?;
        }
        self.head.serial = head.serial;
        Ok(())
    }

    /// A write to the log counts.
    fn take_write(&mut self, first: u64, summary: &Summary) -> Result<(), RecoverError> {
        for ((owner, modified), address) in summary.entries.iter().zip(first..) {
            self.time = self.time.max(*modified);
            let segment = self.layout.segment_of(address) as usize;
            let youngest = &mut self.usage.segments[segment].youngest;
            *youngest = (*youngest).max(*modified);
            if *owner != Owner::Inodes {
                continue;
            }
            self.touch(address, 1);
            let Content::Inodes(inodes) = self.disk.get(address) else {
                return Err(RecoverError::Damaged { address, what: "inodes" });
            };
            for inode in inodes.clone().iter() {
                if self.file(inode.file).is_some() {
                    self.release(inode.file);
                }
                self.enter(inode, Some(address));
                let Log { files, usage, layout, .. } = self;
                let Some(file) = &files[inode.file as usize] else { continue };
                file.addresses().for_each(|address| usage.add(layout, address, layout.block, 0));
                usage.add(layout, address, INODE, 0);
            }
        }
        Ok(())
    }

    /// Reads names, and notes files without one as removed.
    fn read_directories(&mut self) {
        let Log { files, disk, .. } = self;
        for file in files.iter_mut().flatten().filter(|file| file.directory.is_some()) {
            let names = |address: &Option<u64>| match disk.get((*address)?) {
                Content::Directory { names, .. } => Some(names.as_ref().clone()),
                _ => None,
            };
            let blocks = file.blocks.values().map(|address| names(address).unwrap_or_default()).collect();
            file.directory = Some(Directory::read(blocks));
        }
        let mut named = BTreeSet::new();
        let mut waiting = vec![ROOT];
        while let Some(number) = waiting.pop() {
            if named.insert(number) {
                let directory = self.file(number).and_then(|file| file.directory.as_ref());
                waiting.extend(directory.iter().flat_map(|directory| directory.files()));
            }
        }
        for number in 0..self.files.len() as u64 {
            match &self.files[number as usize] {
                None => _ = self.free.insert(number),
                Some(_) if !named.contains(&number) => _ = self.removed.insert(number),
                Some(file) => self.claimed += file.claimed() * self.layout.block + INODE,
            }
        }
    }

    /// Something is read.
    fn touch(&mut self, first: u64, blocks: u64) {
        self.transfers.push(Transfer { write: false, first, blocks, what: Purpose::Recovery });
    }
}
