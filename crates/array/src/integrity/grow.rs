//! Growth: the checksums of a member move behind the data that it is to have.
//!
//! The area lies directly behind the data, so data that grow would run into it. It is made a second time, further
//! behind, where the sums of the larger size end with the device; the old one stays as it is. Which of the two counts
//! is said by the superblock, as the area's place and its number of blocks follow from the size of the data: until the
//! superblock with the new size is on the member it is the old area, from then on the new one, and there is no instant
//! with none or two. Pages are copied as they are, as a block's number, and so its page and place in it, do not depend
//! on the size.
//!
//! This needs the new area to begin behind the old one's end: a member must have grown by as much as its old sums take,
//! 0.8 percent of the data. A member with more data than the array uses (its device is larger than the others') has
//! sums for them already, and nothing moves.
//!
//! Redundancy of what the array grows by does not fit before the resync has passed; nor may a block there be computed
//! from it. Marks say so, as they do of what a power cut met. A region that holds the old data's end is marked as a
//! whole, which costs the old part its sums at the next start; so that part is held against them first.
//!
//! Rejected: room for the sums of a larger device kept from the beginning, which nobody knows the size of; sums at the
//! device's end, which move all the same when the device grows.

use std::ops::Range;
use std::rc::Rc;

use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use super::area::{self, Header, Layout, PAGE};
use super::{Checksums, data};
use crate::array::Array;
use crate::grow::GrowError;
use crate::md::Superblock;
use crate::member::Member;

/// Copied at a time.
const STEP: Bytes = Bytes::mib(1);

/// Where the checksums of a member of an array lie, if it keeps any: behind its data.
pub fn checksum_area(superblock: &Superblock, block: Bytes) -> Range<Bytes> {
    let layout = Layout::of(superblock, block);
    layout.header_at(0)..layout.end()
}

impl<D: Device> Array<D> {
    /// How much data a member has room for, with their checksums, if it keeps any: as much as it has now, or more.
    pub(crate) fn room_of(&self, member: usize, superblock: &Superblock, unit: Bytes) -> Bytes {
        let this = &self.members[member];
        let size = this.device().map_or(Bytes::ZERO, |device| device.shape().size);
        let behind = size.saturating_sub(superblock.data_offset);
        match this.checksums() {
            Some(_) => {
                let room = behind.saturating_sub(area::checksum_room(behind)).round_down(unit);
                room.max(superblock.data_size.round_down(unit))
            }
            None => behind.round_down(unit),
        }
    }

    /// Makes sums for members that are to have so much of data each, of which the array is to use `used`. The
    /// superblocks follow; until then nothing has changed.
    pub(crate) async fn grow_checksums(&self, superblocks: &[Superblock], used: Bytes) -> Result<(), GrowError> {
        let before = self.geometry.used();
        // The sums of all data, on the members; and no marks but those that are made below.
        self.close_regions(true).await?;
        for (number, (member, superblock)) in self.members.iter().zip(superblocks).enumerate() {
            let (Some(checksums), Some(device)) = (member.checksums(), member.device()) else { continue };
            let old = &checksums.layout;
            let new = Layout::of(superblock, device.shape().logical_block);
            let grown = new.regions_of(&new.blocks_of(before, used - before));
            if !member.fits_sums(new.block * new.region * grown.start..before).await? {
                return Err(GrowError::Unsound { member: number });
            }
            if new == *old {
                let mut header = checksums.header.borrow_mut();
                grown.clone().for_each(|region| header.mark(region, true));
                *checksums.suspect.borrow_mut() = Some(grown.collect());
                continue;
            }
            if new.header_at(0) < old.end() {
                let more = old.end() - new.header_at(0);
                return Err(GrowError::SumsInTheWay { member: number, more });
            }
            let mut header = checksums.header.borrow().clone();
            (header.generation, header.blocks) = (header.generation + 1, new.blocks);
            header.superblocks = [checksums.superblock.get(); 2];
            (0..new.blocks.div_ceil(new.region)).for_each(|region| header.mark(region, grown.contains(&region)));
            member.copy_area(old, &new, &header).await?;
            let moved = Checksums::new(member.runtime(), new, header, 1);
            moved.memory.set(checksums.memory.get());
            *moved.suspect.borrow_mut() = Some(grown.collect());
            checksums.retire();
            member.set_checksums(Some(Rc::new(moved)));
        }
        Ok(())
    }
}

impl<D: Device> Member<D> {
    /// Whether what lies in a range can be read, and fits its sums.
    async fn fits_sums(&self, range: Range<Bytes>) -> Result<bool, DeviceError> {
        let mut at = range.start;
        while at < range.end {
            let length = STEP.min(range.end - at);
            match self.read(at, Buffer::zeroed(length), 0).await.1 {
                Ok(()) => at += length,
                Err(DeviceError::Medium { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Makes an area with the sums of another: first no header is valid, then the pages are there, then there is a
    /// header.
    async fn copy_area(&self, from: &Layout, to: &Layout, header: &Header) -> Result<(), DeviceError> {
        let write = async |at: Bytes, bytes: &[u8]| self.send(Request::write(at, data(bytes)).with_fua()).await.result;
        let nothing = vec![0; (PAGE * 2).as_usize()];
        write(to.header_at(0), &nothing).await?;
        let most = STEP / PAGE;
        let mut page = 0;
        while page < to.pages() {
            // None of the old area, or some of it, but not both.
            let end = if page < from.pages() { from.pages() } else { to.pages() };
            let count = most.min(end - page);
            let bytes = match page < from.pages() {
                true => self.old_pages(from, page, count).await?,
                false => vec![0; (PAGE * count).as_usize()],
            };
            write(to.page_at(page), &bytes).await?;
            page += count;
        }
        write(to.header_at(0), &header.to_bytes()).await
    }

    /// Pages as they are on the member. Of one that cannot be read nothing is known.
    async fn old_pages(&self, layout: &Layout, first: u64, count: u64) -> Result<Vec<u8>, DeviceError> {
        let read = async |page: u64, count: u64| {
            let reply = self.send(Request::read(layout.page_at(page), Buffer::zeroed(PAGE * count))).await;
            let buffer = reply.buffer.expect("a read gives its buffer back");
            reply.result.map(|()| buffer.bytes().expect("it is real").to_vec())
        };
        match read(first, count).await {
            Err(DeviceError::Medium { .. }) => {}
            whole => return whole,
        }
        let mut bytes = Vec::new();
        for page in first..first + count {
            match read(page, 1).await {
                Ok(one) => bytes.extend(one),
                Err(DeviceError::Medium { .. }) => bytes.extend(vec![0; PAGE.as_usize()]),
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}
