//! Bad blocks: ranges of a member that could not be rebuilt, kept in its bad-block log, so that reading them is an
//! error after a restart too.

use std::ops::Range;

use device::{Buffer, Device, DeviceError, Request};
use units::Bytes;

use crate::array::Array;
use crate::md::{BadBlock, BadBlocks, Features, Superblock};
use crate::member::Member;

/// A bad-block log is being written. What changes meanwhile is untold; if whoever writes it is dropped, or cannot, so
/// is all of it.
struct Telling<'a, D: Device> {
    member: &'a Member<D>,
    told: bool,
}

impl<'a, D: Device> Telling<'a, D> {
    fn begin(member: &'a Member<D>) -> Telling<'a, D> {
        member.set_bad_untold(false);
        Telling { member, told: false }
    }
    fn end(mut self) {
        self.told = true;
    }
}

impl<D: Device> Drop for Telling<'_, D> {
    fn drop(&mut self) {
        if !self.told {
            self.member.set_bad_untold(true);
        }
    }
}

impl<D: Device> Array<D> {
    /// Writes the bad-block log of a member, if it has changed. An error if there is no room for it.
    pub(crate) async fn tell_bad(&self, member: usize, superblock: &Superblock) -> Result<(), DeviceError> {
        let this = &self.members[member];
        if !this.is_bad_untold() {
            return Ok(());
        }
        let bad = this.bad();
        let any = !bad.is_empty();
        let ranges = bad
            .into_iter()
            .map(|range| BadBlock { offset: superblock.data_offset + range.start, length: range.end - range.start });
        let log = BadBlocks { shift: superblock.bad_block_shift, ranges: ranges.collect() };
        // Whose log is full, or who has none, cannot remember it, and is used no more.
        let at = superblock.bad_blocks_at().ok_or(DeviceError::Unsupported)?;
        let room = Bytes::SECTOR * u64::from(superblock.bad_block_sectors);
        let bytes = log.to_bytes(room).map_err(|_| DeviceError::Unsupported)?;
        let mut buffer = Buffer::zeroed(room);
        buffer.bytes_mut().expect("it is real").copy_from_slice(&bytes);
        let telling = Telling::begin(this);
        // What is bad no more has been written since, and must be durable before the log says so.
        this.send(Request::flush()).await.result?;
        if any {
            this.set_called_bad(true);
        }
        this.send(Request::write(at, buffer.freeze()).with_fua()).await.result?;
        this.set_called_bad(any);
        telling.end();
        Ok(())
    }

    /// Reads the bad-block log of a member that has one.
    pub(crate) async fn recall_bad(&self, member: usize, superblock: &Superblock) -> Result<(), DeviceError> {
        let Some(at) = superblock.bad_blocks_at().filter(|_| superblock.features.has(Features::BAD_BLOCKS)) else {
            return Ok(());
        };
        let room = Bytes::SECTOR * u64::from(superblock.bad_block_sectors);
        let reply = self.members[member].send(Request::read(at, Buffer::zeroed(room))).await;
        reply.result?;
        let buffer = reply.buffer.expect("a read gives its buffer back");
        let log = BadBlocks::parse(buffer.bytes().expect("it is real"), superblock.bad_block_shift)
            .map_err(|_| DeviceError::Medium { offset: at, length: room })?;
        let in_data = |bad: &BadBlock| {
            let start = bad.offset.max(superblock.data_offset) - superblock.data_offset;
            let end = (bad.offset + bad.length).max(superblock.data_offset) - superblock.data_offset;
            start..end.min(self.geometry.used_of(member))
        };
        let ranges = log.ranges.iter().map(in_data).filter(|range| range.start < range.end);
        self.members[member].recall_bad(ranges.collect());
        Ok(())
    }
}

/// The same ranges in order of addresses, those that touch or overlap made one: the log has room for 512, and what is
/// found unit by unit comes in any order.
pub(crate) fn joined(mut ranges: Vec<Range<Bytes>>) -> Vec<Range<Bytes>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<Bytes>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
