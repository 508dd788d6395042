//! The suite that every device passes, on arrays of every level: without a state, and with each way of keeping
//! redundancy right.

use crate::common;

use array::geometry::{Copies, DoubleRotation, Geometry, Level, Rotation, Zones};
use array::md::{self, Consistency, NewArray, NewMember, Stamp, Uuid};
use array::{Array, OpenOptions, add_checksums, checksum_room, format};
use common::superblocks;
use device::{MemoryDevice, Shape, conformance};
use runtime::Runtime;
use units::Bytes;

const CHUNK: Bytes = Bytes::kib(64);
const SIZE: Bytes = Bytes::mib(8);
const FIVE: Level = Level::Raid5(Rotation::LeftSymmetric);
const SIX: Level = Level::Raid6(DoubleRotation::Together(Rotation::LeftSymmetric));

/// Of a disk: most have the first, those of "4K native" the second.
const BLOCKS: [Bytes; 2] = [Bytes::SECTOR, Bytes::kib(4)];

fn disk(runtime: &Runtime, size: Bytes, block: Bytes) -> MemoryDevice {
    MemoryDevice::new(runtime, Shape { logical_block: block, ..Shape::new("disk", size) })
}

#[test]
fn arrays_of_every_level() {
    for (level, members) in [
        (Level::Linear, 2),
        (Level::Raid0(Zones::Original), 3),
        (Level::Raid1, 2),
        (Level::Raid3, 3),
        (Level::Raid4, 3),
        (FIVE, 3),
        (FIVE, 4),
        (SIX, 4),
        (SIX, 5),
        (Level::Raid10(Copies::near(2)), 3),
        (Level::Raid10(Copies::far(2)), 4),
        (Level::Raid10(Copies::offset(2)), 3),
    ] {
        println!("{level}, {members} members");
        let runtime = Runtime::simulated();
        let chunk = if level == Level::Raid3 { Bytes::SECTOR } else { CHUNK };
        let geometry = Geometry::new(level, chunk, &vec![SIZE; members]).unwrap();
        let members = (0..members).map(|_| (disk(&runtime, SIZE, Bytes::SECTOR), Bytes::ZERO)).collect();
        conformance::check(&runtime, &Array::assemble(&runtime, "array", geometry, members).unwrap());
    }
}

#[test]
fn arrays_of_every_consistency_healthy_and_degraded() {
    for (level, members, consistency) in [
        (Level::Raid1, 2, Consistency::Bitmap),
        (Level::Raid4, 4, Consistency::Resync),
        (FIVE, 4, Consistency::Resync),
        (FIVE, 4, Consistency::Bitmap),
        (FIVE, 4, Consistency::Ppl),
        (SIX, 5, Consistency::Resync),
        (SIX, 5, Consistency::Bitmap),
        (SIX, 5, Consistency::Ppl),
        (Level::Raid4, 4, Consistency::Ppl),
        (Level::Raid10(Copies::near(2)), 4, Consistency::Bitmap),
    ] {
        let ways = [(false, false), (false, true), (true, false), (true, true)];
        for ((sums, degraded), block) in ways.into_iter().flat_map(|way| BLOCKS.map(|block| (way, block))) {
            println!("{level}, {members} members of {block}, {consistency:?}, checksums: {sums}, degraded: {degraded}");
            let runtime = Runtime::simulated();
            let superblocks = superblocks((level, members, consistency), CHUNK, SIZE, 1);
            let disks: Vec<MemoryDevice> =
                superblocks.iter().map(|_| disk(&runtime, SIZE + checksum_room(SIZE), block)).collect();
            let array = runtime.block_on(async {
                if sums {
                    add_checksums(&disks, &superblocks).await.unwrap();
                }
                format(&disks, &superblocks).await.unwrap();
                Array::open(&runtime, "array", disks, OpenOptions::default()).await.unwrap()
            });
            if degraded {
                array.fail(1);
            }
            conformance::check(&runtime, &array);
        }
    }
}

#[test]
fn arrays_with_a_journal() {
    let levels = [(Level::Raid4, 4), (FIVE, 4), (SIX, 5)];
    for ((level, members), block) in levels.into_iter().flat_map(|level| BLOCKS.map(|block| (level, block))) {
        println!("{level}, {members} members of {block}");
        let runtime = Runtime::simulated();
        let (name, array, consistency) = ("t".to_owned(), Uuid([1; 16]), Consistency::Journal);
        let new = NewArray { level, chunk: CHUNK, name, array, now: Stamp(0), consistency, clean: true };
        let sized: Vec<NewMember> =
            (0..=members).map(|member| NewMember { size: SIZE, member: Uuid([member + 2; 16]) }).collect();
        let (superblocks, _) = md::create(&new, &sized).unwrap();
        let disks: Vec<MemoryDevice> = superblocks.iter().map(|_| disk(&runtime, SIZE, block)).collect();
        let array = runtime.block_on(async {
            format(&disks, &superblocks).await.unwrap();
            Array::open(&runtime, "array", disks, OpenOptions::default()).await.unwrap()
        });
        conformance::check(&runtime, &array);
    }
}
