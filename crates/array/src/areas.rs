//! Which areas a device of an array has, and whether each lies where it may be written.
//!
//! A superblock says by offsets where on its device the data, the bitmap, the bad-block log and the partial parity log
//! lie; arraylab's own log and its checksums follow from it, too. A right checksum says that somebody wrote these
//! numbers, not that they make sense: damage before the sum was computed, another program, or a copy onto a smaller
//! device leaves offsets that point into the data. Whoever believed one would write a bitmap over what the user stored,
//! on all members at once. So before anything is written every area of every device is held against three rules:
//!
//! 1. it lies within the device, and on whole blocks of it;
//! 2. it overlaps no other area of the device;
//! 3. it is where the array is going to write: the bitmap has one place for all members, as in md, and its length is
//!    that of the bitmap that is kept.
//!
//! md checks some of this, and late: a bitmap that overlaps the data is an error when its page is written
//! (`write_sb_page`), PPL space is checked against the data only (`ppl_validate_rdev`), the bad-block log against
//! nothing. Here the array does not open. Devices that are to join it are held against the same rules with the
//! superblock that they are to get.
//!
//! Rejected: to leave a device out whose areas are wrong, as if it were damaged. The others would be written at once
//! without it, and its user would learn of it later; the error says that omitting it is possible.

use std::ops::Range;

use device::{Device, DeviceError};
use units::Bytes;

use crate::array::Array;
use crate::integrity::area::Layout;
use crate::md::{Bitmap, Features, MemberRole, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Superblock};

const PAGE: Bytes = Bytes::kib(4);
/// A header and a page of parity.
const LEAST_LOG: Bytes = Bytes::kib(8);
/// The largest unit of a bad-block log is 512 bytes << this.
const MOST_SHIFT: u8 = 32;

/// A field of a superblock that places an area where it cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its superblock says {field} {value}: {why}; possible would be {possible}")]
pub struct Misplaced {
    /// The field, as the kernel's `mdp_superblock_1` calls it.
    pub field: &'static str,
    /// What it says.
    pub value: String,
    /// What is wrong about it.
    pub why: String,
    /// What would do.
    pub possible: String,
}

/// What an array keeps on its members beside the data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Uses {
    /// Where its bitmap lies, on each of them.
    pub bitmap: Option<Range<Bytes>>,
    /// Where its log lies.
    pub log: Option<Range<Bytes>>,
    /// That is arraylab's own.
    pub own_log: bool,
    /// Checksums lie behind the data.
    pub checksums: bool,
}

impl Uses {
    /// What a device says of it by itself.
    fn said_by(it: &Superblock) -> Uses {
        let bitmap = it.bitmap_at().map(|at| {
            let covers = Bitmap::covered(it);
            at..at + bitmap_length(covers, Bitmap::region_for(covers))
        });
        let own = it.sealed_own_ppl();
        let log = it.ppl_at().or(own).map(|(at, size)| at..at + size);
        Uses { bitmap, log, own_log: it.ppl_at().is_none() && own.is_some(), checksums: false }
    }
}

/// What a bitmap of so many regions takes on a member.
fn bitmap_length(covers: Bytes, region: Bytes) -> Bytes {
    Bytes::new(256 + covers.get().div_ceil(region.get()).div_ceil(8)).round_up(PAGE)
}

/// One area of a device.
struct Area {
    name: &'static str,
    /// What places it.
    field: &'static str,
    value: String,
    at: Range<Bytes>,
}

/// Holds the superblock of a device of this size, with blocks of this size, against the device, by what it says alone.
pub fn check(it: &Superblock, size: Bytes, block: Bytes) -> Result<(), Misplaced> {
    check_fields(it)?;
    check_in(it, size, block, &Uses::said_by(it))
}

/// Refuses fields by which no area can be placed.
fn check_fields(it: &Superblock) -> Result<(), Misplaced> {
    if it.role() == MemberRole::Journal {
        return Ok(());
    }
    let has = |feature| it.features.has(feature);
    let has_log = has(Features::PPL) || has(Features::PPLS);
    let wrong = |field, value: String, why: &str, possible: &str| {
        Err(Misplaced { field, value, why: why.to_owned(), possible: possible.to_owned() })
    };
    if has(Features::BITMAP) && has_log {
        let why = "one offset cannot be of a bitmap and of a partial parity log";
        return wrong("feature_map", format!("{:#x}", it.features.0), why, "either of the two");
    }
    if has(Features::BITMAP) && it.bitmap_offset <= 0 {
        let why = "the bitmap would lie on or before the superblock";
        return wrong("bitmap_offset", format!("{} sectors", it.bitmap_offset), why, "8 sectors or more");
    }
    if has_log {
        let (offset, sectors) = (it.bitmap_offset as i16, (it.bitmap_offset as u32 >> 16) as u16);
        if offset <= 0 {
            let why = "the partial parity log would lie on or before the superblock";
            return wrong("ppl.offset", format!("{offset} sectors"), why, "8 sectors or more");
        }
        if Bytes::SECTOR * u64::from(sectors) < LEAST_LOG {
            let why = "a partial parity log needs a header and a page of parity";
            return wrong("ppl.size", format!("{sectors} sectors"), why, "16 sectors or more");
        }
    }
    if it.bad_blocks_at().is_some() && it.bad_block_shift > MOST_SHIFT {
        let why = "no device has blocks of that size";
        return wrong("bblog_shift", it.bad_block_shift.to_string(), why, "0, as md writes it");
    }
    if has(Features::BAD_BLOCKS) && it.bad_blocks_at().is_none() {
        let (value, sectors) = (format!("{} sectors", it.bad_block_offset), it.bad_block_sectors);
        let why = format!("feature_map says that there are bad blocks, and their log has {sectors} sectors there");
        return wrong("bblog_offset", value, &why, "an offset and a bblog_size of 8 sectors or more");
    }
    if it.claims_own_ppl() && it.own_ppl_at().is_none() {
        let (at, size) = it.noted_own_ppl();
        let why = "arraylab's own log was kept there, and it would not lie between the superblock and the data";
        let value = format!("{} sectors and new_chunk {} sectors", at / Bytes::SECTOR, size / Bytes::SECTOR);
        return wrong("new_layout", value, why, "a log of 16 to 65536 sectors that ends before data_offset");
    }
    Ok(())
}

/// The areas that a device has in an array that uses this, with what places each.
fn areas(it: &Superblock, block: Bytes, uses: &Uses) -> Vec<Area> {
    let sectors = |at: Bytes| format!("{} sectors", at / Bytes::SECTOR);
    // Addresses are below 2^63, so that the sum of two has 64 bits.
    let data = it.data_offset..it.data_offset + it.data_size;
    let mut areas = vec![Area {
        name: "superblock",
        field: "super_offset",
        value: sectors(SUPERBLOCK_AT),
        at: SUPERBLOCK_AT..SUPERBLOCK_AT + SUPERBLOCK_SIZE,
    }];
    let is_journal = it.role() == MemberRole::Journal;
    let name = if is_journal { "journal" } else { "data area" };
    areas.push(Area { name, field: "data_offset", value: sectors(data.start), at: data.clone() });
    if is_journal {
        // It holds nothing else.
        return areas;
    }
    if let Some(at) = &uses.bitmap {
        let value = sectors(at.start - SUPERBLOCK_AT.min(at.start));
        areas.push(Area { name: "bitmap", field: "bitmap_offset", value, at: at.clone() });
    }
    if let Some(at) = &uses.log {
        let value = sectors(at.start - SUPERBLOCK_AT.min(at.start));
        let (name, field) = match uses.own_log {
            true => ("arraylab's own log", "new_layout"),
            false => ("partial parity log", "ppl.offset"),
        };
        areas.push(Area { name, field, value, at: at.clone() });
    }
    if let Some(at) = it.bad_blocks_at() {
        let end = at + Bytes::SECTOR * u64::from(it.bad_block_sectors);
        let value = format!("{} sectors", it.bad_block_offset);
        areas.push(Area { name: "bad-block log", field: "bblog_offset", value, at: at..end });
    }
    let layout = || Layout::of(it, block);
    if uses.checksums && matches!(it.role(), MemberRole::Active(_)) {
        let at = layout().header_at(0)..layout().end();
        areas.push(Area { name: "checksum area", field: "data_size", value: sectors(it.data_size), at });
    }
    areas
}

/// Holds the areas that a device has in an array that uses this against the device, and against each other.
pub(crate) fn check_in(it: &Superblock, size: Bytes, block: Bytes, uses: &Uses) -> Result<(), Misplaced> {
    check_data(it, size, block)?;
    let areas = areas(it, block, uses);
    let least = SUPERBLOCK_AT + SUPERBLOCK_SIZE;
    // The superblock and the data are what the others are held against.
    for (index, area) in areas.iter().enumerate().skip(2) {
        let length = area.at.end - area.at.start;
        let possible = || {
            let others: Vec<&Range<Bytes>> =
                areas.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| &other.at).collect();
            room(&others, least, size, length, block.max(PAGE)).map_or_else(
                || format!("none, as no {length:#} are free on the device"),
                |at| match area.field {
                    "data_size" => format!("data that end {length:#} before the device does"),
                    field => format!("{field} {} sectors", (at - SUPERBLOCK_AT) / Bytes::SECTOR),
                },
            )
        };
        let wrong = |why: String| Misplaced { field: area.field, value: area.value.clone(), why, possible: possible() };
        let (from, to, name) = (area.at.start, area.at.end, area.name);
        // Checksums that do not fit behind the data are not kept at all.
        let optional = area.field == "data_size";
        if to > size {
            if optional {
                continue;
            }
            return Err(wrong(format!("the {name} would lie at {from:#} to {to:#}, and the device ends at {size:#}")));
        }
        if !from.is_multiple_of(block) || !length.is_multiple_of(block) {
            return Err(wrong(format!("the {name} at {from:#} to {to:#} is not of whole blocks of {block:#}")));
        }
        let overlaps = |other: &&Area| other.at.start < to && from < other.at.end && !std::ptr::eq(*other, area);
        if let Some(other) = areas[..index].iter().find(overlaps) {
            let (start, end) = (other.at.start, other.at.end);
            return Err(wrong(format!(
                "the {name} would lie at {from:#} to {to:#}, within the {} at {start:#} to {end:#}",
                other.name
            )));
        }
    }
    Ok(())
}

/// Holds the data area, or a journal's log, against the device and the superblock.
fn check_data(it: &Superblock, size: Bytes, block: Bytes) -> Result<(), Misplaced> {
    let least = SUPERBLOCK_AT + SUPERBLOCK_SIZE;
    let sectors = |at: Bytes| format!("{} sectors", at / Bytes::SECTOR);
    let what = if it.role() == MemberRole::Journal { "the journal" } else { "data" };
    let (at, value) = (it.data_offset, sectors(it.data_offset));
    if at < least {
        let why = format!("{what} would lie over the superblock, which ends at {least:#}");
        return Err(Misplaced { field: "data_offset", value, why, possible: format!("{} or more", sectors(least)) });
    }
    if !at.is_multiple_of(block) {
        let why = format!("{what} would not begin at a block of the device, which has blocks of {block:#}");
        let possible = format!("a multiple of {}", sectors(block));
        return Err(Misplaced { field: "data_offset", value, why, possible });
    }
    let room = size.saturating_sub(at);
    if room.is_zero() {
        let why = format!("{what} would begin at {at:#}, and the device ends at {size:#}");
        return Err(Misplaced { field: "data_offset", value, why, possible: format!("less than {}", sectors(size)) });
    }
    if it.data_size > room {
        let why = format!(
            "{what} would end at {:#}, and the device ends at {size:#}",
            Bytes::new(at.get().saturating_add(it.data_size.get()))
        );
        let possible = format!("{} or less", sectors(room));
        return Err(Misplaced { field: "data_size", value: sectors(it.data_size), why, possible });
    }
    let is_member = matches!(it.role(), MemberRole::Active(_));
    if is_member && it.size > it.data_size {
        let why = format!("the array uses {:#} of each member, and this one has {:#} for data", it.size, it.data_size);
        let possible = format!("{} or less", sectors(it.data_size));
        return Err(Misplaced { field: "size", value: sectors(it.size), why, possible });
    }
    Ok(())
}

/// Where so much is free, on whole units, from `least` on.
fn room(taken: &[&Range<Bytes>], least: Bytes, size: Bytes, length: Bytes, unit: Bytes) -> Option<Bytes> {
    let ends = taken.iter().map(|range| range.end).filter(|end| *end < size).map(|end| end.round_up(unit));
    let mut starts: Vec<Bytes> = ends.chain([least.round_up(unit)]).filter(|start| *start >= least).collect();
    starts.sort_unstable();
    let is_free = |start: &Bytes| {
        let Some(end) = start.checked_add(length).filter(|end| *end <= size) else { return false };
        taken.iter().all(|range| range.end <= *start || end <= range.start)
    };
    starts.into_iter().find(is_free)
}

impl<D: Device> Array<D> {
    /// What it keeps on a member beside the data.
    pub(crate) fn uses(&self, member: usize) -> Uses {
        let log = self.ppl.as_ref().map(|ppl| ppl.place(member));
        Uses {
            bitmap: self.intent.as_ref().map(|intent| intent.at()..intent.end()),
            own_log: self.ppl.as_ref().is_some_and(|ppl| ppl.is_own()),
            log: log.map(|(at, size)| at..at + size),
            checksums: self.has_checksums(),
        }
    }

    /// Refuses a device that is to become a member, if an area that it is to have would not lie where it may be
    /// written: its data begin at `data_offset`, and are `data_size`.
    pub fn check_newcomer(
        &self,
        member: usize,
        device: &impl Device,
        data_offset: Bytes,
        data_size: Bytes,
    ) -> Result<(), Misplaced> {
        let Some(sibling) = self.state.as_ref().and_then(|state| state.sibling()) else { return Ok(()) };
        let own = MemberRole::Active(member as u16).number();
        let number = sibling.roles.iter().position(|role| *role == own).unwrap_or(sibling.number as usize);
        let it = sibling.of_newcomer(number, Default::default(), data_offset..data_offset + data_size);
        let (size, block) = (device.shape().size, device.shape().logical_block);
        check_in(&it, size, block, &self.uses(member))
    }

    /// The same as an error of the device.
    pub(crate) fn check_areas(
        &self,
        member: usize,
        device: &impl Device,
        data_offset: Bytes,
        data_size: Bytes,
    ) -> Result<(), DeviceError> {
        let size = device.shape().size;
        let misplaced = |_| DeviceError::OutOfRange { offset: data_offset, length: data_size, size };
        self.check_newcomer(member, device, data_offset, data_size).map_err(misplaced)
    }
}
