//! Writes to the log.
//!
//! Data go to the log as a *partial write*: a summary, data and names, indirect blocks, inodes, blocks of
//! tables. It ends with the segment at the latest. A partial write has the inodes and indirect blocks of all that is in
//! it. So the log is consistent after each one, and a crash between two of them loses only the later.
//!
//! # Rejected
//! Data in one write and the inode in a later one: it saves the inode of a large file in each of its segments, but a
//! checkpoint between the two would count blocks as live that nothing on the disk points to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::disk::{Content, Inode, Kind, Pointers, Summary, Written};
use super::inode::parent_of;
use super::parameters::{INODE, LEAST_WRITE, Layout};
use super::{Log, Purpose, Transfer};

/// The contents of a write to the log. Indirect blocks and inodes follow from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    /// A dirty block of a file.
    Dirty(u64, u64),
    /// A block of a file as it lies in the log already.
    Copy(u64, u64),
    /// An indirect block of a file.
    Indirect(u64, Pointers),
    /// An inode.
    Inode(u64),
    /// An inode that says that the file has been removed.
    Removed(u64),
    /// A block of the inode map.
    Map(u64),
    /// A block of the segment usage table.
    Usage(u64),
}

/// What goes into one partial write.
#[derive(Debug)]
pub(super) struct Batch {
    layout: Layout,
    /// Blocks that it may take, without the summary.
    capacity: u64,
    blocks: Vec<Item>,
    indirect: BTreeSet<(u64, Pointers)>,
    /// Whether the file has been removed.
    inodes: BTreeMap<u64, bool>,
    tables: Vec<Item>,
    /// The file and the indirect block of the last block that it took: most blocks follow one of the same file.
    last: Option<(u64, Option<Pointers>)>,
}

impl Batch {
    /// For what is left of a segment behind `offset`.
    pub fn new(layout: Layout, offset: u64) -> Batch {
        let capacity = (layout.segment - offset).saturating_sub(1).min(layout.entries);
        let (blocks, indirect, inodes, tables) = Default::default();
        Batch { layout, capacity, blocks, indirect, inodes, tables, last: None }
    }

    /// Blocks that it takes, without the summary.
    pub fn size(&self) -> u64 {
        self.size_with(0, 0, 0)
    }

    fn size_with(&self, blocks: usize, indirect: usize, inodes: usize) -> u64 {
        let inodes = (self.inodes.len() + inodes) as u64;
        (self.blocks.len() + blocks + self.tables.len() + self.indirect.len() + indirect) as u64
            + inodes.div_ceil(self.layout.inodes)
    }

    /// Takes an item if it has room for it and what follows from it.
    pub fn add(&mut self, item: Item) -> bool {
        let (file, single, blocks) = match item {
            Item::Dirty(file, block) | Item::Copy(file, block) => (Some(file), self.layout.pointers_of(block), 1),
            Item::Indirect(file, pointers) => (Some(file), Some(pointers), 0),
            Item::Inode(file) | Item::Removed(file) => (Some(file), None, 0),
            Item::Map(_) | Item::Usage(_) => (None, None, 1),
        };
        if blocks == 1 && file.is_some_and(|file| self.last == Some((file, single))) {
            let fits = self.size_with(1, 0, 0) <= self.capacity;
            self.blocks.extend(fits.then_some(item));
            return fits;
        }
        let follow = [single, single.and_then(parent_of)].map(|pointers| Some((file?, pointers?)));
        let missing = follow.iter().flatten().filter(|pointers| !self.indirect.contains(pointers)).count();
        let inode = file.is_some_and(|file| !self.inodes.contains_key(&file));
        if self.size_with(blocks, missing, usize::from(inode)) > self.capacity {
            return false;
        }
        self.indirect.extend(follow.into_iter().flatten());
        if let Some(file) = file {
            *self.inodes.entry(file).or_default() |= matches!(item, Item::Removed(_));
        }
        match item {
            Item::Dirty(..) | Item::Copy(..) => {
                self.blocks.push(item);
                self.last = file.map(|file| (file, single));
            }
            Item::Map(_) | Item::Usage(_) => self.tables.push(item),
            Item::Indirect(..) | Item::Inode(_) | Item::Removed(_) => {}
        }
        true
    }

    /// Takes items from the front while it has room.
    pub fn fill(&mut self, items: &mut VecDeque<Item>) {
        while items.front().is_some_and(|item| self.add(*item)) {
            items.pop_front();
        }
    }
}

impl Log {
    /// How many more segments these items take, and how many blocks are left in the last one then.
    pub(super) fn measure(&self, items: &[Item]) -> (u64, u64) {
        let mut items: VecDeque<Item> = items.to_vec().into();
        let (mut segments, mut offset) = (0, self.head.offset);
        while !items.is_empty() {
            if self.layout.segment - offset < LEAST_WRITE {
                (segments, offset) = (segments + 1, 0);
            }
            let mut batch = Batch::new(self.layout, offset);
            batch.fill(&mut items);
            offset += 1 + batch.size();
            // What does not fit takes the next segment, even if there is room for smaller things.
            if batch.size() == 0 {
                offset = self.layout.segment;
            }
        }
        (segments, self.layout.segment - offset)
    }

    /// Whether the log has to take a clean segment before the next write.
    pub(super) fn is_segment_full(&self) -> bool {
        self.layout.segment - self.head.offset < LEAST_WRITE
    }

    /// Writes all of it. With `together`, a crash loses all of it or nothing.
    ///
    /// # Panics
    /// If there are not enough clean segments: callers measure first.
    pub(super) fn append(&mut self, mut items: VecDeque<Item>, purpose: Purpose, together: bool) {
        while !items.is_empty() {
            self.append_one(&mut items, purpose, together);
        }
    }

    /// Makes one partial write of items from the front.
    pub(super) fn append_one(&mut self, items: &mut VecDeque<Item>, purpose: Purpose, together: bool) {
        if self.is_segment_full() {
            self.head.segment = self.head.next;
            self.head.offset = 0;
            self.head.next = self.usage.take().expect("whoever writes to the log has measured what is clean");
        }
        let mut batch = Batch::new(self.layout, self.head.offset);
        batch.fill(items);
        assert!(batch.size() > 0, "the rest of a segment has room for the smallest write");
        self.write_partial(batch, purpose, !together || items.is_empty());
    }

    fn write_partial(&mut self, batch: Batch, purpose: Purpose, closed: bool) {
        let layout = self.layout;
        let first = layout.address(self.head.segment, self.head.offset);
        let mut contents = vec![Content::Empty];
        let mut entries = Vec::with_capacity(batch.size() as usize);
        let mut push = |content: Content, modified: u64| {
            entries.push((content.owner().expect("what goes to the log has an owner"), modified));
            contents.push(content);
        };
        let mut address = first;
        let mut next = || {
            address += 1;
            address
        };
        let mut data = 0;
        for item in &batch.blocks {
            let content = self.move_block(*item, next());
            data += u64::from(matches!(content, Content::Data { .. }));
            let modified = content.version().expect("data has a version");
            push(content, modified);
        }
        for (file, pointers) in &batch.indirect {
            push(self.move_indirect(*file, *pointers, next()), 0);
        }
        let inodes: Vec<(u64, bool)> = batch.inodes.iter().map(|(file, removed)| (*file, *removed)).collect();
        for some in inodes.chunks(layout.inodes as usize) {
            let address = next();
            let inodes: Vec<Inode> = some.iter().map(|(file, gone)| self.move_inode(*file, *gone, address)).collect();
            push(Content::Inodes(inodes.into()), 0);
        }
        for item in &batch.tables {
            push(self.move_table(*item, next()), 0);
        }
        let Log { head, .. } = self;
        let summary = Summary { serial: head.serial, next: head.next, closed, entries };
        head.serial += 1;
        head.offset += contents.len() as u64;
        assert_eq!(contents.len() as u64, 1 + batch.size(), "a write takes as much as was measured");
        contents[0] = Content::Summary(Arc::new(summary));
        self.cost.count(purpose, layout.block, contents.len() as u64, data);
        self.put(Written { first, contents }, purpose);
        self.changed = true;
    }

    /// Something reaches the disk. A write that goes on where the one before ended makes one transfer with it.
    pub(super) fn put(&mut self, written: Written, what: Purpose) {
        let (first, blocks) = (written.first, written.contents.len() as u64);
        self.disk.apply(&written);
        if let Some(recorded) = &mut self.recorded {
            recorded.push(written);
        }
        match self.transfers.last_mut() {
            Some(last) if last.write && last.what == what && last.first + last.blocks == first => last.blocks += blocks,
            _ => self.transfers.push(Transfer { write: true, first, blocks, what }),
        }
    }

    /// A block of a file lies at this address now. Gives what lies there.
    fn move_block(&mut self, item: Item, address: u64) -> Content {
        let Log { files, disk, dirty, usage, layout, .. } = self;
        let (Item::Dirty(file, block) | Item::Copy(file, block)) = item else { unreachable!("only these are blocks") };
        let owner = files[file as usize].as_mut().expect("a block is of a file");
        let place = owner.blocks.get_mut(&block).expect("a file has the blocks that go to the log");
        let old = place.replace(address);
        let content = match (item, &owner.directory) {
            (Item::Copy(..), _) => disk.get(old.expect("what is copied lies in the log")).clone(),
            (_, directory) => {
                let version = dirty.remove(&(file, block)).expect("what is flushed is dirty");
                match directory {
                    None => Content::Data { file, block, version },
                    Some(directory) => {
                        let names = Arc::new(directory.blocks[block as usize].clone());
                        Content::Directory { file, block, version, names }
                    }
                }
            }
        };
        if let Some(old) = old {
            usage.sub(layout, old, layout.block);
        }
        usage.add(layout, address, layout.block, content.version().expect("data has a version"));
        content
    }

    fn move_indirect(&mut self, file: u64, pointers: Pointers, address: u64) -> Content {
        let Log { files, usage, layout, .. } = self;
        let owner = files[file as usize].as_mut().expect("an indirect block is of a file");
        let old = owner.indirect.get_mut(&pointers).expect("a file has the blocks that go to the log").replace(address);
        if let Some(old) = old {
            usage.sub(layout, old, layout.block);
        }
        usage.add(layout, address, layout.block, 0);
        Content::Indirect { file, pointers, addresses: owner.pointers(layout, pointers).into() }
    }

    fn move_inode(&mut self, file: u64, removed: bool, address: u64) -> Inode {
        if removed {
            self.release(file);
            self.removed.remove(&file);
            self.forget(file);
            return Inode { file, kind: Kind::Removed, direct: Vec::new(), indirect: Vec::new() };
        }
        if let Some(old) = self.map.set(&self.layout, file, Some(address)) {
            self.usage.sub(&self.layout, old, INODE);
        }
        self.usage.add(&self.layout, address, INODE, 0);
        self.created.remove(&file);
        self.file(file).expect("an inode is of a file").inode(file)
    }

    fn move_table(&mut self, item: Item, address: u64) -> Content {
        let Log { map, usage, layout, .. } = self;
        let (old, content) = match item {
            Item::Map(index) => {
                map.dirty.remove(&index);
                let addresses = map.entries(layout, index).into();
                (map.places[index as usize].replace(address), Content::Map { index, addresses })
            }
            Item::Usage(index) => {
                // The checkpoint fills it in when it has written all else.
                let content = Content::Usage { index, segments: [].into() };
                (usage.places[index as usize].replace(address), content)
            }
            _ => unreachable!("only these are tables"),
        };
        if let Some(old) = old {
            usage.sub(layout, old, layout.block);
        }
        usage.add(layout, address, layout.block, 0);
        content
    }

    /// Nothing that a file has in the log is live any longer.
    pub(super) fn release(&mut self, file: u64) {
        let Log { files, usage, layout, map, .. } = self;
        let addresses = files[file as usize].iter().flat_map(super::inode::File::addresses);
        addresses.for_each(|address| usage.sub(layout, address, layout.block));
        if let Some(old) = map.set(layout, file, None) {
            usage.sub(layout, old, INODE);
        }
    }
}
