//! Devices with blocks of 4 KiB beside such with 512 bytes: what may join which array, and what the array then takes.

use crate::common;

use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, Resync, Uuid};
use array::{Array, AssembleError, MemberState, OpenError, OpenOptions, Repair, format};
use common::image::data;
use common::superblocks;
use device::{Buffer, Device, DeviceError, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<MemoryDevice>;
const FIVE: (Level, usize, Consistency) = (Level::Raid5(Rotation::LeftSymmetric), 4, Consistency::Bitmap);
const ONE: (Level, usize, Consistency) = (Level::Raid1, 2, Consistency::Bitmap);
const SIZE: Bytes = Bytes::mib(4);
const PAGE: Bytes = Bytes::kib(4);
const NEW: Uuid = Uuid([99; 16]);

fn disk(runtime: &Runtime, block: Bytes) -> Disk {
    let shape = Shape { logical_block: block, physical_block: block, ..Shape::new("disk", SIZE) };
    Rc::new(MemoryDevice::new(runtime, shape))
}

/// Disks of an array that was stopped, all with such blocks, and where data begin on them.
fn made(runtime: &Runtime, case: (Level, usize, Consistency), block: Bytes) -> (Vec<Disk>, Bytes) {
    let superblocks = superblocks(case, Bytes::kib(16), SIZE, 1);
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(runtime, block)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    (disks, superblocks[0].data_offset)
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Result<Array<Disk>, OpenError> {
    runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default()))
}

fn write(runtime: &Runtime, array: &Array<Disk>, at: Bytes, length: usize) -> Result<(), DeviceError> {
    runtime.block_on(array.submit(Request::write(at, data(&vec![7; length])))).result
}

fn whole(array: &Array<Disk>) -> bool {
    (0..array.geometry().members()).all(|member| array.state(member) == MemberState::Active)
}

#[test]
fn a_device_with_larger_blocks_than_the_array_takes_does_not_join_it() {
    let runtime = Runtime::simulated();
    let (disks, data_offset) = made(&runtime, FIVE, Bytes::SECTOR);
    let array = open(&runtime, &disks).unwrap();
    let refused = DeviceError::Misaligned { offset: data_offset, length: Bytes::SECTOR, block: PAGE };
    let large = || disk(&runtime, PAGE);
    assert_eq!(runtime.block_on(array.replace(0, large(), data_offset, NEW)), Err(refused.clone()));
    assert_eq!(runtime.block_on(array.add_spare(large(), NEW)), Err(refused.clone()));
    array.fail(0);
    assert_eq!(runtime.block_on(array.rebuild(0, large(), data_offset, NEW)), Err(refused));
    // Who uses it goes on with small writes.
    write(&runtime, &array, Bytes::SECTOR, 512).unwrap();
    assert_eq!(array.losses_left(), Some(0));
}

#[test]
fn an_array_that_was_widened_takes_a_device_with_such_blocks() {
    let runtime = Runtime::simulated();
    let (disks, data_offset) = made(&runtime, FIVE, Bytes::SECTOR);
    let mut array = open(&runtime, &disks).unwrap();
    array.widen(PAGE);
    assert_eq!(array.shape().logical_block, PAGE);
    array.fail(0);
    runtime.block_on(array.rebuild(0, disk(&runtime, PAGE), data_offset, NEW)).unwrap();
    assert!(matches!(write(&runtime, &array, Bytes::SECTOR, 512), Err(DeviceError::Misaligned { .. })));
    write(&runtime, &array, PAGE, 4096).unwrap();
    assert!(whole(&array));
}

#[test]
fn the_blocks_of_a_spare_count_from_the_start() {
    let runtime = Runtime::simulated();
    let (mut disks, _) = made(&runtime, FIVE, Bytes::SECTOR);
    let mut array = open(&runtime, &disks).unwrap();
    array.widen(PAGE);
    disks.push(disk(&runtime, PAGE));
    runtime.block_on(array.add_spare(Rc::clone(&disks[4]), NEW)).unwrap();
    runtime.block_on(array.stop()).unwrap();
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(array.shape().logical_block, PAGE);
    array.fail(1);
    runtime.block_on(array.rebuild_on_spare(1)).unwrap().unwrap();
    write(&runtime, &array, PAGE, 4096).unwrap();
    assert!(whole(&array));
}

#[test]
fn copies_that_end_within_a_block_are_refused() {
    let runtime = Runtime::simulated();
    let mut superblocks = superblocks(ONE, Bytes::kib(16), SIZE, 1);
    // As mdadm --size=2049 makes it.
    superblocks.iter_mut().for_each(|superblock| superblock.size = Bytes::kib(2049));
    for block in [Bytes::SECTOR, PAGE] {
        let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime, block)).collect();
        runtime.block_on(format(&disks, &superblocks)).unwrap();
        match open(&runtime, &disks) {
            Ok(array) => assert!(!array.divides_into(PAGE) && block == Bytes::SECTOR),
            Err(error) => {
                let end = AssembleError::End { member: 0, block: PAGE, used: Bytes::kib(2049) };
                assert!(matches!(error, OpenError::Assemble(error) if error == end));
            }
        }
    }
}

#[test]
fn a_resync_goes_on_from_within_a_block() {
    let runtime = Runtime::simulated();
    let mut superblocks = superblocks(ONE, Bytes::kib(16), SIZE, 1);
    // As md leaves it that grew a mirror of 2049 KiB.
    superblocks.iter_mut().for_each(|superblock| superblock.resync = Resync::From(Bytes::kib(2049)));
    let disks: Vec<Disk> = superblocks.iter().map(|_| disk(&runtime, PAGE)).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = open(&runtime, &disks).unwrap();
    assert_eq!(runtime.block_on(array.resync()), Ok(true));
    assert!(whole(&array));
}

/// The power goes while an array of small blocks is written, and its disks are copied to such with large ones: no block
/// of these is what was logged, so all of it is made to fit.
#[test]
fn a_log_of_smaller_blocks_than_the_disks_have_is_not_believed() {
    let runtime = Runtime::simulated();
    let (disks, _) = made(&runtime, (FIVE.0, FIVE.1, Consistency::Ppl), Bytes::SECTOR);
    let array = open(&runtime, &disks).unwrap();
    write(&runtime, &array, Bytes::SECTOR, 512).unwrap();
    drop(array);
    let copy = |from: &Disk| {
        let read = runtime.block_on(from.submit(Request::read(Bytes::ZERO, Buffer::zeroed(SIZE))));
        let to = disk(&runtime, PAGE);
        let bytes = read.buffer.unwrap().freeze();
        runtime.block_on(to.submit(Request::write(Bytes::ZERO, bytes))).result.unwrap();
        to
    };
    for (disks, by_log) in [(disks.iter().map(copy).collect(), false), (disks.clone(), true)] {
        let array = open(&runtime, &disks).unwrap();
        assert_eq!((whole(&array), array.needs_resync()), (true, !by_log));
        assert_eq!(runtime.block_on(array.resync()), Ok(true));
        assert_eq!(runtime.block_on(array.scrub(Repair::No)).unwrap().mismatches, 0);
    }
}

#[test]
fn a_new_mirror_uses_whole_pages() {
    let superblocks = superblocks(ONE, Bytes::kib(16), SIZE + Bytes::SECTOR * 3, 1);
    assert!(superblocks.iter().all(|superblock| superblock.size.is_multiple_of(PAGE)));
}
