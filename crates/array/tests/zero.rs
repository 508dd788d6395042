//! What makes a device a member is erased, and nothing else.

use crate::common;

use std::cell::Cell;
use std::rc::Rc;

use array::geometry::{Level, Rotation};
use array::md::{Consistency, SUPERBLOCK_AT};
use array::{Array, OpenError, OpenOptions, add_checksums, checksum_room, erase, format, marks};
use common::rig::*;
use common::superblocks;
use device::{Buffer, Device, MemoryDevice, Reply, Request, Shape};
use runtime::Runtime;
use units::Bytes;

fn memory(runtime: &Runtime, size: Bytes, block: Bytes) -> MemoryDevice {
    MemoryDevice::new(runtime, Shape { logical_block: block, ..Shape::new("disk", size) })
}

fn all(runtime: &Runtime, device: &impl Device) -> Vec<u8> {
    let reply = runtime.block_on(device.submit(Request::read(Bytes::ZERO, Buffer::zeroed(device.shape().size))));
    reply.result.unwrap();
    reply.buffer.unwrap().bytes().unwrap().to_vec()
}

fn put(runtime: &Runtime, device: &impl Device, at: Bytes, bytes: &[u8]) {
    let block = device.shape().logical_block;
    let from = at.round_down(block);
    let length = (at + Bytes::new(bytes.len() as u64)).round_up(block) - from;
    let reply = runtime.block_on(device.submit(Request::read(from, Buffer::zeroed(length))));
    let mut buffer = reply.buffer.unwrap();
    let start = (at - from).as_usize();
    buffer.bytes_mut().unwrap()[start..start + bytes.len()].copy_from_slice(bytes);
    runtime.block_on(device.submit(Request::write(from, buffer.freeze()))).result.unwrap();
}

/// Erases what is found; gives what that was, and checks that nothing else has changed.
fn zero(runtime: &Runtime, device: &impl Device) -> Vec<String> {
    let before = all(runtime, device);
    let found = runtime.block_on(marks(device)).unwrap();
    runtime.block_on(erase(device, &found)).unwrap();
    let after = all(runtime, device);
    let is_inside = |at: u64| found.iter().any(|mark| mark.range.contains(&Bytes::new(at)));
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        let expected = if is_inside(at as u64) { 0 } else { *before };
        assert_eq!(*after, expected, "byte {at}");
    }
    assert_eq!(runtime.block_on(marks(device)).unwrap(), []);
    found.into_iter().map(|mark| format!("{} at {:#}", mark.what, mark.range.start)).collect()
}

#[test]
fn of_members_the_superblock_goes_and_what_belongs_to_it() {
    let five = Level::Raid5(Rotation::LeftSymmetric);
    let sb = "md superblock of version 1.2 at 4 KiB";
    let cases = [
        ((five, 3, Consistency::Resync), vec![sb]),
        ((Level::Raid1, 2, Consistency::Bitmap), vec![sb, "header of a bitmap at 8 KiB"]),
        ((five, 3, Consistency::Ppl), vec![sb, "partial parity log at 8 KiB"]),
        ((Level::Raid4, 3, Consistency::Ppl), vec![sb, "header of a bitmap at 8 KiB", "partial parity log at 128 KiB"]),
    ];
    for block in [Bytes::SECTOR, Bytes::kib(4)] {
        for (case, expected) in &cases {
            let runtime = Runtime::simulated();
            let superblocks = superblocks(*case, CHUNK, SIZE, 1);
            let disks: Vec<MemoryDevice> = superblocks.iter().map(|_| memory(&runtime, SIZE, block)).collect();
            for disk in &disks {
                put(&runtime, disk, Bytes::ZERO, &vec![0x5a; SIZE.as_usize()]);
            }
            runtime.block_on(format(&disks, &superblocks)).unwrap();
            assert_eq!(zero(&runtime, &disks[1]), *expected, "{case:?}");
            assert_eq!(zero(&runtime, &disks[1]), Vec::<String>::new());
        }
    }
}

#[test]
fn journals_and_checksums_go_with_their_members() {
    let runtime = Runtime::simulated();
    let case = (Level::Raid5(Rotation::LeftSymmetric), 3, Consistency::Journal);
    let with_journal = superblocks((case.0, 4, case.2), CHUNK, SIZE, 1);
    let disks: Vec<MemoryDevice> = with_journal.iter().map(|_| memory(&runtime, SIZE, Bytes::SECTOR)).collect();
    runtime.block_on(format(&disks, &with_journal)).unwrap();
    let found = zero(&runtime, disks.last().unwrap());
    assert_eq!(found, ["md superblock of version 1.2 at 4 KiB", "block of a journal at 1 MiB"]);
    let case = (Level::Raid1, 2, Consistency::Resync);
    let (superblocks, size) = (superblocks(case, CHUNK, SIZE, 1), SIZE + checksum_room(SIZE));
    let disks: Vec<MemoryDevice> = superblocks.iter().map(|_| memory(&runtime, size, Bytes::SECTOR)).collect();
    runtime.block_on(add_checksums(&disks, &superblocks)).unwrap();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let found = zero(&runtime, &disks[0]);
    assert!(found.iter().filter(|it| it.starts_with("header of checksums")).count() >= 1, "{found:?}");
}

/// Superblocks of other versions, with their bitmaps; and what only looks like one.
#[test]
fn superblocks_of_all_versions_are_found_where_they_belong() {
    let runtime = Runtime::simulated();
    let size = Bytes::mib(4) + Bytes::kib(20);
    let version_1 = |sector: u64, data: (u64, u64), bitmap: i32| {
        let mut bytes = vec![0u8; 256];
        bytes[..8].copy_from_slice(b"\xfc\x4e\x2b\xa9\x01\0\0\0");
        bytes[8] = u8::from(bitmap != 0);
        bytes[96..100].copy_from_slice(&bitmap.to_le_bytes());
        bytes[128..136].copy_from_slice(&data.0.to_le_bytes());
        bytes[136..144].copy_from_slice(&data.1.to_le_bytes());
        bytes[144..152].copy_from_slice(&sector.to_le_bytes());
        bytes
    };
    let end = (size.get() / 512 - 16) & !7;
    // 1.0 with its bitmap before it, behind the data.
    let disk = memory(&runtime, size, Bytes::SECTOR);
    put(&runtime, &disk, Bytes::SECTOR * end, &version_1(end, (0, end - 16), -16));
    put(&runtime, &disk, Bytes::SECTOR * (end - 16), b"bitm\x04\0\0\0");
    let found = zero(&runtime, &disk);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("version 1.0") && found[1].contains("header of a bitmap"), "{found:?}");
    // 1.1, and 0.90 in both orders of bytes.
    let disk = memory(&runtime, size, Bytes::SECTOR);
    put(&runtime, &disk, Bytes::ZERO, &version_1(0, (2048, 2048), 0));
    assert_eq!(zero(&runtime, &disk), ["md superblock of version 1.1 at 0 B"]);
    for magic in [b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc"] {
        put(&runtime, &disk, Bytes::mib(4) - Bytes::kib(64), magic);
        assert_eq!(zero(&runtime, &disk), ["md superblock of version 0.90 at 4032 KiB"]);
    }
    // Of a partition that ends where the disk does: it was written for another sector.
    put(&runtime, &disk, Bytes::SECTOR * end, &version_1(end - 2048, (0, 1024), 0));
    assert_eq!(zero(&runtime, &disk), Vec::<String>::new());
    // Of an array within the data of one of version 1.2.
    put(&runtime, &disk, SUPERBLOCK_AT, &version_1(8, (2048, end + 16 - 2048), 0));
    put(&runtime, &disk, Bytes::SECTOR * end, &version_1(end, (0, 1024), 0));
    let found = runtime.block_on(marks(&disk)).unwrap();
    assert!(found.len() == 1 && found[0].what.contains("1.2"), "{found:?}");
}

/// A disk of a program that is killed after so many writes.
struct Killed {
    disk: Disk,
    left: Rc<Cell<u64>>,
    runtime: Runtime,
}

impl Device for Killed {
    fn shape(&self) -> &Shape {
        self.disk.shape()
    }
    async fn submit(&self, request: Request) -> Reply {
        if request.operation == device::Operation::Write {
            match self.left.get() {
                0 => return request.refuse(device::DeviceError::Gone, self.runtime.now()),
                left => self.left.set(left - 1),
            }
        }
        self.disk.submit(request).await
    }
}

#[test]
fn an_array_of_which_some_members_were_erased_opens_or_says_that_they_are_missing() {
    for case in LEVELS {
        for writes in 0.. {
            let runtime = Runtime::simulated();
            let disks = disks(&runtime, case);
            let array = open(&runtime, &disks);
            let model = model(&array);
            let blocks = model.borrow().len();
            for number in (0..blocks).step_by(23) {
                let value = number as u64 + 1;
                runtime.block_on(array.submit(Request::write(BLOCK * number as u64, block(value)))).result.unwrap();
                model.borrow_mut()[number] = value;
            }
            runtime.block_on(array.stop()).unwrap();
            drop(array);
            let left = Rc::new(Cell::new(writes));
            let zeroed = async {
                for disk in &disks {
                    let disk = Killed { disk: Rc::clone(disk), left: Rc::clone(&left), runtime: runtime.clone() };
                    erase(&disk, &marks(&disk).await?).await?;
                }
                Ok::<_, device::DeviceError>(())
            };
            let done = runtime.block_on(zeroed).is_ok();
            match runtime.block_on(Array::open(&runtime, "array", disks.clone(), OpenOptions::default())) {
                Ok(array) => assert_holds(&runtime, &Rc::new(array), &model),
                Err(OpenError::TooFew { missing, .. }) => assert!(missing >= 1, "{case:?}, {writes}"),
                Err(error @ OpenError::None(_)) => {
                    assert!(done || writes >= case.1 as u64, "{case:?}, {writes}: {error}")
                }
                Err(error) => panic!("{case:?}, {writes}: {error}"),
            }
            if done {
                break;
            }
        }
    }
}
