//! What a log-structured file system is made with, and the layout that follows from it.
//!
//! # Theory
//! The disk holds two checkpoint regions, then segments:
//!
//! ```text
//!   | region 0 | region 1 | segment 0 | segment 1 | ...
//! ```
//!
//! Cleaning needs clean segments to copy into, so some are kept from new data (`Layout::reserve`): one to continue in,
//! two to copy into, and as many as a checkpoint takes. The disk counts as full while it can still be cleaned: at the
//! threshold where cleaning stops, each segment that is not clean has room to spare (`Layout::capacity`). It is a
//! sixteenth, or, where that is more, what a segment of blocks of different files has for its summaries, for their
//! inodes, and for an end that no write fits in.

use units::Bytes;

/// Bytes of an inode.
pub(super) const INODE: u64 = 128;
/// Addresses of data blocks in an inode; the rest are in indirect blocks.
pub(super) const DIRECT: u64 = 12;
/// Bytes of an address on the disk.
const ADDRESS: u64 = 8;
/// Bytes of a summary block that are not entries.
const SUMMARY_HEADER: u64 = 64;
/// Bytes of a block's entry in a summary: file, block number, time.
const SUMMARY_ENTRY: u64 = 12;
/// Bytes of an entry of the inode map: address and time of access.
const MAP_ENTRY: u64 = 16;
/// Bytes of an entry of the segment usage table: live bytes and time.
const USAGE_ENTRY: u64 = 16;
/// Bytes of a checkpoint region that are not addresses.
const REGION_HEADER: u64 = 64;
/// The smallest useful write: a summary, a data block, its indirect block, the doubly indirect block, and inodes.
pub(super) const LEAST_WRITE: u64 = 5;
/// Blocks of a segment, at least.
const SEGMENT_LEAST: u64 = 16;

/// Which segments are cleaned first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Those with the fewest live bytes.
    Greedy,
    /// Those with the largest `(1 - u) age / (1 + u)`: free space of a cold segment lasts, and is worth more.
    CostBenefit,
}

/// What distinguishes one log-structured file system from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// A block: the unit of addresses.
    pub block: Bytes,
    /// A segment: the unit of cleaning.
    pub segment: Bytes,
    /// The disk.
    pub disk: Bytes,
    /// Inodes that the inode map has entries for.
    pub inodes: u64,
    /// Cleaning starts when fewer segments are clean.
    pub clean_below: u64,
    /// Cleaning stops when as many segments are clean.
    pub clean_until: u64,
    /// Segments that are read together and sorted together.
    pub cleaned_at_once: u64,
    /// Which segments are cleaned first.
    pub policy: Policy,
    /// Whether live blocks are sorted by age before they are copied.
    pub age_sort: bool,
}

/// Parameters that make no file system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum ParametersError {
    #[error("a block of {block:#}; accepted is a power of two from 512 B to 64 KiB")]
    Block { block: Bytes },
    #[error("a segment of {segment:#}; accepted is a multiple of the block of {block:#}, from {least:#} to {most:#}")]
    Segment { segment: Bytes, block: Bytes, least: Bytes, most: Bytes },
    #[error("{inodes} inodes; accepted is 2 to {most}")]
    Inodes { inodes: u64, most: u64 },
    #[error("cleaning starts below {clean_below} clean segments; accepted is {least} or more, since copies need room")]
    CleanBelow { clean_below: u64, least: u64 },
    #[error("cleaning stops at {clean_until} clean segments; accepted is more than {clean_below}, where it starts")]
    CleanUntil { clean_until: u64, clean_below: u64 },
    #[error("0 segments are cleaned at once; accepted is 1 or more")]
    CleanedAtOnce,
    #[error(
        "the disk of {disk:#} has {segments} segments; accepted is {least} or more; \
         enlarge the disk or take smaller segments"
    )]
    Small { disk: Bytes, segments: u64, least: u64 },
    #[error("the disk of {disk:#} has more than 2^32 blocks; take larger blocks")]
    Large { disk: Bytes },
}

impl Parameters {
    /// Blocks of 4 KiB and segments of 512 KiB.
    pub fn new(disk: Bytes) -> Parameters {
        Parameters::of(disk, Bytes::kib(4), Bytes::kib(512))
    }

    /// Cleaned by cost and benefit with age sort: a sixteenth of the segments is kept clean, and one inode is there for
    /// every 16 KiB. The segment is above zero.
    pub fn of(disk: Bytes, block: Bytes, segment: Bytes) -> Parameters {
        let clean_below = (disk / segment / 32).max(6);
        Parameters {
            block,
            segment,
            disk,
            inodes: (disk.get() >> 14).clamp(2, 1 << 20),
            clean_below,
            clean_until: clean_below * 2,
            cleaned_at_once: 16,
            policy: Policy::CostBenefit,
            age_sort: true,
        }
    }

    /// Refuses what makes no file system.
    pub fn check(&self) -> Result<(), ParametersError> {
        Layout::new(self).map(|_| ())
    }
}

/// What lies where, in blocks, and how much of each table a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a block.
    pub block: u64,
    /// Blocks of the disk.
    pub blocks: u64,
    /// Blocks of a checkpoint region.
    pub region: u64,
    /// Segments.
    pub segments: u64,
    /// Blocks of a segment.
    pub segment: u64,
    /// Blocks that a summary describes.
    pub entries: u64,
    /// Inodes of a block.
    pub inodes: u64,
    /// Addresses of an indirect block.
    pub addresses: u64,
    /// Entries of a block of the inode map.
    pub map_entries: u64,
    /// Blocks of the inode map.
    pub maps: u64,
    /// Entries of a block of the segment usage table.
    pub usage_entries: u64,
    /// Blocks of the segment usage table.
    pub usages: u64,
    /// Segments that both tables take.
    pub tables: u64,
    /// Clean segments that new data may not take.
    pub reserve: u64,
    /// Bytes that may be live.
    pub capacity: u64,
}

impl Layout {
    pub fn new(parameters: &Parameters) -> Result<Layout, ParametersError> {
        let Parameters { block, segment, disk, inodes, clean_below, clean_until, cleaned_at_once, .. } = *parameters;
        if !block.get().is_power_of_two() || !(512..=65536).contains(&block.get()) {
            return Err(ParametersError::Block { block });
        }
        let (least, most) = (block * SEGMENT_LEAST, block * 65536);
        if !segment.is_multiple_of(block) || !(least..=most).contains(&segment) {
            return Err(ParametersError::Segment { segment, block, least, most });
        }
        let blocks = disk / block;
        if blocks > 1 << 32 {
            return Err(ParametersError::Large { disk });
        }
        if !(2..=1 << 24).contains(&inodes) {
            return Err(ParametersError::Inodes { inodes, most: 1 << 24 });
        }
        let (block, segment) = (block.get(), segment / block);
        let maps = (inodes * MAP_ENTRY).div_ceil(block);
        // The regions take some of what this counts as segments: the table may be a block too large, never too small.
        let usages = (blocks / segment * USAGE_ENTRY).div_ceil(block);
        let region = (REGION_HEADER + (maps + usages) * ADDRESS).div_ceil(block);
        let segments = blocks.saturating_sub(2 * region) / segment;
        let entries = (block - SUMMARY_HEADER) / SUMMARY_ENTRY;
        let summaries = segment.div_ceil(entries + 1);
        let tables = (maps + usages).div_ceil(segment - summaries - LEAST_WRITE);
        let reserve = 3 + tables;
        if clean_below <= reserve {
            return Err(ParametersError::CleanBelow { clean_below, least: reserve + 1 });
        }
        if clean_until <= clean_below {
            return Err(ParametersError::CleanUntil { clean_until, clean_below });
        }
        if cleaned_at_once == 0 {
            return Err(ParametersError::CleanedAtOnce);
        }
        // The log is in one segment and continues in another; what is left holds the tables twice over.
        let least = clean_until.saturating_add(4 + 2 * tables);
        if segments < least {
            return Err(ParametersError::Small { disk, segments, least });
        }
        let inodes_least = (segment * INODE).div_ceil(block + INODE);
        let payload = segment - (segment / 16).max(summaries + LEAST_WRITE - 1 + inodes_least);
        Ok(Layout {
            block,
            blocks,
            region,
            segments,
            segment,
            entries,
            inodes: block / INODE,
            addresses: block / ADDRESS,
            map_entries: block / MAP_ENTRY,
            maps,
            usage_entries: block / USAGE_ENTRY,
            usages,
            tables,
            reserve,
            capacity: (segments - clean_until - 2) * payload * block,
        })
    }

    /// The first block of a checkpoint region.
    pub fn region_at(&self, region: u64) -> u64 {
        region * self.region
    }

    /// A block of a segment.
    pub fn address(&self, segment: u64, offset: u64) -> u64 {
        2 * self.region + segment * self.segment + offset
    }

    /// The segment that a block lies in.
    pub fn segment_of(&self, address: u64) -> u64 {
        (address - 2 * self.region) / self.segment
    }

    /// Blocks that a file may have.
    pub fn file_blocks(&self) -> u64 {
        DIRECT + self.addresses + self.addresses * self.addresses
    }
}
