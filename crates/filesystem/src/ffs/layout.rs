//! Where a group's tables and data lie, and at which angle of the platter a fragment is.
//!
//! A cylinder group begins with a copy of the superblock, its map and its inodes. So that one broken platter cannot
//! take all copies, the tables of each group lie a track further into it than those of the group before.
//!
//! A track is cut into eight *rotational positions*. Blocks and cylinders line up again after a *cycle* of cylinders;
//! for one cycle a table lists the blocks at each position of each cylinder (`postbl` and `rotbl` in fs.h), from which
//! the allocator takes the one that comes round next.
//!
//! # Source
//! mkfs.c and fs.h of 4.2BSD: sblkno, cblkno, iblkno, dblkno, cgoffset, cgmask, cbtorpos, cbtocylno.

use super::parameters::{CYLINDERS_MOST, INODE, INODES_MOST, Parameters, ParametersError, SECTOR};

/// Rotational positions that are told apart (NRPOS).
pub const POSITIONS: usize = 8;
/// The boot block, and as much for a superblock.
const SUPERBLOCK: u64 = 8192;
/// The map of a group without its bits for fragments: counts, summaries and the bits for inodes.
const MAP: u64 = 1024;

/// Where everything is. Addresses are in fragments.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Fragments of a block.
    pub per_block: u64,
    /// Sectors of a fragment.
    pub sectors: u64,
    /// Fragments of the file system.
    pub fragments: u64,
    /// Fragments of a group.
    pub group: u64,
    /// Groups.
    pub groups: u64,
    /// Inodes of a group.
    pub inodes: u64,
    /// Inodes of a block.
    pub inodes_per_block: u64,
    /// Fragments of a group's map.
    pub map: u64,
    /// Fragments between two blocks of a file that are laid out one after the other.
    pub gap: u64,
    sector_count: u64,
    cylinder: u64,
    superblock: u64,
    map_at: u64,
    inodes_at: u64,
    data_at: u64,
    offset: u64,
    mask: u64,
    /// For each cylinder of a cycle, the blocks of it at each position, ascending, from the start of the cycle.
    positions: Vec<[Vec<u64>; POSITIONS]>,
}

impl Layout {
    /// That of a new file system.
    pub fn new(parameters: &Parameters) -> Result<Layout, ParametersError> {
        parameters.check()?;
        let geometry = parameters.geometry;
        let fragment = parameters.fragment.get();
        let (per_block, sectors) = (parameters.per_block(), fragment / SECTOR);
        let cylinder = geometry.sectors * geometry.tracks;
        let cycle = cycle(cylinder, per_block * sectors);
        if cycle > CYLINDERS_MOST {
            return Err(ParametersError::Cycle { sectors: cylinder, cycle });
        }
        let group_cylinders = parameters.group_cylinders.next_multiple_of(cycle).min(CYLINDERS_MOST / cycle * cycle);
        let group = group_cylinders * cylinder / sectors;
        let fragments = cylinder * geometry.cylinders / sectors;
        let groups = geometry.cylinders.div_ceil(group_cylinders);
        let inodes_per_block = parameters.block.get() / INODE;
        let wanted = group * fragment / parameters.bytes_per_inode;
        let inodes = wanted.next_multiple_of(inodes_per_block).min(INODES_MOST);
        let in_blocks = |bytes: u64| bytes.div_ceil(fragment).next_multiple_of(per_block);
        let superblock = in_blocks(2 * SUPERBLOCK);
        let map_at = superblock + in_blocks(SUPERBLOCK);
        let inodes_at = map_at + per_block;
        let data_at = inodes_at + inodes / (fragment / INODE);
        let offset = geometry.sectors.div_ceil(sectors).next_multiple_of(per_block);
        let mut mask = u64::MAX << geometry.tracks.ilog2();
        if !geometry.tracks.is_power_of_two() {
            mask <<= 1;
        }
        let layout = Layout {
            per_block,
            sectors,
            fragments,
            group,
            groups,
            inodes,
            inodes_per_block,
            map: (MAP + group.div_ceil(8)).div_ceil(fragment),
            gap: (parameters.rotational_delay * geometry.turns * geometry.sectors / (sectors * 1000))
                .next_multiple_of(per_block),
            sector_count: geometry.sectors,
            cylinder,
            superblock,
            map_at,
            inodes_at,
            data_at,
            offset,
            mask,
            positions: Vec::new(),
        };
        let tables = (0..groups).map(|number| layout.data(number) - layout.base(number)).max().unwrap_or(0);
        // The last group may be short of room for its tables: mkfs omits it.
        let last = layout.base(groups - 1);
        let layout = match fragments - last <= layout.data(groups - 1) - last + per_block {
            true if groups > 1 => Layout { groups: groups - 1, fragments: last, ..layout },
            true => return Err(ParametersError::Small { there: fragments, tables }),
            false => layout,
        };
        Ok(layout.with_positions(cycle))
    }

    fn with_positions(mut self, cycle: u64) -> Layout {
        self.positions = (0..cycle).map(|_| Default::default()).collect();
        for block in 0..cycle * self.cylinder / self.sectors / self.per_block {
            let at = block * self.per_block;
            let (cylinder, position) = (self.cylinder_of(at), self.position_of(at));
            self.positions[cylinder][position].push(block);
        }
        self
    }

    /// The group of a fragment.
    pub fn group_of(&self, fragment: u64) -> u64 {
        fragment / self.group
    }
    /// The first fragment of a group.
    pub fn base(&self, group: u64) -> u64 {
        group * self.group
    }
    /// Fragments that a group has; the last may have fewer than the others.
    pub fn length(&self, group: u64) -> u64 {
        self.group.min(self.fragments - self.base(group))
    }
    /// Where a group's tables begin.
    fn start(&self, group: u64) -> u64 {
        self.base(group) + self.offset * (group & !self.mask)
    }
    /// Where the copy of the superblock in a group lies.
    pub fn superblock(&self, group: u64) -> u64 {
        self.start(group) + self.superblock
    }
    /// Where the map of a group lies.
    pub fn map_of(&self, group: u64) -> u64 {
        self.start(group) + self.map_at
    }
    /// Where the data of a group begin behind its tables.
    pub fn data(&self, group: u64) -> u64 {
        self.start(group) + self.data_at
    }
    /// The block of inodes that holds one.
    pub fn inode_block(&self, inode: u64) -> u64 {
        let (group, number) = (inode / self.inodes, inode % self.inodes);
        self.start(group) + self.inodes_at + number / self.inodes_per_block * self.per_block
    }
    /// Cylinders of a group.
    pub fn group_cylinders(&self) -> usize {
        (self.group * self.sectors / self.cylinder) as usize
    }
    /// The cylinder, within its group, of a fragment counted from the start of the group.
    pub fn cylinder_of(&self, within: u64) -> usize {
        (within * self.sectors / self.cylinder) as usize
    }
    /// The rotational position of a fragment counted from the start of its group.
    pub fn position_of(&self, within: u64) -> usize {
        (within * self.sectors % self.cylinder % self.sector_count * POSITIONS as u64 / self.sector_count) as usize
    }
    /// The blocks of a cylinder at a position, as fragments from the start of the group, in the order of the table.
    pub fn at_position(&self, cylinder: usize, position: usize) -> impl Iterator<Item = u64> {
        let cycle = self.positions.len();
        let from = (cylinder - cylinder % cycle) as u64 * self.cylinder / self.sectors;
        self.positions[cylinder % cycle][position].iter().map(move |block| from + block * self.per_block)
    }
}

/// After how many cylinders blocks begin on a cylinder again.
fn cycle(cylinder: u64, block: u64) -> u64 {
    block >> cylinder.trailing_zeros().min(block.trailing_zeros())
}
