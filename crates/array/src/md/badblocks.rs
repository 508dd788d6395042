//! The bad-block log: ranges of a member that cannot be read, or were not rebuilt.
//!
//! One sector or more of 64-bit entries, sector << 10 | length, in units of 512 << shift, until one of all ones.
//! Sectors are of the member, not of its data area.

use units::Bytes;

/// A range that is known to be bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadBlock {
    /// Where on the member.
    pub offset: Bytes,
    /// How much.
    pub length: Bytes,
}

/// A member's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBlocks {
    /// An entry counts in units of 512 << this.
    pub shift: u8,
    /// What is bad, in order of addresses.
    pub ranges: Vec<BadBlock>,
}

/// Why bytes are not a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum BadBlocksError {
    /// A unit beyond all devices.
    #[error("the bad-block log counts in units of 512 bytes << {0}; at most 32 makes sense")]
    Shift(u8),
    /// An entry that cannot be.
    #[error("entry {index} of the bad-block log is {entry:#x}, beyond every device")]
    Entry { index: usize, entry: u64 },
    /// No room.
    #[error("{needed} bad ranges do not fit into a log of {room}; replace the member")]
    Full { needed: usize, room: usize },
}

/// The longest range an entry can hold, in units.
const MOST: u64 = 512;

impl BadBlocks {
    /// Reads a log. Any bytes will do.
    pub fn parse(bytes: &[u8], shift: u8) -> Result<BadBlocks, BadBlocksError> {
        if shift > 32 {
            return Err(BadBlocksError::Shift(shift));
        }
        let unit = 512u64 << shift;
        let mut ranges = Vec::new();
        for (index, entry) in bytes.chunks_exact(8).enumerate() {
            let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
            if entry == u64::MAX {
                break;
            }
            let (start, length) = (entry >> 10, entry & 0x3ff);
            let end = (start + length).checked_mul(unit).ok_or(BadBlocksError::Entry { index, entry })?;
            let offset = Bytes::new(start * unit);
            ranges.push(BadBlock { offset, length: Bytes::new(end) - offset });
        }
        Ok(BadBlocks { shift, ranges })
    }

    /// The log in a space of `room` bytes, filled up with ones. Long ranges take several entries.
    pub fn to_bytes(&self, room: Bytes) -> Result<Vec<u8>, BadBlocksError> {
        let unit = Bytes::new(512u64 << self.shift);
        let mut entries = Vec::new();
        for range in &self.ranges {
            // Outwards to whole units: too much bad is safe, too little is not.
            let (mut start, end) = (range.offset / unit, (range.offset + range.length).round_up(unit) / unit);
            while start < end {
                let length = (end - start).min(MOST);
                entries.push(start << 10 | length);
                start += length;
            }
        }
        let room = room.as_usize() / 8;
        if entries.len() > room {
            return Err(BadBlocksError::Full { needed: entries.len(), room });
        }
        entries.resize(room, u64::MAX);
        Ok(entries.into_iter().flat_map(u64::to_le_bytes).collect())
    }
}
