//! A described layout, checked and turned into the map of a drive.

use super::layout::{Layout, LayoutError, Sparing, ZoneLayout};
use super::{Geometry, Slip, Zone};
use crate::disk::rotation::Angle;

pub(super) fn build(layout: &Layout) -> Result<Geometry, LayoutError> {
    for (what, count, limit) in [
        ("surface", u64::from(layout.surfaces), MOST_SURFACES),
        ("cylinder", u64::from(layout.cylinders), MOST_CYLINDERS),
        ("block", layout.blocks, u64::MAX),
    ] {
        if count == 0 {
            return Err(LayoutError::Nothing { zone: None, what });
        }
        if count > limit {
            return Err(LayoutError::TooMany { zone: None, what, count, limit });
        }
    }
    let mut zones: Vec<Zone> = Vec::with_capacity(layout.zones.len());
    let mut first_block = 0;
    for (index, described) in layout.zones.iter().enumerate() {
        if let Some(before) = zones.last().map(|zone| zone.last_cylinder)
            && described.first_cylinder <= before
        {
            let (first, last) = (described.first_cylinder, described.last_cylinder);
            return Err(LayoutError::Overlap { zone: index, first, last, before });
        }
        let zone = zone(layout, index, first_block)?;
        first_block += zone.blocks;
        zones.push(zone);
    }
    if first_block < layout.blocks {
        return Err(LayoutError::TooFewBlocks { found: first_block, blocks: layout.blocks });
    }
    let (surfaces, cylinders, mapping, blocks) = (layout.surfaces, layout.cylinders, layout.mapping, layout.blocks);
    Ok(Geometry { surfaces, cylinders, mapping, zones, blocks })
}

/// Wider than any drive, and their product is far inside 64 bits.
const MOST_SURFACES: u64 = 1 << 10;
const MOST_CYLINDERS: u64 = 1 << 24;
const MOST_SECTORS: u64 = 1 << 20;

fn zone(layout: &Layout, index: usize, first_block: u64) -> Result<Zone, LayoutError> {
    let described = &layout.zones[index];
    let ZoneLayout { first_cylinder: first, last_cylinder: last, sectors, reserved, .. } = *described;
    if last < first {
        return Err(LayoutError::Backwards { zone: index, first, last });
    }
    if last >= layout.cylinders {
        return Err(LayoutError::BeyondDrive { zone: index, last, cylinders: layout.cylinders });
    }
    if sectors == 0 {
        return Err(LayoutError::Nothing { zone: Some(index), what: "sector in each track" });
    }
    if u64::from(sectors) > MOST_SECTORS {
        let (what, count) = ("sector in each track", u64::from(sectors));
        return Err(LayoutError::TooMany { zone: Some(index), what, count, limit: MOST_SECTORS });
    }

    let tracks = (u64::from(last - first) + 1) * u64::from(layout.surfaces);
    let Regions { unit, region, name, spares, at_front, to_end } = regions(layout, described, tracks);
    let units = tracks * u64::from(sectors) / unit;
    if spares >= region {
        return Err(LayoutError::NoData { zone: index, kept: spares, sectors: region, region: name });
    }
    let data = region - spares;
    let front = if at_front { spares } else { 0 };

    let mut slipped = described.slips.clone();
    slipped.sort_unstable(); // drive files contain unsorted ones
    slipped.dedup();
    if let Some(at) = slipped.iter().find(|at| **at >= units) {
        return Err(LayoutError::OutsideZone { zone: index, what: "slip", at: *at, count: units });
    }
    if to_end {
        // A bad spare was never going to hold a block.
        slipped.retain(|at| (front..front + data).contains(&(at % region)));
    }
    let slips = slips(&slipped, region, front, data, to_end);
    // The last region may be cut short by the end of the zone: it then has no spares, and its slips cost blocks.
    let (whole, rest) = (units / region, units % region);
    let spared = if to_end { u64::MAX } else { spares };
    if let Some(slip) = slips.iter().find(|slip| slip.rank >= spared && slip.region < whole) {
        return Err(LayoutError::TooManySlips { zone: index, at: slip.unit, spares });
    }
    let usable = if to_end {
        whole * data + rest.saturating_sub(front).min(data) - slips.len() as u64
    } else {
        let lost = slips.iter().filter(|slip| slip.region == whole).count() as u64;
        whole * data + (rest - lost).saturating_sub(front.saturating_sub(lost)).min(data)
    } * unit;
    if usable <= reserved {
        return Err(LayoutError::NoData { zone: index, kept: reserved, sectors: usable, region: "zone" });
    }

    let angle = |what, skew: f64| {
        let limit = MOST_SECTORS as u32;
        angle(skew, sectors).ok_or(LayoutError::BadSkew { zone: index, what, sectors: skew, limit })
    };
    let mut zone = Zone {
        first_block,
        blocks: usable - reserved,
        first_cylinder: first,
        last_cylinder: last,
        sectors,
        width: Angle::fraction(1, u64::from(sectors)),
        origin: angle("offset", described.offset)?,
        track_skew: angle("track skew", described.track_skew)?,
        cylinder_skew: angle("cylinder skew", described.cylinder_skew)?,
        reserved,
        unit,
        region,
        front,
        data,
        to_end,
        slips_turn: matches!(name, "track" | "cylinder"),
        slips,
        remaps: Vec::new(),
        replaced: Vec::new(),
    };
    remap(&mut zone, index, &described.remaps, units)?;
    Ok(zone)
}

/// How a sparing scheme divides a zone.
struct Regions {
    /// Slots that are kept or slipped together.
    unit: u64,
    /// Units of a region.
    region: u64,
    /// What a region is called.
    name: &'static str,
    /// Spare units of a region.
    spares: u64,
    /// They stand in front of its data.
    at_front: bool,
    /// Slips push on beyond the region.
    to_end: bool,
}

fn regions(layout: &Layout, zone: &ZoneLayout, tracks: u64) -> Regions {
    let sectors = u64::from(zone.sectors);
    let (slots, cylinder) = (tracks * sectors, u64::from(layout.surfaces) * sectors);
    let plain = Regions { unit: 1, region: slots, name: "zone", spares: zone.spares, at_front: false, to_end: false };
    match layout.sparing {
        Sparing::None => Regions { spares: 0, ..plain },
        Sparing::Track => Regions { unit: sectors, region: tracks, ..plain },
        Sparing::SectorsPerTrack => Regions { region: sectors, name: "track", ..plain },
        Sparing::SectorsPerCylinder => Regions { region: cylinder, name: "cylinder", ..plain },
        Sparing::SectorsPerCylinderSlipToEnd => Regions { region: cylinder, name: "cylinder", to_end: true, ..plain },
        Sparing::SectorsAtFront => Regions { region: cylinder, name: "cylinder", at_front: true, ..plain },
        Sparing::SectorsAtFrontSlipToEnd => {
            Regions { region: cylinder, name: "cylinder", at_front: true, to_end: true, ..plain }
        }
        Sparing::SectorsAtEnd => Regions { spares: 0, to_end: true, ..plain },
        Sparing::SectorsPerRange(range) => Regions { region: cylinder * u64::from(range), name: "range", ..plain },
        Sparing::SectorsPerZone => plain,
        Sparing::SectorsPerZoneSlipToEnd => Regions { to_end: true, ..plain },
    }
}

/// A skew in sectors as an angle; exact where it is whole.
fn angle(skew: f64, sectors: u32) -> Option<Angle> {
    if !(0.0..=MOST_SECTORS as f64).contains(&skew) {
        return None;
    }
    // Summed from the width of one sector, so that a track turned by whole sectors has its sectors exactly where they
    // were.
    let whole = Angle::fraction(1, u64::from(sectors)).times(skew.trunc() as u64);
    Some(if skew.fract() == 0.0 { whole } else { whole.plus(Angle::revolutions(skew.fract() / f64::from(sectors))) })
}

/// Works out what stands before each slip.
fn slips(slipped: &[u64], region: u64, front: u64, data: u64, to_end: bool) -> Vec<Slip> {
    let mut slips: Vec<Slip> = Vec::with_capacity(slipped.len());
    for unit in slipped.iter().copied() {
        let (number, offset) = (unit / region, unit % region);
        let rank = match slips.last() {
            Some(before) if to_end || before.region == number => before.rank + 1,
            _ => 0,
        };
        let plain = if to_end { number * data + offset - front } else { unit };
        slips.push(Slip { unit, region: number, rank, good: plain - rank });
    }
    slips
}

fn remap(zone: &mut Zone, index: usize, remaps: &[(u64, u64)], units: u64) -> Result<(), LayoutError> {
    let mut pairs = Vec::new();
    for (defect, spare) in remaps.iter().copied() {
        for at in [defect, spare] {
            if at >= units {
                return Err(LayoutError::OutsideZone { zone: index, what: "remap", at, count: units });
            }
        }
        // Drive files contain sectors "remapped" to themselves: a reassignment that found the old place good.
        if defect == spare {
            continue;
        }
        let bad = |why| LayoutError::BadRemap { zone: index, defect, spare, why };
        for step in 0..zone.unit {
            let (from, to) = (defect * zone.unit + step, spare * zone.unit + step);
            if zone.usable(from).is_none() {
                return Err(bad("useless, as no block is at the first"));
            }
            if zone.usable(to).is_some() || zone.slips.iter().any(|slip| slip.unit == spare) {
                return Err(bad("not a spare"));
            }
            pairs.push((from, to));
        }
    }
    pairs.sort_unstable();
    let mut replaced: Vec<(u64, u64)> = pairs.iter().map(|(from, to)| (*to, *from)).collect();
    replaced.sort_unstable();
    for twice in [&pairs, &replaced] {
        if let Some(pair) = twice.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (defect, spare) = pair[0];
            return Err(LayoutError::BadRemap { zone: index, defect, spare, why: "named twice" });
        }
    }
    (zone.remaps, zone.replaced) = (pairs, replaced);
    Ok(())
}
