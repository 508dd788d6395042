//! Flushes and checkpoints.
//!
//! A flush writes data before the directories that name it, and directories before the tombstones of what they named:
//! after a crash a name never names what is not there, and an inode without a name is removed. Directories and
//! tombstones form a group that a roll-forward takes as a whole (as the marked partial writes of 4.4BSD's LFS). If
//! files have been removed, the group goes first, so that what they took is free for the data.
//!
//! A checkpoint writes the dirty blocks of the inode map and the segment usage table to the log, and then their
//! addresses into the older one of the two checkpoint regions. From then on the segments are clean in which nothing is
//! live.
//!
//! # Rejected
//! Blocks of the inode map with every flush: a roll-forward finds the inodes without them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::append::{Batch, Item};
use super::disk::{Checkpoint, Content, Written};
use super::{Log, LogError, Purpose, Transfer};

impl Log {
    /// Writes all dirty blocks, and cleans segments where needed.
    ///
    /// # Errors
    /// [`LogError::Full`] if cleaning gains nothing: what was not written stays dirty, and nothing is lost. Transfers
    /// that were made come with the next operation that gives transfers.
    pub fn flush(&mut self) -> Result<Vec<Transfer>, LogError> {
        self.flush_all()?;
        Ok(self.take_transfers())
    }

    /// Flushes, and makes a checkpoint unless nothing has been written since the last one.
    ///
    /// # Errors
    /// As [`Log::flush`].
    pub fn checkpoint(&mut self) -> Result<Vec<Transfer>, LogError> {
        self.flush_all()?;
        if self.changed {
            if (self.usage.clean.len() as u64) < self.parameters.clean_below {
                self.clean(self.parameters.clean_until);
            }
            if self.usage.clean.len() as u64 <= self.layout.tables {
                return Err(self.full());
            }
            self.write_checkpoint();
        }
        Ok(self.take_transfers())
    }

    fn flush_all(&mut self) -> Result<(), LogError> {
        if self.removed.is_empty() {
            let data = self.data_items();
            // All in one write, if it has room.
            let mut batch = Batch::new(self.layout, self.head.offset);
            let all = || data.iter().copied().chain(self.name_items());
            if !self.is_segment_full() && all().all(|item| batch.add(item)) {
                let all = all().collect();
                self.append(all, Purpose::Data, true);
                return Ok(());
            }
            self.append_data(data)?;
            self.append_names()
        } else {
            self.append_names()?;
            self.append_data(self.data_items())
        }
    }

    /// Files' blocks, and inodes of files without.
    fn data_items(&self) -> VecDeque<Item> {
        let is_data = |file: u64| self.file(file).is_some_and(|file| file.directory.is_none());
        let blocks = self.dirty.keys().filter(|(file, _)| is_data(*file));
        let blocks = blocks.map(|(file, block)| Item::Dirty(*file, *block));
        let with = |file: u64| is_data(file) && self.dirty.range((file, 0)..=(file, u64::MAX)).next().is_some();
        let inodes = self.created.iter().filter(|file| !with(**file)).map(|file| Item::Inode(*file));
        blocks.chain(inodes).collect()
    }

    /// Inodes of files that are not in the log yet, directories' blocks, tombstones.
    fn name_items(&self) -> Vec<Item> {
        let is_directory = |file: u64| self.file(file).is_some_and(|file| file.directory.is_some());
        let inodes = self.created.iter().map(|file| Item::Inode(*file));
        let blocks = self.dirty.keys().filter(|(file, _)| is_directory(*file));
        let blocks = blocks.map(|(file, block)| Item::Dirty(*file, *block));
        inodes.chain(blocks).chain(self.removed.iter().map(|file| Item::Removed(*file))).collect()
    }

    fn append_data(&mut self, mut items: VecDeque<Item>) -> Result<(), LogError> {
        while !items.is_empty() {
            if self.is_segment_full() {
                self.make_room(1)?;
            }
            self.append_one(&mut items, Purpose::Data, false);
        }
        Ok(())
    }

    fn append_names(&mut self) -> Result<(), LogError> {
        let items = self.name_items();
        // Cleaning moves the end of the log, so what was measured before it does not hold after it.
        for _ in 0..2 {
            let (segments, _) = self.measure(&items);
            if segments == 0 || self.usage.clean.len() as u64 >= self.layout.reserve + segments {
                break;
            }
            self.make_room(segments)?;
        }
        let (segments, _) = self.measure(&items);
        if segments > 0 && (self.usage.clean.len() as u64) < self.layout.reserve + segments {
            return Err(self.full());
        }
        self.append(items.into(), Purpose::Data, true);
        Ok(())
    }

    /// Cleans if few segments are clean; then new data may take as many.
    fn make_room(&mut self, segments: u64) -> Result<(), LogError> {
        let clean = |log: &Log| log.usage.clean.len() as u64;
        if clean(self) < self.parameters.clean_below.max(self.layout.reserve + segments) {
            self.clean((self.layout.reserve + segments).max(self.parameters.clean_until));
        }
        if clean(self) >= self.layout.reserve + segments { Ok(()) } else { Err(self.full()) }
    }

    /// Makes the state of the log durable. Dirty blocks stay dirty.
    pub(super) fn write_checkpoint(&mut self) {
        let layout = self.layout;
        let recorded = self.recorded.as_ref().map_or(0, Vec::len);
        let maps = self.map.dirty.iter().map(|index| Item::Map(*index));
        let items = maps.chain((0..layout.usages).map(Item::Usage)).collect();
        self.append(items, Purpose::Checkpoint, false);
        let empty: Vec<u64> = self.usage.empty([self.head.segment, self.head.next]).collect();
        assert!(self.cleaned.iter().all(|segment| empty.contains(segment)), "nothing is live in a cleaned segment");
        self.cost.empty += (empty.len() - self.cleaned.len()) as u64;
        self.cleaned.clear();
        self.usage.reclaim(&empty);
        self.fill_in_usage(recorded);
        let region = Checkpoint {
            number: self.checkpoints,
            time: self.time,
            segment: self.head.segment,
            offset: self.head.offset,
            next: self.head.next,
            serial: self.head.serial,
            map: self.map.places.clone(),
            usage: self.usage.places.clone(),
        };
        let mut contents = vec![Content::Continued; layout.region as usize];
        contents[0] = Content::Checkpoint(Arc::new(region));
        self.put(Written { first: layout.region_at(self.checkpoints % 2), contents }, Purpose::Region);
        self.cost.count(Purpose::Region, layout.block, layout.region, 0);
        self.checkpoints += 1;
        self.changed = false;
    }

    /// The table's blocks say how it is when all of the checkpoint has been written: until a segment's buffer goes to
    /// the disk, what is in it can be changed.
    fn fill_in_usage(&mut self, recorded: usize) {
        for index in 0..self.layout.usages {
            let entries = self.layout.usage_entries as usize;
            let segments = self.usage.segments.chunks(entries).nth(index as usize).unwrap_or_default().into();
            let content = Content::Usage { index, segments };
            let first = self.usage.places[index as usize].expect("a checkpoint writes the whole table");
            self.disk.apply(&Written { first, contents: vec![content.clone()] });
            let owner = content.owner();
            let written = self.recorded.iter_mut().flat_map(|recorded_all| &mut recorded_all[recorded..]);
            let blocks = written.flat_map(|written| &mut written.contents);
            blocks.filter(|block| block.owner() == owner).for_each(|block| *block = content.clone());
        }
    }
}
