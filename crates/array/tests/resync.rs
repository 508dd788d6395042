//! Resyncs that meet sectors which cannot be read: what they leave, what they say of it, and how they end.

use crate::common;

use std::cell::Cell;
use std::rc::Rc;

use array::geometry::Level;
use array::md::{Consistency, Resync, SUPERBLOCK_AT, Superblock};
use array::{Array, OpenOptions, Repair, format};
use common::image::data;
use common::{rig, superblocks};
use device::filter::{Damage, Medium};
use device::{Buffer, Device, MemoryDevice, Request, Shape};
use runtime::Runtime;
use units::Bytes;

type Disk = Rc<Medium<MemoryDevice>>;
const CHUNK: Bytes = Bytes::kib(4);
const ROW: Bytes = Bytes::kib(8);
const DATA_AT: Bytes = Bytes::mib(1);
const SIZE: Bytes = Bytes::kib(1024 + 400);

/// Level 4 over three, each chunk its own number, left dirty, with two sectors of data on member 0 that cannot be read,
/// and parity that does not fit in row 3 and in the first of the two's.
fn torn(runtime: &Runtime) -> Vec<Disk> {
    let superblocks = superblocks((Level::Raid4, 3, Consistency::Resync), CHUNK, SIZE, 1);
    let disk = || Rc::new(Medium::new(runtime, MemoryDevice::new(runtime, Shape::new("disk", SIZE))));
    let disks: Vec<Disk> = (0..3).map(|_| disk()).collect();
    runtime.block_on(format(&disks, &superblocks)).unwrap();
    let array = open(runtime, &disks);
    for chunk in 0..array.geometry().size() / CHUNK {
        write(runtime, &array, chunk, chunk as u8);
    }
    for row in [3, 40] {
        let spoilt = Request::write(DATA_AT + CHUNK * row, data(&[0xee; 4096]));
        runtime.block_on(disks[2].submit(spoilt)).result.unwrap();
    }
    for row in [40, 60] {
        let at = DATA_AT + CHUNK * row;
        disks[0].damage(at..at + Bytes::SECTOR, Damage::Unreadable);
    }
    disks
}

fn open(runtime: &Runtime, disks: &[Disk]) -> Array<Disk> {
    runtime.block_on(Array::open(runtime, "array", disks.to_vec(), OpenOptions::default())).unwrap()
}

fn write(runtime: &Runtime, array: &Array<Disk>, chunk: u64, fill: u8) {
    let request = Request::write(CHUNK * chunk, data(&[fill; 4096]));
    runtime.block_on(array.submit(request)).result.unwrap();
}

fn resync(runtime: &Runtime, array: &Array<Disk>) -> bool {
    runtime.block_on(array.resync()).unwrap()
}

fn said(runtime: &Runtime, disk: &Disk) -> Resync {
    let reply = runtime.block_on(disk.submit(Request::read(SUPERBLOCK_AT, Buffer::zeroed(Bytes::kib(4)))));
    Superblock::parse(reply.buffer.unwrap().bytes().unwrap()).unwrap().resync
}

#[test]
fn a_resync_leaves_what_cannot_be_read_and_goes_on_there() {
    let runtime = Runtime::simulated();
    let disks = torn(&runtime);
    let array = open(&runtime, &disks);
    assert!(array.needs_resync() && !resync(&runtime, &array));
    let left = [ROW * 40..ROW * 41, ROW * 60..ROW * 61];
    assert_eq!(array.resync_left(), left);
    runtime.block_on(array.stop()).unwrap();
    drop(array);
    // What is before the first of them fits, and no more is said.
    assert!(disks.iter().all(|disk| said(&runtime, disk) == Resync::From(CHUNK * 40)));
    assert_eq!(disks[0].damaged().len(), 2, "nothing was invented");

    let array = open(&runtime, &disks);
    assert!(!resync(&runtime, &array));
    assert_eq!(array.resync_left(), left);
    // Each is looked at once more, and nothing else.
    let looks = Rc::new(Cell::new(0));
    array.watch({
        let looks = Rc::clone(&looks);
        move |_| {
            looks.set(looks.get() + 1);
            true
        }
    });
    assert!(!resync(&runtime, &array));
    assert_eq!(looks.take(), 2);
    write(&runtime, &array, 80, 7);
    assert!(!resync(&runtime, &array));
    assert_eq!((looks.take(), array.resync_left()), (2, left[1..].to_vec()));
    assert_eq!(said(&runtime, &disks[0]), Resync::From(Bytes::ZERO), "it was written");

    // Of a read that is answered, what parity says is believed.
    let reply = runtime.block_on(array.submit(Request::read(CHUNK * 120, Buffer::zeroed(CHUNK))));
    assert_eq!((reply.result, reply.buffer.unwrap().bytes().unwrap()[0]), (Ok(()), 120));
    assert!(resync(&runtime, &array) && array.resync_left().is_empty());
    let found = runtime.block_on(array.scrub(Repair::No)).unwrap();
    assert_eq!((found.mismatches, found.unreadable), (0, 0));
    runtime.block_on(array.stop()).unwrap();
    assert!(disks.iter().all(|disk| said(&runtime, disk) == Resync::Clean));
}

/// With md's write-behind a write is answered before a member that is write-mostly has it. In a power cut that one
/// stays behind, whichever it is.
#[test]
fn of_a_mirror_the_member_that_linux_wrote_late_is_not_believed() {
    for late in 0..2 {
        let runtime = Runtime::simulated();
        let disks = rig::disks(&runtime, (Level::Raid1, 2, Consistency::Bitmap));
        let array = rig::open(&runtime, &disks);
        let at = rig::BLOCK * 7;
        runtime.block_on(array.submit(Request::write(at, rig::block(1)))).result.unwrap();
        let data_offset = rig::data_offset(&array);
        drop(array);
        let newer = Request::write(data_offset + at, rig::block(2));
        runtime.block_on(disks[1 - late].submit(newer)).result.unwrap();
        rig::edit(&runtime, &disks[late], |superblock| superblock.member_flags |= 1);
        let array = rig::open(&runtime, &disks);
        assert!(array.needs_resync());
        let expect = |when: &str| {
            let reads = (0..4).map(|_| array.submit(Request::read(at, Buffer::zeroed(rig::BLOCK))));
            for reply in runtime.block_on(futures_util::future::join_all(reads)) {
                reply.result.unwrap();
                assert!(reply.buffer.unwrap().bytes() == rig::block(2).bytes(), "member {late} is late, {when}");
            }
        };
        expect("before the resync");
        assert!(runtime.block_on(array.resync()).unwrap());
        expect("after it");
        rig::fits(&runtime, &array);
        array.fail(1 - late);
        expect("without the other");
    }
}
