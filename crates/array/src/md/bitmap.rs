//! The write-intent bitmap: a bit for each region of the members that may differ between them.
//!
//! A bit is set, and on disk, before the first write to its region, and cleared some time after the last. After a crash
//! only marked regions need a resync, and a member that was away for a while needs only those written meanwhile
//! (`events_cleared` says whether bits have been cleared since it left). It does **not** close the write hole: a region
//! that is marked and a member that is missing means parity that may be wrong where it is needed.

use units::{Bytes, Duration};

use super::{Numbers, Resync, Superblock, Uuid, array, put, u32_at, u64_at};
use crate::geometry::{Geometry, Level};

const MAGIC: u32 = 0x6d74_6962;
const HEADER: usize = 256;
/// Bits behind it in one page.
const BITS: u64 = (4096 - HEADER as u64) * 8;
/// Header bits: "stale" and "write error", which md sets to make itself do a full resync.
const STALE: u32 = 1 << 1 | 1 << 2;

/// A bitmap and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    /// The array it belongs to.
    pub array: Uuid,
    /// The superblock's events when it was written.
    pub events: u64,
    /// The newest events at which bits were cleared.
    pub events_cleared: u64,
    /// What it covers: of each member, or at level 10 of the array.
    pub covers: Bytes,
    /// How much one bit covers; a power of two.
    pub region: Bytes,
    /// How long md leaves a bit set after the last write.
    pub sleep: Duration,
    /// Its words on disk as they lie there: state, write-behind, reserved sectors, nodes.
    pub state: u32,
    /// How many writes to write-mostly members may be late.
    pub write_behind: u32,
    /// Sectors set aside for it; zero for unknown.
    pub reserved_sectors: u32,
    bits: Vec<u8>,
}

/// Why bytes are not a bitmap that can be used. Without one, all is taken as marked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum BitmapError {
    /// Nothing there.
    #[error("there is no bitmap (magic {found:#010x}, not 0x6d746962)")]
    NoMagic { found: u32 },
    /// Cut off.
    #[error("a bitmap over {covers} in regions of {region} needs {needed} bytes, {found} are there")]
    Short { covers: Bytes, region: Bytes, needed: u64, found: usize },
    /// Other format.
    #[error("the bitmap has version {0}, only 3 and 4 are understood (5 is of clusters, 6 has no locks)")]
    Version(u32),
    /// A field that cannot be.
    #[error("the bitmap says {field} {value}, which cannot be")]
    Field { field: &'static str, value: u64 },
}

impl Bitmap {
    /// A bitmap with every region marked, as a new array needs it. Panics if `region` is not a power of two of a sector
    /// or more.
    pub fn full(array: Uuid, events: u64, covers: Bytes, region: Bytes) -> Bitmap {
        assert!(region.get().is_power_of_two() && region >= Bytes::SECTOR, "a region of {region:#}");
        let bits = vec![0xff; (covers.get().div_ceil(region.get())).div_ceil(8) as usize];
        Bitmap {
            array,
            events,
            events_cleared: 0,
            covers,
            region,
            sleep: Duration::seconds(5),
            state: 0,
            write_behind: 0,
            reserved_sectors: 0,
            bits,
        }
    }

    /// The size of a region with which a bitmap of what it covers fits into one page: at least a 64th of it, 64 KiB or
    /// more, and 64 MiB (mdadm's choice) where that is enough. It has 32 bits, and is a power of two, so above 60 TiB
    /// it takes more pages.
    pub fn region_for(covers: Bytes) -> Bytes {
        let fine = Bytes::new((covers.get() / 64).max(1).next_power_of_two());
        let fits = Bytes::new(covers.get().div_ceil(BITS).max(1).next_power_of_two());
        fine.clamp(Bytes::kib(64), Bytes::mib(64)).max(fits).min(Bytes::gib(2))
    }

    /// Whether that is one page, as much as new arrays have room for.
    pub fn fits_one_page(covers: Bytes) -> bool {
        covers.get().div_ceil(Bitmap::region_for(covers).get()) <= BITS
    }

    /// What the bitmap of an array covers: of level 10 the array, else each member.
    pub fn covered(superblock: &Superblock) -> Bytes {
        match (Numbers { level: superblock.level, layout: superblock.layout }).level() {
            Ok(level @ Level::Raid10(_)) => {
                let sizes = vec![superblock.size; superblock.members as usize];
                Geometry::new(level, superblock.chunk, &sizes).map_or(superblock.size, |geometry| geometry.size())
            }
            _ => superblock.size,
        }
    }

    /// The bitmap of a new array's member: empty if redundancy fits, full if a resync has to make it fit.
    pub fn of_new(superblock: &Superblock) -> Bitmap {
        let covers = Bitmap::covered(superblock);
        let mut bitmap = Bitmap::full(superblock.array, superblock.events, covers, Bitmap::region_for(covers));
        bitmap.reserved_sectors = 8;
        if superblock.resync == Resync::Clean {
            (0..bitmap.regions()).for_each(|region| _ = bitmap.set(region, false));
        }
        bitmap
    }

    /// Reads a bitmap. Any bytes will do; those behind it are ignored.
    pub fn parse(bytes: &[u8]) -> Result<Bitmap, BitmapError> {
        if bytes.len() < HEADER {
            let (covers, region) = (Bytes::ZERO, Bytes::ZERO);
            return Err(BitmapError::Short { covers, region, needed: HEADER as u64, found: bytes.len() });
        }
        let magic = u32_at(bytes, 0);
        if magic != MAGIC {
            return Err(BitmapError::NoMagic { found: magic });
        }
        let version = u32_at(bytes, 4);
        if !(3..=4).contains(&version) {
            return Err(BitmapError::Version(version));
        }
        let (sectors, region) = (u64_at(bytes, 40), u32_at(bytes, 52));
        if sectors >= 1 << 54 {
            return Err(BitmapError::Field { field: "sectors:", value: sectors });
        }
        if !region.is_power_of_two() || region < 512 {
            return Err(BitmapError::Field { field: "bytes in a region:", value: region.into() });
        }
        let (covers, region) = (Bytes::SECTOR * sectors, Bytes::new(region.into()));
        let length = covers.get().div_ceil(region.get()).div_ceil(8);
        let needed = HEADER as u64 + length;
        if (bytes.len() as u64) < needed {
            return Err(BitmapError::Short { covers, region, needed, found: bytes.len() });
        }
        Ok(Bitmap {
            array: Uuid(array(bytes, 8)),
            events: u64_at(bytes, 24),
            events_cleared: u64_at(bytes, 32),
            covers,
            region,
            sleep: Duration::seconds(u64::from(u32_at(bytes, 56))),
            state: u32_at(bytes, 48),
            write_behind: u32_at(bytes, 60),
            reserved_sectors: u32_at(bytes, 64),
            bits: bytes[HEADER..HEADER + length as usize].to_vec(),
        })
    }

    /// Header and bits, without padding.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        put(&mut bytes, 0, &MAGIC.to_le_bytes());
        put(&mut bytes, 4, &4u32.to_le_bytes());
        put(&mut bytes, 8, &self.array.0);
        put(&mut bytes, 24, &self.events.to_le_bytes());
        put(&mut bytes, 32, &self.events_cleared.to_le_bytes());
        put(&mut bytes, 40, &(self.covers / Bytes::SECTOR).to_le_bytes());
        put(&mut bytes, 48, &self.state.to_le_bytes());
        let region = u32::try_from(self.region.get()).expect("a region has 32 bits");
        put(&mut bytes, 52, &region.to_le_bytes());
        put(&mut bytes, 56, &((self.sleep.as_nanos() / 1_000_000_000) as u32).to_le_bytes());
        put(&mut bytes, 60, &self.write_behind.to_le_bytes());
        put(&mut bytes, 64, &self.reserved_sectors.to_le_bytes());
        bytes.extend(&self.bits);
        bytes
    }

    /// Whether its bits mean something: md itself marks a bitmap stale when it could not be kept.
    pub fn is_stale(&self) -> bool {
        self.state & STALE != 0
    }

    /// How many regions it has.
    pub fn regions(&self) -> u64 {
        self.covers.get().div_ceil(self.region.get())
    }

    /// Which regions a range touches.
    pub fn regions_of(&self, offset: Bytes, length: Bytes) -> std::ops::Range<u64> {
        let end = (offset + length).min(self.covers);
        offset / self.region..end.get().div_ceil(self.region.get()).max(offset / self.region)
    }

    /// Whether a region may differ. Panics beyond the last.
    pub fn is_marked(&self, region: u64) -> bool {
        assert!(region < self.regions(), "region {region} of {}", self.regions());
        self.bits[(region / 8) as usize] >> (region % 8) & 1 == 1
    }

    /// Marks a region, or clears its mark; says whether that changed it.
    pub fn set(&mut self, region: u64, marked: bool) -> bool {
        let changed = self.is_marked(region) != marked;
        if changed {
            self.bits[(region / 8) as usize] ^= 1 << (region % 8);
        }
        changed
    }

    /// The marked regions, in order.
    pub fn marked(&self) -> impl Iterator<Item = u64> {
        (0..self.regions()).filter(|region| self.is_marked(*region))
    }
}
