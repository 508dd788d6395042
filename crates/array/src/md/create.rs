//! The superblocks of a new array, laid out as mdadm does.
//!
//! On each member: 4 KiB that belong to nobody (a boot loader may be there), the superblock, room for a bitmap, the
//! bad-block log, and from the data offset on data. That offset leaves room for a later reshape and grows with the
//! member.

use units::Bytes;

use super::{Bitmap, Features, MemberRole, Numbers, Resync, Stamp, Superblock, Uuid};
use crate::areas;
use crate::geometry::{Geometry, GeometryError, Level, Spread};

/// What a new array is to be.
#[derive(Debug, Clone)]
pub struct NewArray {
    /// Level and layout.
    pub level: Level,
    /// The chunk; of no effect at level 1 and linear.
    pub chunk: Bytes,
    /// At most 32 bytes.
    pub name: String,
    /// Its identity.
    pub array: Uuid,
    /// The time.
    pub now: Stamp,
    /// What is done about the write hole, and about resyncs; [`Consistency::default_of`] the level is a good choice.
    pub consistency: Consistency,
    /// The redundancy already holds (all members are zero, or it is about to be written): no resync is needed.
    pub clean: bool,
}

/// How an array finds, after a power cut, what may not fit any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// By a resync of everything. The write hole is open.
    Resync,
    /// By a bitmap of the regions that are being written: a resync of these. The write hole is open.
    Bitmap,
    /// By a journal on a device of its own, the last of those that [`create`] is given. Levels 4, 5, 6; the write hole
    /// is closed.
    Journal,
    /// By the partial parity log: only what was being written. The write hole is closed. md has it at level 5; at
    /// levels 3, 4 and 6 it is arraylab's own, beside a bitmap, which md goes by.
    Ppl,
}

impl Consistency {
    /// What closes the write hole at levels that have one, without a further device; a bitmap where there is redundancy
    /// besides.
    pub fn default_of(level: Level) -> Consistency {
        match level {
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) | Level::Raid6(_) => Consistency::Ppl,
            Level::Raid1 | Level::Raid10(_) => Consistency::Bitmap,
            Level::Linear | Level::Raid0(_) => Consistency::Resync,
        }
    }
}

/// A device that is to become a member.
#[derive(Debug, Clone)]
pub struct NewMember {
    /// Its size.
    pub size: Bytes,
    /// Its identity.
    pub member: Uuid,
}

/// Why devices cannot become an array that md would open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum CreateError {
    /// The layout cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// md has no room for the name.
    #[error("the name \"{name}\" takes {length} bytes, and md has room for 32; give a shorter one")]
    Name { name: String, length: usize },
    /// Smaller than the metadata.
    #[error("device {device} holds {size}; {NEEDED_ROOM}")]
    TooSmall { device: usize, size: Bytes },
    /// A chunk that md refuses.
    #[error("md takes only powers of two from 4 KiB as chunk of {level}, not {chunk:#}; 64 KiB would do")]
    Chunk { level: &'static str, chunk: Bytes },
    /// A way that the level does not have.
    #[error("{what} {needs}; {level} takes {instead}")]
    Consistency { what: &'static str, needs: &'static str, level: &'static str, instead: &'static str },
    /// More than the journal's format has room for.
    #[error(
        "a journal takes the writes of up to {MOST_WITH_JOURNAL} members, not of {members}; take a partial parity log, which is the default"
    )]
    Journal { members: usize },
    /// More than the page covers that there is room for.
    #[error(
        "the bitmap of a new array covers 60 TiB (of level 10 the array, else a member), not {covers:#}; take `--consistency resync`, or smaller members"
    )]
    Bitmap { covers: Bytes },
    /// Blocks of zeroes that stand for others are as large.
    #[error("chunks of a DDF layout are of 1 MiB or less, not of {chunk:#}")]
    Ddf { chunk: Bytes },
    /// Copies that md would put in one place.
    #[error("md cannot store {near} near copies by offset on {members} members; take a multiple of {near}")]
    Collision { near: u32, members: usize },
}

/// What a device of a new array must have room for.
pub const NEEDED_ROOM: &str = "a member needs 1 MiB for metadata (2 MiB with a partial parity log) and a chunk of data or more (one for \
    each far or offset copy), a journal 256 KiB for each device";
/// So many data blocks fit into one block of the journal's metadata, and a row is logged as a whole. md has the same
/// limit (`r5l_init_log`).
pub const MOST_WITH_JOURNAL: usize = 203;
/// Roles that mdadm makes room for.
const ROLES: usize = 128;
/// The bad-block log, in sectors from the superblock; where mdadm puts it on small members. Behind a partial parity
/// log.
const BAD_BLOCKS_AT: i32 = 16;
/// The bitmap, in sectors from the superblock; up to the bad-block log it has 4 KiB.
const BITMAP_AT: i32 = 8;
/// The partial parity log, in sectors from the superblock, and its size: as mdadm has it.
const PPL_AT: i32 = 8;
const PPL_SECTORS: i32 = 2048;
/// Where arraylab's own lies: a bitmap that mdadm puts on the members later has room before it.
const OWN_PPL_AT: Bytes = Bytes::kib(128);
const BAD_BLOCKS_SECTORS: u16 = 8;

/// Where data begin on a member of this size: what mdadm 4.2 was seen to choose.
fn data_offset(size: Bytes, consistency: Consistency) -> Bytes {
    let sectors = match size {
        size if size < Bytes::gib(1) && consistency == Consistency::Ppl => 4096,
        size if size < Bytes::gib(1) => 2048,
        size if size < Bytes::gib(10) => 4096,
        size if size < Bytes::gib(100) => 18432,
        size if size < Bytes::gib(1024) => 133_120,
        _ => 264_192,
    };
    Bytes::SECTOR * sectors
}

/// The superblocks of a new array, one for each member, in order of their roles, and of the journal, if it has one; and
/// its geometry.
pub fn create(new: &NewArray, devices: &[NewMember]) -> Result<(Vec<Superblock>, Geometry), CreateError> {
    if new.name.len() > 32 {
        return Err(CreateError::Name { name: new.name.clone(), length: new.name.len() });
    }
    let journaled = new.consistency == Consistency::Journal;
    let (members, journal) = match devices.split_last() {
        Some((journal, members)) if journaled => (members, Some(journal)),
        _ => (devices, None),
    };
    if (new.level, members.len()) == (Level::Raid1, 1) {
        // One that was left alone is opened; a new one has no copy to lose a member by.
        return Err(GeometryError::TooFew { level: new.level.name(), needed: 2, found: 1 }.into());
    }
    if journaled && new.level.parities() == 0 {
        return Err(CreateError::Consistency {
            what: "a journal",
            needs: "closes the write hole of parity",
            level: new.level.name(),
            instead: "a bitmap, or nothing",
        });
    }
    let chunkless = matches!(new.level, Level::Raid1 | Level::Linear);
    // md's own rule is whole pages, and powers of two but for level 0.
    let page = Bytes::kib(4);
    if !chunkless && (!new.chunk.get().is_power_of_two() || new.chunk < page) && !matches!(new.level, Level::Raid0(_)) {
        return Err(CreateError::Chunk { level: new.level.name(), chunk: new.chunk });
    }
    if let Level::Raid10(copies) = new.level
        && copies.spread == Spread::Offset
        && !members.len().is_multiple_of(copies.near as usize)
    {
        return Err(CreateError::Collision { near: copies.near, members: members.len() });
    }
    let log = new.consistency == Consistency::Ppl;
    if log && new.level.parities() == 0 {
        return Err(CreateError::Consistency {
            what: "a partial parity log",
            needs: "closes the write hole of parity",
            level: new.level.name(),
            instead: "a bitmap, or nothing",
        });
    }
    let own_log = log && !matches!(new.level, Level::Raid5(_));
    let log = log && !own_log;
    let bitmap = new.consistency == Consistency::Bitmap || own_log;
    if bitmap && new.level.losses_survived(members.len()) == 0 {
        return Err(CreateError::Consistency {
            what: "a bitmap",
            needs: "says where redundancy may not fit",
            level: new.level.name(),
            instead: "nothing of the kind, as it has none",
        });
    }
    let data_offset = |size| data_offset(size, new.consistency);
    let chunk = if chunkless { Bytes::ZERO } else { new.chunk };
    // Without chunks whole pages, too: a device with blocks of 4 KiB may come to take a member's place.
    let unit = chunk.max(page);
    if let Some(journal) = journal {
        let room = journal.size.saturating_sub(data_offset(journal.size));
        // The longest write of a row takes a quarter of it at most, so 64 pages for each member.
        if room < Bytes::kib(256) * devices.len() as u64 {
            return Err(CreateError::TooSmall { device: members.len(), size: journal.size });
        }
    }
    let sizes = members.iter().enumerate().map(|(device, member)| {
        let data = member.size.saturating_sub(data_offset(member.size)).round_down(unit);
        if data.is_zero() { Err(CreateError::TooSmall { device, size: member.size }) } else { Ok(data) }
    });
    let sizes: Vec<Bytes> = sizes.collect::<Result<_, _>>()?;
    let geometry = Geometry::new(new.level, chunk, &sizes)?;
    if geometry.size().is_zero() {
        return Err(CreateError::TooSmall { device: 0, size: members[0].size });
    }
    if journaled && members.len() > MOST_WITH_JOURNAL {
        return Err(CreateError::Journal { members: members.len() });
    }
    if geometry.chunk_is_too_large() {
        return Err(CreateError::Ddf { chunk });
    }
    let numbers = Numbers::of(new.level);
    let mut name = [0; 32];
    name[..new.name.len()].copy_from_slice(new.name.as_bytes());
    let mut roles: Vec<u16> = (0..members.len() as u16).collect();
    roles.extend(journal.map(|_| MemberRole::Journal.number()));
    roles.resize(ROLES.max(roles.len()), MemberRole::Spare.number());
    let whole = matches!(new.level, Level::Raid0(_) | Level::Linear);
    let superblock = |(number, (member, data)): (usize, (&NewMember, Bytes))| Superblock {
        features: match new.level {
            Level::Raid0(_) => Features::ZONES,
            _ if log => Features::PPLS,
            _ if bitmap => Features::BITMAP,
            _ if journaled => Features::JOURNAL,
            _ => Features::default(),
        },
        array: new.array,
        name,
        created: new.now,
        level: numbers.level,
        layout: numbers.layout,
        size: if whole { Bytes::ZERO } else { geometry.used() },
        chunk,
        members: members.len() as u32,
        bitmap_offset: match (log, bitmap) {
            (true, _) => PPL_AT | PPL_SECTORS << 16,
            (false, true) => BITMAP_AT,
            (false, false) => 0,
        },
        reshape: [0; 28],
        data_offset: data_offset(member.size),
        data_size: data,
        recovery: 0,
        number: number as u32,
        corrected_reads: 0,
        member: member.member,
        member_flags: 0,
        bad_block_shift: 0,
        bad_block_sectors: BAD_BLOCKS_SECTORS,
        bad_block_offset: if log { PPL_AT + PPL_SECTORS } else { BAD_BLOCKS_AT },
        updated: new.now,
        events: 1,
        resync: if new.clean || whole { Resync::Clean } else { Resync::From(Bytes::ZERO) },
        roles: roles.clone(),
    };
    let room = |journal: &NewMember| (journal.size - data_offset(journal.size)).round_down(page);
    let journal = journal.map(|journal| (journal, room(journal)));
    let noted = |mut superblock: Superblock| {
        if own_log {
            superblock.seal(Some((OWN_PPL_AT, Bytes::SECTOR * PPL_SECTORS as u64)));
        }
        superblock
    };
    let with_journal = members.iter().zip(sizes.iter().copied()).chain(journal);
    let superblocks: Vec<Superblock> = with_journal.enumerate().map(superblock).map(noted).collect();
    let covers = Bitmap::covered(&superblocks[0]);
    if bitmap && !Bitmap::fits_one_page(covers) {
        return Err(CreateError::Bitmap { covers });
    }
    for (superblock, device) in superblocks.iter().zip(devices) {
        let placed = areas::check(superblock, device.size, Bytes::SECTOR);
        assert_eq!(placed, Ok(()), "the areas of a new member lie apart from each other, on the device");
    }
    Ok((superblocks, geometry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{Copies, DoubleRotation, Rotation};

    fn made(level: Level, members: usize, size: Bytes, chunk: Bytes, consistency: Consistency) -> Result<(), String> {
        let (array, name) = (Uuid([1; 16]), "array".to_owned());
        let new = NewArray { level, chunk, name, array, now: Stamp(0), consistency, clean: true };
        let member = |number: usize| NewMember { size, member: Uuid([number as u8; 16]) };
        let journal = usize::from(consistency == Consistency::Journal);
        let devices: Vec<NewMember> = (0..members + journal).map(member).collect();
        create(&new, &devices).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_formats_have_no_room_for_is_refused() {
        let chunk = Bytes::kib(64);
        let five = Level::Raid5(Rotation::LeftSymmetric);
        let of_journal = |members| made(five, members, Bytes::gib(1), chunk, Consistency::Journal);
        assert_eq!(of_journal(MOST_WITH_JOURNAL), Ok(()));
        assert!(of_journal(MOST_WITH_JOURNAL + 1).unwrap_err().contains("up to 203 members, not of 204"));
        // Eight disks in pairs store what four hold.
        let of_bitmap =
            |tib: u64| made(Level::Raid10(Copies::near(2)), 8, Bytes::gib(1024) * tib, chunk, Consistency::Bitmap);
        assert_eq!(of_bitmap(15), Ok(()));
        assert!(of_bitmap(16).unwrap_err().contains("60 TiB"));
        // What md made of such disks is replaced all the same.
        let large = Bitmap::full(Uuid([1; 16]), 3, Bytes::gib(1024) * 100, Bitmap::region_for(Bytes::gib(1024) * 100));
        assert_eq!(Bitmap::parse(&large.to_bytes()), Ok(large));
        let of_ddf = |chunk| {
            let level = Level::Raid6(DoubleRotation::DdfNContinue);
            made(level, 4, Bytes::gib(1), chunk, Consistency::Bitmap)
        };
        assert_eq!(of_ddf(Bytes::mib(1)), Ok(()));
        assert!(of_ddf(Bytes::mib(2)).unwrap_err().contains("1 MiB or less, not of 2 MiB"));
        // Room for a chunk on each, and not for its copies.
        let of_far = |kib| made(Level::Raid10(Copies::far(2)), 4, Bytes::kib(kib), chunk, Consistency::Resync);
        assert_eq!(of_far(1024 + 128), Ok(()));
        assert!(of_far(1024 + 64).unwrap_err().contains("one for each far or offset copy"));
    }
}
