//! Properties of the disk model that must hold for any drive, not only for those at hand.

use std::collections::HashSet;

use crate::common;
use machine::disk::drive::{Drive, Outcome, Request};
use machine::disk::geometry::{Geometry, Layout, Location, Mapping, Sparing, ZoneLayout};
use machine::disk::mechanism::{Access, Arm};
use proptest::prelude::*;
use units::{Duration, Instant, Ratio};

fn sparing() -> impl Strategy<Value = Sparing> {
    prop_oneof![
        Just(Sparing::None),
        Just(Sparing::Track),
        Just(Sparing::SectorsPerCylinder),
        Just(Sparing::SectorsPerTrack),
        Just(Sparing::SectorsPerCylinderSlipToEnd),
        Just(Sparing::SectorsAtFront),
        Just(Sparing::SectorsAtFrontSlipToEnd),
        Just(Sparing::SectorsAtEnd),
        (1u32..4).prop_map(Sparing::SectorsPerRange),
        Just(Sparing::SectorsPerZone),
        Just(Sparing::SectorsPerZoneSlipToEnd),
    ]
}

/// A zone's cylinders, sectors, spares, reserved slots, and where slips and remaps might be.
type Rough = (u32, u32, u64, u64, Vec<u16>, Vec<(u16, u16)>);

fn zone() -> impl Strategy<Value = Rough> {
    let slips = prop::collection::vec(any::<u16>(), 0..5);
    let remaps = prop::collection::vec(any::<(u16, u16)>(), 0..3);
    (1u32..6, 2u32..24, 0u64..5, 0u64..4, slips, remaps)
}

fn mapping() -> impl Strategy<Value = Mapping> {
    prop_oneof![Just(Mapping::Straight), Just(Mapping::SerpentinePerZone), Just(Mapping::Serpentine)]
}

fn layout(surfaces: u32, mapping: Mapping, sparing: Sparing, rough: &[Rough]) -> Layout {
    let mut first = 0;
    let mut zones = Vec::new();
    for (cylinders, sectors, spares, reserved, slips, remaps) in rough {
        let slots = u64::from(*cylinders) * u64::from(surfaces) * u64::from(*sectors);
        let unit = if sparing == Sparing::Track { u64::from(*sectors) } else { 1 };
        let mut slips: Vec<u64> = slips.iter().map(|slip| u64::from(*slip) % (slots / unit)).collect();
        slips.sort_unstable();
        slips.dedup();
        zones.push(ZoneLayout {
            first_cylinder: first,
            last_cylinder: first + cylinders - 1,
            sectors: *sectors,
            offset: 1.0,
            reserved: *reserved,
            track_skew: 1.5,
            cylinder_skew: 2.0,
            spares: *spares,
            slips,
            remaps: remaps.iter().map(|(from, to)| (u64::from(*from) % slots, u64::from(*to) % slots)).collect(),
        });
        first += cylinders;
    }
    Layout { surfaces, cylinders: first, blocks: 1, mapping, sparing, zones }
}

/// The layout with all the blocks that it has room for; without remaps and slips if they make no sense.
fn fitted(mut layout: Layout) -> Option<Geometry> {
    if Geometry::new(&layout).is_err() {
        layout.zones.iter_mut().for_each(|zone| zone.remaps.clear());
    }
    if Geometry::new(&layout).is_err() {
        layout.zones.iter_mut().for_each(|zone| zone.slips.clear());
    }
    let room = Geometry::new(&layout).ok()?;
    layout.blocks = room.zones().iter().map(|zone| zone.blocks()).sum();
    Some(Geometry::new(&layout).expect("what has room for one block has it for those that it names"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_block_has_one_sector_and_every_sector_at_most_one_block(
        surfaces in 1u32..5, mapping in mapping(), sparing in sparing(), rough in prop::collection::vec(zone(), 1..4),
    ) {
        let layout = layout(surfaces, mapping, sparing, &rough);
        let Some(geometry) = fitted(layout.clone()) else { return Ok(()) };
        let mut seen = HashSet::new();
        for block in 0..geometry.blocks() {
            let location = geometry.locate(block);
            prop_assert!(seen.insert(location), "{location:?} holds two blocks");
            prop_assert_eq!(geometry.block(location), Some(block));
            let extent = geometry.extent(block);
            prop_assert!(extent.blocks >= 1);
            for next in 1..extent.blocks {
                let other = geometry.extent(block + next);
                let sector = location.sector + next as u32;
                prop_assert_eq!(other.location, Location { sector, ..location }, "a run does not leave its track");
                prop_assert_eq!(other.angle, extent.angle.plus(extent.width.times(next)));
            }
            let (first, after) = geometry.track_of(block);
            prop_assert!(first < after && after <= geometry.blocks());
        }
        let mut held = 0;
        for zone in &layout.zones {
            for cylinder in zone.first_cylinder..=zone.last_cylinder {
                for (head, sector) in (0..surfaces).flat_map(|head| (0..zone.sectors).map(move |sector| (head, sector))) {
                    held += u64::from(geometry.block(Location { cylinder, head, sector }).is_some());
                }
            }
        }
        prop_assert_eq!(held, geometry.blocks());
    }

    /// The drive computes with straight lines; this counts every sector and every block on the bus.
    #[test]
    fn a_miss_takes_as_long_as_sector_by_sector(
        at in 0u64..50_000_000, block in 0u64..50_000, blocks in 1u64..400, bus_ns in 1_000u64..400_000,
        piece in 1u64..20,
    ) {
        let mut parameters = common::example();
        parameters.bus.read_block = Duration::nanos(bus_ns);
        parameters.read_ahead.zero_latency = false;
        parameters.buffer.segment_blocks = 512;
        parameters.buffer.read_fill = Ratio::ZERO;
        let block = block.min(parameters.mechanism.geometry.blocks() - blocks);

        // One piece at a time only while all of it is on one track: elsewhere the pieces may fall differently.
        let one_track = parameters.mechanism.geometry.extent(block).blocks >= blocks;
        parameters.buffer.piece = if one_track { piece } else { 1 };
        let piece = parameters.buffer.piece;

        let (mechanism, overhead) = (&parameters.mechanism, &parameters.overhead);
        let issued = Instant::from_nanos(at);
        let processed = issued + overhead.request + overhead.read_miss_after_read;
        let mut in_buffer = Vec::new();
        let mut run = mechanism.run(Arm { cylinder: 0, head: 0 }, processed, block, Access::Read);
        for wanted in block..block + blocks {
            if wanted == run.after() {
                run = mechanism.next(&run, Access::Read).unwrap();
            }
            in_buffer.push(run.passed(wanted - run.first + 1));
        }
        let disconnected = processed + overhead.read_disconnect_after_read;
        let first_piece = in_buffer[piece.min(blocks) as usize - 1];
        let mut bus = first_piece.max(disconnected) + overhead.first_reselect + overhead.data_preparation;
        for (index, sector) in in_buffer.iter().enumerate() {
            let there = if (index as u64).is_multiple_of(piece) { in_buffer[(index + piece as usize).min(blocks as usize) - 1] } else { *sector };
            bus = bus.max(there) + parameters.bus.read_block;
        }

        let service = Drive::new(parameters.clone()).serve(issued, Request::new(Access::Read, block, blocks));
        prop_assert_eq!(service.outcome, Outcome::Miss);
        prop_assert_eq!(service.completes, bus + overhead.read_completion);
    }

    #[test]
    fn any_drive_serves_any_requests(
        requests in prop::collection::vec((any::<bool>(), any::<u64>(), 1u64..1000, 0u64..30_000_000, any::<bool>()), 1..60),
        switches in any::<u32>(), segments in 1u32..5, segment_blocks in 1u64..300, until in 0usize..6, least in 0u64..50,
    ) {
        let parameters = common::altered(switches, segments, segment_blocks, until, least);
        let last = parameters.mechanism.geometry.blocks();
        let mut drive = Drive::new(parameters.clone());
        let mut now = Instant::START;
        for (write, block, blocks, think, through) in requests {
            let access = if write { Access::Write } else { Access::Read };
            let request = Request { through, ..Request::new(access, block % (last - blocks), blocks) };
            let service = drive.serve(now, request);
            let bus = if write { parameters.bus.write_block } else { parameters.bus.read_block };
            prop_assert!(service.completes >= now + bus * blocks, "no data is faster than the bus");
            prop_assert!(service.arm_free >= now);
            prop_assert!(service.command + service.waiting + service.seek < Duration::seconds(10));
            prop_assert!(drive.clone().flush(service.completes) >= service.completes);
            now = service.completes + Duration::nanos(think);
        }
    }
}
