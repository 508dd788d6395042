//! Promises broken on purpose, outside the array: by a disk that changes what passes through it.

use array::geometry::Geometry;
use array::md::{MemberRole, Resync, Superblock};
use device::{Buffer, Data};
use units::Bytes;

/// A promise that is broken in the array's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Flushes and FUA are not passed on.
    SkipFlush,
    /// What is to be logged is not: with an even seed of one parity, with an odd one of two.
    SkipLog,
    /// P is written where Q belongs, and Q where P belongs.
    SwapPAndQ,
    /// The members are told that redundancy fits when it may not.
    ForgetDirtyMark,
    /// Nobody is told who has failed.
    TrustStaleMember,
    /// After a restart parity is looked for elsewhere.
    WrongRotation,
    /// Nobody is told where checksums may not fit.
    ForgetSumMarks,
    /// The members say that redundancy fits when they are asked, so that copies are read which may differ, whichever is
    /// less busy.
    TrustUnsynced,
    /// A member that was away and is back is asked nothing before it is believed.
    BelieveReturned,
    /// A write for which there was no room is called stored.
    CallFullStored,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 10] = [
        Bug::SkipFlush,
        Bug::SkipLog,
        Bug::SwapPAndQ,
        Bug::ForgetDirtyMark,
        Bug::TrustStaleMember,
        Bug::WrongRotation,
        Bug::ForgetSumMarks,
        Bug::TrustUnsynced,
        Bug::BelieveReturned,
        Bug::CallFullStored,
    ];

    /// What becomes of a superblock that is written.
    pub(crate) fn on_writing(self, superblock: &mut Superblock) {
        match self {
            Bug::ForgetDirtyMark => superblock.resync = Resync::Clean,
            Bug::TrustStaleMember => {
                superblock.events = 1;
                for (number, role) in superblock.roles.iter_mut().enumerate() {
                    if *role == MemberRole::Faulty.number() {
                        *role = number as u16;
                    }
                }
            }
            Bug::SkipFlush
            | Bug::SkipLog
            | Bug::SwapPAndQ
            | Bug::WrongRotation
            | Bug::ForgetSumMarks
            | Bug::TrustUnsynced
            | Bug::BelieveReturned
            | Bug::CallFullStored => {}
        }
    }

    /// What becomes of a superblock that is read.
    pub(crate) fn on_reading(self, superblock: &mut Superblock) {
        // Left-symmetric becomes right-asymmetric, once something has been written.
        if self == Bug::WrongRotation && superblock.events > 1 {
            superblock.layout = 1;
        }
        if self == Bug::TrustUnsynced {
            superblock.resync = Resync::Clean;
        }
    }

    /// Where a write of `member` goes that lies at `offset` of its data area.
    pub(crate) fn goes_to(self, geometry: &Geometry, member: usize, offset: Bytes) -> usize {
        if self != Bug::SwapPAndQ || geometry.level().parities() < 2 {
            return member;
        }
        let stripe = geometry.stripe(offset / geometry.chunk());
        match (stripe.p(), stripe.q()) {
            (p, Some(q)) if member == p => q,
            (p, Some(q)) if member == q => p,
            _ => member,
        }
    }
}

/// A header of checksums without its marks; anything else as it is. The format is that of
/// `array/src/integrity/area.rs`.
pub(crate) fn without_marks(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() == 4096 && bytes.starts_with(b"arrlabCS") {
        bytes[128..].fill(0);
        bytes[12..16].fill(0);
        let sum = crc32c::crc32c(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// The same bytes after `change`, if they are a superblock.
pub(crate) fn changed(bytes: &[u8], change: impl Fn(&mut Superblock)) -> Vec<u8> {
    let Ok(mut superblock) = Superblock::parse(bytes) else { return bytes.to_vec() };
    change(&mut superblock);
    superblock.to_bytes()[..bytes.len()].to_vec()
}

/// Bytes to be written.
pub(crate) fn data_of(bytes: &[u8]) -> Data {
    let mut buffer = Buffer::zeroed(Bytes::new(bytes.len() as u64));
    buffer.bytes_mut().expect("it is real").copy_from_slice(bytes);
    buffer.freeze()
}
