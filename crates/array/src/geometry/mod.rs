//! Geometry: which byte of the array lies where on which member, and what else lies there.
//!
//! Pure functions of a level, a chunk size and the members' sizes: no state, no I/O. Addresses on a member count from
//! the start of its data area; where that begins is the metadata's business.
//!
//! A *chunk* is what lies on one member before the next takes over; a *row* is one chunk on every member, at one
//! address. In levels with parity a row is a stripe: its data chunks, P, and at level 6 Q.
//!
//! The rules are those of Linux md (`raid0.c`, `raid10.c: __raid10_find_phys`, `raid5.c: raid5_compute_sector`), so
//! that arrays can be exchanged with it; one file per family: `concat` (linear, 0), `copies` (1, 10), `rotation` (3, 4,
//! 5, 6). Level 3 is level 4 with a chunk of one block: md does not have it, and calls it 4.

mod concat;
mod copies;
mod name;
mod picture;
mod rotation;

use units::Bytes;

use concat::Zone;
pub use concat::Zones;
pub use copies::{Copies, Spread};
pub use name::UnknownName;
pub use picture::picture;
pub use rotation::{DoubleRotation, Rotation, Stripe};

/// Chunks of DDF layouts of level 6: zeroes stand for the blocks of other members, and must be as many.
pub const LARGEST_DDF_CHUNK: Bytes = Bytes::mib(1);

/// How data and redundancy are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// One member after the other.
    Linear,
    /// Chunks in turn over all members, no redundancy.
    Raid0(Zones),
    /// The same on every member.
    Raid1,
    /// Parity on the last member, and every request touches them all: the chunk is one block.
    Raid3,
    /// Parity on the last member.
    Raid4,
    /// Parity on each member in turn.
    Raid5(Rotation),
    /// Two parities.
    Raid6(DoubleRotation),
    /// Chunks in turn over all members, each more than once.
    Raid10(Copies),
}

/// An array's layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    chunk: Bytes,
    members: usize,
    /// How much of each member the array uses; for levels that use unequal members wholly, of the smallest.
    used: Bytes,
    size: Bytes,
    /// Linear and level 0: runs of the array with one set of members each. Otherwise empty.
    zones: Vec<Zone>,
}

/// A run of bytes on a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which member.
    pub member: usize,
    /// Where in its data area.
    pub offset: Bytes,
    /// How far array and member addresses go on together, from here.
    pub run: Bytes,
}

/// What lies at an address of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This byte of the array, or a copy of it.
    Data(Bytes),
    /// P of this row.
    P(u64),
    /// Q of this row.
    Q(u64),
    /// Nothing of the array.
    Unused,
}

/// Why members cannot make an array of a level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum GeometryError {
    /// Too few.
    #[error("{level} needs {needed} members or more, not {found}")]
    TooFew { level: &'static str, needed: usize, found: usize },
    /// More than Q or md can tell apart.
    #[error("{level} has room for {limit} members, not {found}")]
    TooMany { level: &'static str, limit: usize, found: usize },
    /// Not whole sectors.
    #[error("a chunk of {chunk:#} is not a whole number of 512-byte sectors; 64 KiB would do")]
    Chunk { chunk: Bytes },
    /// A member without room.
    #[error(
        "member {member} has {size} for data, less than one chunk of {chunk:#}; take a larger member or a smaller chunk"
    )]
    TooSmall { member: usize, size: Bytes, chunk: Bytes },
    /// A layout that contradicts itself.
    #[error("{near} near times {far} far copies do not fit on {members} members; the product may be at most {members}")]
    Copies { near: u32, far: u32, members: usize },
    /// All copies side by side and none far away, yet spread by offset.
    #[error("an offset layout needs two far copies or more")]
    OffsetOfOne,
    /// Sums beyond 64 bits.
    #[error("the members together hold more than 16 EiB")]
    TooLarge,
}

impl Level {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Level::Linear => "linear",
            Level::Raid0(_) => "level 0",
            Level::Raid1 => "level 1",
            Level::Raid3 => "level 3",
            Level::Raid4 => "level 4",
            Level::Raid5(_) => "level 5",
            Level::Raid6(_) => "level 6",
            Level::Raid10(_) => "level 10",
        }
    }

    /// The chunk of a new array of which nothing else is said: at level 3 a request is to be on all members, so the
    /// smallest that md has.
    pub fn usual_chunk(self) -> Bytes {
        if self == Level::Raid3 { Bytes::kib(4) } else { Bytes::kib(64) }
    }

    /// How many members may be lost, whichever they are, without losing data.
    pub fn losses_survived(self, members: usize) -> usize {
        match self {
            Level::Linear | Level::Raid0(_) => 0,
            Level::Raid1 => members - 1,
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) => 1,
            Level::Raid6(_) => 2,
            Level::Raid10(copies) => copies.count() as usize - 1,
        }
    }

    /// What an array of so many members survives, in words.
    pub fn endurance(self, members: usize) -> String {
        let any = self.losses_survived(members);
        match self {
            Level::Raid10(_) if any > 0 && any + 1 < members => {
                format!("the loss of any {any}, and of more that leave a copy of every chunk")
            }
            _ => format!("the loss of {any}"),
        }
    }

    /// How many chunks of a row are parity.
    pub fn parities(self) -> usize {
        match self {
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) => 1,
            Level::Raid6(_) => 2,
            Level::Linear | Level::Raid0(_) | Level::Raid1 | Level::Raid10(_) => 0,
        }
    }

    fn least_members(self) -> usize {
        match self {
            Level::Linear | Level::Raid0(_) | Level::Raid1 => 1,
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) | Level::Raid10(_) => 2,
            // md's rule; three would be a mirror with two calculations.
            Level::Raid6(_) => 4,
        }
    }
}

/// Slots of the superblock's table of roles that mdadm makes room for.
const MOST_MEMBERS: usize = 384;
/// g^i are different for i below 255; two more members hold P and Q.
const MOST_WITH_Q: usize = 257;

impl Geometry {
    /// The layout of an array of `level` whose members have these sizes for data. Level 1 and linear pay no attention
    /// to `chunk` but for md's rounding, which linear arrays have where it is not zero.
    pub fn new(level: Level, chunk: Bytes, sizes: &[Bytes]) -> Result<Geometry, GeometryError> {
        let (members, name) = (sizes.len(), level.name());
        if members < level.least_members() {
            return Err(GeometryError::TooFew { level: name, needed: level.least_members(), found: members });
        }
        let limit = if matches!(level, Level::Raid6(_)) { MOST_WITH_Q } else { MOST_MEMBERS };
        if members > limit {
            return Err(GeometryError::TooMany { level: name, limit, found: members });
        }
        let chunkless = matches!(level, Level::Raid1 | Level::Linear);
        if !chunk.is_multiple_of(Bytes::SECTOR) || (chunk.is_zero() && !chunkless) {
            return Err(GeometryError::Chunk { chunk });
        }
        if let Level::Raid10(copies) = level {
            copies.check(members)?;
        }
        let unit = if matches!(level, Level::Raid1) || chunk.is_zero() { Bytes::SECTOR } else { chunk };
        let whole: Vec<Bytes> = sizes.iter().map(|size| size.round_down(unit)).collect();
        if let Some(member) = whole.iter().position(|size| size.is_zero()) {
            return Err(GeometryError::TooSmall { member, size: sizes[member], chunk: unit });
        }
        // All sums stay below the sum of the members.
        whole.iter().try_fold(Bytes::ZERO, |sum, size| sum.checked_add(*size)).ok_or(GeometryError::TooLarge)?;
        let used = whole.iter().copied().min().expect("there are members");
        let zones = match level {
            Level::Linear => concat::one_after_the_other(&whole),
            Level::Raid0(_) => concat::striped(&whole),
            _ => Vec::new(),
        };
        let rows = used / unit;
        let size = match level {
            Level::Linear | Level::Raid0(_) => zones.last().expect("there are members").end(),
            Level::Raid1 => used,
            Level::Raid10(copies) => unit * copies.chunks(members, rows),
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) | Level::Raid6(_) => {
                used * (members - level.parities()) as u64
            }
        };
        Ok(Geometry { level, chunk: unit, members, used, size, zones })
    }

    /// The level and its layout.
    pub fn level(&self) -> Level {
        self.level
    }
    /// Whether parity cannot be computed of such chunks: a DDF layout of level 6 counts zeroes where other members'
    /// data would be, and there are so many.
    pub fn chunk_is_too_large(&self) -> bool {
        let counts_others = || self.stripe(0).powers() > self.stripe(0).data();
        self.level.parities() == 2 && self.chunk > LARGEST_DDF_CHUNK && counts_others()
    }
    /// What lies on one member before the next takes over. One sector for levels without chunks.
    pub fn chunk(&self) -> Bytes {
        self.chunk
    }
    /// How many members there are.
    pub fn members(&self) -> usize {
        self.members
    }
    /// How much the array stores.
    pub fn size(&self) -> Bytes {
        self.size
    }
    /// How much of each member is used; where unequal members are used wholly, of the smallest.
    pub fn used(&self) -> Bytes {
        self.used
    }
    /// How much of one member is used.
    pub fn used_of(&self, member: usize) -> Bytes {
        let in_zone = |zone: &Zone| zone.used_of(member);
        self.zones.iter().filter_map(in_zone).max().unwrap_or(self.used)
    }
    /// Whether it matters at level 0 how chunks behind the end of the smallest member are [counted](Zones).
    pub fn depends_on_zones(&self) -> bool {
        matches!(self.level, Level::Raid0(_)) && self.zones.get(1).is_some_and(Zone::has_several)
    }
    /// How many bytes of the array a row holds, in levels with parity; a chunk elsewhere.
    pub fn stripe_size(&self) -> Bytes {
        match self.level.parities() {
            0 => self.chunk,
            parities => self.chunk * (self.members - parities) as u64,
        }
    }
    /// How many rows there are. At linear and level 0 with unequal members, those that all members share.
    pub fn rows(&self) -> u64 {
        self.used / self.chunk
    }

    /// How many members more may be lost, whichever they are, when these are; `None` if data are lost with them.
    pub fn losses_left(&self, lost: impl Fn(usize) -> bool) -> Option<usize> {
        let number = (0..self.members).filter(|member| lost(*member)).count();
        match self.level {
            // Which of them are lost decides. After as many chunks as there are members the first one's members hold a
            // chunk again.
            Level::Raid10(copies) if number > 0 => {
                let chunks = (self.size / self.chunk).min(self.members as u64);
                let left = |chunk| copies.holders(self.members, chunk).filter(|member| !lost(*member)).count();
                (0..chunks).map(left).min()?.checked_sub(1)
            }
            level => level.losses_survived(self.members).checked_sub(number),
        }
    }

    /// Whether all data can still be had when these members are lost.
    pub fn survives(&self, lost: impl Fn(usize) -> bool) -> bool {
        self.losses_left(lost).is_some()
    }

    /// Where the byte at `address` lies, its first copy where there are several. Panics beyond the end.
    pub fn place(&self, address: Bytes) -> Place {
        self.copy(address, 0)
    }

    /// How many copies of each byte there are.
    pub fn copies(&self) -> usize {
        match self.level {
            Level::Raid1 => self.members,
            Level::Raid10(copies) => copies.count() as usize,
            _ => 1,
        }
    }

    /// Where copy number `copy` of the byte at `address` lies. Panics beyond the end, or if there are fewer copies.
    pub fn copy(&self, address: Bytes, copy: usize) -> Place {
        assert!(address < self.size, "{address:#} is beyond the array's end at {:#}", self.size);
        assert!(copy < self.copies(), "copy {copy} of {}", self.copies());
        let within = address % self.chunk;
        let chunk = address / self.chunk;
        let at =
            |member: usize, row: u64| Place { member, offset: self.chunk * row + within, run: self.chunk - within };
        match self.level {
            Level::Linear => concat::in_line(&self.zones, address),
            Level::Raid0(zones) => concat::in_zone(&self.zones, zones, self.chunk, address),
            Level::Raid1 => Place { member: copy, offset: address, run: self.size - address },
            Level::Raid10(copies) => {
                let (member, row) = copies.place(self.members, self.rows(), chunk, copy as u32);
                at(member, row)
            }
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) | Level::Raid6(_) => self.in_row(address).2,
        }
    }

    /// The row that holds an address, who holds what in it, and where the byte lies. Panics beyond the end, and at
    /// levels without parity.
    pub fn in_row(&self, address: Bytes) -> (u64, Stripe, Place) {
        assert!(address < self.size, "{address:#} is beyond the array's end at {:#}", self.size);
        let (chunk, within) = (address / self.chunk, address % self.chunk);
        let data = (self.members - self.level.parities()) as u64;
        let row = chunk / data;
        let stripe = self.stripe(row);
        let member = stripe.data_member((chunk % data) as usize);
        (row, stripe, Place { member, offset: self.chunk * row + within, run: self.chunk - within })
    }

    /// What lies at `offset` of a member's data area.
    pub fn role(&self, member: usize, offset: Bytes) -> Role {
        assert!(member < self.members, "member {member} of {}", self.members);
        let (row, within) = (offset / self.chunk, offset % self.chunk);
        match self.level {
            Level::Linear => concat::behind_line(&self.zones, member, offset),
            Level::Raid0(zones) => concat::behind_zone(&self.zones, zones, self.chunk, member, offset),
            _ if offset >= self.used => Role::Unused,
            Level::Raid1 => Role::Data(offset),
            Level::Raid10(copies) => match copies.chunk_at(self.members, self.rows(), member, row) {
                Some(chunk) => Role::Data(self.chunk * chunk + within),
                None => Role::Unused,
            },
            Level::Raid3 | Level::Raid4 | Level::Raid5(_) | Level::Raid6(_) => {
                let stripe = self.stripe(row);
                if member == stripe.p() {
                    Role::P(row)
                } else if Some(member) == stripe.q() {
                    Role::Q(row)
                } else {
                    let data = (self.members - self.level.parities()) as u64;
                    Role::Data(self.chunk * (row * data + stripe.data_index(member) as u64) + within)
                }
            }
        }
    }

    /// Who holds what in a row. Panics at levels without parity.
    pub fn stripe(&self, row: u64) -> Stripe {
        match self.level {
            Level::Raid3 | Level::Raid4 => Stripe::single(Rotation::ParityLast, self.members, row),
            Level::Raid5(rotation) => Stripe::single(rotation, self.members, row),
            Level::Raid6(rotation) => Stripe::double(rotation, self.members, row),
            level => panic!("{} has no parity", level.name()),
        }
    }
}
