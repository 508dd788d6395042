//! What Linux md keeps on its members, in the format of version 1.2: read, checked and written, as bytes.
//!
//! All of it is little-endian, in sectors of 512 bytes, and belongs to one member: the [`Superblock`] at 4 KiB says
//! what array this is, which of its members this is and how fresh it is; near it lie the [`Bitmap`] of regions that may
//! differ between members, or the partial parity log ([`PplHeader`]), and the list of [`BadBlocks`]. A
//! [journal](JournalBlock) fills a member of its own.
//!
//! Sources: `linux/raid/md_p.h`, `md-bitmap.h`, `raid5-ppl.c`, `raid5-cache.c`, md(4), and what mdadm 4.2 and Linux 6.1
//! were seen to write; tests compare with members that they made. Parsers take any bytes and never panic; what is not
//! understood is refused with the reason, as md does, because a bit that is not known may change the meaning of all
//! others.

mod badblocks;
mod bitmap;
mod create;
mod journal;
mod level;
mod note;
mod ppl;
mod superblock;

pub use badblocks::{BadBlock, BadBlocks, BadBlocksError};
pub use bitmap::{Bitmap, BitmapError};
pub use create::{Consistency, CreateError, MOST_WITH_JOURNAL, NEEDED_ROOM, NewArray, NewMember, create};
pub use journal::{JournalBlock, JournalError, JournalPayload};
pub use level::{Numbers, UnknownLevel};
pub(crate) use note::are_sealed;
pub use ppl::{PplEntry, PplError, PplHeader};
pub(crate) use superblock::is_write_mostly;
pub use superblock::{
    FAIL_FAST, Features, MemberRole, Resync, SUPERBLOCK_AT, SUPERBLOCK_SIZE, Stamp, Superblock, SuperblockError,
    WRITE_MOSTLY,
};

use std::fmt;

/// A 16-byte identity of an array or of a member.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Uuid(pub [u8; 16]);

/// Four groups of four bytes, as mdadm prints it.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index > 0 && index.is_multiple_of(4) { ":" } else { "" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Uuid({self})")
    }
}

/// `N` bytes from `at`. The caller has checked the length.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes make an array of N")
}
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// CRC-32C as md uses it: `seed` is the register's start, and nothing is inverted at the end.
///
/// The crate's `crc32c_append(crc, data)` inverts at both ends, so inverting around it takes that back.
fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}
