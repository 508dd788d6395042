//! Every block has exactly one sector, in every drive and every scheme.

use crate::common;
use machine::disk::diskspecs::import_files;
use machine::disk::geometry::{Geometry, Location};
use machine::disk::parameters::Parameters;

/// Walks all blocks along the extents, and all sectors back.
fn check(geometry: &Geometry) {
    let mut block = 0;
    while block < geometry.blocks() {
        let extent = geometry.extent(block);
        assert!(extent.blocks > 0);
        for step in 0..extent.blocks.min(geometry.blocks() - block) {
            let there = Location { sector: extent.location.sector + step as u32, ..extent.location };
            assert_eq!(geometry.locate(block + step), there, "block {}", block + step);
            assert_eq!(geometry.block(there), Some(block + step), "{there:?}");
        }
        let (first, after) = geometry.track_of(block);
        assert!((first..after).contains(&block), "{block} is on its own track, {first} to {after}");
        block += extent.blocks;
    }
    let mut found = 0;
    for zone in geometry.zones() {
        for cylinder in zone.first_cylinder()..=zone.last_cylinder() {
            for head in 0..geometry.surfaces() {
                for sector in 0..zone.sectors() {
                    found += u64::from(geometry.block(Location { cylinder, head, sector }).is_some());
                }
            }
        }
    }
    assert_eq!(found, geometry.blocks(), "as many sectors hold a block as there are blocks");
}

#[test]
fn every_block_of_the_six_drives() {
    let Some(drives) = common::drives() else { return };
    for (name, specs) in common::DRIVES {
        let imported =
            import_files(&drives.join("parameters").join(specs), None, None).unwrap_or_else(|e| panic!("{e}"));
        let parameters = Parameters::read(&imported.part).unwrap();
        println!("{name}: {} blocks, notes {:?}", parameters.mechanism.geometry.blocks(), imported.notes);
        check(&parameters.mechanism.geometry);
    }
}
