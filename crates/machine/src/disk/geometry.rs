//! Which block is where.
//!
//! # Theory
//! A zone is a range of cylinders whose tracks hold the same number of sectors. Within a zone, tracks are numbered in
//! the order in which blocks fill them (cylinder by cylinder, head by head, in serpentine layouts every other cylinder
//! backwards), and sectors are numbered along the tracks: the *slot* of a sector. Slots that hold no block are the
//! reserved ones at the front of the zone, the spares at the end (or front) of each *region* (a track, a cylinder, some
//! cylinders, or the zone), and the slips: defective sectors or tracks that were passed over when the drive was
//! formatted. So
//!
//! ```text
//!   block of the zone + reserved = how many usable slots come before this one
//! ```
//!
//! with slips pushing the blocks behind them on, up to the end of their region or, in the "slip to end" schemes, of the
//! zone. Both directions are one binary search over the slips. A defect found later is remapped: that one block lives
//! in a spare.
//!
//! The first sector of a track is turned against that of the track before by the track skew, or by the cylinder skew
//! where a cylinder ends, so that a sequential transfer finds its next sector about when the head has settled.
//!
//! # Sources
//! The meaning of the sparing schemes, the serpentine layouts and the reserved space is that of DiskSim 4.0's drive
//! files (CMU-PDL-08-101, "dm_layout_g1"). There, as here, reserved space is counted in usable slots, a last range that
//! is shorter than the others keeps no spares, and in the schemes with spares in each track or cylinder a slip turns
//! the tracks behind it on by one sector. Not copied: with spares at the front of each cylinder DiskSim pushes blocks
//! behind a slip out of the cylinder; here they move the other way, into the spares.

mod build;
mod layout;

pub use layout::{Layout, LayoutError, Mapping, Sparing, ZoneLayout};

use super::rotation::Angle;

/// A physical sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Location {
    /// Counted from the outermost.
    pub cylinder: u32,
    /// The surface.
    pub head: u32,
    /// Counted along the track from its first sector.
    pub sector: u32,
}

/// Blocks that pass under one head one after another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Where the first one is.
    pub location: Location,
    /// How many there are.
    pub blocks: u64,
    /// Where the first one begins.
    pub angle: Angle,
    /// One sector.
    pub width: Angle,
    /// Which zone: an index into [`Geometry::zones`].
    pub zone: usize,
}

/// The map of a drive: every block has one sector, and every sector holds at most one block.
#[derive(Debug, Clone)]
pub struct Geometry {
    surfaces: u32,
    cylinders: u32,
    mapping: Mapping,
    zones: Vec<Zone>,
    blocks: u64,
}

/// A range of cylinders of equal tracks.
#[derive(Debug, Clone)]
pub struct Zone {
    first_block: u64,
    blocks: u64,
    first_cylinder: u32,
    last_cylinder: u32,
    sectors: u32,
    width: Angle,
    origin: Angle,
    track_skew: Angle,
    cylinder_skew: Angle,
    /// Usable slots at the front that hold no blocks.
    reserved: u64,
    /// Slots that are kept or slipped together: one, or a whole track.
    unit: u64,
    /// Units of a region, spares among them in front of its data, and data.
    region: u64,
    front: u64,
    data: u64,
    /// Slips push on beyond their region, to the end of the zone.
    to_end: bool,
    /// A slip also turns the tracks behind it on.
    slips_turn: bool,
    slips: Vec<Slip>,
    /// Defective slot and its replacement, ascending in the first; and the other way round.
    remaps: Vec<(u64, u64)>,
    replaced: Vec<(u64, u64)>,
}

/// A passed-over unit.
#[derive(Debug, Clone, Copy)]
struct Slip {
    /// Where it is.
    unit: u64,
    /// Its region.
    region: u64,
    /// How many slips stand before it in its region (in the zone, if slips push to its end).
    rank: u64,
    /// How many good units stand before it: in its region, plus the start of that; among the zone's data, if slips push
    /// to its end.
    good: u64,
}

impl Geometry {
    /// Lays the blocks out; an error says which zone is at fault and why.
    ///
    /// The zones may have room for more than `layout.blocks`; then the last blocks are not addressable. They must not
    /// have less.
    pub fn new(layout: &Layout) -> Result<Geometry, LayoutError> {
        build::build(layout)
    }

    /// How many blocks the drive has.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }
    /// How many cylinders.
    pub const fn cylinders(&self) -> u32 {
        self.cylinders
    }
    /// How many surfaces, each with its head.
    pub const fn surfaces(&self) -> u32 {
        self.surfaces
    }
    /// The zones from the outermost inwards.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Where a block is. Panics if the drive has no such block.
    pub fn locate(&self, block: u64) -> Location {
        self.extent(block).location
    }

    /// Where a block is and how many follow it without a break. Panics if the drive has no such block.
    pub fn extent(&self, block: u64) -> Extent {
        assert!(block < self.blocks, "block {block} of a drive with {}", self.blocks);
        let index = self.zones.partition_point(|zone| zone.first_block <= block) - 1;
        let zone = &self.zones[index];
        let within = block - zone.first_block;
        let (slot, mut blocks) = zone.slot(within + zone.reserved);
        blocks = blocks.min(zone.blocks - within);
        let mut home = slot;
        if !zone.remaps.is_empty() {
            let next = zone.remaps.partition_point(|(defect, _)| *defect < slot);
            match zone.remaps.get(next) {
                Some((defect, spare)) if *defect == slot => (home, blocks) = (*spare, 1),
                Some((defect, _)) => blocks = blocks.min(defect - slot),
                None => (),
            }
        }
        let (track, sector) = (home / u64::from(zone.sectors), (home % u64::from(zone.sectors)) as u32);
        let (cylinder, order) = ((track / u64::from(self.surfaces)) as u32, (track % u64::from(self.surfaces)) as u32);
        let cylinder = zone.first_cylinder + cylinder;
        let head = self.mapping.head(cylinder, cylinder - zone.first_cylinder, order, self.surfaces);
        let blocks = blocks.min(u64::from(zone.sectors - sector));
        let angle = zone.track_angle(cylinder - zone.first_cylinder, order, self.surfaces);
        Extent {
            location: Location { cylinder, head, sector },
            blocks,
            angle: angle.plus(zone.width.times(u64::from(sector))),
            width: zone.width,
            zone: index,
        }
    }

    /// Which block is in a sector, if any: spares, slips, defects and reserved sectors hold none.
    pub fn block(&self, location: Location) -> Option<u64> {
        let Location { cylinder, head, sector } = location;
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_cylinder <= cylinder).checked_sub(1)?];
        if cylinder > zone.last_cylinder || head >= self.surfaces || sector >= zone.sectors {
            return None;
        }
        let order = self.mapping.head(cylinder, cylinder - zone.first_cylinder, head, self.surfaces);
        let track = u64::from(cylinder - zone.first_cylinder) * u64::from(self.surfaces) + u64::from(order);
        let mut slot = track * u64::from(zone.sectors) + u64::from(sector);
        if zone.remaps.binary_search_by_key(&slot, |(defect, _)| *defect).is_ok() {
            return None;
        }
        if let Ok(at) = zone.replaced.binary_search_by_key(&slot, |(spare, _)| *spare) {
            slot = zone.replaced[at].1;
        }
        let within = zone.usable(slot)?.checked_sub(zone.reserved)?;
        let block = zone.first_block + within;
        (within < zone.blocks && block < self.blocks).then_some(block)
    }

    /// The blocks of the track that holds `block`, remapped ones not counted as away: first, and one past the last.
    pub fn track_of(&self, block: u64) -> (u64, u64) {
        let index = self.zones.partition_point(|zone| zone.first_block <= block) - 1;
        let zone = &self.zones[index];
        let (slot, _) = zone.slot(block - zone.first_block + zone.reserved);
        let first = slot - slot % u64::from(zone.sectors);
        let after = zone.usable_before(first + u64::from(zone.sectors)).saturating_sub(zone.reserved).min(zone.blocks);
        let first = zone.usable_before(first).saturating_sub(zone.reserved);
        (zone.first_block + first, (zone.first_block + after).min(self.blocks))
    }
}

impl Zone {
    /// The first block.
    pub const fn first_block(&self) -> u64 {
        self.first_block
    }
    /// How many blocks.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }
    /// The outermost cylinder.
    pub const fn first_cylinder(&self) -> u32 {
        self.first_cylinder
    }
    /// The innermost cylinder.
    pub const fn last_cylinder(&self) -> u32 {
        self.last_cylinder
    }
    /// Sectors of a track.
    pub const fn sectors(&self) -> u32 {
        self.sectors
    }

    /// The slot of the `usable`-th usable slot, and how many follow without a gap (track ends not counted as gaps).
    fn slot(&self, usable: u64) -> (u64, u64) {
        let (unit, within) = (usable / self.unit, usable % self.unit);
        let (at, run) = if self.to_end { self.pushed_to_end(unit) } else { self.pushed_in_region(unit) };
        (at * self.unit + within, run * self.unit - within)
    }

    fn pushed_in_region(&self, usable: u64) -> (u64, u64) {
        let (region, offset) = (usable / self.data, usable % self.data);
        let good = region * self.region + offset + self.unused_front(region);
        let after = self.slips.partition_point(|slip| slip.good <= good);
        let push = self.slips_until(after, region);
        let mut run = self.data - offset;
        if let Some(next) = self.slips.get(after) {
            run = run.min(next.good - good);
        }
        (good + push, run)
    }

    fn pushed_to_end(&self, usable: u64) -> (u64, u64) {
        let after = self.slips.partition_point(|slip| slip.good <= usable);
        let datum = usable + after as u64;
        let mut run = self.data - datum % self.data;
        if let Some(next) = self.slips.get(after) {
            run = run.min(next.good - usable);
        }
        (datum / self.data * self.region + self.front + datum % self.data, run)
    }

    /// How many of a region's slips are among the zone's first `after`, if any of them is.
    fn slips_until(&self, after: usize, region: u64) -> u64 {
        match after.checked_sub(1).map(|last| self.slips[last]) {
            Some(slip) if slip.region == region => slip.rank + 1,
            _ => 0,
        }
    }

    /// Good units at the front of a region that stay spare: each slip takes the one next to the data.
    fn unused_front(&self, region: u64) -> u64 {
        if self.front == 0 {
            return 0;
        }
        let after = self.slips.partition_point(|slip| slip.region <= region);
        self.front - self.slips_until(after, region)
    }

    /// How many usable slots come before `slot`, if it is usable itself.
    fn usable(&self, slot: u64) -> Option<u64> {
        let before = self.usable_before(slot);
        // A slot is usable if the search for its number leads back to it.
        (before < self.reserved + self.blocks && self.slot(before).0 == slot).then_some(before)
    }

    /// How many usable slots come before `slot`, which may be any.
    fn usable_before(&self, slot: u64) -> u64 {
        let (unit, within) = (slot / self.unit, slot % self.unit);
        let (region, offset) = (unit / self.region, unit % self.region);
        let slipped = self.slips.partition_point(|slip| slip.unit < unit);
        if self.to_end {
            let data = region * self.data + offset.saturating_sub(self.front).min(self.data);
            return (data - slipped as u64) * self.unit + within;
        }
        let good = offset - self.slips_until(slipped, region);
        let data = good.saturating_sub(self.unused_front(region)).min(self.data);
        (region * self.data + data) * self.unit + if data < self.data { within } else { 0 }
    }

    /// Where the first sector of a track begins; cylinder and track counted from the zone's first.
    fn track_angle(&self, cylinder: u32, order: u32, surfaces: u32) -> Angle {
        let (cylinder, order) = (u64::from(cylinder), u64::from(order));
        let switches = order + (u64::from(surfaces) - 1) * cylinder;
        let angle = self.origin.plus(self.track_skew.times(switches)).plus(self.cylinder_skew.times(cylinder));
        if !self.slips_turn || self.slips.is_empty() {
            return angle;
        }
        // Slips before the region that the track is in.
        let tracks = cylinder * u64::from(surfaces) + order;
        let slot = tracks * u64::from(self.sectors);
        let start = slot - slot % self.region;
        let slipped = self.slips.partition_point(|slip| slip.unit < start);
        angle.plus(self.width.times(slipped as u64))
    }
}
