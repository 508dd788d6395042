//! The description of a drive's layout, and what can be wrong with it.

/// What a drive's data sheet or drive file says about where blocks are.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Surfaces, each with its head.
    pub surfaces: u32,
    /// Cylinders, those reserved between zones included.
    pub cylinders: u32,
    /// Addressable blocks.
    pub blocks: u64,
    /// The order of the tracks.
    pub mapping: Mapping,
    /// Where the spares are.
    pub sparing: Sparing,
    /// From the outermost inwards.
    pub zones: Vec<ZoneLayout>,
}

/// One zone of a [`Layout`].
#[derive(Debug, Clone, PartialEq)]
pub struct ZoneLayout {
    /// The outermost cylinder.
    pub first_cylinder: u32,
    /// The innermost cylinder, inclusive.
    pub last_cylinder: u32,
    /// Sectors of a track, spares included.
    pub sectors: u32,
    /// Where the first sector of the zone's first track begins, in sectors of this zone.
    pub offset: f64,
    /// Usable sectors at the front that hold no blocks.
    pub reserved: u64,
    /// From track to track within a cylinder, in sectors.
    pub track_skew: f64,
    /// From cylinder to cylinder, in sectors.
    pub cylinder_skew: f64,
    /// Spares per region of the sparing scheme: sectors, or tracks in [`Sparing::Track`].
    pub spares: u64,
    /// Passed-over sectors (tracks), counted from the zone's first sector (track) in block order.
    pub slips: Vec<u64>,
    /// Remapped sectors (tracks) and where they went, counted the same way.
    pub remaps: Vec<(u64, u64)>,
}

/// In which order the tracks of a cylinder are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// Head 0 to the last in every cylinder.
    Straight,
    /// Every other cylinder backwards, so that a cylinder switch keeps its head; each zone's first cylinder is forward.
    SerpentinePerZone,
    /// The same, but even cylinders are forward.
    Serpentine,
}

impl Mapping {
    /// From place in the cylinder to head, and back: its own inverse.
    pub(super) const fn head(self, cylinder: u32, in_zone: u32, order: u32, surfaces: u32) -> u32 {
        let backwards = match self {
            Mapping::Straight => false,
            Mapping::SerpentinePerZone => in_zone % 2 == 1,
            Mapping::Serpentine => cylinder % 2 == 1,
        };
        if backwards { surfaces - 1 - order } else { order }
    }
}

/// Where the spares are, and how far a slip pushes the blocks behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sparing {
    /// No spares, no slips.
    None,
    /// Spare tracks at the end of the zone; whole tracks are slipped and remapped.
    Track,
    /// Spare sectors at the end of each track.
    SectorsPerTrack,
    /// Spare sectors at the end of each cylinder.
    SectorsPerCylinder,
    /// The same, but slips push on to the end of the zone.
    SectorsPerCylinderSlipToEnd,
    /// Spare sectors at the front of each cylinder.
    SectorsAtFront,
    /// The same, but slips push on to the end of the zone.
    SectorsAtFrontSlipToEnd,
    /// No spares in the zone; slips push on to its end.
    SectorsAtEnd,
    /// Spare sectors at the end of each so many cylinders.
    SectorsPerRange(u32),
    /// Spare sectors at the end of the zone.
    SectorsPerZone,
    /// The same, but slips are passed over in addition to the spares.
    SectorsPerZoneSlipToEnd,
}

/// Why a layout is contradictory. Zones are counted from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the fields are the blanks of the sentences that stand above them
pub enum LayoutError {
    #[error("a drive needs at least one {what}")]
    Nothing { zone: Option<usize>, what: &'static str },
    #[error("{count} {what} are more than any drive has; write at most {limit}")]
    TooMany { zone: Option<usize>, what: &'static str, count: u64, limit: u64 },
    #[error(
        "zone {zone} is from cylinder {first} to {last}, but zones must not overlap and the one before ends at {before}"
    )]
    Overlap { zone: usize, first: u32, last: u32, before: u32 },
    #[error("zone {zone} ends at cylinder {last}, before its first, {first}")]
    Backwards { zone: usize, first: u32, last: u32 },
    #[error("zone {zone} ends at cylinder {last}, but the drive has {cylinders} cylinders, 0 to {}", cylinders - 1)]
    BeyondDrive { zone: usize, last: u32, cylinders: u32 },
    #[error(
        "zone {zone} keeps {kept} of the {sectors} sectors of each {region} as spares or slips; none is left for data"
    )]
    NoData { zone: usize, kept: u64, sectors: u64, region: &'static str },
    #[error("zone {zone} lists a {what} at {at}, but has only {count}")]
    OutsideZone { zone: usize, what: &'static str, at: u64, count: u64 },
    #[error("zone {zone} has more slips around {at} than the {spares} spares that would make up for them")]
    TooManySlips { zone: usize, at: u64, spares: u64 },
    #[error("zone {zone} remaps {defect} to {spare}, which is {why}")]
    BadRemap { zone: usize, defect: u64, spare: u64, why: &'static str },
    #[error("zone {zone} has a {what} of {sectors} sectors; write a number from 0 to {limit}")]
    BadSkew { zone: usize, what: &'static str, sectors: f64, limit: u32 },
    #[error("the zones hold {found} blocks, but the drive is said to have {blocks}")]
    TooFewBlocks { found: u64, blocks: u64 },
}

impl LayoutError {
    /// The zone at fault, if it is one.
    pub fn zone(&self) -> Option<usize> {
        use LayoutError::*;
        match self {
            Nothing { zone, .. } | TooMany { zone, .. } => *zone,
            TooFewBlocks { .. } => None,
            Overlap { zone, .. }
            | Backwards { zone, .. }
            | BeyondDrive { zone, .. }
            | NoData { zone, .. }
            | OutsideZone { zone, .. }
            | TooManySlips { zone, .. }
            | BadRemap { zone, .. }
            | BadSkew { zone, .. } => Some(*zone),
        }
    }
}
