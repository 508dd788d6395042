//! The superblock of version 1.2.
//!
//! 256 bytes, then a table with the role of each device number. `resync_offset` says whether parity can be trusted (all
//! ones: yes), `events` which member is fresh. The checksum is the sum of all 32-bit words, folded once.

use std::ops::Range;

use units::Bytes;

use super::{Uuid, array, put, u16_at, u32_at, u64_at};

/// Where it lies on a member.
pub const SUPERBLOCK_AT: Bytes = Bytes::kib(4);
/// How much is read for it. md writes only as much as the table of roles needs, in whole sectors.
pub const SUPERBLOCK_SIZE: Bytes = Bytes::kib(4);

const MAGIC: u32 = 0xa92b_4efc;
const FIXED: usize = 256;
/// As many roles as fit behind the fixed part in 4 KiB.
const MOST_ROLES: usize = (SUPERBLOCK_SIZE.as_usize() - FIXED) / 2;

/// What a superblock says. Fields that md does not maintain in a given state hold what it last left there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Which optional fields are in use.
    pub features: Features,
    /// The array.
    pub array: Uuid,
    /// "homehost:name", padded with zeroes.
    pub name: [u8; 32],
    /// When the array was made.
    pub created: Stamp,
    /// md's number of the level.
    pub level: i32,
    /// md's number of the layout within the level.
    pub layout: i32,
    /// How much of each member the array uses; zero at level 0.
    pub size: Bytes,
    /// The chunk; zero at level 1.
    pub chunk: Bytes,
    /// How many roles the array has.
    pub members: u32,
    /// Sectors from the superblock to the bitmap; with PPL, a 16-bit offset and a 16-bit size.
    pub bitmap_offset: i32,
    /// The target of a reshape, as it lies on the member (bytes 100 to 127).
    pub reshape: [u8; 28],
    /// Where the data area begins.
    pub data_offset: Bytes,
    /// How large it is.
    pub data_size: Bytes,
    /// Sectors rebuilt so far (feature `RECOVERY`), or the journal's tail (on a journal).
    pub recovery: u64,
    /// This member's index in `roles`.
    pub number: u32,
    /// Read errors that were repaired by rewriting.
    pub corrected_reads: u32,
    /// This member.
    pub member: Uuid,
    /// 1 write-mostly, 2 fail fast.
    pub member_flags: u8,
    /// The unit of the bad-block log is 512 << this.
    pub bad_block_shift: u8,
    /// Sectors reserved for the bad-block log.
    pub bad_block_sectors: u16,
    /// Sectors from the superblock to the bad-block log.
    pub bad_block_offset: i32,
    /// When it was last written.
    pub updated: Stamp,
    /// Rises with every change of state.
    pub events: u64,
    /// Whether redundancy can be trusted.
    pub resync: Resync,
    /// The role of each device number, as [`MemberRole`] reads it.
    pub roles: Vec<u16>,
}

/// A set of feature bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features(pub u32);

impl Features {
    /// There is a bitmap.
    pub const BITMAP: Features = Features(1);
    /// This member is being rebuilt; `recovery` says how far.
    pub const RECOVERY: Features = Features(1 << 1);
    /// A reshape is under way.
    pub const RESHAPE: Features = Features(1 << 2);
    /// There are bad blocks in the log.
    pub const BAD_BLOCKS: Features = Features(1 << 3);
    /// This member is to replace the one of the same role.
    pub const REPLACEMENT: Features = Features(1 << 4);
    /// md is filling this member by the bitmap. Members are filled whole here, and must not say so: it is taken away
    /// when they are read.
    pub const BY_BITMAP: Features = Features(1 << 7);
    /// There is a journal.
    pub const JOURNAL: Features = Features(1 << 9);
    /// There is a partial parity log of one header.
    pub const PPL: Features = Features(1 << 10);
    /// There is a partial parity log with several headers in turn.
    pub const PPLS: Features = Features(1 << 11);
    /// The layout of a level 0 with several zones is what the field says.
    pub const ZONES: Features = Features(1 << 12);

    /// All that is understood here: the above, but not a reshape, nor the bitmaps of clusters.
    const KNOWN: u32 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
    const NAMES: [&str; 13] = [
        "bitmap",
        "recovery offset",
        "reshape",
        "bad blocks",
        "replacement",
        "reshape backwards",
        "new offset",
        "recovery by bitmap",
        "clustered",
        "journal",
        "PPL",
        "several PPLs",
        "level 0 layout",
    ];

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Features) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets.
    pub fn with(self, other: Features) -> Features {
        Features(self.0 | other.0)
    }
    /// The first set without the second.
    pub fn without(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }
}

/// A time: seconds since 1970 in the low 40 bits, microseconds in the high 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Whole seconds since 1970.
    pub fn seconds(self) -> u64 {
        self.0 & ((1 << 40) - 1)
    }
}

/// How far redundancy can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resync {
    /// Everywhere: the array was stopped, or idle.
    Clean,
    /// Up to this address of the members; from zero after a power cut.
    From(Bytes),
}

/// What a member is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    /// It holds this column of the array.
    Active(u16),
    /// It waits for a member to fail.
    Spare,
    /// It has failed.
    Faulty,
    /// It holds the journal.
    Journal,
}

impl MemberRole {
    /// From the number in the table.
    pub fn from_number(number: u16) -> MemberRole {
        match number {
            0xffff => MemberRole::Spare,
            0xfffe => MemberRole::Faulty,
            0xfffd => MemberRole::Journal,
            column => MemberRole::Active(column),
        }
    }
    /// The number in the table.
    pub fn number(self) -> u16 {
        match self {
            MemberRole::Spare => 0xffff,
            MemberRole::Faulty => 0xfffe,
            MemberRole::Journal => 0xfffd,
            MemberRole::Active(column) => column,
        }
    }
}

/// Why bytes are not a superblock that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum SuperblockError {
    /// Nothing there.
    #[error(
        "there is no md superblock of version 1.2 (magic {found:#010x}, not 0xa92b4efc); was the member part of an array?"
    )]
    NoMagic { found: u32 },
    /// Where md keeps it in another version. Bytes at [`SUPERBLOCK_AT`] cannot say so: who knows the device does.
    #[error(
        "its md superblock is of version {version}, and only 1.2 is understood here; mdadm assembles such an array, and converts none to 1.2, so copy what it holds to a new one"
    )]
    OtherVersion { version: &'static str },
    /// Cut off.
    #[error("a superblock needs {needed} bytes, {found} are there")]
    Short { needed: usize, found: usize },
    /// Other format.
    #[error("the metadata has version {major}, only version 1 is understood")]
    Version { major: u32 },
    /// Damaged.
    #[error("the superblock's checksum is {stored:#010x}, its contents give {computed:#010x}: it is damaged")]
    Checksum { stored: u32, computed: u32 },
    /// Written by something newer, or in the middle of a change that is not supported.
    #[error("the array uses {0}, which is not supported here; finish or undo it with mdadm")]
    Features(String),
    /// A copy.
    #[error(
        "the superblock was written for sector {said} of a member and read from sector 8: the member was copied or moved"
    )]
    Moved { said: u64 },
    /// A field that cannot be.
    #[error("the superblock says {field} {value}, which cannot be")]
    Field { field: &'static str, value: u64 },
}

/// Of [`Superblock::member_flags`]: the member is read only where no other copy is.
pub const WRITE_MOSTLY: u8 = 1;
/// Of [`Superblock::member_flags`]: md gives requests to the member up at the first error.
pub const FAIL_FAST: u8 = 2;

/// Whether these [flags](Superblock::member_flags) say write-mostly.
pub(crate) fn is_write_mostly(flags: u8) -> bool {
    flags & WRITE_MOSTLY != 0
}

/// The checksum of a superblock, its own field taken as zero.
#[inline]
fn checksum(bytes: &[u8], length: usize) -> u32 {
    let words = bytes[..length].chunks(4).enumerate().filter(|(index, _)| *index != 216 / 4);
    let sum: u64 = words
        .map(|(_, word)| match word {
            [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
            // An odd number of roles leaves half a word.
            word => u64::from(u16::from_le_bytes([word[0], word[1]])),
        })
        .sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

impl Superblock {
    /// Reads a superblock from the bytes at [`SUPERBLOCK_AT`]. Any bytes will do.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let short = |needed| SuperblockError::Short { needed, found: bytes.len() };
        if bytes.len() < FIXED {
            return Err(short(FIXED));
        }
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(SuperblockError::NoMagic { found: magic });
        }
        let major = u32_at(bytes, 4);
        if major != 1 {
            return Err(SuperblockError::Version { major });
        }
        let count = u32_at(bytes, 220) as usize;
        if count > MOST_ROLES {
            return Err(SuperblockError::Field { field: "a number of roles of", value: count as u64 });
        }
        let length = FIXED + 2 * count;
        if bytes.len() < length {
            return Err(short(length));
        }
        let (stored, computed) = (u32_at(bytes, 216), checksum(bytes, length));
        if stored != computed {
            return Err(SuperblockError::Checksum { stored, computed });
        }
        let unknown = u32_at(bytes, 8) & !Features::KNOWN;
        if unknown != 0 {
            let name = |bit: usize| match Features::NAMES.get(bit) {
                Some(name) => (*name).to_owned(),
                None => format!("feature bit {bit}"),
            };
            let names: Vec<String> = (0..32).filter(|bit| unknown >> bit & 1 == 1).map(name).collect();
            return Err(SuperblockError::Features(names.join(", ")));
        }
        // Linux 6.19 keeps the logical block size in the first word of this padding; the rest must be zero.
        if u32_at(bytes, 12) != 0 || bytes[228..FIXED].iter().any(|byte| *byte != 0) {
            return Err(SuperblockError::Features("padding that is not zero".to_owned()));
        }
        let super_offset = u64_at(bytes, 144);
        if super_offset != SUPERBLOCK_AT / Bytes::SECTOR {
            return Err(SuperblockError::Moved { said: super_offset });
        }
        let number = u32_at(bytes, 160);
        if number as usize >= count {
            return Err(SuperblockError::Field { field: "device number", value: number.into() });
        }
        // Each member has a role.
        let members = u32_at(bytes, 92);
        if members as usize > MOST_ROLES {
            return Err(SuperblockError::Field { field: "a number of members of", value: members.into() });
        }
        let sectors = |at: usize, field: &'static str| {
            let value = u64_at(bytes, at);
            // Addresses of bytes must fit into 63 bits, so that sums of two do not overflow.
            if value >= 1 << 54 {
                return Err(SuperblockError::Field { field, value });
            }
            Ok(Bytes::SECTOR * value)
        };
        // Each record counts one on, and must be able to.
        let events = u64_at(bytes, 200);
        if events > u64::MAX / 2 {
            return Err(SuperblockError::Field { field: "a number of events of", value: events });
        }
        let resync = match u64_at(bytes, 208) {
            u64::MAX => Resync::Clean,
            _ => Resync::From(sectors(208, "a resync offset of sector")?),
        };
        Ok(Superblock {
            features: Features(u32_at(bytes, 8)),
            array: Uuid(array(bytes, 16)),
            name: array(bytes, 32),
            created: Stamp(u64_at(bytes, 64)),
            level: u32_at(bytes, 72) as i32,
            layout: u32_at(bytes, 76) as i32,
            size: sectors(80, "a size in sectors of")?,
            chunk: Bytes::SECTOR * u64::from(u32_at(bytes, 88)),
            members,
            bitmap_offset: u32_at(bytes, 96) as i32,
            reshape: array(bytes, 100),
            data_offset: sectors(128, "a data offset of sector")?,
            data_size: sectors(136, "a data size in sectors of")?,
            recovery: u64_at(bytes, 152),
            number,
            corrected_reads: u32_at(bytes, 164),
            member: Uuid(array(bytes, 168)),
            member_flags: bytes[184],
            bad_block_shift: bytes[185],
            bad_block_sectors: u16_at(bytes, 186),
            bad_block_offset: u32_at(bytes, 188) as i32,
            updated: Stamp(u64_at(bytes, 192)),
            events,
            resync,
            roles: (0..count).map(|index| u16_at(bytes, FIXED + 2 * index)).collect(),
        })
    }

    /// The bytes of a superblock, 4 KiB, with its checksum. Panics if there are more roles than fit: whoever adds
    /// members checks.
    #[inline]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.roles.len() <= MOST_ROLES, "{} roles of at most {MOST_ROLES}", self.roles.len());
        let mut bytes = vec![0; SUPERBLOCK_SIZE.as_usize()];
        let sectors = |size: Bytes| (size / Bytes::SECTOR).to_le_bytes();
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 4, &1u32.to_le_bytes());
        put(&mut bytes, 8, &self.features.0.to_le_bytes());
        put(&mut bytes, 16, &self.array.0);
        put(&mut bytes, 32, &self.name);
        put(&mut bytes, 64, &self.created.0.to_le_bytes());
        put(&mut bytes, 72, &self.level.to_le_bytes());
        put(&mut bytes, 76, &self.layout.to_le_bytes());
        put(&mut bytes, 80, &sectors(self.size));
        put(&mut bytes, 88, &((self.chunk / Bytes::SECTOR) as u32).to_le_bytes());
        put(&mut bytes, 92, &self.members.to_le_bytes());
        put(&mut bytes, 96, &self.bitmap_offset.to_le_bytes());
        put(&mut bytes, 100, &self.reshape);
        put(&mut bytes, 128, &sectors(self.data_offset));
        put(&mut bytes, 136, &sectors(self.data_size));
        put(&mut bytes, 144, &sectors(SUPERBLOCK_AT));
        put(&mut bytes, 152, &self.recovery.to_le_bytes());
        put(&mut bytes, 160, &self.number.to_le_bytes());
        put(&mut bytes, 164, &self.corrected_reads.to_le_bytes());
        put(&mut bytes, 168, &self.member.0);
        put(&mut bytes, 184, &[self.member_flags, self.bad_block_shift]);
        put(&mut bytes, 186, &self.bad_block_sectors.to_le_bytes());
        put(&mut bytes, 188, &self.bad_block_offset.to_le_bytes());
        put(&mut bytes, 192, &self.updated.0.to_le_bytes());
        put(&mut bytes, 200, &self.events.to_le_bytes());
        let resync = match self.resync {
            Resync::Clean => u64::MAX.to_le_bytes(),
            Resync::From(offset) => sectors(offset),
        };
        put(&mut bytes, 208, &resync);
        put(&mut bytes, 220, &(self.roles.len() as u32).to_le_bytes());
        for (index, role) in self.roles.iter().enumerate() {
            put(&mut bytes, FIXED + 2 * index, &role.to_le_bytes());
        }
        let sum = checksum(&bytes, FIXED + 2 * self.roles.len());
        put(&mut bytes, 216, &sum.to_le_bytes());
        bytes
    }

    /// This member's role. (A parsed superblock has one.)
    pub fn role(&self) -> MemberRole {
        MemberRole::from_number(self.roles[self.number as usize])
    }

    /// What a further device of the array says, of which nothing counts yet: as a member, but for what is the device's
    /// own.
    pub fn of_newcomer(self, number: usize, member: Uuid, data: Range<Bytes>) -> Superblock {
        Superblock {
            // The others' bad blocks are not its own.
            features: self.features.without(Features::BAD_BLOCKS).without(Features::RECOVERY),
            data_offset: data.start,
            data_size: data.end - data.start,
            recovery: 0,
            number: number as u32,
            corrected_reads: 0,
            member,
            member_flags: 0,
            ..self
        }
    }

    /// Whether it is to be read only where no other copy is. With write-behind, it may lack what was written, and
    /// answered, before the array was left.
    pub fn is_write_mostly(&self) -> bool {
        is_write_mostly(self.member_flags)
    }

    /// Whether md gives requests to it up at the first error.
    pub fn is_fail_fast(&self) -> bool {
        self.member_flags & FAIL_FAST != 0
    }

    /// Where the bad-block log lies on the member, if there is room for one. What is there means something only with
    /// feature `BAD_BLOCKS`; before the first bad block md leaves the room as it found it.
    pub fn bad_blocks_at(&self) -> Option<Bytes> {
        (self.bad_block_offset > 0 && self.bad_block_sectors > 0)
            .then(|| SUPERBLOCK_AT + Bytes::SECTOR * self.bad_block_offset as u64)
    }

    /// Where the bitmap lies on the member, if there is one.
    pub fn bitmap_at(&self) -> Option<Bytes> {
        (self.features.has(Features::BITMAP) && self.bitmap_offset > 0)
            .then(|| SUPERBLOCK_AT + Bytes::SECTOR * self.bitmap_offset as u64)
    }

    /// Where the partial parity log lies on the member, and how large it is, if there is one.
    pub fn ppl_at(&self) -> Option<(Bytes, Bytes)> {
        let (offset, sectors) = (self.bitmap_offset as i16, (self.bitmap_offset as u32 >> 16) as u16);
        let there = self.features.has(Features::PPL) || self.features.has(Features::PPLS);
        (there && offset > 0 && sectors > 0)
            .then(|| (SUPERBLOCK_AT + Bytes::SECTOR * offset as u64, Bytes::SECTOR * u64::from(sectors)))
    }
}
