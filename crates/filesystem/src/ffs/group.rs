//! A cylinder group: which of its fragments and inodes are free, and the counts that the allocator looks at first.

use super::layout::{Layout, POSITIONS};

/// The map of a group. Fragments count from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Free fragments.
    pub free: Vec<bool>,
    /// Inodes in use.
    pub inodes: Vec<bool>,
    /// Whole blocks that are free.
    pub blocks: u64,
    /// Free fragments that are not of whole free blocks.
    pub loose: u64,
    /// Free inodes.
    pub free_inodes: u64,
    /// Directories.
    pub directories: u64,
    /// Free blocks of each cylinder by rotational position.
    pub by_position: Vec<[u32; POSITIONS]>,
    /// Runs of free fragments within blocks, by their length; whole blocks are not counted.
    pub runs: [u32; 8],
    /// Where the last block was found without a preference.
    pub block_rotor: u64,
    /// Where the last fragment was found.
    pub fragment_rotor: u64,
    /// The last inode that was found without a preference.
    pub inode_rotor: u64,
    /// How many fragments make a block.
    per_block: u64,
}

impl Group {
    /// An empty group of which the fragments in `taken` hold its tables.
    pub fn new(layout: &Layout, group: u64, taken: std::ops::Range<u64>) -> Group {
        let length = layout.length(group);
        let mut new = Group {
            free: vec![true; length as usize],
            inodes: vec![false; layout.inodes as usize],
            blocks: 0,
            loose: 0,
            free_inodes: layout.inodes,
            directories: 0,
            by_position: vec![[0; POSITIONS]; layout.group_cylinders()],
            runs: [0; 8],
            block_rotor: 0,
            fragment_rotor: 0,
            inode_rotor: 0,
            per_block: layout.per_block,
        };
        new.free[taken.start as usize..taken.end as usize].fill(false);
        for block in (0..length).step_by(layout.per_block as usize) {
            new.count(layout, block, true);
        }
        new
    }

    /// Whether all fragments of the block that begins here are free. A group's last block may be cut off.
    pub fn is_free(&self, block: u64) -> bool {
        let (from, to) = (block as usize, (block + self.per_block) as usize);
        self.free.get(from..to).is_some_and(|block| block.iter().all(|free| *free))
    }

    /// Takes fragments of one block.
    pub fn take(&mut self, layout: &Layout, from: u64, count: u64) {
        self.change(layout, from, count, false);
    }

    /// Gives fragments of one block back.
    pub fn give(&mut self, layout: &Layout, from: u64, count: u64) {
        self.change(layout, from, count, true);
    }

    fn change(&mut self, layout: &Layout, from: u64, count: u64, free: bool) {
        let block = from - from % self.per_block;
        assert!(count > 0 && from + count <= block + self.per_block, "fragments of one block");
        self.count(layout, block, false);
        for fragment in &mut self.free[from as usize..(from + count) as usize] {
            assert_ne!(*fragment, free, "a fragment is taken when it is free, and given back when it is not");
            *fragment = free;
        }
        self.count(layout, block, true);
    }

    /// Puts what is free of a block into the counts, or takes it out.
    fn count(&mut self, layout: &Layout, block: u64, into: bool) {
        let put = |count: &mut u32| if into { *count += 1 } else { *count -= 1 };
        let end = (block + self.per_block).min(self.free.len() as u64);
        if self.is_free(block) {
            put(&mut self.by_position[layout.cylinder_of(block)][layout.position_of(block)]);
            self.blocks = if into { self.blocks + 1 } else { self.blocks - 1 };
            return;
        }
        for run in self.free[block as usize..end as usize].chunk_by(|a, b| a == b).filter(|run| run[0]) {
            put(&mut self.runs[run.len()]);
            let length = run.len() as u64;
            self.loose = if into { self.loose + length } else { self.loose - length };
        }
    }

    /// The first block from that of `from` on, then from the start, in which a run of free fragments has exactly this
    /// length, whole blocks included; gives where the run begins.
    pub fn search(&self, from: u64, length: u64) -> Option<u64> {
        // The kernel looks at the map byte by byte.
        let start = from / 8 * 8;
        let start = start - start % self.per_block;
        let all = self.free.len() as u64;
        let blocks = (start..all).step_by(self.per_block as usize).chain((0..start).step_by(self.per_block as usize));
        for block in blocks {
            let mut at = block;
            let end = (block + self.per_block).min(all);
            for run in self.free[block as usize..end as usize].chunk_by(|a, b| a == b) {
                if run[0] && run.len() as u64 == length {
                    return Some(at);
                }
                at += run.len() as u64;
            }
        }
        None
    }
}
