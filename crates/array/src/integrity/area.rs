//! Where checksums lie on a member, as bytes: two headers that are written in turn, then pages of sums.
//!
//! The area begins at the first 4 KiB behind the member's data. It is arraylab's own; md does not look there, as the
//! superblock says that the data end before it.
//!
//! | header, at | bytes | |
//! |---|---|---|
//! | 0 | 8 | `arrlabCS` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | CRC-32C of the 4 KiB, this field taken as 0 |
//! | 16, 32 | 16 each | the array, this member |
//! | 48 | 8 | generation: of two sound headers the higher one counts |
//! | 56 | 4 | bytes of a block |
//! | 64 | 8 | blocks |
//! | 72, 76 | 4 each | CRC-32C of the member's superblock: the one that is written next, and the one before it |
//! | 80 | 8 | blocks that were found not to fit, ever |
//! | 88 | 8 | times that all sums were given up, because the array was used without them |
//! | 128 | 3968 | a bit for each region: its sums may not fit |
//!
//! A page is a CRC-32C of its number and its sums, and 1023 sums. A sum is the CRC-32C of a block; 0 means that none is
//! known (a CRC of 0 is kept as 1). All is little-endian.

use std::ops::Range;

use units::Bytes;

use crate::md::{Superblock, Uuid};

/// Headers and pages are this long.
pub(crate) const PAGE: Bytes = Bytes::kib(4);
/// Sums of a page.
pub(crate) const SUMS: u64 = 1023;
const MAGIC: &[u8; 8] = b"arrlabCS";
const VERSION: u32 = 1;
const MARKS_AT: usize = 128;
/// Regions for which a header has room.
const MOST_REGIONS: u64 = (PAGE.get() - MARKS_AT as u64) * 8;
/// The smallest region of a member's data.
const SMALLEST_REGION: Bytes = Bytes::kib(64);

/// What lies where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where the area begins on the member.
    at: Bytes,
    pub block: Bytes,
    pub blocks: u64,
    /// Blocks of a region.
    pub region: u64,
}

impl Layout {
    /// On a device with this superblock and blocks of this size.
    pub fn of(superblock: &Superblock, block: Bytes) -> Layout {
        Layout::new(superblock.data_offset, superblock.data_size, block)
    }

    /// Behind data of this size that begin at `data_offset`.
    pub fn new(data_offset: Bytes, data_size: Bytes, block: Bytes) -> Layout {
        let blocks = data_size / block;
        let region = blocks.div_ceil(MOST_REGIONS).next_power_of_two().max(SMALLEST_REGION / block);
        Layout { at: (data_offset + data_size).round_up(PAGE), block, blocks, region }
    }

    /// The blocks that a range of the data area touches.
    pub fn blocks_of(&self, offset: Bytes, length: Bytes) -> Range<u64> {
        offset / self.block..(offset + length).get().div_ceil(self.block.get())
    }
    /// The pages that hold the sums of these blocks.
    pub fn pages_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start / SUMS..blocks.end.div_ceil(SUMS)
    }
    /// The regions that hold these blocks.
    pub fn regions_of(&self, blocks: &Range<u64>) -> Range<u64> {
        blocks.start / self.region..blocks.end.div_ceil(self.region)
    }
    /// The blocks of a region.
    pub fn region_blocks(&self, region: u64) -> Range<u64> {
        self.region * region..(self.region * (region + 1)).min(self.blocks)
    }
    pub fn pages(&self) -> u64 {
        self.blocks.div_ceil(SUMS)
    }
    pub fn header_at(&self, slot: u64) -> Bytes {
        self.at + PAGE * slot
    }
    pub fn page_at(&self, page: u64) -> Bytes {
        self.at + PAGE * (2 + page)
    }
    pub fn end(&self) -> Bytes {
        self.page_at(self.pages())
    }
}

/// Where the headers of a member with this superblock lie, if it keeps checksums.
pub(crate) fn headers_of(superblock: &Superblock) -> [Bytes; 2] {
    let layout = Layout::of(superblock, Bytes::SECTOR);
    [layout.header_at(0), layout.header_at(1)]
}

/// Whether these are the bytes of a header, sound or not.
pub(crate) fn is_header(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// How much of a member of this size its checksums take, for blocks of 512 bytes: 0.8 percent.
pub fn checksum_room(size: Bytes) -> Bytes {
    // A page more for the data's end, which need not lie on a page.
    PAGE * ((size / Bytes::SECTOR).div_ceil(SUMS) + 3)
}

/// A header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub array: Uuid,
    pub member: Uuid,
    pub generation: u64,
    pub block: Bytes,
    pub blocks: u64,
    pub superblocks: [u32; 2],
    pub found: u64,
    pub renewed: u64,
    marks: Vec<u8>,
}

impl Header {
    /// Of an area in which no sum is known.
    pub fn new(layout: &Layout, array: Uuid, member: Uuid, superblock: u32) -> Header {
        Header {
            array,
            member,
            generation: 0,
            block: layout.block,
            blocks: layout.blocks,
            superblocks: [superblock; 2],
            found: 0,
            renewed: 0,
            marks: vec![0; PAGE.as_usize() - MARKS_AT],
        }
    }

    /// Any bytes will do; what is damaged, or nothing of the kind, is `None`.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        if bytes.len() < PAGE.as_usize() || &bytes[..8] != MAGIC || u32_at(bytes, 8) != VERSION {
            return None;
        }
        let mut copy = bytes[..PAGE.as_usize()].to_vec();
        copy[12..16].fill(0);
        if crc32c::crc32c(&copy) != u32_at(bytes, 12) {
            return None;
        }
        let uuid = |at: usize| Uuid(bytes[at..at + 16].try_into().expect("sixteen bytes"));
        Some(Header {
            array: uuid(16),
            member: uuid(32),
            generation: u64_at(bytes, 48),
            block: Bytes::new(u32_at(bytes, 56).into()),
            blocks: u64_at(bytes, 64),
            superblocks: [u32_at(bytes, 72), u32_at(bytes, 76)],
            found: u64_at(bytes, 80),
            renewed: u64_at(bytes, 88),
            marks: bytes[MARKS_AT..PAGE.as_usize()].to_vec(),
        })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAGE.as_usize()];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.array.0);
        put(32, &self.member.0);
        put(48, &self.generation.to_le_bytes());
        put(56, &(self.block.get() as u32).to_le_bytes());
        put(64, &self.blocks.to_le_bytes());
        put(72, &self.superblocks[0].to_le_bytes());
        put(76, &self.superblocks[1].to_le_bytes());
        put(80, &self.found.to_le_bytes());
        put(88, &self.renewed.to_le_bytes());
        put(MARKS_AT, &self.marks);
        let sum = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Whether it belongs to this member and to what lies where.
    pub fn fits(&self, layout: &Layout, superblock: &Superblock) -> bool {
        (self.array, self.member) == (superblock.array, superblock.member)
            && (self.block, self.blocks) == (layout.block, layout.blocks)
    }

    pub fn is_marked(&self, region: u64) -> bool {
        self.marks[(region / 8) as usize] >> (region % 8) & 1 == 1
    }
    pub fn mark(&mut self, region: u64, marked: bool) {
        let byte = &mut self.marks[(region / 8) as usize];
        *byte = *byte & !(1 << (region % 8)) | u8::from(marked) << (region % 8);
    }
    /// The regions that are marked, of so many.
    pub fn marked(&self, regions: u64) -> impl Iterator<Item = u64> {
        (0..regions).filter(|region| self.is_marked(*region))
    }
}

/// The identity of a superblock's contents.
pub(crate) fn superblock_sum(superblock: &Superblock) -> u32 {
    crc32c::crc32c(&superblock.to_bytes())
}

/// The sum of a block; never 0.
pub(crate) fn block_sum(block: &[u8]) -> u32 {
    crc32c::crc32c(block).max(1)
}

/// The sums of a page; `None` if it is damaged, or another page.
#[inline]
pub(crate) fn parse_page(bytes: &[u8], number: u64) -> Option<Vec<u32>> {
    // An area that was never written is zeroes.
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(vec![0; SUMS as usize]);
    }
    (page_sum(&bytes[4..], number) == u32_at(bytes, 0))
        .then(|| bytes[4..].chunks(4).map(|sum| u32_at(sum, 0)).collect())
}

#[inline]
pub(crate) fn page_bytes(sums: &[u32], number: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    let sum = page_sum(&bytes[4..], number);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[inline]
fn page_sum(sums: &[u8], number: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), sums)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
