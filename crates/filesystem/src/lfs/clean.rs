//! Cleaning: whole segments are read, what is live in them goes to the end of the log, and they are clean with the next
//! checkpoint.
//!
//! # Theory
//! Greedy takes the emptiest segments. Under hot and cold data it waits for cold segments until they are nearly as
//! empty as hot ones, and they take long: they tie up free space. *Cost-benefit* takes the segment with the largest
//!
//! ```text
//!   benefit / cost = (1 - u) age / (1 + u)
//! ```
//!
//! reading costs 1 and copying `u`, and `1 - u` of space stays free for about as long as the data has not changed. Cold
//! segments are cleaned fuller, hot ones emptier. With *age sort*, blocks are copied in the order of their age, so that
//! old ones come together. Sorting needs many segments at once. (M. Rosenblum and J. K. Ousterhout, 1991.)
//!
//! Cleaning is done in rounds, each of as many passes as the clean segments have room for, and a checkpoint. It ends
//! when enough is clean, or when rounds gain nothing. A segment that is empty anyway is not read. When clean segments
//! are scarce, the policy does not count: the emptiest segments are taken, and copied file by file, so that as few
//! inodes and indirect blocks as possible are written with them.
//!
//! # Rejected
//! A flush before the checkpoint: dirty blocks need room, which is what lacks. The state of the log is consistent
//! without them. A block that is dirty is copied as it lies in the log.

use std::collections::BTreeSet;

use super::append::Item;
use super::disk::{Content, Owner};
use super::inode::parent_of;
use super::parameters::Policy;
use super::{Log, Purpose, Transfer};

/// Rounds without gain after which cleaning gives up. A round may gain nothing although a later one does: an inode or
/// an indirect block that is written anew dies in a segment that has not been cleaned yet.
const FRUITLESS_MOST: u32 = 16;

impl Log {
    /// Cleans until so many segments are clean, or nothing is gained.
    pub(super) fn clean(&mut self, until: u64) {
        let (mut fruitless, mut best) = (0, self.free_blocks());
        while (self.usage.clean.len() as u64) < until && fruitless < FRUITLESS_MOST {
            while self.usage.clean.len() as u64 + self.reclaimable() < until {
                let (segments, items) = self.choose(fruitless > 0);
                if segments.is_empty() {
                    break;
                }
                self.clean_pass(&segments, items);
            }
            if self.reclaimable() == 0 || self.usage.clean.len() as u64 <= self.layout.tables {
                return;
            }
            self.write_checkpoint();
            let free = self.free_blocks();
            fruitless = if free > best { 0 } else { fruitless + 1 };
            best = best.max(free);
        }
    }

    /// Blocks that the log can take without cleaning.
    fn free_blocks(&self) -> u64 {
        self.usage.clean.len() as u64 * self.layout.segment + self.layout.segment - self.head.offset
    }

    /// The segments that the next checkpoint makes clean. The checkpoint also writes what is still live in them.
    fn reclaimable(&self) -> u64 {
        let empty = self.usage.empty([self.head.segment, self.head.next]);
        empty.filter(|segment| !self.cleaned.contains(segment)).count() as u64 + self.cleaned.len() as u64
    }

    /// The segments of the next pass, as many as have room where there is little, and what is live in them.
    fn choose(&self, fruitless: bool) -> (Vec<u64>, Vec<Item>) {
        let clean = self.usage.clean.len() as u64;
        // Whatever the policy, what counts then is space: the emptiest segments, as many as can be, file by file.
        let scarce = fruitless || clean <= self.layout.reserve;
        let policy = if scarce { Policy::Greedy } else { self.parameters.policy };
        let at_once = if scarce { u64::MAX } else { self.parameters.cleaned_at_once };
        let except =
            |segment| segment == self.head.segment || segment == self.head.next || self.cleaned.contains(&segment);
        let mut segments = self.usage.order(&self.layout, policy, self.time, except);
        // More than this has no room for certain; what fits is measured, with summaries, inodes and indirect blocks.
        let mut room = clean.saturating_sub(self.layout.tables) * self.layout.segment * self.layout.block;
        let fits = |segment: &&u64| {
            let live = self.usage.segments[**segment as usize].live;
            room = room.saturating_sub(live);
            room > 0
        };
        let most = segments.iter().take(at_once as usize).take_while(fits).count();
        segments.truncate(most);
        loop {
            let items = self.live_items(&segments, scarce);
            if segments.is_empty() || self.measure(&items).0 + self.layout.tables < clean {
                return (segments, items);
            }
            segments.truncate((segments.len() * 7 / 8).min(segments.len() - 1));
        }
    }

    /// Reads segments and copies what is live.
    fn clean_pass(&mut self, segments: &[u64], items: Vec<Item>) {
        let (first, blocks) = (|segment| self.layout.address(segment, 0), self.layout.segment);
        let read = |segment: &u64| Transfer { write: false, first: first(*segment), blocks, what: Purpose::Cleaning };
        let reads: Vec<Transfer> = segments.iter().map(read).collect();
        self.transfers.extend(reads);
        let bytes = self.layout.segment * self.layout.block;
        for segment in segments {
            self.cost.cleaned(bytes, self.usage.segments[*segment as usize].live);
            self.cleaned.insert(*segment);
        }
        for (owner, address) in segments.iter().flat_map(|segment| self.owners(*segment)).collect::<Vec<_>>() {
            if let Owner::Map { index } = owner.0
                && self.map.places[index as usize] == Some(address)
            {
                self.map.dirty.insert(index);
            }
        }
        self.append(items.into(), Purpose::Cleaning, false);
    }

    /// What the summaries of a segment say: whose its blocks are, how old, and where they lie.
    fn owners(&self, segment: u64) -> Vec<((Owner, u64), u64)> {
        let mut owners = Vec::new();
        let mut offset = 0;
        while offset < self.layout.segment {
            let at = self.layout.address(segment, offset);
            let Content::Summary(summary) = self.disk.get(at) else { break };
            owners.extend(summary.entries.iter().copied().zip(at + 1..));
            offset += 1 + summary.entries.len() as u64;
        }
        owners
    }

    /// The live blocks of these segments, in the order in which they are copied. Left out are indirect blocks and
    /// inodes that go to the log with copied data in any case, and tables, which the checkpoint writes.
    fn live_items(&self, segments: &[u64], scarce: bool) -> Vec<Item> {
        let (mut data, mut indirect, mut inodes) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for ((owner, modified), address) in segments.iter().flat_map(|segment| self.owners(*segment)) {
            match owner {
                Owner::Data { file, block } | Owner::Directory { file, block } => {
                    let place = self.file(file).and_then(|file| file.blocks.get(&block));
                    if place == Some(&Some(address)) {
                        data.push((modified, file, block));
                    }
                }
                Owner::Indirect { file, pointers } => {
                    let place = self.file(file).and_then(|file| file.indirect.get(&pointers));
                    if place == Some(&Some(address)) {
                        indirect.insert((file, pointers));
                    }
                }
                Owner::Inodes => {
                    if let Content::Inodes(some) = self.disk.get(address) {
                        let live = some.iter().filter(|inode| self.map.get(inode.file) == Some(address));
                        inodes.extend(live.map(|inode| inode.file));
                    }
                }
                Owner::Map { .. } | Owner::Usage { .. } => {}
            }
        }
        if scarce {
            data.sort_unstable_by_key(|(_, file, block)| (*file, *block));
        } else if self.parameters.age_sort {
            data.sort_unstable();
        }
        let mut last = None;
        for (_, file, block) in &data {
            if last.replace((*file, self.layout.pointers_of(*block))) == last {
                continue;
            }
            inodes.remove(file);
            if let Some(pointers) = self.layout.pointers_of(*block) {
                indirect.remove(&(*file, pointers));
                parent_of(pointers).map(|parent| indirect.remove(&(*file, parent)));
            }
        }
        indirect.iter().for_each(|(file, _)| _ = inodes.remove(file));
        let data = data.into_iter().map(|(_, file, block)| Item::Copy(file, block));
        let indirect = indirect.into_iter().map(|(file, pointers)| Item::Indirect(file, pointers));
        data.chain(indirect).chain(inodes.into_iter().map(Item::Inode)).collect()
    }
}
