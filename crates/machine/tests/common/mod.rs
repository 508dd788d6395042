//! The drives that tests use: one that does not exist, and the shared ones when they stand beside the repository.

#![allow(dead_code)] // each test uses its share

use std::path::PathBuf;

use machine::disk::diskspecs::import_files;
use machine::disk::parameters::{Parameters, Requested, Until, WriteBack};

/// The folder of measured drives, or a printed word that the test is skipped.
pub fn drives() -> Option<PathBuf> {
    let shared = std::env::var_os("ARRAYLAB_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")), PathBuf::from);
    let drives = shared.join("drives");
    if drives.join("README.md").exists() {
        return Some(drives);
    }
    eprintln!("skipped: no {} (set ARRAYLAB_SHARED)", drives.display());
    None
}

/// Trace, drive file.
pub const DRIVES: [(&str, &str); 6] = [
    ("barracuda", "barracuda.diskspecs"),
    ("cheetah4LP", "cheetah4LP.diskspecs"),
    ("atlas10k", "atlas10k.diskspecs"),
    ("hp_c2247a", "hp_c2247a.diskspecs"),
    ("hp_c3323a", "hp_c3323a_validate.diskspecs"),
    ("dec_rz26", "dec_rz26.diskspecs"),
];

/// The example drive of `tests/drive`, which does not exist.
pub fn example() -> Parameters {
    let specs = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drive/example.diskspecs"));
    Parameters::read(&import_files(&specs, None, None).unwrap().part).unwrap()
}

/// The example drive with a switch for each bit, and other numbers.
pub fn altered(switches: u32, segments: u32, segment_blocks: u64, until: usize, least: u64) -> Parameters {
    let mut parameters = example();
    let on = |bit: u32| switches >> bit & 1 == 1;
    let buffer = &mut parameters.buffer;
    (buffer.segments, buffer.segment_blocks) = (segments, segment_blocks);
    (buffer.caching, buffer.separate_write_segment, buffer.read_hits_on_written) = (on(0), on(1), on(2));
    (buffer.hit_on_block_being_read, buffer.never_disconnect, buffer.partial_hit_at_once) = (on(3), on(4), on(5));
    buffer.marks_by_request = on(6);
    buffer.write_segments = 1 + u32::from(on(7));
    let ahead = &mut parameters.read_ahead;
    ahead.until =
        [Until::Nothing, Until::Track, Until::Cylinder, Until::Segment, Until::NextTrack, Until::CylinderAtFirst]
            [until];
    (ahead.least, ahead.any_free_blocks, ahead.zero_latency, ahead.stops_in_sector) = (least, on(8), on(9), on(10));
    ahead.recalibrates = on(18);
    ahead.requested =
        [Requested::Kept, Requested::Overwritten, Requested::Dropped][(switches >> 11 & 3).min(2) as usize];
    let write = &mut parameters.write;
    write.back = [WriteBack::Never, WriteBack::Appending, WriteBack::Always][(switches >> 13 & 3).min(2) as usize];
    (write.combine, write.zero_latency, write.extra_disconnect) = (on(15), on(16), on(17));
    parameters
}
